"""Optimizers: how a gradient becomes a step. Each keeps its moments by the parameter's name.

Read `minimal.adamw` first, or `functional.adam_step`, which has the rule with every option.
"""

from typing import NamedTuple

import numpy as np

from numformer.backend import adam_step, run_by_shares
from numformer.checks import check_number
from numformer.flat_parameters import FlatParameters, cuts
from numformer.underflow import underflow_is_zero


class Chunk(NamedTuple):
    """A part of the vectors of a group, which moves by itself."""

    group: str
    vector: int                                                       # its index in `flat`
    start: int
    stop: int
    shape: tuple                                                      # in which `update` gets it

    def of(self, vector, offset=0):
        """The view of a vector (N,) that begins at number `offset` of the whole one."""
        return vector[self.start - offset:self.stop - offset].reshape(self.shape)


def bounds_of(chunks, n_vectors):
    """(start, stop) of some neighbouring chunks in each vector; (0, 0) where there are none."""
    found = []
    for k in range(n_vectors):
        own = [chunk for chunk in chunks if chunk.vector == k]
        found.append((own[0].start, own[-1].stop) if own else (0, 0))
    return found


class Optimizer:
    """What all optimizers share: the parameters, and their moments, which a checkpoint keeps.

    The parameters become views of a few long vectors, one for each group, and so do their moments.
    A subclass has an ``update(group, data, grad, learning_rate, grad_scale, *moments)``, which
    changes a chunk of these vectors in place.

    Parameters
    ----------
    model : Layer
        All its parameters take part; a tied one once.
    """

    moments = ()                                                      # their names

    def __init__(self, model):
        self.parameters = dict(model.named_parameters())
        self.steps = 0
        members = {}
        for name, parameter in self.parameters.items():
            members.setdefault((self.group_of(name), parameter.data.dtype), {})[name] = parameter
        self.flat = [FlatParameters(parameters) for parameters in members.values()]
        self.chunks = [Chunk(group, k, *part) for k, (group, _) in enumerate(members)
                       for part in self.parts_of(group, self.flat[k])]
        # For each of `flat`, its moments by name, (N,) each, and where they begin: see `keep`
        self.state = [{name: np.zeros_like(flat.data) for name in self.moments_of(group)}
                      for (group, _), flat in zip(members, self.flat)]
        self.begins = [0] * len(self.flat)
        self._bind()

    def group_of(self, name):
        """The group of a parameter: parameters of one group move by the same rule."""
        return "all"

    def moments_of(self, group):
        """Names of the moments of a group's parameters."""
        return self.moments

    def parts_of(self, group, flat):
        """(start, stop, shape) of the chunks of a group."""
        return [(start, stop, (stop - start,)) for start, stop in cuts(flat.data.size)]

    def keep(self, chunks):
        """Move only these chunks from now on, which are neighbours in each vector.

        Other moments are forgotten.

        Several processes share an optimizer in this way: each keeps the moments of its own chunks.
        """
        for k, (start, stop) in enumerate(bounds_of(chunks, len(self.flat))):
            first = self.begins[k]
            self.state[k] = {name: vector[start - first:stop - first].copy()
                             for name, vector in self.state[k].items()}
            self.begins[k] = start
        self.chunks = list(chunks)
        self._bind()

    def _bind(self):
        """Find the group and the arrays of each chunk, once: `update` gets them in every step."""
        self._bound = [(chunk.group, [
            chunk.of(self.flat[chunk.vector].data), chunk.of(self.flat[chunk.vector].grad),
            *(chunk.of(vector, self.begins[chunk.vector])
              for vector in self.state[chunk.vector].values())]) for chunk in self.chunks]

    @underflow_is_zero
    def step(self, learning_rate, grad_scale=1.0):
        """Move every parameter by its gradient.

        Parameters
        ----------
        learning_rate : float
        grad_scale : float
            Multiplies all gradients: the result of `clip_factor`.
        """
        self.steps += 1
        learning_rate, grad_scale = float(learning_rate), float(grad_scale)
        for flat in self.flat:
            flat.adopt()

        def move(bound):
            group, (data, grad, *moments) = bound
            self.update(group, data, grad, learning_rate, grad_scale, *moments)

        run_by_shares(move, self._bound)

    def state_dict(self, whole=lambda k, vector: vector):
        """Copies of the moments, by ``moment.parameter``.

        Parameters
        ----------
        whole : callable
            The whole vector, or None where it is not wanted, for one of vector k that is kept in
            part.
        """
        found = {}
        for k, (flat, moments) in enumerate(zip(self.flat, self.state)):
            for moment, vector in moments.items():
                vector = whole(k, vector)
                if vector is not None:
                    found |= {f"{moment}.{name}": view.copy()
                              for name, view in flat.views(vector).items()}
        return found

    def load_state_dict(self, arrays, steps):
        """Load moments and the number of steps taken.

        Raises
        ------
        ValueError
            If names or shapes do not fit.
        """
        mine = {f"{moment}.{name}": parameter.data.shape
                for flat, moments in zip(self.flat, self.state) for moment in moments
                for name, parameter in flat.parameters.items()}
        fits = mine.keys() == arrays.keys()
        if not fits or any(shape != arrays[name].shape for name, shape in mine.items()):
            raise ValueError(f"{type(self).__name__}: the moments of another optimizer or model; "
                             f"{len(arrays)} came, {len(mine)} belong here.")
        for flat, moments, first in zip(self.flat, self.state, self.begins):
            for moment, vector in moments.items():
                whole = np.empty_like(flat.data)
                for name, view in flat.views(whole).items():
                    view[...] = arrays[f"{moment}.{name}"]
                vector[...] = whole[first:first + len(vector)]
        self.steps = steps


