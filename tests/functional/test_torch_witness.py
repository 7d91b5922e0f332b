"""PyTorch's functions and autograd as a second witness, on the levels of every specification."""

import inspect

import numpy as np
import pytest

from numformer import functional as F
from numformer.functional import CAUSAL, EVERYWHERE, AttentionPattern
from numformer.specifications import PROBLEMS, Instance

torch = pytest.importorskip("torch")
from torch_copies import close, tensor  # noqa: E402  (needs PyTorch)

nn = torch.nn.functional


def rms_norm(x, weight, epsilon=1e-5):
    return nn.rms_norm(x, x.shape[-1:], weight, epsilon)


def batch_norm(x, weight, bias, statistics=(None, None), epsilon=1e-5):
    flat = x.reshape(-1, x.shape[-1])
    mean, variance = statistics
    return nn.batch_norm(flat, mean, variance, weight, bias, mean is None, 0.0,
                         epsilon).reshape(x.shape)


def softmax(x, axis=-1, mask=None):
    return nn.softmax(x if mask is None else x.masked_fill(~mask, -torch.inf), axis)


def cross_entropy(logits, targets, ignore_index=-100, label_smoothing=0.0, z_loss=0.0):
    logits, targets = logits.flatten(0, -2), targets.flatten().long()
    of_z = torch.logsumexp(logits, -1)[targets != ignore_index] ** 2
    return z_loss * of_z.mean() + nn.cross_entropy(
        logits, targets, ignore_index=ignore_index, label_smoothing=label_smoothing)


def attention(q, k, v, mask=None):
    return nn.scaled_dot_product_attention(q, k, v, mask, enable_gqa=True)


def attention_of_patterns(q, k, v, pattern=EVERYWHERE, scale=None, slopes=None, bias=None,
                          softcap=None, dropout=0.0, seed=None, tile=None):
    (*_, T, D), S = q.shape, k.shape[2]
    mask = torch.tensor(pattern.dense(T, S))
    if slopes is bias is softcap is seed:                             # none of them
        return nn.scaled_dot_product_attention(q, k, v, mask, scale=scale, enable_gqa=True)
    k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], dim=1) for x in (k, v))
    scores = q @ k.mT * (D ** -0.5 if scale is None else scale)
    steps = torch.arange(S) - torch.arange(T)[:, None]                # j - i
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    if slopes is not None:
        scores = scores - slopes[:, None, None] * abs(steps - (S - T))
    if bias is not None:
        scores = scores + bias[:, steps + T - 1]
    weights = torch.softmax(scores.masked_fill(~mask, -torch.inf), -1)
    if seed is not None:
        kept = torch.tensor(F.attention_dropout_mask(seed, weights.shape, dropout))
        weights = weights * kept / (1 - dropout)
    return weights @ v


def linear_attention(q, k, v, causal=False):
    weights = (nn.elu(q) + 1) @ (nn.elu(k) + 1).mT
    weights = torch.tril(weights) if causal else weights
    return weights @ v / weights.sum(dim=-1, keepdim=True)


def rotary(x, cosine, sine, layout="half"):
    """GPT-NeoX's rotation: cos x + sin rotate_half(x); interleaved, as complex numbers."""
    if layout == "interleaved":
        pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
        return torch.view_as_real(pairs * torch.complex(cosine, sine)).flatten(-2)
    (a, b), cosine, sine = x.chunk(2, -1), cosine.repeat(1, 2), sine.repeat(1, 2)
    return cosine * x + sine * torch.cat((-b, a), -1)


def cell(theirs, order, parts=1):
    """PyTorch's cell, which has our blocks in another order, as rows."""
    def reordered(x):
        blocks = x.chunk(len(order), -1)
        return torch.cat([blocks[k] for k in order], -1)

    def function(x, state, input_weight, recurrent_weight, bias=None, recurrent_bias=None):
        W, U, zero = input_weight, recurrent_weight, torch.zeros(input_weight.shape[1]).double()
        b = zero if bias is None else reordered(bias)
        c = zero if recurrent_bias is None else torch.cat([zero[len(recurrent_bias):],
                                                           recurrent_bias])
        state = state.chunk(2, -1) if parts == 2 else state
        found = theirs(x, state, reordered(W).T, reordered(U).T, b, c)
        return torch.cat(found, -1) if parts == 2 else found
    return function


def causal_convolution(x, weight, bias=None, dilation=1):
    padded = nn.pad(x.mT, (dilation * (len(weight) - 1), 0))
    return nn.conv1d(padded, weight.permute(2, 1, 0), bias, dilation=dilation).mT


def convolution_2d(images, weight, bias=None, **options):
    return nn.conv2d(images.permute(0, 3, 1, 2), weight.permute(3, 2, 0, 1), bias,
                     **options).permute(0, 2, 3, 1)


