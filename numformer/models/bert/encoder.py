"""The encoder of BERT, RoBERTa and ModernBERT: the backbone of every model built on it."""

from dataclasses import dataclass

import numpy as np

from numformer.checks import check_lengths, check_rows
from numformer.config import like, option
from numformer.description import TOKENS, VECTORS, Column, costs_per_token
from numformer.functional.attention.masks import AttentionPattern
from numformer.layers import Dropout, Embedding, Identity
from numformer.models.decoder.config import DecoderConfig
from numformer.models.transformer import (
    BatchNormsOfCall, Encoder, EncoderConfig, InputEmbedding, norm_of, positions_of)
from numformer.parameter import Layer


@dataclass(frozen=True, kw_only=True)
class BertEncoderConfig(EncoderConfig):
    """The config of a `BertEncoder`; the defaults are BERT's.

    Examples
    --------
    >>> sizes = dict(vocab_size=9, context_length=8, n_layers=2, n_heads=2, d_model=16)
    >>> BertEncoderConfig(**sizes, first_attention_norm=False)  # doctest: +NORMALIZE_WHITESPACE
    Traceback (most recent call last):
    ValueError: BertEncoderConfig: first_attention_norm=False needs norm_first=True; post-norm
                blocks have no norm before attention.
    """

    vocab_size: int = like(DecoderConfig, "vocab_size")
    context_length: int = like(DecoderConfig, "context_length")
    positions: str = like(DecoderConfig, "positions")
    segments: int = option(
        "Number of segment embeddings, such as one for each of two passages; 0 for none.", 2,
        least=0)
    norm_first: bool = False
    epsilon: float = 1e-12
    embedding_norm: bool = option(
        "Whether embeddings have a norm before the first block; T5's have none.", True)
    first_attention_norm: bool = option(
        "Whether a pre-norm model has a norm before its first attention, where the embedding's "
        "norm comes right before it.", True)

    def __post_init__(self):
        super().__post_init__()
        if not (self.first_attention_norm or self.norm_first):
            raise ValueError(f"{type(self).__name__}: first_attention_norm=False needs "
                             "norm_first=True; post-norm blocks have no norm before attention.")


class BertEncoder(Layer):
    r"""The backbone: read a text in both directions at once, ids (B, T) to vectors (B, T, C).

    .. math:: y = \mathrm{encoder}(\mathrm{norm}(E_{\mathrm{ids}} + P + S_{\mathrm{segments}}))

    References
    ----------
    Devlin et al. (2019), "BERT", section 3 and figure 2; the norm is only in the published code.
    Raffel et al. (2020), "T5", has none there. Warner et al. (2024), "ModernBERT": section 2.1.2
    for local and global layers and their rotary bases, 2.1.1 for the first attention without a
    norm.
    """

    statistics = None                                         # of BatchNorms: see `Encoder`

    def __init__(self, config, rng):
        c, dtype = config, np.dtype(config.dtype)
        self.config = config
        self.embedding = Embedding(c.vocab_size, c.d_model, rng, c.init_std, dtype=dtype)
        self.positions = positions_of(c, rng)
        self.segments = None
        if c.segments:
            self.segments = Embedding(c.segments, c.d_model, rng, c.init_std, dtype=dtype)
        self.norm = norm_of(c) if c.embedding_norm else Identity()
        self.dropout = Dropout(c.dropout)
        self.encoder = Encoder(c, rng, None if c.first_attention_norm else Identity())

    @property
    def input(self):
        """The layers below the first block."""
        return InputEmbedding(self.embedding, self.positions, self.norm, self.dropout,
                              self.segments)

    def forward(self, ids, segments=None, lengths=None, rng=None, mask=None, batch_norms=None):
        """A vector for every token.

        Parameters
        ----------
        ids, segments : ndarray of int, shape (B, T)
            Tokens, and the segment of each; all 0 unless given.
        lengths : ndarray of int, shape (B,), optional
            Tokens of each row without its padding on the right; T unless given.
        rng : numpy.random.Generator, optional
            For dropout.
        mask : ndarray of bool, shape (T, T), (B, 1, T, T) or (B, H, T, T), optional
            True: this query may attend to this key, as far as its length allows.
        batch_norms : BatchNormsOfCall, optional
            Of a caller that gathers statistics; with `statistics` unless given.

        Returns
        -------
        y : ndarray, shape (B, T, C)
            Meaningless at padding positions.
        saved : tuple
        """
        check_rows("BertEncoder", "ids", ids)
        if lengths is not None:
            check_lengths("BertEncoder", lengths, *np.shape(ids))
        if segments is not None and np.shape(segments) != np.shape(ids):
            raise ValueError(f"BertEncoder: segments must have the shape of ids, {np.shape(ids)}, "
                             f"but have {np.shape(segments)}.")
        batch_norms = batch_norms or BatchNormsOfCall(self.statistics)
        norm = batch_norms.of_lengths(lengths, ids.shape[1]).norm(self.norm)
        x, saved_input = self.input._replace(norm=norm).forward(ids, segments, rng)   # (B, T, C)
        pattern = AttentionPattern(lengths=lengths, mask=mask)
        y, saved_encoder = self.encoder.forward(x, pattern, rng, batch_norms)

        saved = (saved_input, saved_encoder)
        return y, saved

    def backward(self, dy, saved):
        saved_input, saved_encoder = saved

        # y = encoder(input(ids, segments))
        dx = self.encoder.backward(dy, saved_encoder)
        return self.input.backward(dx, saved_input)

    def costs(self):
        return costs_per_token(self)

    def describe_features(self, reader):
        """The parts below the heads of every BERT."""
        reader.sizes_of(self.config)
        return (*self.input.boxes(reader, VECTORS),
                *reader.stacks(self.encoder.blocks),
                *reader.boxes(VECTORS, self.encoder.norm))

    def describe_model(self, reader):
        return reader.architecture(Column(TOKENS, self.describe_features(reader)))
