"""The second witness for the encoder and for what the Vision Transformer adds: forward to 1e-12, gradients to 1e-11."""

import numpy as np
import pytest

from numformer.functional import AttentionPattern
from numformer.models import Encoder, EncoderConfig

torch = pytest.importorskip("torch")
from torch_copies import copy_attention, copy_linear, copy_norm, projections, tensor  # noqa: E402  (needs PyTorch)


def close(found, expected, tolerance=1e-11):
    expected = expected.detach().numpy()
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance * max(1e-300, float(np.abs(expected).max())))


def shaken(layer, rng):
    for parameter in layer.parameters():
        parameter.data += 0.3 * rng.standard_normal(parameter.data.shape)
    return layer


def copy_encoder(ours, theirs):
    """Into a TransformerEncoder; its last norm is `theirs.norm`."""
    for mine, other in zip(ours.blocks, theirs.layers, strict=True):
        copy_attention(mine.attention, other.self_attn)
        copy_linear(mine.feedforward.hidden, other.linear1)
        copy_linear(mine.feedforward.output, other.linear2)
        copy_norm(mine.norm1, other.norm1)
        copy_norm(mine.norm2, other.norm2)
    if theirs.norm is not None:
        copy_norm(ours.norm, theirs.norm)


def encoder_gradients_agree(ours, theirs):
    for mine, other in zip(ours.blocks, theirs.layers, strict=True):
        close(np.concatenate([p.weight.grad.T for p in projections(mine.attention)]), other.self_attn.in_proj_weight.grad)
        close(mine.attention.output.weight.grad.T, other.self_attn.out_proj.weight.grad)
        close(mine.feedforward.hidden.weight.grad.T, other.linear1.weight.grad)
        close(mine.feedforward.output.bias.grad, other.linear2.bias.grad)
        close(mine.norm1.gain.grad, other.norm1.weight.grad)
        close(mine.norm2.shift.grad, other.norm2.bias.grad)


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("norm_first, feedforward", [(False, "relu"), (True, "gelu")])
def test_encoder(norm_first, feedforward, rng):
    config = EncoderConfig(n_layers=2, n_heads=2, d_model=8, d_hidden=12, norm_first=norm_first, feedforward=feedforward, dtype="float64")
    ours = shaken(Encoder(config, rng), rng)
    layer = torch.nn.TransformerEncoderLayer(8, 2, 12, 0.0, feedforward, batch_first=True, norm_first=norm_first, dtype=torch.float64)
    theirs = torch.nn.TransformerEncoder(layer, 2, torch.nn.LayerNorm(8, dtype=torch.float64) if norm_first else None,
                                         enable_nested_tensor=False)
    copy_encoder(ours, theirs)
    x, dy = rng.standard_normal((2, 2, 5, 8))
    leaf = tensor(x)
    y, saved = ours.forward(x, AttentionPattern(lengths=[5, 3]))
    expected = theirs(leaf, src_key_padding_mask=torch.tensor(np.arange(5) >= np.array([[5], [3]])))
    close(y, expected, 1e-12)
    expected.backward(torch.tensor(dy))
    close(ours.backward(dy, saved), leaf.grad)
    encoder_gradients_agree(ours, theirs)
