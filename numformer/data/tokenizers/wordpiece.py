"""WordPiece: the longest known token first, then the longest one that continues it."""

from collections import Counter
from functools import lru_cache

from numformer.checks import check_whole
from numformer.data.tokenizers.base import UNKNOWN, check_text
from numformer.data.tokenizers.bert_text import bert_normalize
from numformer.data.tokenizers.byte_merges import PairCounts
from numformer.data.tokenizers.splitting import split_marks
from numformer.data.tokenizers.vocabulary import VocabularyTokenizer

PREFIX = "##"
LONGEST_WORD = 100                                                    # in characters
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def longest_match(word, ids, prefix=PREFIX, longest=None):
    """The ids of a word's tokens: greedily the longest known prefix of what is left of it.

    Parameters
    ----------
    word : str
    ids : dict
        The id of every token; those that continue a word begin with `prefix`.
    longest : int, optional
        Characters of the longest token, to try no longer ones.

    Returns
    -------
    list of int, or None
        None if no token fits somewhere: then the whole word is unknown.

    Examples
    --------
    >>> ids = {"un": 0, "##able": 1, "##a": 2, "##ffable": 3}
    >>> longest_match("unffable", ids), longest_match("una", ids), longest_match("under", ids)
    ([0, 3], [0, 2], None)
    """
    found, start = [], 0
    while start < len(word):
        before = prefix if start else ""
        end = len(word) if longest is None else min(len(word), start + longest)
        while end > start and before + word[start:end] not in ids:
            end -= 1
        if end == start:
            return None
        found.append(ids[before + word[start:end]])
        start = end
    return found


def join_wordpieces(tokens, prefix=PREFIX, cleanup=True):
    r"""The text of tokens, as BERT's decoder writes it: spaces between words, fewer at marks.

    Examples
    --------
    >>> join_wordpieces(["do", "n", "##'t", "un", "##do", "it", "."])
    "do n't undo it."
    """
    parts = []
    for i, token in enumerate(tokens):
        if i:
            is_part = token.startswith(prefix)
            token = token[len(prefix):] if is_part else " " + token
        for dirty, clean in _CLEANUP if cleanup else ():
            token = token.replace(dirty, clean)
        parts.append(token)
    return "".join(parts)


_CLEANUP = [(" .", "."), (" ?", "?"), (" !", "!"), (" ,", ","), (" ' ", "'"), (" n't", "n't"),
            (" 'm", "'m"), (" do not", " don't"), (" 's", "'s"), (" 've", "'ve"), (" 're", "'re")]


class WordPieceTokenizer(VocabularyTokenizer):
    """One id for every token of a vocabulary of words and parts of words, as BERT has them.

    A text is normalized (`bert_normalize`), split into words and marks (`split_marks`), and each
    word is cut by `longest_match`. A word that has no such tokens, or more than 100 characters, is
    ``[UNK]``. `decode` gives a text back, not the text: case, accents and spaces are lost.

    Parameters
    ----------
    tokens : sequence of str
        The vocabulary in the order of ids; ``##`` marks what continues a word.
    special : tuple of str
        Names of special tokens: their ids come before the tokens'. ``[UNK]`` is among them.
    lowercase : bool
        Whether texts are put in lower case, without accents.

    Raises
    ------
    ValueError
        If there are no tokens, one is empty or given twice, or there is no ``[UNK]``.

    References
    ----------
    Schuster, Nakajima (2012), "Japanese and Korean Voice Search", section 4; greedy matching: Wu et
    al. (2016), "Google's Neural Machine Translation System", section 4.1; Devlin et al. (2019).

    Examples
    --------
    >>> tokenizer = WordPieceTokenizer.of("low lower lowest slow slower slowest", n_tokens=16)
    >>> [tokenizer.tokens[i - 5] for i in tokenizer.encode("Slowest low")]
    ['slow', '##est', 'low']
    """

    def __init__(self, tokens, special=SPECIAL, lowercase=True):
        super().__init__(tokens, special, UNKNOWN, (PREFIX,))
        if not isinstance(lowercase, bool):
            raise ValueError(f"WordPieceTokenizer: lowercase={lowercase!r} must be True or False.")
        self.lowercase = lowercase
        self._longest = max(map(len, tokens))
        self._encode_word = lru_cache(maxsize=2**16)(self._cut)       # most words come again

    @classmethod
    def of(cls, text, n_tokens, special=SPECIAL, lowercase=True):
        """Learn tokens from a text: its characters, then merges of the best pair of neighbours.

        The best pair has the highest count(a, b) / (count(a) count(b)): merging it raises the
        likelihood of a model of independent tokens the most for each of its occurrences. A pair of
        rare tokens that only occur together is therefore merged before a frequent pair of frequent
        ones. Of equal pairs the most frequent is merged, then the first in the order of characters;
        a pair that occurs once is not merged.

        Parameters
        ----------
        text : str
        n_tokens : int
            How many tokens at most, without special ones; all characters are tokens in any case.

        Raises
        ------
        ValueError, TypeError
            If the text has no words, or n_tokens is not at least 1.
        """
        check_whole("WordPieceTokenizer", "n_tokens", n_tokens)
        check_text("WordPieceTokenizer", text)
        words = Counter(split_marks(bert_normalize(text, lowercase=lowercase)))
        if not words:
            raise ValueError("WordPieceTokenizer: the text has no words; give one to learn from.")
        # characters of words that are too long to be cut are tokens, but teach no merges
        words = {(word[0], *(PREFIX + character for character in word[1:])): n
                 for word, n in words.items()}
        tokens = dict.fromkeys(sorted({token for word in words for token in word}))
        words = {word: n for word, n in words.items() if len(word) <= LONGEST_WORD}
        counts, single = PairCounts(words), Counter()
        for word, n in words.items():
            for token in word:
                single[token] += n

        def order(pair):
            left, right = pair
            n = counts.total[pair]
            return -n / (single[left] * single[right]), -n, pair

        while len(tokens) < n_tokens:
            best = min((pair for pair, n in counts.total.items() if n > 1), key=order, default=None)
            if best is None:
                break
            left, right = best
            new = left + right[len(PREFIX):]
            _, n = counts.merge(best, new)
            for token, change in ((left, -n), (right, -n), (new, n)):
                single[token] += change
            tokens[new] = None                                        # other pairs may make it, too
        return cls([token for token in tokens if token not in special], special, lowercase)

    def _words(self, text):
        return split_marks(bert_normalize(text, lowercase=self.lowercase))

    def _cut(self, word):
        found = (longest_match(word, self._ids, longest=self._longest)
                 if len(word) <= LONGEST_WORD else None)
        return [self.special_id(UNKNOWN)] if found is None else found

    def decode(self, ids):
        """The text of an array of ids; special tokens are words of it.

        Raises
        ------
        ValueError, TypeError
            If an id is out of range, or no integer.
        """
        return join_wordpieces(self._tokens_of(ids))

    def __reduce__(self):
        return type(self), (self.tokens, self.special, self.lowercase)  # not the cache of words

    def to_json(self):
        """A dict for `tokenizer_from_json`."""
        return {"kind": "wordpiece", "special": list(self.special), "tokens": list(self.tokens),
                "lowercase": self.lowercase}
