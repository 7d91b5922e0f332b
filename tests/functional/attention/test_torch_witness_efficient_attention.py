"""PyTorch as a second witness of linear, low-rank and sparse attention and their gradients."""

import numpy as np
import pytest

from numformer import functional as F

torch = pytest.importorskip("torch")


def gradients(function, arrays, do):
    tensors = [torch.tensor(x, requires_grad=True) for x in arrays]
    o = function(*tensors)
    o.backward(torch.tensor(do))
    return o.detach().numpy(), [x.grad.numpy() for x in tensors]


def linear(causal):
    def function(q, k, v):
        a, b = (torch.nn.functional.elu(x) + 1 for x in (q, k))
        weights = a @ b.mT
        weights = torch.tril(weights) if causal else weights
        return weights @ v / weights.sum(dim=-1, keepdim=True)
    return function


def low_rank(q, k, v, E, G):
    return torch.nn.functional.scaled_dot_product_attention(q, E @ k, G @ v)


def sparse(mask):
    return lambda q, k, v: torch.nn.functional.scaled_dot_product_attention(
        q, k, v, attn_mask=torch.tensor(mask))


KEYS = F.strided_keys(70, 8)


@pytest.mark.parametrize("name, witness, extra, options", [
    ("linear_attention", linear(False), [], {}),
    ("linear_attention", linear(True), [], {"causal": True}),
    ("low_rank_attention", low_rank, [(5, 70), (5, 70)], {}),
    ("sparse_attention", sparse(F.mask_of_keys(KEYS)), [], {"keys": KEYS})])
def test_forward_and_backward_are_those_of_pytorch(name, witness, extra, options, rng):
    arrays = [rng.standard_normal(shape) for shape in (*[(2, 2, 70, 6)] * 3, *extra)]
    o, saved = getattr(F, name)(*arrays, **options)
    do = rng.standard_normal(o.shape)
    expected, dexpected = gradients(witness, arrays, do)
    np.testing.assert_allclose(o, expected, rtol=1e-10, atol=1e-12)
    found = getattr(F, f"{name}_backward")(do, saved)
    for ours, theirs in zip(found, dexpected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-11)
