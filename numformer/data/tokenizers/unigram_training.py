"""Training of unigram tokenizers: expectation maximization, and pruning of tokens.

The log likelihood of a text is the sum over its words of log p(word), where

    p(word) = sum over all ways to cut it into tokens of the product of p(token).

Kudo (2018), "Subword Regularization", section 3.2: begin with many tokens; maximize the likelihood;
leave out the tokens whose loss harms it least; repeat until few enough are left.
"""

from collections import Counter
from math import exp, inf, log

LONGEST = 16                                          # characters of a token
N_SEEDS = 10                                          # tokens at the beginning, for each one wanted
KEPT = 0.8                                            # part of the tokens that a round keeps
N_STEPS = 2                                           # of expectation maximization in a round


def log_add(a, b):
    """log(exp(a) + exp(b)) without overflow."""
    high, low = (a, b) if a > b else (b, a)
    return high if low == -inf else high + log(1 + exp(low - high))


def spans(word, scores):
    """All tokens in a word: (start, end, log probability), in the order of starts."""
    return [(i, j, scores[word[i:j]]) for i in range(len(word))
            for j in range(i + 1, min(len(word), i + LONGEST) + 1) if word[i:j] in scores]


def expected_counts(word, scores):
    """How often each token is expected in a word, by the forward-backward algorithm.

    forward[j] is the log probability of word[:j], backward[i] that of word[i:]:

        forward[j] = log sum over tokens word[i:j] of exp(forward[i] + scores[word[i:j]])
        p(token word[i:j] | word) = exp(forward[i] + scores[word[i:j]] + backward[j]) / p(word)

    Parameters
    ----------
    word : str
    scores : dict
        The log probability of every token, of every character of the word among them.

    Returns
    -------
    counts : dict
        Token -> expected count.
    log_likelihood : float

    References
    ----------
    Kudo (2018), section 3.2; Baum, Petrie, Soules, Weiss (1970).

    Examples
    --------
    >>> half = log(0.5)
    >>> counts, log_likelihood = expected_counts("ab", {"a": half, "b": half, "ab": half})
    >>> {token: round(n, 3) for token, n in counts.items()}, round(exp(log_likelihood), 3)
    ({'a': 0.333, 'ab': 0.667, 'b': 0.333}, 0.75)
    """
    n, found = len(word), spans(word, scores)
    forward, backward = [0.0] + [-inf] * n, [-inf] * n + [0.0]
    for i, j, score in found:
        forward[j] = log_add(forward[j], forward[i] + score)
    for i, j, score in reversed(found):
        backward[i] = log_add(backward[i], backward[j] + score)
    counts = {}
    for i, j, score in found:
        p = exp(forward[i] + score + backward[j] - forward[n])
        counts[word[i:j]] = counts.get(word[i:j], 0.0) + p
    return counts, forward[n]


def maximize(words, scores):
    """One step of expectation maximization: scores from the expected counts of all tokens.

    A token that is expected less than half a time is left out, unless it is a character.

    Parameters
    ----------
    words : dict
        How often each word occurs.
    scores : dict

    Returns
    -------
    scores : dict
        The log of each token's part of the expected counts.
    log_likelihood : float
        That of the words with the scores before the step.
    """
    total, log_likelihood = Counter(), 0.0
    for word, n in words.items():
        counts, one = expected_counts(word, scores)
        log_likelihood += n * one
        for token, count in counts.items():
            total[token] += n * count
    kept = {token: max(count, 1e-3) for token, count in total.items()
            if count >= 0.5 or len(token) == 1}
    sum_of_all = log(sum(kept.values()))
    return {token: log(count) - sum_of_all for token, count in kept.items()}, log_likelihood


def best_cut(word, scores, whole=True):
    """The most probable tokens of a word; `whole` says whether the word may be one itself."""
    n = len(word)
    best, cut = [0.0] + [-inf] * n, [None] * (n + 1)
    for i, j, score in spans(word, scores):
        if best[i] + score > best[j] and (whole or j - i < n):
            best[j], cut[j] = best[i] + score, (cut[i], word[i:j])
    tokens, last = [], cut[n]
    while last:
        last, token = last
        tokens.append(token)
    return tokens[::-1]


def prune(words, scores, n_tokens):
    """Leave out the tokens whose removal lowers the likelihood least; characters stay.

    The loss of a token that is c times in the most probable cuts of all words is estimated as

        c (log p(token) - log p(its most probable tokens without it)).

    Returns
    -------
    dict
        The scores of n_tokens tokens; of more, if there are more characters.
    """
    used = Counter()
    for word, n in words.items():
        for token in best_cut(word, scores):
            used[token] += n

    def loss(token):
        parts = best_cut(token, scores, whole=False)
        return used[token] * (scores[token] - sum(scores[part] for part in parts))

    longer = sorted((token for token in scores if len(token) > 1),
                    key=lambda token: (-loss(token), token))
    characters = [token for token in scores if len(token) == 1]
    kept = {*characters, *longer[:max(0, n_tokens - len(characters))]}
    return {token: score for token, score in scores.items() if token in kept}


def learn_tokens(words, n_tokens):
    """The tokens of a unigram model of these words, and their log probabilities.

    It begins with the characters and the substrings of words that occur at least twice: those
    that cover the most characters of the text, ten for each token that is wanted.

    Parameters
    ----------
    words : sequence of str
    n_tokens : int

    Returns
    -------
    tokens : list of str
        The most probable first; as many as wanted, or as there are.
    scores : list of float
    """
    words, seeds = Counter(words), Counter()
    for word, n in words.items():
        for i in range(len(word)):
            for j in range(i + 1, min(len(word), i + LONGEST) + 1):
                seeds[word[i:j]] += n
    longer = sorted((token for token, n in seeds.items() if len(token) > 1 and n > 1),
                    key=lambda token: (-seeds[token] * len(token), token))
    kept = [token for token in seeds if len(token) == 1] + longer[:N_SEEDS * n_tokens]
    total = log(sum(seeds[token] for token in kept))
    scores = {token: log(seeds[token]) - total for token in kept}
    while True:
        for _ in range(N_STEPS):
            scores, _ = maximize(words, scores)
        characters = sum(len(token) == 1 for token in scores)
        if len(scores) <= max(n_tokens, characters):
            break
        scores = prune(words, scores, max(n_tokens, int(KEPT * len(scores))))
    order = sorted(scores, key=lambda token: (-scores[token], token))
    # Twelve decimals are read from a file alike by all readers of JSON, so ties stay ties
    return order, [round(scores[token], 12) for token in order]
