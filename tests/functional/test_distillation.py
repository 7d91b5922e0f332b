"""Distillation losses: their properties, and PyTorch's as a witness."""

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
