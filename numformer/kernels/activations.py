"""Activation functions in one pass: value and slope together, so the backward is one product."""

import math

import numpy as np
from numba import int64, types
from numba.extending import overload

from numformer.checks import check_array
from numformer.functional.activations.gated import check_gated
from numformer.functional.activations.swish import QUICK
from numformer.kernels.runtime.arithmetic import CONTRACT, exp, real32
from numformer.kernels.runtime.compile import Kernel, inlined
from numformer.kernels.runtime.shapes import flat, out_vector, vector
from numformer.kernels.runtime.versions import compiled_version
from numformer.kernels.runtime.workspace import new_like

RELU, RELU_SQUARED, GELU, GELU_TANH, SWISH, QUICK_GELU = range(6)
# Activations of the table that can be compiled; the reference computes with the others
KINDS = {"relu": RELU, "relu_squared": RELU_SQUARED, "gelu": GELU, "gelu_tanh": GELU_TANH,
         "silu": SWISH, "quick_gelu": QUICK_GELU}
ROOT = math.sqrt(2 / math.pi)
CUBIC = 0.044715 * ROOT
FLAT = real32(2048)                     # sigma is 0 or 1 beyond
BLOCK = 1024                            # numbers that stay in the cache from one loop to the next

# exp(z^2) erfc(z) = t P(t), t = 1 / (1 + 0.3 z): our own minimax fit of the relative error, 2e-8 on
# 0 .. 9.4
P0, P1, P2, P3, P4, P5, P6, P7, P8 = map(real32, (
    1.691901189e-01, 1.706846625e-01, 1.485270429e-01, 2.142841008e-01, -9.331511811e-02,
    5.459848892e-01, -5.109013969e-01, 4.849523771e-01, -1.294066958e-01))


def normal_cdf_and_density(x):
    """Phi(x) = P(Z <= x) of a standard normal Z, and the density phi(x)."""


@overload(normal_cdf_and_density, jit_options=dict(forceinline=True, **CONTRACT))
def _normal(x):
    return _normal32 if x == types.float32 else _normal64


def _normal32(x):
    one, half, far = real32(1), real32(0.5), real32(20)
    z = min(abs(x), far)                # beyond, both are 0 already; and Inf - Inf would be NaN
    high = np.int32(real32(z).view(np.int32) & np.int32(-4096)).view(np.float32)
    bell = exp(-half * high * high) * exp(-half * (z - high) * (z + high))   # high * high is exact
    t = one / (one + real32(0.3 * math.sqrt(0.5)) * z)
    series = (((P8 * t + P7) * t + P6) * t + P5) * t + P4
    series = (((series * t + P3) * t + P2) * t + P1) * t + P0
    tail = half * bell * (t * series)
    return (tail if x < 0 else one - tail), bell * real32(1 / math.sqrt(2 * math.pi))


def _normal64(x):
    cdf = 0.5 * math.erfc(x * -math.sqrt(0.5))
    return cdf, math.exp(-0.5 * x * x) * (1 / math.sqrt(2 * math.pi))


@inlined
def sigmoid_and_slope(z, one):
    """sigma(z) and its derivative, from an exponential of at most 1.

    No overflow, and no cancellation on either side.
    """
    e = exp(-abs(z))
    part = one / (one + e)
    return (part if z >= 0 else e * part), e * part * part


@inlined
def at_least(low, x):
    """The larger of both, in one instruction; NaN stays."""
    return low if x < low else x


@inlined
def between(low, x, high):
    """x, or the limit that it is beyond; NaN stays."""
    return at_least(low, high if x > high else x)


@inlined
def activate(kind, beta, x, y, slope):
    """y = f(x) and slope = f'(x), elementwise."""
    real = x.dtype.type
    zero, one, two = real(0), real(1), real(2)
    low, high = real(np.finfo(x.dtype).min), real(np.finfo(x.dtype).max)    # Inf times 0 is NaN
    if kind == RELU:
        for n in range(len(x)):
            closed = x[n] <= zero
            y[n], slope[n] = zero if closed else x[n], zero if closed else one
    elif kind == RELU_SQUARED:
        for n in range(len(x)):
            positive = zero if x[n] <= zero else x[n]
            y[n], slope[n] = positive * positive, two * positive
    elif kind == GELU:
        for n in range(len(x)):
            cdf, density = normal_cdf_and_density(x[n])
            y[n], slope[n] = at_least(low, x[n]) * cdf, cdf + between(low, x[n], high) * density
    elif kind == GELU_TANH:             # (1 + tanh u) / 2 = sigma(2u)
        root, cubic, cubic3 = real(2 * ROOT), real(2 * CUBIC), real(6 * CUBIC)
        for n in range(len(x)):
            gate, dgate = sigmoid_and_slope(x[n] * (root + cubic * (x[n] * x[n])), one)
            near = x[n] if dgate != zero else zero      # the gate is flat where x * x may overflow
            y[n], slope[n] = (at_least(low, x[n]) * gate,
                              gate + near * dgate * (root + cubic3 * (near * near)))
    else:
        steep = real(QUICK) if kind == QUICK_GELU else beta
        for n in range(len(x)):
            z = between(-FLAT, steep * x[n], FLAT)
            gate, dgate = sigmoid_and_slope(z, one)
            y[n], slope[n] = at_least(low, x[n]) * gate, gate + z * dgate


