"""Layers that tell a model where its tokens stand: added to the vectors, turned into q and k, or taken off the scores."""

import numpy as np

from numformer.backend import rotary, rotary_backward
from numformer.checks import check_array, check_choice, check_even, check_number, check_whole
from numformer.functional.positions import alibi, alibi_backward, alibi_slopes, rotary_angles, sinusoidal_positions
from numformer.parameter import Layer, normal


def _places(start, T):
    """Positions of T tokens from `start` on, (T,); or (B, T) for a start of each sequence. Below 0, before a sequence begins: 0."""
    if np.ndim(start) == 0:
        check_whole("positions", "start", start, least=0)
        return np.arange(start, start + T)
    return np.maximum(np.asarray(start)[:, None] + np.arange(T), 0)


class SinusoidalPositions(Layer):
    """Add the fixed sinusoids of the 2017 Transformer to (B, T, C): `sinusoidal_positions`. No parameters, any length.

    The option `start` of `forward` is the position of the first token, or an array of them, one for each sequence.

    Parameters
    ----------
    d_model : int
        C.

    Examples
    --------
    >>> SinusoidalPositions(4)(np.zeros((1, 2, 4)), start=5).round(2)
    array([[[-0.96,  0.28,  0.05,  1.  ],
            [-0.28,  0.96,  0.06,  1.  ]]])
    """

    def __init__(self, d_model):
        check_whole("SinusoidalPositions", "d_model", d_model)
        self.d_model = d_model

    def forward(self, x, start=0):
        T = check_array("SinusoidalPositions", "x", x, "(B, T, C)", C=self.d_model)["T"]
        places = _places(start, T)                                    # (T,) or (B, T)
        y = x + sinusoidal_positions(places.reshape(-1), self.d_model, x.real.dtype).reshape(*places.shape, self.d_model)

        saved = ()
        return y, saved

    def backward(self, dy, saved):
        # y = x + constants
        return dy.copy()


class LearnedPositions(Layer):
    """Add a trained vector for every position to (B, T, C), up to a greatest length.

    The option `start` of `forward` is the position of the first token, or an array of them, one for each sequence.

    Parameters
    ----------
    context_length, d_model : int
        The greatest T, and C.
    rng : numpy.random.Generator or None
    std : float
    dtype : float32 or float64

    Raises
    ------
    ValueError
        If `x` reaches beyond the greatest length.

    References
    ----------
    Radford et al. (2018), "Improving Language Understanding by Generative Pre-Training", eq. 2.

    Examples
    --------
    >>> LearnedPositions(8, 4, np.random.default_rng(0))(np.zeros((1, 9, 4), np.float32))
    Traceback (most recent call last):
    ValueError: LearnedPositions: positions 0 .. 8 were asked for, but only 0 .. 7 were learned; shorten the input.
    """

    def __init__(self, context_length, d_model, rng, std=0.02, dtype=np.float32):
        check_whole("LearnedPositions", "context_length", context_length)
        check_whole("LearnedPositions", "d_model", d_model)
        self.weight = normal(rng, (context_length, d_model), std, dtype)

    def forward(self, x, start=0):
        length, width = self.weight.data.shape
        T = check_array("LearnedPositions", "x", x, "(B, T, C)", self.weight.data.dtype, C=width)["T"]
        places = _places(start, T)                                    # (T,) or (B, T)
        if places.max() >= length:
            raise ValueError(f"LearnedPositions: positions {places.min()} .. {places.max()} were asked for, "
                             f"but only 0 .. {length - 1} were learned; shorten the input.")
        y = x + self.weight.data[places]

        saved = (places,)
        return y, saved

    def backward(self, dy, saved):
        places, = saved

        # y = x + weight[places]
        if places.ndim == 1:
            self.weight.grad[places] += dy.sum(axis=0)
        else:                                                         # a position may stand in several sequences
            np.add.at(self.weight.grad, places, dy)
        return dy.copy()


