"""The range of every function: from the smallest denormal to what PRECISION.md states.

The witness is the reference in long doubles, whose exponents reach 4932: squares, exponentials and
products that leave the range of float64 are ordinary numbers there. The allowed error is that of
inputs which are rounded once (two random roundings), and 64 ulp of the largest result. A true
result beyond the largest number over 64 may become Inf or NaN, as a term of its sum may be larger.
"""

import re
from pathlib import Path

import mpmath
import numpy as np
import pytest
import scipy.special

from marks import every
from numformer import backend
from numformer import functional as F
from numformer.specifications import PROBLEMS
from numformer.specifications.edges import EDGES

LONG = np.longdouble
TEXT = (Path(F.__file__).parent / "PRECISION.md").read_text()
TABLE = re.findall(r"^\| (`[^|]*`|all others) \| ([^|]*) \| ([^|]*) \| ([^|]*) \|$", TEXT,
                   re.MULTILINE)
RANGES = {name.strip("`"): row for names, *row in TABLE for name in names.split(", ")}
ROOTS = {"max": 1, "max^(1/2)": 2, "max^(1/3)": 3, "max^(1/4)": 4, "max^(1/5)": 5, "1": np.inf}
AT_LIMITS = {*EDGES, "numbers of 1e150", "unlikely targets", "rows far apart", "scores near 1000"}
VERSIONS = {"reference": F, "compiled": backend}

pytestmark = pytest.mark.skipif(np.finfo(LONG).maxexp < 16000, reason="needs long doubles")


@pytest.fixture(autouse=True)
def erfc_of_long_doubles(monkeypatch):
    known = scipy.special.erfc

    def exact(x):
        if x > 105 or x < -10:                       # e^-11000, and 2 to the last bit
            return LONG(0 if x > 0 else 2)
        with mpmath.workdps(25):
            return LONG(mpmath.nstr(mpmath.erfc(mpmath.mpf(str(x))), 22))

    monkeypatch.setattr(scipy.special, "erfc", lambda x: (
        np.vectorize(exact, otypes=[LONG])(x) if x.dtype == LONG else known(x)))


def cast(x, dtype, wobble=None):
    """Floats of a dtype; each times 1 +- `wobble`'s ulp of the precision it names."""
    if isinstance(x, tuple):
        return tuple(cast(part, dtype, wobble) for part in x)
    if isinstance(x, np.random.Generator):
        return np.random.default_rng(5)
    if not isinstance(x, np.ndarray) or x.dtype.kind != "f":
        return x
    x = x.astype(dtype)
    if wobble:
        rng, precision = wobble
        x = x * (1 + LONG(np.finfo(precision).eps) * rng.choice([-1, 1], x.shape))
    return x


def flat(outputs):
    outputs = outputs if isinstance(outputs, (tuple, list)) else [outputs]
    return [np.asarray(y) for part in outputs if part is not None
            for y in (flat(part) if isinstance(part, (tuple, list)) else [part])]


def run(functions, name, given, options, dys, dtype, wobble=None):
    """(outputs, gradients) in a dtype."""
    y, saved = getattr(functions, name)(*cast(tuple(given.values()), dtype, wobble), **{
        key: cast(value, dtype, wobble) for key, value in options.items()})
    dys = cast(tuple(dys), dtype, wobble)
    dy = dys if isinstance(y, tuple) else dys[0] if np.shape(y) else dys[0][()]
    dy = float(dy) if not np.shape(y) and dtype != LONG and not isinstance(y, tuple) else dy
    return flat(y), flat(getattr(functions, f"{name}_backward")(dy, saved))


def sizes_of(dtype, root):
    """Magnitudes from the smallest denormal up to a root of the largest number, over 4096."""
    limits = np.finfo(dtype)
    tiny, largest = float(limits.tiny), float(limits.max)
    fixed = [float(limits.smallest_subnormal) * 8, tiny / 64, tiny * 16, tiny ** 0.75, tiny ** 0.5,
             tiny ** 0.25, 30.0, largest ** 0.25, largest ** 0.5 * 4, largest ** 0.75]
    return [1.0, *(s for s in fixed if s < (largest / 4096) ** (1 / root)),
            (largest / 4096) ** (1 / root)]


def wrong(found, true, allowed, dtype):
    largest = LONG(np.finfo(dtype).max)
    found = found.astype(LONG)
    right = (abs(found - true) <= allowed) | (found == true) | np.isnan(true)
    beyond = (abs(true) > largest / 64) & ~(abs(found) < largest / 65)
    return ~(right | beyond)


