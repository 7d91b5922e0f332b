"""Wrong answers: rotary positions, ALiBi, biases by distance, grouped heads, patches."""

import numpy as np

from answers.corpus import wrong
from numformer import functional as F


def half(x):
    return np.split(x, 2, axis=-1)


@wrong("rotary_backward", "rotated forwards again: the sign of the sine")
def rot_b_sign(dy, x, cosine, sine):
    a, b = half(dy)
    return np.concatenate([a * cosine - b * sine, a * sine + b * cosine], -1)


@wrong("rotary_backward", "one sign alone: minus in both halves")
def rot_b_both(dy, x, cosine, sine):
    a, b = half(dy)
    return np.concatenate([a * cosine - b * sine, b * cosine - a * sine], -1)


@wrong("rotary_backward", "interleaved pairs for halves")
def rot_b_interleaved(dy, x, cosine, sine):
    dx = np.empty_like(dy)
    a, b = dy[..., 0::2], dy[..., 1::2]
    dx[..., 0::2], dx[..., 1::2] = a * cosine + b * sine, b * cosine - a * sine
    return dx


@wrong("rotary_backward", "the layout is ignored: always halves")
def rot_b_layout(dy, x, cosine, sine, layout="half"):
    a, b = half(dy)
    return np.concatenate([a * cosine + b * sine, b * cosine - a * sine], -1)


@wrong("rotary_backward", "sine and cosine are exchanged")
def rot_b_exchanged(dy, x, cosine, sine):
    a, b = half(dy)
    return np.concatenate([a * sine + b * cosine, b * sine - a * cosine], -1)


@wrong("rotary_backward", "the halves are returned in the wrong order")
def rot_b_halves(dy, saved):
    cosine, sine, _ = saved
    a, b = half(dy)
    return np.concatenate([b * cosine - a * sine, a * cosine + b * sine], -1)


@wrong("rotary", "rotated the other way: the sign of the sine")
def rot_sign(x, cosine, sine):
    a, b = half(x)
    return np.concatenate([a * cosine + b * sine, b * cosine - a * sine], -1)


@wrong("rotary", "the first half alone is rotated, with itself")
def rot_itself(x, cosine, sine):
    a, b = half(x)
    return np.concatenate([a * cosine - a * sine, b * sine + b * cosine], -1)


@wrong("rotary", "positions begin at the next angle: rows off by one")
def rot_shifted(x, cosine, sine):
    a, b = half(x)
    cosine, sine = np.roll(cosine, -1, axis=0), np.roll(sine, -1, axis=0)
    return np.concatenate([a * cosine - b * sine, a * sine + b * cosine], -1)


@wrong("alibi_backward", "multiplied by the slopes")
def alibi_b_slopes(dy, scores, slopes):
    return dy * slopes[:, None, None]


@wrong("alibi_backward", "the sign is wrong, as the bias is subtracted")
def alibi_b_sign(dy, scores, slopes):
    return -dy


@wrong("alibi", "the bias is added: far keys are preferred")
def alibi_plus(scores, slopes):
    T, S = scores.shape[-2:]
    distance = np.abs(np.arange(S - T, S)[:, None] - np.arange(S))
    return scores + slopes[:, None, None] * distance


@wrong("alibi", "the first query is aligned with the first key")
def alibi_aligned(scores, slopes):
    T, S = scores.shape[-2:]
    return scores - slopes[:, None, None] * np.abs(np.arange(T)[:, None] - np.arange(S))


@wrong("add_by_distance_backward", "= for += over the queries (the numbers of d[:, index] += g)")
def abd_b_assign(dy, scores, bias):
    T, S = dy.shape[-2:]
    dbias = np.zeros_like(bias)
    for i in range(T):
        dbias[:, T - 1 - i:T - 1 - i + S] = dy[:, :, i].sum(0)
    return dy.copy(), dbias


@wrong("add_by_distance_backward", "off by one: the bias is read from T - i")
def abd_b_off(dy, scores, bias):
    T, S = dy.shape[-2:]
    dbias = np.zeros((bias.shape[0], T + S))
    for i in range(T):
        dbias[:, T - i:T - i + S] += dy[:, :, i].sum(0)
    return dy.copy(), dbias[:, :-1]


@wrong("add_by_distance_backward", "the distance has the wrong sign: i - j")
def abd_b_sign(dy, scores, bias):
    T, S = dy.shape[-2:]
    dbias = np.zeros_like(bias)
    for i in range(T):
        dbias[:, T - 1 - i:T - 1 - i + S] += dy[:, :, i].sum(0)
    return dy.copy(), dbias[:, ::-1].copy()


@wrong("add_by_distance_backward", "the mean over the batch, not the sum")
def abd_b_mean(dy, scores, bias):
    T, S = dy.shape[-2:]
    dbias = np.zeros_like(bias)
    for i in range(T):
        dbias[:, T - 1 - i:T - 1 - i + S] += dy[:, :, i].mean(0)
    return dy.copy(), dbias


@wrong("add_by_distance_backward", "d[:, index] += g loses the repeated distances")
def abd_b_repeats(dy, scores, bias):
    T, S = dy.shape[-2:]
    dbias = np.zeros_like(bias)
    dbias[:, np.arange(S) - np.arange(T)[:, None] + T - 1] += dy.sum(0)
    return dy.copy(), dbias


@wrong("add_by_distance_backward", "two mistakes: dscores has the wrong sign, dbias is a mean")
def abd_b_two(dy, scores, bias):
    T, S = dy.shape[-2:]
    dbias = np.zeros_like(bias)
    for i in range(T):
        dbias[:, T - 1 - i:T - 1 - i + S] += dy[:, :, i].mean(0)
    return -dy, dbias


