"""Where gradients reach: how far back a language model feels, and how they pass from block to block."""

import numpy as np

from numformer.backend import cross_entropy, cross_entropy_backward
from numformer.checks import check_whole
from numformer.functional import IGNORE_INDEX
from numformer.layers import Embedding, TransformerBlock
from numformer.layers.cross_block import CrossBlock
from numformer.parameter import Layer, Parameter


def gradient_by_distance(model, inputs, targets, places=8):
    r"""The length of the gradient of a loss by the token k steps before, as a mean over places and sequences.

    .. math:: g_k = \left\langle \left\lVert \frac{\partial L_t}{\partial x_{t-k}} \right\rVert \right\rangle_{t,\, b}, \qquad
        L_t = -\log p(\mathrm{target}_t), \quad x = \mathrm{embedding}(\mathrm{ids})

    One backward for each t. Where g falls by a constant factor with every step, as it does in a recurrent network whose Jacobians
    shrink what they multiply, gradients vanish: nothing is learned of what lies far back.

    Parameters
    ----------
    model : Layer
        With `embedding`, ``forward(ids)`` and ``backward(dlogits, saved)``.
    inputs, targets : ndarray of int, shape (B, T)
        T is 2 or more.
    places : int
        How many t, evenly spread over the second half of the sequence, so that all distances up to its half are seen from all.

    Returns
    -------
    ndarray of float64, shape (T // 2 + 1,)
        g_0, for the token that stands right before its target, up to the one T // 2 earlier.

    Raises
    ------
    ValueError
        If sequences are too short, or the model looks up n-grams: then a token is part of several vectors.

    References
    ----------
    Bengio, Simard, Frasconi (1994), "Learning Long-Term Dependencies with Gradient Descent is Difficult", section IV; Pascanu,
    Mikolov, Bengio (2013), "On the difficulty of training recurrent neural networks", section 2.1.

    Examples
    --------
    >>> from numformer.models import ConvolutionLanguageModel, ConvolutionLanguageModelConfig
    >>> config = ConvolutionLanguageModelConfig(vocab_size=5, context_length=12, n_layers=1, d_model=4)
    >>> model = ConvolutionLanguageModel(config, np.random.default_rng(0))
    >>> ids = np.arange(13)[None] % 5
    >>> gradient_by_distance(model, ids[:, :-1], ids[:, 1:]) > 0      # a window of three sees two tokens before the last
    array([ True,  True,  True, False, False, False, False])
    """
    B, T = inputs.shape
    check_whole("gradient_by_distance", "places", places)
    if T < 2:
        raise ValueError(f"gradient_by_distance: sequences of T={T} tokens have no second half; give longer ones.")
    if getattr(model, "ngrams", None) is not None:
        raise ValueError("gradient_by_distance: a model that looks up n-grams has several vectors for a token; use one with ngrams=1.")
    table = model.embedding.weight.data
    probe = model.replica()                                           # the same model, but every place has a vector of its own to blame
    probe.embedding = Embedding(B * T, table.shape[1], None, scale=model.embedding.scale, dtype=table.dtype)
    probe.embedding.weight = vectors = Parameter(table[inputs].reshape(B * T, -1))
    logits, saved = probe.forward(np.arange(B * T).reshape(B, T))
    half, total = T // 2, np.zeros(T // 2 + 1)
    chosen = np.unique(np.linspace(half, T - 1, places).astype(int))
    for t in chosen:
        only = np.full_like(targets, IGNORE_INDEX)
        only[:, t] = targets[:, t]
        _, saved_loss = cross_entropy(logits, only)
        vectors.zero_grad()
        probe.backward(cross_entropy_backward(float(B), saved_loss), saved)      # B times the mean: each sequence's own gradient
        lengths = np.sqrt((vectors.grad.astype(np.float64) ** 2).sum(axis=1)).reshape(B, T) / model.embedding.scale   # x = scale * row
        total += lengths[:, t - half:t + 1][:, ::-1].mean(axis=0)
    return total / len(chosen)


def gradient_by_block(model, batch):
    """The length of the gradient of each block's parameters, taken as one vector, from one batch.

    Parameters
    ----------
    model : Layer
        With Transformer blocks, ``loss(batch)`` and ``loss_backward(saved)``. Its own gradients stay as they are.
    batch : tuple
        What its `loss` takes.

    Returns
    -------
    dict of str to ndarray of float64, shape (L,)
        For every stack of blocks, such as "blocks", or "encoder.blocks" beside it.

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
    >>> model = Decoder(DecoderConfig(vocab_size=5, context_length=8, n_layers=3, n_heads=1, d_model=4), np.random.default_rng(0))
    >>> gradient_by_block(model, (np.array([[1, 2]]), np.array([[2, 3]])))["blocks"].shape
    (3,)
    """
    probe, stacks = model.replica() if isinstance(model, Layer) else None, {}
    for name, block in probe.named_layers() if probe else ():
        if isinstance(block, (TransformerBlock, CrossBlock)):
            stacks.setdefault(name.rpartition(".")[0], []).append(block)
    if not stacks:
        raise ValueError(f"gradient_by_block: {type(model).__name__} has no Transformer blocks.")
    _, saved = probe.loss(batch)
    probe.loss_backward(saved)
    return {name: np.array([np.sqrt(sum((parameter.grad.astype(np.float64) ** 2).sum() for parameter in block.parameters()))
                            for block in blocks]) for name, blocks in stacks.items()}
