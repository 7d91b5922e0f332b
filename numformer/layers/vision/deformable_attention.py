"""Deformable attention as a layer: each query says where it looks, and with which weights."""

import numpy as np

from numformer.checks import check_array, check_whole
from numformer.description import Description
from numformer.functional import (
    deformable_attention, deformable_attention_backward, softmax, softmax_backward)
from numformer.functional.head_projections import join_heads, split_heads
from numformer.functional.vision.deformable_attention import check_shapes
from numformer.layers.attention.head_width import check_head_width
from numformer.layers.linear import Linear
from numformer.parameter import Layer


class DeformableAttention(Layer):
    r"""Attend to a few points near a reference point, (B, T, C) and feature maps (B, S, C) to
    (B, T, C).

    .. math::

        y_t = \sum_h \Big( \sum_{lk} a_{htlk}\, v_h^l(p_t + \Delta_{htlk} / (N_l, M_l)) \Big) W_O^h,
        \qquad v_h = x W_V^h, \qquad a_{ht} = \mathrm{softmax}_{lk}(z_t W_a^h), \qquad
        \Delta_{ht} = z_t W_\Delta^h

    There are no keys and no scores: offsets and weights are linear maps of the query alone, and the
    cost grows with the number T of queries, not with T x S. The biases of the four maps are left
    out here.

    Parameters
    ----------
    d_model, n_heads : int
        C and H, which divides C.
    n_maps, n_points : int
        L, feature maps of different resolutions, and K, points in each of them for a head.
    rng : numpy.random.Generator or None
    std, output_std : float, optional
        Of the initial matrices of values and of the output, as in `Linear`. Offsets and weights do
        not depend on the query at first: the K points of a head are 1 to K pixels away, each head
        in a direction of its own, and have equal weights.
    dtype : float32 or float64

    Raises
    ------
    ValueError, TypeError
        If heads do not divide the width, a size is not a whole number above 0, or an input does not
        fit.

    References
    ----------
    Zhu et al. (2021), "Deformable DETR", eq. 3; with one map, eq. 2. Initial values: the published
    code, ``_reset_parameters``.

    Examples
    --------
    >>> layer = DeformableAttention(8, 2, n_maps=1, n_points=3, rng=np.random.default_rng(0))
    >>> queries, image = np.ones((1, 5, 8), np.float32), np.ones((1, 12, 8), np.float32)
    >>> points = np.full((1, 5, 2), 0.5, np.float32)
    >>> layer(queries, image, points, shapes=[(3, 4)]).shape
    (1, 5, 8)
    """

    def __init__(self, d_model, n_heads, n_maps, n_points, rng, std=None, output_std=None,
                 dtype=np.float32):
        owner = "DeformableAttention"
        self.d_head = check_head_width(owner, d_model, n_heads)
        check_whole(owner, "n_maps", n_maps)
        check_whole(owner, "n_points", n_points)
        n = n_heads * n_maps * n_points
        self.offsets = Linear(d_model, 2 * n, rng, std=0.0, dtype=dtype)
        if rng is not None:                           # else there are shapes alone
            self.offsets.bias.data[...] = first_offsets(n_heads, n_maps, n_points).ravel()
        self.weights = Linear(d_model, n, rng, std=0.0, dtype=dtype)
        self.value = Linear(d_model, d_model, rng, std=std, dtype=dtype)
        self.output = Linear(d_model, d_model, rng, std=output_std, dtype=dtype)
        self.n_heads, self.n_maps, self.n_points = n_heads, n_maps, n_points

    def forward(self, queries, x, points, shapes):
        """Attend from the queries to the feature maps.

        Parameters
        ----------
        queries : ndarray, shape (B, T, C)
            z.
        x : ndarray, shape (B, S, C)
            The pixels of all maps, map after map, each row by row.
        points : ndarray, shape (B, T, 2)
            p, the reference point (x, y) of each query, as in `deformable_attention`: (0, 0) is the
            upper left corner of every map, (1, 1) the lower right one.
        shapes : sequence of (int, int)
            (M, N), height and width of each of the L maps.

        Returns
        -------
        y : ndarray, shape (B, T, C)
        saved : tuple
        """
        owner, C = "DeformableAttention", len(self.value.weight.data)
        sizes = check_array(owner, "queries", queries, "(B, T, C)", self.value.weight.data.dtype,
                            C=C)
        B, T = sizes["B"], sizes["T"]
        check_array(owner, "x", x, "(B, S, C)", queries.dtype, B=B, C=C)
        check_array(owner, "points", points, "(B, T, 2)", queries.dtype, B=B, T=T, **{"2": 2})
        check_shapes(owner, shapes, x.shape[1])
        if len(shapes) != self.n_maps:
            raise ValueError(f"{owner}: shapes={shapes} are those of {len(shapes)} feature maps, "
                             f"but the layer is for n_maps={self.n_maps}.")
        H, L, K = self.n_heads, self.n_maps, self.n_points

        offsets, saved_offsets = self.offsets.forward(queries)        # (B, T, 2 H L K)
        offsets = offsets.reshape(B, T, H, L, K, 2).swapaxes(1, 2)    # (B, H, T, L, K, 2)
        locations = points[:, None, :, None, None] + offsets / self.sides(shapes)

        scores, saved_scores = self.weights.forward(queries)          # (B, T, H L K)
        a, saved_softmax = softmax(scores.reshape(B, T, H, L * K))    # (B, T, H, L K)
        a = a.reshape(B, T, H, L, K).swapaxes(1, 2)                   # (B, H, T, L, K)

        v, saved_value = self.value.forward(x)                        # (B, S, C)
        o, saved_attention = deformable_attention(
            split_heads(v, self.d_head), locations, a, shapes)        # (B, H, T, D)
        y, saved_output = self.output.forward(join_heads(o))          # (B, T, C)

        saved = (shapes, saved_offsets, saved_scores, saved_softmax, saved_value, saved_attention,
                 saved_output)
        return y, saved

    def backward(self, dy, saved):
        """Gradients of the queries, of `x` and of the points."""
        (shapes, saved_offsets, saved_scores, saved_softmax, saved_value, saved_attention,
         saved_output) = saved
        B, T, _ = dy.shape

        # y = output(join_heads(o))
        do = split_heads(self.output.backward(dy, saved_output), self.d_head)

        # o = deformable_attention(value(x), locations, a)
        dv, dlocations, da = deformable_attention_backward(do, saved_attention)
        dx = self.value.backward(join_heads(dv), saved_value)

        # a = softmax(weights(queries))
        da = da.swapaxes(1, 2).reshape(B, T, self.n_heads, -1)        # (B, T, H, L K)
        dscores = softmax_backward(da, saved_softmax).reshape(B, T, -1)
        dqueries = self.weights.backward(dscores, saved_scores)

        # locations = points + offsets(queries) / sides
        dpoints = dlocations.sum(axis=(1, 3, 4))                      # (B, T, 2)
        doffsets = (dlocations / self.sides(shapes)).swapaxes(1, 2).reshape(B, T, -1)
        return dqueries + self.offsets.backward(doffsets, saved_offsets), dx, dpoints

    def sides(self, shapes):
        """Width and height of each map, in the order of (x, y): (L, 1, 2)."""
        return np.array(shapes, self.value.weight.data.real.dtype)[:, None, ::-1]

    def describe(self):
        H, L, K = self.n_heads, self.n_maps, self.n_points
        maps = f" in each of {L} maps" if L > 1 else ""
        return Description(
            "Deformable attention", f"{H} heads of {self.d_head}, {K} points{maps}",
            (r"dv_{rc} = \Sigma\,a\,h_r h_c\,do", r"da = do\,v^\top",
             r"d\Delta_x = a\,\Sigma\,h_r h'_c\,do\,v_{rc}^\top"))


def first_offsets(n_heads, n_maps, n_points):
    """Offsets in pixels, (H, L, K, 2): point k of head h is k + 1 away, in direction h of H."""
    angle = 2 * np.pi / n_heads * np.arange(n_heads)
    directions = np.stack([np.cos(angle), np.sin(angle)], axis=-1)    # (H, 2)
    directions /= np.abs(directions).max(axis=-1, keepdims=True)      # on a square, as pixels are
    steps = 1 + np.arange(n_points)[:, None]                          # (K, 1)
    return np.broadcast_to(directions[:, None, None] * steps, (n_heads, n_maps, n_points, 2))
