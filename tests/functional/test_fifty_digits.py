"""Forward passes in float64 against 50-digit arithmetic, at points chosen to be hard.

Errors are in ulp of the true value, at most 8 unless the function itself allows no better. Where a
function amplifies the rounding of its argument, or subtracts nearly equal numbers, the bound says
so here and in numformer/functional/PRECISION.md.
"""

import mpmath
import numpy as np
import pytest

from numformer import functional as F

mpmath.mp.dps = 50
REAL = [-700.0, -100.0, -38.0, -37.0, -30.0, -10.0, -6.0, -5.0, -3.0, -2.0, -1.0, -1e-3, -1e-8,
        -1e-300, -1e-310, -5e-324, 0.0, 5e-324, 1e-310, 1e-8, 0.5, 1.0, 3.0, 6.0, 10.0, 40.0, 700.0,
        1e4]
SCORES = [[1e4, 9999.0, 9970.0, -1e4, 9999.3], [5e-324, 0.0, -5e-324],
          [0.1, 0.2, -745.0, -700.0, -36.0], [800.0, 0.0, -1e-3],
          [10000.0, 10001.0, 10002.0, 10003.0], [-1e4, -1e4, -1e4 - 1e-9], [0.0],
          [1e-310, 2e-310, 1.0]]
VECTORS = [[1.0, 2.0, 4.0], [0.1] * 7, [5e-324, 0.0, 1e-310], [1e4, 1e4 + 1e-3, 1e4 - 1e-3, 1e4],
           [1e150, -1e150, 2e149], [0.0] * 4, [3.0, 3.0 + 1e-9], [-1e-5, 2e-5, 1e-5]]


def exact(x):
    return mpmath.mpf(float(x))


def assert_near(found, true, ulps=8.0, absolute=0.0):
    """|found - true| <= ulps * ulp(true) + absolute, elementwise; the bounds may be arrays."""
    ulps = np.broadcast_to(ulps, np.shape(found))
    absolute = np.broadcast_to(absolute, np.shape(found))
    for x, t, u, a in zip(np.ravel(found), true, np.ravel(ulps), np.ravel(absolute), strict=True):
        allowed = float(u) * float(np.spacing(abs(float(t)))) + float(a)
        error = float(abs(exact(x) - t))
        assert abs(exact(x) - t) <= allowed, (float(x), float(t), error, allowed)


def test_sigmoid_silu_and_swish():
    x = np.array(REAL)
    assert_near(F.sigmoid(x)[0], [1 / (1 + mpmath.exp(-exact(v))) for v in REAL])
    assert_near(F.silu(x)[0], [exact(v) / (1 + mpmath.exp(-exact(v))) for v in REAL])
    swish = [exact(v) / (1 + mpmath.exp(-exact(v) / 2)) for v in REAL[6:]]
    assert_near(F.swish(x[6:], 0.5)[0], swish)


def test_gelu():
    """The left tail is so steep that the rounding of x / sqrt(2) alone costs up to x^2 ulp."""
    true = [exact(v) * mpmath.erfc(-exact(v) / mpmath.sqrt(2)) / 2 for v in REAL]
    ulps = [8 + (v * v if -38 < v < 0 else 0) for v in REAL]
    assert_near(F.gelu(np.array(REAL))[0], true, ulps, absolute=1e-307)


def test_gelu_tanh():
    """1 + tanh(u) cancels left of -1, as in the code that it reproduces: good to 2e-16 |x|."""
    def gelu_tanh(v):
        u = mpmath.sqrt(2 / mpmath.pi) * (v + mpmath.mpf("0.044715") * v ** 3)
        return v / 2 * (1 + mpmath.tanh(u))

    absolute = [2e-16 * -v if v < -1 else 0 for v in REAL]
    assert_near(F.gelu_tanh(np.array(REAL))[0], [gelu_tanh(exact(v)) for v in REAL], 8, absolute)


@pytest.mark.parametrize("row", SCORES)
def test_softmax_and_its_logarithm(row):
    """A weight e^-d depends on the rounding of d: up to an ulp per nat below the largest score.

    A logarithm near 0 is good to 4e-16.
    """
    weights = [mpmath.exp(exact(v) - exact(max(row))) for v in row]
    total, distance = sum(weights), max(row) - np.array(row)
    assert_near(F.softmax(np.array(row))[0], [w / total for w in weights], 8 + distance)
    logarithms = [exact(v) - exact(max(row)) - mpmath.log(total) for v in row]
    assert_near(F.log_softmax(np.array(row))[0], logarithms, 8, 4e-16)


