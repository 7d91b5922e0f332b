"""The contrastive loss of pairs: every text is to find its image, and every image its text."""

import numpy as np

from numformer.checks import check_array
from numformer.functional.losses.cross_entropy import (
    softmax_cross_entropy, softmax_cross_entropy_backward)


def contrastive_loss(logits):
    r"""The mean of two cross-entropies: of rows, and of columns; the diagonal is right in both.

    .. math::

        L = \frac{1}{2 N} \sum_i \left( -\log \frac{e^{z_{ii}}}{\sum_j e^{z_{ij}}}
                                        -\log \frac{e^{z_{ii}}}{\sum_j e^{z_{ji}}} \right)

    The other pairs of the batch are the wrong answers, so the loss of a batch is not the mean of
    the losses of its halves.

    Parameters
    ----------
    logits : ndarray, shape (N, N)
        z, the similarity of the first member of pair i (row) and the second of pair j (column).

    Returns
    -------
    loss : scalar of the dtype of `logits`, nats a pair
    saved : tuple
        For `contrastive_loss_backward`.

    Raises
    ------
    ValueError, TypeError
        If the logits are not a square of floats, or there are none.

    References
    ----------
    Radford et al. (2021), "Learning Transferable Visual Models From Natural Language Supervision"
    (CLIP), figure 3; Sohn (2016), "Improved Deep Metric Learning with Multi-class N-pair Loss
    Objective", for one of the two directions.

    Examples
    --------
    >>> loss, _ = contrastive_loss(np.zeros((8, 8)))
    >>> round(float(loss), 3)                        # guessing among 8: ln 8
    2.079
    """
    N = check_array("contrastive_loss", "logits", logits, "(N, N')")["N"]
    if logits.shape != (N, N) or not N:
        raise ValueError(f"contrastive_loss: logits must have shape (N, N), one row and one column "
                         f"for each pair, but have {logits.shape}.")
    pairs = np.arange(N)
    rows, saved_rows = softmax_cross_entropy(logits, pairs)
    columns, saved_columns = softmax_cross_entropy(logits.T, pairs)
    loss = (rows + columns) / 2

    saved = (saved_rows, saved_columns)
    return loss, saved


def contrastive_loss_backward(dloss, saved):
    r"""The gradient of `contrastive_loss`: prediction minus target, by rows and by columns.

    .. math:: \bar{z}_{ij} = \frac{\bar{L}}{2 N} \left( p_{ij} + q_{ij} - 2\, [i = j] \right)

    where p is the softmax of every row of z, and q that of every column.

    Returns
    -------
    dlogits : ndarray, shape (N, N)
    """
    saved_rows, saved_columns = saved

    # loss = (rows + columns) / 2
    dboth = dloss / 2

    # rows = softmax_cross_entropy(logits, pairs), columns = softmax_cross_entropy(logits.T, pairs)
    drows = softmax_cross_entropy_backward(dboth, saved_rows)
    return drows + softmax_cross_entropy_backward(dboth, saved_columns).T
