"""Weights of fewer bits: their errors; the compiled packing equals the reference to the bit."""

import numpy as np
import pytest

from numformer.functional import from_bfloat16, round_weight, to_bfloat16, to_int8

pytest.importorskip("numba")
from numformer.kernels.decoding.pack import (  # noqa: E402
    packed_bfloat16, packed_int8, packed_same)


def weights_of(rng, K, F, dtype):
    """Columns of very different sizes, some of zeros, of one number, of numbers halfway."""
    weight = rng.standard_normal((K, F)) * 10.0 ** rng.integers(-36, 36, F)
    weight[:, F // 3], weight[:, F // 2] = 0, 3.7
    weight[:, -1] = np.resize([127.0, 0.5, 1.5, -2.5, -127.0], K)
    return weight.astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("K, F", [(1, 1), (5, 3), (7, 48), (64, 24), (33, 17)])
@pytest.mark.parametrize("layout", ["C", "F", "part", "columns"])
@pytest.mark.parametrize("first, width", [(0, 50), (1, 8), (5, 7), (16, 16)])
def test_packing_equals_the_reference(K, F, layout, first, width, dtype, rng):
    """Column after column of the panels, from the first given one on; all others are untouched."""
    weight = weights_of(rng, K, F, dtype)
    given = np.asfortranarray(weight) if layout == "F" else weight
    given = np.repeat(weight, 2, axis=1)[:, ::2] if layout == "part" else given
    given = np.pad(weight, ((0, 0), (2, 3)))[:, 2:-3] if layout == "columns" else given
    count, scale = -(-(first + F) // width) + 1, np.empty(F, dtype)
    codes, wanted_scale = to_int8(weight)
    for pack, wanted in ((packed_same, weight), (packed_bfloat16, to_bfloat16(weight)),
                         (packed_int8, codes)):
        panels = np.full((count, K, width), 99, wanted.dtype)
        pack(given, first, panels, *[scale] * (pack is packed_int8))
        found = panels.transpose(1, 0, 2).reshape(K, -1)
        assert np.array_equal(found[:, first:first + F], wanted)
        assert (found[:, :first] == 99).all() and (found[:, first + F:] == 99).all()
    assert np.array_equal(scale, wanted_scale)


def test_special_numbers(rng):
    x = np.array([[0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, 3.4e38, -1.0]], np.float32)
    codes = np.empty(x.shape, np.uint16)
    packed_bfloat16(x, 0, codes[None])
    found = from_bfloat16(codes)
    assert np.array_equal(codes, to_bfloat16(x))
    assert found.tolist()[0][:4] == [0, 0, np.inf, -np.inf] and np.isnan(found[0, 4])
    assert np.signbit(found[0, 1]) and found[0, 6] == np.inf and found[0, 7] == -1
    for wrong in (np.nan, np.inf, -np.inf):
        for place in ((0, 0), (2, 1), (1, 0)):
            weight = rng.standard_normal((3, 2)).astype(np.float32)
            weight[place] = wrong
            for call in (lambda: to_int8(weight), lambda: packed_int8(
                    weight, 0, np.empty((1, 3, 2), np.int8), np.empty(2, np.float32))):
                with pytest.raises(ValueError, match="NaN or Inf"):
                    call()


def test_a_column_not_above_the_smallest_scale_has_scale_1():
    tiny = np.finfo(np.float32).tiny
    x = np.array([[127 * tiny, 50 * tiny, 128 * tiny, -127 * tiny]], np.float32)
    codes, scale = to_int8(x)
    assert scale[[0, 1, 3]].tolist() == [1, 1, 1] and 0 < scale[2] < 1
    assert codes.tolist() == [[0, 0, 127, 0]]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_errors_are_as_small_as_they_are_said_to_be(dtype, rng):
    weight = rng.standard_normal((300, 40)).astype(dtype)
    error = abs(round_weight(weight, "bfloat16") - weight)
    assert (error <= abs(weight) * 2.0 ** -8).all() and error.max() > 0
    codes, scale = to_int8(weight)
    error = abs(round_weight(weight, "int8") - weight)
    assert (error <= scale * (0.5 + 1e-4)).all() and codes.max() == 127 and codes.min() == -127
    assert round_weight(weight, "int8").dtype == round_weight(weight, "bfloat16").dtype == dtype


def test_a_float64_is_rounded_once(rng):
    """What is next to the middle of two bfloat16 numbers goes to the nearer one, in both versions.

    Rounded to float32 first, it would be the middle, and go to the even one.
    """
    codes = np.concatenate([rng.integers(0, 0x7F7F, 500), [0, 1, 0x7F, 0x80, 0x7F7E, 0x7F7F]])
    lower = codes.astype(np.uint16)
    ends = [from_bfloat16(lower).astype(float),
            from_bfloat16(lower + np.uint16(1)).astype(float)]
    ends[1][np.isinf(ends[1])] = 2.0 ** 128                           # as if there were no Inf
    middle = (ends[0] + ends[1]) / 2
    for towards, wanted in ((0, lower), (np.inf, lower + 1)):
        x = np.nextafter(middle, towards)
        for sign, high in ((1, 0), (-1, 0x8000)):
            packed = np.empty((1, 1, len(x)), np.uint16)
            packed_bfloat16(sign * x[None], 0, packed)
            assert np.array_equal(to_bfloat16(sign * x), wanted + high)
            assert np.array_equal(packed[0, 0], wanted + high)


def test_all_bfloat16_numbers_come_back(rng):
    codes = np.arange(2 ** 16, dtype=np.uint16)
    numbers = from_bfloat16(codes)
    same = ~np.isnan(numbers)
    assert np.array_equal(to_bfloat16(numbers)[same], codes[same])
    between = numbers[np.isfinite(numbers)].astype(np.float64)
    between = np.sort(between[between > 0])
    middle = ((between[1:] + between[:-1]) / 2).astype(np.float32)    # ties: to an even code
    assert (to_bfloat16(middle) % 2 == 0).all()


@pytest.mark.parametrize("wrong", [np.ones((2, 2), int), np.ones((2, 2), complex), [[1.0]]])
def test_what_is_not_real_is_refused(wrong):
    for function in (to_int8, to_bfloat16):
        with pytest.raises(TypeError, match="float32 or float64"):
            function(wrong)
    with pytest.raises(ValueError, match=r"shape \(K, F\)"):
        to_int8(np.ones(3))
