"""Activation functions and their derivatives, as curves."""

import numpy as np

from numformer.plots.axes import WIDTH, entitle, panels, styled, styles
from numformer.plots.tokens import plain

POINTS = 401


@styled
def activation_curves(pairs, last=5.0, ax=None, title="Activation functions"):
    r"""Each function on the left, and on the right its derivative, as its backward gives it.

    .. math:: \text{left: } f(x), \qquad \text{right: } f'(x) = \bar{x} \text{ where } \bar{y} = 1

    Parameters
    ----------
    pairs : dict of str to (function, function)
        By name, a forward that returns (y, saved) and its backward, which takes (dy, saved):
        ``{"ReLU": (relu, relu_backward)}``.
    last : float
        The curves go from minus `last` to `last`.
    ax : matplotlib Axes, optional
        Axes that the panels replace; a new figure by default.
    title : str

    Returns
    -------
    Figure

    Raises
    ------
    ValueError
        If there is no function, or `last` is not a number above 0.
    """
    if not pairs:
        raise ValueError("activation_curves: pairs is empty; there is nothing to draw.")
    if not 0 < last < np.inf:
        raise ValueError(f"activation_curves: last must be a number above 0, but is {last}.")
    values, slopes = panels(ax, 1, 2, (WIDTH, 4.6))[0]
    x = np.linspace(-last, last, POINTS)
    for (name, (forward, backward)), style in zip(pairs.items(), styles(values, len(pairs))):
        y, saved = forward(x)
        style |= {"markevery": POINTS // 8, "markersize": 4, "linewidth": 1.5}
        values.plot(x, y, label=plain(name), **style)
        slopes.plot(x, backward(np.ones_like(x), saved), **style)
    for panel, label in ((values, "f(x)"), (slopes, "derivative")):
        panel.set(xlabel="x", ylabel=label)
        panel.grid(alpha=0.3)
    values.figure.legend(ncols=3, frameon=False, loc="outside lower center")
    entitle(ax, values, title)
    return values.figure
