"""Deformable attention in the place of DETR's: to a few points near a reference, not everywhere."""

import numpy as np

from numformer.backend import add
from numformer.checks import check_arrays, check_generator
from numformer.description import Description
from numformer.functional import sigmoid, sigmoid_backward
from numformer.layers import DeformableAttention, Linear
from numformer.parameter import Layer


class ReferenceAttention(Layer):
    r"""Deformable attention with the arguments of `PositionedAttention`, to patches of an image.

    .. math:: y = \mathrm{deformable}(x + p,\; c,\; s), \qquad s = \sigma(p\, W_s + b_s)

    The reference points s are where a query looks first. Object queries get theirs from their
    positions p, by a trained map. Patches that attend to patches have their own centres instead.
    What patches know of their place is in the points, so there are no positions of keys.

    Parameters
    ----------
    d_model, n_heads, n_points : int
        As in `DeformableAttention`.
    side : int
        Patches in a row, and in a column.
    rng : numpy.random.Generator or None
    of_patches : bool
        Whether the queries are the patches.
    std, output_std, dtype
        As in `DeformableAttention`.

    References
    ----------
    Zhu et al. (2021), "Deformable DETR", section 4.1, on one feature map.

    Examples
    --------
    >>> layer = ReferenceAttention(8, 2, 3, side=4, rng=np.random.default_rng(0), of_patches=False)
    >>> x, p = np.ones((1, 5, 8), np.float32), np.ones((5, 8), np.float32)
    >>> c, r = np.ones((1, 16, 8), np.float32), np.ones((16, 8), np.float32)
    >>> y, saved = layer.forward(x, c, p, r)
    >>> [gradient.shape for gradient in layer.backward(y, saved)]
    [(1, 5, 8), (1, 16, 8), (5, 8), (16, 8)]
    """

    def __init__(self, d_model, n_heads, n_points, side, rng, of_patches, std=None, output_std=None,
                 dtype=np.float32):
        self.deformable = DeformableAttention(d_model, n_heads, 1, n_points, rng, std, output_std,
                                              dtype)
        self.reference = None if of_patches else Linear(d_model, 2, rng, True, None, dtype)
        self.side = side

    def forward(self, x, context, query_positions, key_positions, rng=None):
        """Attend from `x` to `context`.

        Parameters
        ----------
        x : ndarray, shape (B, T, C)
        context : ndarray, shape (B, S, C)
            The patches, row by row: S is the square of `side`.
        query_positions : ndarray, shape (T, C)
            p.
        key_positions : ndarray, shape (S, C)
            Their values are not used.
        rng : numpy.random.Generator, optional
            Not used: no weight is dropped.

        Returns
        -------
        y : ndarray, shape (B, T, C)
        saved : tuple

        Raises
        ------
        ValueError, TypeError
            If an input is no array of floats of its shape and of the precision of the others, or S
            is not the square of `side`.
        """
        owner = "ReferenceAttention"
        check_arrays(owner, ("x", x, "(B, T, C)"), ("context", context, "(B, S, C)"),
                     ("query_positions", query_positions, "(T, C)"),
                     ("key_positions", key_positions, "(S, C)"))
        check_generator(owner, rng)
        saved_reference = saved_sigmoid = None
        if self.reference is None:
            points = self.centres(x.real.dtype)                       # (S, 2)
        else:
            points, saved_reference = self.reference.forward(query_positions)
            points, saved_sigmoid = sigmoid(points)                   # (T, 2)
        points = np.repeat(points[None], len(x), axis=0)              # (B, T, 2)
        y, saved_attention = self.deformable.forward(x + query_positions, context, points,
                                                     [(self.side, self.side)])

        saved = (saved_reference, saved_sigmoid, saved_attention, key_positions.shape)
        return y, saved

    def backward(self, dy, saved):
        """Gradients of `x`, `context`, `query_positions` and `key_positions`, the last one 0."""
        saved_reference, saved_sigmoid, saved_attention, shape = saved

        # y = deformable(x + query_positions, context, points), the same points for each example
        dx, dcontext, dpoints = self.deformable.backward(dy, saved_attention)
        dpositions = dx.sum(axis=0)                                   # (T, C)

        # points = sigmoid(reference(query_positions))
        if self.reference is not None:
            dlogits = sigmoid_backward(dpoints.sum(axis=0), saved_sigmoid)
            dpositions = add(dpositions, self.reference.backward(dlogits, saved_reference))
        return dx, dcontext, dpositions, np.zeros(shape, dx.dtype)

    def centres(self, dtype):
        """(x, y) of the centre of every patch, row by row, as parts of the image: (S, 2)."""
        at = ((np.arange(self.side) + 0.5) / self.side).astype(dtype)
        return np.stack(np.meshgrid(at, at), axis=-1).reshape(-1, 2)

    def describe(self):
        about = self.deformable.describe()
        near = "the centre of each patch" if self.reference is None else "trained references"
        return Description(about.name, f"{about.sizes} near {near}", about.gradient)
