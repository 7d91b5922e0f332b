"""Fields of a tokenizer.json: each has to be known, and to have a value that is supported."""

from reprlib import repr as brief

from numformer.data.tokenizers.regex_search import Search, literal
from numformer.data.tokenizers.regexes import parsed

MOST_CHARACTERS = 500                                 # of a token, or what is added to each
MOST_STEPS = 100                                      # of a normalizer, or a decoder, ...


def read_fields(where, facts, **fields):
    """The values of the fields of an object; what changes ids and is unknown is refused by name.

    Parameters
    ----------
    where : str
        What the object is, for errors.
    facts : dict
    fields : dict of lists
        For each name the values, and types of values, that are supported. A field that is missing
        has the first of them; a type there means that it may not be missing.

    Returns
    -------
    list
        The values in the order of `fields`.

    Examples
    --------
    >>> read_fields("decoder", {"prefix": "##"}, prefix=[str], cleanup=[True, False])
    ['##', True]
    >>> read_fields("decoder", {"prefix": "##", "colour": 1}, prefix=[str])
    Traceback (most recent call last):
    ValueError: tokenizer.json: decoder has the unknown field 'colour'.
    """
    if not isinstance(facts, dict):
        raise ValueError(f"tokenizer.json: {where} must be an object, but is {brief(facts)}.")
    unknown = sorted(facts.keys() - fields.keys() - {"type"})
    if unknown:
        raise ValueError(f"tokenizer.json: {where} has the unknown field {brief(unknown[0])}.")
    values = []
    for name, supported in fields.items():
        if name not in facts and isinstance(supported[0], type):
            raise ValueError(f"tokenizer.json: {where} has no field {name!r}.")
        value = facts.get(name, supported[0])
        if not any(type(value) is known if isinstance(known, type)
                   else type(value) is type(known) and value == known for known in supported):
            choices = ", ".join(getattr(known, "__name__", repr(known)) for known in supported)
            raise ValueError(f"tokenizer.json: {where} has {name}={brief(value)}, which is not "
                             f"supported; supported are {choices}.")
        values.append(value)
    return values


def type_of(where, facts, known):
    """The type of an object, one of those that are known.

    Examples
    --------
    >>> type_of("decoder", {"type": "Fuse"}, ["ByteLevel"])
    Traceback (most recent call last):
    ValueError: tokenizer.json: decoder has the type 'Fuse', which is not supported; supported are \
'ByteLevel'.
    """
    kind = facts.get("type") if isinstance(facts, dict) else facts
    if kind not in tuple(known):
        raise ValueError(f"tokenizer.json: {where} has the type {brief(kind)}, which is not "
                         f"supported; supported are {', '.join(map(repr, known))}.")
    return kind


def flattened(where, facts, parts):
    """The steps of a normalizer or pre-tokenizer: none, one, or those of its sequences.

    Raises
    ------
    ValueError
        If there are more than `MOST_STEPS`.
    """
    steps, waiting = [], [] if facts is None else [facts]
    while waiting:
        step = waiting.pop(0)
        if isinstance(step, dict) and step.get("type") == "Sequence":
            inner, = read_fields(where, step, **{parts: [list]})
            waiting[:0] = inner[:MOST_STEPS + 1]
        else:
            steps.append(step)
        if len(steps) > MOST_STEPS:
            raise ValueError(f"tokenizer.json: {where} has more than {MOST_STEPS} steps, which is "
                             "not supported.")
    return steps


def ids_of(vocab):
    """The ids of a vocabulary in their order.

    Examples
    --------
    >>> ids_of({"b": 1, "a": 0})
    {'a': 0, 'b': 1}
    """
    if set(map(type, vocab.values())) - {int} or sorted(vocab.values()) != list(range(len(vocab))):
        raise ValueError("tokenizer.json: the ids of model.vocab must be 0, 1, ... without gaps.")
    return dict(sorted(vocab.items(), key=lambda item: item[1]))


def longest_token(ids):
    """How many characters the longest token has, of a model that tries all lengths at each one.

    Raises
    ------
    ValueError
        If it has more than `MOST_CHARACTERS`.
    """
    longest = max(ids, key=len, default="")
    if len(longest) > MOST_CHARACTERS:
        raise ValueError(f"tokenizer.json: the token {longest[:40]!r} of model.vocab has "
                         f"{len(longest)} characters; at most {MOST_CHARACTERS} are supported.")
    return len(longest)


def short_text(where, text):
    """A text that is added to each character or word; ValueError if it is long.

    Examples
    --------
    >>> short_text("model BPE: continuing_subword_prefix", "##")
    '##'
    """
    if len(text) > MOST_CHARACTERS:
        raise ValueError(f"tokenizer.json: {where} has {len(text)} characters; at most "
                         f"{MOST_CHARACTERS} are supported.")
    return text


def read_pattern(where, pattern):
    r"""The pattern of a step, a string or a regular expression: a `Search`.

    Raises
    ------
    ValueError
        If it is empty, or `parsed` does not know a part of it.

    Examples
    --------
    >>> read_pattern("the step", {"String": "a.b"}).split("a.baab")
    ['', 'a.b', 'aab']
    >>> read_pattern("the step", {"Regex": "b+|c"}).split("abbac")
    ['a', 'bb', 'a', 'c', '']
    """
    text, regex = read_fields(f"pattern of {where}", pattern, String=[None, str],
                              Regex=[None, str])
    if not text and not regex or None not in (text, regex):
        raise ValueError(f"tokenizer.json: {where} has an empty pattern, or two.")
    try:
        return literal(text) if text else Search(parsed(regex))
    except ValueError as error:
        raise ValueError(f"tokenizer.json: {where}: {error}") from None
