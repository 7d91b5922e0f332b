"""Wrong answers: cosine similarity, triplet loss, routing to experts."""

import numpy as np
from scipy.special import softmax

from answers.corpus import wrong


def norms(x):
    return np.linalg.norm(x, axis=1, keepdims=True)


@wrong("cosine_similarity_backward", "the norms are held constant: no projection")
def cosine_b_projection(ds, a, b):
    return ds @ (b / norms(b)) / norms(a), ds.T @ (a / norms(a)) / norms(b)


@wrong("cosine_similarity_backward", "not divided by the norms of a and b")
def cosine_b_norm(ds, a, b):
    u, v = a / norms(a), b / norms(b)
    du, dv = ds @ v, ds.T @ u
    return (du - u * (u * du).sum(1, keepdims=True), dv - v * (v * dv).sum(1, keepdims=True))


@wrong("cosine_similarity_backward", "plus for minus in the projection")
def cosine_b_plus(ds, a, b):
    u, v = a / norms(a), b / norms(b)
    du, dv = ds @ v, ds.T @ u
    return ((du + u * (u * du).sum(1, keepdims=True)) / norms(a),
            (dv + v * (v * dv).sum(1, keepdims=True)) / norms(b))


@wrong("cosine_similarity_backward", "the second gradient lacks the path through the norm of b")
def cosine_b_second(ds, a, b):
    u, v = a / norms(a), b / norms(b)
    du, dv = ds @ v, ds.T @ u
    return (du - u * (u * du).sum(1, keepdims=True)) / norms(a), dv / norms(b)


@wrong("cosine_similarity_backward", "a is multiplied where b must be: du = ds @ b unnormalised")
def cosine_b_raw(ds, a, b):
    u, v = a / norms(a), b / norms(b)
    du, dv = ds @ b, ds.T @ a
    return ((du - u * (u * du).sum(1, keepdims=True)) / norms(a),
            (dv - v * (v * dv).sum(1, keepdims=True)) / norms(b))


@wrong("cosine_similarity_backward", "divided by the squared norm")
def cosine_b_squared(ds, a, b):
    u, v = a / norms(a), b / norms(b)
    du, dv = ds @ v, ds.T @ u
    return ((du - u * (u * du).sum(1, keepdims=True)) / norms(a)**2,
            (dv - v * (v * dv).sum(1, keepdims=True)) / norms(b)**2)


@wrong("cosine_similarity", "the product of the vectors is not normalised by the norm of b")
def cosine_one_side(a, b):
    return (a / norms(a)) @ b.T


@wrong("cosine_similarity", "divided by the squared norms")
def cosine_squares(a, b):
    return a @ b.T / ((a * a).sum(1)[:, None] * (b * b).sum(1))


def triplet_parts(a, p, n, margin):
    near, far = np.linalg.norm(a - p, axis=1), np.linalg.norm(a - n, axis=1)
    return (a - p) / near[:, None], (a - n) / far[:, None], (near - far + margin > 0)[:, None]


@wrong("triplet_loss_backward", "divided by the number of active triplets, not of all")
def triplet_b_active(dloss, anchors, positives, negatives, margin=1.0):
    u, v, active = triplet_parts(anchors, positives, negatives, margin)
    w = dloss * active / active.sum()
    return w * (u - v), -w * u, w * v


@wrong("triplet_loss_backward", "not divided by the number of triplets: the sum for the mean")
def triplet_b_mean(dloss, anchors, positives, negatives, margin=1.0):
    u, v, active = triplet_parts(anchors, positives, negatives, margin)
    return dloss * active * (u - v), -dloss * active * u, dloss * active * v


@wrong("triplet_loss_backward", "triplets that keep the margin get a gradient, too")
def triplet_b_all(dloss, anchors, positives, negatives, margin=1.0):
    u, v, _ = triplet_parts(anchors, positives, negatives, margin)
    w = dloss / len(u)
    return w * (u - v), -w * u, w * v


@wrong("triplet_loss_backward", "squared distances: the differences are not divided by the norm")
def triplet_b_squared(dloss, anchors, positives, negatives, margin=1.0):
    _, _, active = triplet_parts(anchors, positives, negatives, margin)
    w = 2 * dloss * active / len(anchors)
    u, v = anchors - positives, anchors - negatives
    return w * (u - v), -w * u, w * v


@wrong("triplet_loss_backward", "plus for minus in the anchor: u + v")
def triplet_b_anchor(dloss, anchors, positives, negatives, margin=1.0):
    u, v, active = triplet_parts(anchors, positives, negatives, margin)
    w = dloss * active / len(u)
    return w * (u + v), -w * u, w * v


@wrong("triplet_loss_backward", "positives and negatives are returned in the wrong order")
def triplet_b_order(dloss, anchors, positives, negatives, margin=1.0):
    u, v, active = triplet_parts(anchors, positives, negatives, margin)
    w = dloss * active / len(u)
    return w * (u - v), w * v, -w * u


@wrong("triplet_loss_backward", "the sign of the negatives' gradient is wrong")
def triplet_b_negative(dloss, anchors, positives, negatives, margin=1.0):
    u, v, active = triplet_parts(anchors, positives, negatives, margin)
    w = dloss * active / len(u)
    return w * (u - v), -w * u, -w * v


