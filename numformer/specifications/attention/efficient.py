"""Linear, low-rank and sparse attention."""

import numpy as np

from numformer import functional as F
from numformer.specifications.edges import MORE_QUERIES
from numformer.specifications.levels import Level, sizes
from numformer.specifications.pair import Pair
from numformer.specifications.specification import specify


# ---- linear_attention ----------------------------------------------------------------------------

def draw_linear(causal):
    def make(rng):
        if causal:
            B, H, T, D, D_V = sizes(rng, 5)
            S = T
        else:
            B, H, T, S, D, D_V = sizes(rng, 6)
        return {"q": rng.standard_normal((B, H, T, D)), "k": rng.standard_normal((B, H, S, D)),
                "v": rng.standard_normal((B, H, S, D_V))}, {"causal": True} if causal else {}
    return make


def longer(rng):
    B, H, D, D_V = sizes(rng, 4)
    shape = B, H, 70, D
    return {"q": rng.standard_normal(shape), "k": rng.standard_normal(shape),
            "v": rng.standard_normal((*shape[:3], D_V))}, {"causal": True}


def wrong_linear(mistake):
    """A backward of linear attention, with all T x S weights, and one mistake."""
    def gradients(do, q, k, v, causal=False):
        a, b = (np.where(x > 0, x + 1, np.exp(np.minimum(x, 0))) for x in (q, k))
        weights = a @ b.mT                               # (B, H, T, S)
        allowed = np.tri(*weights.shape[2:], dtype=bool) if causal else np.True_
        weights = np.where(allowed, weights, 0)
        total = weights.sum(axis=-1, keepdims=True)
        total = np.where(total == 0, 1, total)
        o = weights @ v / total
        through_sum = 0 if mistake == "no denominator" else (do * o).sum(axis=-1, keepdims=True)
        dweights = (do @ v.mT - through_sum) / total     # (B, H, T, S)
        da = np.where(allowed, dweights, 0) @ b
        if causal and mistake == "keys read back":
            allowed = allowed.T
        db = np.where(allowed, dweights, 0).mT @ a
        p = weights if mistake == "dv not divided" else weights / total
        slopes = ((1, 1) if mistake == "no derivative" else
                  (np.where(q > 0, 1, a), np.where(k > 0, 1, b)))
        return da * slopes[0], db * slopes[1], p.mT @ do
    return gradients


def linear_with_all_in_the_denominator(q, k, v, causal=False):
    a, b = (np.where(x > 0, x + 1, np.exp(np.minimum(x, 0))) for x in (q, k))
    weights = a @ b.mT
    T, S = weights.shape[-2:]
    seen = np.tri(T, S, S - T) if causal else 1
    return (weights * seen) @ v / weights.sum(axis=-1, keepdims=True)


def linear_of_relu(q, k, v, causal=False):
    a, b = (np.maximum(x, 0) + 1 for x in (q, k))
    weights = a @ b.mT
    T, S = weights.shape[-2:]
    weights = weights * (np.tri(T, S, S - T) if causal else 1)
    total = weights.sum(axis=-1, keepdims=True)
    return weights @ v / np.where(total == 0, 1, total)


def linear_without_the_current(q, k, v, causal=False):
    a, b = (np.where(x > 0, x + 1, np.exp(np.minimum(x, 0))) for x in (q, k))
    weights = a @ b.mT
    T, S = weights.shape[-2:]
    weights = weights * (np.tri(T, S, S - T - 1) if causal else 1)
    total = weights.sum(axis=-1, keepdims=True)
    return weights @ v / np.where(total == 0, 1, total)


