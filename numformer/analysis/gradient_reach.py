"""Gradient reach: gradient norms by distance in the sequence, and by block."""

import numpy as np

from numformer.backend import cross_entropy, cross_entropy_backward
from numformer.checks import check_whole
from numformer.functional import IGNORE_INDEX
from numformer.layers import Embedding, TransformerBlock
from numformer.models import NGramDecoder
from numformer.parameter import Layer, Parameter
from numformer.underflow import underflow_is_zero


@underflow_is_zero
def gradient_reach(model, inputs, targets, n_positions=8):
    r"""The mean norm of the gradient of a loss with respect to the embedding k tokens earlier.

    .. math::

        g_k = \left\langle \left\lVert \frac{\partial L_t}{\partial x_{t-k}}
        \right\rVert \right\rangle_{t,\, b}, \qquad
        L_t = -\log p(\mathrm{target}_t), \quad x = \mathrm{embedding}(\mathrm{ids})

    One backward for each t. Where g falls by a constant factor with each step, as in a recurrent
    network with contracting Jacobians, gradients vanish: distant tokens are not learned from.

    Parameters
    ----------
    model : Layer
        With `embedding`, ``forward(ids)`` and ``backward(dlogits, saved)``.
    inputs, targets : ndarray of int, shape (B, T)
        T is 2 or more.
    n_positions : int
        Number of positions t, evenly spaced in the second half of the sequence, so that each has
        all distances up to T // 2.

    Returns
    -------
    ndarray of float64, shape (T // 2 + 1,)
        g_0, with respect to the last input token, to g_{T // 2}.

    Raises
    ------
    ValueError
        If sequences are too short, or the model embeds n-grams, so that a token is in several
        vectors.

    References
    ----------
    Bengio, Simard, Frasconi (1994), "Learning Long-Term Dependencies with Gradient Descent is
    Difficult", section IV; Pascanu, Mikolov, Bengio (2013), "On the difficulty of training
    recurrent neural networks", section 2.1.

    Examples
    --------
    >>> from numformer.models import ConvolutionLanguageModel, ConvolutionLanguageModelConfig
    >>> config = ConvolutionLanguageModelConfig(vocab_size=5, context_length=12, n_layers=1,
    ...                                         d_model=4)
    >>> model = ConvolutionLanguageModel(config, np.random.default_rng(0))
    >>> ids = np.arange(13)[None] % 5
    >>> gradient_reach(model, ids[:, :-1], ids[:, 1:]) > 0      # a window of three tokens
    array([ True,  True,  True, False, False, False, False])
    """
    B, T = inputs.shape
    check_whole("gradient_reach", "n_positions", n_positions)
    if T < 2:
        raise ValueError(f"gradient_reach: T={T} must be at least 2; give longer sequences.")
    if isinstance(model, NGramDecoder):
        raise ValueError("gradient_reach: an NGramDecoder has several vectors for a token; use a "
                         "Decoder.")
    table = model.embedding.weight.data
    probe = model.replica()          # the same model with an embedding of its own for each position
    probe.embedding = Embedding(B * T, table.shape[1], None, scale=model.embedding.scale,
                                dtype=table.dtype)
    probe.embedding.weight = vectors = Parameter(table[inputs].reshape(B * T, -1))
    logits, saved = probe.forward(np.arange(B * T).reshape(B, T))
    half, total = T // 2, np.zeros(T // 2 + 1)
    chosen = np.unique(np.linspace(half, T - 1, n_positions).astype(int))
    for t in chosen:
        only = np.full_like(targets, IGNORE_INDEX)
        only[:, t] = targets[:, t]
        _, saved_loss = cross_entropy(logits, only)
        vectors.zero_grad()
        probe.backward(cross_entropy_backward(float(B), saved_loss), saved)      # B times the mean
        norms = (np.sqrt((vectors.grad.astype(np.float64) ** 2).sum(axis=1)).reshape(B, T)
                 / model.embedding.scale)                                          # x = scale * row
        total += norms[:, t - half:t + 1][:, ::-1].mean(axis=0)
    return total / len(chosen)


@underflow_is_zero
def gradient_norm_by_block(model, batch):
    """The gradient norm of each block's parameters, from one batch.

    Parameters
    ----------
    model : Layer
        With Transformer blocks, ``loss(batch)`` and ``loss_backward(saved)``. Its gradients stay as
        they are.
    batch : tuple
        The argument of its `loss`.

    Returns
    -------
    dict of str to ndarray of float64, shape (L,)
        For every stack of blocks: "blocks", and "encoder.blocks" of an encoder-decoder.

    Raises
    ------
    ValueError
        If the model has no blocks.

    References
    ----------
    Xiong et al. (2020), "On Layer Normalization in the Transformer Architecture", figure 3.

    Examples
    --------
    >>> from numformer.models import Decoder, DecoderConfig
    >>> config = DecoderConfig(vocab_size=5, context_length=8, n_layers=3, n_heads=1, d_model=4)
    >>> model = Decoder(config, np.random.default_rng(0))
    >>> gradient_norm_by_block(model, (np.array([[1, 2]]), np.array([[2, 3]])))["blocks"].shape
    (3,)
    """
    probe, stacks = model.replica() if isinstance(model, Layer) else None, {}
    for name, block in probe.named_layers() if probe else ():
        if isinstance(block, TransformerBlock):
            stacks.setdefault(name.rpartition(".")[0], []).append(block)
    if not stacks:
        raise ValueError(f"gradient_norm_by_block: {type(model).__name__} has no Transformer "
                         "blocks.")
    _, saved = probe.loss(batch)
    probe.loss_backward(saved)
    return {
        name: np.array([np.sqrt(sum((parameter.grad.astype(np.float64) ** 2).sum()
                                    for parameter in block.parameters())) for block in blocks])
        for name, blocks in stacks.items()}