@np.errstate(all="ignore")
def faults(name, dtype, levels):
    """What is wrong, in words."""
    problem, found = PROBLEMS[name], []
    alone, together, error = RANGES.get(name, RANGES["all others"])
    for level in levels:
        for which, root in (("alone", alone), ("together", together), ("dy", "max")):
            natural = None
            for size in sizes_of(dtype, ROOTS[root]):
                given, options = problem.levels[level](np.random.default_rng(3))
                scaled = [key for key in given if key in problem.wanted]
                scaled = {"alone": scaled[:1], "together": scaled, "dy": []}[which]
                given = {key: x * size if key in scaled else x for key, x in given.items()}
                given, options = (cast_values(x, dtype) for x in (given, options))
                y, _ = getattr(F, name)(*cast(tuple(given.values()), LONG), **cast_values(
                    options, LONG))
                rng = np.random.default_rng(7)
                dys = [np.asarray((size if which == "dy" else 1) * (
                    rng.standard_normal(np.shape(part)) if np.shape(part) else 0.7)).astype(dtype)
                    for part in (y if isinstance(y, tuple) else (y,))]
                outputs, gradients = run(F, name, given, options, dys, LONG)
                true, spread = [*outputs, *gradients], 0
                natural = natural or [abs(t[np.isfinite(t)]).max(initial=0) for t in true]
                for _ in range(2):
                    moved = sum(run(F, name, given, options, dys, LONG, (rng, dtype)), [])
                    moved = [np.nan_to_num(abs(t - x)) for t, x in zip(true, moved)]
                    spread = moved if spread == 0 else list(map(np.maximum, spread, moved))
                for version, functions in VERSIONS.items():
                    if functions is backend and name not in COMPILED:
                        continue
                    results = sum(run(functions, name, given, options, dys, dtype), [])
                    for k, (x, t, s) in enumerate(zip(results, true, spread, strict=True)):
                        largest = min(abs(t[np.isfinite(t)]).max(initial=0),
                                      LONG(np.finfo(dtype).max))
                        if k >= len(outputs):
                            largest += natural[k] * (
                                min(1, 1 / LONG(size)) if error == "relative"
                                else max(1, LONG(size)) ** (len(given) * (which != "alone") + 1))
                        allowed = (64 * (s + LONG(np.finfo(dtype).eps) * largest)
                                   + 64 * LONG(np.finfo(dtype).smallest_subnormal))
                        if error == "relative" and dtype == np.float32 and version == "compiled":
                            allowed = allowed + LONG(1e-35)
                        bad = wrong(x, t, allowed, dtype)
                        if bad.any():
                            at = np.argmax(bad)
                            found.append(
                                f"{version} {name} [{level}], {which} {size:.0e}: result {k} is "
                                f"{x.ravel()[at]}, not {t.ravel()[at]}")
    return found


def cast_values(given, dtype):
    return {key: cast(x, dtype) for key, x in given.items()}


COMPILED = {*backend.compiled_versions(), "scaled_dot_product_attention"}


def test_the_table_names_functions():
    assert RANGES.keys() - {"all others"} < PROBLEMS.keys() and "all others" in RANGES


@pytest.mark.parametrize("dtype", every(2, [np.float32, np.float64]))
@pytest.mark.parametrize("name", PROBLEMS)
def test_range(name, dtype):
    plain = next(iter(PROBLEMS[name].levels))
    assert faults(name, dtype, [plain]) == []


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", PROBLEMS)
def test_range_of_options(name, dtype):
    levels = [level for level in PROBLEMS[name].levels
              if level not in AT_LIMITS and not level.endswith(
                  ("at the edges", "low scores", "large numbers"))]
    assert faults(name, dtype, levels) == []


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", sorted({*F.ACTIVATIONS, "swish"} - {"relu_squared"}))
def test_activations_and_slopes_at_the_ends(name, version, dtype):
    """0 and slope 0 far below 0, x and slope 1 far above; without a warning."""
    largest = np.finfo(dtype).max
    x = np.array([-np.inf, -largest, -1e20, 1e20, largest, np.inf], dtype)
    y, saved = getattr(VERSIONS[version], name)(x)
    np.testing.assert_array_equal(y, np.where(x > 0, x, 0))
    slope = getattr(VERSIONS[version], f"{name}_backward")(np.ones_like(x), saved)
    np.testing.assert_array_equal(slope, (x > 0).astype(dtype))
    nan = np.array([np.nan], dtype)
    assert np.isnan(getattr(VERSIONS[version], name)(nan)[0]).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("version", VERSIONS)
def test_masked_logits_are_minus_infinity(version, dtype):
    """Classes of -Inf have probability 0 and gradient 0, in every loss of logits."""
    logits = np.array([[1.0, -np.inf, 3.0], [-np.inf, 0.5, -1e4]], dtype)
    targets = np.array([0, 1])
    loss, saved = VERSIONS[version].cross_entropy(logits, targets, z_loss=0.1)
    dlogits = VERSIONS[version].cross_entropy_backward(1.0, saved)
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    lse = np.log(np.exp(logits.astype(LONG)).sum(axis=1))
    expected = (-np.log(p[[0, 1], targets]) + 0.1 * lse ** 2).mean()
    assert abs(loss - expected) < 8 * np.finfo(dtype).eps * expected
    assert (dlogits[np.isinf(logits)] == 0).all() and np.isfinite(dlogits).all()


def test_z_loss_does_not_depend_on_the_size_of_logits():
    """At 1e8 an ulp of float32 is 8: exp(logits - log-sum-exp) would sum to 7."""
    logits = np.float32(1e8) + np.float32(8) * np.arange(4, dtype=np.float32)[None]
    p = F.z_loss_backward(1.0, F.z_loss(logits)[1]) / (2 * logits.max())
    np.testing.assert_allclose(p, F.softmax(logits)[0], rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_code_that_is_named_is_the_nearest(dtype):
    """Of any size, and with any common part: no other code is nearer in long doubles."""
    rng = np.random.default_rng(5)
    z, e = rng.standard_normal((50, 8)), rng.standard_normal((30, 8))
    cases = [(z * size, e * size) for size in sizes_of(dtype, 1)]
    cases += [(z * size, e) for size in sizes_of(dtype, 1)] + [(z + 3e4, e), (1e-3 * z, e)]
    cases += [(z + common, e + common) for common in (1e3, -1e4, 1 / np.finfo(dtype).eps)]
    for z, e in cases:
        z, e = z.astype(dtype), e.astype(dtype)
        distances = ((z[:, None].astype(LONG) - e) ** 2).sum(axis=-1) ** 0.5
        ids = F.nearest_codes(z, e)
        found = distances[np.arange(len(z)), ids]
        allowed = 16 * np.finfo(dtype).eps * found + 16 * LONG(np.finfo(dtype).smallest_subnormal)
        assert (found <= distances.min(axis=1) + allowed).all()
