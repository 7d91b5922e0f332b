"""A tokenizer from what a run kept of it."""

from numformer.tokenizers.byte_pairs import BytePairTokenizer
from numformer.tokenizers.characters import CharacterTokenizer
from numformer.tokenizers.words import WordTokenizer

_KINDS = {"characters": CharacterTokenizer, "words": WordTokenizer, "byte_pairs": BytePairTokenizer}


def tokenizer_from_json(facts):
    """The tokenizer that `to_json` described.

    Parameters
    ----------
    facts : dict
        Its ``kind``, its ``special`` tokens (none, if that is missing), and under the name of its kind's pieces (``characters``,
        ``words``, ``merges``) the pieces themselves.

    Raises
    ------
    ValueError
        If its kind is unknown, or its pieces are missing or not fit.

    Examples
    --------
    >>> tokenizer_from_json({"kind": "characters", "special": ["[PAD]"], "characters": "ab"}).encode("ba")
    array([2, 1])
    """
    kind = facts.get("kind") if isinstance(facts, dict) else None
    if kind not in tuple(_KINDS):
        raise ValueError(f"tokenizer_from_json: {facts!r} is no tokenizer of this version; "
                         f"it reads kind {', '.join(map(repr, _KINDS))}.")
    pieces = "merges" if kind == "byte_pairs" else kind
    if pieces not in facts:
        raise ValueError(f"tokenizer_from_json: a tokenizer of kind {kind!r} has {pieces!r}, but {facts!r} is without.")
    return _KINDS[kind](facts[pieces], facts.get("special", ()))