def activation(kind, beta, x, y, slope):
    """`activate`, as a kernel of its own."""
    activate(kind, beta, x, y, slope)


def activation_backward(kind, dy, slope, dx):
    """dx = dy f'(x); exactly 0 where a ReLU is inactive, even if dy is NaN or Inf there."""
    zero = dy.dtype.type(0)
    if kind <= RELU_SQUARED:
        for n in range(len(dy)):
            dx[n] = dy[n] * slope[n] if slope[n] != zero else zero
    else:
        for n in range(len(dy)):
            dx[n] = dy[n] * slope[n]


def gated(kind, beta, g, h, y, a, slope):
    """y = a h, where a = f(g)."""
    for start in range(0, len(g), BLOCK):
        part = slice(start, min(start + BLOCK, len(g)))
        a_part, h_part, y_part = a[part], h[part], y[part]
        activate(kind, beta, g[part], a_part, slope[part])
        for n in range(len(y_part)):
            y_part[n] = a_part[n] * h_part[n]


def gated_backward(kind, dy, h, a, slope, dg, dh):
    """dh = dy a, and dg = dy h f'(g)."""
    zero = dy.dtype.type(0)
    is_relu = kind <= RELU_SQUARED
    for n in range(len(dy)):
        dh[n] = dy[n] * a[n]
        if slope[n] != zero:
            dg[n] = dy[n] * h[n] * slope[n]
        else:                           # dy h may overflow; 0 NaN is NaN
            dg[n] = zero if is_relu else dy[n] * slope[n]


ACTIVATION = Kernel(activation, lambda real: (int64, real, vector(real), *2 * [out_vector(real)]))
ACTIVATION_BACKWARD = Kernel(activation_backward, lambda real: (
    int64, *2 * [vector(real)], out_vector(real)))
GATED = Kernel(gated, lambda real: (int64, real, *2 * [vector(real)], *3 * [out_vector(real)]))
GATED_BACKWARD = Kernel(gated_backward, lambda real: (
    int64, *4 * [vector(real)], *2 * [out_vector(real)]))


@compiled_version
def relu(x):
    """The compiled version of `numformer.functional.relu`."""
    return _forward("relu", RELU, x)


@compiled_version
def relu_squared(x):
    """The compiled version of `numformer.functional.relu_squared`."""
    return _forward("relu_squared", RELU_SQUARED, x)


@compiled_version
def gelu(x):
    """The compiled version of `numformer.functional.gelu`: 4 ulp in float32."""
    return _forward("gelu", GELU, x)


@compiled_version
def gelu_tanh(x):
    """The compiled version of `numformer.functional.gelu_tanh`."""
    return _forward("gelu_tanh", GELU_TANH, x)


@compiled_version
def silu(x):
    """The compiled version of `numformer.functional.silu`."""
    return _forward("silu", SWISH, x)


@compiled_version
def quick_gelu(x):
    """The compiled version of `numformer.functional.quick_gelu`."""
    return _forward("quick_gelu", QUICK_GELU, x)


@compiled_version
def swish(x, beta=1.0):
    """The compiled version of `numformer.functional.swish`."""
    return _forward("swish", SWISH, x, beta)


@compiled_version
def gated_linear_unit(g, h, activation="silu"):
    """The compiled version of `numformer.functional.gated_linear_unit`."""
    check_gated(g, h, activation)
    flat_g, flat_h = flat(g), flat(h)
    y, a, slope = new_like(flat_g), new_like(flat_g), new_like(flat_g)
    GATED[g.dtype](KINDS[activation], g.dtype.type(1), flat_g, flat_h, y, a, slope)

    saved = (KINDS[activation], flat_h, a, slope)
    return y.reshape(g.shape), saved


def gated_linear_unit_backward(dy, saved):
    """The compiled version of `numformer.functional.gated_linear_unit_backward`."""
    kind, h, a, slope = saved
    dg, dh = new_like(h), new_like(h)
    GATED_BACKWARD[h.dtype](kind, flat(dy), h, a, slope, dg, dh)
    return dg.reshape(dy.shape), dh.reshape(dy.shape)


def _forward(name, kind, x, beta=1.0):
    check_array(name, "x", x, "(...)")
    numbers = flat(x)
    y, slope = new_like(numbers), new_like(numbers)
    ACTIVATION[x.dtype](kind, x.dtype.type(beta), numbers, y, slope)

    saved = (kind, slope)               # the slope instead of x: all that the backward needs
    return y.reshape(x.shape), saved


def _backward(dy, saved):
    """The gradient of all of them: dx = dy f'(x)."""
    kind, slope = saved
    dx = new_like(slope)
    ACTIVATION_BACKWARD[slope.dtype](kind, flat(dy), slope, dx)
    return dx.reshape(dy.shape)


relu_backward = relu_squared_backward = gelu_backward = _backward
gelu_tanh_backward = silu_backward = quick_gelu_backward = swish_backward = _backward
