"""Our weights in PyTorch's modules, and PyTorch's gradients compared with ours."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")


def tensor(x):
    return torch.tensor(x, requires_grad=x.dtype.kind == "f")


def copy_linear(ours, theirs):
    theirs.weight.data = torch.tensor(ours.weight.data.T.copy())
    copy_bias(ours, theirs)


def copy_norm(ours, theirs):
    theirs.weight.data = torch.tensor(ours.weight.data)
    copy_bias(ours, theirs)


def copy_bias(ours, theirs):
    """Both have one, or neither."""
    assert (ours.bias is None) == (theirs.bias is None)
    if ours.bias is not None:
        theirs.bias.data = torch.tensor(ours.bias.data)


def projections(attention):
    return [attention.query, attention.key, attention.value]


def copy_attention(ours, theirs):
    """Into a MultiheadAttention, whose three projections are one matrix unless keys have another
    width."""
    if theirs.in_proj_weight is not None:
        joint = np.concatenate([p.weight.data.T for p in projections(ours)])
        theirs.in_proj_weight.data = torch.tensor(joint)
    else:
        for name, p in zip("qkv", projections(ours)):
            getattr(theirs, f"{name}_proj_weight").data = torch.tensor(p.weight.data.T.copy())
    joint = np.concatenate([p.bias.data for p in projections(ours)])
    theirs.in_proj_bias.data = torch.tensor(joint)
    copy_linear(ours.output, theirs.out_proj)


def random_layer(layer, rng):
    for parameter in layer.parameters():
        parameter.data += 0.3 * rng.standard_normal(parameter.data.shape)
    return layer


def tensors(layer):
    """The layer's parameters as leaves of PyTorch, by name."""
    return {name: tensor(parameter.data) for name, parameter in layer.named_parameters()}


def close(found, expected, tolerance=1e-11):
    expected = expected.detach().numpy()
    largest = max(1e-300, float(np.abs(expected).max()))
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance * largest)


def agree(layer, inputs, theirs, rng):
    """`theirs(p, *tensors)` is the same function, of the parameters p and the inputs."""
    p = tensors(layer)
    leaves = [tensor(x) for x in inputs]
    y, saved = layer.forward(*inputs)
    expected = theirs(p, *leaves)
    close(y, expected, 1e-12)
    dy = rng.standard_normal(y.shape)
    gradients = layer.backward(dy, saved)
    expected.backward(torch.tensor(dy))
    floats = [leaf for leaf in leaves if leaf.requires_grad]
    for gradient, leaf in zip(gradients if isinstance(gradients, tuple) else (gradients,), floats):
        close(gradient, leaf.grad)
    largest = max(float(t.grad.abs().max()) for t in p.values()) if p else 0
    for name, parameter in layer.named_parameters():
        np.testing.assert_allclose(parameter.grad, p[name].grad.numpy(), rtol=1e-11,
                                   atol=1e-12 * largest, err_msg=name)
