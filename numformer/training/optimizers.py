"""Optimizers: how a gradient becomes a step. Each keeps its moments by the parameter's name."""

import numpy as np

from numformer.backend import adam_step, run_by_shares, sum_of_squares
from numformer.checks import check_number


class Optimizer:
    """What all optimizers share: the parameters, and moments (arrays like each parameter) that a checkpoint keeps.

    Each has an ``update(data, grad, learning_rate, shorten, *moments)`` of its own, which moves one parameter in place.

    Parameters
    ----------
    model : Layer
        All its parameters are stepped; a tied one once.
    """

    moments = ()                                                      # names of the arrays kept for a parameter

    def __init__(self, model):
        self.parameters = dict(model.named_parameters())
        self.steps = 0
        self.state = {name: {moment: np.zeros_like(parameter.data) for moment in self.moments_of(name)}
                      for name, parameter in self.parameters.items()}

    def moments_of(self, name):
        """Names of the arrays that are kept for a parameter."""
        return self.moments

    def step(self, learning_rate, shorten=1.0):
        """Move every parameter by its gradient.

        Parameters
        ----------
        learning_rate : float
        shorten : float
            By which all gradients are multiplied: what `clip_factor` says.
        """
        self.steps += 1

        def move(name):
            parameter, moments = self.parameters[name], self.state[name]
            self.update(parameter.data, parameter.grad, float(learning_rate), float(shorten), *moments.values())

        run_by_shares(move, self.parameters)

    def state_dict(self):
        """Copies of the moments, by ``moment.parameter``."""
        return {name: array.copy() for name, array in self._named()}

    def load_state_dict(self, arrays, steps):
        """Take over moments and the number of steps taken.

        Raises
        ------
        ValueError
            If names or shapes do not fit.
        """
        mine = dict(self._named())
        if mine.keys() != arrays.keys() or any(mine[name].shape != arrays[name].shape for name in mine):
            raise ValueError(f"{type(self).__name__}: the moments of another optimizer or model; "
                             f"{len(arrays)} came, {len(mine)} belong here.")
        for name, array in mine.items():
            array[...] = arrays[name]
        self.steps = steps

    def _named(self):
        return ((f"{moment}.{name}", array) for name, moments in self.state.items() for moment, array in moments.items())


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
    Polyak (1964); in this form Sutskever et al. (2013), "On the Importance of Initialization and Momentum", without its
    factor eta inside b.

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

    def update(self, data, grad, learning_rate, shorten, momentum):
        momentum *= self.momentum
        momentum += shorten * grad
        data -= learning_rate * momentum


class Adam(Optimizer):
    r"""Divide a running mean of the gradient by the root of a running mean of its square.

    .. math::

        m \leftarrow \beta_1 m + (1 - \beta_1) g, \qquad v \leftarrow \beta_2 v + (1 - \beta_2) g^2, \qquad
        \theta \leftarrow \theta - \eta\, \frac{m / (1 - \beta_1^t)}{\sqrt{v / (1 - \beta_2^t)} + \epsilon}

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
    >>> Adam(layer).step(learning_rate=0.25)                          # the first step is the learning rate, whatever the gradient
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

    def update(self, data, grad, learning_rate, shorten, mean, square, weight_decay=0.0):
        adam_step(data, grad, mean, square, learning_rate, self.steps, self.beta1, self.beta2, self.epsilon, weight_decay, shorten)


class AdamW(Adam):
    r"""Adam with weight decay of its own, beside the gradient instead of through it; on matrices alone.

    .. math:: \theta \leftarrow (1 - \eta \lambda)\, \theta, \qquad \text{then as Adam}

    The decay shrinks with the learning rate eta, as in the libraries; the paper multiplies it by the schedule alone.

    Parameters
    ----------
    model : Layer
    beta1, beta2, epsilon
        As in `Adam`.
    weight_decay : float
        lambda. Vectors (biases, gains) are not decayed: they do not multiply anything that another weight could undo.

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

    def update(self, data, grad, learning_rate, shorten, mean, square):
        super().update(data, grad, learning_rate, shorten, mean, square, self.weight_decay if data.ndim >= 2 else 0.0)


def global_norm(parameters):
    """The length of all gradients together, summed in float64.

    Examples
    --------
    >>> from numformer import Parameter
    >>> parameter = Parameter(np.zeros(2, np.float32)); parameter.grad[:] = 3, 4
    >>> global_norm([parameter])
    5.0
    """
    return sum(run_by_shares(lambda parameter: sum_of_squares(parameter.grad), parameters)) ** 0.5


def clip_factor(norm, max_norm):
    """By how much to shorten all gradients together, so that their length is at most `max_norm`. 0 clips nothing.

    References
    ----------
    Pascanu, Mikolov, Bengio (2013), "On the Difficulty of Training Recurrent Neural Networks", algorithm 1.

    Examples
    --------
    >>> clip_factor(5.0, 1.0), clip_factor(5.0, 7.0), clip_factor(5.0, 0)
    (0.2, 1.0, 1.0)
    """
    return max_norm / norm if 0 < max_norm < norm else 1.0
