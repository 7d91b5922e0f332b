"""The features of linear attention, elu(x) + 1, scaled so that they neither underflow nor overflow.

Far below 0 a feature is e^x: 0 in float32 from -104 on, and products of two from -52 on. But a
factor of all features of a query cancels in the quotient of `linear_attention`; and so does a
factor e^-c_d of feature d in all keys, if feature d in all queries has e^c_d. So the largest
feature of each query, and feature d of the largest key, are brought between e^-8 and e^8, and what
is lost is far below the rounding of the sum.

The factors are 1 for features from e^-8 to e^8: numbers of ordinary size are not touched. Factors
are constants: the gradient does not pass through them.
"""

import numpy as np

STEP = 8.0                                            # nats
CHUNK = 64                                            # positions whose weights are held at once


def key_scales(k, causal):
    """c (B, H, S, D): the logarithm, rounded, of feature d of the largest key up to each position.

    For all positions together, (B, H, 1, D), if not causal. NaN is not counted.
    """
    c = rounded(log_features(k))
    return np.fmax.accumulate(c, axis=2) if causal else np.fmax.reduce(c, axis=2, keepdims=True)


def query_scales(q, c):
    """x0 and c0 (B, H, T, 1): of the largest feature of each query with e^c, x and c; or 0 and 0.

    Its logarithm is x0 + c0, if x0 is below 0. Two numbers: x - x0 and c - c0 are exact near them.
    """
    size = log_features(q) + c                           # (B, H, T, D)
    size = np.where(np.isnan(size), -np.inf, size)
    largest = size.argmax(axis=-1, keepdims=True)        # (B, H, T, 1)
    x0 = np.take_along_axis(log_features(q), largest, axis=-1)
    c0 = np.take_along_axis(np.broadcast_to(c, q.shape), largest, axis=-1)
    ordinary = abs(x0 + c0) < STEP
    x0 = finite(np.where(x0 > 0, rounded(x0), x0))
    return np.where(ordinary, 0, x0), np.where(ordinary, 0, c0)


def scaled_features(x, c, x0=0.0):
    """(elu(x) + 1) e^(c - x0): positive, and linear above 0."""
    positive = x.real > 0
    # twice the root: where the product is in range, e^(c - x0) itself may underflow
    root = np.exp(np.where(positive, 0.5 * (c - x0), 0))
    return np.where(positive, (x + 1) * root * root, np.exp(np.where(positive, 0, (x - x0) + c)))


def slopes(x, y, c, x0=0.0):
    """The derivative of y = scaled_features(x, c, x0)."""
    positive = x.real > 0
    return np.where(positive, np.exp(np.where(positive, c - x0, 0)), y)


def log_features(x):
    """The logarithm of elu(x) + 1, of the real part."""
    return np.where(x.real > 0, np.log1p(np.where(x.real > 0, x.real, 0)), x.real)


def rounded(logarithm):
    """To a multiple of `STEP`, towards 0; finite even for e^-Inf."""
    return STEP * np.trunc(finite(logarithm) * (1 / STEP))


def finite(logarithm):
    """The logarithm of a feature, and a large number below 0 for that of 0."""
    return np.fmax(logarithm, 0.25 * np.finfo(logarithm.dtype).min)


def chunks_of_one_scale(c, *arrays):
    """(slice, c of its positions) of consecutive chunks, of `CHUNK` positions or fewer.

    A chunk ends before a position where the scale c changes: then no position depends on the scales
    of later ones. And it ends before a NaN or Inf in the arrays (B, H, S, ...): a later position
    has a weight of 0 within a chunk, and 0 NaN is NaN.
    """
    changes = (c[:, :, 1:] != c[:, :, :-1]).any(axis=(0, 1, 3))
    finite = np.all([np.isfinite(x).all(axis=(0, 1, 3)) for x in arrays], axis=0)
    apart = changes | ~finite[1:]
    chunks, start = [], 0
    for end in range(1, c.shape[2] + 1):
        if end == c.shape[2] or end - start == CHUNK or apart[end - 1]:
            chunks.append((slice(start, end), c[:, :, start:start + 1]))
            start = end
    return chunks
