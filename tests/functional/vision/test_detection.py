"""Boxes, matching, the losses of DETR and average precision, against witnesses and by hand."""

from itertools import permutations

import numpy as np
import pytest

from numformer import functional as F
from numformer.analysis import average_precision, mean_average_precision
from numformer.data import digit_scenes
from numformer.models import DETR, DETRConfig


BOX, THREE = np.array([[0.0, 0, 1, 1]]), np.array([3])
FIND = np.ones(1), BOX


def boxes_of(rng, n):
    return np.concatenate([0.2 + 0.6 * rng.random((n, 2)), 0.1 + 0.3 * rng.random((n, 2))], axis=1)


def test_corners_and_centres_undo_each_other(rng):
    boxes = boxes_of(rng, 7)
    np.testing.assert_allclose(F.box_centres(F.box_corners(boxes)[0]), boxes, rtol=1e-12)


def test_overlaps_by_hand():
    a = np.array([[0.0, 0, 2, 2], [0, 0, 1, 1], [0, 0, 4, 4], [1, 1, 1, 1]])
    b = np.array([[0.0, 0, 2, 2], [2, 2, 3, 3], [1, 1, 3, 3], [1, 1, 1, 1]])
    assert F.box_iou(a, b).diagonal().tolist() == [1, 0, 0.25, 0]
    np.testing.assert_allclose(F.generalized_iou(a, b)[0], [1, -7 / 9, 0.25, 0])
    assert np.isfinite(F.generalized_iou_backward(np.ones(4), F.generalized_iou(a, b)[1])).all()


def test_the_matching_is_the_best_of_all_permutations(rng):
    for Q, M in ((4, 4), (5, 3), (6, 2), (3, 1)):
        logits, boxes, targets = rng.standard_normal((Q, 5)), boxes_of(rng, Q), boxes_of(rng, M)
        labels = rng.integers(0, 4, M)
        costs = F.matching_costs(logits, boxes, labels, targets)
        chosen = F.match_objects(logits, boxes, labels, targets)
        assert len(set(chosen.tolist())) == M
        best = min(costs[list(rows), range(M)].sum() for rows in permutations(range(Q), M))
        np.testing.assert_allclose(costs[chosen, range(M)].sum(), best, rtol=1e-12)


@pytest.mark.parametrize("call, error, words", [
    (lambda: F.match_objects(np.zeros((1, 3)), np.ones((1, 4)), np.array([0, 1]), np.ones((2, 4))),
     ValueError, "more queries"),
    (lambda: F.generalized_iou(np.array([[1.0, 0, 0, 1]]), np.zeros((1, 4))), ValueError,
     "x0 <= x1"),
    (lambda: F.generalized_iou(np.zeros((2, 4)), np.zeros((1, 4))), ValueError, "same shape"),
    (lambda: F.match_objects(np.zeros((2, 3)), np.ones((2, 4)), np.zeros(0), np.ones((0, 4))),
     TypeError, "labels must be an array of integers"),
    (lambda: F.box_corners(np.zeros((2, 3))), ValueError, "coordinates=4"),
    (lambda: F.weighted_cross_entropy(np.zeros((1, 2)), np.array([0]), np.array([0.0, 1.0])),
     ValueError, "above 0 for some target"),
    (lambda: F.weighted_cross_entropy(np.zeros((1, 2)), np.array([0]), np.array([1.0, np.nan])),
     ValueError, "0 or more"),
    (lambda: average_precision([], [np.zeros((1, 4))]), ValueError, "every image"),
    (lambda: average_precision([FIND], [BOX], overlap=1.5), ValueError, "overlap=1.5 .* at most 1"),
    (lambda: average_precision([(np.zeros((1, 2)), np.zeros((1, 2, 4)))], [BOX]), ValueError,
     r"of image 0 must have shapes \(N,\) and \(N, 4\)"),
    (lambda: average_precision([FIND, (np.array([np.nan]), BOX)], 2 * [BOX]), ValueError,
     "score of image 1 is NaN"),
    (lambda: mean_average_precision([(THREE, *FIND)], [(np.array([0]), BOX)], 3), ValueError,
     "labels of found must lie in 0 .. 2"),
    (lambda: mean_average_precision([(np.array([0]), *FIND)], [(THREE, BOX)], 3), ValueError,
     "labels of objects must lie in 0 .. 2"),
    (lambda: mean_average_precision([], [], 0), ValueError, "n_classes=0")])
