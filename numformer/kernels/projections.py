"""Several linear maps of the same vectors: BLAS adds up the gradients of x in one array."""

from numformer.kernels.linear import MULTIPLY, linear, new_gradients
from numformer.kernels.runtime.shapes import rows_of, rows_or_columns
from numformer.kernels.runtime.workspace import new_like


def projections(x, *maps):
    """The compiled version of `numformer.functional.projections`."""
    ys, saved = zip(*(linear(x, weight, bias) for weight, bias in zip(maps[::2], maps[1::2])))
    return ys, saved


def projections_backward(dys, saved):
    """The compiled version of `numformer.functional.projections_backward`."""
    _, weights, biased = zip(*saved)
    dmaps = new_gradients(weights, biased, dys[0].dtype)
    return projections_backward_accumulate(dys, saved, *dmaps), *dmaps


def projections_backward_accumulate(dys, saved, *gradients):
    """`projections_backward` that adds to gradients in place; it returns dx."""
    vectors, real = saved[0][0], dys[0].dtype                                   # (N, C)
    dx = new_like(vectors)
    maps = zip(dys, saved, gradients[::2], gradients[1::2], strict=True)
    for k, (dy, (_, weight, _), weight_grad, bias_grad) in enumerate(maps):
        dvectors = rows_of(dy)                                                  # (N, F_k)
        MULTIPLY[real](dvectors, rows_or_columns(weight).T, dx, k > 0)
        MULTIPLY[real](vectors.T, dvectors, weight_grad, True)
        if bias_grad is not None:
            bias_grad += dvectors.sum(axis=0)
    return dx.reshape(*dys[0].shape[:-1], vectors.shape[1])
