"""AdaptiveSoftmax: a rare token's probability is that of its cluster, times its share in it."""

import numpy as np

from numformer.backend import linear, linear_backward_accumulate, log_softmax
from numformer.checks import check_array, check_ids
from numformer.description import Description, by
from numformer.layers.adaptive_embedding import AdaptiveEmbedding, clusters_of, in_order
from numformer.parameter import Layer, normal


class AdaptiveSoftmax(Layer):
    r"""Log-probabilities of targets, (..., C) to (...), without logits of the whole vocabulary.

    The head is a softmax over the tokens of the first cluster and one vector for each other
    cluster. A token v of a later cluster i has the probability of its cluster times its own among
    the tokens of the cluster:

    .. math::

        \log p(v) = \log \mathrm{softmax}(x H^\top)_v \quad (v < c_1), \qquad
        \log p(v) = \log \mathrm{softmax}(x H^\top)_{c_1 + i} +
        \log \mathrm{softmax}\left( x W^{(i)\top} E^{(i)\top} \right)_{v - c_i}

    with i from 0 for the first of the later clusters. H has the vectors of the first cluster and
    those of the clusters as rows. Only the targets of a cluster need its logits. The gradient of
    the logits z of each softmax with probabilities p is, for the entry v that was read:

    .. math:: \bar{z} = \bar{y}\, (\mathrm{onehot}(v) - p)

    Parameters
    ----------
    embedding : AdaptiveEmbedding
        Its tables and the matrices of its later clusters are used, too: they are tied. The matrix
        of its first cluster is not. For weights of its own, give one that nothing else uses.
    rng : numpy.random.Generator or None
    std : float
        Of the initial vectors of the clusters.

    Raises
    ------
    ValueError, TypeError
        If `embedding` is not an AdaptiveEmbedding, `x` does not end in C, or targets are not one
        integer in 0 .. V-1 for each vector.

    References
    ----------
    Grave et al. (2017), "Efficient Softmax Approximation for GPUs", section 4; tied: Baevski and
    Auli (2019), "Adaptive Input Representations for Neural Language Modeling", section 3.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> head = AdaptiveSoftmax(AdaptiveEmbedding(10, 4, (3, 6), rng, factor=2), rng)
    >>> log_p = head.log_probabilities(np.ones((1, 4), np.float32))
    >>> log_p.shape, round(float(np.exp(log_p).sum()), 5)
    ((1, 10), 1.0)
    """

    def __init__(self, embedding, rng, std=0.02):
        if not isinstance(embedding, AdaptiveEmbedding):
            raise TypeError("AdaptiveSoftmax: embedding must be an AdaptiveEmbedding, but is "
                            f"{embedding!r}.")
        self.bounds = embedding.bounds
        self.tables = [table.weight for table in embedding.tables]
        self.projections = [projection.weight for projection in embedding.projections[1:]]
        first = self.tables[0].data                                   # (V_1, C)
        self.clusters = normal(rng, (len(self.projections), first.shape[1]), std, first.dtype)

    def forward(self, x, targets):
        """log p of one target for each vector.

        Parameters
        ----------
        x : ndarray, shape (..., C)
        targets : ndarray of int, shape (...)
            In 0 .. V-1.

        Returns
        -------
        y : ndarray, shape (...)
        saved : tuple
        """
        self._check(x)
        check_ids("AdaptiveSoftmax", "targets", targets, self.bounds[-1])
        if targets.shape != x.shape[:-1]:
            raise ValueError(f"AdaptiveSoftmax: x of shape {x.shape} needs targets of shape "
                             f"{x.shape[:-1]}, but they have {targets.shape}.")
        vectors, ids = x.reshape(-1, x.shape[-1]), targets.reshape(-1)        # (N, C), (N,)
        cluster = clusters_of(ids, self.bounds)                               # (N,)
        in_head = np.where(cluster == 0, ids, self.bounds[1] - 1 + cluster)
        of_head, saved_head = _log_likelihood(vectors, self._head(), in_head)  # (N,)
        tails, saved_tails = [np.zeros(np.sum(cluster == 0), x.dtype)], []
        for i, (W, E) in enumerate(zip(self.projections, self.tables[1:]), 1):
            rows = np.flatnonzero(cluster == i)
            if not len(rows):
                saved_tails.append(None)
                continue
            short, saved_short = linear(vectors[rows], W.data.T)
            of_tail, saved_tail = _log_likelihood(short, E.data, ids[rows] - self.bounds[i])
            tails.append(of_tail)
            saved_tails.append((rows, saved_short, saved_tail))
        y = of_head + in_order(tails, cluster)

        saved = (x.shape, saved_head, saved_tails)
        return y.reshape(targets.shape), saved

    def backward(self, dy, saved):
        shape, saved_head, saved_tails = saved
        dy = dy.reshape(-1)                                                   # (N,)

        # y = of_head + of_tail: log p of a token or a cluster in the head
        dhead = np.zeros_like(self._head())
        dvectors = _log_likelihood_backward(dy, saved_head, dhead)            # (N, C)
        self.tables[0].grad += dhead[:self.bounds[1]]
        self.clusters.grad += dhead[self.bounds[1]:]

        # y = of_head + of_tail: log p in the tails
        for W, E, part in zip(self.projections, self.tables[1:], saved_tails):
            if part is not None:
                rows, saved_short, saved_tail = part
                dshort = _log_likelihood_backward(dy[rows], saved_tail, E.grad)
                dvectors[rows] += linear_backward_accumulate(dshort, saved_short, W.grad.T)
        return dvectors.reshape(shape)

    def log_probabilities(self, x):
        """log p of all tokens, (..., V)."""
        self._check(x)
        first = self.bounds[1]
        head = log_softmax(linear(x, self._head().T)[0])[0]           # (..., V_1 and clusters)
        parts = [head[..., :first]]
        for i, (W, E) in enumerate(zip(self.projections, self.tables[1:])):
            short = linear(x, W.data.T)[0]
            tail = log_softmax(linear(short, E.data.T)[0])[0]
            parts.append(head[..., first + i, None] + tail)
        return np.concatenate(parts, axis=-1)

    def _head(self):
        """H, (V_1 + number of later clusters, C)."""
        return np.concatenate([self.tables[0].data, self.clusters.data])

    def _check(self, x):
        check_array("AdaptiveSoftmax", "x", x, "(..., C)", self.clusters.data.dtype,
                    C=self.clusters.data.shape[1])

    def describe(self):
        sizes = [by(len(self._head()), self.clusters.data.shape[1]),
                 *(by(*table.data.shape) for table in self.tables[1:])]
        return Description("Adaptive softmax", ", ".join(sizes), (
            r"dz = dy\,(\mathrm{onehot}(v) - p)", r"dx = dz\,H", r"dH = dz^\top x"),
            weights=self._head().size)


def _log_likelihood(x, classes, columns):
    """log p of one class for each vector, (N,), where the logits are products with `classes`."""
    logits, saved_logits = linear(x, classes.T)                       # (N, classes)
    log_p, _ = log_softmax(logits)

    saved = (saved_logits, log_p, columns)
    return log_p[np.arange(len(columns)), columns], saved


def _log_likelihood_backward(dy, saved, classes_grad):
    """Add to the gradient of the classes, and return that of x."""
    saved_logits, log_p, columns = saved

    # y = log_softmax(logits)[columns]: dy at the column, and minus p times dy everywhere
    dlogits = -np.exp(log_p) * dy[:, None]
    dlogits[np.arange(len(columns)), columns] += dy

    # logits = linear(x, classes.T)
    return linear_backward_accumulate(dlogits, saved_logits, classes_grad.T)
