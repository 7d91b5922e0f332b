"""Sinusoidal positions: the fixed waves of the 2017 Transformer."""

from numformer.checks import check_whole
from numformer.description import Description
from numformer.functional import sinusoidal_positions
from numformer.layers.positions.added import AddedPositions, positions_from


class SinusoidalPositions(AddedPositions):
    """Add the fixed sinusoids of the 2017 Transformer: `sinusoidal_positions`.

    There are no parameters, and sequences may have any length.

    Parameters
    ----------
    d_model : int
        C.

    References
    ----------
    Vaswani et al. (2017), "Attention Is All You Need", section 3.5.

    Examples
    --------
    >>> import numpy as np
    >>> SinusoidalPositions(4)(np.zeros((1, 2, 4)), start=5).round(2)
    array([[[-0.96,  0.28,  0.05,  1.  ],
            [-0.28,  0.96,  0.06,  1.  ]]])
    """

    scheme = "sinusoidal"

    def __init__(self, d_model):
        check_whole("SinusoidalPositions", "d_model", d_model)
        self.d_model = d_model

    @property
    def width(self):
        return self.d_model

    def vectors(self, T, start, dtype):
        positions = positions_from(start, T)                          # (T,) or (B, T)
        p = sinusoidal_positions(positions.reshape(-1), self.d_model, dtype)

        saved = ()
        return p.reshape(*positions.shape, self.d_model), saved

    def describe(self):
        return Description("+ Sinusoidal positions", gradient=(r"dx = dy",))