@pytest.mark.parametrize("row", SCORES)
@pytest.mark.parametrize("smoothing, z_loss", [(0.0, 0.0), (0.1, 0.0), (0.1, 1e-4)])
def test_cross_entropy(row, smoothing, z_loss):
    """For each target; near 0 the loss is good to 4e-16, like the logarithm."""
    V, epsilon = len(row), exact(smoothing)
    top = exact(max(row))
    lse = top + mpmath.log(sum(mpmath.exp(exact(v) - top) for v in row))
    for target in range(V):
        q = [epsilon / V + (1 - epsilon) * (k == target) for k in range(V)]
        true = sum(share * (lse - exact(v)) for share, v in zip(q, row)) + exact(z_loss) * lse ** 2
        found, _ = F.cross_entropy(np.array([row]), np.array([target]),
                                   label_smoothing=smoothing, z_loss=z_loss)
        assert_near([found], [true], 8, 4e-16)


@pytest.mark.parametrize("row", VECTORS)
@pytest.mark.parametrize("where", ["inside", "outside"])
@pytest.mark.parametrize("epsilon", [1e-5, 1e-12])
def test_norms(row, where, epsilon):
    """x - mean cancels where a vector hardly varies.

    It is good to 8 ulp of the largest |x|, divided by the deviation, as x itself is.
    """
    inside = where == "inside"
    layer_norm = F.layer_norm if inside else F.layer_norm_outside
    rms_norm = F.rms_norm if inside else F.rms_norm_outside
    C = len(row)
    weight, bias = np.linspace(0.5, 2, C), np.linspace(-1, 1, C)

    def reciprocal(square):
        if inside:
            return 1 / mpmath.sqrt(square + exact(epsilon))
        return 1 / (mpmath.sqrt(square) + exact(epsilon))

    x = [exact(v) for v in row]
    mean = sum(x) / C
    r = reciprocal(sum((v - mean) ** 2 for v in x) / C)
    true = [exact(g) * (v - mean) * r + exact(s) for v, g, s in zip(x, weight, bias)]
    size = np.abs(weight) * np.abs(row).max() * float(r)
    # the deviation has the error of the cancellation too; subnormals are multiples of 5e-324
    away = np.abs(np.array([float(v - mean) for v in x])) * float(r)
    absolute = (8 * np.finfo(float).eps * (size + np.abs(bias)) * (1 + away)
                + 8 * 5e-324 * float(r))
    assert_near(layer_norm(np.array(row), weight, bias, epsilon)[0], true, 8, absolute)
    r = reciprocal(sum(v ** 2 for v in x) / C)
    true = [exact(g) * v * r for v, g in zip(x, weight)]
    assert_near(rms_norm(np.array(row), weight, epsilon)[0], true)


@pytest.mark.parametrize("position", [0, 1, 7, 1000, 100_000])
def test_sinusoids_and_rotary(position):
    """An angle of n radians is known to n ulp.

    So its sine and cosine, and what they rotate, are good to 4e-16 (1 + n), absolutely.
    """
    width = 8
    frequencies = [mpmath.mpf(10000) ** (-mpmath.mpf(k) / width) for k in range(0, width, 2)]
    angles = [position * f for f in frequencies]
    cosines, sines = [mpmath.cos(t) for t in angles], [mpmath.sin(t) for t in angles]
    absolute = np.array([4e-16 * (1 + float(t)) for t in angles])
    table = F.sinusoidal_positions(np.array([position]), width)[0]
    assert_near(table[0::2], sines, 8, absolute)
    assert_near(table[1::2], cosines, 8, absolute)

    x = np.array([[1e4, -1.0, 5e-324, 3.0, -1e4, 1e-310, 0.0, 3.0]])
    y = F.rotary(x, *F.rotary_angles(position, position + 1, width))[0][0]
    a, b = ([exact(v) for v in half] for half in (x[0, :4], x[0, 4:]))
    absolute = 4 * absolute * np.hypot(x[0, :4], x[0, 4:])
    assert_near(y[:4], [u * c - w * s for u, w, c, s in zip(a, b, cosines, sines)], 8, absolute)
    assert_near(y[4:], [u * s + w * c for u, w, c, s in zip(a, b, cosines, sines)], 8, absolute)
