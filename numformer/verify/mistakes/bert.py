"""Mistakes in the cosine and in the triplet loss."""

import numpy as np


def length(x):
    return np.sqrt((x * x).sum(axis=-1, keepdims=True))


def cosine(change):
    """A backward of the cosine in which `change(g, unit, size)` says the gradient of a vector of that unit vector and length."""
    def gradients(ds, a, b):
        u, v = a / length(a), b / length(b)
        return change(ds @ v, u, length(a)), change(ds.T @ u, v, length(b))
    return gradients


def cosine_as_product(ds, a, b):
    return ds @ b, ds.T @ a


def cosine_with_raw_partners(ds, a, b):
    """What multiplies ds is the other vector itself, not its direction."""
    def towards(g, x):
        u = x / length(x)
        return (g - u * (u * g).sum(axis=-1, keepdims=True)) / length(x)
    return towards(ds @ b, a), towards(ds.T @ a, b)


def triplet(change=lambda near, far: (near, far), kept=lambda excess: excess > 0, weight=lambda B: 1 / B, anchor=lambda u, v: u - v):
    """A backward of the triplet loss: `change` makes the two pulls from two differences, `kept` says which triplets count."""
    def gradients(dloss, anchors, positives, negatives, margin=1.0):
        near, far = anchors - positives, anchors - negatives
        w = dloss * weight(len(anchors)) * kept(length(near) - length(far) + margin)
        u, v = change(near, far)
        return w * anchor(u, v), -w * u, w * v
    return gradients


def units(near, far):
    return near / length(near), far / length(far)


MISTAKES = {
    "cosine_similarity_backward": [
        ("this is the gradient of the dot product: vectors are to be divided by their lengths first", cosine_as_product),
        ("the lengths are taken for constants: what would make a vector longer must be taken away", cosine(lambda g, u, size: g / size)),
        ("the factor 1 / |a| is missing: the longer a vector, the less a step turns it",
         cosine(lambda g, u, size: g - u * (u * g).sum(axis=-1, keepdims=True))),
        ("the other vector's length is forgotten: ds must meet its direction", cosine_with_raw_partners)],
    "triplet_loss_backward": [
        ("triplets that keep the margin get a gradient, but must not: the maximum with 0 closes them",
         triplet(units, kept=lambda excess: np.ones_like(excess))),
        ("the mean over the triplets is missing", triplet(units, weight=lambda B: 1.0)),
        ("the differences are not divided by the distances: the derivative of a length is a unit vector", triplet()),
        ("this is the gradient of squared distances", triplet(lambda near, far: (2 * near, 2 * far))),
        ("the anchor gets nothing of its negative", triplet(units, anchor=lambda u, v: u)),
        ("the anchor gets no gradient: it is part of both distances", triplet(units, anchor=lambda u, v: 0 * u))],
}
