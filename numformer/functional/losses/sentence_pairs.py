"""Pairs of texts, a vector each: features for a classifier, and the regression of the cosine."""

import numpy as np

from numformer.checks import check_array
from numformer.functional.losses.similarity import normalized, normalized_backward


def pair_features(u, v):
    r"""What a classifier of two texts reads: both vectors, and how far apart they are.

    .. math:: f = (u, v, |u - v|)

    The absolute value is of every coordinate. A linear map of u and v alone adds what each
    contributes; only the third part depends on whether they agree.

    Parameters
    ----------
    u, v : ndarray, shape (B, C)
        Row i of both is pair i.

    Returns
    -------
    f : ndarray, shape (B, 3 C)
    saved : tuple
        For `pair_features_backward`.

    Raises
    ------
    ValueError, TypeError
        If the arrays are not floats of one shape and precision.

    References
    ----------
    Reimers and Gurevych (2019), "Sentence-BERT", section 3, "Classification Objective Function".

    Examples
    --------
    >>> pair_features(np.array([[1.0, 2.0]]), np.array([[3.0, 1.0]]))[0]
    array([[1., 2., 3., 1., 2., 1.]])
    """
    check_array("pair_features", "u", u, "(B, C)")
    B, C = u.shape
    check_array("pair_features", "v", v, "(B, C)", u.dtype, B=B, C=C)
    difference = u - v
    sign = np.sign(difference.real)                  # the real part decides
    f = np.concatenate([u, v, sign * difference], axis=1)            # (B, 3 C)

    saved = (sign,)
    return f, saved


def pair_features_backward(df, saved):
    r"""The gradient of `pair_features`: the absolute value hands on its gradient with a sign.

    .. math:: \bar{u} = \bar{f}_1 + s \bar{f}_3, \qquad \bar{v} = \bar{f}_2 - s \bar{f}_3, \qquad
              s = \mathrm{sign}(u - v)

    where the three parts of f are numbered. Where u and v are equal the absolute value has no
    derivative; it is taken as 0.

    Returns
    -------
    du, dv : ndarray, shape (B, C)
    """
    sign, = saved
    C = sign.shape[1]

    # f = concatenate([u, v, sign * (u - v)])
    ddifference = sign * df[:, 2 * C :]
    return df[:, :C] + ddifference, df[:, C : 2 * C] - ddifference


def cosine_regression_loss(u, v, targets):
    r"""The mean squared error of the cosines of pairs.

    .. math:: L = \big\langle (\hat{u}_i \cdot \hat{v}_i - y_i)^2 \big\rangle_i, \qquad
              \hat{u} = u / |u|

    Parameters
    ----------
    u, v : ndarray, shape (B, C)
        Row i of both is pair i. A zero vector has no direction: its cosine is 0.
    targets : ndarray, shape (B,)
        y, the similarity that each pair should have, in -1 .. 1.

    Returns
    -------
    loss : scalar of the dtype of the vectors
    saved : tuple
        For `cosine_regression_loss_backward`.

    Raises
    ------
    ValueError, TypeError
        If shapes or dtypes differ, there are no pairs, or a target is not in -1 .. 1.

    References
    ----------
    Reimers and Gurevych (2019), "Sentence-BERT", section 3, "Regression Objective Function".

    Examples
    --------
    >>> u, v = np.array([[3.0, 4.0], [1.0, 0.0]]), np.array([[6.0, 8.0], [0.0, 2.0]])
    >>> float(cosine_regression_loss(u, v, np.array([1.0, 0.5]))[0])
    0.125
    """
    check_array("cosine_regression_loss", "u", u, "(B, C)")
    B, C = u.shape
    check_array("cosine_regression_loss", "v", v, "(B, C)", u.dtype, B=B, C=C)
    check_array("cosine_regression_loss", "targets", targets, "(B)", B=B)
    if not B:
        raise ValueError(f"cosine_regression_loss: u has shape {u.shape} and holds no pair; "
                         "give at least one.")
    if not ((targets.real >= -1) & (targets.real <= 1)).all():
        raise ValueError("cosine_regression_loss: targets must be cosines, in -1 .. 1, but are in "
                         f"{targets.real.min():g} .. {targets.real.max():g}; divide them by the "
                         "largest.")
    u_hat, saved_u = normalized(u)                                   # (B, C)
    v_hat, saved_v = normalized(v)
    error = (u_hat * v_hat).sum(axis=1) - targets.astype(u.real.dtype)         # (B,)
    loss = (error * error).sum() / B

    saved = (u_hat, saved_u, v_hat, saved_v, error)
    return loss, saved


def cosine_regression_loss_backward(dloss, saved):
    r"""The gradient of `cosine_regression_loss`: twice the error, orthogonal to each vector.

    .. math:: \bar{u}_i = \frac{2 \bar{L}\, e_i}{B}\, \frac{\hat{v}_i - c_i\, \hat{u}_i}{|u_i|},
              \qquad c_i = \hat{u}_i \cdot \hat{v}_i, \qquad e_i = c_i - y_i

    and the same for v, with the roles exchanged. The targets are data and get no gradient.

    Returns
    -------
    du, dv : ndarray, shape (B, C)
    """
    u_hat, saved_u, v_hat, saved_v, error = saved

    # loss = (error * error).sum() / B
    derror = (error * (2 * float(dloss) / len(error)))[:, None]      # (B, 1)

    # error = (u_hat * v_hat).sum() - targets
    du_hat, dv_hat = derror * v_hat, derror * u_hat

    # u_hat = u / |u|, and v_hat likewise
    return normalized_backward(du_hat, saved_u), normalized_backward(dv_hat, saved_v)
