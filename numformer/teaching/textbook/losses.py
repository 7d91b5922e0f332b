"""Losses, similarities and gates, written out."""

import numpy as np


def softmax_cross_entropy(logits, targets):
    p = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    one_hot = np.eye(logits.shape[-1])[targets]
    return -(one_hot * np.log(p)).sum() / targets.size


def softmax_cross_entropy_backward(dloss, logits, targets):
    p = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    one_hot = np.eye(logits.shape[-1])[targets]
    return dloss * ((p - one_hot) / targets.size)


def uniform_cross_entropy(logits):
    p = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    return -np.log(p).mean()


def uniform_cross_entropy_backward(dloss, logits):
    V = logits.shape[-1]
    n = logits.size // logits.shape[-1]
    p = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    return dloss * (p - 1 / V) / n


def z_loss(logits):
    lse = np.log(np.exp(logits).sum(axis=-1))
    return (lse ** 2).mean()


def z_loss_backward(dloss, logits):
    e = np.exp(logits)
    p = e / e.sum(axis=-1, keepdims=True)
    lse = np.log(e.sum(axis=-1, keepdims=True))
    return dloss * 2 * lse * p / len(logits)


def router_z_loss(logits):
    lse = np.log(np.exp(logits).sum(axis=-1))
    return (lse ** 2).mean()


def router_z_loss_backward(dloss, logits):
    e = np.exp(logits)
    p = e / e.sum(axis=-1, keepdims=True)
    lse = np.log(e.sum(axis=-1, keepdims=True))
    return dloss * 2 * lse * p / len(logits)


def cross_entropy(logits, targets, ignore_index=-100, label_smoothing=0.0, z_loss=0.0):
    V = logits.shape[-1]
    counts = targets != ignore_index
    n = counts.sum()
    lse = np.log(np.exp(logits).sum(axis=-1, keepdims=True))
    one_hot = np.eye(V)[np.where(counts, targets, 0)]
    q = (1 - label_smoothing) * one_hot + label_smoothing / V
    losses = -(q * (logits - lse)).sum(axis=-1) + z_loss * lse[..., 0] ** 2
    return (losses * counts).sum() / n


def cross_entropy_backward(dloss, logits, targets, ignore_index=-100, label_smoothing=0.0,
                           z_loss=0.0):
    V = logits.shape[-1]
    counts = targets != ignore_index
    n = counts.sum()
    lse = np.log(np.exp(logits).sum(axis=-1, keepdims=True))
    p = np.exp(logits - lse)
    one_hot = np.eye(V)[np.where(counts, targets, 0)]
    q = (1 - label_smoothing) * one_hot + label_smoothing / V
    dlogits = p - q + 2 * z_loss * lse * p
    return dloss * dlogits * counts[..., None] / n


def cosine_similarity(a, b):
    a_hat = a / np.sqrt((a * a).sum(axis=-1, keepdims=True))
    b_hat = b / np.sqrt((b * b).sum(axis=-1, keepdims=True))
    return a_hat @ b_hat.T


def cosine_similarity_backward(ds, a, b):
    a_norm = np.sqrt((a * a).sum(axis=-1, keepdims=True))
    b_norm = np.sqrt((b * b).sum(axis=-1, keepdims=True))
    a_hat = a / a_norm
    b_hat = b / b_norm
    s = a_hat @ b_hat.T
    da = (ds @ b_hat - a_hat * (ds * s).sum(axis=1, keepdims=True)) / a_norm
    db = (ds.T @ a_hat - b_hat * (ds * s).sum(axis=0)[:, None]) / b_norm
    return da, db


def pair_features(u, v):
    return np.concatenate([u, v, np.abs(u - v)], axis=1)


def pair_features_backward(df, u, v):
    first, second, third = np.split(df, 3, axis=1)
    s = np.sign(u - v)
    return first + s * third, second - s * third


