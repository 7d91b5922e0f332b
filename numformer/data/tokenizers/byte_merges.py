"""Merging pairs of tokens: learned from the words of a text, and applied to a word."""

from collections import Counter, defaultdict
from heapq import heapify, heappop, heappush

# GPT-2 writes each byte as one visible character: bytes that are one in Latin-1 as themselves, the
# 68 others, such as the space, as the characters from U+0100 on. It numbers bytes in this order.
_VISIBLE = [*range(0x21, 0x7f), *range(0xa1, 0xad), *range(0xae, 0x100)]
GPT2_ORDER = (*_VISIBLE, *(byte for byte in range(256) if byte not in _VISIBLE))
CHARACTER_OF = {byte: chr(byte if k < len(_VISIBLE) else 256 + k - len(_VISIBLE))
                for k, byte in enumerate(GPT2_ORDER)}
BYTE_OF = {character: byte for byte, character in CHARACTER_OF.items()}


def written(data):
    """Bytes in the characters of GPT-2's files.

    Examples
    --------
    >>> written(" für\\n".encode())
    'ĠfÃ¼rĊ'
    """
    return "".join([CHARACTER_OF[byte] for byte in data])


def pairs(tokens):
    """All pairs of adjacent tokens: [1, 2, 3] gives (1, 2), (2, 3)."""
    return zip(tokens, tokens[1:])


def merge(tokens, pair, new):
    """Replace a pair by `new`, from left to right.

    Examples
    --------
    >>> merge([1, 1, 1, 2, 1, 1], (1, 1), 9)
    [9, 1, 2, 9]
    """
    left, right = pair
    merged = tokens[:1]
    for token in tokens[1:]:
        if token == right and merged[-1] == left:
            merged[-1] = new
        else:
            merged.append(token)
    return merged


class PairCounts:
    """How often each pair of adjacent tokens occurs in the words of a text.

    Counts persist from merge to merge: only the words that hold the merged pair are counted again.

    Parameters
    ----------
    words : dict
        The tokens of a word (a sequence), and how often the word occurs.
    """

    def __init__(self, words):
        self.tokens, self.counts = [list(word) for word in words], list(words.values())
        self.total, self.where = Counter(), defaultdict(set)          # of a pair: count, words
        for i, word in enumerate(self.tokens):
            for pair in pairs(word):
                self.total[pair] += self.counts[i]
                self.where[pair].add(i)

    def merge(self, best, new):
        """Merge a pair in all words.

        Returns
        -------
        changed : list
            The pairs whose counts changed.
        n : int
            How often it was merged: less than its count where it overlaps itself.
        """
        change, n_merged = Counter(), 0
        for i in self.where.pop(best):
            for pair in pairs(self.tokens[i]):
                change[pair] -= self.counts[i]
            longer, self.tokens[i] = self.tokens[i], merge(self.tokens[i], best, new)
            n_merged += (len(longer) - len(self.tokens[i])) * self.counts[i]
            for pair in pairs(self.tokens[i]):
                change[pair] += self.counts[i]
                self.where[pair].add(i)
        changed = [pair for pair, n in change.items() if n]
        for pair in changed:
            self.total[pair] += change[pair]
        return changed, n_merged


def learn_merges(words, n_merges, distinct=False):
    """The merges of words, given how often each occurs in the text.

    The most frequent pair is on top of the heap. A pair whose count has changed gets a new entry,
    and its old one is skipped. With `distinct` a pair that would spell an earlier token is left
    alone: two tokens could not be told apart in a file of tokens.
    """
    bytes_of = [bytes([byte]) for byte in range(256)]
    spelled = set(bytes_of)
    counts = PairCounts(words)
    heap = [(-n, pair) for pair, n in counts.total.items()]
    heapify(heap)
    merges = []
    while heap and len(merges) < n_merges:
        n, best = heappop(heap)
        if -n != counts.total[best]:
            continue
        if -n < 2:
            break
        made = bytes_of[best[0]] + bytes_of[best[1]]
        if distinct and made in spelled:
            continue
        bytes_of.append(made)
        spelled.add(made)
        for pair in counts.merge(best, 256 + len(merges))[0]:
            heappush(heap, (-counts.total[pair], pair))
        merges.append(best)
    return merges


def apply_merges(tokens, merges):
    """Merge the pair of smallest rank, the leftmost of equal ones, until no merge fits.

    The pairs wait in a heap, so that a word of n tokens costs O(n log n) however long it is. A
    token that was merged into the one before it is None; `before` and `after` skip it. A pair of
    the heap may have changed since it was put there: then its merge makes another token.

    Parameters
    ----------
    tokens : sequence of int
    merges : dict
        (left, right) -> (rank, new token).

    Examples
    --------
    >>> apply_merges([1, 2, 3, 1, 2], {(2, 3): (0, 9), (1, 2): (1, 8), (1, 9): (2, 7)})
    [7, 8]
    """
    tokens, end = list(tokens), len(tokens)
    before, after = list(range(-1, end - 1)), list(range(1, end + 1))
    heap = []

    def offer(i):
        found = merges.get((tokens[i], tokens[after[i]]))
        if found:
            heappush(heap, (found[0], i, found[1]))                   # rank, position, new

    for i in range(end - 1):
        offer(i)
    while heap:
        _, i, new = heappop(heap)
        j = after[i]
        if tokens[i] is None or j == end:
            continue
        found = merges.get((tokens[i], tokens[j]))
        if not found or found[1] != new:
            continue
        tokens[i], tokens[j] = new, None
        after[i] = after[j]
        if after[i] < end:
            before[after[i]] = i
            offer(i)
        if before[i] >= 0:
            offer(before[i])
    return [token for token in tokens if token is not None]
