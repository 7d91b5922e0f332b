"""The second witness for recurrent layers and causal convolution: PyTorch's with the same weights, forward to 1e-12, gradients to 1e-11."""

import numpy as np
import pytest

from numformer import functional as F
from numformer.layers import GRU, LSTM, RNN, Bidirectional, CausalConvolution

torch = pytest.importorskip("torch")
from torch_copies import tensor  # noqa: E402  (needs PyTorch)

THEIRS = {RNN: (torch.nn.RNN, [0]), LSTM: (torch.nn.LSTM, [0, 1, 3, 2]), GRU: (torch.nn.GRU, [0, 1, 2])}    # their order of our blocks


def random_layer(layer, rng):
    for parameter in layer.parameters():
        parameter.data += 0.3 * rng.standard_normal(parameter.data.shape)
    return layer


def close(found, expected, tolerance=1e-11):
    expected = expected.detach().numpy()
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance * max(1e-300, float(np.abs(expected).max())))


def reordered(weight, order):
    """Rows of PyTorch's blocks from columns of ours; the same again turns LSTM's back."""
    return np.concatenate([np.split(weight, len(order), axis=-1)[k] for k in order], axis=-1).T.copy()


def copy_weights(ours, theirs, suffix="_l0"):
    order, width = THEIRS[type(ours)][1], ours.width
    recurrent_bias = np.zeros(len(order) * width)
    if getattr(ours, "recurrent_bias", None) is not None:
        recurrent_bias[-width:] = ours.recurrent_bias.data
    for name, value in (("weight_ih", reordered(ours.input.weight.data, order)),
                        ("weight_hh", reordered(ours.recurrent_weight.data, order)),
                        ("bias_ih", reordered(ours.input.bias.data, order)), ("bias_hh", recurrent_bias)):
        getattr(theirs, name + suffix).data = torch.tensor(value)


def gradients_agree(ours, theirs, suffix="_l0"):
    order = THEIRS[type(ours)][1]
    for name, found in (("weight_ih", ours.input.weight.grad), ("weight_hh", ours.recurrent_weight.grad),
                        ("bias_ih", ours.input.bias.grad)):
        close(reordered(found, order), getattr(theirs, name + suffix).grad)
    if getattr(ours, "recurrent_bias", None) is not None:
        close(ours.recurrent_bias.grad, getattr(theirs, "bias_hh" + suffix).grad[-ours.width:])


def theirs_state(kind, first):
    """PyTorch's first state, as leaves, from ours."""
    parts = [tensor(part[None].copy()) for part in np.split(first, 2 if kind is LSTM else 1, axis=1)]
    return parts, tuple(parts) if kind is LSTM else parts[0]


@pytest.mark.parametrize("kind", THEIRS)
def test_sequences_with_a_first_state(kind, rng):
    ours = random_layer(kind(3, 4, rng, dtype=float, **({"whole_state": True} if kind is LSTM else {})), rng)
    theirs = THEIRS[kind][0](3, 4, batch_first=True, dtype=torch.float64)
    copy_weights(ours, theirs)
    x, first = rng.standard_normal((2, 6, 3)), rng.standard_normal((2, ours.state_width))
    leaf, (parts, state) = tensor(x), theirs_state(kind, first)
    expected, final = theirs(leaf, state)
    final = torch.cat(final, dim=2) if kind is LSTM else final
    y, saved = ours.forward(x, first)
    close(y[..., :4], expected, 1e-12)
    close(y[:, -1], final[0], 1e-12)

    dy, dfinal = rng.standard_normal((2, 6, 4)), rng.standard_normal(final.shape[1:])
    ((expected * torch.tensor(dy)).sum() + (final[0] * torch.tensor(dfinal)).sum()).backward()
    dstates = np.zeros_like(y)
    dstates[..., :4] = dy
    dstates[:, -1] += dfinal                                          # the gradient of the final state, memory and all
    dx, dfirst = ours.backward(dstates, saved)
    close(dx, leaf.grad)
    close(dfirst, torch.cat([part.grad[0] for part in parts], dim=1))
    gradients_agree(ours, theirs)


