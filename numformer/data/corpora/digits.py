"""Digits drawn by rule: 2,000 grey images of 8 x 8 pixels, the same bytes on every machine.

A pen follows the strokes of a digit over a bitmap of 32 x 32 dots. The points between the strokes
move at random; so do the slant, the size and the place of a digit, the width of its pen and the
edge of its ink. A pixel is the number of dots with ink in a square of 4 x 4: a grey level from 0 to
16, as in the digits of Alpaydin and Kaynak (1998). All arithmetic is of integers, so no rounding
differs between machines.
"""

from functools import cache
from typing import NamedTuple

import numpy as np

TRAINING, TEST = 1500, 500                                            # images
WAYS = (                                              # to write each digit, 0 to 9: strokes, each
    ("40 21 13 16 28 49 68 76 73 61 40", "50 31 23 26 38 58 66 63 51 30"),       # points in column
    ("23 50 59", "50 49", "23 40 49 29 69"),                                     # and row, 0 to 9
    ("12 30 51 62 53 35 17 09 39 69", "12 30 60 72 64 37 18 38 57 38 59 79"),
    ("11 30 60 72 64 44 64 76 68 49 29 18", "10 40 70 53 43 64 76 58 39 18"),
    ("40 26 15 45 75|53 56 59", "20 23 15 45 75|60 63 66 69"),
    ("70 40 20 24 43 64 76 68 49 18", "60 20 13 43 65 67 49 18"),
    ("60 32 15 17 29 59 77 65 44 16", "50 23 16 39 69 77 55 26"),
    ("11 40 70 54 39", "10 40 70 54 39|24 64"),
    ("61 40 21 23 44 66 68 49 28 26 44 63 61", "40 22 44 67 49 17 44 62 40"),
    ("64 35 23 21 40 61 64 67 59", "73 54 23 21 50 71 73 76 58 29"),
)
# In units, of which an image is 256 wide, a pixel 32 and a dot 8
DOTS = np.arange(4, 256, 8)                                           # centres of 32 dots
STEP = 24                                                             # of the grid of points
JITTER = 18                                                           # of a point, at most
SHIFT = 16                                                            # of a digit, at most
RADIUS = 10, 22                                                       # of the pen
ROUGHNESS = 75                                                        # of its square, at each dot
# In 256ths
STRETCH, SLANT, TILT = 48, 80, 45


class Digits(NamedTuple):
    """Images of digits with their labels: a training set and a test set.

    Parameters
    ----------
    train_images, test_images : ndarray of float32, shapes (1500, 8, 8, 1) and (500, 8, 8, 1)
        How dark each pixel is, 0 to 1.
    train_labels, test_labels : ndarray of int64, shapes (1500,) and (500,)
        0 to 9.
    """

    train_images: np.ndarray
    train_labels: np.ndarray
    test_images: np.ndarray
    test_labels: np.ndarray


def load_digits():
    """The digits: 150 images of each to train on, and 50 others of each to test.

    Returns
    -------
    Digits

    Examples
    --------
    >>> digits = load_digits()
    >>> digits.train_images.shape, digits.test_images.shape, digits.test_labels[:8]
    ((1500, 8, 8, 1), (500, 8, 8, 1), array([0, 1, 2, 3, 4, 5, 6, 7]))
    """
    return Digits(*(array.copy() for array in _drawn()))


@cache
def _drawn():
    rng = np.random.default_rng(0)
    labels = np.arange(TRAINING + TEST) % 10
    images = np.stack([_draw(label, rng) for label in labels])[..., None]       # (N, 8, 8, 1)
    images = (images / 16).astype(np.float32)                         # exact
    return images[:TRAINING], labels[:TRAINING], images[TRAINING:], labels[TRAINING:]


def _draw(label, rng):
    """Grey levels (8, 8), 0 to 16, of a digit."""
    ways = WAYS[label]
    strokes = ways[rng.integers(len(ways))].split("|")
    turn = np.array([[256 + _around(STRETCH, rng), _around(SLANT, rng)],
                     [_around(TILT, rng), 256 + _around(STRETCH, rng)]])
    shift = 128 + _around(SHIFT, rng, 2)
    path = np.concatenate([_path(stroke, turn, shift, rng) for stroke in strokes])    # (P, 2)
    columns, rows = (DOTS - path.T[..., None]).astype(np.int32)**2    # (P, 32)
    distance = (rows[:, :, None] + columns[:, None]).min(axis=0)      # (32, 32), squared
    reach = rng.integers(RADIUS[0], RADIUS[1] + 1)**2 + _around(ROUGHNESS, rng, distance.shape)
    return (distance <= reach).reshape(8, 4, 8, 4).sum(axis=(1, 3))


def _path(stroke, turn, shift, rng):
    """Where the pen is (P, 2): on lines between points, eight steps each."""
    points = np.array([[int(column), int(row)] for column, row in stroke.split()])
    points = STEP * points - [4 * STEP, 9 * STEP // 2]                # around the centre
    points = (points + _around(JITTER, rng, points.shape)) @ turn.T // 256 + shift
    start, line = points[:-1, None], np.diff(points, axis=0)[:, None]
    return (start + line * np.arange(9)[:, None] // 8).reshape(-1, 2)


def _around(most, rng, size=None):
    """Random integers from -most to most."""
    return rng.integers(-most, most + 1, size)
