"""The text encoder of CLIP: a causal Transformer whose last token, the end token, is the text."""

import numpy as np

from numformer.checks import check_lengths, check_rows
from numformer.description import MASKED, OF_TOKEN, Column, flops_of, n_parameters
from numformer.functional.attention.masks import AttentionPattern
from numformer.layers import Dropout, Embedding, Identity, Linear
from numformer.models.clip.config import CLIPTextConfig
from numformer.models.transformer import Encoder, InputEmbedding, positions_of
from numformer.parameter import Layer


class CLIPTextEncoder(Layer):
    r"""A vector for a text, ids (B, T) to (B, E): the output at its end token, mapped linearly.

    .. math:: y_b = \mathrm{encoder}(E_{\mathrm{ids}} + P)_{b,\, e_b}\, W, \qquad
              e_b = \min \{ t : \mathrm{ids}_{bt} = \mathrm{eos} \}

    Attention is causal, so the end token is the first that depends on the whole text, and nothing
    after it counts: padding on the right needs no mask.

    Parameters
    ----------
    config : CLIPTextConfig
    rng : numpy.random.Generator or None
        Draws the initial weights. With None, parameters have only shapes, for counting.

    References
    ----------
    Radford et al. (2021), "Learning Transferable Visual Models From Natural Language Supervision",
    section 2.4.

    Examples
    --------
    >>> from numformer.models import CLIPTextConfig
    >>> config = CLIPTextConfig(vocab_size=9, context_length=6, n_layers=2, n_heads=2, d_model=16,
    ...                         d_embedding=4, eos_id=8)
    >>> model = CLIPTextEncoder(config, np.random.default_rng(0))
    >>> y = model(np.array([[1, 2, 8, 0], [1, 8, 5, 5]]))
    >>> y.shape
    (2, 4)
    >>> bool(np.allclose(y[1], model(np.array([[1, 8]]))[0], atol=1e-6))     # up to its end token
    True
    """

    config_class = CLIPTextConfig

    def __init__(self, config, rng):
        c, dtype = config, np.dtype(config.dtype)
        self.config = config
        self.embedding = Embedding(c.vocab_size, c.d_model, rng, c.init_std, dtype=dtype)
        self.positions = positions_of(c, rng)
        self.dropout = Dropout(c.dropout)
        self.encoder = Encoder(c, rng)
        self.projection = Identity()
        if c.d_embedding is not None:
            self.projection = Linear(c.d_model, c.d_embedding, rng, bias=False, dtype=dtype)

    @property
    def input(self):
        """The layers below the first block."""
        return InputEmbedding(self.embedding, self.positions, dropout=self.dropout)

    def forward(self, ids, lengths=None, rng=None, mask=None):
        """A vector for each text.

        Parameters
        ----------
        ids : ndarray of int, shape (B, T)
            Each text with its end token.
        lengths : ndarray of int, shape (B,), optional
            Tokens of each row without its padding, in which no end token is looked for; T unless
            given.
        rng : numpy.random.Generator, optional
            For dropout.
        mask : ndarray of bool, shape (T, T), (B, 1, T, T) or (B, H, T, T), optional
            True: this query may attend to this key, if it is not later.

        Returns
        -------
        y : ndarray, shape (B, E)
        saved : tuple

        Raises
        ------
        ValueError, TypeError
            If ids or lengths do not fit, or a text has no end token.
        """
        check_rows("CLIPTextEncoder", "ids", ids)
        if lengths is not None:
            check_lengths("CLIPTextEncoder", lengths, *ids.shape)
        pattern = AttentionPattern(causal=True, lengths=lengths, mask=mask)
        ends = self.end_tokens(ids, lengths)                          # (B,)
        x, saved_input = self.input.forward(ids, rng=rng)             # (B, T, C)
        x, saved_encoder = self.encoder.forward(x, pattern, rng)
        rows = x[np.arange(len(x)), ends]                             # (B, C)
        y, saved_projection = self.projection.forward(rows)           # (B, E)

        saved = (saved_input, saved_encoder, (x.shape, ends), saved_projection)
        return y, saved

    def backward(self, dy, saved):
        saved_input, saved_encoder, (shape, ends), saved_projection = saved

        # y = projection(rows)
        drows = self.projection.backward(dy, saved_projection)

        # rows = x[b, ends[b]]
        dx = np.zeros(shape, drows.dtype)
        dx[np.arange(len(dx)), ends] = drows

        # x = encoder(input(ids))
        dx = self.encoder.backward(dx, saved_encoder)
        return self.input.backward(dx, saved_input)

    def end_tokens(self, ids, lengths=None):
        """The position of the first end token of each row, (B,)."""
        real = np.arange(ids.shape[1]) < (ids.shape[1] if lengths is None else lengths[:, None])
        if self.config.eos_id is None:
            return np.where(real, ids, -1).argmax(axis=1)             # the first of the largest
        ends = real & (ids == self.config.eos_id)
        without = np.flatnonzero(~ends.any(axis=1))
        if without.size:
            raise ValueError(f"CLIPTextEncoder: row {without[0]} of ids has no end token, eos_id="
                             f"{self.config.eos_id}; end every text with it.")
        return ends.argmax(axis=1)

    def costs(self):
        """The costs of a text: causal attention, full context, one vector projected."""
        T = self.config.context_length
        flops = round(T * flops_of(self.encoder, (T + 1) / 2) + flops_of(self.projection, 0))
        return {"parameters": n_parameters(self), "flops_per_text": flops,
                "training_flops_per_text": 3 * flops}

    def describe_model(self, reader):
        c = self.config
        reader.sizes_of(c)
        shape = "B", "T", reader.letter("C", c.d_model)
        return reader.architecture(Column("texts (B, T)", (
            *self.input.boxes(reader, shape),
            *reader.stacks(self.encoder.blocks, MASKED, shape),
            *reader.boxes(shape, self.encoder.norm),
            reader.function((*shape[::2],), "End token", CLIPTextEncoder, "its vector at the top",
                            OF_TOKEN),
            *reader.boxes(("B", c.d_embedding or "C"), self.projection, name="Projection"))))
