"""Dropout, and Identity: the layer in place of a step that is left out."""

from numformer.backend import dropout, dropout_backward
from numformer.checks import check_number
from numformer.description import Description
from numformer.parameter import Layer


class Dropout(Layer):
    """Set numbers to 0 at random: `dropout`.

    The generator is an argument of `forward`; without one nothing is dropped.

    Parameters
    ----------
    rate : float in [0, 1)

    Raises
    ------
    ValueError
        If the rate lies outside.

    Examples
    --------
    >>> import numpy as np
    >>> Dropout(0.5)(np.ones(4), rng=np.random.default_rng(0))
    array([2., 2., 2., 0.])
    """

    drawn = False

    def __init__(self, rate):
        check_number("Dropout", "rate", rate, least=0, below=1)
        self.rate = float(rate)

    def forward(self, x, rng=None):
        return dropout(x, self.rate, rng)

    def backward(self, dy, saved):
        return dropout_backward(dy, saved)

    def describe(self):
        return Description("Dropout", f"rate {self.rate:g}", (r"dx = dy\,m / (1 - r)",))


class Identity(Layer):
    """Return the input: the layer for a step that is left out. Options of the step are ignored.

    The result is the argument itself, not a copy, so it must not be written to.

    Examples
    --------
    >>> Identity()("anything", start=3)
    'anything'
    """

    drawn = False

    def forward(self, x, **options):
        return x, ()

    def backward(self, dy, saved):
        return dy

    def describe(self):
        return Description("Identity", gradient=(r"dx = dy",))
