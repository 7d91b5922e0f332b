"""Language models that are no Transformers: an embedding, layers that carry a state along the text, and a head."""

from dataclasses import dataclass, fields

import numpy as np

from numformer.backend import cross_entropy, cross_entropy_backward
from numformer.checks import check_choice, check_number, check_whole
from numformer.layers import Dropout, Embedding, Unembedding
from numformer.models.switches import Switches
from numformer.parameter import Layer, normal


@dataclass(frozen=True, kw_only=True)
class LanguageModelConfig(Switches):
    """The switches of a `StatefulLanguageModel`.

    Parameters
    ----------
    vocab_size : int
        V.
    context_length : int
        The length of the blocks it is trained on, and the most that it reads again when it writes.
    n_layers : int
        Layers.
    d_model : int
        C, the width.
    tied : bool
        Whether the output head is the embedding's table.
    dropout : float in [0, 1)
        For embeddings and what the layers give.
    init_std : float
        Of the initial table of the embedding, and of a head of its own.
    dtype : "float32" or "float64"
        Of parameters and everything computed from them.

    Raises
    ------
    ValueError
        If a number is out of range or a choice unknown.
    """

    vocab_size: int
    context_length: int
    n_layers: int
    d_model: int
    tied: bool = True
    dropout: float = 0.0
    init_std: float = 0.02
    dtype: str = "float32"

    def __post_init__(self):
        owner = type(self).__name__
        for field in fields(self):
            if field.type is int:
                check_whole(owner, field.name, getattr(self, field.name))
        check_choice(owner, "tied", self.tied, [True, False])
        check_choice(owner, "dtype", self.dtype, ["float32", "float64"])
        check_number(owner, "dropout", self.dropout, least=0, below=1)
        check_number(owner, "init_std", self.init_std, least=0)


class StatefulLanguageModel(Layer):
    r"""Predict every next token from the tokens before it, of which each layer knows what its state has kept.

    .. math::

        x^0 = \mathrm{embedding}(\mathrm{ids}), \qquad x^{\ell+1} = \mathrm{layer}_\ell(x^\ell) \;(+\; x^\ell), \qquad
        z = \mathrm{norm}(x^L)\, W^\top

    A layer has ``step(x, state) -> (y, state)`` beside its `forward` and `backward`. A state has the same size however long the text
    is: that, and not the keys and values of all tokens, is what such a model remembers while it writes.
    """

    residual = False                                                  # whether what a layer gives is added to what it was given

    def __init__(self, config, rng, layers, norm):
        c, dtype = config, np.dtype(config.dtype)
        self.config = config
        self.embedding = Embedding(c.vocab_size, c.d_model, rng, c.init_std, dtype=dtype)
        self.dropout = Dropout(c.dropout)
        self.layers = layers
        self.norm = norm
        self.head = Unembedding(self.embedding.weight if c.tied else normal(rng, (c.vocab_size, c.d_model), c.init_std, dtype))

    def forward(self, ids, rng=None):
        """Logits for the token after each.

        Parameters
        ----------
        ids : ndarray of int, shape (B, T)
            In 0 .. V-1.
        rng : numpy.random.Generator, optional
            For dropout; None at inference.

        Returns
        -------
        logits : ndarray, shape (B, T, V)
        saved : tuple

        Raises
        ------
        ValueError, TypeError
            If ids are not integers of two axes in that range.
        """
        self._check_two_axes(ids)
        x, saved_embedding = self.embedding.forward(ids)              # (B, T, C)
        x, saved_dropout = self.dropout.forward(x, rng)
        saved_layers = []
        for layer in self.layers:
            y, saved_layer = layer.forward(x)
            y, saved_silence = self.dropout.forward(y, rng)
            x = x + y if self.residual else y
            saved_layers.append((saved_layer, saved_silence))
        x, saved_norm = self.norm.forward(x)
        logits, saved_head = self.head.forward(x)                     # (B, T, V)

        saved = (saved_embedding, saved_dropout, saved_layers, saved_norm, saved_head)
        return logits, saved

    def backward(self, dlogits, saved):
        saved_embedding, saved_dropout, saved_layers, saved_norm, saved_head = saved

        # logits = head(norm(x))
        dx = self.head.backward(dlogits, saved_head)
        dx = self.norm.backward(dx, saved_norm)

        # x = x + dropout(layer(x)), or without x, L times
        for layer, (saved_layer, saved_silence) in zip(reversed(self.layers), reversed(saved_layers)):
            dy = layer.backward(self.dropout.backward(dx, saved_silence), saved_layer)
            dx = dx + dy if self.residual else dy

        # x = dropout(embedding(ids))
        dx = self.dropout.backward(dx, saved_dropout)
        return self.embedding.backward(dx, saved_embedding)

    def loss(self, batch, rng=None):
        """Mean cross-entropy of a batch.

        Parameters
        ----------
        batch : pair (inputs, targets) of ndarray of int, shape (B, T)
        rng : numpy.random.Generator, optional

        Returns
        -------
        loss : scalar, nats a target
        saved : tuple
        """
        inputs, targets = batch
        logits, saved_forward = self.forward(inputs, rng)
        loss, saved_loss = cross_entropy(logits, targets)

        saved = (saved_forward, saved_loss)
        return loss, saved

    def loss_backward(self, saved, dloss=1.0):
        """Add the gradient of dloss * loss to every parameter."""
        saved_forward, saved_loss = saved

        # loss = cross_entropy(forward(inputs), targets)
        self.backward(cross_entropy_backward(dloss, saved_loss), saved_forward)

    def step(self, ids, cache=None, pads=None):
        """Continue sequences: logits of new tokens alone, given the states that the tokens before have left.

        Parameters
        ----------
        ids : ndarray of int, shape (B, T)
            The new tokens, any number of them.
        cache : tuple of ndarray, optional
            The state of every layer, as the last call returned them; None at the start.
        pads : ndarray of int, shape (B,), optional
            At the start: how many of the first tokens of each sequence only fill up the row. No state sees them.

        Returns
        -------
        logits : ndarray, shape (B, T, V)
            0 where a token only fills up.
        cache : tuple of ndarray
            New values; the old ones stay good.
        """
        self._check_two_axes(ids)
        if pads is not None:
            return self._begin_alone(ids, pads)
        if cache is not None and (len(cache) != len(self.layers) or any(len(state) != len(ids) for state in cache)):
            raise ValueError(f"{type(self).__name__}: the cache must hold the states of {len(self.layers)} layers for B={len(ids)} "
                             "sequences; begin with cache=None.")
        x, after = self.embedding(ids), []
        for layer, state in zip(self.layers, cache or [None] * len(self.layers)):
            y, state = layer.step(x, state)
            x = x + y if self.residual else y
            after.append(state)
        return self.head(self.norm(x)), tuple(after)

    def _begin_alone(self, ids, pads):
        """The first step of sequences of several lengths: each by itself, for a state begins where its sequence does."""
        parts, caches = zip(*(self.step(row[None, pad:]) for row, pad in zip(ids, pads)))
        logits = np.zeros((*ids.shape, parts[0].shape[2]), parts[0].dtype)
        for row, part in zip(logits, parts):
            row[-part.shape[1]:] = part[0]
        return logits, tuple(map(np.concatenate, zip(*caches)))

    def _check_two_axes(self, ids):
        if getattr(ids, "ndim", 2) != 2:
            raise ValueError(f"{type(self).__name__}: ids must have shape (B, T), but have {ids.shape}; a single sequence is ids[None].")
