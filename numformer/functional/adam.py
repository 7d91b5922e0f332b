"""One step of AdamW, in place."""

import numpy as np

from numformer.checks import check_number


def adam_step(data, grad, mean, square, learning_rate, steps, beta1=0.9, beta2=0.999, epsilon=1e-8,
              weight_decay=0.0, grad_scale=1.0):
    r"""Move a parameter against its gradient, divided by the root of a running mean of its square.

    .. math::

        \theta \leftarrow (1 - \eta \lambda)\, \theta, \qquad g = s\, \nabla_\theta L, \qquad
        m \leftarrow \beta_1 m + (1 - \beta_1) g, \qquad v \leftarrow \beta_2 v + (1 - \beta_2) g^2

    .. math::

        \theta \leftarrow \theta
            - \eta\, \frac{m / (1 - \beta_1^t)}{\sqrt{v / (1 - \beta_2^t)} + \epsilon}

    The division makes the size of a step independent of the size of gradients: a number whose
    gradient keeps its sign moves by about eta a step, and one whose gradient changes its sign by
    less. m and v begin at 0, so the means of the first steps are too small; the two powers of beta
    correct that.

    Parameters
    ----------
    data : ndarray, any shape
        theta; updated in place, as are the two running means.
    grad : ndarray, shape of `data`
        The gradient of the loss L.
    mean, square : ndarray, shape of `data`
        m and v, the running means of the gradient and of its square; zeros before the first step.
    learning_rate : float
        eta.
    steps : int
        t, which counts from 1.
    beta1, beta2 : float
        How much of a running mean is kept at a step.
    epsilon : float
        Keeps the root from being 0: at least 1.1e-19 in float32, see `check_epsilon`; or 0, with
        which numbers that have not had a gradient, v = 0, do not move.
    weight_decay : float
        lambda.
    grad_scale : float
        s, which multiplies all gradients: `clip_factor` where their norm is clipped, or else 1.

    Raises
    ------
    ValueError
        If epsilon is not in that range.

    References
    ----------
    Kingma and Ba (2015), "Adam", algorithm 1; the decay is that of Loshchilov and Hutter (2019),
    "Decoupled Weight Decay Regularization", algorithm 2.

    Examples
    --------
    The first step has the size of the learning rate for any gradient much larger than epsilon:

    >>> data, mean, square = np.array([1.0]), np.zeros(1), np.zeros(1)
    >>> adam_step(data, np.array([2.0]), mean, square, 0.25, 1)
    >>> data
    array([0.75])
    """
    if data.dtype in EPSILONS:
        check_epsilon("adam_step", epsilon, data.dtype)

    # theta <- (1 - eta lambda) theta: not through the gradient, as the root would divide it, too
    if weight_decay:
        data *= 1 - learning_rate * weight_decay

    # g = s * gradient, clipped
    if grad_scale != 1:
        grad = grad * grad_scale

    # m <- beta1 m + (1 - beta1) g, and v in the same way of g^2
    mean *= beta1
    mean += (1 - beta1) * grad
    square *= beta2
    square += (1 - beta2) * (grad * grad)

    # sqrt(v / (1 - beta2^t)) + epsilon
    root = np.sqrt(square * (1 / (1 - beta2 ** steps)))
    root += epsilon

    # theta <- theta - eta (m / (1 - beta1^t)) / root
    change = (learning_rate / (1 - beta1 ** steps)) * mean
    data -= np.divide(change, root, out=np.zeros_like(change), where=root != 0)     # 0 / 0: stays


# The range of epsilon: the roots of the smallest and the largest normal number. The square of a
# gradient below the first underflows to 0, and the gradient would be divided by epsilon alone
EPSILONS = {np.dtype(name): (float(np.finfo(name).tiny) ** 0.5, float(np.finfo(name).max) ** 0.5)
            for name in ("float32", "float64")}


def check_epsilon(owner, epsilon, dtype):
    """Check the epsilon of `adam_step` for parameters of a dtype.

    Examples
    --------
    >>> check_epsilon("demo", 1e-30, np.float32)
    Traceback (most recent call last):
    ValueError: demo: epsilon=1e-30 must be 0, or 1.08e-19 to 1.84e+19 for float32.
    """
    smallest, largest = EPSILONS.get(np.dtype(dtype), EPSILONS[np.dtype("float64")])
    if isinstance(epsilon, float) and smallest <= epsilon <= largest:
        return                                        # as a rule: called in each step, it is short
    check_number(owner, "epsilon", epsilon, least=0)
    if epsilon and not smallest <= epsilon <= largest:
        raise ValueError(f"{owner}: epsilon={epsilon} must be 0, or {smallest:.3g} to "
                         f"{largest:.3g} for {np.dtype(dtype)}.")
