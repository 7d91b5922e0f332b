"""One step of Adam, and the length of a gradient: what a step of training does to every parameter, in place."""

import numpy as np


def adam_step(data, grad, mean, square, learning_rate, steps, beta1=0.9, beta2=0.999, epsilon=1e-8, weight_decay=0.0, shorten=1.0):
    r"""Move a parameter by its gradient, divided by the root of a running mean of its square.

    .. math::

        \theta \leftarrow (1 - \eta \lambda)\, \theta, \qquad g = s\, \bar{\theta}, \qquad
        m \leftarrow \beta_1 m + (1 - \beta_1) g, \qquad v \leftarrow \beta_2 v + (1 - \beta_2) g^2, \qquad
        \theta \leftarrow \theta - \eta\, \frac{m / (1 - \beta_1^t)}{\sqrt{v / (1 - \beta_2^t)} + \epsilon}

    Parameters
    ----------
    data : ndarray, any shape
        theta; moved in place, as are the two running means.
    grad : ndarray, shape of `data`
    mean, square : ndarray, shape of `data`
        m and v.
    learning_rate : float
        eta.
    steps : int
        t, which counts from 1.
    beta1, beta2, epsilon : float
    weight_decay : float
        lambda.
    shorten : float
        s, by which all gradients are multiplied: 1 unless they are clipped.

    References
    ----------
    Kingma and Ba (2015), "Adam", algorithm 1; the decay is that of Loshchilov and Hutter (2019), algorithm 2.

    Examples
    --------
    >>> data, mean, square = np.array([1.0]), np.zeros(1), np.zeros(1)
    >>> adam_step(data, np.array([2.0]), mean, square, 0.25, 1)       # the first step is the learning rate, whatever the gradient
    >>> data
    array([0.75])
    """
    if weight_decay:
        data *= 1 - learning_rate * weight_decay
    if shorten != 1:
        grad = grad * shorten
    mean *= beta1
    mean += (1 - beta1) * grad
    square *= beta2
    square += (1 - beta2) * (grad * grad)
    root = np.sqrt(square * (1 / (1 - beta2 ** steps)))
    root += epsilon
    data -= (learning_rate / (1 - beta1 ** steps)) * mean / root


def sum_of_squares(x):
    """The sum of the squares of all numbers, in float64.

    Examples
    --------
    >>> sum_of_squares(np.array([3, 4], np.float32))
    25.0
    """
    return float(np.square(x, dtype=np.float64).sum())
