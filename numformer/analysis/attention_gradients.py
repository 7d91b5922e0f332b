"""The inputs of every attention in a model, and the gradients of their outputs."""

from typing import NamedTuple

import numpy as np

from numformer.analysis.attention_views import Reading, attention_views
from numformer.analysis.capture import capture
from numformer.backend import one_blas_thread
from numformer.layers import MultiHeadAttention
from numformer.models.decoder.model import Decoder


class AttentionGradient(NamedTuple):
    """What one attention computed with in a forward and a backward.

    Parameters
    ----------
    q, k, v : ndarray, shape (H, T, D)
        As the attention gets them: after norms and rotary positions.
    do : ndarray, shape (H, T, D)
        The gradient of the loss with respect to the output of each head.
    mask : ndarray of bool, shape (T, T)
        True where a query may attend to a key.
    """

    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    do: np.ndarray
    mask: np.ndarray


def attention_gradients(model, ids, targets):
    """Record q, k, v and do of every attention of a decoder, in one forward and backward.

    Parameters
    ----------
    model : Decoder
        Without ALiBi and position biases, which change the scores. Its gradients stay as they are.
    ids, targets : ndarray of int, shape (1, T)

    Returns
    -------
    list of AttentionGradient
        One for each layer.

    Raises
    ------
    ValueError
        If the model is not a decoder, or its scores have biases.

    Examples
    --------
    >>> from numformer.models import DecoderConfig
    >>> config = DecoderConfig(vocab_size=5, context_length=8, n_layers=2, n_heads=2, d_model=8)
    >>> model = Decoder(config, np.random.default_rng(0))
    >>> layers = attention_gradients(model, np.array([[1, 2, 3]]), np.array([[2, 3, 4]]))
    >>> len(layers), layers[0].v.shape, layers[0].do.shape
    (2, (2, 3, 4), (2, 3, 4))
    """
    if not isinstance(model, Decoder):
        raise ValueError(f"attention_gradients: model is a {type(model).__name__}; give a Decoder.")
    (view,) = attention_views(model, Reading((ids,), [""] * ids.shape[1]))
    if any(bias is not None for bias in view.biases):
        raise ValueError("attention_gradients: the scores of this model have position biases.")
    replica, gradients = model.replica(), {}

    def recorded(name, backward):
        def recording_backward(dy, saved):
            gradients[name] = dx = backward(dy, saved)
            return dx
        return recording_backward

    layers = [(name, layer) for name, layer in replica.named_layers()
              if isinstance(layer, MultiHeadAttention)]
    for name, layer in layers:                        # the replica is discarded afterwards
        layer.output.backward = recorded(name, layer.output.backward)
    with one_blas_thread(), capture(replica, MultiHeadAttention) as calls:
        _, saved = replica.loss((ids, targets))
        replica.loss_backward(saved)
    values = {call.name: call.layer.values(call.saved)[0] for call in calls}  # (G, T, D)
    found = []
    for (name, layer), q, k, mask in zip(layers, view.q, view.k, view.masks):
        v = np.repeat(values[name], layer.n_heads // layer.n_kv_heads, axis=0)
        found.append(AttentionGradient(q, k, v, _heads(gradients[name], layer.n_heads), mask))
    return found


def _heads(x, n_heads):
    """(1, T, H D) to (H, T, D)."""
    return x[0].reshape(x.shape[1], n_heads, -1).transpose(1, 0, 2)
