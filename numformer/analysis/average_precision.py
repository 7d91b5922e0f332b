"""Average precision: how well a detector ranks what it finds, and how completely it finds."""

import numpy as np

from numformer.checks import check_ids, check_number, check_whole
from numformer.functional import box_iou


def average_precision(found, objects, overlap=0.5):
    r"""Average precision of one class, over a set of images: the area under precision by recall.

    .. math:: AP = \sum_n (r_n - r_{n-1}) \max_{m \ge n} p_m

    Everything found in all images is sorted by its score, and p and r are precision and recall of
    the first n. A find is right if the object that it overlaps most has an intersection over union
    of at least `overlap`, and no find before it had the same object.

    Parameters
    ----------
    found : list of (scores, boxes)
        For each image, ndarrays (N,) and (N, 4); boxes are corners.
    objects : list of ndarray, shape (M, 4)
        For each image.
    overlap : float in (0, 1]

    Returns
    -------
    float
        0 to 1; NaN without objects.

    Raises
    ------
    ValueError
        If the two lists differ in length, overlap is not in (0, 1], an image has not as many boxes
        as scores, or one holds NaN.

    References
    ----------
    Everingham et al. (2010), "The PASCAL Visual Object Classes (VOC) Challenge", with the
    all-points interpolation that the challenge has used since 2010.

    Examples
    --------
    >>> box = np.array([[0.0, 0.0, 1.0, 1.0]])
    >>> twice = np.array([0.9, 0.8]), np.concatenate([box + 5, box])  # the surer one is wrong
    >>> average_precision([twice], [box])
    0.5
    """
    check_number("average_precision", "overlap", overlap, above=0)
    if overlap > 1:
        raise ValueError(f"average_precision: overlap={overlap!r} must be at most 1, the largest "
                         "intersection over union.")
    if len(found) != len(objects):
        raise ValueError(f"average_precision: finds of {len(found)} images came with objects of "
                         f"{len(objects)}; give both for every image.")
    for i, ((scores, boxes), its_objects) in enumerate(zip(found, objects)):
        if np.shape(boxes) != (*np.shape(scores), 4) or np.ndim(scores) != 1:
            raise ValueError(f"average_precision: scores and boxes of image {i} must have shapes "
                             f"(N,) and (N, 4), but have {np.shape(scores)} and {np.shape(boxes)}.")
        if np.isnan(boxes).any() or np.isnan(its_objects).any():
            raise ValueError(f"average_precision: a box of image {i} holds NaN, which overlaps "
                             "nothing; boxes must be numbers.")
        if np.isnan(scores).any():
            raise ValueError(f"average_precision: a score of image {i} is NaN, which has no place "
                             "in an order; scores must be numbers.")
    n_objects = sum(map(len, objects))
    if not n_objects:
        return float("nan")
    scores = np.concatenate([scores for scores, _ in found])
    image = np.repeat(np.arange(len(found)), [len(scores) for scores, _ in found])
    within = np.concatenate([np.arange(len(scores)) for scores, _ in found])
    overlaps = [box_iou(boxes, its_objects) for (_, boxes), its_objects in zip(found, objects)]
    taken = [np.zeros(len(its_objects), bool) for its_objects in objects]
    right = np.zeros(len(scores), bool)
    for n, find in enumerate(np.argsort(-scores, kind="stable")):
        i = image[find]
        if len(objects[i]):
            iou = overlaps[i][within[find]]
            best = iou.argmax()
            right[n] = iou[best] >= overlap and not taken[i][best]
            taken[i][best] |= right[n]
    precision = right.cumsum() / np.arange(1, len(right) + 1)
    envelope = np.maximum.accumulate(precision[::-1])[::-1]           # the best from here on
    return float((envelope * right).sum() / n_objects)


def mean_average_precision(found, objects, n_classes, overlap=0.5):
    """The mean of `average_precision` over the classes that have objects.

    Parameters
    ----------
    found : list of (labels, scores, boxes)
        For each image; boxes are corners.
    objects : list of (labels, boxes)
        For each image.
    n_classes : int
    overlap : float in (0, 1]

    Returns
    -------
    float
        NaN without objects.

    Raises
    ------
    ValueError, TypeError
        As `average_precision`; and if a label is not in 0 .. n_classes-1.

    Examples
    --------
    >>> box, label = np.array([[0.0, 0.0, 1.0, 1.0]]), np.array([1])
    >>> mean_average_precision([(label, np.ones(1), box)], [(label, box)], n_classes=3)
    1.0
    """
    check_whole("mean_average_precision", "n_classes", n_classes)
    for name, images in (("found", found), ("objects", objects)):
        for labels, *_ in images:
            check_ids("mean_average_precision", f"labels of {name}", labels, n_classes,
                      may_be_empty=True)
    if not any(len(labels) for labels, _ in objects):
        return float("nan")
    of_classes = [average_precision(
        [(scores[labels == c], boxes[labels == c]) for labels, scores, boxes in found],
        [boxes[labels == c] for labels, boxes in objects], overlap) for c in range(n_classes)]
    return float(np.nanmean(of_classes))
