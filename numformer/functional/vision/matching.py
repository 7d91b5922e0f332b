"""Bipartite matching: which prediction is compared with which object."""

import numpy as np

from numformer.checks import check_array, check_ids
from numformer.functional.softmax import softmax
from numformer.functional.vision.boxes import box_corners, generalized_iou


def match_objects(logits, boxes, labels, targets, class_weight=1.0, l1_weight=5.0, giou_weight=2.0):
    r"""Assign to every object of an image a prediction of its own, at the least cost in sum.

    .. math::

        \sigma = \arg\min_\sigma \sum_m C_{\sigma(m),\, m}, \qquad
        C_{nm} = - w_c\, p_n(y_m) + w_1 \lVert b_n - t_m \rVert_1 - w_g\, g(b_n, t_m)

    The choice is discrete: like that of the largest k, it has no gradient. The class enters as a
    probability, not as its logarithm, so that its cost is of the size of the others. A cost that is
    NaN or infinite counts as larger than all others, so the loss that is computed from the choice
    says what is not finite.

    Parameters
    ----------
    logits : ndarray, shape (Q, V)
        Of the classes of each of Q predictions; p is their softmax.
    boxes : ndarray, shape (Q, 4)
        b: cx, cy, width, height.
    labels : ndarray of int, shape (M,)
        y, with M at most Q; M = 0 for an image without objects.
    targets : ndarray, shape (M, 4)
        t, in the form of `boxes`.
    class_weight, l1_weight, giou_weight : float

    Returns
    -------
    ndarray of int, shape (M,)
        The prediction of every object; no prediction twice.

    Raises
    ------
    ValueError, TypeError
        If shapes do not fit, or there are more objects than predictions.

    References
    ----------
    Carion et al. (2020), "End-to-End Object Detection with Transformers", eq. 1 and appendix A.2.
    The weights are those of the published code. Kuhn (1955) for the algorithm, here that of SciPy.

    Examples
    --------
    >>> boxes = np.array([[0.2, 0.2, 0.1, 0.1], [0.7, 0.7, 0.2, 0.2], [0.5, 0.5, 0.1, 0.1]])
    >>> match_objects(np.zeros((3, 2)), boxes, np.array([0, 1]), boxes[[1, 0]])
    array([1, 0])
    """
    from scipy.optimize import linear_sum_assignment

    costs = matching_costs(logits, boxes, labels, targets, class_weight, l1_weight, giou_weight)
    predictions, objects = linear_sum_assignment(_finite(costs))
    return predictions[np.argsort(objects)]


def _finite(costs):
    """Costs (Q, M) in which one that is not finite is larger than any sum of M others."""
    finite = np.isfinite(costs)
    if finite.all():
        return costs
    costs = np.where(finite, costs, 0).astype(np.float64)
    most = np.finfo(np.float64).max / (2 * costs.shape[1])            # M of them have a finite sum
    return np.where(finite, costs, min(most, 1 + 2 * costs.shape[1] * np.abs(costs).max()))


def matching_costs(logits, boxes, labels, targets, class_weight=1.0, l1_weight=5.0,
                   giou_weight=2.0):
    """The costs (Q, M) of `match_objects`, whose arguments it takes; real numbers."""
    owner = "match_objects"
    Q, V = check_array(owner, "logits", logits, "(Q, V)").values()
    check_array(owner, "boxes", boxes, "(Q, coordinates)", Q=Q, coordinates=4)
    check_ids(owner, "labels", labels, V, may_be_empty=True)
    M = len(labels)
    check_array(owner, "targets", targets, "(M, coordinates)", M=M, coordinates=4)
    if labels.ndim != 1 or M > Q:
        raise ValueError(f"{owner}: M={M} objects need at least as many predictions, but Q={Q}; "
                         "give the model more queries.")
    boxes, targets = boxes.real, targets.real
    p = softmax(logits.real)[0]                                       # (Q, V)
    l1 = np.abs(boxes[:, None] - targets[None]).sum(axis=-1)          # (Q, M)
    a, b = np.broadcast_arrays(box_corners(boxes)[0][:, None],
                               box_corners(targets.astype(boxes.dtype))[0][None])
    g, _ = generalized_iou(a, b)
    return l1_weight * l1 - class_weight * p[:, labels] - giou_weight * g
