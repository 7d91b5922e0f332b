"""Score functions of attention: additive, dot, general and scaled dot."""

import numpy as np
import pytest

from numformer import functional as F


def test_every_score_equals_its_definition(rng):
    shapes = (2, 3, 4), (2, 5, 4), (4,), (4, 4)
    q, k, v, weight = (rng.standard_normal(shape) for shape in shapes)
    for b, i, j in np.ndindex(2, 3, 5):
        query, key = q[b, i], k[b, j]
        for (scores, _), wanted in (
                (F.additive_scores(q, k, v), v @ np.tanh(query + key)),
                (F.dot_scores(q, k), query @ key), (F.scaled_dot_scores(q, k), query @ key / 2),
                (F.general_scores(q, k, weight), query @ weight @ key)):
            assert scores[b, i, j] == pytest.approx(wanted, rel=1e-13)


@pytest.mark.parametrize("call, error, words", [
    (lambda q: F.additive_scores(q, q, np.ones(3)), ValueError,
     "additive_scores: v must have shape (A,) with A=4"),
    (lambda q: F.additive_scores(q, q[..., :2], np.ones(4)), ValueError, "A=4"),
    (lambda q: F.additive_scores(q.astype(np.float32), q, np.ones(4)), TypeError, "k is float64"),
    (lambda q: F.dot_scores(q, q[:1]), ValueError, "B=2"),
    (lambda q: F.dot_scores(q, q[..., :2]), ValueError, "D=4"),
    (lambda q: F.dot_scores([[1.0]], q), TypeError, "array of floats"),
    (lambda q: F.scaled_dot_scores(q[..., :0], q[..., :0]), ValueError, "no coordinates"),
    (lambda q: F.general_scores(q, q, np.ones((3, 4))), ValueError, "C=3"),
    (lambda q: F.general_scores(q, q, np.ones((4, 3))), ValueError, "K=3")])
def test_arrays_that_do_not_fit_are_refused(call, error, words):
    with pytest.raises(error) as caught:
        call(np.ones((2, 3, 4)))
    assert words in str(caught.value)
