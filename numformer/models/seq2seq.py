"""Sequence to sequence with two recurrent networks: one reads, the other writes and, with attention, looks at what was read."""

from dataclasses import dataclass, replace

import numpy as np

from numformer.checks import check_choice, check_number, check_whole
from numformer.layers import GRU, AttentiveGRU, Bidirectional, Dropout, Embedding, Linear
from numformer.layers.score_attention import SCORES
from numformer.models.predictor import Predictor
from numformer.models.switches import Switches


@dataclass(frozen=True, kw_only=True)
class Seq2SeqConfig(Switches):
    """The switches of a `Seq2Seq`.

    Parameters
    ----------
    vocab_size : int
        V, of sources and targets together.
    d_model : int
        C, the width of the embeddings.
    d_hidden : int
        F, even: the width of the decoder's state, and of an annotation, which is a half from each direction of the encoder.
    attention : "additive", "dot", "general", "scaled_dot" or "none"
        How an annotation's part in a context is scored, see `ScoreAttention`; with "none" the decoder has only the encoder's last states.
    dropout : float in [0, 1)
        For embeddings, and for states and contexts on their way to the output layer.
    init_std : float
        Of the embeddings' first tables.
    label_smoothing : float
        Of the loss; see `cross_entropy`.
    dtype : "float32" or "float64"
        Of parameters and everything computed from them.

    Raises
    ------
    ValueError
        If a number is out of range, or a choice unknown.

    Examples
    --------
    >>> Seq2SeqConfig(vocab_size=30, d_model=16, d_hidden=32, attention="local")
    Traceback (most recent call last):
    ValueError: Seq2SeqConfig: attention='local' is unknown; choose from 'additive', 'dot', 'general', 'scaled_dot', 'none'.
    """

    vocab_size: int
    d_model: int
    d_hidden: int
    attention: str = "additive"
    dropout: float = 0.0
    init_std: float = 0.1
    label_smoothing: float = 0.0
    dtype: str = "float32"

    def __post_init__(self):
        owner = type(self).__name__
        check_whole(owner, "vocab_size", self.vocab_size)
        check_whole(owner, "d_model", self.d_model)
        check_whole(owner, "d_hidden", self.d_hidden)
        if self.d_hidden % 2:
            raise ValueError(f"{owner}: d_hidden={self.d_hidden} must be even, a half for each direction; use {self.d_hidden + 1}.")
        check_choice(owner, "attention", self.attention, [*SCORES, "none"])
        check_choice(owner, "dtype", self.dtype, ["float32", "float64"])
        check_number(owner, "dropout", self.dropout, least=0, below=1)
        check_number(owner, "init_std", self.init_std, least=0)
        check_number(owner, "label_smoothing", self.label_smoothing, least=0, below=1)


