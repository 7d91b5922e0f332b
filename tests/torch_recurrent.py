"""Weights and gradients of recurrent layers in the order of PyTorch's."""

import numpy as np
import pytest

from numformer.layers import GRU, LSTM, RNN

torch = pytest.importorskip("torch")
from torch_copies import close  # noqa: E402  (needs PyTorch)

# PyTorch's class, and its order of our blocks
THEIRS = {RNN: (torch.nn.RNN, [0]), LSTM: (torch.nn.LSTM, [0, 1, 3, 2]),
          GRU: (torch.nn.GRU, [0, 1, 2])}


def reordered(weight, order):
    """Rows of PyTorch's blocks from columns of ours; the same again turns LSTM's back."""
    blocks = np.split(weight, len(order), axis=-1)
    return np.concatenate([blocks[k] for k in order], axis=-1).T.copy()


def copy_weights(ours, theirs, suffix="_l0"):
    order, width = THEIRS[type(ours)][1], ours.width
    recurrent_bias = np.zeros(len(order) * width)
    if getattr(ours, "recurrent_bias", None) is not None:
        recurrent_bias[-width:] = ours.recurrent_bias.data
    for name, value in (("weight_ih", reordered(ours.input.weight.data, order)),
                        ("weight_hh", reordered(ours.recurrent_weight.data, order)),
                        ("bias_ih", reordered(ours.input.bias.data, order)),
                        ("bias_hh", recurrent_bias)):
        getattr(theirs, name + suffix).data = torch.tensor(value)


def gradients_agree(ours, theirs, suffix="_l0"):
    order = THEIRS[type(ours)][1]
    for name, found in (("weight_ih", ours.input.weight.grad),
                        ("weight_hh", ours.recurrent_weight.grad),
                        ("bias_ih", ours.input.bias.grad)):
        close(reordered(found, order), getattr(theirs, name + suffix).grad)
    if getattr(ours, "recurrent_bias", None) is not None:
        close(ours.recurrent_bias.grad, getattr(theirs, "bias_hh" + suffix).grad[-ours.width:])
