"""The model BPE of published tokenizers: merges of pairs, from bytes or from characters."""

from functools import lru_cache
from itertools import chain

from numformer.data.tokenizers.byte_merges import CHARACTER_OF, apply_merges, written
from numformer.data.tokenizers.published.fields import ids_of, read_fields, short_text

_LONG = 256                                           # characters of a word that is cut into parts


class BytePairModel:
    """Ids of words by merges of pairs.

    A word is a sequence of characters; in byte-level BPE these are its bytes, as GPT-2 writes them.
    Each character but the first gets the prefix, and the last the suffix. If that is no token, it
    becomes the tokens of its UTF-8 bytes, ``<0x00>`` to ``<0xFF>``, with `byte_fallback` and where
    there are all of them; else the unknown token; without one it is left out. The merges follow.

    Parameters
    ----------
    ids : dict
        The id of each token.
    merges : dict
        Of ids: (left, right) -> (rank, new).
    unknown : int, optional
        The id of the unknown token.
    fuse : bool
        Whether unknown characters in a row are one unknown token.
    byte_fallback : bool
    prefix, suffix : str
        Of what continues a word, and of what ends one.
    whole : bool
        Whether a word that is a token is that token, whatever the merges make of it.
    byte_level : bool

    References
    ----------
    Sennrich, Haddow, Birch (2016), "Neural Machine Translation of Rare Words with Subword Units",
    section 3.2, where the suffix is the end-of-word symbol. Bytes of unknown characters: Kudo,
    Richardson (2018), "SentencePiece", and its option byte_fallback.
    """

    def __init__(self, ids, merges, unknown=None, fuse=False, byte_fallback=False, prefix="",
                 suffix="", whole=False, byte_level=False):
        self.ids, self.unknown, self.fuse, self.byte_fallback = ids, unknown, fuse, byte_fallback
        self.prefix, self.suffix, self.whole, self.byte_level = prefix, suffix, whole, byte_level
        self._merges, tokens = merges, list(ids)
        self._joined = {(tokens[left][-1:], tokens[right][:1]) for left, right in merges}
        # Most words come again, and so do the parts of long ones
        self._of_word, self._of_part = (lru_cache(maxsize=2**16)(function)
                                        for function in (self._encode, self._merged))

    def encode_word(self, word):
        """The ids of a word, a list.

        Examples
        --------
        >>> ids = {"<unk>": 0, "a": 1, "b": 2, "b</w>": 3, "ab": 4, "ab</w>": 5}
        >>> merges = {(1, 2): (0, 4), (1, 3): (1, 5)}
        >>> BytePairModel(ids, merges, unknown=0, suffix="</w>").encode_word("abcab")
        [4, 0, 5]
        """
        return self._of_word(word) if len(word) <= _LONG else self._encode(word)

    def _encode(self, word):
        if self.byte_level:
            word = written(word.encode("utf-8", "surrogatepass"))
        if self.whole and word in self.ids:
            return [self.ids[word]]
        if len(word) <= _LONG:
            return self._merged(word)
        return list(chain.from_iterable([
            self._of_part(part) if len(part) <= _LONG else self._merged(part)
            for part in self._parts(word)]))

    def _parts(self, word):
        """A word that is cut where no merge joins the characters on both sides, if both are tokens.

        A token that is merged across (x, y) has a left part that ends with x, and a right part that
        begins with y. So each part has the tokens that it has in the word. A whole text may be one
        word, as LLaMA has it, and its parts are mostly words of the language.
        """
        ids, joined, start = self.ids, self._joined, 0
        for end, pair in enumerate(zip(word, word[1:]), 1):
            if pair not in joined and pair[0] in ids and pair[1] in ids and not (
                    self.prefix or self.suffix):
                yield word[start:end]
                start = end
        yield word[start:]

    def _merged(self, word):
        return apply_merges(self._symbols(word), self._merges)

    def _symbols(self, word):
        """The ids of a word before all merges."""
        found, is_waiting, last = [], False, len(word) - 1
        for i, character in enumerate(word):
            token = (self.prefix if i else "") + character + (self.suffix if i == last else "")
            number = self.ids.get(token)
            if number is None and self.byte_fallback:
                numbers = [self.ids.get(f"<0x{byte:02X}>")
                           for byte in token.encode("utf-8", "surrogatepass")]
                if None not in numbers:
                    found += numbers                  # an unknown token waits, as in Tokenizers
                    continue
            if is_waiting and (number is not None or not self.fuse):
                found.append(self.unknown)
                is_waiting = False
            if number is not None:
                found.append(number)
            else:
                is_waiting = self.unknown is not None
        return found + [self.unknown] * is_waiting


def _rules(facts, ids, prefix):
    """Merges of ids: (left, right) -> (rank, new)."""
    rules = {}
    for rank, pair in enumerate(facts):
        pair = pair.split(" ") if isinstance(pair, str) else pair
        known = isinstance(pair, list) and len(pair) == 2 and all(
            isinstance(token, str) and token in ids for token in pair)
        new = ids.get(pair[0] + pair[1][len(prefix):]) if known else None
        if new is None:
            raise ValueError(f"tokenizer.json: merge {rank} of the model is no pair of two tokens "
                             "of its vocab that make another one.")
        rules[ids[pair[0]], ids[pair[1]]] = rank, new
    if len(rules) < len(facts):
        raise ValueError("tokenizer.json: the model's merges hold a pair twice.")
    return rules


def read_byte_pairs(facts, byte_level):
    """The model BPE of a tokenizer.json.

    Parameters
    ----------
    facts : dict
    byte_level : bool
        Whether words are bytes: the pre-tokenizer ends with ByteLevel.

    Returns
    -------
    BytePairModel

    Raises
    ------
    ValueError
        If an option is not supported, or the vocabulary is broken.
    """
    _, unknown, prefix, suffix, fuse, byte_fallback, whole, vocab, merges = read_fields(
        "model BPE", facts, dropout=[None, 0.0, 0], unk_token=[None, str],
        continuing_subword_prefix=[None, str], end_of_word_suffix=[None, str],
        fuse_unk=[False, True], byte_fallback=[False, True], ignore_merges=[False, True],
        vocab=[dict], merges=[list])
    ids = ids_of(vocab)
    prefix = short_text("continuing_subword_prefix of model BPE", prefix or "")
    suffix = short_text("end_of_word_suffix of model BPE", suffix or "")
    if not prefix.isascii():
        raise ValueError(f"tokenizer.json: model BPE has continuing_subword_prefix={prefix[:40]!r},"
                         " which is not supported; supported are characters of ASCII.")
    missing = byte_level and any(
        before + character + after not in ids for character in CHARACTER_OF.values()
        for before in {"", prefix} for after in {"", suffix})
    # Bytes without a token are left out where there is no unknown token, as in Tokenizers
    if unknown not in (None, *ids) and (missing or not byte_level):
        raise ValueError(f"tokenizer.json: model.vocab does not hold unk_token={unknown[:40]!r}.")
    return BytePairModel(ids, _rules(merges, ids, prefix), ids.get(unknown), fuse, byte_fallback,
                         prefix, suffix, whole, byte_level)
