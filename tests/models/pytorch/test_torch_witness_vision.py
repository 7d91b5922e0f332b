"""The second witness for the encoder and for what the Vision Transformer adds: forward to 1e-12,
gradients to 1e-11.
"""

import numpy as np
import pytest

from numformer.functional import AttentionPattern, BatchStatistics, batch_norm, batch_norm_backward
from numformer.layers import BatchNorm, PatchEmbedding, Pooling
from numformer.models import Encoder, EncoderConfig

torch = pytest.importorskip("torch")
from torch_copies import copy_attention, copy_linear, copy_norm, projections, tensor  # noqa: E402


def close(found, expected, tolerance=1e-11):
    expected = expected.detach().numpy()
    np.testing.assert_allclose(found, expected, rtol=tolerance,
                               atol=tolerance * max(1e-300, float(np.abs(expected).max())))


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
        close(np.concatenate([p.weight.grad.T for p in projections(mine.attention)]),
              other.self_attn.in_proj_weight.grad)
        close(mine.attention.output.weight.grad.T, other.self_attn.out_proj.weight.grad)
        close(mine.feedforward.hidden.weight.grad.T, other.linear1.weight.grad)
        close(mine.feedforward.output.bias.grad, other.linear2.bias.grad)
        close(mine.norm1.weight.grad, other.norm1.weight.grad)
        close(mine.norm2.bias.grad, other.norm2.bias.grad)


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("norm_first, feedforward", [(False, "relu"), (True, "gelu")])
def test_encoder(norm_first, feedforward, rng):
    config = EncoderConfig(n_layers=2, n_heads=2, d_model=8, d_hidden=12, norm_first=norm_first,
                           feedforward=feedforward, dtype="float64")
    ours = shaken(Encoder(config, rng), rng)
    layer = torch.nn.TransformerEncoderLayer(8, 2, 12, 0.0, feedforward, batch_first=True,
                                             norm_first=norm_first, dtype=torch.float64)
    theirs = torch.nn.TransformerEncoder(layer, 2, torch.nn.LayerNorm(8, dtype=torch.float64)
                                         if norm_first else None,
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


@pytest.mark.parametrize("bias", [True, False])
def test_batch_norm_and_its_statistics(bias, rng):
    ours = shaken(BatchNorm(5, bias, dtype=float), rng)
    theirs = torch.nn.BatchNorm1d(5, dtype=torch.float64)
    theirs.weight.data = torch.tensor(ours.weight.data)
    if bias:
        theirs.bias.data = torch.tensor(ours.bias.data)
    statistics = BatchStatistics(np.zeros(5), np.ones(5))             # PyTorch's at the start
    for _ in range(3):
        x, dy = rng.standard_normal((2, 4, 3, 5)) * 3 + 1
        leaf = tensor(x)
        y, saved = ours.forward(x)
        statistics = ours.updated(statistics, saved)
        # it has the width on the second axis
        expected = theirs(leaf.transpose(1, 2)).transpose(1, 2)
        close(y, expected, 1e-12)
        expected.backward(torch.tensor(dy))
        close(ours.backward(dy, saved), leaf.grad)
        close(statistics.mean, theirs.running_mean, 1e-12)
        close(statistics.variance, theirs.running_var, 1e-12)
    close(ours.weight.grad, theirs.weight.grad)
    if bias:
        close(ours.bias.grad, theirs.bias.grad)
    theirs.eval()
    y, saved = ours.forward(x, statistics=statistics)
    leaf = tensor(x)
    expected = theirs(leaf.transpose(1, 2)).transpose(1, 2)
    close(y, expected, 1e-12)
    expected.backward(torch.tensor(dy))
    close(ours.backward(dy, saved), leaf.grad)


def test_functional_batch_norm(rng):
    x, (weight, bias) = rng.standard_normal((4, 5)), rng.standard_normal((2, 5))
    dy = rng.standard_normal((4, 5))
    leaves = [tensor(array) for array in (x, weight, bias)]
    y, saved = batch_norm(x, weight, bias, 0.01)
    expected = torch.nn.functional.batch_norm(leaves[0], None, None, leaves[1], leaves[2],
                                              training=True, eps=0.01)
    close(y, expected, 1e-12)
    expected.backward(torch.tensor(dy))
    for found, leaf in zip(batch_norm_backward(dy, saved), leaves, strict=True):
        close(found, leaf.grad)


@pytest.mark.parametrize("form", ["flatten", "convolution"])
def test_patch_embedding_is_a_strided_convolution(form, rng):
    ours = shaken(PatchEmbedding(6, 3, 2, 5, rng, form, dtype=float), rng)
    images, dy = rng.standard_normal((2, 6, 6, 2)), rng.standard_normal((2, 4, 5))
    leaf, weight, bias = tensor(images), tensor(ours.weight.data), tensor(ours.bias.data)
    y, saved = ours.forward(images)
    nchw, oihw = leaf.permute(0, 3, 1, 2), weight.permute(3, 2, 0, 1)
    expected = torch.nn.functional.conv2d(nchw, oihw, bias, stride=3)
    expected = expected.flatten(2).transpose(1, 2)
    close(y, expected, 1e-12)
    expected.backward(torch.tensor(dy))
    close(ours.backward(dy, saved), leaf.grad)
    close(ours.weight.grad, weight.grad)
    close(ours.bias.grad, bias.grad)


def test_pooling(rng):
    x, dy = rng.standard_normal((2, 5, 3)), rng.standard_normal((2, 3))
    mask = np.arange(5) < np.array([[5], [2]])
    real = torch.tensor(mask)[..., None]
    for kind, theirs in (("mean", lambda z: (z * real).sum(1) / real.sum(1)),
                         ("class", lambda z: z[:, 0]),
                         ("max", lambda z: z.masked_fill(~real, -torch.inf).amax(1))):
        leaf = tensor(x)
        y, saved = Pooling(kind).forward(x, mask=mask)
        expected = theirs(leaf)
        close(y, expected, 1e-12)
        expected.backward(torch.tensor(dy))
        close(Pooling(kind).backward(dy, saved), leaf.grad)
