"""The truth of the forward: float64 against arithmetic of 50 digits, at points that were chosen to hurt.

Errors are in ulp of the true value, and within 8 of them where the function itself asks for no more. Where a function
stretches the rounding of its argument, or takes a difference of nearly equal numbers, the bound says so here, and so does
the table "How exact" in the README.
"""

import mpmath
import numpy as np
import pytest

from numformer import functional as F

mpmath.mp.dps = 50
REAL = [-700.0, -100.0, -38.0, -37.0, -30.0, -10.0, -6.0, -5.0, -3.0, -2.0, -1.0, -1e-3, -1e-8, -1e-300, -1e-310, -5e-324, 0.0, 5e-324,
        1e-310, 1e-8, 0.5, 1.0, 3.0, 6.0, 10.0, 40.0, 700.0, 1e4]
SCORES = [[1e4, 9999.0, 9970.0, -1e4, 9999.3], [5e-324, 0.0, -5e-324], [0.1, 0.2, -745.0, -700.0, -36.0], [800.0, 0.0, -1e-3],
          [10000.0, 10001.0, 10002.0, 10003.0], [-1e4, -1e4, -1e4 - 1e-9], [0.0], [1e-310, 2e-310, 1.0]]
VECTORS = [[1.0, 2.0, 4.0], [0.1] * 7, [5e-324, 0.0, 1e-310], [1e4, 1e4 + 1e-3, 1e4 - 1e-3, 1e4], [1e150, -1e150, 2e149], [0.0] * 4,
           [3.0, 3.0 + 1e-9], [-1e-5, 2e-5, 1e-5]]


def exact(x):
    return mpmath.mpf(float(x))


def assert_near(found, truth, ulps=8.0, absolute=0.0):
    """|found - truth| <= ulps * ulp(truth) + absolute, for each of two rows; the bounds are numbers or rows."""
    ulps, absolute = np.broadcast_to(ulps, np.shape(found)), np.broadcast_to(absolute, np.shape(found))
    for x, true, most, more in zip(np.ravel(found), truth, np.ravel(ulps), np.ravel(absolute), strict=True):
        allowed = float(most) * float(np.spacing(abs(float(true)))) + float(more)
        assert abs(exact(x) - true) <= allowed, (float(x), float(true), float(abs(exact(x) - true)), allowed)


def test_sigmoid_silu_and_swish():
    x = np.array(REAL)
    assert_near(F.sigmoid(x)[0], [1 / (1 + mpmath.exp(-exact(v))) for v in REAL])
    assert_near(F.silu(x)[0], [exact(v) / (1 + mpmath.exp(-exact(v))) for v in REAL])
    assert_near(F.swish(x[6:], 0.5)[0], [exact(v) / (1 + mpmath.exp(-exact(v) / 2)) for v in REAL[6:]])


def test_gelu():
    """The left tail falls so steeply that the rounding of x / sqrt(2) alone is worth up to x^2 ulp."""
    truth = [exact(v) * mpmath.erfc(-exact(v) / mpmath.sqrt(2)) / 2 for v in REAL]
    assert_near(F.gelu(np.array(REAL))[0], truth, [8 + (v * v if -38 < v < 0 else 0) for v in REAL], absolute=1e-307)


def test_gelu_tanh():
    """1 + tanh(u) is a difference left of -1, as in the code that it stands for: good to 2e-16 |x| there."""
    def true(v):
        u = mpmath.sqrt(2 / mpmath.pi) * (v + mpmath.mpf("0.044715") * v ** 3)
        return v / 2 * (1 + mpmath.tanh(u))
    assert_near(F.gelu_tanh(np.array(REAL))[0], [true(exact(v)) for v in REAL], 8, [2e-16 * -v if v < -1 else 0 for v in REAL])


@pytest.mark.parametrize("row", SCORES)
def test_softmax_and_its_logarithm(row):
    """A weight e^-d of the largest feels the rounding of d: up to an ulp for each nat. A logarithm near 0 is good to 4e-16."""
    weights = [mpmath.exp(exact(v) - exact(max(row))) for v in row]
    total, distance = sum(weights), max(row) - np.array(row)
    assert_near(F.softmax(np.array(row))[0], [w / total for w in weights], 8 + distance)
    logarithms = [exact(v) - exact(max(row)) - mpmath.log(total) for v in row]
    assert_near(F.log_softmax(np.array(row))[0], logarithms, 8, 4e-16)