class SGD(Optimizer):
    r"""Stochastic gradient descent with momentum.

    .. math:: b \leftarrow \mu b + g, \qquad \theta \leftarrow \theta - \eta b

    Parameters
    ----------
    model : Layer
    momentum : float in [0, 1)
        mu.

    References
    ----------
    Polyak (1964); in this form Sutskever et al. (2013), "On the Importance of Initialization and
    Momentum", without its factor eta inside b.

    Examples
    --------
    >>> from numformer.layers import Linear
    >>> layer = Linear(1, 1, np.random.default_rng(0), bias=False)
    >>> layer.weight.data[:], layer.weight.grad[:] = 1, 2
    >>> SGD(layer).step(learning_rate=0.25)
    >>> layer.weight.data
    array([[0.5]], dtype=float32)
    """

    moments = ("momentum",)

    def __init__(self, model, momentum=0.9):
        check_number("SGD", "momentum", momentum, least=0, below=1)
        super().__init__(model)
        self.momentum = momentum

    def update(self, group, data, grad, learning_rate, grad_scale, momentum):
        momentum *= self.momentum
        momentum += grad_scale * grad
        data -= learning_rate * momentum


class Adam(Optimizer):
    r"""Divide a running mean of the gradient by the root of a running mean of its square.

    .. math::

        m \leftarrow \beta_1 m + (1 - \beta_1) g, \qquad v \leftarrow \beta_2 v + (1 - \beta_2) g^2,
        \qquad \theta \leftarrow
        \theta - \eta\, \frac{m / (1 - \beta_1^t)}{\sqrt{v / (1 - \beta_2^t)} + \epsilon}

    Parameters
    ----------
    model : Layer
    beta1, beta2 : float in [0, 1)
    epsilon : float

    References
    ----------
    Kingma and Ba (2015), "Adam", algorithm 1.

    Examples
    --------
    >>> from numformer.layers import Linear
    >>> layer = Linear(1, 1, np.random.default_rng(0), bias=False)
    >>> layer.weight.data[:], layer.weight.grad[:] = 1, 2
    >>> Adam(layer).step(learning_rate=0.25)                          # a first step has size 0.25
    >>> layer.weight.data
    array([[0.75]], dtype=float32)
    """

    moments = ("mean", "square")

    def __init__(self, model, beta1=0.9, beta2=0.999, epsilon=1e-8):
        check_number("Adam", "beta1", beta1, least=0, below=1)
        check_number("Adam", "beta2", beta2, least=0, below=1)
        check_number("Adam", "epsilon", epsilon, least=0)
        super().__init__(model)
        self.beta1, self.beta2, self.epsilon = beta1, beta2, epsilon

    def update(self, group, data, grad, learning_rate, grad_scale, mean, square, weight_decay=0.0):
        adam_step(data, grad, mean, square, learning_rate, self.steps,
                  self.beta1, self.beta2, self.epsilon, weight_decay, grad_scale)


class AdamW(Adam):
    r"""Adam with decoupled weight decay: it acts on the weights, not through the gradient.

    .. math:: \theta \leftarrow (1 - \eta \lambda)\, \theta, \qquad \text{then as Adam}

    The decay scales with the learning rate eta, as in PyTorch; the paper multiplies it by the
    schedule alone.

    Parameters
    ----------
    model : Layer
    beta1, beta2, epsilon
        As in `Adam`.
    weight_decay : float
        lambda, for matrices and tables. Vectors (biases, weights of norms) do not decay.

    References
    ----------
    Loshchilov and Hutter (2019), "Decoupled Weight Decay Regularization", algorithm 2.

    Examples
    --------
    >>> from numformer.layers import Linear
    >>> layer = Linear(1, 1, np.random.default_rng(0))
    >>> layer.weight.data[:] = layer.bias.data[:] = 1
    >>> AdamW(layer, weight_decay=0.5).step(learning_rate=0.5)        # no gradient: decay alone
    >>> layer.weight.data, layer.bias.data
    (array([[0.75]], dtype=float32), array([1.], dtype=float32))
    """

    def __init__(self, model, beta1=0.9, beta2=0.999, epsilon=1e-8, weight_decay=0.01):
        check_number("AdamW", "weight_decay", weight_decay, least=0)
        super().__init__(model, beta1, beta2, epsilon)
        self.weight_decay = weight_decay

    def group_of(self, name):
        return "matrices" if self.parameters[name].data.ndim >= 2 else "vectors"

    def update(self, group, data, grad, learning_rate, grad_scale, mean, square):
        decay = self.weight_decay if group == "matrices" else 0.0
        super().update(group, data, grad, learning_rate, grad_scale, mean, square, decay)
