"""A tokenizer from its JSON description, as a checkpoint holds it."""

from reprlib import repr as brief

from numformer.data.tokenizers.byte_pairs import BytePairTokenizer
from numformer.data.tokenizers.characters import CharacterTokenizer
from numformer.data.tokenizers.words import WordTokenizer

_KINDS = {"characters": CharacterTokenizer, "words": WordTokenizer, "byte_pairs": BytePairTokenizer}


def tokenizer_from_json(facts):
    """The tokenizer that `to_json` described.

    Parameters
    ----------
    facts : dict
        Its ``kind``, its ``special`` tokens (none by default), and its ``characters``, ``words`` or
        ``merges``, whichever belong to the kind.

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
    vocabulary = "merges" if kind == "byte_pairs" else kind
    if vocabulary not in facts:
        raise ValueError(f"tokenizer_from_json: a tokenizer of kind {kind!r} needs {vocabulary!r}, "
                         f"but {brief(facts)} has none.")
    unknown = sorted(facts.keys() - {"kind", "special", vocabulary})
    if unknown:
        raise ValueError(f"tokenizer_from_json: a tokenizer of kind {kind!r} has no "
                         f"{brief(unknown)}; it has 'special' and {vocabulary!r}.")
    return _KINDS[kind](facts[vocabulary], facts.get("special", ()))
