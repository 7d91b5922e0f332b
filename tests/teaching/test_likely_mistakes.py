"""The mistakes that a lesson warns of, as students write them: the cause says what to change."""

import numpy as np
import pytest

from marks import every
from numformer import check
from numformer import functional as F
from numformer.functional import EVERYWHERE


# ---- the online softmax --------------------------------------------------------------------------

def loss_of(lse, logits, targets):
    return (lse - np.take_along_axis(logits, targets[..., None], -1)[..., 0]).mean()


def online(step, begin="-inf", classes=slice(None), end=lambda m, s: m + np.log(s)):
    """softmax_cross_entropy by a loop over classes; `step(m, new, s, z)` is the next sum."""
    def loss(logits, targets):
        m, s = np.full(targets.shape, -np.inf), np.zeros(targets.shape)
        columns = list(np.moveaxis(logits, -1, 0))
        if begin == "first":
            m, s = columns.pop(0), np.ones(targets.shape)
        for z in columns[classes]:
            new = np.where(z > m, z, m)
            s, m = step(m, new, s, z), new
        return loss_of(end(m, s), logits, targets)
    return loss


def right_step(m, new, s, z):
    return s * np.exp(m - new) + np.exp(z - new)


ONLINE = [
    (online(right_step), "right"),
    (online(lambda m, new, s, z: s + np.exp(z - new)), "it is not"),
    (online(lambda m, new, s, z: s * np.exp(new - m) + np.exp(z - new), "first"),
     "the sum so far is multiplied by exp(m_new - m)"),
    (online(lambda m, new, s, z: s * np.exp(new - m) + np.exp(z - new)),
     "exp(m_new - m) is Inf while m is -Inf"),
    (online(lambda m, new, s, z: s * np.exp(m - new) + np.exp(z - m), "first"),
     "with the old maximum"),
    (online(lambda m, new, s, z: s * np.exp(m - new) + np.exp(z - m)),
     "the new term is exp(z - m_new)"),
    (online(right_step, classes=slice(1, None)), "the first class is left out"),
    (online(right_step, classes=slice(None, -1)), "the last class is left out"),
    (online(right_step, end=lambda m, s: np.log(s)), "the maximum is not added back"),
    (online(right_step, end=lambda m, s: m + s), "the logarithm is missing"),
    (lambda logits, targets: -F.log_softmax(logits)[0][..., targets].mean(),
     "takes the logits of all targets at every position")]


@pytest.mark.parametrize("function, words", ONLINE)
def test_mistakes_of_the_online_softmax(function, words):
    said = check("softmax_cross_entropy", function, seed=0).text
    assert words in said, said


# ---- attention in tiles --------------------------------------------------------------------------

def tiled(of_a, of_l, tile, keys=lambda S, tile: S, updated=True, divided=False):
    """attention in tiles of keys; the factors of a and l are powers of exp(m - m_new)."""
    def attention(q, k, v):
        scale, S = 1 / np.sqrt(q.shape[-1]), k.shape[2]
        a = np.zeros((*q.shape[:3], v.shape[3]))
        total, m = np.zeros((*q.shape[:3], 1)), np.full((*q.shape[:3], 1), -np.inf)
        for start in range(0, keys(S, tile), tile):
            s = np.einsum("bhtd,bhsd->bhts", q, k[:, :, start:start + tile]) * scale
            new = np.maximum(m, s.max(axis=3, keepdims=True))
            p = np.exp(s - new)
            alpha = np.exp(m - new)
            if divided:
                p /= p.sum(axis=3, keepdims=True)
            total = total * alpha ** of_l + np.exp(s - new).sum(axis=3, keepdims=True)
            a = a * alpha ** of_a + np.einsum("bhts,bhsd->bhtd", p, v[:, :, start:start + tile])
            m = new if updated else m
        return a / total
    return attention


