"""Attention scores of a block, which a student compares with those of its teacher."""

import math

import numpy as np

from numformer.functional import (
    imitation_loss, imitation_loss_backward, repeat_kv_heads, repeat_kv_heads_backward)


def attention_scores(block, x):
    r"""The attention scores of a block, before the softmax, from the input of the block.

    .. math:: a_{hij} = s\, q_{hi} \cdot k_{hj}, \qquad
              q = \mathrm{encode}(n W_Q + b_Q), \quad k = \mathrm{encode}(n W_K + b_K)

    with n = norm(x) in a pre-norm block and n = x in a post-norm block, the rotation of rotary
    positions as encode, and s = 1 / sqrt(D). What other positions add to the scores (ALiBi, T5,
    Shaw), soft caps and masks are not part of them.

    The block computes its queries and keys again in its forward: here they are a function of x
    alone, and so their gradient is one more term of the gradient of x.

    Parameters
    ----------
    block : TransformerBlock
        With a `MultiHeadAttention` in its branch "attention".
    x : ndarray, shape (B, T, C)

    Returns
    -------
    scores : ndarray, shape (B, H, T, T)
    saved : tuple
        For `attention_scores_backward`.

    References
    ----------
    Jiao et al. (2020), "TinyBERT", section 3.1: scores before the softmax, with which their student
    converged faster and was better than with weights.

    Examples
    --------
    >>> from numformer.models import EncoderConfig
    >>> from numformer.models.transformer import block_of
    >>> block = block_of(EncoderConfig(n_layers=1, n_heads=2, d_model=8), np.random.default_rng(0))
    >>> attention_scores(block, np.ones((1, 3, 8), np.float32))[0].shape
    (1, 2, 3, 3)
    """
    a, norm = block.attention, block.branches["attention"].input_norm
    n, saved_norm = norm.forward(x)                                   # (B, T, C)
    q, saved_q = a.project(n, a.query, a.query_norm)                   # (B, H, T, D)
    k, saved_k = a.project(n, a.key, a.key_norm)                       # (B, G, T, D)
    k, saved_repeat = repeat_kv_heads(k, a.n_heads)                   # (B, H, T, D)
    scale = 1 / math.sqrt(a.d_head) if a.scale is None else a.scale
    scores = q @ k.mT * scale                                         # (B, H, T, T)

    saved = (saved_norm, saved_q, saved_k, saved_repeat, q, k, scale)
    return scores, saved


def attention_scores_backward(block, dscores, saved):
    r"""The gradient of `attention_scores` with respect to x; those of parameters are added.

    .. math:: \bar{q}_{hi} = s \sum_j \bar{a}_{hij} k_{hj}, \qquad
              \bar{k}_{hj} = s \sum_i \bar{a}_{hij} q_{hi}

    Returns
    -------
    dx : ndarray, shape (B, T, C)
    """
    saved_norm, saved_q, saved_k, saved_repeat, q, k, scale = saved
    a, norm = block.attention, block.branches["attention"].input_norm

    # scores = q @ k.mT * scale
    dq = dscores @ k * scale                                          # (B, H, T, D)
    dk = dscores.mT @ q * scale                                       # (B, H, T, D)

    # k = repeat_kv_heads(project(n, key)), q = project(n, query)
    dk = repeat_kv_heads_backward(dk, saved_repeat)                   # (B, G, T, D)
    dn = a.project_backward(dk, saved_k, a.key, a.key_norm)
    dn = dn + a.project_backward(dq, saved_q, a.query, a.query_norm)

    # n = norm(x)
    return norm.backward(dn, saved_norm)


def attention_loss(block, x, teacher_scores, real):
    r"""The mean squared difference between the attention scores of a block and of a teacher.

    .. math:: L = \frac{1}{n H} \sum_{(i, j)} \sum_h (a_{hij} - a'_{hij})^2

    over the n pairs (i, j) of a query and a key of which neither is padding.

    Parameters
    ----------
    block : TransformerBlock
    x : ndarray, shape (B, T, C)
        The input of the block.
    teacher_scores : ndarray, shape (B, H, T, T)
    real : ndarray of bool, shape (B, T)
        Which tokens are no padding.

    Returns
    -------
    loss : scalar of the dtype of `x`
    saved : tuple
        For `attention_loss_backward`.

    References
    ----------
    Jiao et al. (2020), "TinyBERT", eq. 7.
    """
    pairs = real[:, :, None] & real[:, None, :]                       # (B, T, T)
    scores, saved_scores = attention_scores(block, x)                 # (B, H, T, T)
    loss, saved_imitation = imitation_loss(                           # of (n, H)
        scores.transpose(0, 2, 3, 1)[pairs], teacher_scores.transpose(0, 2, 3, 1)[pairs])

    saved = (pairs, saved_scores, saved_imitation)
    return loss, saved


def attention_loss_backward(block, dloss, saved):
    """The gradient of `attention_loss` with respect to x; those of parameters are added.

    Returns
    -------
    dx : ndarray, shape (B, T, C)
    """
    pairs, saved_scores, saved_imitation = saved

    # loss = imitation_loss(scores.transpose(0, 2, 3, 1)[pairs], ...)
    dpairs = imitation_loss_backward(dloss, saved_imitation)          # (n, H)
    dscores = np.zeros((*pairs.shape, block.attention.n_heads), dpairs.dtype)
    dscores[pairs] = dpairs                                           # (B, T, T, H)

    # scores = attention_scores(block, x)
    return attention_scores_backward(block, dscores.transpose(0, 3, 1, 2), saved_scores)