specify(
    F.linear_attention, ("q", "k", "v"),
    {"plain": draw_linear(False), "causal=True": draw_linear(True),
     "causal=True, 70 positions": Level(longer, "The sequences are longer here.",
                                        instances=1)},
    cases=[
        Pair("linear attention", [(2, 2, 3, 4), (2, 2, 5, 4), (2, 2, 5, 3)]),
        Pair("linear attention, causal",
             [(2, 2, 5, 4), (2, 2, 5, 4), (2, 2, 5, 3)], options={"causal": True}),
        Pair("linear attention, causal, two chunks",
             [(1, 1, 66, 2), (1, 1, 66, 2), (1, 1, 66, 2)], options={"causal": True})],
    mistakes=[(cause, wrong_linear(mistake)) for cause, mistake in [
        ("the gradient through the denominator is missing: the sum of the weights depends on q "
         "and k too", "no denominator"),
        ("the derivative of the features elu(x) + 1 is missing: 1 above 0, exp(x) below",
         "no derivative"),
        ("dv is not divided by the sum of the weights of each query", "dv not divided"),
        ("with causal=True the sum of dk runs over the queries up to j, but must run over those "
         "from j on: they attend to key j", "keys read back")]],
    forward_mistakes=[
        ("with causal=True the denominator still sums over all keys, but must stop at the query, "
         "as the numerator does", linear_with_all_in_the_denominator),
        ("with causal=True the current position is left out: a position may attend to itself",
         linear_without_the_current),
        ("the features are relu(x) + 1, but below 0 they must be exp(x), that is elu(x) + 1",
         linear_of_relu)],
    hints=(
        "With weights phi(q_i) . phi(k_j), the sums over j do not depend on i: compute them once, "
        "and never the T x S weights.",
        "phi(x) is x + 1 for x > 0, else exp(x). Numerator: a @ (b^T v), with a = phi(q), b = "
        "phi(k); b^T v is (B, H, D, D_V). Denominator: a times the sum of b over the keys.",
        "If causal, both sums run over j up to i: prefix sums (np.cumsum over positions). Divide "
        "at the end; where the denominator is 0, the output is 0."),
    backward_hints=(
        "Write the weighted sum as n_i = sum_j (a_i . b_j) w_j, w being v with a column of ones: "
        "the last entry of n is the denominator. Then go back step by step.",
        "The quotient o = n[:-1] / n[-1] gives dn = [do, -(do . o)] / total. Then da_i = sum_j "
        "(dn_i . w_j) b_j, db_j = sum_i (w_j . dn_i) a_i, dw_j = sum_i (b_j . a_i) dn_i.",
        "dq = da * phi'(q) and dk = db * phi'(k), with phi' = 1 for x > 0, else exp(x); dv is dw "
        "without its last column. If causal, sums over i begin at j."))


# ---- low_rank_attention --------------------------------------------------------------------------

def draw_low_rank(rng):
    B, H, T, S, D, R = sizes(rng, 6)
    k, v = rng.standard_normal((2, B, H, S, D))
    key_projection, value_projection = rng.standard_normal((2, R, S))
    return {"q": rng.standard_normal((B, H, T, D)), "k": k, "v": v,
            "key_projection": key_projection, "value_projection": value_projection}, {}


def wrong_low_rank(mistake):
    """A backward of low-rank attention, written out, with one mistake."""
    def gradients(do, q, k, v, key_projection, value_projection):
        mixed_k, mixed_v = key_projection @ k, value_projection @ v
        dq, dk, dv = F.attention_backward(do, F.attention(q, mixed_k, mixed_v)[1])
        if mistake == "no scale":
            dq, dk = (x * q.shape[-1] ** 0.5 for x in (dq, dk))
        dkey, dvalue = dk @ k.mT, dv @ (k if mistake == "keys in F" else v).mT
        if mistake == "first example":
            dkey, dvalue = (x[0].sum(axis=0) for x in (dkey, dvalue))
        elif mistake == "first head":
            dkey, dvalue = (x[:, 0].sum(axis=0) for x in (dkey, dvalue))
        else:
            dkey, dvalue = (x.sum(axis=(0, 1)) for x in (dkey, dvalue))
        one, two = ((value_projection, key_projection) if mistake == "exchanged"
                    else (key_projection, value_projection))
        return dq, one.T @ dk, two.T @ dv, dkey, dvalue
    return gradients


specify(
    F.low_rank_attention, ("q", "k", "v", "key_projection", "value_projection"),
    {"plain": draw_low_rank},
    cases=[Pair("low-rank attention", [(2, 2, 3, 4), (2, 2, 5, 4), (2, 2, 5, 3), (2, 5), (2, 5)])],
    mistakes=[(cause, wrong_low_rank(mistake)) for cause, mistake in [
        ("the gradients of the projections are those of the first example only: the whole batch "
         "shares them", "first example"),
        ("the gradients of the projections are those of the first head only: all heads share them",
         "first head"),
        ("dvalue_projection is computed with the keys, but the projection was applied to v",
         "keys in F"),
        ("the two projections are exchanged in dk and dv", "exchanged"),
        ("the factor 1 / sqrt(D) is missing in dq and dk", "no scale")]],
    hints=(
        "The S keys become R mixtures, and the values too; then plain attention of the queries "
        "with the R mixtures.",
        "key_projection (R, S) mixes positions, not coordinates: it multiplies k (B, H, S, D) "
        "from the left. The scale is still 1 / sqrt(D).",
        "mixed_k = key_projection @ k, mixed_v likewise from v; then attention(q, mixed_k, "
        "mixed_v), whose weights are (B, H, T, R)."),
    backward_hints=(
        "The backward of attention gives dq and the gradients of both mixtures. A mixture is a "
        "product E k: both E and k get a gradient.",
        "dk = E^T dmixed_k. E is shared by all examples and heads: its gradient dmixed_k k^T, (B, "
        "H, R, S), is summed over both axes.",
        "dkey_projection = (dmixed_k @ k.mT).sum(axis=(0, 1)), dk = key_projection.T @ dmixed_k; "
        "the same for the values with dmixed_v."))


# ---- sparse_attention ----------------------------------------------------------------------------

