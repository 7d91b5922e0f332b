"""Learning-rate schedules: pure functions of the step, without a state to save."""

import math

from numformer.checks import check_choice


def constant(step, steps, peak, floor=0.0, warmup=0):
    r"""Warm up, then stay at the peak.

    .. math:: \eta_s = \eta_{peak} \min(1, (s + 1) / (w + 1))

    Parameters
    ----------
    step : int
        s, counted from 0.
    steps : int
        S, steps of the run.
    peak, floor : float
        The highest learning rate, and the one that `linear` and `cosine` reach at step S, just
        after the last; `inverse_sqrt` never falls below it.
    warmup : int
        w, steps of the warm-up.

    Returns
    -------
    float

    Examples
    --------
    >>> [constant(step, 10, peak=1.0, warmup=3) for step in range(5)]
    [0.25, 0.5, 0.75, 1.0, 1.0]
    """
    return peak * min(1.0, (step + 1) / (warmup + 1))


def linear(step, steps, peak, floor=0.0, warmup=0):
    r"""Warm up, then fall linearly to the floor.

    .. math::

        \eta_s = \eta_{floor} + (\eta_{peak} - \eta_{floor}) (1 - p_s), \qquad
        p_s = (s - w) / (S - w), \quad s \ge w

    Parameters as in `constant`.

    Examples
    --------
    >>> [round(linear(step, 4, peak=1.0, floor=0.2), 3) for step in range(5)]
    [1.0, 0.8, 0.6, 0.4, 0.2]
    """
    if step < warmup:
        return constant(step, steps, peak, floor, warmup)
    return floor + (peak - floor) * (1 - _progress(step, steps, warmup))


def cosine(step, steps, peak, floor=0.0, warmup=0):
    r"""Warm up, then fall to the floor along half a cosine: slowly, fast, slowly.

    .. math::

        \eta_s = \eta_{floor} + \tfrac12 (\eta_{peak} - \eta_{floor}) (1 + \cos \pi p_s), \qquad
        p_s = (s - w) / (S - w), \quad s \ge w

    Parameters as in `constant`.

    References
    ----------
    Loshchilov and Hutter (2017), "SGDR", eq. 5, without restarts.

    Examples
    --------
    >>> [round(cosine(step, 4, peak=1.0, floor=0.2), 3) for step in range(5)]
    [1.0, 0.883, 0.6, 0.317, 0.2]
    """
    if step < warmup:
        return constant(step, steps, peak, floor, warmup)
    return floor + 0.5 * (peak - floor) * (1 + math.cos(math.pi * _progress(step, steps, warmup)))


def inverse_sqrt(step, steps, peak, floor=0.0, warmup=0):
    r"""Warm up, then fall with the inverse square root of the step, as the 2017 Transformer did.

    .. math::

        \eta_s = \max\left(\eta_{floor},\; \eta_{peak} \sqrt{(w + 1) / (s + 1)}\right),
        \quad s \ge w

    In place of a peak the paper has a width, :math:`\eta_{peak} = (C\, w)^{-1/2}`, and it counts
    steps from 1.

    Parameters as in `constant`.

    References
    ----------
    Vaswani et al. (2017), "Attention Is All You Need", eq. 3.

    Examples
    --------
    >>> [round(inverse_sqrt(step, 9, peak=1.0, warmup=1), 3) for step in (0, 1, 2, 7)]
    [0.5, 1.0, 0.816, 0.5]
    """
    if step < warmup:
        return constant(step, steps, peak, floor, warmup)
    return max(floor, peak * math.sqrt((warmup + 1) / (step + 1)))


def _progress(step, steps, warmup):
    """The fraction of the steps after the warm-up that are done, from 0 to 1."""
    return min(1.0, (step - warmup) / max(1, steps - warmup))


SCHEDULES = {"constant": constant, "linear": linear, "cosine": cosine, "inverse_sqrt": inverse_sqrt}


def learning_rate(schedule, step, steps, peak, floor=0.0, warmup=0):
    """The learning rate of one step, under the schedule of that name.

    Examples
    --------
    >>> learning_rate("constant", 5, 10, peak=0.1)
    0.1
    """
    check_choice("learning_rate", "schedule", schedule, SCHEDULES)
    return SCHEDULES[schedule](step, steps, peak, floor, warmup)
