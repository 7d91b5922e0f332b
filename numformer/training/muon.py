"""Muon: orthogonalized momentum for the hidden matrices of a model, AdamW for everything else."""

import math

from numformer.checks import check_number, check_whole
from numformer.functional.orthogonal import orthogonalize
from numformer.layers import Linear
from numformer.training.optimizers import AdamW


class Muon(AdamW):
    r"""Step each hidden matrix by one whose singular values are all about 1.

    So a matrix moves equally fast in all directions, also in those in which gradients are small.

    .. math::

        b \leftarrow \mu b + g, \qquad
        \theta \leftarrow (1 - \eta r \lambda)\, \theta
        - \eta r \sqrt{\max(1, F / C)}\; \mathrm{orthogonalize}(g + \mu b)

    Hidden matrices are the weights (C, F) of the `Linear` layers. Tables (embeddings, positions,
    the LM head), weights of norms and biases move as in `AdamW`. Heads of classes and boxes are
    `Linear` layers, so they move as hidden matrices do, whereas Jordan et al. leave all heads to
    AdamW.

    Parameters
    ----------
    model : Layer
    beta1, beta2, epsilon, weight_decay
        As in `AdamW`; the decay is lambda.
    momentum : float in [0, 1)
        mu.
    ratio : float
        r: the learning rate of hidden matrices, as a multiple of that of the others.
    iterations : int
        Of `orthogonalize`.

    References
    ----------
    Jordan et al. (2024), "Muon: An optimizer for hidden layers in neural networks", with Nesterov
    momentum.

    Examples
    --------
    >>> import numpy as np
    >>> layer = Linear(2, 2, np.random.default_rng(0))
    >>> before = layer.weight.data.copy()
    >>> layer.weight.grad[:] = [[5.0, 0.0], [0.0, 0.2]]
    >>> Muon(layer, weight_decay=0.0, ratio=1.0).step(learning_rate=1.0)
    >>> (before - layer.weight.data).round(1)                         # similar steps for 5 and 0.2
    array([[0.7, 0. ],
           [0. , 1. ]], dtype=float32)
    """

    def __init__(self, model, beta1=0.9, beta2=0.999, epsilon=1e-8, weight_decay=0.01,
                 momentum=0.95, ratio=10.0, iterations=5):
        check_number("Muon", "momentum", momentum, least=0, below=1)
        check_number("Muon", "ratio", ratio, least=0)
        check_whole("Muon", "iterations", iterations)
        weights = {id(layer.weight) for _, layer in model.named_layers()
                   if isinstance(layer, Linear)}
        self.hidden = {name for name, p in model.named_parameters() if id(p) in weights}
        super().__init__(model, beta1, beta2, epsilon, weight_decay)
        self.momentum, self.ratio, self.iterations = momentum, ratio, iterations

    def group_of(self, name):
        return "hidden" if name in self.hidden else super().group_of(name)

    def moments_of(self, group):
        return ("momentum",) if group == "hidden" else self.moments

    def parts_of(self, group, flat):
        if group != "hidden":
            return super().parts_of(group, flat)
        found, start = [], 0
        for parameter in flat.parameters.values():                    # each matrix is a chunk
            found.append((start, start + parameter.data.size, parameter.data.shape))
            start += parameter.data.size
        return found

    def update(self, group, data, grad, learning_rate, grad_scale, *moments):
        if group == "hidden":
            self._update_hidden(data, grad, learning_rate, grad_scale, *moments)
        else:
            super().update(group, data, grad, learning_rate, grad_scale, *moments)

    def _update_hidden(self, data, grad, learning_rate, grad_scale, momentum):
        # b <- mu b + g
        momentum *= self.momentum
        momentum += grad_scale * grad

        # theta <- (1 - eta r lambda) theta - eta r sqrt(max(1, F / C)) orthogonalize(g + mu b)
        C, F = data.shape
        rate = learning_rate * self.ratio
        direction = orthogonalize(grad_scale * grad + self.momentum * momentum, self.iterations)
        data *= 1 - rate * self.weight_decay
        data -= rate * math.sqrt(max(1, F / C)) * direction
