"""How Sentence-BERT compares vectors, and CLIP texts with images."""

import numpy as np

from numformer import functional as F
from numformer.specifications.levels import Level, sizes
from numformer.specifications.specification import specify


# ---- cosine_similarity ---------------------------------------------------------------------------

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


def two_sets(rng):
    N, M, C = sizes(rng, 3)
    return {"a": rng.standard_normal((N, C)), "b": 2 * rng.standard_normal((M, C))}, {}


def with_zero_vector(rng):
    arguments, options = two_sets(rng)
    arguments["a"][-1] = 0
    return arguments, options


ZERO = "The cosines of a zero vector, and its gradient, are 0, not NaN."


def norm(x):
    return np.sqrt((x * x).sum(axis=-1, keepdims=True))


def cosine(change):
    """A backward of the cosine; `change(g, unit, size)` is the gradient of vector size * unit."""
    def gradients(ds, a, b):
        u, v = a / norm(a), b / norm(b)
        return change(ds @ v, u, norm(a)), change(ds.T @ u, v, norm(b))
    return gradients


def cosine_as_product(ds, a, b):
    return ds @ b, ds.T @ a


def cosine_with_raw_partners(ds, a, b):
    """ds is multiplied by the other vector itself, not by its unit vector."""
    def direction_backward(g, x):
        u = x / norm(x)
        return (g - u * (u * g).sum(axis=-1, keepdims=True)) / norm(x)
    return direction_backward(ds @ b, a), direction_backward(ds.T @ a, b)


specify(
    F.cosine_similarity, ("a", "b"),
    {"plain": two_sets, "a zero vector": Level(with_zero_vector, ZERO, required=False)},
    smallest=1e-6,
    mistakes=[
        ("this is the gradient of the dot product: the vectors must be divided by their norms "
         "first", cosine_as_product),
        ("the norms are treated as constants: the component along the vector must be subtracted",
         cosine(lambda g, u, size: g / size)),
        ("the factor 1 / |a| is missing: the larger the norm of a vector, the less a step rotates "
         "it",
         cosine(lambda g, u, size: g - u * (u * g).sum(axis=-1, keepdims=True))),
        ("the norm of the other vector is missing: ds must be multiplied by its unit vector",
         cosine_with_raw_partners)],
    hints=(
        "Divide every vector by its norm; then a dot product of two of them is the cosine of "
        "their angle.",
        "Norms run over the last axis, with keepdims=True: (N, 1). All pairs at once are one "
        "product, (N, C) with (C, M).",
        "a_hat = a / |a| and b_hat likewise; s is a_hat times the transpose of b_hat."),
    backward_hints=(
        "Two steps back: the product of unit vectors, where each a_i sums over all b_j; then the "
        "normalization, where a enters directly and through its norm.",
        "g = ds b_hat is the gradient of a_hat. Through a / |a|: remove the part of g along "
        "a_hat, then divide by |a|.",
        "da = (g - a_hat * d) / |a|, with d = (a_hat * g).sum(axis=-1, keepdims=True); for b, g "
        "is ds.T @ a_hat."))


# ---- contrastive_loss ----------------------------------------------------------------------------

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


def of_pairs(rng):
    N, = sizes(rng, 1)
    return {"logits": 2 * rng.standard_normal((N + 1, N + 1))}, {}


def contrastive(row=1.0, column=1.0, target=2.0, count=lambda N: 2 * N, transposed=False):
    """A backward of the contrastive loss: factors of both softmaxes, of the targets, the count."""
    def gradients(dloss, logits):
        e, N = np.exp(logits), len(logits)
        p, q = e / e.sum(axis=1, keepdims=True), e / e.sum(axis=0)
        if transposed:
            q = q.T
        return dloss * (row * p + column * q - target * np.eye(N)) / count(N)
    return gradients


specify(
    F.contrastive_loss, ("logits",),
    {"plain": of_pairs},
    mistakes=[
        ("the cross-entropy of the columns is missing: every image must find its text, too",
         contrastive(column=0.0, target=1.0)),
        ("the cross-entropy of the columns is missing: every image must find its text, too",
         contrastive(column=0.0, target=1.0, count=lambda N: N)),
        ("the cross-entropy of the rows is missing: every text must find its image, too",
         contrastive(row=0.0, target=1.0)),
        ("the diagonal, the right answers, is not subtracted", contrastive(target=0.0)),
        ("the diagonal is subtracted once, but it is the target of rows and of columns",
         contrastive(target=1.0)),
        ("the mean over the pairs is missing", contrastive(count=lambda N: 2)),
        ("the loss is the mean of the two cross-entropies, not their sum",
         contrastive(count=lambda N: N)),
        ("the gradient of the columns is not transposed back", contrastive(transposed=True))],
    hints=(
        "Pair i is right in row i and in column i: two cross-entropies with the targets 0 ... N - "
        "1, averaged.",
        "One log-softmax is over each row (axis 1), the other over each column (axis 0). Subtract "
        "the maximum along the same axis first.",
        "rows is the mean of minus the diagonal of the log-softmax of the rows; columns is the "
        "same of logits.T. The loss is half their sum."),
    backward_hints=(
        "z_ij enters through row i and through column j: two paths, each prediction minus target.",
        "p is the softmax of every row, q that of every column. The diagonal is the target in "
        "both, so 2 is subtracted there. Factors: 1 / 2 and 1 / N.",
        "dlogits = (p + q - 2 * np.eye(N)) * dloss / (2 * N)."))


