"""Boxes in images: centre and size or corners, and how much two boxes overlap.

A box is four numbers on the last axis, x before y: (cx, cy, width, height), or the corners
(x0, y0, x1, y1) with x0 <= x1 and y0 <= y1. Any unit of length will do.
"""

import numpy as np

from numformer.checks import check_array
from numformer.functional.scaling import rescaled


def box_corners(boxes):
    r"""The corners of boxes that are given by centre and size.

    .. math:: y = [\, c - s / 2,\; c + s / 2 \,], \qquad x = [\, c,\; s \,]

    Parameters
    ----------
    boxes : ndarray, shape (..., 4)
        x: cx, cy, width, height.

    Returns
    -------
    corners : ndarray, shape (..., 4)
        x0, y0, x1, y1.
    saved : tuple
        For `box_corners_backward`.

    Raises
    ------
    ValueError, TypeError
        If the last axis does not hold four floats.

    References
    ----------
    Carion et al. (2020), "End-to-End Object Detection with Transformers", section 3.1.

    Examples
    --------
    >>> box_corners(np.array([5.0, 3.0, 4.0, 2.0]))[0]
    array([3., 2., 7., 4.])
    """
    check_array("box_corners", "boxes", boxes, "(..., coordinates)", coordinates=4)
    centre, size = boxes[..., :2], boxes[..., 2:]
    corners = np.concatenate([centre - size / 2, centre + size / 2], axis=-1)

    saved = ()
    return corners, saved


def box_corners_backward(dcorners, saved):
    r"""The gradient of `box_corners`: both corners move with the centre, and apart with the size.

    .. math:: \bar{c} = \bar{y}_0 + \bar{y}_1, \qquad \bar{s} = (\bar{y}_1 - \bar{y}_0) / 2

    Returns
    -------
    dboxes : ndarray, shape (..., 4)
    """
    dlower, dupper = dcorners[..., :2], dcorners[..., 2:]

    # corners = [centre - size / 2, centre + size / 2]
    return np.concatenate([dlower + dupper, (dupper - dlower) / 2], axis=-1)


def box_centres(corners):
    """Centre and size of boxes (..., 4) that are given by their corners: undoes `box_corners`.

    Examples
    --------
    >>> box_centres(np.array([3.0, 2.0, 7.0, 4.0]))
    array([5., 3., 4., 2.])
    """
    check_corners("box_centres", "corners", corners)
    lower, upper = corners[..., :2], corners[..., 2:]
    return np.concatenate([(lower + upper) / 2, upper - lower], axis=-1)


def box_iou(a, b):
    """Intersection over union of every box of one set and every box of another.

    Parameters
    ----------
    a : ndarray, shape (N, 4)
        Corners.
    b : ndarray, shape (M, 4)

    Returns
    -------
    ndarray, shape (N, M)
        0 to 1; 0 for two boxes without area.

    Raises
    ------
    ValueError, TypeError
        If the arrays are not corners of boxes.

    Examples
    --------
    >>> box_iou(np.array([[0.0, 0.0, 2.0, 2.0]]), np.array([[1.0, 0.0, 3.0, 2.0]])).round(3)
    array([[0.333]])
    """
    for name, boxes in (("a", a), ("b", b)):
        check_array("box_iou", name, boxes, "(N, coordinates)", coordinates=4)
        check_corners("box_iou", name, boxes)
    a, b, _ = _rescaled(a[:, None], b[None])
    (inner, union, _), _ = _areas(a, b)
    return inner / np.where(union == 0, 1, union)


def generalized_iou(a, b):
    r"""Intersection over union of pairs of boxes, less the share of empty space around them.

    .. math:: g = \frac{I}{U} - \frac{E - U}{E}

    where I is the area of the intersection, U that of the union, and E that of the smallest box
    that holds both. For boxes that do not meet, I is 0 wherever they are, and only the second term
    has a gradient: it moves them together. g is 1 for equal boxes, and above -1.

    Parameters
    ----------
    a, b : ndarray, shape (..., 4)
        Corners x0, y0, x1, y1, of the same shape.

    Returns
    -------
    g : ndarray, shape (...)
        A quotient of areas that are both 0 counts as 0.
    saved : tuple
        For `generalized_iou_backward`.

    Raises
    ------
    ValueError, TypeError
        If shapes differ, or a box ends before it begins.

    References
    ----------
    Rezatofighi et al. (2019), "Generalized Intersection over Union".

    Examples
    --------
    >>> a = np.array([[0.0, 0.0, 2.0, 2.0], [0.0, 0.0, 1.0, 1.0]])
    >>> b = np.array([[1.0, 0.0, 3.0, 2.0], [3.0, 0.0, 4.0, 1.0]])
    >>> generalized_iou(a, b)[0].round(3)           # half of each is common; a gap of two
    array([ 0.333, -0.5  ])
    """
    check_array("generalized_iou", "a", a, "(..., coordinates)", coordinates=4)
    check_array("generalized_iou", "b", b, "(..., coordinates)", a.dtype, coordinates=4)
    if a.shape != b.shape:
        raise ValueError(f"generalized_iou: a {a.shape} and b {b.shape} must have the same shape, "
                         "as boxes are compared in pairs.")
    check_corners("generalized_iou", "a", a)
    check_corners("generalized_iou", "b", b)
    a, b, scale = _rescaled(a, b)
    (inner, union, outer), sides = _areas(a, b)
    iou = inner / np.where(union == 0, 1, union)
    g = iou - np.where(outer == 0, 0, (outer - union) / np.where(outer == 0, 1, outer))

    saved = (a, b, scale, inner, union, outer, sides)
    return g, saved


