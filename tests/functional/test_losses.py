"""Cross-entropy: the plain pair, its options, and what it refuses."""

import numpy as np
import pytest

from numformer import functional as F


def test_cross_entropy_is_the_mean_of_the_targets_that_count(rng):
    logits, targets = rng.standard_normal((2, 3, 5)), np.array([[1, -100, 4], [0, 0, -100]])
    log_p = np.log(np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True))
    terms = [-log_p[b, t, targets[b, t]] for b in range(2) for t in range(3) if targets[b, t] >= 0]
    assert abs(F.cross_entropy(logits, targets)[0] - np.mean(terms)) < 1e-14


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_without_options_it_is_the_plain_pair_to_the_bit(dtype, rng):
    logits, targets = rng.standard_normal((4, 3, 5)).astype(dtype), rng.integers(0, 5, (4, 3))
    loss, saved = F.cross_entropy(logits, targets)
    plain, saved_plain = F.softmax_cross_entropy(logits, targets)
    assert loss == plain and loss.dtype == dtype
    gradient = F.cross_entropy_backward(0.7, saved)
    assert np.array_equal(gradient, F.softmax_cross_entropy_backward(0.7, saved_plain))
    assert gradient.dtype == dtype


def test_label_smoothing_and_z_loss_by_their_definition(rng):
    logits, targets = rng.standard_normal((4, 5)), np.array([1, 0, 4, 4])
    lse = np.log(np.exp(logits).sum(axis=-1))
    q = 0.7 * np.eye(5)[targets] + 0.3 / 5
    expected = (-(q * (logits - lse[:, None])).sum(axis=-1) + 0.2 * lse ** 2).mean()
    loss, _ = F.cross_entropy(logits, targets, label_smoothing=0.3, z_loss=0.2)
    assert abs(loss - expected) < 1e-14


def test_ignored_targets_have_no_gradient(rng):
    logits, targets = rng.standard_normal((3, 5)), np.array([1, -100, 2])
    _, saved = F.cross_entropy(logits, targets, label_smoothing=0.1)
    gradient = F.cross_entropy_backward(1.0, saved)
    assert (gradient[1] == 0).all() and (gradient[0] != 0).all()


def test_one_class_has_no_loss():
    loss, saved = F.cross_entropy(np.array([[3.0], [4.0]]), np.array([0, -100]))
    assert loss == 0 and (F.cross_entropy_backward(1.0, saved) == 0).all()


def test_one_pair_has_no_contrastive_loss():
    loss, saved = F.contrastive_loss(np.array([[3.0]]))
    assert loss == 0 and (F.contrastive_loss_backward(1.0, saved) == 0).all()


def test_the_contrastive_loss_is_the_mean_of_both_directions(rng):
    logits, pairs = rng.standard_normal((4, 4)), np.arange(4)
    expected = (F.cross_entropy(logits, pairs)[0] + F.cross_entropy(logits.T, pairs)[0]) / 2
    assert F.contrastive_loss(logits)[0] == pytest.approx(expected, rel=1e-14)
    assert F.contrastive_loss(1000 * np.eye(3))[0] == 0


@pytest.mark.parametrize("logits, error, words", [
    (np.zeros((2, 3)), ValueError, "(N, N)"), (np.zeros((0, 0)), ValueError, "(0, 0)"),
    (np.zeros(4), ValueError, "(4,)"), (np.zeros((2, 2), int), TypeError, "floats")])
def test_logits_that_are_no_square_are_refused(logits, error, words):
    with pytest.raises(error) as caught:
        F.contrastive_loss(logits)
    assert words in str(caught.value) and str(caught.value).startswith("contrastive_loss: ")


def test_the_distance_of_equal_vectors_is_0():
    a, n = np.array([[1.0, 2.0]]), np.array([[1.0, 2.25]])
    assert F.triplet_loss(a, a, n, margin=0.5)[0] == 0.25
    assert F.triplet_loss(a, n, a, margin=0.5)[0] == 0.75


def test_a_triplet_that_just_keeps_the_margin_has_no_gradient():
    a, p, n = np.array([[0.0, 0.0]]), np.array([[3.0, 4.0]]), np.array([[0.0, 5.5]])
    for margin, active in ((0.5, False), (0.625, True)):
        loss, saved = F.triplet_loss(a, p, n, margin)
        assert loss == margin - 0.5
        assert [bool(dx.any()) for dx in F.triplet_loss_backward(1.0, saved)] == 3 * [active]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("which", range(3))
@np.errstate(invalid="ignore")
def test_a_vector_that_is_not_finite_has_a_loss_and_gradients_of_nan(which, bad):
    """A distance of NaN is not 0, and the margin does not hide that of a negative."""
    vectors = [np.array([[1.0, 2.0], [0.5, 1.0]]), np.ones((2, 2)), np.full((2, 2), 9.0)]
    vectors[which][0, 1] = bad
    loss, saved = F.triplet_loss(*vectors)
    gradients = F.triplet_loss_backward(1.0, saved)
    assert np.isnan(loss) and np.isnan(gradients[which][0]).all()
    assert all(np.isfinite(dx[1]).all() for dx in gradients)
    assert np.isnan(F.cosine_similarity(vectors[which], np.ones((3, 2)))[0][0]).all()


@pytest.mark.parametrize("logits, targets, options, error, words", [
    (np.zeros((2, 5)), np.array([0, 5]), {}, ValueError, "0 .. 4"),
    (np.zeros((2, 5)), np.array([0, -1]), {}, ValueError, "hold -1"),
    (np.zeros((2, 5)), np.array([0.0, 1.0]), {}, TypeError, "integers"),
    (np.zeros((2, 5)), np.array([0, 1, 2]), {}, ValueError, "shape (2,)"),
    (np.zeros((2, 5)), np.array([-100, -100]), {}, ValueError, "every target"),
    (np.zeros((2, 5), int), np.array([0, 1]), {}, TypeError, "floats"),
    (np.zeros((2, 5)), np.array([0, 1]), {"label_smoothing": 1.0}, ValueError, "label_smoothing"),
    (np.zeros((2, 5)), np.array([0, 1]), {"z_loss": -1.0}, ValueError, "z_loss")])
def test_bad_input_is_named(logits, targets, options, error, words):
    with pytest.raises(error) as caught:
        F.cross_entropy(logits, targets, **options)
    assert words in str(caught.value) and str(caught.value).startswith("cross_entropy: ")
    if not options and "every" not in words:
        with pytest.raises(error, match="softmax_cross_entropy: "):
            F.softmax_cross_entropy(logits, targets)
