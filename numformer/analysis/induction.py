"""Induction heads: scores that find them, and ablation, which shows what depends on them."""

from contextlib import contextmanager

import numpy as np

from numformer.analysis.capture import attention_by_layer
from numformer.checks import check_array, check_rows
from numformer.layers import MultiHeadAttention


def previous_token_scores(weights):
    r"""How much each head attends to the token just before.

    .. math:: s_h = \langle p_{h, t, t - 1} \rangle_{t > 0}

    Parameters
    ----------
    weights : ndarray, shape (B, H, T, T)
        Attention weights of one layer.

    Returns
    -------
    ndarray, shape (H,), in [0, 1]

    Raises
    ------
    ValueError, TypeError
        If weights are not self-attention, or of a single token.

    References
    ----------
    Olsson et al. (2022), "In-context Learning and Induction Heads".

    Examples
    --------
    >>> previous_token_scores(np.eye(3, k=-1)[None, None])
    array([1.])
    """
    _check_weights("previous_token_scores", weights)
    return weights.diagonal(offset=-1, axis1=2, axis2=3).mean(axis=(0, 2))


def induction_targets(ids):
    """Which keys an induction head attends to, for every query of a text.

    Parameters
    ----------
    ids : ndarray of int, shape (T,)

    Returns
    -------
    ndarray of bool, shape (T, T)
        True where key j + 1 follows an earlier copy j of the query's token.

    Examples
    --------
    >>> induction_targets(np.array([5, 6, 5])).astype(int)
    array([[0, 0, 0],
           [0, 0, 0],
           [0, 1, 0]])
    """
    earlier = (ids[:, None] == ids) & np.tri(len(ids), k=-1, dtype=bool)
    after = np.zeros_like(earlier)
    after[:, 1:] = earlier[:, :-1]
    return after


def induction_scores(weights, ids):
    r"""How much each head attends to the tokens that came after earlier copies of its token.

    This is prefix matching: after "a q ... a", the weight on q.

    .. math:: s_h = \Big\langle \sum_{j < t,\; x_j = x_t} p_{h, t, j + 1} \Big\rangle_t

    over all t whose token came before.

    Parameters
    ----------
    weights : ndarray, shape (B, H, T, T)
        Attention weights of one layer.
    ids : ndarray of int, shape (B, T)
        x. A negative id is no query, and matches nothing.

    Returns
    -------
    ndarray, shape (H,), in [0, 1]

    Raises
    ------
    ValueError, TypeError
        If weights are not self-attention to these tokens, or no token comes twice.

    References
    ----------
    Olsson et al. (2022), "In-context Learning and Induction Heads", the prefix matching score.

    Examples
    --------
    >>> induction_scores(np.eye(4, k=-1)[None, None], np.array([[5, 5, 7, 5]]))
    array([0.5])
    >>> induction_scores(np.eye(4)[[0, 1, 2, 1]][None, None], np.array([[5, 6, 7, 5]]))
    array([1.])
    """
    T = _check_weights("induction_scores", weights)
    check_rows("induction_scores", "ids", ids)
    if ids.shape != (len(weights), T):
        raise ValueError(f"induction_scores: ids must have shape (B, T) = {(len(weights), T)}, as "
                         f"weights {weights.shape} have, but have {ids.shape}.")
    real = (ids >= 0)[:, :, None]
    earlier = (ids[:, :, None] == ids[:, None, :]) & real & np.tri(T, k=-1, dtype=bool)
    queries = earlier.any(axis=2)                                     # (B, T)
    if not queries.any():
        raise ValueError("induction_scores: no token of ids comes twice; give longer sequences.")
    after = np.zeros_like(earlier)
    after[:, :, 1:] = earlier[:, :, :-1]                              # key j + 1
    matched = (weights * after[:, None]).sum(axis=3)                  # (B, H, T)
    return matched.transpose(0, 2, 1)[queries].mean(axis=0)


def head_scores(model, ids, queries=None):
    """The induction and previous-token scores of every head of a decoder.

    Parameters
    ----------
    model : Layer
        With multi-head self-attention.
    ids : ndarray of int, shape (B, T)
        Its input; tokens repeat.
    queries : ndarray of bool, shape (B, T), optional
        Tokens that induction is measured at; all that came before unless given.

    Returns
    -------
    induction, previous : ndarray, shape (layers, H)

    Examples
    --------
    >>> from numformer.models import Decoder, DecoderConfig
    >>> config = DecoderConfig(vocab_size=5, context_length=8, n_layers=2, n_heads=4, d_model=8)
    >>> model = Decoder(config, np.random.default_rng(0))
    >>> induction, previous = head_scores(model, np.array([[1, 2, 3, 1, 2, 3]]))
    >>> induction.shape, previous.shape
    ((2, 4), (2, 4))
    """
    weights = list(attention_by_layer(model, ids).values())           # each (B, H, T, T)
    tokens = ids if queries is None else np.where(queries, ids, -1)
    return (np.array([induction_scores(layer, tokens) for layer in weights]),
            np.array([previous_token_scores(layer) for layer in weights]))


@contextmanager
def ablate_heads(model, heads):
    """Set the output of some attention heads to zero, inside a with statement.

    The rows of the output projection that read these heads are zero meanwhile, and as before
    afterwards. The mathematics of the layers is the same, so this holds for training and generation
    as well.

    Parameters
    ----------
    model : Layer
    heads : sequence of (int, int)
        Layer and head; layers are counted in the order of `Layer.named_layers`.

    Raises
    ------
    ValueError
        If the model has no such head.

    References
    ----------
    Michel, Levy and Neubig (2019), "Are Sixteen Heads Really Better than One?", section 2.3.

    Examples
    --------
    >>> layer, x = MultiHeadAttention(4, 2, np.random.default_rng(0)), np.ones((1, 3, 4), "f4")
    >>> before = layer(x)
    >>> with ablate_heads(layer, [(0, 0), (0, 1)]):
    ...     layer(x)[0, 0]
    array([0., 0., 0., 0.], dtype=float32)
    >>> bool((layer(x) == before).all())
    True
    """
    layers = [layer for _, layer in model.named_layers() if isinstance(layer, MultiHeadAttention)]
    for layer, head in heads:
        if not (0 <= layer < len(layers) and 0 <= head < layers[layer].n_heads):
            sizes = ", ".join(str(each.n_heads) for each in layers) or "none"
            raise ValueError(f"ablate_heads: there is no head {head} in layer {layer}; the heads "
                             f"of the attention layers, from 0: {sizes}.")
    chosen = {layers[layer].output.weight: None for layer, _ in heads}
    kept = [(parameter, parameter.data.copy()) for parameter in chosen]
    try:
        for layer, head in heads:
            D = layers[layer].d_value
            layers[layer].output.weight.data[head * D : (head + 1) * D] = 0
        yield
    finally:
        for parameter, data in kept:
            parameter.data[:] = data


def _check_weights(owner, weights):
    """Check attention weights of one layer, and return T."""
    sizes = check_array(owner, "weights", weights, "(B, H, T, S)")
    T, S = sizes["T"], sizes["S"]
    if T != S or T < 2:
        raise ValueError(f"{owner}: weights of shape {weights.shape} are not self-attention of "
                         "two tokens or more; give weights of shape (B, H, T, T).")
    return T