def patch_convolution(images, weight, bias=None):
    return convolution_2d(images, weight, bias, stride=len(weight))


def pooling_2d(theirs):
    return lambda images, size, stride=None: theirs(
        images.permute(0, 3, 1, 2), size, stride).permute(0, 2, 3, 1)


def distillation_loss(logits, teacher_logits, temperature=1.0):
    s, t = (nn.log_softmax(x / temperature, -1).reshape(-1, x.shape[-1])
            for x in (logits, teacher_logits))
    return temperature ** 2 * nn.kl_div(s, t, reduction="batchmean", log_target=True)


def contrastive_loss(logits):
    right = torch.arange(len(logits))
    return (nn.cross_entropy(logits, right) + nn.cross_entropy(logits.T, right)) / 2


def quantile_loss(forecasts, targets, quantiles):
    error = targets[..., None] - forecasts
    return torch.where(error >= 0, quantiles * error, (quantiles - 1) * error).mean()


def deformable_attention(values, locations, weights, shapes):
    B, H, S, D = values.shape
    maps = values.split([height * width for height, width in shapes], dim=2)
    samples = [nn.grid_sample(
        pixels.reshape(B * H, height, width, D).permute(0, 3, 1, 2),
        2 * locations[:, :, :, n].flatten(0, 1) - 1, align_corners=False)      # (B H, D, T, K)
        for n, (pixels, (height, width)) in enumerate(zip(maps, shapes))]
    sampled = torch.stack(samples, -2).unflatten(0, (B, H))                    # (B, H, D, T, L, K)
    return (sampled * weights[:, :, None]).sum((-1, -2)).mT


WITNESSES = {
    "linear": lambda x, weight, bias=None: nn.linear(x, weight.T, bias),
    "embedding": lambda ids, weight: nn.embedding(ids.long(), weight),
    "relu": nn.relu, "relu_squared": lambda x: nn.relu(x) ** 2, "gelu": nn.gelu,
    "gelu_tanh": lambda x: nn.gelu(x, approximate="tanh"), "silu": nn.silu,
    "quick_gelu": lambda x: x * torch.sigmoid(1.702 * x), "sigmoid": torch.sigmoid,
    "swish": lambda x, beta=1.0: x * torch.sigmoid(beta * x),
    "gated_linear_unit": lambda g, h, activation="silu": WITNESSES[activation](g) * h,
    "softmax": softmax, "log_softmax": lambda x, axis=-1: nn.log_softmax(x, axis),
    "layer_norm": lambda x, weight, bias, epsilon=1e-5: nn.layer_norm(
        x, x.shape[-1:], weight, bias, epsilon),
    "rms_norm": rms_norm, "batch_norm": batch_norm, "batch_norm_inference": batch_norm,
    "cross_entropy": cross_entropy, "softmax_cross_entropy": cross_entropy,
    "linear_cross_entropy": lambda x, weight, targets, **options: cross_entropy(
        x @ weight.T, targets, **options),
    "weighted_cross_entropy": nn.cross_entropy,
    "distillation_loss": distillation_loss, "imitation_loss": nn.mse_loss,
    "quantile_loss": quantile_loss,
    "contrastive_loss": contrastive_loss,
    "cosine_similarity": lambda a, b: nn.cosine_similarity(a[:, None], b[None], -1),
    "cosine_regression_loss": lambda u, v, targets: nn.mse_loss(nn.cosine_similarity(u, v),
                                                                targets),
    "triplet_loss": lambda a, p, n, margin=1.0: nn.triplet_margin_loss(a, p, n, margin, eps=0.0),
    "attention": attention, "scaled_dot_product_attention": attention_of_patterns,
    "tiled_attention": attention_of_patterns,
    "dot_scores": lambda q, k: torch.bmm(q, k.mT),
    "general_scores": lambda q, k, weight: torch.einsum("btc,ck,bsk->bts", q, weight, k),
    "linear_attention": linear_attention,
    "low_rank_attention": lambda q, k, v, E, G: nn.scaled_dot_product_attention(q, E @ k, G @ v),
    "sparse_attention": lambda q, k, v, keys: attention(
        q, k, v, (keys[..., None] == torch.arange(k.shape[2])).any(1)),
    "rotary": rotary,
    "rnn_cell": cell(torch.rnn_tanh_cell, [0]), "gru_cell": cell(torch.gru_cell, [0, 1, 2]),
    "lstm_cell": cell(torch.lstm_cell, [0, 1, 3, 2], parts=2),
    "causal_convolution": causal_convolution, "convolution_2d": convolution_2d,
    "patch_convolution": patch_convolution, "max_pooling_2d": pooling_2d(nn.max_pool2d),
    "mean_pooling_2d": pooling_2d(nn.avg_pool2d), "deformable_attention": deformable_attention,
}


