"""Deformable attention: a few sampled points of feature maps in place of all their positions."""

import numpy as np

from numformer.checks import check_array, check_whole
from numformer.functional.embedding import embedding, embedding_backward


def deformable_attention(values, locations, weights, shapes):
    r"""The weighted sum of values at a few points for each query, in time T x L x K.

    .. math::

        o_t = \sum_{lk} a_{tlk}\, v^l(x_{tlk}, y_{tlk}), \qquad
        v^l(x, y) = \sum_{rc} h(y M_l - \tfrac12 - r)\, h(x N_l - \tfrac12 - c)\, v^l_{rc}, \qquad
        h(u) = \max(0, 1 - |u|)

    for L feature maps of M x N pixels. A point lies between four pixels, and only these have a
    factor h h other than 0: v is interpolated from them, bilinearly. Outside of its map, v is 0.

    Parameters
    ----------
    values : ndarray, shape (B, H, S, D)
        The pixels of all maps, map after map, each row by row: S is the sum of M N.
    locations : ndarray, shape (B, H, T, L, K, 2)
        (x, y) of K points in each map, in units of its width and height: (0, 0) is the upper left
        corner of the upper left pixel, (1, 1) the lower right corner of the lower right one. All
        finite.
    weights : ndarray, shape (B, H, T, L, K)
        a, as a rule a softmax over all L K points of a query.
    shapes : sequence of (int, int)
        (M, N), height and width of each map.

    Returns
    -------
    o : ndarray, shape (B, H, T, D)
    saved : tuple
        For `deformable_attention_backward`.

    Raises
    ------
    ValueError, TypeError
        If the arrays are not floats of one precision that fit together and to the shapes, or a
        location is NaN or infinite.

    References
    ----------
    Zhu et al. (2021), "Deformable DETR", eq. 3, without its two linear maps; with one map, eq. 2.
    Where pixels are, and 0 outside: the published code, which samples with ``padding_mode='zeros',
    align_corners=False``.

    Examples
    --------
    >>> image = np.array([[0.0, 10.0], [20.0, 30.0]]).reshape(1, 1, 4, 1)
    >>> points = np.array([[0.25, 0.25], [0.5, 0.25], [0.5, 0.5]]).reshape(1, 1, 3, 1, 1, 2)
    >>> deformable_attention(image, points, np.ones((1, 1, 3, 1, 1)), [(2, 2)])[0].ravel()
    array([ 0.,  5., 15.])
    """
    check_deformable_attention(values, locations, weights, shapes)
    table, sampled = table_of_pixels(values), 0
    for index, row_factor, column_factor, _, _ in corners(values, locations, shapes):
        pixels, _ = embedding(index, table)                          # (B, H, T, L, K, D)
        sampled = sampled + (row_factor * column_factor)[..., None] * pixels
    o = (weights[..., None] * sampled).sum(axis=(3, 4))              # (B, H, T, D)

    saved = (values, locations, weights, shapes)
    return o, saved


def deformable_attention_backward(do, saved):
    r"""The gradient of `deformable_attention`: a pixel sums over all points next to it.

    .. math::

        \bar{v}^l_{rc} = \sum_{tk} a_{tlk}\, h_r h_c\, \bar{o}_t, \qquad
        \bar{a}_{tlk} = \sum_{rc} h_r h_c\, g_{rc}, \qquad g_{rc} = \bar{o}_t \cdot v^l_{rc}

        \bar{x}_{tlk} = a_{tlk} N_l \sum_{rc} h_r h'_c\, g_{rc}, \qquad
        \bar{y}_{tlk} = a_{tlk} M_l \sum_{rc} h'_r h_c\, g_{rc}

    where :math:`h_r = h(y M_l - \frac12 - r)`, :math:`h_c = h(x N_l - \frac12 - c)`, and h' is 1
    left of 0 and -1 right of it. At the centre of a pixel, where v has a kink, the gradient is that
    of the side with the larger coordinates.

    Returns
    -------
    dvalues : ndarray, shape (B, H, S, D)
    dlocations : ndarray, shape (B, H, T, L, K, 2)
    dweights : ndarray, shape (B, H, T, L, K)
    """
    values, locations, weights, shapes = saved
    table = table_of_pixels(values)
    do = do[:, :, :, None, None]                                     # (B, H, T, 1, 1, D)
    heights, widths = np.array(shapes, locations.real.dtype).T[..., None]           # (L, 1)
    dtable = dx = dy = dweights = 0
    for index, row_factor, column_factor, row_slope, column_slope in corners(
            values, locations, shapes):
        pixels, saved_pixels = embedding(index, table)               # (B, H, T, L, K, D)
        factor = row_factor * column_factor                          # (B, H, T, L, K)

        # o = sum of weights * factor * pixels
        along = (do * pixels).sum(axis=-1)                           # (B, H, T, L, K)
        dweights = dweights + factor * along
        dfactor = weights * along
        dpixels = (weights * factor)[..., None] * do

        # pixels = embedding(index, table)
        dtable = dtable + embedding_backward(dpixels, saved_pixels)

        # factor = h(y M - 1/2 - r) * h(x N - 1/2 - c)
        dx = dx + dfactor * row_factor * column_slope * widths
        dy = dy + dfactor * row_slope * column_factor * heights

    # table = values, and a row of zeros
    B, H, S, D = values.shape
    dvalues = dtable.reshape(B, H, S + 1, D)[:, :, :S].copy()
    return dvalues, np.stack([dx, dy], axis=-1), dweights


