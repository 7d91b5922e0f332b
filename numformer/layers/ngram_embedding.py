"""NGramEmbedding: vectors of a token together with those before it."""

import numpy as np

from numformer.backend import embedding, embedding_backward
from numformer.checks import check_ids, check_whole
from numformer.description import Description
from numformer.functional.ngrams import ngram_rows
from numformer.parameter import Layer, normal


class NGramEmbedding(Layer):
    r"""The sum of vectors of the pair, the triple, ... that end with a token, (B, T) to (B, T, C).

    .. math:: y_t = \sum_{n=2}^{N} W^{(n)}_{r_n(t)}

    There is a table for each n. So what usually follows a few characters is looked up instead of
    computed. If a table has fewer rows than there are n-grams, a hash makes some of them share a
    row: `ngram_rows`.

    Parameters
    ----------
    vocab_size, d_model : int
        V and C.
    largest : int
        N, 2 or more.
    n_rows : int
        The largest number of rows in a table; there are no more rows than n-grams.
    rng : numpy.random.Generator or None
    std : float
        Of the initial tables.
    dtype : float32 or float64

    Raises
    ------
    ValueError, TypeError
        If ids are not integers in 0 .. V-1, or there are none.

    References
    ----------
    Huang et al. (2025), "Over-Tokenized Transformer: Vocabulary is Generally Worth Scaling",
    section 3.2.

    Examples
    --------
    >>> layer = NGramEmbedding(65, 8, largest=3, n_rows=10000, rng=np.random.default_rng(0))
    >>> [len(table.data) for table in layer.tables], layer(np.array([[1, 2, 3]])).shape
    ([4356, 10000], (1, 3, 8))
    """

    def __init__(self, vocab_size, d_model, largest, n_rows, rng, std=0.02, dtype=np.float32):
        for name, size, least in (("vocab_size", vocab_size, 1), ("d_model", d_model, 1),
                                  ("largest", largest, 2), ("n_rows", n_rows, 1)):
            check_whole("NGramEmbedding", name, size, least)
        self.tables = [normal(rng, (min(n_rows, (vocab_size + 1) ** n), d_model), std, dtype)
                       for n in range(2, largest + 1)]
        self.vocab_size = vocab_size

    @property
    def reach(self):
        """How many earlier tokens the vector of a token depends on."""
        return len(self.tables)

    def forward(self, ids, before=None):
        """Vectors of tokens.

        Parameters
        ----------
        ids : ndarray of int, shape (B, T)
            -1 where there is no token.
        before : ndarray of int, shape (B, any), optional
            The tokens before the first, as many as `reach`; -1 where there is none.

        Returns
        -------
        y : ndarray, shape (B, T, C)
        saved : list
        """
        check_ids("NGramEmbedding", "ids", ids, self.vocab_size, ignore_index=-1)
        known = ids if before is None else np.concatenate([before, ids], axis=1)
        y, saved = 0, []
        for n, table in enumerate(self.tables, 2):
            rows = ngram_rows(known, n, self.vocab_size, len(table.data))[:, -ids.shape[1]:]
            vectors, saved_table = embedding(rows, table.data)        # (B, T, C)
            y = y + vectors
            saved.append(saved_table)
        return y, saved

    def backward(self, dy, saved):
        # y = sum of table[rows]
        for table, saved_table in zip(self.tables, saved):
            table.grad += embedding_backward(dy, saved_table)
        return None                                                   # ids have no gradient

    def describe(self):
        return Description("N-gram embedding", f"{len(self.tables)} tables of up to "
                           f"{len(self.tables[-1].data):,} rows",
                           (r"dE^{(n)}_r = \Sigma_{t:\,r_n(t) = r} dy_t",))
