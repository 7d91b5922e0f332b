"""Recurrent language models: the text so far is summarized in a state of fixed size."""

from dataclasses import dataclass

import numpy as np

from numformer.checks import check_rows
from numformer.config import Config, like, option
from numformer.description import TOKENS, VECTORS, Column, Residual, Stack, costs_per_token
from numformer.layers import GRU, LSTM, RNN, Dropout, Embedding, Identity, LMHead
from numformer.models.decoder.config import DecoderConfig
from numformer.models.transformer import CrossEntropyModel, TransformerConfig
from numformer.parameter import normal
from numformer.shapes_only import MOST_ARRAYS


@dataclass(frozen=True, kw_only=True)
class StatefulLanguageModelConfig(Config):
    """The config of a `StatefulLanguageModel`."""

    vocab_size: int = like(DecoderConfig, "vocab_size")
    context_length: int = option(
        "Length of the blocks in training, and most tokens that a generator reads again.")
    n_layers: int = option("Number of layers.", most=MOST_ARRAYS)
    d_model: int = option("C, the width.")
    tied: bool = like(DecoderConfig, "tied")
    dropout: float = option(
        "Rate for embeddings and outputs of layers.", 0.0, least=0, below=1)
    init_std: float = option(
        "Standard deviation of the initial embedding, and of a head that is not tied.", 0.02,
        least=0)
    dtype: str = like(TransformerConfig, "dtype")


class StatefulLanguageModel(CrossEntropyModel):
    r"""Predict every next token from the tokens before it, summarized in the state of each layer.

    .. math::

        x^0 = \mathrm{embedding}(\mathrm{ids}), \qquad
        x^{\ell+1} = \mathrm{layer}_\ell(x^\ell) \;(+\; x^\ell), \qquad
        z = \mathrm{norm}(x^L)\, W^\top

    Next to `forward` and `backward`, a layer has ``step(x, state) -> (y, state)``. The size of the
    state does not depend on the length of the text; the KV cache of a Transformer grows with it.
    """

    residual = False                                                  # whether layers are residual

    def __init__(self, config, rng, layers, norm):
        c, dtype = config, np.dtype(config.dtype)
        self.config = config
        self.embedding = Embedding(c.vocab_size, c.d_model, rng, c.init_std, dtype=dtype)
        self.dropout = Dropout(c.dropout)
        self.layers = layers
        self.norm = norm
        self.head = LMHead(self.embedding.weight if c.tied
                           else normal(rng, (c.vocab_size, c.d_model), c.init_std, dtype))

    def forward(self, ids, rng=None):
        """Logits (B, T, V) for the token after each of ids (B, T); rng is for dropout."""
        check_rows(type(self).__name__, "ids", ids)
        x, saved_embedding = self.embedding.forward(ids)              # (B, T, C)
        x, saved_dropout = self.dropout.forward(x, rng)
        saved_layers = []
        for layer in self.layers:
            y, saved_layer = layer.forward(x)
            y, saved_output = self.dropout.forward(y, rng)
            x = x + y if self.residual else y
            saved_layers.append((saved_layer, saved_output))
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
        pairs = zip(reversed(self.layers), reversed(saved_layers))
        for layer, (saved_layer, saved_output) in pairs:
            dy = layer.backward(self.dropout.backward(dx, saved_output), saved_layer)
            dx = dx + dy if self.residual else dy

        # x = dropout(embedding(ids))
        dx = self.dropout.backward(dx, saved_dropout)
        return self.embedding.backward(dx, saved_embedding)

    def step(self, ids, cache=None, left_padding=None):
        """Continue sequences: logits of the new tokens only, from the states after earlier ones.

        Parameters
        ----------
        ids : ndarray of int, shape (B, T)
            The new tokens, any number of them.
        cache : tuple of ndarray, optional
            The state of every layer, as the last call returned it; None at the start.
        left_padding : ndarray of int, shape (B,), optional
            At the start: numbers of padding tokens before each sequence. They change no state.

        Returns
        -------
        logits : ndarray, shape (B, T, V)
            0 at padding.
        cache : tuple of ndarray
            New values; the old ones stay valid.
        """
        check_rows(type(self).__name__, "ids", ids)
        if left_padding is not None:
            return self._step_each(ids, left_padding)
        if cache is not None and (len(cache) != len(self.layers)
                                  or any(len(state) != len(ids) for state in cache)):
            raise ValueError(f"{type(self).__name__}: the cache must hold the states of "
                             f"{len(self.layers)} layers for B={len(ids)} sequences; begin with "
                             "cache=None.")
        x, after = self.embedding(ids), []
        for layer, state in zip(self.layers, cache or [None] * len(self.layers)):
            y, state = layer.step(x, state)
            x = x + y if self.residual else y
            after.append(state)
        return self.head(self.norm(x)), tuple(after)

    def _step_each(self, ids, left_padding):
        """The first step of sequences of different lengths, one by one without their padding."""
        steps = [self.step(row[None, pad:]) for row, pad in zip(ids, left_padding)]
        parts, caches = zip(*steps)
        logits = np.zeros((*ids.shape, parts[0].shape[2]), parts[0].dtype)
        for row, part in zip(logits, parts):
            row[-part.shape[1]:] = part[0]
        return logits, tuple(map(np.concatenate, zip(*caches)))

    def costs(self):
        return costs_per_token(self)

    def describe_model(self, reader):
        """Equal layers, which may differ in dilation."""
        reader.sizes_of(self.config)
        logits = "B", "T", reader.letter("V", self.config.vocab_size)
        embedding = reader.boxes(VECTORS, self.embedding)
        blocks = [reader.numbered(lambda each: self._described(each, layer))
                  for layer in self.layers]
        dilations = [layer.convolution.dilation for layer in self.layers
                     if hasattr(layer, "convolution")]
        if len(set(dilations)) > 1:
            detail = (f"width {len(self.layers[0].convolution.weight.data)}, "
                      f"dilations {', '.join(map(str, dilations))}")
            blocks = [(Residual((block[0].parts[0]._replace(detail=detail),)),) for block in blocks]
        return reader.architecture(Column(TOKENS, (
            *embedding, Stack(len(blocks), blocks[0]), *reader.boxes(VECTORS, self.norm),
            *reader.boxes(logits, self.head))))

    def _described(self, reader, layer):
        parts = reader.parts(reader.box(VECTORS, layer), layer)
        return (Residual(parts),) if self.residual else parts


