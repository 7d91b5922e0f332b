"""CausalConvolution with its parameters, and with a memory of the last inputs for whoever goes on step by step."""

import numpy as np

from numformer.checks import check_array, check_whole
from numformer.functional.convolution import causal_convolution, causal_convolution_backward, convolve
from numformer.parameter import Layer, constant, normal


class CausalConvolution(Layer):
    r"""A learned window over the last K positions, (B, T, C) to (B, T, F): `causal_convolution` and its two parameters.

    .. math:: y_t = b + \sum_{k=0}^{K-1} x_{t - (K-1-k)\, d}\, W_k

    Parameters
    ----------
    d_in, d_out : int
        C and F.
    width : int
        K, how many positions the window shows.
    rng : numpy.random.Generator or None
        Draws the weight; None for shapes alone.
    dilation : int
        d, the distance of these positions.
    bias : bool
    std : float, optional
        Of the initial weight; 1 / sqrt(K C) unless given, which keeps the size of a vector's coordinates.
    dtype : float32 or float64

    Raises
    ------
    ValueError, TypeError
        If a size is not a whole number above 0, or an input or state does not fit.

    References
    ----------
    van den Oord et al. (2016), "WaveNet", section 2.1.

    Examples
    --------
    >>> layer = CausalConvolution(3, 4, 2, np.random.default_rng(0), dilation=2)
    >>> x = np.ones((1, 6, 3), np.float32)
    >>> y, state = layer.step(x[:, :5])
    >>> last, state = layer.step(x[:, 5:], state)
    >>> state.shape, bool(abs(last - layer(x)[:, 5:]).max() < 1e-6)
    ((1, 2, 3), True)
    """

    def __init__(self, d_in, d_out, width, rng, dilation=1, bias=True, std=None, dtype=np.float32):
        for name, value in (("d_in", d_in), ("d_out", d_out), ("width", width), ("dilation", dilation)):
            check_whole("CausalConvolution", name, value)
        self.weight = normal(rng, (width, d_in, d_out), (width * d_in) ** -0.5 if std is None else std, dtype)
        self.bias = constant(0, (d_out,), dtype) if bias else None
        self.dilation = dilation

    @property
    def reach(self):
        """How many positions before it a position sees into: (K - 1) d."""
        return (len(self.weight.data) - 1) * self.dilation

    def forward(self, x):
        return causal_convolution(x, self.weight.data, None if self.bias is None else self.bias.data, self.dilation)

    def backward(self, dy, saved):
        dx, dweight, dbias = causal_convolution_backward(dy, saved)
        self.weight.grad += dweight
        if self.bias is not None:
            self.bias.grad += dbias
        return dx

    def step(self, x, state=None):
        """Continue sequences. Inference only.

        Parameters
        ----------
        x : ndarray, shape (B, T, C)
            The new positions alone.
        state : ndarray, shape (B, reach, C), optional
            What the last call returned; None at the start.

        Returns
        -------
        y : ndarray, shape (B, T, F)
        state : ndarray, shape (B, reach, C)
            The last inputs: a new value; the old one stays as it was.
        """
        weight, bias = self.weight.data, None if self.bias is None else self.bias.data
        sizes = check_array("CausalConvolution", "x", x, "(B, T, C)", weight.dtype, C=weight.shape[1])
        if not x.size:
            raise ValueError(f"CausalConvolution: x is empty, shape {x.shape}; give at least one sequence of at least one position.")
        if state is None:
            state = np.zeros((sizes["B"], self.reach, sizes["C"]), x.dtype)
        check_array("CausalConvolution", "state", state, "(B, reach, C)", weight.dtype, B=sizes["B"], reach=self.reach, C=sizes["C"])
        seen = np.concatenate([state, x], axis=1)                     # (B, reach + T, C)
        return convolve(seen, weight, bias, self.dilation), seen[:, sizes["T"]:].copy()
