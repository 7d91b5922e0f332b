"""AdaptiveEmbedding: the rarer a token, the shorter the vector that is stored for it."""

import numpy as np

from numformer.checks import check_ids, check_whole
from numformer.description import Description, by
from numformer.layers.embedding import Embedding
from numformer.layers.linear import Linear
from numformer.parameter import Layer


class AdaptiveEmbedding(Layer):
    r"""A vector for every token, ids (...) to (..., C), from tables of shorter and shorter vectors.

    .. math:: y_t = E^{(i)}_{\mathrm{id}_t - c_{i-1}} W^{(i)}
              \quad \text{for the cluster } i \text{ with } c_{i-1} \le \mathrm{id}_t < c_i

    Tokens are numbered by frequency, the most frequent one first, and cut into clusters. The first
    cluster has vectors of width C, the next one of C / k, then C / k^2, ...; a matrix for each maps
    them all to width C. So a large vocabulary of rare words takes few parameters.

    The gradients are those of a lookup and of a product, for the tokens of each cluster:

    .. math:: \bar{W}^{(i)} = \sum_t (E^{(i)}_{r_t})^\top \bar{y}_t, \qquad
              \bar{E}^{(i)}_r = \sum_{t:\, r_t = r} \bar{y}_t W^{(i)\top}, \qquad
              r_t = \mathrm{id}_t - c_{i-1}

    Parameters
    ----------
    vocab_size, d_model : int
        V and C.
    cutoffs : sequence of int
        c_1, c_2, ...: the first id of each later cluster, rising, between 1 and V - 1.
    rng : numpy.random.Generator or None
    factor : int
        k.
    std : float
        Of the initial vectors, before and after they are mapped.
    dtype : float32 or float64

    Raises
    ------
    ValueError, TypeError
        If cutoffs do not rise between 1 and V - 1, a cluster would have vectors of width 0, or ids
        are not integers in 0 .. V-1.

    References
    ----------
    Baevski and Auli (2019), "Adaptive Input Representations for Neural Language Modeling",
    section 3.

    Examples
    --------
    The sizes of the paper for WikiText-103, and what a table of equal widths would take:

    >>> layer = AdaptiveEmbedding(260000, 1024, (20000, 60000), rng=None)
    >>> sum(parameter.data.size for parameter in layer.parameters()), 260000 * 1024
    (44896256, 266240000)
    """

    def __init__(self, vocab_size, d_model, cutoffs, rng, factor=4, std=0.02, dtype=np.float32):
        check_whole("AdaptiveEmbedding", "vocab_size", vocab_size)
        check_whole("AdaptiveEmbedding", "d_model", d_model)
        check_whole("AdaptiveEmbedding", "factor", factor)
        for cutoff in cutoffs:
            check_whole("AdaptiveEmbedding", "cutoffs", cutoff)
        self.bounds = (0, *cutoffs, vocab_size)
        if not cutoffs or any(first >= last for first, last in zip(self.bounds, self.bounds[1:])):
            raise ValueError(f"AdaptiveEmbedding: cutoffs={tuple(cutoffs)} must be at least one "
                             f"number, and rise between 1 and vocab_size - 1 = {vocab_size - 1}.")
        sizes = np.diff(self.bounds).tolist()
        widths = [d_model // factor ** i for i in range(len(sizes))]
        if widths[-1] == 0:
            raise ValueError(f"AdaptiveEmbedding: d_model={d_model} divided by factor={factor} "
                             f"{len(sizes) - 1} times is below 1; use fewer cutoffs or a smaller "
                             "factor.")
        self.tables = [Embedding(size, width, rng, std, dtype=dtype)
                       for size, width in zip(sizes, widths)]
        self.projections = [Linear(width, d_model, rng, bias=False, dtype=dtype)
                            for width in widths]

    def forward(self, ids):
        check_ids("AdaptiveEmbedding", "ids", ids, self.bounds[-1])
        cluster = clusters_of(ids, self.bounds).reshape(-1)           # (N,)
        vectors, saved_parts = [], []
        for i, (table, projection) in enumerate(zip(self.tables, self.projections)):
            rows = np.flatnonzero(cluster == i)
            if not len(rows):
                saved_parts.append(None)
                continue
            short, saved_table = table.forward(ids.reshape(-1)[rows] - self.bounds[i])
            long, saved_projection = projection.forward(short)        # (n, C)
            vectors.append(long)
            saved_parts.append((rows, saved_table, saved_projection))
        y = in_order(vectors, cluster).reshape(*ids.shape, -1)        # (..., C)

        saved = (saved_parts,)
        return y, saved

    def backward(self, dy, saved):
        saved_parts, = saved
        dvectors = dy.reshape(-1, dy.shape[-1])                       # (N, C)

        # y = projection(table(ids - first)) of every cluster, in the order of the ids
        for table, projection, part in zip(self.tables, self.projections, saved_parts):
            if part is not None:
                rows, saved_table, saved_projection = part
                dshort = projection.backward(dvectors[rows], saved_projection)
                table.backward(dshort, saved_table)
        return None                                                   # ids have no gradient

    def describe(self):
        sizes = ", ".join(by(*table.weight.data.shape) for table in self.tables)
        return Description("Adaptive embedding", sizes, (
            r"dW^{(i)} = \Sigma_t\,{E^{(i)}_{r_t}}^\top dy_t",
            r"dE^{(i)}_r = \Sigma_{t:\,r_t = r}\,dy_t\,{W^{(i)}}^\top"),
            idle=tuple(self.projections[1:]))


def clusters_of(ids, bounds):
    """The number of the cluster of each id.

    Examples
    --------
    >>> clusters_of(np.array([0, 2, 3, 9]), (0, 3, 5, 10))
    array([0, 0, 1, 2])
    """
    return np.searchsorted(bounds[1:-1], ids, side="right")


def in_order(parts, cluster):
    """The rows of parts, one part for each cluster, in the order of the ids.

    Examples
    --------
    >>> in_order([np.array([1, 2]), np.array([30])], np.array([0, 1, 0]))
    array([ 1, 30,  2])
    """
    order = np.argsort(cluster, kind="stable")                        # ids by cluster
    return np.concatenate(parts)[np.argsort(order)]
