"""Recurrent layers equal PyTorch's with the same weights.

Forward to 1e-12, gradients to 1e-11.
"""

import numpy as np
import pytest

from numformer.layers import LSTM, Bidirectional

torch = pytest.importorskip("torch")
from torch_copies import close, random_layer, tensor  # noqa: E402  (needs PyTorch)
from torch_recurrent import THEIRS, copy_weights, gradients_agree  # noqa: E402


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