@wrong("add_by_distance", "the index is i - j: the bias is mirrored")
def abd_mirrored(scores, bias):
    T, S = scores.shape[-2:]
    return scores + bias[:, np.arange(T)[:, None] - np.arange(S) + S - 1]


@wrong("relative_position_bias_backward", "distances of one bucket overwrite each other: =")
def rpb_b_assign(dy, table, T, S, max_distance=128):
    buckets = F.relative_position_buckets(np.arange(1 - S, T), len(table), max_distance)
    dtable = np.zeros_like(table)
    dtable[buckets] = dy.T
    return dtable


@wrong("relative_position_bias_backward", "T and S are exchanged in the range of distances")
def rpb_b_range(dy, table, T, S, max_distance=128):
    buckets = F.relative_position_buckets(np.arange(1 - T, S), len(table), max_distance)
    dtable = np.zeros_like(table)
    np.add.at(dtable, buckets, dy.T)
    return dtable


@wrong("relative_position_bias_backward", "the buckets' means, not their sums")
def rpb_b_mean(dy, table, T, S, max_distance=128):
    buckets = F.relative_position_buckets(np.arange(1 - S, T), len(table), max_distance)
    dtable = np.zeros_like(table)
    np.add.at(dtable, buckets, dy.T)
    return dtable / np.maximum(np.bincount(buckets, minlength=len(table)), 1)[:, None]


@wrong("repeat_kv_heads_backward", "the mean over the group, not the sum")
def kv_b_mean(dy, x, n_heads):
    B, G, S, D = x.shape
    return dy.reshape(B, G, n_heads // G, S, D).mean(2)


@wrong("repeat_kv_heads_backward", "the groups are read as tiled: heads G apart are added")
def kv_b_tiled(dy, x, n_heads):
    B, G, S, D = x.shape
    return dy.reshape(B, n_heads // G, G, S, D).sum(1)


@wrong("repeat_kv_heads_backward", "only the first head of each group counts")
def kv_b_first(dy, x, n_heads):
    return dy[:, ::n_heads // x.shape[1]].copy()


@wrong("repeat_kv_heads", "np.tile for np.repeat: the heads are in another order")
def kv_tiled(x, n_heads):
    return np.tile(x, (1, n_heads // x.shape[1], 1, 1))


@wrong("patches_backward", "not transposed back: reshape alone")
def patches_b_reshape(dy, images, patch_size):
    return dy.reshape(images.shape).copy()


@wrong("patches_backward", "rows and columns inside a patch are exchanged")
def patches_b_inside(dy, images, patch_size):
    B, H, W, c = images.shape
    P = patch_size
    return dy.reshape(B, H // P, W // P, P, P, c).transpose(0, 1, 4, 2, 3, 5).reshape(B, H, W, c)


@wrong("patches", "channels come first within a patch")
def patches_channels(images, patch_size):
    B, H, W, c = images.shape
    P = patch_size
    cut = images.reshape(B, H // P, P, W // P, P, c).transpose(0, 1, 3, 5, 2, 4)
    return cut.reshape(B, -1, P * P * c)


@wrong("patch_convolution_backward", "the kernel is flipped in the gradient of the images")
def pc_b_flipped(dy, images, weight, bias):
    P, dimages, dweight = len(weight), np.zeros_like(images), np.zeros_like(weight)
    for i, j in np.ndindex(P, P):
        dimages[:, i::P, j::P] = dy @ weight[P - 1 - i, P - 1 - j].T
        dweight[i, j] = np.einsum("bhwc,bhwf->cf", images[:, i::P, j::P], dy)
    return dimages, dweight, dy.sum((0, 1, 2))


@wrong("patch_convolution_backward", "i and j are exchanged in dweight")
def pc_b_exchanged(dy, images, weight, bias):
    P, dimages, dweight = len(weight), np.zeros_like(images), np.zeros_like(weight)
    for i, j in np.ndindex(P, P):
        dimages[:, i::P, j::P] = dy @ weight[i, j].T
        dweight[j, i] = np.einsum("bhwc,bhwf->cf", images[:, i::P, j::P], dy)
    return dimages, dweight, dy.sum((0, 1, 2))


@wrong("patch_convolution_backward", "the bias' gradient is the mean over the batch")
def pc_b_bias(dy, images, weight, bias):
    P, dimages, dweight = len(weight), np.zeros_like(images), np.zeros_like(weight)
    for i, j in np.ndindex(P, P):
        dimages[:, i::P, j::P] = dy @ weight[i, j].T
        dweight[i, j] = np.einsum("bhwc,bhwf->cf", images[:, i::P, j::P], dy)
    return dimages, dweight, dy.sum((1, 2)).mean(0)


@wrong("patch_convolution_backward", "the last row and column of the kernel are left out")
def pc_b_range(dy, images, weight, bias):
    P, dimages, dweight = len(weight), np.zeros_like(images), np.zeros_like(weight)
    for i, j in np.ndindex(P - 1, P - 1):
        dimages[:, i::P, j::P] = dy @ weight[i, j].T
        dweight[i, j] = np.einsum("bhwc,bhwf->cf", images[:, i::P, j::P], dy)
    return dimages, dweight, dy.sum((0, 1, 2))


@wrong("patch_convolution", "the kernel's rows and columns are exchanged")
def pc_exchanged(images, weight, bias):
    P = len(weight)
    return sum(images[:, i::P, j::P] @ weight[j, i] for i, j in np.ndindex(P, P)) + bias


@wrong("rotary_backward", "two mistakes: rotated forwards, and the halves are exchanged")
def rot_b_two(dy, x, cosine, sine):
    a, b = half(dy)
    return np.concatenate([a * sine + b * cosine, a * cosine - b * sine], -1)
