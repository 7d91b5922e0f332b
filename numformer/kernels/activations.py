"""The nonlinearities of the feed-forward in one pass: value and slope of every number at once, so that the backward is one product."""

import math

import numpy as np
from numba import int64, types
from numba.extending import overload

from numformer.checks import check_array
from numformer.functional.gated import check_gated
from numformer.kernels.arithmetic import CONTRACT, exp, real32
from numformer.kernels.compiled import Kernel, inlined
from numformer.kernels.room import new_like
from numformer.kernels.shapes import line, line_of, new_line

RELU, RELU_SQUARED, GELU, GELU_TANH, SWISH = range(5)
KINDS = {"relu": RELU, "relu_squared": RELU_SQUARED, "gelu": GELU, "gelu_tanh": GELU_TANH, "silu": SWISH}
ROOT = math.sqrt(2 / math.pi)
CUBIC = 0.044715 * ROOT
AT_ONCE = 1024                                                        # numbers of a piece that stays in the cache between two loops

# exp(z^2) erfc(z) = t P(t), t = 1 / (1 + 0.3 z): our own fit, with the least possible largest relative error, 2e-8 on 0 .. 9.4
P0, P1, P2, P3, P4, P5, P6, P7, P8 = map(real32, (
    1.691901189e-01, 1.706846625e-01, 1.485270429e-01, 2.142841008e-01, -9.331511811e-02, 5.459848892e-01, -5.109013969e-01,
    4.849523771e-01, -1.294066958e-01))


def normal_below(x):
    """Phi(x), the probability that a standard normal variable lies below x, and its density at x."""


@overload(normal_below, jit_options=dict(forceinline=True, **CONTRACT))
def _normal_below(x):
    return _normal_below32 if x == types.float32 else _normal_below64


def _normal_below32(x):
    one, half, far = real32(1), real32(0.5), real32(20)
    z = min(abs(x), far)                                              # there both are 0 already; and Inf - Inf would be NaN
    high = np.int32(real32(z).view(np.int32) & np.int32(-4096)).view(np.float32)      # 12 bits fewer: its square is exact
    bell = exp(-half * high * high) * exp(-half * (z - high) * (z + high))
    t = one / (one + real32(0.3 * math.sqrt(0.5)) * z)
    series = (((((((P8 * t + P7) * t + P6) * t + P5) * t + P4) * t + P3) * t + P2) * t + P1) * t + P0
    tail = half * bell * (t * series)
    return (tail if x < 0 else one - tail), bell * real32(1 / math.sqrt(2 * math.pi))


def _normal_below64(x):
    return 0.5 * math.erfc(x * -math.sqrt(0.5)), math.exp(-0.5 * x * x) * (1 / math.sqrt(2 * math.pi))


@inlined
def sigmoid_of(z, one):
    """sigma(z) and its derivative, by an exponential that is at most 1: no overflow, and no cancellation on either side."""
    e = exp(-abs(z))
    part = one / (one + e)
    return (part if z >= 0 else e * part), e * part * part


@inlined
def activate(kind, beta, x, y, slope):
    """y = f(x) and slope = f'(x), of every number."""
    real = x.dtype.type
    zero, one, two = real(0), real(1), real(2)
    if kind == RELU:
        for n in range(len(x)):
            closed = x[n] <= zero
            y[n], slope[n] = zero if closed else x[n], zero if closed else one
    elif kind == RELU_SQUARED:
        for n in range(len(x)):
            open_part = zero if x[n] <= zero else x[n]
            y[n], slope[n] = open_part * open_part, two * open_part
    elif kind == GELU:
        for n in range(len(x)):
            below, density = normal_below(x[n])
            y[n], slope[n] = x[n] * below, below + x[n] * density
    elif kind == GELU_TANH:                                           # (1 + tanh u) / 2 = sigma(2u)
        root, cubic, cubic3 = real(2 * ROOT), real(2 * CUBIC), real(6 * CUBIC)
        for n in range(len(x)):
            gate, bend = sigmoid_of(x[n] * (root + cubic * (x[n] * x[n])), one)
            near = x[n] if bend != zero else zero                     # far out, where x * x may overflow, the gate is flat
            y[n], slope[n] = x[n] * gate, gate + near * bend * (root + cubic3 * (near * near))
    else:
        for n in range(len(x)):
            gate, bend = sigmoid_of(beta * x[n], one)
            y[n], slope[n] = x[n] * gate, gate + beta * x[n] * bend