# Levels of some functions whose results are what is left of cancelled numbers, in which two right
# computations differ
CANCELLED = {
    "a mean far from 0": ("layer_norm", "batch_norm"),
    "a mean far from 0, epsilon=0.3": ("layer_norm", "batch_norm"),
    "sizes of 1": ("cosine_similarity", "cosine_regression_loss", "triplet_loss",
                   "linear_attention", "low_rank_attention"),
    "large numbers": ("attention", "scaled_dot_product_attention", "tiled_attention",
                      "linear_attention", "low_rank_attention"),
    "a mask, large numbers": ("attention",),
    "a causal pattern, large numbers": ("scaled_dot_product_attention",),
    "a window, large numbers": ("tiled_attention",),
    "small numbers": ("linear_attention",),
    # scores of -20,000 have rounding errors of 4e-12
    **{f"{what}, low scores{more}": ("attention", "scaled_dot_product_attention")
       for what in ("a mask", "a causal pattern") for more in ("", ", at the edges")}}
LONG = [(2, 2, 70, 6)] * 3                            # q, k, v of several blocks
# beyond the levels: options together, and longer sequences
MORE = [
    ("cross_entropy", [(4, 5)], (np.array([1, -100, 4, 0]),),
     dict(label_smoothing=0.2, z_loss=0.3)),
    ("distillation_loss", [(5, 7)], (np.cos(np.arange(35.0)).reshape(5, 7), 0.5), {}),
    ("distillation_loss", [(5, 7)], (3 * np.cos(np.arange(35.0)).reshape(5, 7), 4.0), {}),
    ("linear_attention", LONG, (), {}), ("linear_attention", LONG, (), dict(causal=True)),
    ("low_rank_attention", [*LONG, (5, 70), (5, 70)], (), {}),
    ("sparse_attention", LONG, (F.strided_keys(70, 8),), {})]


def given(x, wanted):
    """An argument as PyTorch takes it; `wanted`: its gradient is compared."""
    if isinstance(x, tuple):
        return tuple(given(part, wanted) for part in x)
    if not isinstance(x, np.ndarray):
        return x
    x = x.astype(float) if x.dtype.kind == "f" else x
    return tensor(x.copy()) if wanted else torch.tensor(x.copy())


def equals_pytorch(name, dy, y, gradients, arguments, options):
    """Compare a result and its gradients, both by name, with PyTorch's."""
    wanted = PROBLEMS[name].wanted
    leaves = {key: given(x, key in wanted) for key, x in arguments.items()}
    options = {key: given(x, key in wanted) for key, x in options.items()}
    expected = WITNESSES[name](*leaves.values(), **options)
    close(y, expected, 1e-12)
    expected.backward(torch.tensor(np.float64(dy)))
    for key, gradient in gradients.items():
        close(gradient, {**leaves, **options}[key.removeprefix("d")].grad)


@pytest.mark.parametrize("name, level", [
    (name, level) for name in WITNESSES for level in PROBLEMS[name].levels
    if PROBLEMS[name].levels[level].required and name not in CANCELLED.get(level, ())])
def test_functions_equal_those_of_pytorch(name, level):
    instance = Instance(PROBLEMS[name], level, seed=3)
    y, _, gradients = instance.exact
    equals_pytorch(name, instance.dy(), y, gradients, *instance.arguments())


@pytest.mark.parametrize("name, shapes, after, options", MORE)
def test_options_together_and_long_sequences_equal_pytorch(name, shapes, after, options, rng):
    arrays = [rng.standard_normal(shape) for shape in shapes]
    y, saved = getattr(F, name)(*arrays, *after, **options)
    dy = rng.standard_normal(np.shape(y)) if np.shape(y) else 1.7
    found = getattr(F, f"{name}_backward")(dy, saved)
    found = found if isinstance(found, tuple) else (found,)
    names = inspect.signature(getattr(F, name)).parameters
    equals_pytorch(name, dy, y, {f"d{key}": x for key, x in zip(PROBLEMS[name].wanted, found)},
                   dict(zip(names, (*arrays, *after))), options)