def test_bad_calls_are_refused(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_without_objects_nothing_is_matched_and_the_loss_of_boxes_is_zero():
    none = np.zeros((0, 4), np.float32)
    chosen = F.match_objects(np.zeros((2, 3)), np.ones((2, 4)), np.zeros(0, int), none)
    assert chosen.shape == (0,) and chosen.dtype.kind == "i"
    loss, saved = F.box_loss(none, none)
    assert loss == 0 and loss.dtype == np.float32
    assert F.box_loss_backward(1.0, saved).shape == (0, 4)


@pytest.mark.parametrize("dtype, huge", [(np.float32, 1e36), (np.float64, 1e305)])
def test_costs_that_are_not_finite_are_the_largest(rng, dtype, huge):
    """Predictions with finite costs are chosen first; if there are too few, any other."""
    boxes, targets = boxes_of(rng, 4).astype(dtype), boxes_of(rng, 2).astype(dtype)
    logits, labels = rng.standard_normal((4, 3)).astype(dtype), np.array([0, 1])
    logits[0], boxes[2], boxes[1, :2] = np.nan, np.inf, huge
    with np.errstate(invalid="ignore", over="ignore"):
        assert sorted(F.match_objects(logits, boxes, labels, targets)) == [1, 3]
        logits[:], boxes[:] = np.nan, np.nan
        assert len(set(F.match_objects(logits, boxes, labels, targets).tolist())) == 2


def test_average_precision_by_hand():
    box, far = np.array([[0.0, 0, 1, 1]]), np.array([[5.0, 5, 6, 6]])
    both = np.concatenate([box, far])
    assert average_precision([(np.array([0.9, 0.8]), both)], [both]) == 1
    assert average_precision([(np.array([0.9]), box)], [both]) == 0.5
    assert average_precision([(np.array([0.9, 0.8]), np.repeat(box, 2, 0))], [box]) == 1
    # right, wrong, right: 1 / 2 + 1 / 2 * 2 / 3
    three = np.concatenate([box, box + 20, far])
    found = average_precision([(np.array([0.9, 0.8, 0.7]), three)], [both])
    np.testing.assert_allclose(found, 1 / 2 + 1 / 3)
    assert average_precision([(np.zeros(0), np.zeros((0, 4)))], [box]) == 0
    assert np.isnan(average_precision([(np.zeros(0), np.zeros((0, 4)))], [np.zeros((0, 4))]))
    wrong_label = mean_average_precision([(np.array([1]), np.ones(1), box)],
                                         [(np.array([0]), box)], 2)
    assert wrong_label == 0
    nothing = np.zeros(0, int), np.zeros((0, 4))
    assert np.isnan(mean_average_precision([(np.array([1]), np.ones(1), box)], [nothing], 2))


def test_average_precision_of_scikit_learn_has_no_envelope(rng):
    """So it is the same where precision never rises again: all right finds come first."""
    metrics = pytest.importorskip("sklearn.metrics")
    for n_right, n_wrong in ((3, 2), (1, 4), (5, 0)):
        boxes = np.arange(n_right)[:, None] * 10.0 + np.array([0.0, 0, 1, 1])
        found = np.concatenate([boxes, 500 + boxes[:1].repeat(n_wrong, 0)])
        scores = np.sort(rng.random(len(found)))[::-1]
        right = np.arange(len(found)) < n_right
        np.testing.assert_allclose(average_precision([(scores, found)], [boxes]),
                                   metrics.average_precision_score(right, scores))


def test_scenes_hold_their_digits(rng):
    digits = rng.random((20, 8, 8, 1)).astype(np.float32)
    images, boxes, labels = digit_scenes(digits, np.arange(20) % 10, 30, rng)
    corners = np.rint(F.box_corners(boxes)[0] * 24).astype(int)
    for image, its_corners, its_labels in zip(images, corners, labels):
        real = its_labels != F.IGNORE_INDEX
        inside = np.zeros(image.shape[:2], bool)
        for x0, y0, x1, y1 in its_corners[real]:
            inside[y0:y1, x0:x1] = True
        assert 2 <= real.sum() <= 4 and not image[~inside].any() and image[inside].all()


def test_an_auxiliary_loss_is_added_for_every_block(rng):
    sizes = dict(image_size=4, patch_size=2, channels=1, n_classes=3, n_queries=4, n_heads=2,
                 d_model=8, encoder_layers=1, decoder_layers=3)
    model = DETR(DETRConfig(**sizes), rng)
    alone = DETR(DETRConfig(**sizes, auxiliary_losses=False), rng)
    alone.load_state_dict(model.state_dict())
    batch = (rng.random((2, 4, 4, 1), np.float32), boxes_of(rng, 4).reshape(2, 2, 4),
             np.array([[0, 1], [2, F.IGNORE_INDEX]]))
    last = alone.loss(batch)[0]
    np.testing.assert_allclose(model.evaluation_loss(batch), last, rtol=1e-5)
    assert model.loss(batch)[0] > 2 * last > 0


# ---- PyTorch -------------------------------------------------------------------------------------


def test_the_box_loss_equals_that_of_transformers(rng):
    torch = pytest.importorskip("torch")
    published = pytest.importorskip("transformers.loss.loss_for_object_detection")
    boxes, targets = boxes_of(rng, 6), boxes_of(rng, 6)
    b = torch.tensor(boxes, requires_grad=True)
    corners = torch.cat([b[:, :2] - b[:, 2:] / 2, b[:, :2] + b[:, 2:] / 2], dim=1)
    overlap = published.generalized_box_iou(corners,
                                            torch.tensor(F.box_corners(targets)[0])).diagonal()
    expected = 5 * (b - torch.tensor(targets)).abs().sum() / 6 + 2 * (1 - overlap).sum() / 6
    expected.backward()
    loss, saved = F.box_loss(boxes, targets)
    np.testing.assert_allclose(loss, expected.item(), rtol=1e-12)
    np.testing.assert_allclose(F.box_loss_backward(1.0, saved), b.grad.numpy(), rtol=1e-10)


def test_the_matching_equals_that_of_transformers(rng):
    torch = pytest.importorskip("torch")
    published = pytest.importorskip("transformers.loss.loss_for_object_detection")
    matcher = published.HungarianMatcher(class_cost=1, bbox_cost=5, giou_cost=2)
    for _ in range(5):
        logits, boxes = rng.standard_normal((8, 4)), boxes_of(rng, 8)
        labels, targets = rng.integers(0, 3, 4), boxes_of(rng, 4)
        (queries, objects), = matcher(
            {"logits": torch.tensor(logits)[None], "pred_boxes": torch.tensor(boxes)[None]},
            [{"class_labels": torch.tensor(labels), "boxes": torch.tensor(targets)}])
        chosen = F.match_objects(logits, boxes, labels, targets)
        assert chosen[objects.numpy()].tolist() == queries.tolist()
