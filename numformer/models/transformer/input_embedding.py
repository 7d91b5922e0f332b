"""What ids become before the first block: tokens, positions, segments, norm, dropout."""

from typing import NamedTuple

import numpy as np

from numformer.layers import Identity
from numformer.parameter import Layer


class InputEmbedding(NamedTuple):
    r"""The layers of a model below its first block, in their order.

    .. math:: x = \mathrm{dropout}(\mathrm{norm}(E_{\mathrm{ids}} + P + S_{\mathrm{segments}}))

    They are attributes of the model itself, which parameters are named after.
    """

    tokens: Layer
    positions: Layer = Identity()
    norm: Layer = Identity()
    dropout: Layer = Identity()
    segments: Layer | None = None

    def forward(self, ids, segments=None, rng=None):
        """Vectors (B, T, C) of ids (B, T); all segments are 0 unless given."""
        x, saved_tokens = self.tokens.forward(ids)                    # (B, T, C)
        x, saved_positions = self.positions.forward(x, start=0)
        saved_segments = None
        if self.segments is not None:
            segments = np.zeros_like(ids) if segments is None else segments
            s, saved_segments = self.segments.forward(segments)       # (B, T, C)
            x = x + s
        x, saved_norm = self.norm.forward(x)
        x, saved_dropout = self.dropout.forward(x, rng=rng)

        saved = (saved_tokens, saved_positions, saved_segments, saved_norm, saved_dropout)
        return x, saved

    def backward(self, dx, saved):
        """Add to the gradients of all parameters; ids have none."""
        saved_tokens, saved_positions, saved_segments, saved_norm, saved_dropout = saved

        # x = dropout(norm(x))
        dx = self.norm.backward(self.dropout.backward(dx, saved_dropout), saved_norm)

        # x = positions(tokens(ids)) + segments(...)
        if self.segments is not None:
            self.segments.backward(dx, saved_segments)
        dx = self.positions.backward(dx, saved_positions)
        return self.tokens.backward(dx, saved_tokens)

    def boxes(self, reader, shape):
        """These layers as a diagram shows them."""
        return (*reader.boxes(shape, self.tokens, self.positions),
                *reader.boxes(shape, self.segments, name="+ Segment embedding"),
                *reader.boxes(shape, self.norm))
