"""Models of published tokenizers: from a word to the ids of its tokens."""

from functools import lru_cache
from math import inf

from numformer.data.tokenizers.published.byte_pairs import read_byte_pairs
from numformer.data.tokenizers.published.fields import ids_of, longest_token, read_fields, type_of
from numformer.data.tokenizers.unigram import UnigramModel
from numformer.data.tokenizers.wordpiece import longest_match


def _wordpiece(facts):
    unknown, prefix, longest, vocab = read_fields(
        "model WordPiece", facts, unk_token=[str], continuing_subword_prefix=["##", str],
        max_input_chars_per_word=[100, int], vocab=[dict])
    ids = ids_of(vocab)
    if unknown not in ids:
        raise ValueError(f"tokenizer.json: model.vocab does not hold unk_token={unknown[:40]!r}.")
    most = longest_token(ids)

    def encode_word(word):
        found = longest_match(word, ids, prefix, most) if len(word) <= longest else None
        return [ids[unknown]] if found is None else found
    return ids, lru_cache(maxsize=2**16)(encode_word)


def _unigram(facts):
    unknown, vocab, byte_fallback = read_fields(
        "model Unigram", facts, unk_id=[None, int], vocab=[list], byte_fallback=[False, True],
        alpha=[None], nbest_size=[None])[:3]
    if not vocab or not all(isinstance(row, list) and len(row) == 2 and isinstance(row[0], str)
                            and row[0] and type(row[1]) in (int, float) and abs(row[1]) < inf
                            for row in vocab):
        raise ValueError("tokenizer.json: model.vocab must be a list of [token, score], at least "
                         "one.")
    ids = {token: i for i, (token, _) in enumerate(vocab)}
    longest_token(ids)
    if len(ids) < len(vocab):
        raise ValueError("tokenizer.json: model.vocab holds a token twice.")
    if unknown is not None and not 0 <= unknown < len(ids):
        raise ValueError(f"tokenizer.json: unk_id={unknown} is none of the {len(ids)} ids.")
    return ids, UnigramModel(ids, [score for _, score in vocab], unknown, byte_fallback).encode_word


_MODELS = ("BPE", "Unigram", "WordPiece")
# Older files, such as GPT-2's and BERT's, do not name the type: a field tells it, in this order
_TYPE_OF = {"merges": "BPE", "continuing_subword_prefix": "WordPiece", "unk_id": "Unigram"}


def type_of_model(facts):
    """The type of a model.

    Examples
    --------
    >>> type_of_model({"vocab": {}, "merges": []})
    'BPE'
    """
    if "type" not in facts:
        facts = {"type": next((_TYPE_OF[name] for name in _TYPE_OF if name in facts), None)}
    return type_of("model", facts, _MODELS)


def read_model(facts, byte_level):
    """The model of a tokenizer.json: the ids of its tokens, and a function from a word to its ids.

    Parameters
    ----------
    facts : dict
    byte_level : bool
        Whether the pre-tokenizer gives bytes, which is for BPE alone.

    Raises
    ------
    ValueError
        If an option is not supported, or its vocabulary is broken.
    """
    kind = type_of_model(facts)
    if kind == "BPE":
        model = read_byte_pairs(facts, byte_level)
        return model.ids, model.encode_word
    return _unigram(facts) if kind == "Unigram" else _wordpiece(facts)
