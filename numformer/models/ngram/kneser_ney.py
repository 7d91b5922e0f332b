"""The n-gram language model: the next id depends on the last n - 1 ids alone, through counts."""

import numpy as np

from numformer.checks import check_ids, check_whole


class KneserNey:
    r"""Interpolated Kneser-Ney: discounted counts of n-grams, mixed with shorter n-grams.

    .. math::

        p_k(w \mid h) = \frac{\max(c_k(hw) - D_k, 0) + D_k\, N_{1+}(h\,\cdot)\; p_{k-1}(w \mid h')}
            {\sum_v c_k(hv)}, \qquad
        p_0(w) = \frac{1}{V}, \qquad D_k = \frac{n_1}{n_1 + 2 n_2}

    for a history :math:`h` of :math:`k - 1` ids, :math:`h'` that history without its oldest id,
    and :math:`N_{1+}(h\,\cdot) = |\{v : c_k(hv) > 0\}|`. Where :math:`h` was never seen,
    :math:`p_k = p_{k-1}`. The longest n-grams have their counts in the text. The count of a shorter
    one is the number of different ids before it, :math:`c_k(g) = |\{v : vg \text{ was seen}\}|`: a
    word that follows one other word alone is unlikely after a third, however frequent it is.
    :math:`n_1` and :math:`n_2` are the numbers of k-grams with a count of 1 and of 2; where none
    has a count of 1, D = 1/2, so that every id keeps a probability above 0.

    There is one discount for each k (the modified form has three). There is neither training nor
    randomness: the model is its counts. After a history shorter than n - 1, as at the beginning of
    a text, shorter n-grams predict.

    The k-grams of a text are numbered in sorted order. The code of a k-gram is the number of its
    first k - 1 ids, times V, plus its last id: it never overflows, and the k-grams of one history
    are consecutive.

    Parameters
    ----------
    vocab_size : int
        V.
    codes : list of n ndarrays of int64
        For each k, the code of every k-gram seen, ascending.
    counts : list of n ndarrays of int64
        Their counts c_k.

    Raises
    ------
    ValueError, TypeError
        If codes and counts are not those of a text.

    References
    ----------
    Kneser and Ney (1995), "Improved backing-off for m-gram language modeling". The interpolated
    form: Chen and Goodman (1999), "An empirical study of smoothing techniques for language
    modeling". D: Ney, Essen, Kneser (1994), "On structuring probabilistic dependences in stochastic
    language modelling".

    Examples
    --------
    >>> model = KneserNey.fit(np.array([0, 1, 0, 1, 0, 2]), n=2, vocab_size=4)
    >>> model.distribution([0]).round(3)                              # 0 was followed by 1, 1, 2
    array([0.033, 0.633, 0.3  , 0.033])
    >>> round(model.bits_per_character(np.array([0, 1, 0, 2])), 3)
    1.127

    Its log-probabilities are logits, which can be sampled:

    >>> from numformer.generation import choose_token
    >>> choose_token(np.log(model.distribution([0])), np.random.default_rng(0))
    2
    """

    def __init__(self, vocab_size, codes, counts):
        check_whole("KneserNey", "vocab_size", vocab_size)
        self.vocab_size = int(vocab_size)
        self.codes, self.counts = list(codes), list(counts)
        self._check()
        self._discounts, self._totals, self._followers = [], [], []
        histories = 1                                                 # of one id: the empty one
        for codes, counts in zip(self.codes, self.counts):
            seen, history = counts > 0, codes // self.vocab_size
            self._discounts.append(_discount(counts))
            self._totals.append(np.bincount(history, counts, histories))              # sum_v c(hv)
            self._followers.append(np.bincount(history[seen], minlength=histories))   # N1+(h .)
            histories = len(codes)

    @classmethod
    def fit(cls, ids, n, vocab_size):
        """Count the n-grams of a text.

        Parameters
        ----------
        ids : ndarray of int, shape (T,)
            At least n of them.
        n : int
            Length of the longest n-grams, 1 or more.
        vocab_size : int
            V.

        Raises
        ------
        ValueError, TypeError
            If ids are no ids of the vocabulary, or fewer than n.
        """
        check_whole("KneserNey", "n", n)
        check_whole("KneserNey", "vocab_size", vocab_size)
        ids = _checked(ids, vocab_size)
        if len(ids) < n:
            raise ValueError(f"KneserNey: a text of {len(ids)} ids holds no n-gram of n={n}; use a "
                             "smaller n or a longer text.")
        all_codes, all_counts = [], []
        number = np.zeros(len(ids) + 1, np.int64)             # of the (k-1)-gram from each id on
        for k in range(1, n + 1):
            codes, first, next_number, counts = np.unique(
                number[:-1] * vocab_size + ids[k - 1:], return_index=True, return_inverse=True,
                return_counts=True)
            if k > 1:                                         # each k-gram v g is one id v before g
                all_counts[-1] = np.bincount(number[first + 1], minlength=len(all_codes[-1]))
            all_codes.append(codes)
            all_counts.append(counts)
            number = next_number
        return cls(vocab_size, all_codes, all_counts)

    @property
    def n(self):
        """Length of the longest n-grams."""
        return len(self.codes)

    def log_probabilities(self, ids):
        """log p of each id of a text, given those before it.

        Parameters
        ----------
        ids : ndarray of int, shape (T,)

        Returns
        -------
        ndarray of float64, shape (T,)
            In nats. The first id has no history.

        Raises
        ------
        ValueError, TypeError
            If there are no ids, or they are none of the vocabulary.
        """
        ids = _checked(ids, self.vocab_size)
        p = np.full(len(ids), 1 / self.vocab_size)                    # p_0
        for k, (history, number) in enumerate(self._look_up(ids)):
            history = history[:-1]
            at = np.flatnonzero(history >= 0)
            at = at[self._totals[k][history[at]] > 0]                 # elsewhere p_k = p_(k-1)
            history, number = history[at], number[at]
            count = np.where(number >= 0, self.counts[k][number], 0)
            D = self._discounts[k]
            freed = D * self._followers[k][history] * p[at]
            p[at] = (np.maximum(count - D, 0) + freed) / self._totals[k][history]
        return np.log(p)

    def bits_per_character(self, ids):
        """The mean of -log2 p over the ids of a text: the length of its ids in an ideal code.

        Raises
        ------
        ValueError, TypeError
            If there are no ids, or they are none of the vocabulary.
        """
        return float(-self.log_probabilities(ids).mean() / np.log(2))

    def distribution(self, history):
        """The probability of every id after a history.

        Parameters
        ----------
        history : ndarray of int, shape (any length,)
            Its last n - 1 ids matter.

        Returns
        -------
        ndarray of float64, shape (V,)
            All above 0; they sum to 1.

        Raises
        ------
        ValueError, TypeError
            If there are ids that are none of the vocabulary.
        """
        history = _checked(history, self.vocab_size) if np.size(history) else np.zeros(0, np.int64)
        history = history[max(0, len(history) - self.n + 1):]
        p = np.full(self.vocab_size, 1 / self.vocab_size)             # p_0
        for k, (histories, _) in enumerate(self._look_up(history)):
            h = histories[-1]
            if h >= 0 and self._totals[k][h] > 0:
                ends = [h * self.vocab_size, (h + 1) * self.vocab_size]
                low, high = np.searchsorted(self.codes[k], ends)
                D = self._discounts[k]
                p = D * self._followers[k][h] * p
                seen = self.codes[k][low:high] - h * self.vocab_size
                p[seen] += np.maximum(self.counts[k][low:high] - D, 0)
                p /= self._totals[k][h]
        return p

    def _look_up(self, ids):
        """For k = 1 .. n: numbers of the (k-1)-grams before each id, and of the k-grams up to it.

        Shapes (T + 1,), for the last one is before the end, and (T,); -1 where the counted text has
        no such n-gram, or it would begin before the ids.
        """
        before = np.zeros(len(ids) + 1, np.int64)
        for codes in self.codes:
            wanted = before[:-1] * self.vocab_size + ids              # negative after -1: not found
            index = np.minimum(np.searchsorted(codes, wanted), len(codes) - 1)
            number = np.where(codes[index] == wanted, index, -1)
            yield before, number
            before = np.append(-1, number)

    def to_arrays(self):
        """The model as a dict of integer arrays: vocabulary size, codes and counts."""
        arrays = {"vocab_size": np.array([self.vocab_size])}
        for k, (codes, counts) in enumerate(zip(self.codes, self.counts), 1):
            arrays |= {f"codes.{k}": codes, f"counts.{k}": counts}
        return arrays

    @classmethod
    def from_arrays(cls, arrays):
        """The model whose `to_arrays` these are.

        Raises
        ------
        ValueError, TypeError
            If an array is missing, or codes and counts are not those of a text.
        """
        n = (len(arrays) - 1) // 2
        codes, counts = ([f"{kind}.{k}" for k in range(1, n + 1)] for kind in ("codes", "counts"))
        names = {"vocab_size", *codes, *counts}
        if set(arrays) != names or np.shape(arrays["vocab_size"]) != (1,):
            raise ValueError("KneserNey: arrays must be vocab_size, shape (1,), and codes.k, "
                             f"counts.k for k = 1 .. n, but are {', '.join(sorted(arrays))}.")
        codes, counts = ([arrays[name] for name in part] for part in (codes, counts))
        return cls(arrays["vocab_size"][0], codes, counts)

    def __repr__(self):
        size = sum(map(len, self.codes))
        return f"KneserNey(n={self.n}, vocab_size={self.vocab_size}, {size} n-grams)"

    def _check(self):
        if not self.codes or len(self.codes) != len(self.counts):
            raise ValueError(f"KneserNey: {len(self.codes)} codes and {len(self.counts)} counts "
                             "came; give both for each k = 1 .. n.")
        histories = 1
        for k, (codes, counts) in enumerate(zip(self.codes, self.counts), 1):
            codes = _checked(codes, histories * self.vocab_size, f"codes.{k}")
            counts = _checked(counts, np.inf, f"counts.{k}")
            if codes.shape != counts.shape or (np.diff(codes) <= 0).any():
                raise ValueError(f"KneserNey: codes.{k} must ascend, with a count each, but have "
                                 f"shapes {codes.shape} and {counts.shape}.")
            histories = len(codes)


def _discount(counts):
    once, twice = np.count_nonzero(counts == 1), np.count_nonzero(counts == 2)
    return once / (once + 2 * twice) if once else 0.5


def _checked(ids, size, name="ids"):
    ids = np.asarray(ids)
    check_ids("KneserNey", name, ids, size)
    if ids.ndim != 1:
        raise ValueError(f"KneserNey: {name} must have shape (T,), but have {ids.shape}.")
    return ids.astype(np.int64)