class Seq2Seq(Predictor):
    r"""Read a sequence, then write another.

    .. math::

        h_j = [\overrightarrow{h}_j; \overleftarrow{h}_j], \qquad s_0 = \tanh(W \overleftarrow{h}_1 + b), \qquad
        c_t = \sum_j p_{tj} h_j, \qquad s_t = \mathrm{gru}([e_t; c_t], s_{t-1})

    .. math:: z_t = [s_t; c_t; e_t]\, W_o + b_o

    where e_t embeds what was written last, and p_t is the softmax of the scores of s_{t-1} with all annotations h_j: see
    `AttentiveGRU`. Without attention there are no c_t, and all that the decoder knows of the source is one vector, s_0, made of
    the last state of both directions: the longer the source, the more has to go into it.

    The output layer is one linear map of state, context and embedding. The paper puts a maxout layer before it; but the state comes out
    of a nonlinearity already, and what it says is not harder to read than a next character.

    Parameters
    ----------
    config : Seq2SeqConfig
    rng : numpy.random.Generator or None
        Draws the initial weights. None builds the shapes alone, for counting.

    References
    ----------
    Bahdanau, Cho, Bengio (2015), "Neural Machine Translation by Jointly Learning to Align and Translate", section 3 and appendix A.2; the
    output is read off s_t, as eq. 4 has it (A.2.2 prints s_{t-1}). Without attention: Sutskever, Vinyals, Le (2014), "Sequence to Sequence
    Learning with Neural Networks"; Cho et al. (2014), "Learning Phrase Representations using RNN Encoder-Decoder".

    Examples
    --------
    >>> model = Seq2Seq(Seq2SeqConfig(vocab_size=9, d_model=4, d_hidden=6), np.random.default_rng(0))
    >>> inputs, lengths, outputs = np.array([[3, 4, 5], [6, 0, 0]]), np.array([3, 1]), np.array([[1, 7], [1, 8]])
    >>> model(inputs, lengths, outputs).shape                         # logits, (B, T, V)
    (2, 2, 9)
    >>> loss, saved = model.loss((inputs, lengths, outputs, np.array([[7, 2], [8, 2]])))
    >>> model.loss_backward(saved)
    >>> model.attention_weights(inputs, lengths, outputs)[1]          # of one real source position
    array([[1., 0., 0.],
           [1., 0., 0.]], dtype=float32)
    """

    def __init__(self, config, rng):
        c, half, dtype = config, config.d_hidden // 2, np.dtype(config.dtype)
        attentive = c.attention != "none"
        self.config = config
        self.source = Embedding(c.vocab_size, c.d_model, rng, c.init_std, dtype=dtype)
        self.encoder = Bidirectional(GRU(c.d_model, half, rng, dtype=dtype), GRU(c.d_model, half, rng, reverse=True, dtype=dtype))
        self.first = Linear(half if attentive else c.d_hidden, c.d_hidden, rng, dtype=dtype)
        self.target = Embedding(c.vocab_size, c.d_model, rng, c.init_std, dtype=dtype)
        self.decoder = (AttentiveGRU(c.d_model, c.d_hidden, c.d_hidden, rng, c.attention, dtype) if attentive
                        else GRU(c.d_model, c.d_hidden, rng, dtype=dtype))
        self.output = Linear((1 + attentive) * c.d_hidden + c.d_model, c.vocab_size, rng, dtype=dtype)
        self.dropout = Dropout(c.dropout)

    def forward(self, inputs, lengths, outputs, rng=None):
        """Logits for the token after each of `outputs`.

        Parameters
        ----------
        inputs : ndarray of int, shape (B, S)
            Sources, padded at their end.
        lengths : ndarray of int, shape (B,)
            How many ids of each source are real, 1 .. S.
        outputs : ndarray of int, shape (B, T)
            What was written so far, from the id that begins.
        rng : numpy.random.Generator, optional
            For dropout; None at inference.

        Returns
        -------
        logits : ndarray, shape (B, T, V)
        saved : tuple

        Raises
        ------
        ValueError, TypeError
            If ids or lengths are not integers of those shapes and ranges.
        """
        self._check(inputs, lengths, outputs)
        h, s, saved_read = self._read(inputs, lengths, rng)           # (B, S, F), (B, F)
        e, saved_target = self.target.forward(outputs)                # (B, T, C)
        e, saved_thinned = self.dropout.forward(e, rng)
        y, saved_decoder = self.decoder.forward(e, s, *self._context(h, lengths))             # (B, T, F + F), or (B, T, F)
        y, saved_dropout = self.dropout.forward(y, rng)
        logits, saved_output = self.output.forward(np.concatenate([y, e], axis=2))            # (B, T, V)

        saved = (saved_read, saved_target, saved_thinned, saved_decoder, saved_dropout, saved_output)
        return logits, saved

    def backward(self, dlogits, saved):
        saved_read, saved_target, saved_thinned, saved_decoder, saved_dropout, saved_output = saved

        # logits = output(concatenate([dropout(y), e]))
        dseen = self.output.backward(dlogits, saved_output)
        dy, de = np.split(dseen, [dseen.shape[2] - self.config.d_model], axis=2)

        # y = decoder(e, s, h), where h goes in with attention alone
        dinput, ds, *dh = self.decoder.backward(self.dropout.backward(dy, saved_dropout), saved_decoder)

        # e = dropout(target(outputs))
        self.target.backward(self.dropout.backward(de + dinput, saved_thinned), saved_target)

        # h, s = read(inputs, lengths)
        self._read_backward(dh, ds, saved_read)

    def _read(self, inputs, lengths, rng=None):
        """The annotations of all source positions, (B, S, F), and the decoder's first state, (B, F)."""
        x, saved_source = self.source.forward(inputs)                 # (B, S, C)
        x, saved_dropout = self.dropout.forward(x, rng)
        h, saved_encoder = self.encoder.forward(x, lengths)
        s, saved_first = self.first.forward(self._last_states(h))
        s = np.tanh(s)

        saved = (h.shape, s, saved_source, saved_dropout, saved_encoder, saved_first)
        return h, s, saved

    def _read_backward(self, dh, ds, saved):
        """`dh` is a list: with attention of one gradient, without of none."""
        shape, s, saved_source, saved_dropout, saved_encoder, saved_first = saved
        half = self.config.d_hidden // 2

        # s = tanh(first(last))
        dlast = self.first.backward(ds * (1 - s * s), saved_first)

        # last = h[:, 0, half:], and before it h[:, -1, :half] without attention;  h goes on to the decoder with it
        dall = dh[0].copy() if dh else np.zeros(shape, dlast.dtype)   # (B, S, F)
        dall[:, 0, half:] += dlast[:, -half:]
        if not dh:
            dall[:, -1, :half] += dlast[:, :half]

        # h = encoder(dropout(source(inputs)), lengths)
        dx = self.dropout.backward(self.encoder.backward(dall, saved_encoder), saved_dropout)
        self.source.backward(dx, saved_source)

    def _last_states(self, h):
        """What the decoder's first state is made of: where the reading from the back ended; without attention also that from the front."""
        half = self.config.d_hidden // 2
        back = h[:, 0, half:]                                         # (B, F / 2)
        return back if self.config.attention != "none" else np.concatenate([h[:, -1, :half], back], axis=1)

    def _context(self, h, lengths):
        """What the decoder takes beside its inputs and its first state."""
        return () if self.config.attention == "none" else (h, lengths)

    def begin(self, inputs, lengths):
        """Read sources, (B, S) and (B,): the cache with which `step` begins to write."""
        self._check(inputs, lengths, inputs)
        h, s, _ = self._read(inputs, lengths)
        context = self._context(h, lengths)
        return Seq2SeqCache(s, self.decoder.prepare(*context)[0] if context else ())

    def step(self, ids, cache):
        """Continue by a token each.

        Parameters
        ----------
        ids : ndarray of int, shape (B, 1)
            What was written last; the id that begins at first.
        cache : Seq2SeqCache
            What `begin` or the last call returned.

        Returns
        -------
        logits : ndarray, shape (B, 1, V)
        cache : Seq2SeqCache
            A new value; the old one stays good.
        """
        if getattr(ids, "shape", None) != (len(cache.state), 1):
            raise ValueError(f"Seq2Seq: ids must have shape (B, 1) with B={len(cache.state)}, as the cache has, "
                             f"but have {getattr(ids, 'shape', None)}.")
        e = self.target(ids)
        y, state = self.decoder.step(e, cache.state, *([cache.memory] if cache.memory else []))
        return self.output(np.concatenate([y, e], axis=2)), replace(cache, state=state)

    def attention_weights(self, inputs, lengths, outputs):
        """The attention weights (B, T, S): at which source position the decoder looked before it wrote each next token."""
        if self.config.attention == "none":
            raise ValueError("Seq2Seq: a model with attention='none' has no attention weights.")
        self._check(inputs, lengths, outputs)
        h, s, _ = self._read(inputs, lengths)
        return self.decoder.weights(self.target(outputs), s, h, lengths)

    def _check(self, inputs, lengths, outputs):
        for name, ids in (("inputs", inputs), ("outputs", outputs)):
            if getattr(ids, "ndim", 2) != 2:
                raise ValueError(f"Seq2Seq: {name} must have two axes, a row for each sequence, but have shape {ids.shape}.")
        if len(inputs) != len(outputs):
            raise ValueError(f"Seq2Seq: {len(inputs)} inputs came with {len(outputs)} outputs; give as many of each.")
        if np.ndim(lengths) == 1 and len(lengths) and np.min(lengths) < 1:
            raise ValueError(f"Seq2Seq: lengths={np.asarray(lengths).tolist()} must be 1 or more: an empty source says nothing.")


@dataclass(frozen=True)
class Seq2SeqCache:
    """The decoder's state (B, F), and what it looks at: see `AttentiveGRU.prepare`."""

    state: np.ndarray
    memory: tuple = ()

    def rows(self, order):
        """The same for some of its sequences, in some order, such as ``[2, 0, 0]``."""
        return Seq2SeqCache(self.state[order], tuple(part[order] for part in self.memory))
