"""CausalConvolution with its parameters, and with a memory of the last inputs for whoever goes on step by step."""

import numpy as np

from numformer.checks import check_array, check_whole
from numformer.functional.activations import sigmoid, sigmoid_backward
from numformer.functional.convolution import causal_convolution, causal_convolution_backward, convolve
from numformer.layers.normalization import LayerNorm
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


class GatedConvolution(Layer):
    r"""A causal convolution whose other half opens and shuts its gates, (B, T, C) to (B, T, C); it normalizes what it reads.

    .. math:: y = a \odot \sigma(g), \qquad [a, g] = \mathrm{conv}(\mathrm{norm}(x))

    What it gives is meant to be added to the stream that it reads, as in a pre-norm block.

    Parameters
    ----------
    d_model : int
        C.
    width : int
        K, positions that it sees.
    rng : numpy.random.Generator or None
    dilation : int
        d, their distance.
    dtype : float32 or float64

    Raises
    ------
    ValueError, TypeError
        If a number is not a whole one above 0, or `x` or a state does not fit.

    References
    ----------
    Dauphin et al. (2017), "Language Modeling with Gated Convolutional Networks", eq. 1.

    Examples
    --------
    >>> GatedConvolution(4, 3, np.random.default_rng(0))(np.ones((1, 6, 4), np.float32)).shape
    (1, 6, 4)
    """

    def __init__(self, d_model, width, rng, dilation=1, dtype=np.float32):
        check_whole("GatedConvolution", "d_model", d_model)
        self.norm = LayerNorm(d_model, dtype=dtype)
        self.convolution = CausalConvolution(d_model, 2 * d_model, width, rng, dilation, dtype=dtype)

    @property
    def reach(self):
        """How many positions before it a position sees into."""
        return self.convolution.reach

    def forward(self, x):
        n, saved_norm = self.norm.forward(x)
        c, saved_convolution = self.convolution.forward(n)            # (B, T, 2C)
        a, g = np.split(c, 2, axis=2)
        s, saved_gate = sigmoid(g)
        y = a * s

        saved = (saved_norm, saved_convolution, a, s, saved_gate)
        return y, saved

    def backward(self, dy, saved):
        saved_norm, saved_convolution, a, s, saved_gate = saved

        # y = a * s
        da, ds = dy * s, dy * a

        # s = sigmoid(g)
        dg = sigmoid_backward(ds, saved_gate)

        # [a, g] = convolution(norm(x))
        dn = self.convolution.backward(np.concatenate([da, dg], axis=2), saved_convolution)
        return self.norm.backward(dn, saved_norm)

    def step(self, x, state=None):
        """Continue sequences; the state is that of the convolution. Inference only."""
        c, state = self.convolution.step(self.norm(x), state)
        a, g = np.split(c, 2, axis=2)
        return a * sigmoid(g)[0], state
