"""Scenes: two to four digits on a canvas, with a box around each; by rule, no files."""

from typing import NamedTuple

import numpy as np

from numformer.checks import check_generator, check_whole
from numformer.data.batches.batch import Batch
from numformer.functional import IGNORE_INDEX
from numformer.seeds import NOISE, branch

MOST = 4                                                              # digits in a scene
SHARED = 12                                                           # pixels two digits may share
TRIES = 200


class Scenes(NamedTuple):
    """Images with the objects in them.

    Parameters
    ----------
    images : ndarray of float32, shape (N, size, size, 1)
    boxes : ndarray of float32, shape (N, 4, 4)
        Of up to four digits: cx, cy, width, height of their ink, as parts of the image.
    labels : ndarray of int64, shape (N, 4)
        0 to 9; `IGNORE_INDEX` where a scene has fewer digits.
    """

    images: np.ndarray
    boxes: np.ndarray
    labels: np.ndarray


def digit_scenes(digits, labels, n, rng, size=24):
    """Canvases with two to four digits each, which may overlap a little.

    Squares of two digits share at most 12 of their 64 pixels; where they do, the darker ink counts.

    Parameters
    ----------
    digits : ndarray, shape (M, 8, 8, 1)
        Images to paste, such as those of `load_digits`.
    labels : ndarray of int, shape (M,)
    n : int
        N, how many scenes.
    rng : numpy.random.Generator
    size : int
        Height and width of the canvas, at least 20: then four digits always fit.

    Returns
    -------
    Scenes

    Raises
    ------
    ValueError, TypeError
        If a number is out of range, or rng is no generator.

    Examples
    --------
    >>> digits = np.ones((10, 8, 8, 1), np.float32)
    >>> scenes = digit_scenes(digits, np.arange(10), 20, np.random.default_rng(0))
    >>> scenes.images.shape, sorted(set((scenes.labels >= 0).sum(axis=1).tolist()))
    ((20, 24, 24, 1), [2, 3, 4])
    >>> (scenes.boxes[0, 0, 2:] * 24).tolist()
    [8.0, 8.0]
    """
    check_whole("digit_scenes", "n", n)
    check_whole("digit_scenes", "size", size, least=20)
    check_generator("digit_scenes", rng, optional=False)
    images = np.zeros((n, size, size, 1), np.float32)
    boxes, found = np.zeros((n, MOST, 4), np.float32), np.full((n, MOST), IGNORE_INDEX)
    for i in range(n):
        corners = _corners(int(rng.integers(2, MOST + 1)), size, rng)
        for k, (row, column) in enumerate(corners):
            chosen = int(rng.integers(len(labels)))
            part = images[i, row:row + 8, column:column + 8]
            np.maximum(part, digits[chosen], out=part)
            rows, columns = np.nonzero(digits[chosen][..., 0])
            lower = np.array([column + columns.min(), row + rows.min()])
            upper = np.array([column + columns.max(), row + rows.max()]) + 1
            boxes[i, k] = np.concatenate([(lower + upper) / 2, upper - lower]) / size
            found[i, k] = labels[chosen]
    return Scenes(images, boxes, found)


def _corners(n, size, rng):
    """Upper left corners of n squares of 8 x 8 that share few pixels."""
    while True:
        corners = []
        for row, column in rng.integers(0, size - 7, (TRIES, 2)):
            if all(max(0, 8 - abs(row - r)) * max(0, 8 - abs(column - c)) <= SHARED
                   for r, c in corners):
                corners.append((int(row), int(column)))
                if len(corners) == n:
                    return corners


class SceneStream:
    """Batches of new `digit_scenes` without end: a pure function of the seed and the step.

    Parameters
    ----------
    digits, labels, size
        As in `digit_scenes`.
    batch_size, seed : int

    Examples
    --------
    >>> stream = SceneStream(np.ones((3, 8, 8, 1), np.float32), np.arange(3), 4, seed=0)
    >>> images, boxes, targets = stream.batch(7)
    >>> images.shape, bool((stream.batch(7).images == images).all())
    ((4, 24, 24, 1), True)
    """

    def __init__(self, digits, labels, batch_size, seed, size=24, dtype="float32"):
        check_whole("SceneStream", "batch_size", batch_size)
        check_whole("SceneStream", "seed", seed, least=0)
        self.digits, self.labels, self.size, self.dtype = digits, labels, size, dtype
        self.batch_size, self.seed = batch_size, seed

    def batch(self, step):
        """The `Batch` of a step: images, boxes and targets, the labels."""
        rng = branch(self.seed, NOISE, step)
        return scene_batch(digit_scenes(self.digits, self.labels, self.batch_size, rng, self.size),
                           self.dtype)


def scene_batch(scenes, dtype="float32"):
    """A `Batch` of scenes: every object is a target."""
    return Batch(images=scenes.images.astype(dtype), boxes=scenes.boxes.astype(dtype),
                 targets=scenes.labels)
