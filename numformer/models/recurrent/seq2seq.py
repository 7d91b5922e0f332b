"""Recurrent sequence to sequence: an encoder reads, a decoder with attention writes."""

from dataclasses import dataclass, replace

import numpy as np

from numformer.checks import check_lengths, check_rows
from numformer.config import Config, like, option
from numformer.description import Column, Row, n_parameters
from numformer.layers import (
    GRU, AttentiveGRU, Bidirectional, Dropout, Embedding, Identity, Linear)
from numformer.layers.attention.score_attention import SCORES
from numformer.models.transformer import CrossEntropyModel, TransformerConfig


@dataclass(frozen=True, kw_only=True)
class Seq2SeqConfig(Config):
    """The config of a `Seq2Seq`.

    Examples
    --------
    >>> Seq2SeqConfig(vocab_size=30, d_model=16, d_hidden=32, dtype="half")
    Traceback (most recent call last):
    ValueError: Seq2SeqConfig: dtype='half' is unknown; choose from 'float32', 'float64'.
    """

    vocab_size: int = option("V, the number of tokens of sources and targets together.")
    d_model: int = option("C, the width of the embeddings.")
    d_hidden: int = option(
        "F, even: the width of the decoder's state, and of an annotation, of which each direction "
        "of the encoder gives a half.")
    attention: str = option(
        "How annotations are scored, see `ScoreAttention`. With none the decoder has the last "
        "states of the encoder alone.", "additive", choices=(*SCORES, "none"))
    dropout: float = option(
        "Rate for embeddings, and for states and contexts before the output layer.", 0.0, least=0,
        below=1)
    init_std: float = option("Standard deviation of the initial embeddings.", 0.1, least=0)
    dtype: str = like(TransformerConfig, "dtype")

    def __post_init__(self):
        super().__post_init__()
        if self.d_hidden % 2:
            raise ValueError(f"{type(self).__name__}: d_hidden={self.d_hidden} must be even, a "
                             f"half for each direction; use {self.d_hidden + 1}.")


