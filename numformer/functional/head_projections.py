"""From vectors to the heads of attention: queries, keys and values, normalized and rotated."""

from numformer.checks import (
    check_array, check_arrays, check_choice, check_divides, check_even, check_number)
from numformer.functional.linear import linear, linear_backward
from numformer.functional.norms.rms_norm import rms_norm, rms_norm_backward
from numformer.functional.positions.rotary import rotary, rotary_backward


def head_projections(x, query_weight, query_bias, key_weight, key_bias, value_weight, value_bias,
                     query_norm, key_norm, d_head, rotation=None, epsilon=1e-5):
    r"""Project every vector to a query, a key and a value for each head.

    .. math::

        q = R\, \mathrm{norm}_{\gamma_Q}(x W_Q + b_Q), \qquad
        k = R\, \mathrm{norm}_{\gamma_K}(x W_K + b_K), \qquad v = x W_V + b_V

    where the norm of each head is `rms_norm` and R is the rotation of `rotary`; both are optional.

    Parameters
    ----------
    x : ndarray, shape (B, T, C)
    query_weight : ndarray, shape (C, H D)
    query_bias : ndarray, shape (H D,), or None
    key_weight, value_weight : ndarray, shape (C, G D)
    key_bias, value_bias : ndarray, shape (G D,), or None
    query_norm, key_norm : ndarray, shape (D,), or None
        gamma of the two norms; None where there is no norm.
    d_head : int
        D, the width of a head.
    rotation : tuple, optional
        What `rotary` takes after x: cosine and sine, both of shape (T, D/2), and the layout.
    epsilon : float
        Of both norms.

    Returns
    -------
    q, k, v : ndarray, shape (B, H, T, D), (B, G, T, D) and (B, G, T, D)
        As one tuple.
    saved : tuple
        For `head_projections_backward`.

    Raises
    ------
    ValueError, TypeError
        If the arrays are not floats of one precision that fit, D does not divide the widths,
        epsilon is negative, or the layout is unknown.

    References
    ----------
    Vaswani et al. (2017), "Attention Is All You Need", section 3.2.2. Norms of queries and keys:
    Henry et al. (2020). Rotation: Su et al. (2021), "RoFormer", eq. 34.

    Examples
    --------
    >>> import numpy as np
    >>> x, weight = np.array([[[1.0, 2.0]]]), np.array([[3.0, 0.0], [0.0, 2.0]])
    >>> (q, k, v), _ = head_projections(
    ...     x, weight, None, weight, None, np.eye(2), None, np.ones(1), None, d_head=1)
    >>> q.ravel().round(3), k.ravel(), v.ravel()
    (array([1., 1.]), array([3., 4.]), array([1., 2.]))
    """
    check_head_projections(x, query_weight, query_bias, key_weight, key_bias, value_weight,
                           value_bias, query_norm, key_norm, d_head, rotation, epsilon)
    q, saved_query = _project(x, query_weight, query_bias, d_head, query_norm, rotation, epsilon)
    k, saved_key = _project(x, key_weight, key_bias, d_head, key_norm, rotation, epsilon)
    v, saved_value = _project(x, value_weight, value_bias, d_head)

    saved = (saved_query, saved_key, saved_value)
    return (q, k, v), saved


