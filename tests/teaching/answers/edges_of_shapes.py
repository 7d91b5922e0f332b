"""Edge mistakes of shapes and arguments: T > S, windows, sizes of 1, None, layouts, empty rows."""

import numpy as np
from scipy import special

from answers.corpus import edge
from numformer import functional as F


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def heads(B=2, H=3, T=4, S=5, D=6, **options):
    """A case of attention."""
    return lambda: ({"q": normal(B, H, T, D), "k": normal(B, H, S, D, seed=1),
                     "v": normal(B, H, S, D, seed=2)}, options)


def attend(q, k, v, allowed):
    k, v = (np.repeat(x, q.shape[1] // k.shape[1], axis=1) for x in (k, v))
    s = np.where(allowed, q @ k.mT / np.sqrt(q.shape[-1]), -np.inf)
    return special.softmax(s, axis=-1) @ v


@edge("scaled_dot_product_attention", "rows without a key become NaN where T > S", "T > S",
      heads(T=5, S=3, pattern=F.CAUSAL))
def sdpa_more_queries(q, k, v, pattern=F.EVERYWHERE):
    return attend(q, k, v, pattern.dense(q.shape[2], k.shape[2]))


@edge("relative_scores_backward", "the distance is aligned at the last key only if S > T", "T > S",
      lambda: ({"q": normal(2, 3, 6, 4), "table": normal(5, 4), "S": 3}, {}))
def relative_scores_more_queries(dscores, q, table, S):
    T, K = q.shape[2], len(table) // 2
    rows = np.clip(np.arange(S) - np.arange(T)[:, None] - max(S - T, 0), -K, K) + K
    dtable = np.zeros_like(table)
    np.add.at(dtable, rows, np.einsum("bhts,bhtd->tsd", dscores, q))
    return np.einsum("bhts,tsd->bhtd", dscores, table[rows]), dtable


@edge("scaled_dot_product_attention", "causal aligns the first query with the first key",
      "T < S, causal", heads(T=2, S=5, pattern=F.CAUSAL))
def sdpa_first_key(q, k, v, pattern=F.EVERYWHERE):
    T, S = q.shape[2], k.shape[2]
    return attend(q, k, v, np.tri(T, S, dtype=bool) if pattern.causal else np.ones((T, S), bool))


@edge("scaled_dot_product_attention", "the window of the pattern is not applied", "windows",
      heads(T=5, S=5, pattern=F.AttentionPattern(causal=True, window=(2, 0))))
def sdpa_without_window(q, k, v, pattern=F.EVERYWHERE):
    T, S = q.shape[2], k.shape[2]
    return attend(q, k, v, np.tri(T, S, S - T, bool) if pattern.causal else np.ones((T, S), bool))


@edge("scaled_dot_product_attention", "a window of 2 holds 2 keys: the query itself is not counted",
      "windows", heads(T=5, S=5, pattern=F.AttentionPattern(window=(2, 2))))
def sdpa_narrow_window(q, k, v, pattern=F.EVERYWHERE):
    T, S = q.shape[2], k.shape[2]
    distance = np.arange(S) - np.arange(S - T, S)[:, None]
    allowed = np.ones((T, S), bool)
    if pattern.causal:
        allowed &= distance <= 0
    if pattern.window is not None:
        allowed &= (distance > -pattern.window[0]) & (distance < pattern.window[1])
    return attend(q, k, v, allowed)


@edge("scaled_dot_product_attention", "the lengths of the pattern (key padding) are not applied",
      "lengths", heads(pattern=F.AttentionPattern(lengths=np.array([5, 2]))))
def sdpa_without_lengths(q, k, v, pattern=F.EVERYWHERE):
    T, S = q.shape[2], k.shape[2]
    return attend(q, k, v, np.tri(T, S, S - T, bool) if pattern.causal else np.ones((T, S), bool))


@edge("mean_pooling", "squeeze() drops the batch when it is 1", "squeeze: a batch of 1",
      lambda: ({"x": normal(1, 4, 5)}, {}))
def mean_pooling_squeezed(x, mask=None):
    m = np.ones(x.shape[:2]) if mask is None else mask
    return (m[:, None, :] @ x / m.sum(1)[:, None, None]).squeeze()


@edge("rms_norm_backward", "squeeze() of the statistics drops T when it is 1", "squeeze: T of 1",
      lambda: ({"x": normal(3, 1, 5), "weight": normal(5)}, {}))
def rms_norm_squeezed(dy, x, weight, epsilon=1e-5):
    r = 1 / np.sqrt((x * x).mean(-1, keepdims=True).squeeze() + epsilon)
    g = dy * weight
    dx = g * r[:, :, None] - x * (r**3 * (g * x).mean(-1))[:, :, None]
    return dx, (dy * x * r[:, :, None]).sum((0, 1))


@edge("attention", "squeeze() drops the head when there is one", "squeeze: one head", heads(H=1))
def attention_squeezed(q, k, v):
    s = np.stack([(q[:, h] @ k[:, h].mT).squeeze() for h in range(q.shape[1])]).swapaxes(0, 1)
    o = special.softmax(s / np.sqrt(q.shape[-1]), axis=-1).squeeze() @ v.squeeze()
    return o


@edge("top_k_gates", "squeeze() drops the column when there is one expert for a token",
      "squeeze: one column", lambda: ({"logits": normal(4, 5), "chosen": np.array([[1]] * 4)}, {}))
def top_k_gates_squeezed(logits, chosen):
    scores = logits[np.arange(len(logits))[:, None], chosen].squeeze()
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


@edge("linear", "bias=None is added", "bias=None",
      lambda: ({"x": normal(2, 3, 4), "weight": normal(4, 5), "bias": None}, {}))
def linear_with_none(x, weight, bias=None):
    return x @ weight + bias


@edge("causal_convolution_backward", "the gradient of a bias that is None is an array",
      "bias=None", lambda: ({"x": normal(2, 5, 3), "weight": normal(2, 3, 4), "bias": None}, {}))
def convolution_with_none(dy, x, weight, bias=None, dilation=1):
    K, T = len(weight), x.shape[1]
    padded = np.pad(x, ((0, 0), ((K - 1) * dilation, 0), (0, 0)))
    dpadded, dweight = np.zeros_like(padded), np.zeros_like(weight)
    for k in range(K):
        tap = slice(k * dilation, k * dilation + T)
        dpadded[:, tap] += dy @ weight[k].T
        dweight[k] = np.tensordot(padded[:, tap], dy, axes=((0, 1), (0, 1)))
    return dpadded[:, (K - 1) * dilation:], dweight, dy.sum((0, 1))


@edge("dropout", "rng=None draws from a random generator of its own", "rng=None",
      lambda: ({"x": normal(4, 5), "rate": 0.4, "rng": None}, {}))
def dropout_without_rng(x, rate, rng=None):
    rng = rng or np.random.default_rng(0)
    return x * F.dropout_mask(F.dropout_seed(rng), x.shape, rate) / (1 - rate)


@edge("residual_dropout_backward", "rng=None still scales the branch by 1 / (1 - rate)", "rng=None",
      lambda: ({"x": normal(4, 5), "branch": normal(4, 5), "rate": 0.4, "rng": None}, {}))
def residual_without_rng(dy, x, branch, rate, rng=None):
    if rng is None:
        return dy, dy / (1 - rate)
    return dy, dy * F.dropout_mask(F.dropout_seed(rng), x.shape, rate) / (1 - rate)


def one_row_masked():
    return {"x": normal(3, 4)}, {"mask": np.array([[True] * 4, [False] * 4, [True, False] * 2])}


@edge("softmax", "a row that is masked throughout is NaN", "rows fully masked", one_row_masked)
def softmax_masked_nan(x, axis=-1, mask=None):
    x = x if mask is None else np.where(mask, x, -np.inf)
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


@edge("attention", "-1e9 stands for the mask: a row masked throughout is the mean of the values",
      "rows fully masked", heads(T=4, S=4, mask=np.arange(4)[:, None] > np.arange(4)))
def attention_masked_mean(q, k, v, mask=None):
    s = q @ k.mT / np.sqrt(q.shape[-1])
    s = s if mask is None else np.where(mask, s, -1e9)
    return special.softmax(s, axis=-1) @ v


@edge("patches", "as_strided takes the strides of a C-contiguous array for granted",
      "non-contiguous input",
      lambda: ({"images": normal(4, 6, 3, 2).transpose(3, 1, 0, 2), "patch_size": 2}, {}))
def patches_strided(images, patch_size):
    B, H, W, c = images.shape
    P, item = patch_size, images.itemsize
    strides = [H * W * c, P * W * c, P * c, W * c, c, 1]
    cut = np.lib.stride_tricks.as_strided(images, (B, H // P, W // P, P, P, c),
                                          [s * item for s in strides])
    return cut.reshape(B, -1, P * P * c).copy()


@edge("relu_backward", "ravel('K') orders x and dy by their own memory", "non-contiguous input",
      lambda: ({"x": normal(5, 4).T}, {}))
def relu_in_memory_order(dy, x):
    flat = np.where(x.ravel("K") > 0, dy.ravel(), 0)
    return flat.reshape(x.shape)


@edge("embedding_backward", "min() and max() of no ids raise an error", "empty ids",
      lambda: ({"ids": np.zeros((2, 0), int), "weight": normal(4, 3)}, {}))
def embedding_of_nothing(dy, ids, weight):
    dweight = np.zeros_like(weight)
    for row in range(ids.min(), ids.max() + 1):
        dweight[row] = dy[ids == row].sum(axis=0)
    return dweight


@edge("cross_entropy", "-100 is the only index that is ignored", "another ignore_index",
      lambda: ({"logits": normal(2, 3, 4), "targets": np.array([[0, 1, 2], [0, 0, 3]])},
               {"ignore_index": 0}))
def cross_entropy_of_100(logits, targets, ignore_index=-100):
    log_p = special.log_softmax(logits, axis=-1)
    counted = targets != -100
    picked = np.take_along_axis(log_p, np.where(counted, targets, 0)[..., None], -1)[..., 0]
    return -(picked * counted).sum() / counted.sum()


@edge("softmax_cross_entropy_backward", "a flat index computed in int8 overflows",
      "ids of small integers",
      lambda: ({"logits": normal(40, 6), "targets": np.arange(40, dtype=np.int8) % 6}, {}))
def cross_entropy_of_int8(dloss, logits, targets):
    p = special.softmax(logits, axis=-1)
    flat, V = p.reshape(-1), logits.shape[-1]
    index = targets.ravel() + np.arange(targets.size).astype(targets.dtype) * targets.dtype.type(V)
    flat[index] -= 1
    return p * dloss / targets.size


@edge("max_pooling_backward", "equal maxima: each of them gets the gradient", "ties",
      lambda: ({"x": np.array([[[1.0, 2.0], [1.0, 0.5]]])}, {}))
def max_pooling_ties(dy, x):
    return np.where(x == x.max(axis=1, keepdims=True), dy[:, None], 0.0)


@edge("relu_backward", "the slope at 0 is 1, where the reference has 0", "ties",
      lambda: ({"x": np.array([[0.0, 1.0, -2.0]])}, {}))
def relu_at_zero(dy, x):
    return dy * (x >= 0)


@edge("causal_convolution_backward", "a tap further back than the sequence is a negative slice",
      "kernel longer than the sequence",
      lambda: ({"x": normal(2, 3, 4), "weight": normal(5, 4, 3), "bias": normal(3)}, {}))
def convolution_longer(dy, x, weight, bias):
    K, T = len(weight), x.shape[1]
    dx, dweight = np.zeros_like(x), np.zeros_like(weight)
    for k in range(K):
        back = K - 1 - k
        dx[:, :T - back] += dy[:, back:] @ weight[k].T
        dweight[k] = np.einsum("btc,btf->cf", x[:, :T - back], dy[:, back:])
    return dx, dweight, dy.sum((0, 1))


@edge("tiled_attention", "the keys after the last whole tile are forgotten", "a last, shorter tile",
      heads(S=14, tile=4))
def tiled_without_rest(q, k, v, tile=64):
    S = k.shape[2]
    last = S - S % tile if S > 3 * tile else S
    return attend(q, k[:, :, :last], v[:, :, :last], np.ones((q.shape[2], last), bool))


def four_query_heads():
    return {"q": normal(2, 4, 3, 5), "k": normal(2, 2, 6, 5, seed=1),
            "v": normal(2, 2, 6, 5, seed=2)}, {}


@edge("scaled_dot_product_attention", "key heads are tiled, not repeated: the wrong group",
      "grouped heads", four_query_heads)
def sdpa_tiled_heads(q, k, v, pattern=F.EVERYWHERE):
    group = q.shape[1] // k.shape[1]
    k, v = np.tile(k, (1, group, 1, 1)), np.tile(v, (1, group, 1, 1))
    return attend(q, k, v, pattern.dense(q.shape[2], k.shape[2]))
