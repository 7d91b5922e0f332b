"""Models of published tokenizers: from a word to the ids of its tokens."""

from functools import lru_cache
from math import inf

from numformer.data.tokenizers.byte_merges import CHARACTER_OF, apply_merges, written
from numformer.data.tokenizers.published.fields import read_fields, type_of
from numformer.data.tokenizers.unigram import UnigramModel
from numformer.data.tokenizers.wordpiece import longest_match


def _checked_ids(vocab):
    if set(map(type, vocab.values())) - {int} or sorted(vocab.values()) != list(range(len(vocab))):
        raise ValueError("tokenizer.json: the ids of model.vocab must be 0, 1, ... without gaps.")
    return dict(sorted(vocab.items(), key=lambda item: item[1]))


def _merges(facts, ids):
    rules = {}
    for rank, pair in enumerate(facts):
        pair = pair.split(" ") if isinstance(pair, str) else pair
        known = isinstance(pair, list) and len(pair) == 2 and all(
            isinstance(token, str) and token in ids for token in pair)
        if not known or "".join(pair) not in ids:
            raise ValueError(f"tokenizer.json: merge {rank} of the model is no pair of two tokens "
                             "of its vocab that make another one.")
        rules[ids[pair[0]], ids[pair[1]]] = rank, ids["".join(pair)]
    if len(rules) < len(facts):
        raise ValueError("tokenizer.json: the model's merges hold a pair twice.")
    return rules


def _byte_pairs(facts):
    *_, whole, vocab, merges = read_fields(
        "model BPE", facts, dropout=[None, 0.0, 0], unk_token=[None, str],
        continuing_subword_prefix=[None, ""], end_of_word_suffix=[None, ""],
        fuse_unk=[False, True], byte_fallback=[False], ignore_merges=[False, True],
        vocab=[dict], merges=[list])
    ids = _checked_ids(vocab)
    missing = [byte for byte, character in CHARACTER_OF.items() if character not in ids]
    if missing:
        raise ValueError(f"tokenizer.json: model.vocab has no token for the byte {missing[0]}; "
                         "byte-level BPE needs all 256.")
    rules = _merges(merges, ids)
    id_of = [ids[CHARACTER_OF[byte]] for byte in range(256)]

    def encode_word(word):
        data = word.encode("utf-8", "surrogatepass")
        if whole and written(data) in ids:
            return [ids[written(data)]]
        return apply_merges([id_of[byte] for byte in data], rules)
    return ids, lru_cache(maxsize=2**16)(encode_word)


def _wordpiece(facts):
    unknown, prefix, longest, vocab = read_fields(
        "model WordPiece", facts, unk_token=[str], continuing_subword_prefix=["##", str],
        max_input_chars_per_word=[100, int], vocab=[dict])
    ids = _checked_ids(vocab)
    if unknown not in ids:
        raise ValueError(f"tokenizer.json: model.vocab does not hold unk_token={unknown[:40]!r}.")
    most = max(map(len, ids))

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
    if len(ids) < len(vocab):
        raise ValueError("tokenizer.json: model.vocab holds a token twice.")
    if unknown is not None and not 0 <= unknown < len(ids):
        raise ValueError(f"tokenizer.json: unk_id={unknown} is none of the {len(ids)} ids.")
    return ids, UnigramModel(ids, [score for _, score in vocab], unknown, byte_fallback).encode_word


_MODELS = {"BPE": _byte_pairs, "Unigram": _unigram, "WordPiece": _wordpiece}


def read_model(facts):
    """The model of a tokenizer.json: its type, the ids of its tokens, and a function from a word
    to its ids.

    Raises
    ------
    ValueError
        If an option is not supported, or its vocabulary is broken.
    """
    kind = type_of("model", facts, _MODELS)
    return kind, *_MODELS[kind](facts)