@pytest.mark.parametrize("row", SCORES)
@pytest.mark.parametrize("smoothing, z_loss", [(0.0, 0.0), (0.1, 0.0), (0.1, 1e-4)])
def test_cross_entropy(row, smoothing, z_loss):
    """Of each target; near 0 it is good to 4e-16, as the logarithm is."""
    top = exact(max(row))
    lse = top + mpmath.log(sum(mpmath.exp(exact(v) - top) for v in row))
    for target in range(len(row)):
        shares = [exact(smoothing) / len(row) + (1 - exact(smoothing)) * (k == target) for k in range(len(row))]
        true = sum(q * (lse - exact(v)) for q, v in zip(shares, row)) + exact(z_loss) * lse ** 2
        found, _ = F.cross_entropy(np.array([row]), np.array([target]), label_smoothing=smoothing, z_loss=z_loss)
        assert_near([found], [true], 8, 4e-16)


@pytest.mark.parametrize("row", VECTORS)
@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize("epsilon", [1e-5, 1e-12])
def test_norms(row, inside, epsilon):
    """x - mean cancels where a vector hardly varies: good to 8 ulp of the largest |x|, divided by the deviation like x itself."""
    C = len(row)
    gain, shift = np.linspace(0.5, 2, C), np.linspace(-1, 1, C)

    def reciprocal(square):
        return 1 / mpmath.sqrt(square + exact(epsilon)) if inside else 1 / (mpmath.sqrt(square) + exact(epsilon))

    x = [exact(v) for v in row]
    mean = sum(x) / C
    r = reciprocal(sum((v - mean) ** 2 for v in x) / C)
    truth = [exact(g) * (v - mean) * r + exact(s) for v, g, s in zip(x, gain, shift)]
    size = np.abs(gain) * np.abs(row).max() * float(r)
    # the deviation feels the cancellation too; subnormal numbers are multiples of 5e-324
    away = np.abs(np.array([float(v - mean) for v in x])) * float(r)
    absolute = 8 * np.finfo(float).eps * (size + np.abs(shift)) * (1 + away) + 8 * 5e-324 * float(r)
    assert_near(F.layer_norm(np.array(row), gain, shift, epsilon, inside)[0], truth, 8, absolute)
    r = reciprocal(sum(v ** 2 for v in x) / C)
    assert_near(F.rms_norm(np.array(row), gain, epsilon, inside)[0], [exact(g) * v * r for v, g in zip(x, gain)])


@pytest.mark.parametrize("position", [0, 1, 7, 1000, 100_000])
def test_sinusoids_and_rotary(position):
    """An angle of n radians is known to n ulp: its sine and cosine to 4e-16 (1 + n), absolutely, and so is what they turn."""
    width = 8
    frequencies = [mpmath.mpf(10000) ** (-mpmath.mpf(k) / width) for k in range(0, width, 2)]
    angles = [position * f for f in frequencies]
    absolute = np.array([4e-16 * (1 + float(a)) for a in angles])
    table = F.sinusoidal_positions(np.array([position]), width)[0]
    assert_near(table[0::2], [mpmath.sin(a) for a in angles], 8, absolute)
    assert_near(table[1::2], [mpmath.cos(a) for a in angles], 8, absolute)
    cosine, sine = F.rotary_angles(position, position + 1, width)
    x = np.array([[1e4, -1.0, 5e-324, 3.0, -1e4, 1e-310, 0.0, 3.0]])
    y = F.rotary(x, cosine, sine)[0][0]
    a, b = ([exact(v) for v in half] for half in (x[0, :4], x[0, 4:]))
    length = np.hypot(x[0, :4], x[0, 4:])
    assert_near(y[:4], [u * mpmath.cos(t) - w * mpmath.sin(t) for u, w, t in zip(a, b, angles)], 8, 4 * absolute * length)
    assert_near(y[4:], [u * mpmath.sin(t) + w * mpmath.cos(t) for u, w, t in zip(a, b, angles)], 8, 4 * absolute * length)