def test_a_residual_sum_and_its_norm(rng):
    """Both outputs are read; in the second round the sum is not."""
    x, branch = rng.standard_normal((2, 3, 6))
    weight, bias, (dtotal, dnormed) = *rng.standard_normal((2, 6)), rng.standard_normal((2, 3, 6))
    for name, parameters, norm in (
            ("residual_layer_norm", [weight, bias],
             lambda x, g, b: nn.layer_norm(x, (6,), g, b, 1e-3)),
            ("residual_rms_norm", [weight], lambda x, g: nn.rms_norm(x, (6,), g, 1e-3))):
        for factor, dys in ((1.0, (dtotal, dnormed)), (0.0, (None, dnormed))):
            both, saved = getattr(F, name)(x, branch, *parameters, 1e-3)
            tensors = [tensor(array) for array in (x, branch, *parameters)]
            total = tensors[0] + tensors[1]
            normed = norm(total, *tensors[2:])
            for found, expected in zip(both, (total, normed)):
                np.testing.assert_allclose(found, expected.detach().numpy(), rtol=1e-12)
            (factor * (total * torch.tensor(dtotal)).sum()
             + (normed * torch.tensor(dnormed)).sum()).backward()
            gradients = getattr(F, f"{name}_backward")(dys, saved)
            for gradient, t in zip(gradients, tensors, strict=True):
                np.testing.assert_allclose(gradient, t.grad.numpy(), rtol=1e-10, atol=1e-12)


def test_head_projections(rng):
    B, T, C, D = 2, 5, 3, 4
    arrays = [rng.standard_normal(shape) for shape in (
        (B, T, C), (C, 2 * D), (2 * D,), (C, D), (D,), (C, D), (D,), (D,), (D,))]
    angles = F.rotary_angles(0, T, D)
    heads, saved = F.head_projections(*arrays, D, (*angles, "half"), 1e-3)

    leaves = [tensor(x) for x in arrays]
    x, *maps, query_norm, key_norm = leaves
    q, k, v = (nn.linear(x, weight.T, bias).unflatten(-1, (-1, D)).transpose(1, 2)
               for weight, bias in zip(maps[::2], maps[1::2]))
    q, k = (rotary(rms_norm(y, weight, 1e-3), *map(torch.tensor, angles))
            for y, weight in ((q, query_norm), (k, key_norm)))
    for found, expected in zip(heads, (q, k, v), strict=True):
        close(found, expected)
    dheads = tuple(rng.standard_normal(y.shape) for y in heads)
    sum((y * torch.tensor(dy)).sum() for y, dy in zip((q, k, v), dheads)).backward()
    for gradient, leaf in zip(F.head_projections_backward(dheads, saved), leaves, strict=True):
        close(gradient, leaf.grad)


@pytest.mark.parametrize("pattern", [
    EVERYWHERE, CAUSAL, AttentionPattern(window=(2, 0)), AttentionPattern(window=(1, 2)),
    AttentionPattern(lengths=[6, 3]),
    AttentionPattern(causal=True, documents=[[1, 1, 1, 2, 2, 2], [5, 5, 6, 6, 6, 6]]),
    AttentionPattern(mask=np.random.default_rng(1).random((2, 4, 6, 6)) < 0.8)])
@pytest.mark.parametrize("extra", [None, "slopes", "bias"])
def test_attention_equals_torch_with_every_mask(pattern, extra, rng):
    arrays = [rng.standard_normal(shape) for shape in ((2, 4, 6, 3), (2, 2, 6, 3), (2, 2, 6, 3))]
    options = {"slopes": {"slopes": F.alibi_slopes(4)},
               "bias": {"bias": rng.standard_normal((4, 11))}, None: {}}[extra]
    leaves = [tensor(x) for x in arrays]
    added = torch.zeros(2, 4, 6, 6, dtype=torch.float64)
    if extra == "slopes":
        added = added + torch.tensor(F.alibi(np.zeros((2, 4, 6, 6)), options["slopes"])[0])
    bias = torch.tensor(options["bias"], requires_grad=True) if extra == "bias" else None
    if bias is not None:
        distance = torch.arange(6)[None, :] - torch.arange(6)[:, None] + 5
        added = added + bias[:, distance]
    allowed = torch.tensor(np.broadcast_to(pattern.dense(6, 6), added.shape).copy())
    added = added.masked_fill(~allowed, -torch.inf)
    k, v = (x.repeat_interleave(2, 1) for x in leaves[1:])
    expected = nn.scaled_dot_product_attention(leaves[0], k, v, attn_mask=added)
    o, saved = F.scaled_dot_product_attention(*arrays, pattern, **options)
    # PyTorch gives NaN to a query that sees nothing
    seen = np.broadcast_to(pattern.dense(6, 6), added.shape).any(axis=-1)
    assert (o[~seen] == 0).all()
    do = rng.standard_normal(o.shape) * seen[..., None]
    close(o[seen], expected[torch.tensor(seen)], 1e-12)
    if seen.all():
        expected.backward(torch.tensor(do))
        for gradient, leaf in zip(F.scaled_dot_product_attention_backward(do, saved),
                                  [*leaves, *([] if bias is None else [bias])]):
            close(gradient, leaf.grad)
