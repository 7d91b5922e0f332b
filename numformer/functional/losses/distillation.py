"""Distillation: losses that make a small model, the student, imitate a large one, the teacher."""

import numpy as np

from numformer.checks import check_array, check_number
from numformer.functional.softmax import log_softmax


def distillation_loss(logits, teacher_logits, temperature=1.0):
    r"""The KL divergence from the teacher's softened predictions to the student's, times T².

    A temperature above 1 shows which wrong classes the teacher finds likely. The gradient of the
    divergence shrinks with 1 / T², so the factor keeps it at one size.

    .. math::

        L = \frac{T^2}{N} \sum_n \sum_v p_{nv} (\log p_{nv} - \log q_{nv}), \qquad
        p = \mathrm{softmax}(t / T), \quad q = \mathrm{softmax}(s / T)

    Parameters
    ----------
    logits, teacher_logits : ndarray, shape (..., V)
        s and t; the teacher is a constant, and is rounded to the precision of the student.
    temperature : float above 0
        T.

    Returns
    -------
    loss : scalar of the dtype of `logits`, nats
        A mean over all vectors of logits.
    saved : tuple
        For `distillation_loss_backward`.

    Raises
    ------
    ValueError, TypeError
        If the shapes differ, the arrays are empty or no floats, or the temperature is not above 0.

    References
    ----------
    Hinton, Vinyals and Dean (2015), "Distilling the Knowledge in a Neural Network", section 2;
    Jiao et al. (2020), "TinyBERT", eq. 10, there as a cross-entropy, which has the same gradient
    at T = 1.

    Examples
    --------
    >>> student, teacher = np.zeros((1, 2)), np.log([[0.9, 0.1]])
    >>> round(float(distillation_loss(student, teacher)[0]), 3)       # 0.9 ln 1.8 + 0.1 ln 0.2
    0.368
    >>> float(distillation_loss(teacher, teacher, temperature=3.0)[0])
    0.0
    """
    _check_both("distillation_loss", "logits", logits, teacher_logits, "(..., V)")
    check_number("distillation_loss", "temperature", temperature, above=0)
    T, N = float(temperature), logits.size // logits.shape[-1]
    log_p, _ = log_softmax(teacher_logits.astype(logits.real.dtype) / T)      # (..., V)
    log_q, _ = log_softmax(logits / T)
    p = np.exp(log_p)
    some = p != 0                                    # a class of p = 0 adds nothing
    difference = np.where(some, log_p, 0) - np.where(some, log_q, 0)  # (..., V)
    loss = T * T / N * (p * difference).sum()

    saved = (log_q, p, T, N)
    return loss, saved


def distillation_loss_backward(dloss, saved):
    r"""The gradient of `distillation_loss` with respect to the student: the teacher is constant.

    .. math:: \bar{s}_n = \frac{T}{N} (q_n - p_n)\, \bar{L}

    Parameters
    ----------
    dloss : float
        The gradient with respect to the loss; 1 where the loss is the end.

    Returns
    -------
    dlogits : ndarray, shape (..., V)
    """
    log_q, p, T, N = saved

    # loss = T * T / N * (p * (log_p - log_q)).sum(), with log_q = log_softmax(logits / T)
    return (np.exp(log_q) - p) * (float(dloss) * T / N)


def imitation_loss(x, teacher):
    r"""The mean squared difference between features of the student and of the teacher.

    Features are embeddings, hidden states after a trained projection to the teacher's width, or
    attention scores.

    .. math:: L = \frac{1}{n} \sum_i (x_i - t_i)^2

    Parameters
    ----------
    x, teacher : ndarray, shape (..., C)
        Of one shape, with n elements; the teacher is a constant, and is rounded to the precision of
        the student.

    Returns
    -------
    loss : scalar of the dtype of `x`
    saved : tuple
        For `imitation_loss_backward`.

    Raises
    ------
    ValueError, TypeError
        If the shapes differ, or the arrays are empty or no floats.

    References
    ----------
    Jiao et al. (2020), "TinyBERT", eq. 7 (attention), 8 (hidden states) and 9 (embeddings).

    Examples
    --------
    >>> float(imitation_loss(np.array([1.0, 2.0]), np.array([1.0, 5.0]))[0])
    4.5
    """
    _check_both("imitation_loss", "x", x, teacher, "(..., C)")
    difference = x - teacher.astype(x.real.dtype)
    loss = (difference * difference).sum() / x.size

    saved = (difference,)
    return loss, saved


def imitation_loss_backward(dloss, saved):
    r"""The gradient of `imitation_loss` with respect to the student.

    .. math:: \bar{x}_i = \frac{2}{n} (x_i - t_i)\, \bar{L}

    Parameters
    ----------
    dloss : float

    Returns
    -------
    dx : ndarray, shape (..., C)
    """
    difference, = saved

    # loss = (difference * difference).sum() / x.size
    return difference * (2 * float(dloss) / difference.size)


def _check_both(owner, name, x, teacher, shape):
    """Check that student and teacher have one shape, and are not empty."""
    check_array(owner, name, x, shape)
    check_array(owner, f"the teacher's {name}", teacher, shape)
    if x.shape != teacher.shape:
        raise ValueError(f"{owner}: {name} has shape {x.shape}, but the teacher's {teacher.shape}; "
                         "give both of one shape.")
    if x.size == 0:
        raise ValueError(f"{owner}: {name} of shape {x.shape} is empty.")
