"""Power laws and scaling laws are found again from points that they made."""

import numpy as np
import pytest

from numformer.analysis import ScalingLaw, fit_scaling_law, power_law

N, D = (x.ravel() for x in np.meshgrid([1e4, 3e4, 1e5, 3e5], [1e5, 3e5, 1e6, 3e6], indexing="ij"))
LAW = ScalingLaw(1.2, 60.0, 300.0, 0.45, 0.5)


@pytest.mark.slow
def test_a_law_is_found_from_its_losses():
    found = fit_scaling_law(N, D, LAW.loss(N, D))
    assert found.loss(1e6, 1e7) == pytest.approx(LAW.loss(1e6, 1e7), rel=1e-4)
    assert found.alpha == pytest.approx(0.45, rel=0.02)
    assert found.beta == pytest.approx(0.5, rel=0.02)
    assert found.limit == pytest.approx(1.2, rel=0.01)


@pytest.mark.slow
def test_one_run_that_went_wrong_changes_little():
    losses = LAW.loss(N, D)
    losses[5] *= 1.5
    found = fit_scaling_law(N, D, losses)
    assert found.loss(1e6, 1e7) == pytest.approx(LAW.loss(1e6, 1e7), rel=0.02)


def test_scipy_curve_fit_agrees():
    optimize = pytest.importorskip("scipy.optimize")
    rng = np.random.default_rng(0)
    losses = LAW.loss(N, D) * np.exp(1e-5 * rng.standard_normal(N.shape))

    def law(x, *parts):
        return ScalingLaw(*parts).loss(*x)

    parts, _ = optimize.curve_fit(law, (N, D), losses, p0=LAW)
    assert fit_scaling_law(N, D, losses).loss(3e6, 3e7) == pytest.approx(
        law((3e6, 3e7), *parts), rel=2e-3)


@pytest.mark.parametrize("arguments, words", [
    ((N[:4], D[:4], N[:4]), "5 or more"), ((N, D, N[:5]), "shapes"), ((N, D, 0 * N), "losses"),
    ((N, D, np.full(16, np.nan)), "losses"), ((0 * N + 5, D, N), "both must vary"),
    ((N, -D, N), "tokens")])
def test_runs_that_do_not_fit_are_named(arguments, words):
    with pytest.raises(ValueError, match=words):
        fit_scaling_law(*arguments)


def test_a_power_law_is_the_slope_on_logarithmic_axes():
    x = np.array([2.0, 5.0, 11.0])
    assert power_law(x, 7 * x ** -1.5) == pytest.approx((7, -1.5))
    assert power_law(x, [3, 3, 3]) == pytest.approx((3, 0))
    for wrong in (([1], [2]), ([1, 1], [2, 3]), ([1, 2], [0, 3]), ([1, 2], [1, 2, 3])):
        with pytest.raises(ValueError, match="power_law"):
            power_law(*wrong)
