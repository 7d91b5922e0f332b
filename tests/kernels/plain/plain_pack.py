"""Weights in fewer bits, at the borders of rounding: equal to the reference to the bit."""

import numpy as np
import plain_python  # noqa: F401  (puts the replacements in place)
import pytest

from numformer import functional as F
from numformer.kernels.decoding import pack

TINY = np.finfo(np.float32).tiny


def packed(x):
    codes, scale = np.empty(x.shape, np.int8), np.empty(x.shape[1], x.dtype)
    pack.packed_int8(x, 0, codes[None], scale)
    return codes, scale


def test_int8_is_the_reference_also_of_zeros_and_at_the_smallest_scale():
    x = np.array([[0, 1, 0, 127 * TINY, 50 * TINY, 128 * TINY],
                  [0, -3, 2, 0, TINY, -127 * TINY]], np.float32)
    codes, scale = packed(x)
    assert scale[[0, 3, 4]].tolist() == [1, 1, 1]         # not above 127 times the smallest number
    assert codes[:, 1].tolist() == [42, -127] and scale[5] == np.float32(128 * TINY) / 127
    for found, true in zip((codes, scale), F.to_int8(x), strict=True):
        np.testing.assert_array_equal(found, np.reshape(true, found.shape))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [(0, 0), (2, 1)])
def test_int8_refuses_what_is_not_finite(value, place, rng):
    x = rng.standard_normal((3, 2)).astype(np.float32)
    x[place] = value
    with pytest.raises(ValueError, match="NaN or Inf"):
        packed(x)


def test_bfloat16_rounds_ties_to_even_and_keeps_nan():
    bits = np.array([0x3F800000, 0x3F808000, 0x3F818000, 0x3F807FFF, 0x3F808001, 0x3F817FFF,
                     0xBF828000, 0xBF838000, 0x7F7FFFFF, 0x7F800000, 0x7FC00000, 0x7F800001,
                     0xFF800000, 0x00000001, 0x00018000], np.uint32)
    x, codes = bits.view(np.float32)[None], np.empty((1, len(bits)), np.uint16)
    pack.packed_bfloat16(x, 0, codes[None])
    assert codes[0].tolist() == [
        0x3F80, 0x3F80, 0x3F82, 0x3F80, 0x3F81, 0x3F81, 0xBF82, 0xBF84, 0x7F80, 0x7F80, 0x7FC0,
        0x7FC0, 0xFF80, 0x0000, 0x0002]
    np.testing.assert_array_equal(codes, F.to_bfloat16(x))
