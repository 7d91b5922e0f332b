"""The trunk of BERT and of all that is built on it: tokens, positions and segments in, a vector for every token out."""

from dataclasses import dataclass, fields
from typing import ClassVar

import numpy as np

from numformer.checks import check_whole
from numformer.functional.pattern import AttentionPattern, layer_patterns
from numformer.layers import Dropout, Embedding
from numformer.models.blocks import norm_of, positions_of
from numformer.models.encoder import Encoder, EncoderConfig
from numformer.parameter import Layer


@dataclass(frozen=True, kw_only=True)
class BertEncoderConfig(EncoderConfig):
    """The switches of a `BertEncoder`: those of `EncoderConfig`, and these. The defaults are BERT's choices.

    Parameters
    ----------
    vocab_size : int
        V.
    context_length : int
        The longest sequence it is trained on.
    segments : int
        How many parts of a sequence are told apart by a vector of their own; 0 for none.
    norm_first : bool
        Pre-norm, with one more norm after the last block; or post-norm.
    positions : "learned", "sinusoidal", "rotary", "alibi" or "none"
        How the model learns the order of its tokens.
    window : int
        How many tokens to each side the local layers of an encoder see; 0 where all layers see everything.
    global_every : int
        Where there is a window: one layer in so many sees everything, the first among them; see `layer_patterns`.
    content_layers : int
        How many of the first layers look at content alone, without rotary positions or ALiBi.
    like_to_like : bool
        Whether keys begin with the weights of the queries, so that at first every token attends to its like.

    Raises
    ------
    ValueError
        If a number is out of range, a choice unknown, or heads do not divide the width.
    """

    POSITIONS: ClassVar = ("learned", "sinusoidal", *EncoderConfig.POSITIONS)
    WHOLE: ClassVar = ("vocab_size", "context_length", *EncoderConfig.WHOLE, "global_every")

    vocab_size: int
    context_length: int
    segments: int = 2
    norm_first: bool = False
    positions: str = "learned"
    epsilon: float = 1e-12
    window: int = 0
    global_every: int = 3
    content_layers: int = 0
    like_to_like: bool = False

    def __post_init__(self):
        super().__post_init__()
        owner = type(self).__name__
        for name in ("segments", "window", "content_layers"):
            check_whole(owner, name, getattr(self, name), least=0)
        if self.content_layers > self.n_layers:
            raise ValueError(f"{owner}: content_layers={self.content_layers} must be at most n_layers={self.n_layers}.")
        if self.like_to_like and self.n_kv_heads not in (None, self.n_heads):
            raise ValueError(f"{owner}: like_to_like needs as many key heads as query heads, but n_kv_heads={self.n_kv_heads} and "
                             f"n_heads={self.n_heads}; leave one of them out.")


