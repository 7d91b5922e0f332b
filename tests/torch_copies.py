"""Our weights in PyTorch's modules, and PyTorch's gradients beside ours: for both files of the second witness."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")


def tensor(x):
    return torch.tensor(x, requires_grad=x.dtype.kind == "f")


def copy_linear(ours, theirs):
    theirs.weight.data, theirs.bias.data = torch.tensor(ours.weight.data.T.copy()), torch.tensor(ours.bias.data)


def copy_norm(ours, theirs):
    theirs.weight.data, theirs.bias.data = torch.tensor(ours.gain.data), torch.tensor(ours.shift.data)


def projections(attention):
    return [attention.query, attention.key, attention.value]


def copy_attention(ours, theirs):
    """Into a MultiheadAttention, whose three projections are one matrix unless keys have a width of their own."""
    if theirs.in_proj_weight is not None:
        theirs.in_proj_weight.data = torch.tensor(np.concatenate([p.weight.data.T for p in projections(ours)]))
    else:
        for name, p in zip("qkv", projections(ours)):
            getattr(theirs, f"{name}_proj_weight").data = torch.tensor(p.weight.data.T.copy())
    theirs.in_proj_bias.data = torch.tensor(np.concatenate([p.bias.data for p in projections(ours)]))
    copy_linear(ours.output, theirs.out_proj)