def head_projections_backward(dheads, saved):
    r"""The gradient of `head_projections`: x has a path through queries, keys and values.

    .. math:: \bar{h} = \mathrm{norm}'(R^\top \bar{q}), \qquad \bar{W}_Q = x^\top \bar{h}, \qquad
              \bar{b}_Q = \sum_n \bar{h}_n

    where h = x W_Q + b_Q, and likewise for keys, and for values without norm and rotation;

    .. math:: \bar{x} = \bar{h}_Q W_Q^\top + \bar{h}_K W_K^\top + \bar{v}\, W_V^\top

    Parameters
    ----------
    dheads : tuple of ndarray
        dq (B, H, T, D), dk (B, G, T, D) and dv (B, G, T, D).

    Returns
    -------
    dx : ndarray, shape (B, T, C)
    dquery_weight, dquery_bias, dkey_weight, dkey_bias, dvalue_weight, dvalue_bias : ndarray
        None for a bias that was None.
    dquery_norm, dkey_norm : ndarray, shape (D,)
        None for a norm that was None.
    """
    (dq, dk, dv), (saved_query, saved_key, saved_value) = dheads, saved

    # v = project(x, W_V, b_V);  k = project(x, W_K, b_K, gamma_K);  q = project(x, W_Q, ...)
    dx_value, dvalue_weight, dvalue_bias, _ = _project_backward(dv, saved_value)
    dx_key, dkey_weight, dkey_bias, dkey_norm = _project_backward(dk, saved_key)
    dx_query, dquery_weight, dquery_bias, dquery_norm = _project_backward(dq, saved_query)
    return (dx_query + dx_key + dx_value, dquery_weight, dquery_bias, dkey_weight, dkey_bias,
            dvalue_weight, dvalue_bias, dquery_norm, dkey_norm)


def _project(x, weight, bias, d_head, norm_weight=None, rotation=None, epsilon=0.0):
    """Heads (B, H, T, D) of x (B, T, C)."""
    h, saved_linear = linear(x, weight, bias)                        # (B, T, H D)
    h = split_heads(h, d_head)                                       # (B, H, T, D)
    saved_norm = saved_rotary = None
    if norm_weight is not None:
        h, saved_norm = rms_norm(h, norm_weight, epsilon)
    if rotation is not None:
        h, saved_rotary = rotary(h, *rotation)

    saved = (saved_linear, saved_norm, saved_rotary)
    return h, saved


def _project_backward(dh, saved):
    saved_linear, saved_norm, saved_rotary = saved
    dnorm_weight = None

    # h = rotary(h)
    if saved_rotary is not None:
        dh = rotary_backward(dh, saved_rotary)

    # h = rms_norm(h, norm_weight)
    if saved_norm is not None:
        dh, dnorm_weight = rms_norm_backward(dh, saved_norm)

    # h = split_heads(linear(x, weight, bias))
    return *linear_backward(join_heads(dh), saved_linear), dnorm_weight


def split_heads(x, d_head):
    """(B, T, H D) to (B, H, T, D)."""
    B, T, width = x.shape
    return x.reshape(B, T, width // d_head, d_head).transpose(0, 2, 1, 3)


def join_heads(x):
    """(B, H, T, D) to (B, T, H D): the inverse of `split_heads`, and so also its gradient."""
    B, H, T, D = x.shape
    return x.transpose(0, 2, 1, 3).reshape(B, T, H * D)


def check_head_projections(x, query_weight, query_bias, key_weight, key_bias, value_weight,
                           value_bias, query_norm, key_norm, d_head, rotation, epsilon):
    """Check the arguments of `head_projections`."""
    owner = "head_projections"
    sizes = check_arrays(
        owner, ("query_weight", query_weight, "(C, F)"), ("x", x, "(B, T, C)"),
        ("query_bias", query_bias, "(F,) or None"))
    kv_sizes = check_arrays(
        owner, ("x", x, "(B, T, C)"), ("key_weight", key_weight, "(C, F)"),
        ("value_weight", value_weight, "(C, F)"), ("key_bias", key_bias, "(F,) or None"),
        ("value_bias", value_bias, "(F,) or None"))
    check_divides(owner, "the width of query_weight", sizes["F"], "d_head", d_head)
    check_divides(owner, "the width of key_weight", kv_sizes["F"], "d_head", d_head)
    check_arrays(owner, ("x", x, "(B, T, C)"), ("query_norm", query_norm, "(D,) or None"),
                 ("key_norm", key_norm, "(D,) or None"), D=d_head)
    check_number(owner, "epsilon", epsilon, least=0)
    if rotation is not None:
        cosine, sine, layout = rotation
        check_even(owner, "d_head", d_head)
        for name, table in (("cosine", cosine), ("sine", sine)):
            check_array(owner, name, table, "(T, D/2)", **{"T": sizes["T"], "D/2": d_head // 2})
        check_choice(owner, "layout", layout, ["half", "interleaved"])
