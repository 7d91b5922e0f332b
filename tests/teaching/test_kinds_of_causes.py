"""Each kind of cause is found in functions that are written in another way than the reference."""

import inspect
import json
import re
from pathlib import Path

import numpy as np
import pytest
from scipy import special

from marks import every
from numformer import check
from numformer import functional as F
from numformer.functional import AttentionPattern


def attended(q, k, v, allowed, scale, softcap=None, cap_first=False):
    """Attention in one line after the other; H query heads, G of keys and values."""
    group = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
    s = np.einsum("bhtd,bhsd->bhts", q, k) * (1 if cap_first else scale)
    s = s if softcap is None else softcap * np.tanh(s / softcap)
    s = np.where(allowed, s * scale if cap_first else s, -1e30)
    return np.where(allowed, special.softmax(s, axis=-1), 0) @ v


def window_too_short_when_causal(q, k, v, pattern=None, scale=None):
    T, S = q.shape[2], k.shape[2]
    pattern = pattern or AttentionPattern()
    if pattern.causal and pattern.window:
        left, right = pattern.window
        pattern = AttentionPattern(True, (None if left is None else left - 1, right),
                                   pattern.lengths, pattern.documents, pattern.mask)
    return attended(q, k, v, pattern.dense(T, S), scale or q.shape[-1] ** -0.5)


def cap_before_scale(q, k, v, softcap=None, scale=None):
    return attended(q, k, v, True, scale or q.shape[-1] ** -0.5, softcap, cap_first=True)


def scale_of_the_values(q, k, v):
    return special.softmax(q @ k.swapaxes(2, 3) / np.sqrt(v.shape[-1]), axis=-1) @ v


def previous_input(x, weight, bias):
    before = np.concatenate([np.zeros_like(x[:, :1]), x[:, :-1]], axis=1)
    return before @ weight + bias


def by_columns(outputs, weights, slots):
    return F.combine_experts(outputs, weights.T.reshape(weights.shape), slots)[0]


def two_in_layer_norm(x, weight, bias, epsilon=1e-5):
    c = x - x.mean(axis=-1, keepdims=True)
    variance = (c ** 2).sum(axis=-1, keepdims=True) / (x.shape[-1] - 1)
    return weight * c / (np.sqrt(variance) + epsilon) + bias


def distance_as_a_mean(boxes, targets):
    distance = np.abs(boxes - targets)
    giou = F.generalized_iou(F.box_corners(boxes)[0], F.box_corners(targets)[0])[0]
    return 5 * distance.mean() + 2 * (1 - giou).mean()


def in_float32(x):
    return special.softmax(x.astype(np.float32), axis=-1).astype(np.float64)