TILED = [
    (tiled(1, 1, 3), "right"),
    (tiled(0, 1, 2), "the output a so far"), (tiled(0, 1, 64), "the output a so far"),
    (tiled(1, 0, 3), "the sum l so far"), (tiled(0, 0, 2), "the output a and the sum l so far"),
    (tiled(1, 1, 2, divided=True), "divided by their own sum"),
    (tiled(1, 1, 2, updated=False), "m is not updated"),
    (tiled(1, 1, 3, keys=lambda S, tile: S // tile * tile), "behind the last whole tile"),
    (tiled(1, 1, 2, keys=lambda S, tile: S - tile), "the last tile of keys is left out"),
    (tiled(-1, -1, 2), "exp(m_new - m), which is Inf while m is -Inf")]


@pytest.mark.parametrize("function, words", TILED)
def test_mistakes_of_attention_in_tiles(function, words):
    said = check("attention", function, seed=2).text
    assert words in said, said


def tiled_backward(tile, mistake=""):
    def backward(do, q, k, v):
        scale, T, S = 1 / np.sqrt(q.shape[-1]), q.shape[2], k.shape[2]
        s = q @ k.mT * scale
        m = s.max(axis=-1, keepdims=True)
        lse = m + np.log(np.exp(s - m).sum(axis=-1, keepdims=True))
        delta = (do * (np.exp(s - lse) @ v)).sum(axis=-1, keepdims=True)
        dq, dk, dv = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
        end = S // tile * tile if mistake == "last keys" else S
        for i in range(0, T, tile):
            rows = np.s_[:, :, i:i + tile]
            for j in range(0, end, tile):
                keys = np.s_[:, :, j:j + tile]
                p = np.exp(s[rows][..., j:j + tile] - lse[rows])
                if mistake == "divided":
                    p /= p.sum(axis=-1, keepdims=True)
                dp = do[rows] @ v[keys].mT
                of_rows = ((p * dp).sum(axis=-1, keepdims=True) if mistake == "delta"
                           else delta[rows])
                ds = p * (dp - of_rows)
                dv[keys] = p.mT @ do[rows] + (0 if "v" in mistake.split() else dv[keys])
                dq[rows] = ds @ k[keys] * scale + (0 if "q" in mistake.split() else dq[rows])
                dk[keys] = ds.mT @ q[rows] * scale + (0 if "k" in mistake.split() else dk[keys])
        return dq, dk, dv
    return backward


@pytest.mark.parametrize("mistake, words", [
    ("", "right"), ("delta", "delta is the sum"), ("divided", "divided by their own sum"),
    ("last keys", "behind the last whole tile"), ("q", "dq is that of the last tile of keys alone"),
    ("k", "dk is that of the last tile of queries"),
    ("v", "dv is that of the last tile of queries"),
    ("k v", "dk and dv are those"), ("q k v", "all of them add up")])
@pytest.mark.parametrize("tile", every(2, [2, 3]))
def test_mistakes_of_the_backward_in_tiles(tile, mistake, words):
    said = check("attention_backward", tiled_backward(tile, mistake), seed=0).text
    assert words in said, said


# ---- masks ---------------------------------------------------------------------------------------

MASKS = {"opposite": lambda z, mask: np.where(mask, -np.inf, z),
         "opposite, by a number": lambda z, mask: np.where(mask, -1e9, z),
         "added": lambda z, mask: z + mask, "multiplied": lambda z, mask: z * mask,
         "none": lambda z, mask: z}
SAID = {"opposite": "the mask is the opposite", "opposite, by a number": "the mask is the opposite",
        "added": "the mask is added to the scores", "multiplied": "multiplied by the mask",
        "none": "the mask is missing"}


def weights(z, axis=-1):
    e = np.exp(z - z.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def masked_softmax(change):
    return lambda x, axis=-1, mask=None: weights(x if mask is None else change(x, mask), axis)


def masked_attention(change):
    def attention(q, k, v, mask=None):
        z = q @ k.mT / np.sqrt(q.shape[-1])
        return weights(z if mask is None else change(z, mask)) @ v
    return attention


def masked_attention_backward(change):
    def backward(do, q, k, v, mask=None):
        scale = 1 / np.sqrt(q.shape[-1])
        z = q @ k.mT * scale
        p = weights(z if mask is None else change(z, mask))
        dp = do @ v.mT
        ds = p * (dp - (p * dp).sum(axis=-1, keepdims=True)) * scale
        return ds @ k, ds.mT @ q, p.mT @ do
    return backward


def attention_of_a_pattern(change):
    def attention(q, k, v, pattern=EVERYWHERE):
        mask = pattern.dense(q.shape[2], k.shape[2])
        return weights(change(q @ k.mT / np.sqrt(q.shape[-1]), mask)) @ v
    return attention


@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize("name, make", [
    ("softmax", masked_softmax), ("attention", masked_attention),
    ("attention_backward", masked_attention_backward)])
def test_mistakes_of_masks(name, make, kind):
    verdict = check(name, make(MASKS[kind]), seed=0)
    assert SAID[kind] in verdict.cause, verdict


@pytest.mark.parametrize("kind, words", [
    ("opposite", "as True hides a key in yours"), ("added", SAID["added"]),
    ("multiplied", SAID["multiplied"])])
def test_mistakes_of_the_mask_of_a_pattern(kind, words):
    verdict = check("scaled_dot_product_attention", attention_of_a_pattern(MASKS[kind]), seed=0)
    assert words in verdict.text, verdict


# ---- norms ---------------------------------------------------------------------------------------

def batch_norm_backward(axes, of_parameters):
    def backward(dy, x, weight, bias, epsilon=1e-5):
        mean, variance = x.mean(axis=axes), x.var(axis=axes)
        std = np.sqrt(variance + epsilon)
        x_hat, g = (x - mean) / std, weight * dy
        dx = (g - g.mean(axis=axes) - x_hat * (g * x_hat).mean(axis=axes)) / std
        return dx, (dy * x_hat).sum(axis=of_parameters), dy.sum(axis=of_parameters)
    return backward


@pytest.mark.parametrize("axes, of_parameters, words", [
    (0, 0, "x.reshape(-1, C)"), (0, (0, 1), "x.reshape(-1, C)"),
    ((0, 1), 0, "dweight and dbias are summed over axis 0 alone")])
def test_batch_axes_of_batch_norm(axes, of_parameters, words):
    verdict = check("batch_norm_backward", batch_norm_backward(axes, of_parameters), seed=0)
    assert words in verdict.cause, verdict


def test_batch_axes_of_the_forward():
    def batch_norm(x, weight, bias, epsilon=1e-5):
        return weight * (x - x.mean(axis=0)) / np.sqrt(x.var(axis=0) + epsilon) + bias

    assert "x.reshape(-1, C)" in check("batch_norm", batch_norm, seed=0).cause


@pytest.mark.parametrize("outer, inner, factor, words", [
    (0, 1, 1, "in place of x_hat once: a factor r is missing"),
    (1, 0, 1, "in place of x_hat once: a factor r is missing"),
    (0, 0, 1, "in place of x_hat twice: a factor r^2 is missing"),
    (1, 1, 0.5, "has a factor 1/2 too many"), (1, 1, 2, "twice as large"),
    (1, 1, -1, "added, but must be subtracted")])
@pytest.mark.parametrize("centre", [False, True])
def test_the_last_term_of_a_norm(centre, outer, inner, factor, words):
    def backward(dy, x, weight, *bias, epsilon=1e-5):
        c = x - x.mean(axis=-1, keepdims=True) * centre
        r = 1 / np.sqrt((c ** 2).mean(axis=-1, keepdims=True) + epsilon)
        g, axes = dy * weight, tuple(range(x.ndim - 1))
        dx = r * (g - g.mean(axis=-1, keepdims=True) * centre - factor * c * r ** outer * (
            g * c * r ** inner).mean(axis=-1, keepdims=True))
        return dx, (dy * c * r).sum(axis=axes), *[dy.sum(axis=axes)] * centre

    name = "layer_norm_backward" if centre else "rms_norm_backward"
    verdict = check(name, backward, seed=0)
    assert words in verdict.cause, verdict


# ---- rotations, heads, losses --------------------------------------------------------------------

def turned(x, cosine, sine, kind):
    half = x.shape[-1] // 2
    y = x.copy()
    if kind == "interleaved":
        y[..., 0::2] = x[..., 0::2] * cosine - x[..., 1::2] * sine
        y[..., 1::2] = x[..., 0::2] * sine + x[..., 1::2] * cosine
        return y
    a, b = y[..., :half], y[..., half:]                       # views, which are written into
    if kind == "overwritten":
        a[...] = a * cosine - b * sine
        b[...] = a * sine + b * cosine
    if kind == "exchanged":
        y = np.concatenate([a * sine + b * cosine, a * cosine - b * sine], axis=-1)
    return y


@pytest.mark.parametrize("kind, words", [
    ("interleaved", "the pairs are neighbours, (2i, 2i + 1)"),
    ("overwritten", "is overwritten before the other needs it"),
    ("exchanged", "the two halves of the result are exchanged")])
def test_pairs_of_coordinates(kind, words):
    def partly(x, cosine, sine):
        R = 2 * cosine.shape[-1]
        return np.concatenate([turned(x[..., :R], cosine, sine, kind), x[..., R:]], axis=-1)

    for name, function in (
            ("rotary", lambda x, cosine, sine: turned(x, cosine, sine, kind)),
            ("rotary_backward", lambda dy, x, cosine, sine: turned(dy, cosine, -sine, kind)),
            ("partial_rotary", partly),
            ("partial_rotary_backward", lambda dy, x, cosine, sine: partly(dy, cosine, -sine))):
        verdict = check(name, function, seed=0)
        assert words in verdict.cause, verdict


def test_the_rest_of_a_rotation_taken_from_x():
    def backward(dy, x, cosine, sine):
        R = 2 * cosine.shape[-1]
        rotated = F.rotary(dy[..., :R], cosine, -sine)[0]
        return np.concatenate([rotated, x[..., R:]], axis=-1)

    assert check("partial_rotary_backward", backward, seed=0).cause == (
        "the coordinates that are not rotated are taken from x, but must be from dy")


def test_heads_of_a_group_assigned_in_a_loop():
    def backward(dy, x, n_heads):
        dx = np.zeros_like(x)
        for h in range(n_heads):
            dx[:, h // (n_heads // x.shape[1])] = dy[:, h]
        return dx

    assert "only the last one is kept" in check("repeat_kv_heads_backward", backward, seed=0).cause


def test_ignored_targets_that_count_twice():
    def backward(dloss, logits, targets, ignore_index=-100):
        p = weights(logits)
        one_hot = np.arange(logits.shape[-1]) == targets[..., None]
        return dloss * (p - one_hot) / targets.size

    cause = check("cross_entropy_backward", backward, seed=0).cause
    assert "ignored targets get a gradient" in cause and "counted in the mean" in cause


@pytest.mark.parametrize("name", ["general_scores_backward", "linear_backward"])
def test_a_mean_over_the_batch_names_the_output(name):
    problem = {"general_scores_backward": F.general_scores, "linear_backward": F.linear}[name]

    def backward(dy, x, *more):
        *others, last = getattr(F, name)(dy, problem(x, *more)[1])
        if name == "linear_backward":
            return others[0], others[1] / len(x), last
        return *others, last / len(x)

    assert check(name, backward, seed=0).cause == (
        "dweight is averaged over the batch, but must be summed")
