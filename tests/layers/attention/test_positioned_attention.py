"""Attention with positions in every layer: with those of zero it is plain attention."""

import numpy as np
import pytest

from numformer.layers import MultiHeadAttention, RotaryPositions
from numformer.layers.attention.positioned import PositionedAttention


@pytest.mark.parametrize("rotary", [False, True])
def test_positions_of_zero_change_nothing(rotary, rng):
    options = dict(positions=RotaryPositions(4) if rotary else None, dtype=np.float64)
    layer, plain = (kind(8, 2, rng, **options) for kind in (PositionedAttention,
                                                            MultiHeadAttention))
    plain.load_state_dict(layer.state_dict())
    x, zeros = rng.standard_normal((2, 5, 8)), np.zeros((5, 8))
    np.testing.assert_allclose(layer(x, x, zeros, zeros), plain(x), rtol=1e-12)
    p = rng.standard_normal((5, 8))
    assert np.abs(layer(x, x, p, zeros) - plain(x)).max() > 1e-3