def erf_by_a_polynomial(x):
    t = 1 / (1 + 0.3275911 * np.abs(x) / np.sqrt(2))
    series = t * (0.254829592 + t * (-0.284496736 + t * (
        1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    return 0.5 * x * (1 + np.sign(x) * (1 - series * np.exp(-x * x / 2)))


def half_for_the_centre(dcorners, boxes):
    right = F.box_corners_backward(dcorners, F.box_corners(boxes)[1])
    return right * np.array([0.5, 0.5, 1, 1])


def columns_first(images, patch_size):
    rows = F.patches(images, patch_size)[0]
    B, N, D = rows.shape
    n = images.shape[1] // patch_size
    return rows.reshape(B, n, N // n, D).swapaxes(1, 2).reshape(B, N, D)


def sigmoid_twice(dy, x):
    y = special.expit(special.expit(x))
    return dy * y * (1 - y)


def constant_rounded(x):
    return x * special.expit(1.7 * x)


def outside_the_root(x, weight, bias, statistics, epsilon=1e-5):
    mean, variance = statistics
    return weight * (x - mean) / (np.sqrt(variance) + epsilon) + bias


def tiles_without_rescaling(q, k, v):
    """The old values are not rescaled where a later tile of 64 keys raises the maximum."""
    top, total, o = -np.inf, 0.0, 0.0
    for start in range(0, k.shape[2], 64):
        keys = slice(start, start + 64)
        s = q @ k[:, :, keys].swapaxes(2, 3) / np.sqrt(q.shape[-1])
        new = np.maximum(top, s.max(axis=-1, keepdims=True))
        p = np.exp(s - new)
        total = total * np.exp(top - new) + p.sum(axis=-1, keepdims=True)
        top, o = new, o + p @ v[:, :, keys]
    return o / total


def denominator_of_all_keys(q, k, v, causal=False):
    a, b = (np.where(x > 0, x + 1, np.exp(np.minimum(x, 0))) for x in (q, k))
    T, S = q.shape[2], k.shape[2]
    weights = np.einsum("bhtd,bhsd->bhts", a, b)
    seen = np.arange(S) <= np.arange(T)[:, None] + S - T if causal else True
    return np.where(seen, weights, 0) @ v / weights.sum(axis=-1, keepdims=True)


def bias_before_the_cap(q, k, v, slopes=None, softcap=None):
    T, S = q.shape[2], k.shape[2]
    s = q @ k.swapaxes(2, 3) / np.sqrt(q.shape[-1])
    if slopes is not None:
        s = s - slopes[:, None, None] * np.abs(np.arange(S) - np.arange(T)[:, None] - (S - T))
    if softcap is not None:
        s = softcap * np.tanh(s / softcap)
    return special.softmax(s, axis=-1) @ v


def mean_square_of_whole_fours(x, weight, epsilon=1e-5):
    """Four accumulators; what is left at the end is forgotten."""
    C = x.shape[-1]
    square = (x[..., :C - C % 4] ** 2).sum(axis=-1, keepdims=True) / C
    return weight * x / np.sqrt(square + epsilon)


def tail_forgotten(x):
    y = np.tanh(x)
    y[..., :-1] = x[..., :-1] / (1 + np.exp(-x[..., :-1]))
    return y


KINDS = [
    ("rms_norm", mean_square_of_whole_fours, "right where x.shape[2] is a multiple of 4"),
    ("silu", tail_forgotten, "wrong at the last position alone along axis 1"),
    ("scaled_dot_product_attention", window_too_short_when_causal,
     "the window is one key too short on the left, but only together with causal"),
    ("scaled_dot_product_attention", cap_before_scale, "the soft cap comes before the scale"),
    ("attention", scale_of_the_values, "1 / sqrt(D_V), of the width of the values"),
    ("linear", previous_input, "along axis 1, the previous entry of x is used"),
    ("combine_experts", by_columns, "weights is read column by column"),
    ("box_loss", distance_as_a_mean, "times 0.25"),
    ("layer_norm", two_in_layer_norm, "two mistakes at once"),
    ("softmax", in_float32, "no more than float32 holds"),
    ("gelu", erf_by_a_polynomial, "a formula is an approximation"),
    ("box_corners_backward", half_for_the_centre, "0.5, 0.5, 1, 1"),
    ("patches", columns_first, "axes"),
    ("sigmoid_backward", sigmoid_twice, "a sigmoid of `y` once more"),
    ("quick_gelu", constant_rounded, "1.7, not"),
    ("batch_norm_inference", outside_the_root, "`epsilon` added outside the root"),
    ("attention", tiles_without_rescaling, "it is right while"),
    ("linear_attention", denominator_of_all_keys, "the denominator still sums over all keys"),
    ("scaled_dot_product_attention", bias_before_the_cap, "in the other order"),
    ("max_pooling_2d", lambda images, size, stride=None: np.maximum(
        F.max_pooling_2d(images, size, stride)[0], 0), "negative numbers of images count as 0"),
]


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow),
                                  pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name, fn, words", every(3, KINDS), ids=[
    getattr(fn, "__name__", "f").replace("<lambda>", "zero_at_first") for _, fn, _ in KINDS])
def test_the_kind_is_named(name, fn, words, seed):
    verdict = check(name, fn, seed=seed)
    assert not verdict and words in verdict.cause, verdict


def test_a_size_is_named_up_to_which_a_function_is_right():
    def mean_of_64(dy, x, weight, bias=None):
        dx, dweight, dbias = F.linear_backward(dy, F.linear(x, weight, bias)[1])
        rows = dy.reshape(-1, dy.shape[-1])
        return dx, dweight, None if bias is None else rows[:x.shape[0] * 64].sum(axis=0)

    assert check("linear_backward", mean_of_64, seed=0).cause.startswith(
        "it is right while x.shape[1] is at most 64, and wrong from 65 on: look for a tile or")


def test_what_is_kept_by_shape_is_found():
    kept = {}

    def cached(x, cosine, sine, layout="half"):
        key = x.shape, layout
        kept.setdefault(key, (cosine, sine))
        return F.rotary(x, *kept[key], layout)[0]

    verdict = check("rotary", cached, seed=0)
    assert not verdict and "is something kept from call to call" in verdict.text


def test_a_product_that_does_not_fit_says_what_to_transpose():
    def backward(do, q, k, v):
        p = special.softmax(q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]), axis=-1)
        dp = do @ v.swapaxes(-1, -2)
        dz = p * (dp - (p * dp).sum(axis=-1, keepdims=True)) / np.sqrt(q.shape[-1])
        return dz @ k, dz @ q, p.swapaxes(-1, -2) @ do

    assert ("`dz @ q`: (5, 4, 6, 7) and (5, 4, 6, 2) do not fit; `dz.mT @ q` does"
            in check("attention_backward", backward, seed=1).text)


def test_no_cause_quotes_a_line_of_the_reference():
    """No assignment of the package's code stands in any judged cause."""
    causes = {cause for several in json.loads(
        Path(__file__).with_name("judged_causes.json").read_text()).values()
        for cause in several if cause}
    assert len(causes) > 250
    quoted = [part for cause in causes for part in re.findall("`([^`]*)`", cause)]
    lines = {line.strip() for function in vars(F).values() if inspect.isfunction(function)
             for line in inspect.getsource(inspect.unwrap(function)).splitlines()}
    assert not {part for part in quoted if part in lines and "=" in part}
