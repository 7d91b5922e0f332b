"""The functions against PyTorch's autograd in float64; skipped where it is not installed."""

import math

import numpy as np
import pytest

from numformer import functional as F
from numformer.functional import CAUSAL, AttentionPattern

torch = pytest.importorskip("torch")
from torch_copies import tensor  # noqa: E402  (needs PyTorch)

nn = torch.nn.functional


def agree(pair, pair_backward, theirs, arrays, *constants, **options):
    """Forward to 1e-12 and gradients to 1e-11 (relative to the largest) against PyTorch."""
    y, saved = pair(*arrays, *constants, **options)
    tensors = [tensor(array) for array in arrays]
    expected = theirs(*tensors)
    np.testing.assert_allclose(y, expected.detach().numpy(), rtol=1e-12, atol=1e-12)
    dy = np.random.default_rng(0).standard_normal(np.shape(y))
    expected.backward(torch.tensor(dy))
    gradients = pair_backward(dy if dy.shape else float(dy), saved)
    gradients = gradients if isinstance(gradients, tuple) else (gradients,)
    for gradient, t in zip(gradients, tensors, strict=True):
        atol = 1e-11 * float(t.grad.abs().max())
        np.testing.assert_allclose(gradient, t.grad.numpy(), rtol=1e-11, atol=atol)


@pytest.mark.parametrize("ours, theirs", [
    (F.relu, nn.relu), (F.gelu, nn.gelu),
    (F.gelu_tanh, lambda x: nn.gelu(x, approximate="tanh")),
    (F.silu, nn.silu), (F.sigmoid, torch.sigmoid),
    (F.quick_gelu, lambda x: x * torch.sigmoid(1.702 * x)),
    (F.softmax, lambda x: nn.softmax(x, -1)), (F.log_softmax, lambda x: nn.log_softmax(x, -1))])
def test_activations_and_softmax(ours, theirs, rng):
    backward = getattr(F, ours.__name__ + "_backward")
    agree(ours, backward, theirs, [3 * rng.standard_normal((4, 7))])


def test_norms(rng):
    x, weight, bias = rng.standard_normal((3, 6)), *rng.standard_normal((2, 6))
    agree(F.layer_norm, F.layer_norm_backward,
          lambda x, g, b: nn.layer_norm(x, (6,), g, b, 1e-3), [x, weight, bias], epsilon=1e-3)
    agree(F.rms_norm, F.rms_norm_backward,
          lambda x, g: nn.rms_norm(x, (6,), g, 1e-3), [x, weight], epsilon=1e-3)


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


def test_linear_and_embedding(rng):
    agree(F.linear, F.linear_backward, lambda x, w, b: nn.linear(x, w.T, b),
          [rng.standard_normal(shape) for shape in ((2, 3, 4), (4, 5), (5,))])
    ids = np.array([[1, 0, 1], [4, 1, 2]])
    agree(lambda w: F.embedding(ids, w), F.embedding_backward,
          lambda w: nn.embedding(torch.tensor(ids), w), [rng.standard_normal((5, 3))])


def rotated(x, cosine, sine):
    """GPT-NeoX's rotation of (B, H, T, D): cos x + sin rotate_half(x)."""
    (a, b), cosine, sine = x.chunk(2, -1), cosine.repeat(1, 2), sine.repeat(1, 2)
    return cosine * x + sine * torch.cat((-b, a), -1)


def test_head_projections(rng):
    B, T, C, D = 2, 5, 3, 4
    shapes = [(B, T, C), (C, 2 * D), (2 * D,), (C, D), (D,), (C, D), (D,), (D,), (D,)]
    angles = F.rotary_angles(0, T, D)
    tables = [torch.tensor(table) for table in angles]

    def flat(heads):
        return [y.reshape(-1) for y in heads]

    def ours(*arrays):
        heads, saved = F.head_projections(*arrays, D, (*angles, "half"), 1e-3)
        return np.concatenate(flat(heads)), ([y.shape for y in heads], saved)

    def ours_backward(dy, saved):
        shapes, saved = saved
        parts = np.split(dy, np.cumsum([math.prod(shape) for shape in shapes])[:-1])
        dheads = tuple(part.reshape(shape) for part, shape in zip(parts, shapes))
        return F.head_projections_backward(dheads, saved)

    def theirs(x, query, query_bias, key, key_bias, value, value_bias, query_norm, key_norm):
        q, k, v = (nn.linear(x, weight.T, bias).unflatten(-1, (-1, D)).transpose(1, 2)
                   for weight, bias in ((query, query_bias), (key, key_bias), (value, value_bias)))
        q, k = (rotated(nn.rms_norm(y, (D,), weight, 1e-3), *tables)
                for y, weight in ((q, query_norm), (k, key_norm)))
        return torch.cat(flat((q, k, v)))

    agree(ours, ours_backward, theirs, [rng.standard_normal(shape) for shape in shapes])


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_cross_entropy(smoothing, rng):
    targets = np.array([1, -100, 4, 0])
    agree(F.cross_entropy, F.cross_entropy_backward,
          lambda z: nn.cross_entropy(z, torch.tensor(targets), label_smoothing=smoothing),
          [rng.standard_normal((4, 5))], targets, label_smoothing=smoothing)


@pytest.mark.parametrize("pattern", [
    AttentionPattern(), CAUSAL, AttentionPattern(window=(1, 1)), AttentionPattern(lengths=[4, 2]),
    AttentionPattern(mask=np.random.default_rng(1).random((2, 4, 4, 4)) < 0.8)])
def test_attention(pattern, rng):
    mask = torch.tensor(pattern.dense(4, 4))
    agree(F.scaled_dot_product_attention, F.scaled_dot_product_attention_backward,
          lambda q, k, v: nn.scaled_dot_product_attention(q, k, v, mask, enable_gqa=True),
          [rng.standard_normal(shape) for shape in ((2, 4, 4, 3), (2, 2, 4, 3), (2, 2, 4, 3))],
          pattern)