def activation(kind, beta, x, y, slope):
    """`activate`, of arrays without gaps."""
    activate(kind, beta, x, y, slope)


def activation_backward(kind, dy, slope, dx):
    """dx = dy f'(x), and 0 where a ReLU is shut, whatever dy is there."""
    zero = dy.dtype.type(0)
    if kind <= RELU_SQUARED:
        for n in range(len(dy)):
            dx[n] = dy[n] * slope[n] if slope[n] != zero else zero
    else:
        for n in range(len(dy)):
            dx[n] = dy[n] * slope[n]


def gated(kind, beta, g, h, y, a, slope):
    """y = a h, where a = f(g)."""
    for start in range(0, len(g), AT_ONCE):
        part = slice(start, min(start + AT_ONCE, len(g)))
        a_part, h_part, y_part = a[part], h[part], y[part]
        activate(kind, beta, g[part], a_part, slope[part])
        for n in range(len(y_part)):
            y_part[n] = a_part[n] * h_part[n]


def gated_backward(kind, dy, h, a, slope, dg, dh):
    """dh = dy a, and dg = dy h f'(g)."""
    zero = dy.dtype.type(0)
    shut = kind <= RELU_SQUARED
    for n in range(len(dy)):
        dh[n] = dy[n] * a[n]
        dg[n] = dy[n] * h[n] * slope[n] if slope[n] != zero or not shut else zero


ACTIVATION = Kernel(activation, lambda real: (int64, real, line(real), *2 * [new_line(real)]))
ACTIVATION_BACKWARD = Kernel(activation_backward, lambda real: (int64, *2 * [line(real)], new_line(real)))
GATED = Kernel(gated, lambda real: (int64, real, *2 * [line(real)], *3 * [new_line(real)]))
GATED_BACKWARD = Kernel(gated_backward, lambda real: (int64, *4 * [line(real)], *2 * [new_line(real)]))


def relu(x):
    """The twin of `numformer.functional.relu`."""
    return _forward("relu", RELU, x)


def relu_squared(x):
    """The twin of `numformer.functional.relu_squared`."""
    return _forward("relu_squared", RELU_SQUARED, x)


def gelu(x):
    """The twin of `numformer.functional.gelu`: 4 ulp in float32."""
    return _forward("gelu", GELU, x)


def gelu_tanh(x):
    """The twin of `numformer.functional.gelu_tanh`."""
    return _forward("gelu_tanh", GELU_TANH, x)


def silu(x):
    """The twin of `numformer.functional.silu`."""
    return _forward("silu", SWISH, x)


def swish(x, beta=1.0):
    """The twin of `numformer.functional.swish`."""
    return _forward("swish", SWISH, x, beta)


def gated_linear_unit(g, h, activation="silu"):
    """The twin of `numformer.functional.gated_linear_unit`."""
    check_gated(g, h, activation)
    gates, others = line_of(g), line_of(h)
    y, a, slope = new_like(gates), new_like(gates), new_like(gates)
    GATED[g.dtype](KINDS[activation], g.dtype.type(1), gates, others, y, a, slope)

    saved = (KINDS[activation], others, a, slope)
    return y.reshape(g.shape), saved


def gated_linear_unit_backward(dy, saved):
    """The twin of `numformer.functional.gated_linear_unit_backward`."""
    kind, h, a, slope = saved
    dg, dh = new_like(h), new_like(h)
    GATED_BACKWARD[h.dtype](kind, line_of(dy), h, a, slope, dg, dh)
    return dg.reshape(dy.shape), dh.reshape(dy.shape)


def _forward(name, kind, x, beta=1.0):
    check_array(name, "x", x, "(...)")
    numbers = line_of(x)
    y, slope = new_like(numbers), new_like(numbers)
    ACTIVATION[x.dtype](kind, x.dtype.type(beta), numbers, y, slope)

    saved = (kind, slope)                                             # the slope in place of x: it is all that the backward needs
    return y.reshape(x.shape), saved


def _backward(dy, saved):
    """The gradient of all of them: dx = dy f'(x)."""
    kind, slope = saved
    dx = new_like(slope)
    ACTIVATION_BACKWARD[slope.dtype](kind, line_of(dy), slope, dx)
    return dx.reshape(dy.shape)


relu_backward = relu_squared_backward = gelu_backward = gelu_tanh_backward = silu_backward = swish_backward = _backward
