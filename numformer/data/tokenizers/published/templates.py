"""Templates: the special tokens that stand around a text, or around two."""

from numformer.data.tokenizers.published.fields import flattened, read_fields, type_of

MOST_PARTS = 1000                                     # of templates, and ids in them


def _around(facts, names):
    """BERT's and RoBERTa's processors: (tokens before, between and after)."""
    options = dict(sep=[list], cls=[list])
    if facts["type"] == "RobertaProcessing":
        options |= dict(trim_offsets=[True, False], add_prefix_space=[True, False])
    sep, cls = read_fields(f"post_processor {facts['type']}", facts, **options)[:2]
    if not all(len(pair) == 2 and isinstance(pair[0], str) and pair[0] in names
               and pair[1] == names[pair[0]] for pair in (sep, cls)):
        raise ValueError(f"tokenizer.json: post_processor {facts['type']} names no tokens with "
                         "their ids.")
    cls, sep = (cls[1], 0), (sep[1], 0)
    if facts["type"] == "RobertaProcessing":
        return [cls, ("A", 0), sep], [cls, ("A", 0), sep, sep, ("B", 0), sep]
    return [cls, ("A", 0), sep], [cls, ("A", 0), sep, ("B", 1), (sep[0], 1)]


def _template(facts, ids):
    """The template of each number of texts, as (id or text, segment) pairs."""
    *rows, special = read_fields("post_processor TemplateProcessing", facts, single=[list],
                                 pair=[list], special_tokens=[dict])
    numbers, known = {}, set(ids.values())
    for name, token in special.items():
        _, inside, _ = read_fields(f"special token {name[:40]!r} of the post_processor", token,
                                   id=[str], ids=[list], tokens=[list])
        if not all(type(i) is int and i in known for i in inside):
            raise ValueError(f"tokenizer.json: the special token {name[:40]!r} of the "
                             "post_processor has ids of no tokens.")
        numbers[name] = inside
    if sum(map(len, rows)) + sum(map(len, numbers.values())) > MOST_PARTS:
        raise ValueError(f"tokenizer.json: the post_processor has more than {MOST_PARTS} parts, "
                         "which is not supported.")
    return [[part for step in row for part in _part(step, numbers)] for row in rows]


def _part(step, numbers):
    where = "template of the post_processor"
    sequence, special = read_fields(where, step, Sequence=[None, dict], SpecialToken=[None, dict])
    if (sequence is None) == (special is None):
        raise ValueError(f"tokenizer.json: {where} must hold texts and special tokens alone.")
    if sequence:
        text, segment = read_fields(where, sequence, id=["A", "B"], type_id=[int])
        return [(text, segment)]
    name, segment = read_fields(where, special, id=[str], type_id=[int])
    if name not in numbers:
        raise ValueError(f"tokenizer.json: {where} names {name[:40]!r}, which is none of its "
                         "special tokens.")
    return [(number, segment) for number in numbers[name]]


_TYPES = ("BertProcessing", "ByteLevel", "RobertaProcessing", "TemplateProcessing")


def read_templates(facts, ids):
    """The post_processor of a tokenizer.json: the templates of one text and of two.

    Parameters
    ----------
    facts : dict or None
    ids : dict
        The ids of all tokens by their names.

    Returns
    -------
    list of two lists
        Of pairs: the id of a special token, or "A" or "B" for a text; and its segment.

    Raises
    ------
    ValueError
        If it is not supported, or names tokens that do not exist.
    """
    found = [[("A", 0)], [("A", 0), ("B", 1)]]
    steps = [step for step in flattened("post_processor", facts, "processors")
             if type_of("post_processor", step, _TYPES) != "ByteLevel"]
    if len(steps) > 1:
        raise ValueError("tokenizer.json: post_processor has two templates; one is supported.")
    for step in steps:
        found = (_template if step["type"] == "TemplateProcessing" else _around)(step, ids)
    for row, texts in zip(found, ("A", "AB")):
        if sorted(part for part, _ in row if isinstance(part, str)) != list(texts):
            raise ValueError("tokenizer.json: a template of the post_processor must hold each text "
                             "once.")
    return found