# ---- pair_features -------------------------------------------------------------------------------

def pair_features(u, v):
    return np.concatenate([u, v, np.abs(u - v)], axis=1)


def pair_features_backward(df, u, v):
    first, second, third = np.split(df, 3, axis=1)
    s = np.sign(u - v)
    return first + s * third, second - s * third


def two_texts(rng):
    B, C = sizes(rng, 2)
    return {"u": rng.standard_normal((B, C)), "v": 2 * rng.standard_normal((B, C))}, {}


def with_equal_coordinates(rng):
    arguments, options = two_texts(rng)
    arguments["v"][-1, 0] = arguments["u"][-1, 0]
    return arguments, options


KINK = "The gradient of the absolute value is taken as 0 where u and v are equal."


def features(sign_u=1.0, sign_v=-1.0, sign=np.sign, own=1.0):
    """A backward of the features of a pair: the factors of the absolute value in both gradients."""
    def gradients(df, u, v):
        first, second, third = np.split(df, 3, axis=1)
        s = sign(u - v)
        return own * first + sign_u * s * third, own * second + sign_v * s * third
    return gradients


specify(
    F.pair_features, ("u", "v"),
    {"plain": two_texts, "equal coordinates": Level(with_equal_coordinates, KINK, required=False)},
    mistakes=[
        ("the sign of u - v is missing: the gradient of an absolute value is a sign",
         features(sign=np.ones_like)),
        ("plus for minus in the gradient of v: |u - v| falls where v grows towards u",
         features(sign_v=1.0)),
        ("the third part of the features, |u - v|, is missing", features(sign_u=0.0, sign_v=0.0)),
        ("the first two parts, u and v themselves, are missing", features(own=0.0)),
        ("this is the gradient of (u - v) ** 2, not of the absolute value",
         features(sign=lambda x: 2 * x))],
    hints=(
        "Three blocks next to each other: u, v, and the absolute difference of their coordinates.",
        "Each block is (B, C), so the features are (B, 3 C): concatenate along axis 1.",
        "np.concatenate takes a list of u, v, and the absolute value of u - v."),
    backward_hints=(
        "Split df into its three blocks. u enters the first and the third, v the second and the "
        "third: each sums two paths.",
        "The derivative of |u - v| with respect to u is sign(u - v), and with respect to v its "
        "negative. At 0, np.sign is 0.",
        "With s = sign(u - v) and f1, f2, f3 the blocks of df: du = f1 + s f3; dv has f2, and the "
        "other sign."))


# ---- cosine_regression_loss ----------------------------------------------------------------------

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


def rated(rng):
    arguments, options = two_texts(rng)
    return {**arguments, "targets": rng.uniform(-1, 1, len(arguments["u"]))}, options


def rated_with_zero_vector(rng):
    arguments, options = rated(rng)
    arguments["u"][-1] = 0
    return arguments, options


def regression(error=lambda c, y: 2 * (c - y), weight=lambda B: 1 / B, projected=1.0,
               divided=True):
    """A backward of the regression of the cosine."""
    def gradients(dloss, u, v, targets):
        a, b = u / norm(u), v / norm(v)
        c = (a * b).sum(axis=1, keepdims=True)
        g = dloss * weight(len(u)) * error(c, targets[:, None])
        du, dv = g * (b - projected * c * a), g * (a - projected * c * b)
        return (du / norm(u), dv / norm(v)) if divided else (du, dv)
    return gradients


specify(
    F.cosine_regression_loss, ("u", "v"),
    {"plain": rated, "a zero vector": Level(rated_with_zero_vector, ZERO, required=False)},
    smallest=1e-6,
    mistakes=[
        ("the factor 2 of the square is missing", regression(lambda c, y: c - y)),
        ("the mean over the pairs is missing", regression(weight=lambda B: 1.0)),
        ("the targets are not subtracted from the cosines", regression(lambda c, y: 2 * c)),
        ("the sign is wrong: the error is the cosine minus the target",
         regression(lambda c, y: 2 * (y - c))),
        ("the norms are treated as constants: the component along the vector must be subtracted",
         regression(projected=0.0)),
        ("the factor 1 / |u| is missing: the larger the norm of a vector, the less a step rotates "
         "it", regression(divided=False))],
    hints=(
        "One cosine for each pair, compared with its target: the mean of the squared errors.",
        "Normalize u and v over axis 1; the cosine is the sum over coordinates of u_hat * v_hat, "
        "(B,): pair by pair, not all with all.",
        "error = (u_hat * v_hat).sum(axis=1) - targets; the loss is the mean of error * error "
        "over the B pairs."),
    backward_hints=(
        "Three steps back: the square, the dot product of unit vectors, and the normalization, in "
        "which u enters directly and through its norm.",
        "derror = 2 error dloss / B. The gradient of u_hat is derror v_hat; through u / |u|, "
        "remove its part along u_hat and divide by |u|.",
        "With c = u_hat . v_hat as (B, 1): du = derror * (v_hat - c * u_hat) / |u|; for v, "
        "exchange the roles."))


