"""The router of a mixture of experts: which experts a token goes to, and how much each of them counts.

Which experts is a choice, and has no gradient. How much each counts is a softmax, and has one: by it alone the router learns.
"""

import numpy as np

from numformer.checks import check_array, check_choice, check_ids, check_whole
from numformer.functional.softmax import softmax, softmax_backward


def top_k_experts(logits, k):
    r"""The k experts with the largest logits, the largest first.

    Of equal logits the expert with the lowest number comes first. NaN counts as largest, so that it reaches the output as it
    does in a softmax, and is not passed over without a word.

    Parameters
    ----------
    logits : ndarray, shape (N, E)
        A score of every expert for every token.
    k : int, at most E

    Returns
    -------
    chosen : ndarray of int64, shape (N, k)
        In 0 .. E-1, no number twice in a row.

    Raises
    ------
    ValueError, TypeError
        If the logits are no array of floats of that shape or are empty, or k is not in 1 .. E.

    Examples
    --------
    >>> top_k_experts(np.array([[0.0, 3.0, 1.0, 3.0]]), k=3)
    array([[1, 3, 2]])
    """
    E = check_router("top_k_experts", logits)
    check_k("top_k_experts", "k", k, E)
    keys = np.where(np.isnan(logits), -np.inf, -logits.real)
    return np.argsort(keys, axis=-1, kind="stable")[:, :k]            # (N, k)


def top_k_gates(logits, chosen, over="chosen"):
    r"""How much each chosen expert counts: the softmax of its logit.

    .. math::

        w_{nj} = \frac{e^{z_{n c_{nj}}}}{\sum_{i} e^{z_{n c_{ni}}}} \;\text{ or }\;
        w_{nj} = \frac{e^{z_{n c_{nj}}}}{\sum_{e} e^{z_{ne}}}

    Parameters
    ----------
    logits : ndarray, shape (N, E)
        z.
    chosen : ndarray of int, shape (N, k)
        c, as `top_k_experts` gives them.
    over : "chosen" or "all"
        Which logits share the sum. "chosen", the default, is Mixtral's: the k weights of a token add up to 1. (A softmax over all
        whose chosen weights are divided by their sum is the same.) "all" is Switch's: weights add up to less than 1. With k = 1
        only "all" tells the router anything, for over the chosen one alone the weight is always 1, and its gradient 0.

    Returns
    -------
    weights : ndarray, shape (N, k)
    saved : tuple
        For `top_k_gates_backward`.

    Raises
    ------
    ValueError, TypeError
        If the logits are no array of floats of that shape, an expert is not there, or the choice of `over` is unknown.

    References
    ----------
    Over the chosen: Jiang et al. (2024), "Mixtral of Experts", section 2.1; Shazeer et al. (2017), "Outrageously Large Neural
    Networks", eq. 3 and 5, without its noise. Over all: Fedus et al. (2022), "Switch Transformers", eq. 1 and 2.

    Examples
    --------
    >>> logits, chosen = np.log([[1.0, 3.0, 4.0]]), np.array([[2, 0]])
    >>> top_k_gates(logits, chosen)[0]
    array([[0.8, 0.2]])
    >>> top_k_gates(logits, chosen, over="all")[0]
    array([[0.5  , 0.125]])
    """
    check_choice("top_k_gates", "over", over, ["chosen", "all"])
    check_chosen("top_k_gates", logits, chosen)
    if over == "chosen":
        weights, saved_softmax = softmax(np.take_along_axis(logits, chosen, axis=-1))     # (N, k)
    else:
        p, saved_softmax = softmax(logits)                            # (N, E)
        weights = np.take_along_axis(p, chosen, axis=-1)              # (N, k)

    saved = (chosen, logits.shape, over, saved_softmax)
    return weights, saved


def top_k_gates_backward(dweights, saved):
    r"""The gradient of `top_k_gates`: a softmax's, with zeros where no expert was chosen.

    .. math::

        \bar{z}_{n c_{nj}} = w_{nj} \left( \bar{w}_{nj} - \textstyle\sum_i w_{ni} \bar{w}_{ni} \right) \;\text{ or }\;
        \bar{z}_n = p_n \left( \bar{p}_n - \textstyle\sum_j w_{nj} \bar{w}_{nj} \right), \quad \bar{p}_{n c_{nj}} = \bar{w}_{nj}

    Over the chosen, the logits of the others get nothing. Over all, every logit gets something: the others made the sum larger.

    Returns
    -------
    dlogits : ndarray, shape (N, E)
    """
    chosen, shape, over, saved_softmax = saved

    # weights = softmax(logits[chosen])
    if over == "chosen":
        return _where_chosen(softmax_backward(dweights, saved_softmax), chosen, shape)

    # weights = p[chosen], with p = softmax(logits)
    return softmax_backward(_where_chosen(dweights, chosen, shape), saved_softmax)


def check_k(owner, name, k, E):
    """Check how many experts a token goes to."""
    check_whole(owner, name, k)
    if k > E:
        raise ValueError(f"{owner}: {name}={k} experts for a token are more than the E={E} that there are; use {name}={E} or fewer, "
                         "or more experts.")


def check_router(owner, logits):
    """Check the logits of a router, and return E."""
    E = check_array(owner, "logits", logits, "(N, E)")["E"]
    if logits.size == 0:
        raise ValueError(f"{owner}: logits of shape {logits.shape} are empty; give at least one token and one expert.")
    return E


def check_chosen(owner, logits, chosen):
    """Check both, and return E."""
    E = check_router(owner, logits)
    check_ids(owner, "chosen", chosen, E)
    if chosen.ndim != 2 or len(chosen) != len(logits):
        raise ValueError(f"{owner}: chosen must have shape (N, k) with N={len(logits)}, but has shape {chosen.shape}; "
                         "use top_k_experts(logits, k).")
    if chosen.shape[1] > 1 and (np.diff(np.sort(chosen, axis=-1), axis=-1) == 0).any():
        raise ValueError(f"{owner}: chosen must not hold an expert twice for a token; use top_k_experts(logits, k).")
    return E


def _where_chosen(values, chosen, shape):
    """(N, k) to (N, E), with 0 for the experts that were not chosen."""
    y = np.zeros(shape, values.dtype)
    np.put_along_axis(y, chosen, values, axis=-1)
    return y