class BertEncoder(Layer):
    r"""Read a text in both directions at once, ids (B, T) to vectors (B, T, C).

    .. math:: y = \mathrm{encoder}(\mathrm{norm}(E_{\mathrm{ids}} + P + S_{\mathrm{segments}}))

    Parameters
    ----------
    config : BertEncoderConfig
        Or the config of a model that stands on it.
    rng : numpy.random.Generator or None
        Draws the initial weights. None builds the shapes alone, for counting.

    References
    ----------
    Devlin et al. (2019), "BERT", section 3 and figure 2; the norm is in the published code alone. Local and global layers: Warner et al.
    (2024), "Smarter, Better, Faster, Longer" (ModernBERT), section 2.1.2. Layers without positions between others: Yang et al. (2025),
    "Rope to Nope and Back Again". Queries and keys that are alike at first: Trockman and Kolter (2023), "Mimetic Initialization of
    Self-Attention Layers", here in its simplest form.

    Examples
    --------
    >>> config = BertEncoderConfig(vocab_size=9, context_length=8, n_layers=2, n_heads=2, d_model=16)
    >>> trunk = BertEncoder(config, np.random.default_rng(0))
    >>> trunk(np.array([[1, 5, 2, 0]]), lengths=np.array([3])).shape
    (1, 4, 16)
    """

    def __init__(self, config, rng):
        c, dtype = config, np.dtype(config.dtype)
        self.config = config
        self.embedding = Embedding(c.vocab_size, c.d_model, rng, c.init_std, dtype=dtype)
        self.positions = positions_of(c, rng)
        self.segments = Embedding(c.segments, c.d_model, rng, c.init_std, dtype=dtype) if c.segments else None
        self.norm = norm_of(c)
        self.dropout = Dropout(c.dropout)
        self.encoder = Encoder(c, rng, c.content_layers)
        if c.like_to_like and rng is not None:
            for block in self.encoder.blocks:
                block.attention.key.weight.data[:] = block.attention.query.weight.data

    def forward(self, ids, segments=None, lengths=None, rng=None):
        """A vector for every token.

        Parameters
        ----------
        ids : ndarray of int, shape (B, T)
            In 0 .. V-1. With learned positions T is at most the context length.
        segments : ndarray of int, shape (B, T), optional
            The part that each token belongs to; all to part 0, if not given. A model without segments does not look at them.
        lengths : ndarray of int, shape (B,), optional
            How many ids of each row are no padding; all, if not given.
        rng : numpy.random.Generator, optional
            For dropout; None at inference.

        Returns
        -------
        y : ndarray, shape (B, T, C)
            Past a row's length the vectors mean nothing.
        saved : tuple

        Raises
        ------
        ValueError, TypeError
            If ids, segments or lengths are not of that form, or T is too long.
        """
        check_rows("BertEncoder", ids, lengths)
        if segments is not None and np.shape(segments) != ids.shape:
            raise ValueError(f"BertEncoder: segments must have the shape of ids, {ids.shape}, but have {np.shape(segments)}.")
        x, saved_embedding = self.embedding.forward(ids)              # (B, T, C)
        x, saved_positions = self.positions.forward(x, start=0)
        saved_segments = None
        if self.segments is not None:
            parts, saved_segments = self.segments.forward(np.zeros_like(ids) if segments is None else segments)
            x = x + parts
        x, saved_norm = self.norm.forward(x)
        x, saved_dropout = self.dropout.forward(x, rng)
        y, saved_encoder = self.encoder.forward(x, self.patterns(lengths), rng)

        saved = (saved_embedding, saved_positions, saved_segments, saved_norm, saved_dropout, saved_encoder)
        return y, saved

    def backward(self, dy, saved):
        saved_embedding, saved_positions, saved_segments, saved_norm, saved_dropout, saved_encoder = saved

        # y = encoder(dropout(norm(x)))
        dx = self.encoder.backward(dy, saved_encoder)
        dx = self.norm.backward(self.dropout.backward(dx, saved_dropout), saved_norm)

        # x = positions(embedding(ids)) + segments(parts)
        if self.segments is not None:
            self.segments.backward(dx, saved_segments)
        dx = self.positions.backward(dx, saved_positions)
        return self.embedding.backward(dx, saved_embedding)

    def patterns(self, lengths=None):
        """The pattern of every block: who may attend to whom."""
        c, pattern = self.config, AttentionPattern(lengths=lengths)
        return layer_patterns(pattern, c.n_layers, (c.window, c.window), c.global_every) if c.window else [pattern] * c.n_layers

    def attention_weights(self, ids, segments=None, lengths=None):
        """The attention weights of every block, for looking at: a list of (B, H, T, T)."""
        check_rows("BertEncoder", ids, lengths)
        x = self.positions(self.embedding(ids), start=0)
        if self.segments is not None:
            x = x + self.segments(np.zeros_like(ids) if segments is None else segments)
        return self.encoder.attention_weights(self.norm(x), self.patterns(lengths))


def trunk_switches(config):
    """The switches of a config that make its trunk: all of `BertEncoderConfig` but dropout, which is a matter of how it is trained."""
    return {field.name: getattr(config, field.name) for field in fields(BertEncoderConfig) if field.name != "dropout"}


def take_over_trunk(model, other):
    """Copy the weights of another model's trunk into a model's own; and those of the pooler, where both have one.

    Raises
    ------
    ValueError
        If the trunks differ in shape; nothing is copied then.

    Examples
    --------
    >>> from numformer.models import Bert, BertConfig, SentenceBert, SentenceBertConfig
    >>> sizes = dict(vocab_size=9, context_length=8, n_layers=2, n_heads=2, d_model=16)
    >>> bert, rng = Bert(BertConfig(**sizes), np.random.default_rng(0)), np.random.default_rng(1)
    >>> model = SentenceBert(SentenceBertConfig(**sizes), rng)
    >>> take_over_trunk(model, bert)
    >>> ids = np.array([[1, 5, 2]])
    >>> bool((model.trunk(ids) == bert(ids)).all())
    True
    """
    model.trunk.load_state_dict(other.trunk.state_dict())
    if getattr(model, "pooler", None) is not None and getattr(other, "pooler", None) is not None:
        model.pooler.load_state_dict(other.pooler.state_dict())


def check_rows(owner, ids, lengths=None):
    """Check that ids have two axes, and that lengths say of each row how much of it is real: at least one id."""
    if getattr(ids, "ndim", 2) != 2:
        raise ValueError(f"{owner}: ids must have shape (B, T), but have {ids.shape}; a single sequence is ids[None].")
    if lengths is None:
        return
    fit = isinstance(lengths, np.ndarray) and lengths.dtype.kind in "iu" and lengths.shape == np.shape(ids)[:1]
    if not fit or lengths.min() < 1 or lengths.max() > np.shape(ids)[1]:
        raise ValueError(f"{owner}: lengths must be whole numbers 1 .. T={np.shape(ids)[1]}, one for each of the B={len(ids)} rows of ids, "
                         f"but are {lengths!r}.")
