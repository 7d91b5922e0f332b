"""Optimizers: how a gradient becomes a step.

Read `minimal.adamw` first: the same rule for a list of matrices. Here a class is a rule, `update`,
for a part of the parameters at a time; which parts there are, and what a checkpoint keeps of them,
is in `numformer.training.optimizer`.
"""

from numformer.backend import adam_step
from numformer.checks import check_number
from numformer.functional.adam import check_epsilon
from numformer.training.optimizer import Optimizer


class AdamW(Optimizer):
    r"""Steps of similar size for numbers with small and large gradients, and decay of the weights.

    For the gradient g of step t = 1, 2, ..., the weight decay comes first, for matrices alone. It
    is decoupled: it acts on the weights, and is no part of the gradient.

    .. math:: \theta \leftarrow \theta - \eta \lambda\, \theta

    Then the two moments, running means of the gradient and of its square. They begin at 0:

    .. math:: m \leftarrow \beta_1 m + (1 - \beta_1)\, g, \qquad
              v \leftarrow \beta_2 v + (1 - \beta_2)\, g^2

    So they are too small at first: with the same g in each step, m is (1 - beta_1^t) g after t
    steps, and v likewise. These factors are divided out:

    .. math:: \hat m = \frac{m}{1 - \beta_1^t}, \qquad \hat v = \frac{v}{1 - \beta_2^t}

    The step is about eta where gradients agree with each other, and smaller where they do not:

    .. math:: \theta \leftarrow \theta - \eta\, \frac{\hat m}{\sqrt{\hat v} + \epsilon}

    The decay is eta times lambda, as in PyTorch. In the paper it does not depend on the size of
    eta, only on the schedule's factor, which lowers both in the course of training.

    Parameters
    ----------
    model : Layer
    beta1, beta2 : float in [0, 1)
    epsilon : float
    weight_decay : float
        lambda, for matrices and tables. Vectors (biases, weights of norms) do not decay.

    See Also
    --------
    numformer.functional.adam_step : These equations, line by line; the one of
        `numformer.backend`, which runs here, may be its compiled version.

    References
    ----------
    Loshchilov and Hutter (2019), "Decoupled Weight Decay Regularization", algorithm 2.

    Examples
    --------
    >>> import numpy as np
    >>> from numformer.layers import Linear
    >>> layer = Linear(1, 1, np.random.default_rng(0))
    >>> layer.weight.data[:] = layer.bias.data[:] = 1
    >>> AdamW(layer, weight_decay=0.5).step(learning_rate=0.5)        # no gradient: decay alone
    >>> layer.weight.data, layer.bias.data
    (array([[0.75]], dtype=float32), array([1.], dtype=float32))
    """

    moments = ("mean", "square")                                      # m and v

    def __init__(self, model, beta1=0.9, beta2=0.999, epsilon=1e-8, weight_decay=0.01):
        owner = type(self).__name__
        check_number(owner, "beta1", beta1, least=0, below=1)
        check_number(owner, "beta2", beta2, least=0, below=1)
        for _, parameter in model.named_parameters():
            check_epsilon(owner, epsilon, parameter.data.dtype)
        check_number(owner, "weight_decay", weight_decay, least=0)
        super().__init__(model)
        self.beta1, self.beta2, self.epsilon = beta1, beta2, epsilon
        self.weight_decay = weight_decay

    def group_of(self, name):
        return "matrices" if self.parameters[name].data.ndim >= 2 else "vectors"

    def update(self, group, data, grad, learning_rate, grad_scale, mean, square):
        decay = self.weight_decay if group == "matrices" else 0.0
        adam_step(data, grad, mean, square, learning_rate, self.steps,
                  self.beta1, self.beta2, self.epsilon, decay, grad_scale)


class Adam(AdamW):
    r"""`AdamW` without weight decay: the original.

    Parameters
    ----------
    model : Layer
    beta1, beta2, epsilon
        As in `AdamW`.

    References
    ----------
    Kingma and Ba (2015), "Adam", algorithm 1.

    Examples
    --------
    >>> import numpy as np
    >>> from numformer.layers import Linear
    >>> layer = Linear(1, 1, np.random.default_rng(0), bias=False)
    >>> layer.weight.data[:], layer.weight.grad[:] = 1, 2
    >>> Adam(layer).step(learning_rate=0.25)                          # a first step has size 0.25
    >>> layer.weight.data
    array([[0.75]], dtype=float32)
    """

    def __init__(self, model, beta1=0.9, beta2=0.999, epsilon=1e-8):
        super().__init__(model, beta1, beta2, epsilon, weight_decay=0.0)

    def group_of(self, name):
        return "all"


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
    >>> import numpy as np
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