def corners(values, locations, shapes):
    """The four pixels around each point: rows in the table of pixels, h of both axes, their slopes.

    Yields
    ------
    index : ndarray of int, shape (B, H, T, L, K)
        In `table_of_pixels`; its row of zeros for what is outside.
    row_factor, column_factor : ndarray, shape (B, H, T, L, K)
    row_slope, column_slope : 1 or -1
        Of the factors, by the coordinates in pixels.
    """
    B, H, S, _ = values.shape
    heights, widths = np.array(shapes).T[..., None]                  # (L, 1)
    starts = np.cumsum(heights * widths)[:, None] - heights * widths
    first = np.arange(B * H).reshape(B, H, 1, 1, 1) * (S + 1)        # of each head's table
    columns = [*neighbours(locations[..., 0], widths)]
    for row, row_inside, row_factor, row_slope in neighbours(locations[..., 1], heights):
        for column, column_inside, column_factor, column_slope in columns:
            pixel = starts + row * widths + column                   # (B, H, T, L, K)
            yield (first + np.where(row_inside & column_inside, pixel, S), row_factor,
                   column_factor, row_slope, column_slope)


def neighbours(x, sides):
    """The pixels before and after each point, along one axis.

    Parameters
    ----------
    x : ndarray, shape (B, H, T, L, K)
    sides : ndarray of int, shape (L, 1)
        N.

    Yields
    ------
    pixel : ndarray of int, shape of `x`
    inside : ndarray of bool
    factor : ndarray
        h(x N - 1/2 - pixel).
    slope : 1 or -1
        Of the factor.
    """
    x = x * sides.astype(x.real.dtype) - 0.5                         # 0 at the first one's centre
    x = np.where((x.real > -1.5) & (x.real < sides + 0.5), x, -1.5)  # far away is outside, too
    before = (x.real + 2).astype(np.int64) - 2                       # floor, as x is above -2
    part = x - before.astype(x.real.dtype)                           # 0 .. 1
    yield before, (before >= 0) & (before < sides), 1 - part, -1
    yield before + 1, (before >= -1) & (before < sides - 1), part, 1


def table_of_pixels(values):
    """(B, H, S, D) as the rows of one table, with a row of zeros after those of each head."""
    B, H, _, D = values.shape
    return np.concatenate([values, np.zeros((B, H, 1, D), values.dtype)], axis=2).reshape(-1, D)


def check_deformable_attention(values, locations, weights, shapes):
    """Check all arguments of deformable attention."""
    owner = "deformable_attention"
    B, H, S, _ = check_array(owner, "values", values, "(B, H, S, D)").values()
    check_shapes(owner, shapes, S)
    sizes = check_array(owner, "locations", locations, "(B, H, T, L, K, 2)", values.dtype, B=B,
                        H=H, L=len(shapes), **{"2": 2})
    check_array(owner, "weights", weights, "(B, H, T, L, K)", values.dtype, B=B, H=H,
                T=sizes["T"], L=len(shapes), K=sizes["K"])
    if 0 in values.shape or 0 in locations.shape:
        raise ValueError(f"{owner}: values of shape {values.shape} and locations of shape "
                         f"{locations.shape}: no axis may be empty.")
    wrong = np.argwhere(~np.isfinite(locations))
    if len(wrong):
        index = tuple(int(i) for i in wrong[0])
        raise ValueError(f"{owner}: locations must be finite, but hold {locations[index]} at index "
                         f"{index}.")


def check_shapes(owner, shapes, S):
    """Check that `shapes` are heights and widths of maps that have S pixels in all."""
    if (not isinstance(shapes, (list, tuple)) or not shapes
            or not all(isinstance(shape, (list, tuple)) and len(shape) == 2 for shape in shapes)):
        raise TypeError(f"{owner}: shapes={shapes!r} must be a list of (height, width), one for "
                        "each feature map, such as [(8, 8)].")
    for height, width in shapes:
        check_whole(owner, "height", height)
        check_whole(owner, "width", width)
    total = sum(height * width for height, width in shapes)
    if total != S:
        raise ValueError(f"{owner}: maps of {shapes} have {total} pixels, but there are S={S} "
                         "vectors; give the height and width of each map.")
