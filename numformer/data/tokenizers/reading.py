"""A tokenizer from its JSON description, as a checkpoint holds it."""

from reprlib import repr as brief

from numformer.data.tokenizers.byte_pairs import BytePairTokenizer
from numformer.data.tokenizers.characters import CharacterTokenizer
from numformer.data.tokenizers.published.pipeline import PublishedTokenizer
from numformer.data.tokenizers.unigram import UnigramTokenizer
from numformer.data.tokenizers.wordpiece import WordPieceTokenizer
from numformer.data.tokenizers.words import WordTokenizer

# Of each kind: its class, the fields that it needs, and those that it may have
_KINDS = {
    "characters": (CharacterTokenizer, ("characters",), ("special",)),
    "words": (WordTokenizer, ("words",), ("special",)),
    "byte_pairs": (BytePairTokenizer, ("merges",), ("special", "split", "order")),
    "wordpiece": (WordPieceTokenizer, ("tokens",), ("special", "lowercase")),
    "unigram": (UnigramTokenizer, ("tokens", "scores"), ("special",)),
    "published": (PublishedTokenizer, ("description",), ()),
}


def tokenizer_from_json(facts):
    """The tokenizer that `to_json` described.

    Parameters
    ----------
    facts : dict
        Its ``kind``, its ``special`` tokens (none by default), and its ``characters``, ``words``,
        ``merges``, ``tokens`` or ``description``, whichever belong to the kind, with the options
        of that kind.

    Raises
    ------
    ValueError
        If its kind is unknown, or its vocabulary is missing or malformed.

    Examples
    --------
    >>> facts = {"kind": "characters", "special": ["[PAD]"], "characters": "ab"}
    >>> tokenizer_from_json(facts).encode("ba")
    array([2, 1])
    """
    kind = facts.get("kind") if isinstance(facts, dict) else None
    if kind not in tuple(_KINDS):
        raise ValueError(f"tokenizer_from_json: {brief(facts)} is no tokenizer of this version; "
                         f"it reads kind {', '.join(map(repr, _KINDS))}.")
    make, needed, options = _KINDS[kind]
    missing = [name for name in needed if name not in facts]
    if missing:
        raise ValueError(f"tokenizer_from_json: a tokenizer of kind {kind!r} needs {missing[0]!r}, "
                         f"but {brief(facts)} has none.")
    known = (*needed, *options)
    unknown = sorted(facts.keys() - {"kind", *known})
    if unknown:
        raise ValueError(f"tokenizer_from_json: a tokenizer of kind {kind!r} has no "
                         f"{brief(unknown)}; it has {', '.join(map(repr, known))}.")
    special = {"special": ()} if "special" in options else {}
    return make(**special | {name: facts[name] for name in known if name in facts})
