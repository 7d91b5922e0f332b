"""The arrays of one head of self-attention, in the order of computation."""

import numpy as np

from numformer.functional.attention.masks import EVERYWHERE
from numformer.functional.attention.scores import scaled_dot_scores


def attention_steps(layer, x, pattern=EVERYWHERE):
    """Inputs, queries, keys, values, scores, weights and outputs of a head of self-attention.

    Parameters
    ----------
    layer : MultiHeadAttention
        With one head.
    x : ndarray, shape (T, C)
        One sequence.
    pattern : AttentionPattern

    Returns
    -------
    dict of str to ndarray
        ``inputs`` (T, C), ``queries`` and ``keys`` (T, D), ``values`` (T, D_V), ``scores`` and
        ``weights`` (T, T), and ``outputs`` (T, C).

    Raises
    ------
    ValueError
        If the layer has several heads.

    Examples
    --------
    >>> from numformer.layers import MultiHeadAttention
    >>> layer = MultiHeadAttention(4, 1, np.random.default_rng(0), bias=False, dtype=np.float64)
    >>> x, order = np.random.default_rng(1).standard_normal((3, 4)), [2, 0, 1]
    >>> first, second = attention_steps(layer, x), attention_steps(layer, x[order])
    >>> bool(np.allclose(second["scores"], first["scores"][order][:, order]))
    True
    >>> bool(np.allclose(second["outputs"], first["outputs"][order]))
    True
    """
    if layer.n_heads != 1:
        raise ValueError(f"attention_steps: the layer has {layer.n_heads} heads; give one with a "
                         "single head.")
    y, saved = layer.forward(x[None], pattern=pattern)
    q, k, _ = layer.queries_and_keys(saved)
    scores, _ = scaled_dot_scores(q[0], k[0])
    return {"inputs": x, "queries": q[0, 0], "keys": k[0, 0], "values": layer.values(saved)[0, 0],
            "scores": np.array(scores[0]), "weights": layer.attention_weights(saved)[0, 0],
            "outputs": y[0]}
