"""Unigram: of all ways to cut a word into known tokens, the one of the highest probability."""

from functools import lru_cache
from math import inf

from numformer.checks import check_whole
from numformer.data.tokenizers.base import check_text
from numformer.data.tokenizers.splitting import META, split_meta
from numformer.data.tokenizers.unigram_training import learn_tokens
from numformer.data.tokenizers.vocabulary import VocabularyTokenizer

SPECIAL = ("<pad>", "</s>", "<unk>")
UNKNOWN = "<unk>"
PENALTY = 10.0                                        # below the least score: an unknown character


def viterbi(word, scores, longest, unknown):
    """The tokens of a word with the highest sum of scores.

    best[j] is the score of the best tokens of word[:j]:

        best[0] = 0,   best[j] = max over i < j of best[i] + scores[word[i:j]]

    and start[j] the i that reaches it; of equal ones the first. A character that is no token has
    the score `unknown`.

    Parameters
    ----------
    word : str
    scores : dict
        The log probability of every token.
    longest : int
        Characters of the longest token.
    unknown : float

    Returns
    -------
    list of str

    References
    ----------
    Kudo (2018), "Subword Regularization", eq. 7; Viterbi (1967).

    Examples
    --------
    >>> scores = {"h": -3.0, "e": -3.0, "he": -4.0, "hel": -5.0, "lo": -4.0}
    >>> viterbi("hello", scores, 3, -20.0)
    ['hel', 'lo']
    >>> viterbi("hexe", scores, 3, -20.0)
    ['he', 'x', 'e']
    """
    n = len(word)
    best, start = [0.0] + [-inf] * n, [None] * (n + 1)
    for i in range(n):
        before = best[i]
        for j in range(i + 1, min(n, i + longest) + 1):
            score = scores.get(word[i:j])
            if score is not None and (score + before > best[j] or start[j] is None):
                best[j], start[j] = score + before, i
        if word[i] not in scores and (unknown + before > best[i + 1] or start[i + 1] is None):
            best[i + 1], start[i + 1] = unknown + before, i
    tokens, end = [], n
    while end:
        tokens.append(word[start[end]:end])
        end = start[end]
    return tokens[::-1]


class UnigramModel:
    """Ids of words by `viterbi`, as SentencePiece numbers them.

    Unknown characters in a row are one unknown token, or with `byte_fallback` the tokens of their
    UTF-8 bytes, ``<0x00>`` to ``<0xFF>``.

    Parameters
    ----------
    ids : dict
        The id of each token.
    scores : sequence of float
        Their log probabilities, in the order of `ids`.
    unknown : int, optional
        The id of what is unknown.
    byte_fallback : bool
    """

    def __init__(self, ids, scores, unknown, byte_fallback=False):
        self.ids, self.unknown, self.byte_fallback = ids, unknown, byte_fallback
        self._scores = dict(zip(ids, scores))
        self._unknown_token = next((token for token, i in ids.items() if i == unknown), None)
        self._longest = max(map(len, ids))
        self._least = min(scores) - PENALTY
        self.encode_word = lru_cache(maxsize=2**16)(self._cut)        # most words come again

    def _cut(self, word):
        ids, waiting = [], ""
        for token in viterbi(word, self._scores, self._longest, self._least):
            if token not in self.ids or token == self._unknown_token:
                waiting += token
                continue
            ids += self._unknown_ids(waiting)
            ids.append(self.ids[token])
            waiting = ""
        return ids + self._unknown_ids(waiting)

    def _unknown_ids(self, text):
        if not text:
            return []
        if text in self.ids:
            return [self.ids[text]]
        if self.byte_fallback:
            names = [f"<0x{byte:02X}>" for byte in text.encode("utf-8", "surrogatepass")]
            if all(name in self.ids for name in names):
                return [self.ids[name] for name in names]
        if self.unknown is None:
            raise ValueError(f"UnigramModel: the text holds {text[:20]!r}, but there is no token "
                             "for what is unknown.")
        return [self.unknown]


def join_meta(tokens, strip=True):
    """The text of tokens in which ▁ is a space; without the one that `split_meta` put before it.

    Examples
    --------
    >>> join_meta(["▁to", "▁be", "s"])
    'to bes'
    """
    first = tokens[0].replace(META, "" if strip else " ") if tokens else ""
    return first + "".join(tokens[1:]).replace(META, " ")


class UnigramTokenizer(VocabularyTokenizer):
    """One id for every token of a unigram language model: p(text) is the product of p(token).

    Spaces are written as ▁, the text begins with one, and is split before each (`split_meta`). A
    word is cut into the tokens of the highest probability (`viterbi`).

    Parameters
    ----------
    tokens : sequence of str
        The vocabulary in the order of ids.
    scores : sequence of float
        The log probability of each token.
    special : tuple of str
        Names of special tokens: their ids come before the tokens'. ``<unk>`` is among them; unknown
        characters in a row are one.

    Raises
    ------
    ValueError
        If there are no tokens, one is empty or given twice, a score is missing or not finite, or
        there is no ``<unk>``.

    References
    ----------
    Kudo (2018), "Subword Regularization", section 3.2.

    Examples
    --------
    >>> tokenizer = UnigramTokenizer.of("low lower lowest slow slower slowest " * 9, n_tokens=14)
    >>> ids = tokenizer.encode("slowest lot")
    >>> [tokenizer.tokens[i - 3] for i in ids], tokenizer.decode(ids)
    (['▁slowest', '▁', 'l', 'o', 't'], 'slowest lot')
    """

    def __init__(self, tokens, scores, special=SPECIAL):
        super().__init__(tokens, special, UNKNOWN)
        if (not isinstance(scores, (tuple, list)) or len(scores) != len(tokens)
                or not all(type(score) in (int, float) and abs(score) < inf for score in scores)):
            raise ValueError(f"UnigramTokenizer: scores must be {len(tokens)} finite numbers, one "
                             "for each token.")
        self.scores = tuple(map(float, scores))
        model = UnigramModel(self._ids, self.scores, self.special_id(UNKNOWN))
        self._encode_word = model.encode_word

    @classmethod
    def of(cls, text, n_tokens, special=SPECIAL):
        """Learn tokens and their probabilities from a text, by `learn_tokens`.

        Parameters
        ----------
        text : str
        n_tokens : int
            How many tokens, without special ones; all characters are tokens in any case.

        Raises
        ------
        ValueError, TypeError
            If the text is empty, or n_tokens is not at least 1.
        """
        check_whole("UnigramTokenizer", "n_tokens", n_tokens)
        check_text("UnigramTokenizer", text)
        if not text:
            raise ValueError("UnigramTokenizer: the text is empty; give one to learn from.")
        return cls(*learn_tokens(split_meta(text), n_tokens), special)

    def _words(self, text):
        return split_meta(text) if text else []

    def decode(self, ids):
        """The text of an array of ids, without a space at its beginning; ▁ becomes a space.

        Raises
        ------
        ValueError, TypeError
            If an id is out of range, or no integer.
        """
        return join_meta(self._tokens_of(ids))

    def __reduce__(self):
        return type(self), (self.tokens, self.scores, self.special)   # not the cache of words

    def to_json(self):
        """A dict for `tokenizer_from_json`."""
        return {"kind": "unigram", "special": list(self.special), "tokens": list(self.tokens),
                "scores": list(self.scores)}
