"""Point clouds by rule: points on the surfaces of shapes, in no order."""

import numpy as np

from numformer.checks import check_generator, check_whole

SHAPES = "ball", "box", "cylinder", "cone", "ring", "pyramid"
NOISE, LEAST, MOST = 0.05, 0.6, 1.4                                   # of a point; of an axis
THICKNESS = 0.35                                                      # radius of a ring's tube


def shape_points(labels, n_points, rng):
    """Sample points on shapes of a random size, direction and order, with some noise.

    Every shape fits a box from -1 to 1, is stretched along each axis by a random factor, and turned
    about the third axis.

    Parameters
    ----------
    labels : ndarray of int, shape (N,)
        Numbers of `SHAPES`.
    n_points : int
        T, of each cloud.
    rng : numpy.random.Generator

    Returns
    -------
    ndarray, shape (N, T, 3)

    Raises
    ------
    ValueError, TypeError
        If there are no points, a label is no number of a shape, or rng is no generator.

    Examples
    --------
    >>> clouds = shape_points(np.array([0, 4]), 100, np.random.default_rng(0))
    >>> clouds.shape, bool(np.abs(clouds[1, :, 2]).max() < 0.7)       # a ring is flat
    ((2, 100, 3), True)
    """
    check_whole("shape_points", "n_points", n_points)
    check_generator("shape_points", rng, optional=False)
    if not ((0 <= labels) & (labels < len(SHAPES))).all():
        raise ValueError(f"shape_points: labels must be 0 to {len(SHAPES) - 1}, the numbers of "
                         f"SHAPES, but are {np.unique(labels).tolist()}.")
    clouds = np.stack([SURFACES[SHAPES[label]](n_points, rng) for label in labels])
    clouds *= rng.uniform(LEAST, MOST, (len(labels), 1, 3))
    angle = rng.uniform(0, 2 * np.pi, len(labels))
    turn = np.zeros((len(labels), 3, 3))
    turn[:, 0, 0] = turn[:, 1, 1] = np.cos(angle)
    turn[:, 0, 1], turn[:, 1, 0], turn[:, 2, 2] = np.sin(angle), -np.sin(angle), 1
    return clouds @ turn + NOISE * rng.standard_normal(clouds.shape)


def _ball(n, rng):
    x = rng.standard_normal((n, 3))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def _box(n, rng):
    x = rng.uniform(-1, 1, (n, 3))
    x[np.arange(n), rng.integers(0, 3, n)] = rng.choice([-1.0, 1.0], n)
    return x


def _circle(n, rng):
    angle = rng.uniform(0, 2 * np.pi, n)
    return np.stack([np.cos(angle), np.sin(angle)], axis=1)


def _disc(n, rng):
    return np.sqrt(rng.random((n, 1))) * _circle(n, rng)


def _cylinder(n, rng):
    """Two thirds on the side, the others on both ends."""
    height, end = rng.uniform(-1, 1, n), rng.choice([-1.0, 1.0], n)
    side = rng.random(n) < 2 / 3
    flat = np.where(side[:, None], _circle(n, rng), _disc(n, rng))
    return np.column_stack([flat, np.where(side, height, end)])


def _cone(n, rng):
    """The tip is above; two thirds on the side, the others on the base."""
    down = np.sqrt(rng.random(n))                                     # from the tip, 0 to 1
    side = rng.random(n) < 2 / 3
    flat = np.where(side[:, None], down[:, None] * _circle(n, rng), _disc(n, rng))
    return np.column_stack([flat, np.where(side, 1 - 2 * down, -1)])


def _ring(n, rng):
    around = THICKNESS * _circle(n, rng)
    flat = (1 - THICKNESS + around[:, :1]) * _circle(n, rng)
    return np.column_stack([flat, around[:, 1]])


def _pyramid(n, rng):
    """As a cone, with a square base."""
    down, edge = np.sqrt(rng.random(n)), rng.uniform(-1, 1, (n, 2))
    side, base = rng.random(n) < 2 / 3, edge.copy()
    edge[np.arange(n), rng.integers(0, 2, n)] = rng.choice([-1.0, 1.0], n)
    flat = np.where(side[:, None], down[:, None] * edge, base)
    return np.column_stack([flat, np.where(side, 1 - 2 * down, -1)])


SURFACES = {"ball": _ball, "box": _box, "cylinder": _cylinder, "cone": _cone, "ring": _ring,
            "pyramid": _pyramid}