class ConcatenatedPositions(Layer):
    r"""Set the vector of its position beside every token's, instead of adding it: (B, T, C) becomes (B, T, C + P).

    .. math:: y_t = \mathrm{concat}(x_t, p_t)

    Nothing of the token is overlaid, but all that follows is wider: a model of width C + P has ((C + P) / C)^2 times the weights in a
    square projection. Adding is the same as this with a projection behind it, (C + P) to C, whose upper and lower parts are both the
    identity. The option `start` of `forward` is that of the layer inside.

    Parameters
    ----------
    positions : SinusoidalPositions or LearnedPositions
        What would be added to vectors of width P.

    Raises
    ------
    TypeError
        If `positions` is something else.

    Examples
    --------
    >>> ConcatenatedPositions(SinusoidalPositions(2))(np.full((1, 2, 3), 7.0)).round(2)
    array([[[7.  , 7.  , 7.  , 0.  , 1.  ],
            [7.  , 7.  , 7.  , 0.84, 0.54]]])
    """

    def __init__(self, positions):
        if not isinstance(positions, (SinusoidalPositions, LearnedPositions)):
            raise TypeError(f"ConcatenatedPositions: positions must be SinusoidalPositions or LearnedPositions, but is {positions!r}.")
        self.positions = positions
        self.width = positions.weight.data.shape[1] if isinstance(positions, LearnedPositions) else positions.d_model

    def forward(self, x, start=0):
        sizes = check_array("ConcatenatedPositions", "x", x, "(B, T, C)")
        p, saved_positions = self.positions.forward(np.zeros((sizes["B"], sizes["T"], self.width), x.dtype), start=start)
        y = np.concatenate([x, p], axis=-1)                           # (B, T, C + P)

        saved = (saved_positions, sizes["C"])
        return y, saved

    def backward(self, dy, saved):
        saved_positions, C = saved

        # y = concatenate([x, positions(zeros)])
        self.positions.backward(dy[..., C:], saved_positions)
        return dy[..., :C].copy()


class RotaryPositions(Layer):
    """Turn queries and keys, (B, H, T, D), by their positions: `rotary`. No parameters, any length.

    The option `start` of `forward` is the position of the first token.

    Parameters
    ----------
    d_head : int
        D, even.
    base : float
        The slowest pair turns once in 2 pi base^((D - 2) / D) steps, the fastest once in 2 pi.
    layout : "half" or "interleaved"
        Which coordinates make a pair.

    Raises
    ------
    ValueError
        If D is odd or the layout unknown.

    Examples
    --------
    >>> RotaryPositions(2)(np.ones((1, 1, 2, 2)), start=3).round(2)
    array([[[[-1.13, -0.85],
             [ 0.1 , -1.41]]]])
    """

    def __init__(self, d_head, base=10000.0, layout="half"):
        check_choice("RotaryPositions", "layout", layout, ["half", "interleaved"])
        check_number("RotaryPositions", "base", base, least=1)
        check_even("RotaryPositions", "d_head", d_head)
        self.d_head, self.base, self.layout = d_head, base, layout

    def forward(self, x, start=0):
        T = check_array("RotaryPositions", "x", x, "(B, H, T, D)", D=self.d_head)["T"]
        return rotary(x, *rotary_angles(start, start + T, self.d_head, self.base, x.real.dtype), self.layout)

    def backward(self, dy, saved):
        return rotary_backward(dy, saved)


class ALiBi(Layer):
    """Lower attention scores (B, H, T, S) in proportion to distance, with a slope for each head: `alibi`. No parameters.

    Parameters
    ----------
    n_heads : int
        H.

    Examples
    --------
    >>> ALiBi(1)(np.zeros((1, 1, 1, 3)))
    array([[[[-0.0078125 , -0.00390625,  0.        ]]]])
    """

    def __init__(self, n_heads):
        self.n_heads, self.slopes = n_heads, alibi_slopes(n_heads)

    def forward(self, scores):
        return alibi(scores, self.slopes)

    def backward(self, dy, saved):
        return alibi_backward(dy, saved)