@pytest.mark.parametrize("kind", THEIRS)
def test_both_ways_over_a_padded_batch(kind, rng):
    """Their packed sequences: outputs at real positions, and what is left of the gradients. Padding comes out as 0 there."""
    front, back = (random_layer(kind(3, 4, rng, reverse=reverse, dtype=float), rng) for reverse in (False, True))
    ours, lengths = Bidirectional(front, back), [5, 2, 4]
    theirs = THEIRS[kind][0](3, 4, batch_first=True, bidirectional=True, dtype=torch.float64)
    copy_weights(front, theirs)
    copy_weights(back, theirs, "_l0_reverse")
    x = rng.standard_normal((3, 5, 3))
    leaf = tensor(x)
    packed = torch.nn.utils.rnn.pack_padded_sequence(leaf, lengths, batch_first=True, enforce_sorted=False)
    packed_y, final = theirs(packed)
    expected, _ = torch.nn.utils.rnn.pad_packed_sequence(packed_y, batch_first=True)
    y, saved = ours.forward(x, lengths)
    real = (np.arange(5) < np.array(lengths)[:, None])[..., None]
    close(y * real, expected, 1e-12)
    h = final[0] if kind is LSTM else final
    close(y[:, -1, :4], h[0], 1e-12)
    close(y[:, 0, 4:], h[1], 1e-12)

    dy = rng.standard_normal(y.shape) * real
    expected.backward(torch.tensor(dy))
    close(ours.backward(dy, saved), leaf.grad)
    gradients_agree(front, theirs)
    gradients_agree(back, theirs, "_l0_reverse")


@pytest.mark.parametrize("name, order", [("rnn", [0]), ("lstm", [0, 1, 3, 2]), ("gru", [0, 1, 2])])
def test_cells(name, order, rng):
    kind, n = getattr(torch.nn, name.upper() + "Cell"), len(order)
    parts = 2 if name == "lstm" else 1
    x, state, W, U, b = (rng.standard_normal(shape) for shape in ((2, 3), (2, 4 * parts), (3, 4 * n), (4, 4 * n), 4 * n))
    theirs = kind(3, 4, dtype=torch.float64)
    for parameter, value in ((theirs.weight_ih, W), (theirs.weight_hh, U), (theirs.bias_ih, b)):
        parameter.data = torch.tensor(reordered(value, order))
    theirs.bias_hh.data = torch.zeros(4 * n, dtype=torch.float64)
    leaf, first = tensor(x), tensor(state)
    out = theirs(leaf, tuple(first.split(4, dim=1)) if parts == 2 else first)
    expected = torch.cat(out, dim=1) if parts == 2 else out
    y, saved = getattr(F, f"{name}_cell")(x, state, W, U, b)
    close(y, expected, 1e-12)
    dy = rng.standard_normal(y.shape)
    expected.backward(torch.tensor(dy))
    dx, dstate, dW, dU, db = getattr(F, f"{name}_cell_backward")(dy, saved)
    close(dx, leaf.grad)
    close(dstate, first.grad)
    for found, parameter in ((dW, theirs.weight_ih), (dU, theirs.weight_hh), (db, theirs.bias_ih)):
        close(reordered(found, order), parameter.grad)


@pytest.mark.parametrize("K, dilation, T", [(1, 1, 4), (3, 1, 6), (2, 3, 7), (4, 2, 3)])
def test_causal_convolution(K, dilation, T, rng):
    """Theirs is (F, C, K) over (B, C, T), padded on the left by hand."""
    layer = random_layer(CausalConvolution(3, 5, K, rng, dilation=dilation, dtype=float), rng)
    x = rng.standard_normal((2, T, 3))
    leaf, weight, bias = tensor(x), tensor(layer.weight.data), tensor(layer.bias.data)
    padded = torch.nn.functional.pad(leaf.transpose(1, 2), (layer.reach, 0))
    expected = torch.nn.functional.conv1d(padded, weight.permute(2, 1, 0), bias, dilation=dilation).transpose(1, 2)
    y, saved = layer.forward(x)
    close(y, expected, 1e-12)
    dy = rng.standard_normal(y.shape)
    expected.backward(torch.tensor(dy))
    close(layer.backward(dy, saved), leaf.grad)
    close(layer.weight.grad, weight.grad)
    close(layer.bias.grad, bias.grad)
