"""A Transformer block against PyTorch's TransformerEncoderLayer with the same weights."""

import numpy as np
import pytest

from numformer.functional import CAUSAL
from numformer.layers import (
    FeedForward, LayerNorm, MultiHeadAttention, ResidualBranch, SelfAttentionBranch,
    TransformerBlock)

torch = pytest.importorskip("torch")
from torch_copies import (  # noqa: E402  (needs PyTorch)
    copy_attention, copy_linear, copy_norm, projections, tensor)


def close(found, expected):
    np.testing.assert_allclose(found, expected.numpy(), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_outputs_and_gradients_agree(norm_first, activation, rng):
    order, double = "pre" if norm_first else "post", dict(dtype=np.float64)
    attention = MultiHeadAttention(8, 2, rng, **double)
    feedforward = FeedForward(8, 12, activation, rng, **double)
    ours = TransformerBlock(
        attention=SelfAttentionBranch(LayerNorm(8, **double), attention, order),
        feedforward=ResidualBranch(LayerNorm(8, **double), feedforward, order))
    for parameter in ours.parameters():
        parameter.data += 0.3 * rng.standard_normal(parameter.data.shape)
    theirs = torch.nn.TransformerEncoderLayer(
        8, 2, 12, 0.0, activation, batch_first=True, norm_first=norm_first, dtype=torch.float64)
    copy_attention(ours.attention, theirs.self_attn)
    linears = [(ours.feedforward.hidden, theirs.linear1), (ours.feedforward.output, theirs.linear2)]
    norms = [(ours.norm1, theirs.norm1), (ours.norm2, theirs.norm2)]
    for mine, other in linears:
        copy_linear(mine, other)
    for mine, other in norms:
        copy_norm(mine, other)

    x, dy = rng.standard_normal((2, 2, 5, 8))
    y, saved = ours.forward(x, pattern=CAUSAL)
    x_tensor = tensor(x)
    expected = theirs(x_tensor, src_mask=torch.tensor(~CAUSAL.dense(5, 5)))
    expected.backward(torch.tensor(dy))
    np.testing.assert_allclose(y, expected.detach().numpy(), rtol=1e-12, atol=1e-12)
    close(ours.backward(dy, saved), x_tensor.grad)
    for mine, other in linears:
        close(mine.weight.grad, other.weight.grad.T)
        close(mine.bias.grad, other.bias.grad)
    for mine, other in norms:
        close(mine.weight.grad, other.weight.grad)
        close(mine.bias.grad, other.bias.grad)
    joint = np.concatenate([p.weight.grad.T for p in projections(ours.attention)])
    close(joint, theirs.self_attn.in_proj_weight.grad)
