"""Distillation losses: their properties, and PyTorch's as a witness."""

import mpmath
import numpy as np
import pytest

from numformer import functional as F


def test_a_student_that_predicts_as_its_teacher_has_no_loss_and_no_gradient(rng):
    s = rng.standard_normal((2, 3, 5))
    t = s + rng.standard_normal((2, 3, 1))                            # softmax does not see this
    loss, saved = F.distillation_loss(s, t, temperature=2.0)
    assert abs(loss) < 1e-15
    assert np.abs(F.distillation_loss_backward(1.0, saved)).max() < 1e-15


def test_at_a_high_temperature_logits_are_compared_as_they_are(rng):
    """Hinton et al. (2015), eq. 4: the gradient goes to (s - t) / V of centred logits."""
    s, t = rng.standard_normal((2, 4, 6))
    s, t = (x - x.mean(axis=1, keepdims=True) for x in (s, t))
    _, saved = F.distillation_loss(s, t, temperature=1e4)
    expected = (s - t) / 6 / 4                                        # a mean over 4 vectors
    np.testing.assert_allclose(F.distillation_loss_backward(1.0, saved), expected, rtol=1e-2,
                               atol=1e-5)


def test_a_certain_teacher_gives_the_cross_entropy(rng):
    s, y = rng.standard_normal((4, 6)), np.array([0, 5, 2, 2])
    t = np.where(np.arange(6) == y[:, None], 0.0, -1e3)
    assert F.distillation_loss(s, t)[0] == pytest.approx(F.softmax_cross_entropy(s, y)[0])


def test_it_is_a_mean_over_all_vectors_of_logits(rng):
    s, t = rng.standard_normal((2, 2, 3, 5))
    flat = F.distillation_loss(s.reshape(6, 5), t.reshape(6, 5), 2.0)[0]
    assert F.distillation_loss(s, t, 2.0)[0] == pytest.approx(flat, rel=1e-14) and flat > 0.1


def test_the_teacher_may_have_another_precision(rng):
    s, t = rng.standard_normal((3, 4)).astype(np.float32), rng.standard_normal((3, 4))
    for function, backward in ((F.distillation_loss, F.distillation_loss_backward),
                               (F.imitation_loss, F.imitation_loss_backward)):
        loss, saved = function(s, t)
        assert loss.dtype == backward(1.0, saved).dtype == np.float32


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_class_that_the_teacher_excludes_adds_nothing(dtype):
    """p log p is 0 for p = 0, whether the student excludes the class or not."""
    t = np.array([[0.0, 1.0, -np.inf]], dtype)
    for of_class, expected in ((-np.inf, 0.46212), (-2.0, 0.49787)):
        loss, saved = F.distillation_loss(np.array([[1.0, 0.0, of_class]], dtype), t)
        q = np.exp([1.0, 0.0, of_class]) / np.exp([1.0, 0.0, of_class]).sum()
        p = np.exp(t[0]) / np.exp(t[0]).sum()
        assert loss == pytest.approx(expected, abs=5e-6)
        np.testing.assert_allclose(F.distillation_loss_backward(1.0, saved)[0], q - p,
                                   atol=4 * np.finfo(dtype).eps)
    s = np.array([[1.0, -np.inf, 0.0]], dtype)
    assert F.distillation_loss(s, t)[0] == np.inf, "the teacher finds likely what q excludes"
    for k in (0, 1):
        both = [s.copy(), t.copy()]
        both[k][0, 0] = np.nan
        loss, saved = F.distillation_loss(*both)
        assert np.isnan(loss) and np.isnan(F.distillation_loss_backward(1.0, saved)).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("temperature", [0.3, 3.0, 1e2, 1e4])
def test_the_rounding_of_a_temperature_is_that_of_the_table(temperature, dtype):
    """Compared with arithmetic of 60 digits."""
    s, t = np.random.default_rng(1).standard_normal((2, 1, 3)).astype(dtype)
    with mpmath.workdps(60):
        T = mpmath.mpf(temperature)
        q, p = ([mpmath.exp(float(z) / T) for z in logits[0]] for logits in (s, t))
        q, p = ([each / sum(e) for each in e] for e in (q, p))
        expected = float(T * T * sum(a * mpmath.log(a / b) for a, b in zip(p, q)))
        gradient = np.array([float(T * (b - a)) for a, b in zip(p, q)])
    loss, saved = F.distillation_loss(s, t, temperature)
    rounding = 4 * np.finfo(dtype).eps
    assert loss.dtype == dtype and abs(loss - expected) <= rounding * max(1, temperature ** 2)
    difference = F.distillation_loss_backward(1.0, saved)[0] - gradient
    assert abs(difference).max() <= rounding * max(1, temperature)


@pytest.mark.parametrize("function", [F.distillation_loss, F.imitation_loss])
def test_wrong_arguments_are_refused(function):
    with pytest.raises(ValueError, match=r"shape \(2, 3\), but the teacher's \(2, 4\)"):
        function(np.ones((2, 3)), np.ones((2, 4)))
    with pytest.raises(ValueError, match="empty"):
        function(np.ones((0, 3)), np.ones((0, 3)))
    with pytest.raises(TypeError, match="teacher"):
        function(np.ones((2, 3)), np.ones((2, 3), int))


@pytest.mark.parametrize("temperature", [0, -1.0, float("inf")])
def test_a_temperature_is_above_0(temperature):
    with pytest.raises(ValueError, match="temperature"):
        F.distillation_loss(np.ones((2, 3)), np.ones((2, 3)), temperature)
