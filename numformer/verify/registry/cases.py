"""Entries of the registry: a layer or model and how to build it."""

from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class Case:
    """A layer at one small configuration, and arrays for it.

    Parameters
    ----------
    name : str
    build : callable
        Takes (rng, dtype) and returns the layer.
    shapes : list of tuple
        Shapes of the arrays that are differentiated, in the order of `forward`'s arguments.
    options : callable
        Returns the keyword arguments of `forward`; called once for each call.
    ids : tuple of ndarray of int, optional
        Inputs without a gradient; they come first.
    wrong : list of (inputs, exception, words)
        Inputs that `forward` must refuse, and words that the message must contain.
    condition : float
        Condition number of the function: its factor on rounding errors. It multiplies the bound.
    batch : callable, optional
        For a model: makes the batch of its loss from the ids. The default is `next_tokens`.
    """

    name: str
    build: object
    shapes: list
    options: object = dict
    ids: tuple = ()
    wrong: list = field(default_factory=list)
    condition: float = 1.0
    batch: object = None

    def layer(self, dtype=np.float64, seed=0):
        """The layer, with every parameter moved away from the special values 0 and 1."""
        rng = np.random.default_rng(seed)
        layer = self.build(rng, dtype)
        for _, parameter in layer.named_parameters():
            parameter.data += 0.3 * rng.standard_normal(parameter.data.shape).astype(dtype)
        return layer

    def inputs(self, dtype=np.float64, seed=1):
        rng = np.random.default_rng(seed)
        return [*self.ids, *(rng.standard_normal(shape).astype(dtype) for shape in self.shapes)]


class LossOf:
    """A model's loss as a function of its ids, seen as a layer.

    Parameters
    ----------
    model : Layer
        With `loss` and `loss_backward`.
    batch : callable, optional
        As in `Case`.
    """

    def __init__(self, model, batch=None):
        self.model, self.batch = model, batch or next_tokens

    def forward(self, *ids, **options):
        return self.model.loss(self.batch(*ids), **options)

    def backward(self, dloss, saved):
        self.model.loss_backward(saved, float(dloss))

    def named_parameters(self):
        return self.model.named_parameters()


def next_tokens(*ids):
    """Inputs and targets of next-token prediction from the last array; other inputs come first."""
    *sources, tokens = ids
    return (*sources, tokens[:, :-1], tokens[:, 1:])