def draw_sparse(keys, last=None):
    """`last`: how many queries there are, at the last of all keys."""
    def make(rng):
        B, H, S, D, D_V = sizes(rng, 5)
        table = keys(S)[-(last or S):]
        return {"q": rng.standard_normal((B, H, len(table), D)),
                "k": rng.standard_normal((B, H, S, D)), "v": rng.standard_normal((B, H, S, D_V)),
                "keys": table}, {}
    return make


def wrong_sparse(mistake):
    """A backward of sparse attention, pair by pair, with one mistake."""
    def gradients(do, q, k, v, keys):
        scale = q.shape[-1] ** -0.5
        dq, dk, dv = np.zeros(q.shape), np.zeros(k.shape), np.zeros(v.shape)
        for i, row in enumerate(keys):
            listed = row[row >= 0]
            if not len(listed):
                continue
            z = (q[:, :, i, None] * k[:, :, listed]).sum(axis=-1) * scale         # (B, H, M)
            p = np.exp(z - z.max(axis=-1, keepdims=True))
            p /= p.sum(axis=-1, keepdims=True)
            dp = (do[:, :, i, None] * v[:, :, listed]).sum(axis=-1)
            dz = p * (dp - (0 if mistake == "no sum" else (p * dp).sum(axis=-1, keepdims=True)))
            dq[:, :, i] = (dz[..., None] * k[:, :, listed]).sum(axis=2) * scale
            keep = 0 if mistake == "overwritten" else 1
            factor = 1 if mistake == "no scale in dk" else scale
            dk[:, :, listed] = keep * dk[:, :, listed] + dz[..., None] * q[:, :, i, None] * factor
            dv[:, :, listed] = keep * dv[:, :, listed] + p[..., None] * do[:, :, i, None]
        return dq, dk, dv
    return gradients


def with_empty_places(weight):
    """Sparse attention whose empty places, -1, have the score of the last key."""
    def outputs(q, k, v, keys):
        scores = (q[:, :, :, None] * k[:, :, keys]).sum(axis=-1) * q.shape[-1] ** -0.5
        p = F.softmax(scores)[0] * np.where(keys < 0, weight, 1)
        return (p[..., None] * v[:, :, keys]).sum(axis=3)
    return outputs


specify(
    F.sparse_attention, ("q", "k", "v"),
    {"strided keys": draw_sparse(lambda S: F.strided_keys(S, 2)),
     "fixed keys": draw_sparse(lambda S: F.fixed_keys(S, 2)),
     "fewer queries than keys": Level(
         draw_sparse(lambda S: F.strided_keys(S, 2), last=1), MORE_QUERIES.replace(
             "more queries than keys here, T > S", "fewer queries than keys here, T < S"))},
    cases=[
        Pair("sparse attention, strided",
             [(2, 2, 7, 4), (2, 2, 7, 4), (2, 2, 7, 3)], after=(F.strided_keys(7, 3),)),
        Pair("sparse attention, fixed",
             [(1, 2, 8, 3), (1, 2, 8, 3), (1, 2, 8, 3)], after=(F.fixed_keys(8, 3, 2),)),
        Pair("sparse attention, T != S, a query without keys",
             [(1, 1, 3, 3), (1, 1, 5, 3), (1, 1, 5, 2)],
             after=(np.array([[4, 0], [-1, -1], [4, -1]]),))],
    mistakes=[(cause, wrong_sparse(mistake)) for cause, mistake in [
        ("only the last query that lists a key is kept in dk and dv, but all of them must be "
         "summed: np.add.at sums repeated keys, `dk[keys] += g` does not", "overwritten"),
        ("the factor 1 / sqrt(D) is missing in dk", "no scale in dk"),
        ("the Jacobian of the softmax lacks its sum: it is p * (dp - sum(p * dp))", "no sum")]],
    forward_mistakes=[
        ("an empty place, -1, reads the last key: mask it before the softmax",
         with_empty_places(1)),
        ("an empty place, -1, counts in the sum of the softmax, with the score of the last key: "
         "mask it before the softmax", with_empty_places(0))],
    hints=(
        "Row i of keys lists the M keys of query i, and -1 marks an empty place: gather these, "
        "and no others. Then attention as usual.",
        "k[:, :, keys] is (B, H, T, M, D). The scores (B, H, T, M) are dot products with q over "
        "D, divided by sqrt(D); the softmax is over M.",
        "Entries keys < 0 are masked: their score is -inf, their weight 0. The output of query i "
        "is the sum over m of p[..., m, None] times the gathered v."),
    backward_hints=(
        "As in attention, with one more step: a key that several queries list sums what all of "
        "them return.",
        "dp_im = do_i . v of the listed key; dscores = p (dp - the sum of p dp over M). dq sums "
        "over m; dk and dv must be added at the rows that keys names.",
        "np.add.at on zeros of the shape of k adds repeated rows: dscores[..., m, None] * q * "
        "scale at keys[:, m]. For v it adds p[..., m, None] * do."))
