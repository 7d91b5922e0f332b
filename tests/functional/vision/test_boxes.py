"""Overlaps of boxes and their gradients: random boxes, batches, ties, borders, areas of 0."""

import numpy as np
import pytest

from numformer import functional as F


def corners_of(rng, *shape):
    """Boxes of all kinds: apart, overlapping, one within the other."""
    return F.box_corners(np.concatenate([rng.random((*shape, 2)),
                                         0.02 + rng.random((*shape, 2))], axis=-1))[0]


def complex_step(a, b, dg):
    """The gradients of (g * dg).sum() with respect to a and b."""
    gradients = []
    for n in range(2):
        gradient = np.empty(a.shape)
        for index in np.ndindex(a.shape):
            pair = [a.astype(complex), b.astype(complex)]
            pair[n][index] += 1e-30j
            gradient[index] = (F.generalized_iou(*pair)[0].imag / 1e-30 * dg).sum()
        gradients.append(gradient)
    return gradients


def test_the_gradient_of_many_pairs_of_boxes(rng):
    a, b, dg = corners_of(rng, 100), corners_of(rng, 100), rng.standard_normal(100)
    for found, expected in zip(F.generalized_iou_backward(dg, F.generalized_iou(a, b)[1]),
                               complex_step(a, b, dg)):
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


def test_more_axes_change_nothing(rng):
    """A box alone, and boxes with two axes before the coordinates."""
    a, b = corners_of(rng, 2, 3), corners_of(rng, 2, 3)
    g, saved = F.generalized_iou(a, b)
    da, db = F.generalized_iou_backward(np.ones((2, 3)), saved)
    for index in np.ndindex(2, 3):
        alone, saved_alone = F.generalized_iou(a[index], b[index])
        assert g[index] == alone
        for found, gradient in zip(F.generalized_iou_backward(1.0, saved_alone), (da, db)):
            np.testing.assert_array_equal(found, gradient[index])


@pytest.mark.parametrize("a, b", [
    ([0.0, 0, 2, 2], [0.0, 0, 2, 2]),                       # equal
    ([0.0, 0, 2, 2], [0.0, 0, 3, 1]),                       # a common corner
    ([0.0, 0, 3, 1], [1.0, 0, 3, 2]),
    ([0.0, 0, 1, 2], [1.0, 1, 2, 3]),                       # they touch: no intersection moves
    ([1.0, 2, 3, 3], [0.0, 0, 2, 2])])
def test_of_equal_corners_that_of_a_gets_the_gradient(a, b):
    a, b = np.array(a), np.array(b)
    found = F.generalized_iou_backward(1.0, F.generalized_iou(a, b)[1])
    np.testing.assert_allclose(found, complex_step(a, b, 1.0), rtol=1e-12, atol=1e-14)


def test_areas_of_one_and_of_zero():
    """Quotients of areas that are 0 count as 0, and only those."""
    a, b = np.array([[0.0, 0, 0.5, 1]]), np.array([[0.5, 0, 1, 0.5]])
    np.testing.assert_allclose(F.generalized_iou(a, b)[0], [-0.25])       # (1 - 3 / 4) / 1
    np.testing.assert_allclose(F.generalized_iou(2 * a, 2 * b)[0], [-0.25])
    point, line = np.array([[1.0, 1, 1, 1]]), np.array([[1.0, 1, 1, 2]])
    assert F.generalized_iou(point, line)[0] == 0 and F.box_iou(point, line) == 0
    assert F.generalized_iou(point, a)[0] == -0.5           # E = 1, U = 1 / 2


def test_the_wrong_box_is_named():
    boxes = np.zeros((2, 3, 4))
    boxes[1, 2] = 0, 3, 1, 2
    with pytest.raises(ValueError, match=r"hold \[0.0, 3.0, 1.0, 2.0\] at index \(1, 2\)"):
        F.box_centres(boxes)


def test_costs_of_matching_by_hand():
    """5 of the L1 distance, 1 of the probability, 2 of the overlap, as in the paper."""
    logits, labels = np.log([[0.7, 0.2, 0.1], [0.5, 0.25, 0.25]]), np.array([1])
    boxes, target = np.array([[0.5, 0.5, 0.2, 0.2], [0.6, 0.5, 0.2, 0.2]]), np.array(
        [[0.5, 0.5, 0.2, 0.2]])
    expected = [[-0.2 - 2], [5 * 0.1 - 0.25 - 2 / 3]]
    np.testing.assert_allclose(F.matching_costs(logits, boxes, labels, target), expected)


def test_the_box_loss_adds_two_terms_by_their_weights(rng):
    boxes, targets = (F.box_centres(corners_of(rng, 5)) for _ in range(2))
    boxes[0] = targets[0]                                   # no distance, and no gradient of it
    boxes[1, 2:] = targets[1, 2:]
    distance, saved = F.box_loss(boxes, targets, giou_weight=0)
    np.testing.assert_allclose(distance, np.abs(boxes - targets).sum() / 5 * 5)
    np.testing.assert_allclose(F.box_loss_backward(1.0, saved), np.sign(boxes - targets))
    overlap, _ = F.box_loss(boxes, targets, l1_weight=0)
    g, _ = F.generalized_iou(F.box_corners(boxes)[0], F.box_corners(targets)[0])
    np.testing.assert_allclose(overlap, 2 * (1 - g).mean())
    np.testing.assert_allclose(F.box_loss(boxes, targets, 0.5, 0.25)[0],
                               0.1 * distance + 0.125 * overlap)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_each_axis_may_have_its_own_unit(dtype, rng):
    """A box of 1e30 x 1e-30 has an area of 1, but squares of neither side are in range."""
    long = np.array([[0, 0, 1e30, 1e-30], [1e-30, -1e30, 3e-30, 1e30]], dtype)
    assert F.box_iou(long, long).diagonal().tolist() == [1, 1]
    a, b = corners_of(rng, 2, 9).astype(dtype)
    units, dg = np.array([2.0 ** 100, 2.0 ** -100] * 2, dtype), np.ones(9, dtype)
    g, saved = F.generalized_iou(a, b)
    found, saved_found = F.generalized_iou(a * units, b * units)
    np.testing.assert_allclose(found, g, rtol=1e-6)
    np.testing.assert_allclose(F.box_iou(a * units, b * units), F.box_iou(a, b), rtol=1e-6)
    for dx, expected in zip(F.generalized_iou_backward(dg, saved_found),
                            F.generalized_iou_backward(dg, saved)):
        np.testing.assert_allclose(dx * units, expected, rtol=1e-5, atol=1e-6)
        assert dx.dtype == dtype
