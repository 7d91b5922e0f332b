"""Recurrent layers and causal convolution equal PyTorch's with the same weights.

Forward to 1e-12, gradients to 1e-11.
"""

import numpy as np
import pytest

from numformer import functional as F
from numformer.layers import LSTM, Bidirectional, CausalConvolution

torch = pytest.importorskip("torch")
from torch_copies import close, random_layer, tensor  # noqa: E402  (needs PyTorch)
from torch_recurrent import THEIRS, copy_weights, gradients_agree, reordered  # noqa: E402


def theirs_state(kind, first):
    """PyTorch's first state, as leaves, from ours."""
    parts = [tensor(part[None].copy())
             for part in np.split(first, 2 if kind is LSTM else 1, axis=1)]
    return parts, tuple(parts) if kind is LSTM else parts[0]


@pytest.mark.parametrize("kind", THEIRS)
def test_sequences_with_an_initial_state_equal_torch(kind, rng):
    ours = random_layer(kind(3, 4, rng, dtype=float,
                             **({"whole_state": True} if kind is LSTM else {})), rng)
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
    # the gradient of the final state, memory and all
    dstates[:, -1] += dfinal
    dx, dfirst = ours.backward(dstates, saved)
    close(dx, leaf.grad)
    close(dfirst, torch.cat([part.grad[0] for part in parts], dim=1))
    gradients_agree(ours, theirs)


@pytest.mark.parametrize("kind", THEIRS)
def test_bidirectional_layers_on_a_padded_batch_equal_torch(kind, rng):
    """Packed sequences there: outputs and gradients at real positions. Padding gives 0 there."""
    front, back = (random_layer(kind(3, 4, rng, reverse=reverse, dtype=float), rng)
                   for reverse in (False, True))
    ours, lengths = Bidirectional(front, back), [5, 2, 4]
    theirs = THEIRS[kind][0](3, 4, batch_first=True, bidirectional=True, dtype=torch.float64)
    copy_weights(front, theirs)
    copy_weights(back, theirs, "_l0_reverse")
    x = rng.standard_normal((3, 5, 3))
    leaf = tensor(x)
    packed = torch.nn.utils.rnn.pack_padded_sequence(leaf, lengths, batch_first=True,
                                                     enforce_sorted=False)
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
def test_cells_equal_torch(name, order, rng):
    kind, n = getattr(torch.nn, name.upper() + "Cell"), len(order)
    parts = 2 if name == "lstm" else 1
    x, state, W, U, b = (rng.standard_normal(shape)
                         for shape in ((2, 3), (2, 4 * parts), (3, 4 * n), (4, 4 * n), 4 * n))
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
def test_causal_convolution_equals_torch(K, dilation, T, rng):
    """Theirs is (F, C, K) over (B, C, T), padded on the left by hand."""
    layer = random_layer(CausalConvolution(3, 5, K, rng, dilation=dilation, dtype=float), rng)
    x = rng.standard_normal((2, T, 3))
    leaf, weight, bias = tensor(x), tensor(layer.weight.data), tensor(layer.bias.data)
    padded = torch.nn.functional.pad(leaf.transpose(1, 2), (layer.reach, 0))
    expected = torch.nn.functional.conv1d(padded, weight.permute(2, 1, 0), bias,
                                          dilation=dilation).transpose(1, 2)
    y, saved = layer.forward(x)
    close(y, expected, 1e-12)
    dy = rng.standard_normal(y.shape)
    expected.backward(torch.tensor(dy))
    close(layer.backward(dy, saved), leaf.grad)
    close(layer.weight.grad, weight.grad)
    close(layer.bias.grad, bias.grad)