CELLS = {"rnn": RNN, "lstm": LSTM, "gru": GRU}


@dataclass(frozen=True, kw_only=True)
class RecurrentLanguageModelConfig(StatefulLanguageModelConfig):
    """The config of a `RecurrentLanguageModel`."""

    cell: str = option("The recurrent layer.", "lstm", choices=CELLS)
    init_std: float = 0.5                                     # with less, learning starts slowly


class RecurrentLanguageModel(StatefulLanguageModel):
    r"""Stacked recurrent layers: see `StatefulLanguageModel`.

    .. math:: x^{\ell+1}_t = h^\ell_t = \mathrm{cell}(x^\ell_t, h^\ell_{t-1})

    The gradient of a loss with respect to a token k steps earlier is a product of k Jacobians. It
    vanishes or explodes in the plain network, and less so where gates control the state.

    Parameters
    ----------
    config : RecurrentLanguageModelConfig
    rng : numpy.random.Generator or None
        Draws the initial weights. With None there are only shapes, for counting.

    References
    ----------
    Mikolov et al. (2010), "Recurrent neural network based language model". Stacked layers with
    dropout between them: Zaremba, Sutskever, Vinyals (2014), "Recurrent Neural Network
    Regularization", section 3. Vanishing gradients: Bengio, Simard, Frasconi (1994), "Learning
    Long-Term Dependencies with Gradient Descent is Difficult".

    Examples
    --------
    >>> sizes = dict(vocab_size=65, context_length=8, n_layers=2, d_model=16)
    >>> config = RecurrentLanguageModelConfig(**sizes, cell="gru")
    >>> model = RecurrentLanguageModel(config, np.random.default_rng(0))
    >>> ids = np.array([[1, 2, 3, 4]])
    >>> model(ids).shape                                              # logits, (B, T, V)
    (1, 4, 65)
    >>> logits, states = model.step(ids)
    >>> [state.shape for state in states]                             # however long the text is
    [(1, 16), (1, 16)]
    """

    config_class = RecurrentLanguageModelConfig

    def __init__(self, config, rng):
        c, dtype = config, np.dtype(config.dtype)
        cell = CELLS[c.cell]
        layers = [cell(c.d_model, c.d_model, rng, dtype=dtype) for _ in range(c.n_layers)]
        super().__init__(config, rng, layers, norm=Identity())
