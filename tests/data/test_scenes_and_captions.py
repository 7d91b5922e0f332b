"""Digits on a canvas: where they may be, how much they may share, their boxes; and captions."""

import numpy as np
import pytest

from numformer.data import (
    PHRASINGS, SceneStream, all_captions, digit_caption, digit_scenes, scene_batch)
from numformer.data.corpora.scenes import SHARED
from numformer.functional import box_corners


def corners_of(scenes, size):
    """Upper left and lower right corners of each scene's digits in pixels, (M, 4)."""
    for boxes, labels in zip(scenes.boxes, scenes.labels):
        yield np.rint(box_corners(boxes[labels >= 0])[0] * size).astype(int)


def test_digits_are_anywhere_and_share_few_pixels(rng):
    digits = np.ones((1, 8, 8, 1), np.float32)
    shared, seen = set(), []
    for corners in corners_of(digit_scenes(digits, np.array([3]), 2000, rng), 24):
        seen.extend(corners[:, :2].tolist())
        for n, (x0, y0, x1, y1) in enumerate(corners):
            for a0, b0, a1, b1 in corners[:n]:
                shared.add(max(0, min(x1, a1) - max(x0, a0)) * max(0, min(y1, b1) - max(y0, b0)))
    assert {x for x, _ in seen} == {y for _, y in seen} == set(range(17))
    assert {area for area in shared if area <= 8} >= {0, 1, 2, 4, 8}
    assert max(shared) == SHARED, "as many as are allowed, and no more"


def test_a_box_is_as_large_as_the_ink(rng):
    """The digit fills rows 1 to 6 and columns 2 to 4 of its eight."""
    digits = np.zeros((1, 8, 8, 1), np.float32)
    digits[0, 1:7, 2:5] = 1
    scenes = digit_scenes(digits, np.array([3]), 50, rng, size=20)
    assert scenes.images.shape == (50, 20, 20, 1)
    for image, corners in zip(scenes.images, corners_of(scenes, 20)):
        inside = np.zeros((20, 20), bool)
        for x0, y0, x1, y1 in corners:
            assert (x1 - x0, y1 - y0) == (3, 6)
            inside[y0:y1, x0:x1] = True
        np.testing.assert_array_equal(image[..., 0] > 0, inside)


def test_wrong_scenes_are_refused(rng):
    digits, labels = np.ones((1, 8, 8, 1), np.float32), np.array([3])
    with pytest.raises(ValueError, match="size=19 must be a whole number, 20 or more"):
        digit_scenes(digits, labels, 1, rng, size=19)
    with pytest.raises(TypeError, match="rng"):
        digit_scenes(digits, labels, 1, None)


def test_a_step_is_made_of_its_own_random_numbers(rng):
    digits, labels = rng.random((5, 8, 8, 1), np.float32), np.arange(5)
    expected = scene_batch(digit_scenes(digits, labels, 3, np.random.default_rng([7, 4, 11])))
    found = SceneStream(digits, labels, 3, seed=7).batch(11)
    for name in ("images", "boxes", "targets"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


def test_every_digit_has_every_phrasing_in_words_and_figures():
    captions = all_captions()
    assert len(set(captions)) == len(captions) == 10 * len(PHRASINGS) * 2
    assert {digit_caption(9, PHRASINGS[3]), digit_caption(9, PHRASINGS[3], True)} == {
        "this is a nine", "this is a 9"} < set(captions)
    with pytest.raises(ValueError, match="digit_caption: label"):
        digit_caption(10, PHRASINGS[0])