# ---- triplet_loss --------------------------------------------------------------------------------

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


def with_equal_vectors(rng):
    arguments, options = triplets()(rng)
    arguments["positives"][-1] = arguments["anchors"][-1]
    return arguments, options


def triplets(**options):
    def make(rng):
        """Some triplets keep the margin, and some violate it."""
        B, C = sizes(rng, 2)
        a, p, n = rng.standard_normal((3, B + 4, C))
        p[0], n[0], n[1] = a[0] + 0.1, a[0] + 9, a[1] + 0.1
        return {"anchors": a, "positives": p, "negatives": n}, options
    return make


EQUAL = "The gradient of the distance of two equal vectors is taken as 0, not NaN."


def triplet_of_active(dloss, anchors, positives, negatives, margin=1.0):
    """The mean over the triplets that violate the margin alone."""
    excess = norm(anchors - positives) - norm(anchors - negatives) + margin
    gradients = triplet(units)(dloss, anchors, positives, negatives, margin)
    return tuple(gradient * len(anchors) / max((excess > 0).sum(), 1) for gradient in gradients)


def loss_of_active(anchors, positives, negatives, margin=1.0):
    excess = norm(anchors - positives) - norm(anchors - negatives) + margin
    return np.maximum(excess, 0).sum() / max((excess > 0).sum(), 1)


def loss_of_squares(anchors, positives, negatives, margin=1.0):
    excess = norm(anchors - positives) ** 2 - norm(anchors - negatives) ** 2 + margin
    return np.maximum(excess, 0).mean()


def triplet(change=lambda near, far: (near, far), kept=lambda excess: excess > 0,
            weight=lambda B: 1 / B, anchor=lambda u, v: u - v):
    """A backward of the triplet loss.

    `change` makes the gradients of both distances from the differences; `kept` selects the triplets
    that have a gradient.
    """
    def gradients(dloss, anchors, positives, negatives, margin=1.0):
        near, far = anchors - positives, anchors - negatives
        w = dloss * weight(len(anchors)) * kept(norm(near) - norm(far) + margin)
        u, v = change(near, far)
        return w * anchor(u, v), -w * u, w * v
    return gradients


def units(near, far):
    return near / norm(near), far / norm(far)


specify(
    F.triplet_loss, ("anchors", "positives", "negatives"),
    {"plain": triplets(), "margin=0.3": triplets(margin=0.3),
     "equal vectors": Level(with_equal_vectors, EQUAL, required=False)},
    smallest=1e-6,
    mistakes=[
        ("triplets that satisfy the margin get a gradient, which must be 0: the loss is max(0, "
         "...)",
         triplet(units, kept=lambda excess: np.ones_like(excess))),
        ("the mean is over the triplets that violate the margin, but must be over all of them",
         triplet_of_active),
        ("the mean over the triplets is missing", triplet(units, weight=lambda B: 1.0)),
        ("the differences are not divided by the distances: the gradient of a norm is a unit "
         "vector", triplet()),
        ("this is the gradient of squared distances",
         triplet(lambda near, far: (2 * near, 2 * far))),
        ("the term of the negative is missing in the gradient of the anchor",
         triplet(units, anchor=lambda u, v: u)),
        ("the gradient of the anchor is zero, but the anchor is part of both distances",
         triplet(units, anchor=lambda u, v: 0 * u))],
    forward_mistakes=[
        ("the mean is over the triplets that violate the margin, but must be over all of them",
         loss_of_active),
        ("the distances are squared, but must be norms", loss_of_squares)],
    hints=(
        "For each anchor, the distance to its positive less that to its negative, plus the "
        "margin. Only what is above 0 counts.",
        "Distances are Euclidean norms over axis 1, not squared. Set negative terms to 0 before "
        "the mean over all B triplets.",
        "excess = near - far + margin, (B,); np.maximum with 0; then the mean."),
    backward_hints=(
        "Where the term is 0, nothing gets a gradient. Elsewhere an anchor enters both distances, "
        "a positive or a negative only one.",
        "The gradient of |a - p| with respect to a is the unit vector u = (a - p) / |a - p|, and "
        "with respect to p it is -u. v is that of the negative.",
        "w = dloss / B where active, else 0: dpositives is -w u, dnegatives is w v, danchors is "
        "the sum of the opposite two, w (u - v)."))