def cosine_regression_loss(u, v, targets):
    u_hat = u / np.sqrt((u * u).sum(axis=-1, keepdims=True))
    v_hat = v / np.sqrt((v * v).sum(axis=-1, keepdims=True))
    cosines = (u_hat * v_hat).sum(axis=-1)
    return ((cosines - targets) ** 2).mean()


def cosine_regression_loss_backward(dloss, u, v, targets):
    u_norm = np.sqrt((u * u).sum(axis=-1, keepdims=True))
    v_norm = np.sqrt((v * v).sum(axis=-1, keepdims=True))
    u_hat = u / u_norm
    v_hat = v / v_norm
    cosines = (u_hat * v_hat).sum(axis=-1, keepdims=True)
    g = dloss * 2 * (cosines - targets[:, None]) / len(u)
    du = g * (v_hat - cosines * u_hat) / u_norm
    dv = g * (u_hat - cosines * v_hat) / v_norm
    return du, dv


def contrastive_loss(logits):
    e = np.exp(logits)
    p = e / e.sum(axis=1, keepdims=True)
    q = e / e.sum(axis=0)
    N = len(logits)
    return -(np.eye(N) * (np.log(p) + np.log(q))).sum() / (2 * N)


def contrastive_loss_backward(dloss, logits):
    e = np.exp(logits)
    p = e / e.sum(axis=1, keepdims=True)
    q = e / e.sum(axis=0)
    N = len(logits)
    return dloss * (p + q - 2 * np.eye(N)) / (2 * N)


def triplet_loss(anchors, positives, negatives, margin=1.0):
    near = np.sqrt(((anchors - positives) ** 2).sum(axis=-1))
    far = np.sqrt(((anchors - negatives) ** 2).sum(axis=-1))
    losses = np.maximum(near - far + margin, 0)
    return losses.mean()


def triplet_loss_backward(dloss, anchors, positives, negatives, margin=1.0):
    B = len(anchors)
    near = np.sqrt(((anchors - positives) ** 2).sum(axis=-1, keepdims=True))
    far = np.sqrt(((anchors - negatives) ** 2).sum(axis=-1, keepdims=True))
    active = near - far + margin > 0
    u = (anchors - positives) / near
    v = (anchors - negatives) / far
    g = dloss * active / B
    danchors = g * (u - v)
    dpositives = -g * u
    dnegatives = g * v
    return danchors, dpositives, dnegatives


def top_k_gates(logits, chosen):
    rows = np.arange(len(logits))[:, None]
    e = np.exp(logits[rows, chosen])
    return e / e.sum(axis=-1, keepdims=True)


def top_k_gates_backward(dweights, logits, chosen):
    rows = np.arange(len(logits))[:, None]
    e = np.exp(logits[rows, chosen])
    w = e / e.sum(axis=-1, keepdims=True)
    dlogits = np.zeros(logits.shape)
    dlogits[rows, chosen] = w * (dweights - (w * dweights).sum(axis=-1, keepdims=True))
    return dlogits


def top_k_gates_over_all(logits, chosen):
    rows = np.arange(len(logits))[:, None]
    p = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    return p[rows, chosen]


def top_k_gates_over_all_backward(dweights, logits, chosen):
    rows = np.arange(len(logits))[:, None]
    p = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    dp = np.zeros(logits.shape)
    dp[rows, chosen] = dweights
    return p * (dp - (p * dp).sum(axis=-1, keepdims=True))


def load_balance_loss(logits, chosen):
    N, E = logits.shape
    p = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    f = np.bincount(chosen.reshape(-1), minlength=E) / chosen.size
    return E * (f * p.mean(axis=0)).sum()


def load_balance_loss_backward(dloss, logits, chosen):
    N, E = logits.shape
    p = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    f = np.bincount(chosen.reshape(-1), minlength=E) / chosen.size
    dp = dloss * E * f / N
    return p * (dp - (p * dp).sum(axis=-1, keepdims=True))
