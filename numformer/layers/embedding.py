"""Embedding: the table of token vectors; and NGramEmbedding, tables of a token together with those before it."""

import numpy as np

from numformer.backend import embedding, embedding_backward
from numformer.checks import check_ids, check_number, check_whole
from numformer.functional.ngrams import ngram_rows
from numformer.parameter import Layer, normal


class Embedding(Layer):
    r"""A vector for every token, ids (...) to (..., C): `embedding` and its table.

    .. math:: y_n = s\, W_{\mathrm{ids}_n}

    Parameters
    ----------
    vocab_size, d_model : int
        V and C.
    rng : numpy.random.Generator or None
    std : float
        Of the initial table.
    scale : float
        s; the 2017 Transformer multiplies by sqrt(C) (section 3.4), because its table is also the output head.
    dtype : float32 or float64

    Raises
    ------
    ValueError, TypeError
        If ids are not integers in 0 .. V-1, or there are none.

    Examples
    --------
    >>> Embedding(65, 8, np.random.default_rng(0))(np.array([[1, 2, 3]])).shape
    (1, 3, 8)
    """

    def __init__(self, vocab_size, d_model, rng, std=0.02, scale=1.0, dtype=np.float32):
        check_whole("Embedding", "vocab_size", vocab_size)
        check_whole("Embedding", "d_model", d_model)
        check_number("Embedding", "scale", scale)
        self.weight = normal(rng, (vocab_size, d_model), std, dtype)
        self.scale = float(scale)

    def forward(self, ids):
        vectors, saved = embedding(ids, self.weight.data)
        return vectors * self.scale, saved

    def backward(self, dy, saved):
        # y = vectors * scale
        dvectors = dy * self.scale

        # vectors = embedding(ids, weight)
        self.weight.grad += embedding_backward(dvectors, saved)
        return None                                                   # ids have no gradient


class NGramEmbedding(Layer):
    r"""Vectors for pairs of tokens, for triples, and so on up to `largest`, ids (B, T) to (B, T, C): each has a table of its own.

    .. math:: y_t = \sum_{n=2}^{N} W^{(n)}_{r_n(t)}

    What follows a few letters is then looked up instead of computed. Where a table has fewer rows than there are n-grams, a hash
    lets some share a row: `ngram_rows`.

    Parameters
    ----------
    vocab_size, d_model : int
        V and C.
    largest : int
        N, 2 or more.
    n_rows : int
        Most rows of a table; there are no more than n-grams.
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
    Huang et al. (2025), "Over-Tokenized Transformer: Vocabulary is Generally Worth Scaling", section 3.2.

    Examples
    --------
    >>> layer = NGramEmbedding(65, 8, largest=3, n_rows=10000, rng=np.random.default_rng(0))
    >>> [len(table.data) for table in layer.tables], layer(np.array([[1, 2, 3]])).shape
    ([4356, 10000], (1, 3, 8))
    """

    def __init__(self, vocab_size, d_model, largest, n_rows, rng, std=0.02, dtype=np.float32):
        for name, size, least in (("vocab_size", vocab_size, 1), ("d_model", d_model, 1), ("largest", largest, 2), ("n_rows", n_rows, 1)):
            check_whole("NGramEmbedding", name, size, least)
        self.tables = [normal(rng, (min(n_rows, (vocab_size + 1) ** n), d_model), std, dtype) for n in range(2, largest + 1)]
        self.vocab_size = vocab_size

    @property
    def reach(self):
        """How many tokens before a token matter to its vector."""
        return len(self.tables)

    def forward(self, ids, before=None):
        """Vectors of tokens.

        Parameters
        ----------
        ids : ndarray of int, shape (B, T)
            -1 for a place that holds no token.
        before : ndarray of int, shape (B, any), optional
            The tokens before the first, as far as they matter; -1 for none.

        Returns
        -------
        y : ndarray, shape (B, T, C)
        saved : list
        """
        check_ids("NGramEmbedding", "ids", ids, self.vocab_size, ignore_index=-1)
        known = ids if before is None else np.concatenate([before, ids], axis=1)
        pairs = [embedding(ngram_rows(known, n, self.vocab_size, len(table.data))[:, -ids.shape[1]:], table.data)
                 for n, table in enumerate(self.tables, 2)]
        y = sum(vectors for vectors, _ in pairs)

        saved = [saved_table for _, saved_table in pairs]
        return y, saved

    def backward(self, dy, saved):
        # y = sum of table[rows]
        for table, saved_table in zip(self.tables, saved):
            table.grad += embedding_backward(dy, saved_table)
        return None                                                   # ids have no gradient