def generalized_iou_backward(dg, saved):
    r"""The gradient of `generalized_iou`: through three areas to the corners.

    .. math::

        \bar{I} = \bar{g} \left( \tfrac1U + \tfrac{I}{U^2} - \tfrac1E \right), \qquad
        \bar{A} = \bar{g} \left( \tfrac1E - \tfrac{I}{U^2} \right), \qquad
        \bar{E} = - \bar{g}\, \tfrac{U}{E^2}

    with U = A + B - I, where A and B are the areas of the boxes, and B gets what A gets. The
    gradient of an area with respect to one side is the other side. Of two equal corners, that of a
    gets the gradient.

    Returns
    -------
    da, db : ndarray, shape (..., 4)
    """
    a, b, scale, inner, union, outer, (inner_sides, a_sides, b_sides, outer_sides) = saved
    dg = np.asarray(dg)

    # g = inner / union + union / outer - 1; over areas of 0 all quotients are 0
    outer = np.where(outer == 0, np.inf, outer)
    douter = -dg * union / outer / outer
    union = np.where(union == 0, np.inf, union)
    dunion = dg * (1 / outer - inner / union / union)

    # union = area of a + area of b - inner
    dinner = dg / union - dunion
    da_sides = dunion[..., None] * a_sides[..., ::-1]
    db_sides = dunion[..., None] * b_sides[..., ::-1]
    dinner_sides = dinner[..., None] * inner_sides[..., ::-1]
    douter_sides = douter[..., None] * outer_sides[..., ::-1]

    # inner_sides = max(0, least(a1, b1) - greatest(a0, b0))
    dinner_sides = np.where(_inner_sides(a, b).real > 0, dinner_sides, 0)

    # sides = upper - lower; a part of a corner's gradient goes to a or to b, whichever it was
    a_is_later = (a.real >= b.real)                                   # (..., 4)
    later, earlier = a_is_later, ~a_is_later | (a.real == b.real)     # a is the max; a is the min
    da = np.concatenate([-da_sides - np.where(later[..., :2], dinner_sides, 0)
                         - np.where(earlier[..., :2], douter_sides, 0),
                         da_sides + np.where(earlier[..., 2:], dinner_sides, 0)
                         + np.where(later[..., 2:], douter_sides, 0)], axis=-1)
    db = np.concatenate([-db_sides - np.where(later[..., :2], 0, dinner_sides)
                         - np.where(earlier[..., :2], 0, douter_sides),
                         db_sides + np.where(earlier[..., 2:], 0, dinner_sides)
                         + np.where(later[..., 2:], 0, douter_sides)], axis=-1)
    return da / scale, db / scale


def check_corners(owner, name, corners):
    """Check that no box ends before it begins."""
    check_array(owner, name, corners, "(..., coordinates)", coordinates=4)
    wrong = corners[..., 2:].real < corners[..., :2].real
    if wrong.any():
        index = tuple(int(i) for i in np.argwhere(wrong)[0][:-1])
        raise ValueError(f"{owner}: {name} must be corners x0 <= x1 and y0 <= y1, but hold "
                         f"{corners[index].real.tolist()} at index {index}; convert centres and "
                         "sizes with box_corners.")


def _rescaled(a, b):
    """Both boxes of each pair divided by one scale for x and one for y, and the scales, (..., 4).

    They change no quotient of areas.
    """
    larger = np.where(abs(a.real) >= abs(b.real), a, b)
    corners = larger.reshape(*larger.shape[:-1], 2, 2)               # (..., corner, axis)
    scale = np.asarray(rescaled(corners, axis=-2)[1], corners.real.dtype)      # 1, as a rule
    scale = np.broadcast_to(scale, corners.shape).reshape(larger.shape)
    return a / scale, b / scale, scale


def _inner_sides(a, b):
    """Width and height of the intersection, (..., 2); below 0 where there is a gap."""
    lower = np.where(a[..., :2].real >= b[..., :2].real, a[..., :2], b[..., :2])
    upper = np.where(a[..., 2:].real <= b[..., 2:].real, a[..., 2:], b[..., 2:])
    return upper - lower


def _areas(a, b):
    """Areas of intersection, union and enclosing box; and the sides that they come from."""
    inner_sides = _inner_sides(a, b)
    inner_sides = np.where(inner_sides.real > 0, inner_sides, 0)      # (..., 2)
    lower = np.where(a[..., :2].real <= b[..., :2].real, a[..., :2], b[..., :2])
    upper = np.where(a[..., 2:].real >= b[..., 2:].real, a[..., 2:], b[..., 2:])
    sides = inner_sides, a[..., 2:] - a[..., :2], b[..., 2:] - b[..., :2], upper - lower
    inner, of_a, of_b, outer = (side[..., 0] * side[..., 1] for side in sides)
    return (inner, of_a + of_b - inner, outer), sides
