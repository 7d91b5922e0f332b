"""Causal convolutions over a sequence, plain and gated, with a state for step-by-step inference."""

import numpy as np

from numformer.checks import check_array, check_whole
from numformer.description import Description
from numformer.functional.activations.sigmoid import sigmoid, sigmoid_backward
from numformer.functional.convolution import (
    causal_convolution, causal_convolution_backward, convolve)
from numformer.layers.feedforward import PRODUCT
from numformer.layers.normalization import LayerNorm
from numformer.parameter import Layer, constant, normal


class CausalConvolution(Layer):
    r"""A learned filter over the last K positions, (B, T, C) to (B, T, F): `causal_convolution`.

    .. math:: y_t = b + \sum_{k=0}^{K-1} x_{t - (K-1-k)\, d}\, W_k

    Parameters
    ----------
    d_in, d_out : int
        C and F.
    width : int
        K, positions in the filter.
    rng : numpy.random.Generator or None
        Samples the weight; None: only shapes.
    dilation : int
        d, the distance between these positions.
    bias : bool
    std : float, optional
        Of the initial weight; 1 / sqrt(K C) unless given, which keeps the scale of coordinates.
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
        for name, value in (("d_in", d_in), ("d_out", d_out), ("width", width),
                            ("dilation", dilation)):
            check_whole("CausalConvolution", name, value)
        std = (width * d_in) ** -0.5 if std is None else std
        self.weight = normal(rng, (width, d_in, d_out), std, dtype)
        self.bias = constant(0, (d_out,), dtype) if bias else None
        self.dilation = dilation

    @property
    def reach(self):
        """How many earlier positions an output depends on: (K - 1) d."""
        return (len(self.weight.data) - 1) * self.dilation

    def forward(self, x):
        bias = None if self.bias is None else self.bias.data
        return causal_convolution(x, self.weight.data, bias, self.dilation)

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
            Only the new positions.
        state : ndarray, shape (B, reach, C), optional
            What the last call returned; None at the start.

        Returns
        -------
        y : ndarray, shape (B, T, F)
        state : ndarray, shape (B, reach, C)
            The last inputs: a new value; the old one stays as it was.
        """
        owner, reach = "CausalConvolution", self.reach
        weight, bias = self.weight.data, None if self.bias is None else self.bias.data
        sizes = check_array(owner, "x", x, "(B, T, C)", weight.dtype, C=weight.shape[1])
        B, T, C = sizes["B"], sizes["T"], sizes["C"]
        if not x.size:
            raise ValueError(f"{owner}: x is empty, shape {x.shape}; give at least one sequence of "
                             "at least one position.")
        state = np.zeros((B, reach, C), x.dtype) if state is None else state
        check_array(owner, "state", state, "(B, reach, C)", weight.dtype, B=B, reach=reach, C=C)
        inputs = np.concatenate([state, x], axis=1)                   # (B, reach + T, C)
        return convolve(inputs, weight, bias, self.dilation), inputs[:, T:].copy()

    def describe(self):
        K, C, _ = self.weight.data.shape
        return Description("Causal convolution", f"width {K}, dilation {self.dilation}",
                           (r"dx_t = \Sigma_k dy_{t+o_k}\,W_k^\top",
                            r"dW_k = \Sigma_t x_{t-o_k}^\top dy_t", r"o_k = (K - 1 - k)\,d"),
                           weights=self.weight.data.size, state=self.reach * C)


class GatedConvolution(Layer):
    r"""A causal convolution of a norm, with a gate for every output, (B, T, C) to (B, T, C).

    .. math:: y = a \odot \sigma(g), \qquad [a, g] = \mathrm{conv}(\mathrm{norm}(x))

    The result is meant to be added to x, as the branch of a pre-norm block is.

    Parameters
    ----------
    d_model : int
        C.
    width : int
        K, positions in the filter.
    rng : numpy.random.Generator or None
    dilation : int
        d, the distance between them.
    dtype : float32 or float64

    Raises
    ------
    ValueError, TypeError
        If a size is not a whole number above 0, or `x` or a state does not fit.

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
        self.convolution = CausalConvolution(d_model, 2 * d_model, width, rng, dilation,
                                             dtype=dtype)

    @property
    def reach(self):
        """How many earlier positions an output depends on."""
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

    def describe(self):
        return Description("Gated causal convolution", self.convolution.describe().sizes,
                           (r"da = dy\,\sigma(g)", r"dg = dy\,a\,\sigma'(g)",
                            r"dn_t = \Sigma_k [da, dg]_{t+(K-1-k)d}\,W_k^\top"))

    def describe_parts(self, reader, box):
        B, T, C = box.shape
        double = B, T, 2 * self.convolution.weight.data.shape[1]
        return (*reader.boxes(box.shape, self.norm), reader.box(double, self.convolution),
                reader.function(box.shape, "Product", GatedConvolution, "a sigmoid(g)", PRODUCT))
