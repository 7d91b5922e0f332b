"""The error measures: what cannot be compared is infinitely far, and passes no bound."""

import numpy as np
import pytest

from numformer.verify.audit import _row
from numformer.verify.compiled import _error
from numformer.verify.errors import (
    jacobian_scale, largest, largest_difference, largest_magnitude, relative_distance,
    relative_error)
from numformer.verify.report import Report, Row
from numformer.verify.rounding import gradient_noise

NAN, INF = np.nan, np.inf
COMPARERS = {
    "relative_error": lambda a, b: largest(relative_error(a, b, largest_magnitude({"": b}))),
    "largest_difference": largest_difference,
    "relative_distance": lambda a, b: relative_distance({"x": a}, {"x": b}),
    "compiled": _error,
}
ONES = np.ones(3)
INCOMPARABLE = {
    "NaN in the result": (np.array([1, NAN, 1]), ONES), "NaN first": (np.array([NAN, 1, 1]), ONES),
    "NaN in the reference": (ONES, np.array([1, NAN, 1])),
    "NaN in both": (np.array([1, NAN, 1]), np.array([1, NAN, 1])),
    "Inf and Inf": (np.array([1, INF, 1]), np.array([1, INF, 1])),
    "Inf and -Inf": (np.array([1, INF, 1]), np.array([1, -INF, 1])),
    "Inf in the result": (np.array([1, INF, 1]), ONES),
    "Inf in the reference": (np.array([1, 2, 1]), np.array([1, INF, 1])),
    "shapes that broadcast": (ONES[:1], ONES), "a number for an array": (np.float64(1), ONES),
    "a column for a row": (ONES[:, None], ONES), "too few": (ONES[:2], ONES),
    "empty for one": (ONES[:0], ONES[:1]), "one for empty": (ONES[:1], ONES[:0]),
    "objects": (np.array([None, None, None]), ONES), "text": (np.array(["1", "1", "1"]), ONES),
}


@pytest.mark.parametrize("comparer", COMPARERS)
@pytest.mark.parametrize("case", INCOMPARABLE)
def test_what_cannot_be_compared_is_infinitely_far(comparer, case):
    assert COMPARERS[comparer](*INCOMPARABLE[case]) == INF


@pytest.mark.parametrize("comparer", COMPARERS)
@pytest.mark.parametrize("found, reference, least, most", [
    (ONES, ONES, 0, 0), (ONES[:0], ONES[:0], 0, 0), (np.zeros((2, 0)), np.zeros((2, 0)), 0, 0),
    (0.0, 0.0, 0, 0), (0 * ONES, 0 * ONES, 0, 0),
    (np.uint8([0, 9]), np.uint8([250, 9]), 0.9, 250),          # no 6, as in whole numbers
    (np.uint8([255]), np.int16([-1]), 200, 256), (np.array([True]), np.array([False]), 0.9, 1e999),
    (np.int64([-2**63]), np.int64([2**63 - 1]), 1.9, 2**65),
    (np.float32([1.5]), np.float64([1.5]), 0, 0), (np.float16([1]), np.float64([2]), 0.4, 1),
    (np.array([1 + 1j]), np.array([1.0]), 0.9, 1), ([-1.7e308], [1.7e308], 1.9, INF),
    ([0.0], [1.7e308], 0.9, 1.8e308), (5 * ONES, 0 * ONES, 5, 1e999)])
def test_numbers_of_any_type_are_compared_as_numbers(comparer, found, reference, least, most):
    assert least <= COMPARERS[comparer](np.asarray(found), np.asarray(reference)) <= most


def test_numbers_of_tests_that_are_nan_are_not_close():
    with pytest.raises(AssertionError):
        np.testing.assert_allclose([1, NAN], [1, NAN])
    np.testing.assert_allclose([1, NAN], [1, NAN], equal_nan=True)


def test_infinities_are_equal_only_where_the_caller_says_so():
    found, reference = np.array([INF, -INF, INF, 1]), np.array([INF, -INF, -INF, INF])
    assert np.isinf(relative_error(found, reference, 1.0)).all()
    assert np.array_equal(relative_error(found, reference, 1.0, equal_infinities=True),
                          [0, 0, INF, INF])
    assert relative_error(NAN, NAN, 1.0, equal_infinities=True) == INF


def test_an_infinite_number_hides_no_error_of_others():
    """With an infinite scale every other error would be x / Inf = 0."""
    assert np.isinf(relative_error([1.0, 2.0], [1.0, 2.5], INF)).all()
    assert np.isinf(relative_error([1.0, 2.0], [1.0, 2.5], NAN)).all()
    jacobian = np.array([[1.0, NAN], [INF, 2.0]])
    assert np.array_equal(jacobian_scale(jacobian, 1), [[1, 1], [1, 2]])
    assert largest_magnitude({"a": np.array([NAN, 3, -4]), "b": np.array([INF])}) == 4


def test_the_largest_of_errors_does_not_depend_on_their_order():
    assert largest([1.0, NAN]) == largest([NAN, 1.0]) == INF
    assert largest([]) == 0 and largest([0.5, 2]) == 2 and largest(np.array(3.0)) == 3
    rows = [Row(name, (), (), (), 0.0, 0.0, error) for name, error in (("a", 1e-20), ("b", NAN))]
    for order in (rows, rows[::-1]):
        report = Report("layer", 1e-12, rows=order)
        assert report.worst.tensor == "b" and not report.ok and "! b" in str(report)
    assert relative_distance({"x": ONES}, {"x": ONES, "y": ONES}) == INF


def test_an_audit_row_without_a_result_is_infinitely_wrong(monkeypatch):
    monkeypatch.setattr("numformer.verify.audit._jobs", lambda: [("a", "layer", lambda: 1 / 0)])
    assert _row(0)["max_error"] == INF and not _row(0)["ok"]


def test_noise_that_is_not_finite_explains_nothing():
    """Next to the inputs it overflows; an infinite allowance would pass every derivative."""
    class Edge:
        def forward(self, x):
            return x.copy(), x

        def backward(self, dy, x):
            return dy * (1.0 if (x == [1, 2]).all() else [INF, NAN])

        def named_parameters(self):
            return ()

    x = np.array([1.0, 2.0])
    assert not gradient_noise(Edge(), [x], None, np.ones(2), {"x": np.ones(2)})["x"].any()
