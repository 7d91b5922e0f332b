"""Rows of an n-gram embedding: a number for each token together with those before it."""

import numpy as np

from numformer.checks import check_rows, check_whole

GOLDEN = np.uint64(0x9E3779B97F4A7C15)            # 2^64 / golden ratio: Knuth's multiplicative hash


def ngram_rows(ids, n, vocab_size, n_rows):
    r"""The row of the n-gram that ends at each token.

    Where the table has a row for every possible n-gram, each has its own; otherwise the row is a
    hash, and n-grams that share a row share its vector.

    .. math:: c_t = \sum_{k=0}^{n-1} (V + 1)^k\, \mathrm{ids}_{t-k}, \qquad
              r_t = c_t \;\text{ or }\; \lfloor c_t\, \varphi\, 2^{-32} \rfloor \bmod R

    with c and its product modulo :math:`2^{64}`, and :math:`\varphi` an odd number of 64 bits.

    Parameters
    ----------
    ids : ndarray of int, shape (B, T)
        In 0 .. V-1, or -1 for no token, as before the start of the text.
    n : int
    vocab_size : int
        V.
    n_rows : int
        R.

    Returns
    -------
    ndarray of int64, shape (B, T)
        In 0 .. R-1.

    Raises
    ------
    ValueError
        If a size is not a positive integer.

    References
    ----------
    Knuth (1998), "The Art of Computer Programming", volume 3, section 6.4. Hashed n-grams as input
    of a language model: Clark et al. (2022), "CANINE", section 3.1; Huang et al. (2025),
    "Over-Tokenized Transformer", section 3.2.

    Examples
    --------
    The rows of (no token, 0), (0, 1) and (1, 1):

    >>> ngram_rows(np.array([[0, 1, 1]]), n=2, vocab_size=2, n_rows=9)
    array([[6, 1, 4]])
    """
    for name, size in (("n", n), ("vocab_size", vocab_size), ("n_rows", n_rows)):
        check_whole("ngram_rows", name, size)
    check_rows("ngram_rows", "ids", ids)
    B, T = ids.shape
    ids = np.where(ids < 0, vocab_size, ids).astype(np.uint64)       # "no token" is a symbol too
    before = np.full((B, n - 1), vocab_size, np.uint64)
    padded = np.concatenate([before, ids], axis=1)                   # (B, n - 1 + T)
    code = np.zeros((B, T), np.uint64)
    for k in range(n):
        code += np.uint64((vocab_size + 1) ** k % 2**64) * padded[:, n - 1 - k:n - 1 - k + T]
    if (vocab_size + 1) ** n > n_rows:
        code = (code * GOLDEN >> np.uint64(32)) % np.uint64(n_rows)
    return code.astype(np.int64)
