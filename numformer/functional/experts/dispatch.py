"""Tokens to their experts and back, without a loop over tokens.

The choices are sorted by expert, so that each expert has a contiguous slice. N tokens with k
choices each make N k choices in all; choice j of token n has the number n k + j. A slot holds the
number of a choice that is served, and the slots are in the order of the experts.

    slots, counts = sort_by_expert(chosen, n_experts)
    sent = dispatch_to_experts(x, slots, k)         a row for every slot: expert 0 first, then 1
    y = combine_experts(outputs, weights, slots)    the outputs of these rows, summed per token

Both are products with a 0-1 matrix, dispatching with the transpose of combining, so each is the
gradient of the other.
"""

import numpy as np

from numformer.checks import check_array, check_ids, check_whole


def sort_by_expert(chosen, n_experts, capacity=None):
    """Group the choices by expert, each group in the order of the tokens.

    Parameters
    ----------
    chosen : ndarray of int, shape (N, k)
        The experts of every token, from `numformer.functional.top_k_experts`.
    n_experts : int
        E.
    capacity : int, optional
        The most tokens that an expert serves. Later tokens have no slot with this expert.

    Returns
    -------
    slots : ndarray of int64, shape (M,)
        The numbers of the choices that are served; all N k of them without a capacity.
    counts : ndarray of int64, shape (E,)
        How many slots each expert has; their sum is M.

    Raises
    ------
    ValueError, TypeError
        If the experts are not integers in 0 .. E-1, or a size is not a positive integer.

    Examples
    --------
    >>> chosen = np.array([[1, 0], [1, 2], [1, 0]])
    >>> sort_by_expert(chosen, n_experts=3)
    (array([1, 5, 0, 2, 4, 3]), array([2, 3, 1]))
    >>> sort_by_expert(chosen, n_experts=3, capacity=1)
    (array([1, 0, 3]), array([1, 1, 1]))
    """
    check_whole("sort_by_expert", "n_experts", n_experts)
    check_ids("sort_by_expert", "chosen", chosen, n_experts)
    if chosen.ndim != 2:
        raise ValueError("sort_by_expert: chosen must have shape (N, k), but has shape "
                         f"{chosen.shape}.")
    slots = np.argsort(chosen, axis=None, kind="stable")            # (N k,), in the order of tokens
    counts = np.bincount(chosen.reshape(-1), minlength=n_experts)    # (E,)
    if capacity is not None:
        check_whole("sort_by_expert", "capacity", capacity)
        capacity = min(capacity, len(slots))                         # of any size: no more are sent
        first = np.repeat(np.cumsum(counts) - counts, counts)        # of each slot's expert
        rank = np.arange(len(slots)) - first                         # earlier tokens of that expert
        slots, counts = slots[rank < capacity], np.minimum(counts, capacity)
    return slots, counts


