"""Numbers that are not finite: one error with one advice, and checks that say where they are."""

import numpy as np

ADVICE = "begin anew with a lower learning rate."
BEFORE_A_STEP = ("no step was taken, so no learning rate is the cause: choose smaller initial "
                 "weights, scales or factors of the loss.")


class NotFinite(ArithmeticError, ValueError):
    """A NaN or an infinity came up; the message names the first tensor that holds one."""


def not_finite(what, steps=1):
    """The `NotFinite` to raise: what is not finite after so many steps, and the advice.

    Examples
    --------
    >>> str(not_finite("step 2: the loss is nan"))
    'step 2: the loss is nan; begin anew with a lower learning rate.'
    """
    return NotFinite(f"{what}; {ADVICE if steps else BEFORE_A_STEP}")


def check_finite(kind, named_arrays, steps=1):
    """Raise `NotFinite` for the first array that holds NaN or Inf, with its name and index."""
    for name, array in named_arrays:
        bad = ~np.isfinite(array)
        if bad.any():
            index = tuple(int(i) for i in np.argwhere(bad)[0])
            raise not_finite(f"{kind} {name} holds {array[index]} at {index}", steps)


def check_parameters(model, where="", steps=1):
    """Raise `NotFinite` for the first parameter of a model that holds NaN or Inf."""
    check_finite(f"{where}parameter", ((name, p.data) for name, p in model.named_parameters()),
                 steps)


def result_not_finite(what, model):
    """The `NotFinite` for what a model has computed; a parameter that holds NaN or Inf is named."""
    check_parameters(model, f"{what}: ")
    return not_finite(f"{what}, although all parameters are finite: they are too large")


def check_logits(owner, logits, model=None):
    """Check that each row of logits (..., V) has a largest one, so that something can be chosen.

    Parameters
    ----------
    owner : str
        Who chooses.
    logits : ndarray, shape (..., V)
        Some may be -Inf: what must not be chosen.
    model : Layer, optional
        Whose logits they are.

    Raises
    ------
    NotFinite
        If a row holds NaN or +Inf, or nothing but -Inf; a parameter of the model that is not
        finite is named.

    Examples
    --------
    >>> check_logits("demo", np.array([[0.0, -np.inf], [np.nan, 1.0]]))
    Traceback (most recent call last):
    numformer.finite.NotFinite: demo: the largest of the logits is nan; they must be finite, or \
-inf for what must not be chosen.
    """
    top = logits.max(axis=-1)                                         # NaN if one of them is
    wrong = top[~np.isfinite(top)]
    if wrong.size:
        what = f"{owner}: the largest of the logits is {wrong[0]}"
        raise NotFinite(f"{what}; they must be finite, or -inf for what must not be chosen."
                        ) if model is None else result_not_finite(what, model)


def predicted_classes(owner, logits, model=None):
    """The class of the largest logit, for logits (..., V) that `check_logits` accepts.

    Returns
    -------
    ndarray of int, shape (...)

    Examples
    --------
    >>> predicted_classes("demo", np.array([[0.0, 2.0], [3.0, 1.0]]))
    array([1, 0])
    """
    check_logits(owner, logits, model)
    return logits.argmax(axis=-1)


def quiet():
    """A context without warnings of overflows and invalid numbers, for what is checked after it."""
    return np.errstate(over="ignore", invalid="ignore")