class Seq2Seq(CrossEntropyModel):
    r"""Read a sequence, then write another.

    .. math::

        h_j = [\overrightarrow{h}_j; \overleftarrow{h}_j], \qquad
        s_0 = \tanh(W \overleftarrow{h}_1 + b), \qquad
        c_t = \sum_j p_{tj} h_j, \qquad s_t = \mathrm{gru}([e_t; c_t], s_{t-1})

    .. math:: z_t = [s_t; c_t; e_t]\, W_o + b_o

    where e_t embeds the previous output, and p_t is the softmax of the scores of s_{t-1} with all
    annotations h_j: see `AttentiveGRU`. Without attention there is no c_t, and s_0 comes from the
    last state of both directions: one vector for the whole source, the fixed-vector bottleneck.

    The output layer is linear in state, context and embedding; the paper has a maxout layer before
    it.

    Parameters
    ----------
    config : Seq2SeqConfig
    rng : numpy.random.Generator or None
        Draws the initial weights. With None there are only shapes, for counting.

    References
    ----------
    Bahdanau, Cho, Bengio (2015), "Neural Machine Translation by Jointly Learning to Align and
    Translate", section 3 and appendix A.2; the output depends on s_t, as in eq. 4 (A.2.2 prints
    s_{t-1}). Without attention: Sutskever, Vinyals, Le (2014), "Sequence to Sequence Learning with
    Neural Networks"; Cho et al. (2014), "Learning Phrase Representations using RNN
    Encoder-Decoder".

    Examples
    --------
    >>> config = Seq2SeqConfig(vocab_size=9, d_model=4, d_hidden=6)
    >>> model = Seq2Seq(config, np.random.default_rng(0))
    >>> inputs, lengths = np.array([[3, 4, 5], [6, 0, 0]]), np.array([3, 1])
    >>> outputs, targets = np.array([[1, 7], [1, 8]]), np.array([[7, 2], [8, 2]])
    >>> model(inputs, lengths, outputs).shape                         # logits, (B, T, V)
    (2, 2, 9)
    >>> loss, saved = model.loss((inputs, lengths, outputs, targets))
    >>> model.loss_backward(saved)
    """

    config_class = Seq2SeqConfig

    def __init__(self, config, rng):
        c, half, dtype = config, config.d_hidden // 2, np.dtype(config.dtype)
        attentive = c.attention != "none"
        self.config = config
        self.source = Embedding(c.vocab_size, c.d_model, rng, c.init_std, dtype=dtype)
        self.encoder = Bidirectional(GRU(c.d_model, half, rng, dtype=dtype),
                                     GRU(c.d_model, half, rng, reverse=True, dtype=dtype))
        self.first = Linear(half if attentive else c.d_hidden, c.d_hidden, rng, dtype=dtype)
        self.target = Embedding(c.vocab_size, c.d_model, rng, c.init_std, dtype=dtype)
        if attentive:
            self.decoder = AttentiveGRU(c.d_model, c.d_hidden, c.d_hidden, rng, c.attention, dtype)
        else:
            self.decoder = GRU(c.d_model, c.d_hidden, rng, dtype=dtype)
        d_output = (1 + attentive) * c.d_hidden + c.d_model
        self.output = Linear(d_output, c.vocab_size, rng, dtype=dtype)
        self.dropout = Dropout(c.dropout)

    def forward(self, inputs, lengths, outputs, rng=None):
        """Logits for the token after each of `outputs`.

        Parameters
        ----------
        inputs : ndarray of int, shape (B, S)
            Sources, with padding on the right.
        lengths : ndarray of int, shape (B,)
            Tokens of each source without its padding, 1 .. S.
        outputs : ndarray of int, shape (B, T)
            The tokens written so far, from BOS on.
        rng : numpy.random.Generator, optional
            For dropout.

        Returns
        -------
        logits : ndarray, shape (B, T, V)
        saved : tuple
        """
        self._check(inputs, lengths, outputs)
        h, s, saved_source = self._encode(inputs, lengths, rng)       # (B, S, F), (B, F)
        e, saved_target = self.target.forward(outputs)                # (B, T, C)
        e, saved_embedding = self.dropout.forward(e, rng)
        context = self._context(h, lengths)
        y, saved_decoder = self.decoder.forward(e, s, *context)       # (B, T, F + F), or (B, T, F)
        y, saved_dropout = self.dropout.forward(y, rng)
        logits, saved_output = self.output.forward(np.concatenate([y, e], axis=2))    # (B, T, V)

        saved = (saved_source, saved_target, saved_embedding, saved_decoder, saved_dropout,
                 saved_output)
        return logits, saved

    def backward(self, dlogits, saved):
        (saved_source, saved_target, saved_embedding, saved_decoder, saved_dropout,
         saved_output) = saved

        # logits = output(concatenate([dropout(y), e]))
        dy_e = self.output.backward(dlogits, saved_output)
        dy, de = np.split(dy_e, [dy_e.shape[2] - self.config.d_model], axis=2)

        # y = decoder(e, s, h), where h is an input with attention alone
        dy = self.dropout.backward(dy, saved_dropout)
        dinput, ds, *dh = self.decoder.backward(dy, saved_decoder)

        # e = dropout(target(outputs))
        self.target.backward(self.dropout.backward(de + dinput, saved_embedding), saved_target)

        # h, s = encode(inputs, lengths)
        self._encode_backward(dh, ds, saved_source)

    def _encode(self, inputs, lengths, rng=None):
        """The annotations of the source, (B, S, F), and the first state of the decoder, (B, F)."""
        x, saved_source = self.source.forward(inputs)                 # (B, S, C)
        x, saved_dropout = self.dropout.forward(x, rng)
        h, saved_encoder = self.encoder.forward(x, lengths)
        s, saved_first = self.first.forward(self._last_states(h))
        s = np.tanh(s)

        saved = (h.shape, s, saved_source, saved_dropout, saved_encoder, saved_first)
        return h, s, saved

    def _encode_backward(self, dh, ds, saved):
        """`dh` is a list: with attention of one gradient, without it empty."""
        shape, s, saved_source, saved_dropout, saved_encoder, saved_first = saved
        half = self.config.d_hidden // 2

        # s = tanh(first(last))
        dlast = self.first.backward(ds * (1 - s * s), saved_first)

        # last = h[:, 0, half:], after h[:, -1, :half] without attention; h is also an output
        dall = dh[0].copy() if dh else np.zeros(shape, dlast.dtype)   # (B, S, F)
        dall[:, 0, half:] += dlast[:, -half:]
        if not dh:
            dall[:, -1, :half] += dlast[:, :half]

        # h = encoder(dropout(source(inputs)), lengths)
        dx = self.dropout.backward(self.encoder.backward(dall, saved_encoder), saved_dropout)
        self.source.backward(dx, saved_source)

    def _last_states(self, h):
        """The last state of the backward direction; without attention, of the forward one too."""
        half = self.config.d_hidden // 2
        back = h[:, 0, half:]                                         # (B, F / 2)
        if self.config.attention != "none":
            return back
        return np.concatenate([h[:, -1, :half], back], axis=1)

    def _context(self, h, lengths):
        """The decoder's inputs that only attention needs."""
        return () if self.config.attention == "none" else (h, lengths)

    def begin(self, inputs, lengths):
        """Encode sources, (B, S) and (B,): the cache for the first `step`."""
        self._check(inputs, lengths, inputs)
        h, s, _ = self._encode(inputs, lengths)
        context = self._context(h, lengths)
        return Seq2SeqCache(s, self.decoder.prepare(*context)[0] if context else ())

    def step(self, ids, cache):
        """Continue every output by one token.

        Parameters
        ----------
        ids : ndarray of int, shape (B, 1)
            The previous token; BOS at first.
        cache : Seq2SeqCache
            What `begin` or the last call returned.

        Returns
        -------
        logits : ndarray, shape (B, 1, V)
        cache : Seq2SeqCache
            A new value; the old one stays valid.
        """
        if getattr(ids, "shape", None) != (len(cache.state), 1):
            raise ValueError(f"Seq2Seq: ids must have shape (B, 1) with B={len(cache.state)}, as "
                             f"the cache has, but have {getattr(ids, 'shape', None)}.")
        e = self.target(ids)
        y, state = self.decoder.step(e, cache.state, *([cache.memory] if cache.memory else []))
        return self.output(np.concatenate([y, e], axis=2)), replace(cache, state=state)

    def _check(self, inputs, lengths, outputs):
        check_rows("Seq2Seq", "inputs", inputs, "S")
        check_rows("Seq2Seq", "outputs", outputs)
        if len(inputs) != len(outputs):
            raise ValueError(f"Seq2Seq: {len(inputs)} inputs came with {len(outputs)} outputs; "
                             "give as many of each.")
        check_lengths("Seq2Seq", lengths, *inputs.shape, "S")

    def costs(self):
        """Parameters, and the bytes that writing keeps: for each token of the source, and in all.

        Attention keeps an annotation of every token and the key that is made of it: memory that
        grows with the source. Without it there is the state of the decoder alone.
        """
        c, per_token = self.config, 0
        if c.attention != "none":
            has_keys = not isinstance(self.decoder.attention.key, Identity)
            per_token = (1 + has_keys) * c.d_hidden
        itemsize = np.dtype(c.dtype).itemsize
        return {"parameters": n_parameters(self), "state_bytes": c.d_hidden * itemsize,
                "kv_bytes_per_source_token": per_token * itemsize}

    def describe_model(self, reader):
        """Every state of the encoder goes to attention; the last becomes the decoder's first."""
        c, attentive = self.config, self.config.attention != "none"
        reader.letter("C", c.d_model)
        F = reader.letter("F", c.d_hidden)
        logits = "B", "T", reader.letter("V", c.vocab_size)
        first = reader.boxes(("B", F), self.first, name="First state",
                             detail="tanh of a linear map of the last state")
        encoder = (*reader.boxes(("B", "S", "C"), self.source),
                   *reader.boxes(("B", "S", F), self.encoder),
                   *((Row(((), first)),) if attentive else first))
        width = (2 if attentive else 1) * c.d_hidden
        read = "the states, the contexts" if attentive else "the states"
        decoder = (*reader.boxes(("B", "T", "C"), self.target),
                   *reader.boxes(("B", "T", width), self.decoder, reads_memory=True),
                   *reader.boxes(logits, self.output, name="Linear head",
                                 detail=f"of {read} and the embeddings"))
        return reader.architecture(Column("inputs (B, S)", encoder),
                                   Column("outputs so far (B, T)", decoder))


@dataclass(frozen=True)
class Seq2SeqCache:
    """The state of the decoder (B, F), and what it attends to: see `AttentiveGRU.prepare`."""

    state: np.ndarray
    memory: tuple = ()

    def rows(self, order):
        """The cache of the sequences `order`, such as ``[2, 0, 0]``."""
        return Seq2SeqCache(self.state[order], tuple(part[order] for part in self.memory))
