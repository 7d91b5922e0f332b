"""The losses of object detection: classes of unequal weight, and distances of boxes."""

import numpy as np

from numformer.checks import check_array, check_ids, check_number
from numformer.functional.losses.cross_entropy import check_targets
from numformer.functional.softmax import log_softmax
from numformer.functional.vision.boxes import (
    box_corners, box_corners_backward, generalized_iou, generalized_iou_backward)


def weighted_cross_entropy(logits, targets, weights):
    r"""The cross-entropy with a weight for each class, so that a frequent one does not dominate.

    .. math:: L = - \frac{\sum_t w_{y_t} \log p_{t y_t}}{\sum_t w_{y_t}}, \qquad
              p_t = \mathrm{softmax}(z_t)

    Parameters
    ----------
    logits : ndarray, shape (..., V)
        z.
    targets : ndarray of int, shape (...)
        y, in 0 .. V-1.
    weights : ndarray, shape (V,)
        w, 0 or more; those of the targets are not all 0. They are constants. A row whose target
        has the weight 0 counts as nothing, whatever it holds.

    Returns
    -------
    loss : scalar of the dtype of `logits`, nats
    saved : tuple
        For `weighted_cross_entropy_backward`.

    Raises
    ------
    ValueError, TypeError
        If shapes differ, a target is out of range, or a weight is negative.

    References
    ----------
    Carion et al. (2020), "End-to-End Object Detection with Transformers", section 3.1: a tenth for
    "no object".

    Examples
    --------
    >>> z, y = np.array([[0.0, 0.0], [2.0, 0.0]]), np.array([0, 1])
    >>> round(float(weighted_cross_entropy(z, y, np.array([1.0, 0.0]))[0]), 3)     # ln 2
    0.693
    """
    owner = "weighted_cross_entropy"
    V = check_array(owner, "logits", logits, "(..., V)")["V"]
    check_ids(owner, "targets", targets, V)
    check_targets(owner, logits, targets)
    check_array(owner, "weights", weights, "(V,)", V=V)
    w = weights.astype(logits.real.dtype)[targets]                    # (...)
    if not (weights >= 0).all() or not w.sum() > 0:
        raise ValueError(f"{owner}: weights must be 0 or more, and above 0 for some target, but "
                         f"are {weights.tolist()}.")
    w = w / w.sum()
    counts = (w > 0)[..., None]                      # a row of weight 0 may hold NaN or Inf
    log_p, _ = log_softmax(np.where(counts, logits, 0))               # (..., V)
    loss = -(w * np.take_along_axis(log_p, targets[..., None], axis=-1)[..., 0]).sum()

    saved = (log_p, targets, w)
    return loss, saved


def weighted_cross_entropy_backward(dloss, saved):
    r"""The gradient of `weighted_cross_entropy`: prediction minus target, by weight.

    .. math:: \bar{z}_t = \bar{L}\, \frac{w_{y_t}}{\sum_s w_{y_s}}
              \left( p_t - \mathrm{onehot}(y_t) \right)

    Returns
    -------
    dlogits : ndarray, shape (..., V)
    """
    log_p, targets, w = saved

    # loss = -(w * log_p[targets]).sum(), with log_p = log_softmax(logits)
    dlogits = np.exp(log_p)
    of_targets = np.take_along_axis(dlogits, targets[..., None], axis=-1)
    np.put_along_axis(dlogits, targets[..., None], of_targets - 1, axis=-1)
    return dlogits * (float(dloss) * w)[..., None]


def box_loss(boxes, targets, l1_weight=5.0, giou_weight=2.0):
    r"""How far boxes are from their targets: the L1 distance, and one minus the generalized IoU.

    .. math:: L = \frac1N \sum_n \left( w_1 \lVert b_n - t_n \rVert_1
                                        + w_g (1 - g(b_n, t_n)) \right)

    The distance has a gradient everywhere, but it is larger for large boxes; the overlap depends
    on proportions alone. Without boxes (N = 0, images without objects) the loss is 0.

    Parameters
    ----------
    boxes : ndarray, shape (N, 4)
        b: cx, cy, width, height.
    targets : ndarray, shape (N, 4)
        t, in the same form; constants.
    l1_weight, giou_weight : float
        0 or more.

    Returns
    -------
    loss : scalar of the dtype of `boxes`, the mean over N boxes
    saved : tuple
        For `box_loss_backward`.

    Raises
    ------
    ValueError, TypeError
        If shapes or dtypes differ, or a width or height is below 0.

    References
    ----------
    Carion et al. (2020), "End-to-End Object Detection with Transformers", section 3.1 and appendix
    A.2; the weights are those of appendix A.4.

    Examples
    --------
    >>> target = np.array([[0.5, 0.5, 0.2, 0.2]])
    >>> losses = [box_loss(boxes, target)[0] for boxes in (target, target + 0.1)]
    >>> np.round(losses, 3).tolist()
    [0.0, 3.826]
    """
    N = check_array("box_loss", "boxes", boxes, "(N, coordinates)", coordinates=4)["N"]
    check_array("box_loss", "targets", targets, "(N, coordinates)", N=N, coordinates=4)
    check_number("box_loss", "l1_weight", l1_weight, least=0)
    check_number("box_loss", "giou_weight", giou_weight, least=0)
    targets = targets.astype(boxes.real.dtype)
    difference = boxes - targets
    sign = np.where(difference.real > 0, 1.0, np.where(difference.real < 0, -1.0, 0.0))
    sign = sign.astype(boxes.real.dtype)
    l1 = (sign * difference).sum()
    corners, saved_corners = box_corners(boxes)                       # (N, 4)
    g, saved_giou = generalized_iou(corners, box_corners(targets)[0].astype(boxes.dtype))     # (N,)
    loss = (float(l1_weight) * l1 + float(giou_weight) * (1 - g).sum()) / max(N, 1)

    saved = (sign, saved_corners, saved_giou, float(l1_weight), float(giou_weight))
    return loss, saved


def box_loss_backward(dloss, saved):
    r"""The gradient of `box_loss`.

    .. math:: \bar{b}_n = \frac{\bar{L}}{N} \left( w_1 \mathrm{sign}(b_n - t_n)
                          - w_g\, \frac{\partial g}{\partial b_n} \right)

    Returns
    -------
    dboxes : ndarray, shape (N, 4)
    """
    sign, saved_corners, saved_giou, l1_weight, giou_weight = saved
    dmean = float(dloss) / max(len(sign), 1)

    # loss = (... + giou_weight * (1 - g).sum()) / max(N, 1)
    dg = np.full(len(sign), -dmean * giou_weight, sign.dtype)

    # g = generalized_iou(corners, targets), with corners = box_corners(boxes)
    dcorners, _ = generalized_iou_backward(dg, saved_giou)
    dboxes = box_corners_backward(dcorners, saved_corners)

    # loss = (l1_weight * (sign * (boxes - targets)).sum() + ...) / max(N, 1)
    return dboxes + dmean * l1_weight * sign