@wrong("triplet_loss_backward", "the margin is forgotten in what is active")
def triplet_b_margin(dloss, anchors, positives, negatives, margin=1.0):
    u, v, active = triplet_parts(anchors, positives, negatives, 0)
    w = dloss * active / len(u)
    return w * (u - v), -w * u, w * v


@wrong("triplet_loss", "squared distances")
def triplet_squares(anchors, positives, negatives, margin=1.0):
    near = ((anchors - positives) ** 2).sum(1)
    far = ((anchors - negatives) ** 2).sum(1)
    return np.maximum(near - far + margin, 0).mean()


@wrong("triplet_loss", "the mean is over the active triplets alone")
def triplet_active(anchors, positives, negatives, margin=1.0):
    near = np.linalg.norm(anchors - positives, axis=1)
    excess = near - np.linalg.norm(anchors - negatives, axis=1) + margin
    return excess[excess > 0].mean()


@wrong("contrastive_loss_backward", "the columns' gradient is not transposed back")
def contrastive_b_transposed(dloss, logits):
    right, n = np.eye(len(logits)), len(logits)
    return dloss * (softmax(logits, 1) + softmax(logits.T, 1) - 2 * right) / 2 / n


@wrong("contrastive_loss", "the texts find their images, but not the images their texts")
def contrastive_rows(logits):
    return -np.log(np.diagonal(softmax(logits, axis=1))).mean()


@wrong("top_k_gates_backward", "the whole row's softmax: not only the chosen logits'")
def gates_b_all(dweights, logits, chosen):
    p = softmax(logits, axis=1)
    dp = np.zeros_like(p)
    np.put_along_axis(dp, chosen, dweights, axis=1)
    return p * (dp - (p * dp).sum(1, keepdims=True))


@wrong("top_k_gates_backward", "the sum over the chosen weights is missing")
def gates_b_sum(dweights, logits, chosen):
    p = softmax(np.take_along_axis(logits, chosen, 1), axis=1)
    dlogits = np.zeros_like(logits)
    np.put_along_axis(dlogits, chosen, p * dweights, axis=1)
    return dlogits


@wrong("top_k_gates_backward", "the gradients are put into the first k columns, not the chosen")
def gates_b_first(dweights, logits, chosen):
    p = softmax(np.take_along_axis(logits, chosen, 1), axis=1)
    dlogits = np.zeros_like(logits)
    dlogits[:, :chosen.shape[1]] = p * (dweights - (p * dweights).sum(1, keepdims=True))
    return dlogits


@wrong("top_k_gates_over_all_backward", "the experts that are not chosen get no gradient")
def over_all_b_chosen(dweights, logits, chosen):
    p = np.take_along_axis(softmax(logits, axis=1), chosen, axis=1)
    dlogits = np.zeros_like(logits)
    ds = p * (dweights - (p * dweights).sum(1, keepdims=True))
    np.put_along_axis(dlogits, chosen, ds, axis=1)
    return dlogits


@wrong("top_k_gates_over_all_backward", "renormalised: the softmax of the chosen alone")
def over_all_b_renormalised(dweights, logits, chosen):
    p = softmax(np.take_along_axis(logits, chosen, 1), axis=1)
    dlogits = np.zeros_like(logits)
    for n in range(len(logits)):
        ds = p[n] * (dweights[n] - p[n] @ dweights[n])
        dlogits[n, chosen[n]] = ds
    return dlogits


@wrong("load_balance_loss_backward", "the factor E is forgotten")
def balance_b_experts(dloss, logits, chosen):
    N, E = logits.shape
    used = np.bincount(chosen.ravel(), minlength=E) / chosen.size
    p = softmax(logits, axis=1)
    return dloss / N * p * (used - (p * used).sum(1, keepdims=True))


@wrong("load_balance_loss_backward", "the fractions are of N tokens, not of the N * k choices")
def balance_b_choices(dloss, logits, chosen):
    N, E = logits.shape
    used = np.bincount(chosen.ravel(), minlength=E) / N
    p = softmax(logits, axis=1)
    return E * dloss / N * p * (used - (p * used).sum(1, keepdims=True))


@wrong("load_balance_loss_backward", "the softmax is not derived: dp is returned")
def balance_b_softmax(dloss, logits, chosen):
    N, E = logits.shape
    used = np.bincount(chosen.ravel(), minlength=E) / chosen.size
    return np.tile(E * dloss / N * used, (N, 1))


@wrong("load_balance_loss_backward", "the mean over the tokens is forgotten: not divided by N")
def balance_b_tokens(dloss, logits, chosen):
    E = logits.shape[1]
    used = np.bincount(chosen.ravel(), minlength=E) / chosen.size
    p = softmax(logits, axis=1)
    return E * dloss * p * (used - (p * used).sum(1, keepdims=True))


@wrong("triplet_loss_backward", "two mistakes: a sum for the mean, and u + v in the anchor")
def triplet_b_two(dloss, anchors, positives, negatives, margin=1.0):
    u, v, active = triplet_parts(anchors, positives, negatives, margin)
    w = dloss * active
    return w * (u + v), -w * u, w * v