def dispatch_to_experts(x, slots, k):
    r"""Copy to every slot the vector of its token.

    .. math:: y_m = x_{\lfloor s_m / k \rfloor}

    Parameters
    ----------
    x : ndarray, shape (N, C)
    slots : ndarray of int, shape (M,)
        s, different numbers in 0 .. N k - 1.
    k : int
        Choices per token.

    Returns
    -------
    y : ndarray, shape (M, C)
    saved : tuple
        For `dispatch_to_experts_backward`.

    Raises
    ------
    ValueError, TypeError
        If `x` is not an array of floats of that shape, or the slots are not such numbers.

    Examples
    --------
    >>> x = np.array([[1.0, 1.1], [2.0, 2.1]])
    >>> dispatch_to_experts(x, slots=np.array([2, 0, 1]), k=2)[0]
    array([[2. , 2.1],
           [1. , 1.1],
           [1. , 1.1]])
    """
    check_array("dispatch_to_experts", "x", x, "(N, C)")
    check_whole("dispatch_to_experts", "k", k)
    _check_slots("dispatch_to_experts", slots, len(x) * k)
    y = x[slots // k]                                                # (M, C)

    saved = (slots, len(x), k)
    return y, saved


def dispatch_to_experts_backward(dy, saved):
    r"""The gradient of `dispatch_to_experts`: a token sums the gradients of its copies.

    .. math:: \bar{x}_n = \sum_{m \,:\, \lfloor s_m / k \rfloor = n} \bar{y}_m

    Returns
    -------
    dx : ndarray, shape (N, C)
        0 for a token without a slot.
    """
    slots, N, k = saved

    # y = x[slots // k]
    return _collect(dy, slots, N, k)


def combine_experts(outputs, weights, slots):
    r"""For each token, the weighted sum of the outputs of its experts.

    .. math:: y_n = \sum_{m \,:\, \lfloor s_m / k \rfloor = n} w_{n,\, s_m \bmod k}\, o_m

    Parameters
    ----------
    outputs : ndarray, shape (M, C)
        o, a row for every slot.
    weights : ndarray, shape (N, k)
        w.
    slots : ndarray of int, shape (M,)
        s, different numbers in 0 .. N k - 1.

    Returns
    -------
    y : ndarray, shape (N, C)
        0 for a token without a slot.
    saved : tuple
        For `combine_experts_backward`.

    Raises
    ------
    ValueError, TypeError
        If the arrays are not floats of one precision and of those shapes, or the slots are not such
        numbers.

    Examples
    --------
    >>> outputs, weights = np.array([[1.0], [10.0], [100.0]]), np.array([[0.5, 0.5], [0.9, 0.1]])
    >>> combine_experts(outputs, weights, slots=np.array([2, 0, 1]))[0]
    array([[55. ],
           [ 0.9]])
    """
    N, k = check_array("combine_experts", "weights", weights, "(N, k)").values()
    _check_slots("combine_experts", slots, weights.size)
    check_array("combine_experts", "outputs", outputs, "(M, C)", weights.dtype, M=len(slots))
    w = weights.reshape(-1)[slots][:, None]                          # (M, 1)
    y = _collect(w * outputs, slots, N, k)                           # (N, C)

    saved = (outputs, w, slots, N, k)
    return y, saved


def combine_experts_backward(dy, saved):
    r"""The gradient of `combine_experts`, with respect to the outputs and to the weights.

    .. math:: \bar{o}_m = w_m\, \bar{y}_{\lfloor s_m / k \rfloor}, \qquad
              \bar{w}_m = o_m \cdot \bar{y}_{\lfloor s_m / k \rfloor}

    Returns
    -------
    doutputs : ndarray, shape (M, C)
    dweights : ndarray, shape (N, k)
        0 for a choice without a slot.
    """
    outputs, w, slots, N, k = saved

    # y = collect(w * outputs, slots)
    dproduct = dy[slots // k]                                        # (M, C)
    doutputs = w * dproduct
    dw = np.einsum("mc,mc->m", outputs, dproduct)                    # (M,)

    # w = weights.reshape(-1)[slots]
    dweights = np.zeros(N * k, dw.dtype)
    dweights[slots] = dw                             # no slot twice: nothing is overwritten
    return doutputs, dweights.reshape(N, k)


def _collect(rows, slots, N, k):
    """The sum of the rows of each token, (M, C) to (N, C), always in the order of its choices."""
    of_choices = np.zeros((N * k, rows.shape[1]), rows.dtype)
    of_choices[slots] = rows
    return of_choices.reshape(N, k, -1).sum(axis=1)


def _check_slots(owner, slots, n_choices):
    check_ids(owner, "slots", slots, n_choices)
    if slots.ndim != 1 or (np.bincount(slots) > 1).any():
        raise ValueError(f"{owner}: slots must be different numbers in one row, shape (M,), but "
                         f"have shape {slots.shape} and {len(np.unique(slots))} different numbers; "
                         "use sort_by_expert.")
