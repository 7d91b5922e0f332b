"""Attention in tiles as a layer: the same numbers in NumPy and compiled, in little memory."""

import re
import tracemalloc

import numpy as np
import pytest

from numformer import backend
from numformer.experiments.costs.layer_costs import layer_costs
from numformer.functional import CAUSAL, EVERYWHERE, AttentionPattern
from numformer.layers import (
    ALiBi, MultiHeadAttention, PositionedAttention, RelativePositionBias, RotaryPositions,
    ShawPositions, TiledAttention)

PATTERNS = {"everywhere": EVERYWHERE, "causal": CAUSAL, "window": AttentionPattern(window=(3, 1)),
            "padding": AttentionPattern(causal=True, lengths=[9, 0])}


@pytest.mark.parametrize("version", ["numpy", "numba"])
@pytest.mark.parametrize("pattern", PATTERNS.values(), ids=PATTERNS)
@pytest.mark.parametrize("tile", [1, 4, 64])
def test_heads_in_tiles_attend_as_multi_head_attention(tile, pattern, version, rng):
    options = dict(n_kv_heads=1, positions=RotaryPositions(4), dtype=np.float64)
    tiled, whole = (MultiHeadAttention(8, 2, rng, tile=size, **options) for size in (tile, None))
    tiled.load_state_dict(whole.state_dict())
    x, dy = rng.standard_normal((2, 2, 9, 8))
    y, saved_whole = whole.forward(x, pattern=pattern)
    dx = whole.backward(dy, saved_whole)
    with backend.using(version):
        found, saved = tiled.forward(x, pattern=pattern)
        np.testing.assert_allclose(found, y, rtol=1e-11, atol=1e-13)
        np.testing.assert_allclose(tiled.backward(dy, saved), dx, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(tiled.attention_weights(saved),
                                   whole.attention_weights(saved_whole), rtol=1e-11, atol=1e-13)
    for one, other in zip(tiled.parameters(), whole.parameters()):
        np.testing.assert_allclose(one.grad, other.grad, rtol=1e-10, atol=1e-12)


def test_a_text_continues_in_tiles(rng):
    tiled = MultiHeadAttention(8, 2, rng, tile=2, dtype=np.float64)
    x = rng.standard_normal((1, 7, 8))
    with backend.using("numpy"):
        start, cache = tiled.step(x[:, :4])
        end, _ = tiled.step(x[:, 4:], cache)
        np.testing.assert_allclose(np.concatenate([start, end], axis=1), tiled(x, pattern=CAUSAL),
                                   rtol=1e-12)


def test_layers_of_other_inputs_attend_in_tiles(rng):
    tiled, whole = (PositionedAttention(8, 2, rng, dtype=np.float64, tile=tile)
                    for tile in (2, None))
    tiled.load_state_dict(whole.state_dict())
    inputs = [rng.standard_normal(shape) for shape in ((1, 3, 8), (1, 5, 8), (3, 8), (5, 8))]
    with backend.using("numpy"):
        (y, saved), (expected, saved_whole) = (
            layer.forward(*inputs) for layer in (tiled, whole))
        np.testing.assert_allclose(y, expected, rtol=1e-12)
        for one, other in zip(tiled.backward(y, saved), whole.backward(y, saved_whole)):
            np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("options, words", [
    (dict(positions=ALiBi(2)), "positions=ALiBi"), (dict(dropout=0.1), "dropout=0.1"),
    (dict(positions=RelativePositionBias(2, None)), "positions=RelativePositionBias"),
    (dict(positions=ShawPositions(4, 2, None)), "positions=ShawPositions"),
    (dict(softcap=30.0), "softcap=30.0"), (dict(tile=0), "tile=0"), (dict(tile=2.5), "tile=2.5")])
def test_what_tiles_cannot_do_is_refused(options, words, rng):
    with pytest.raises((ValueError, TypeError), match=f"Attention: .*{words}"):
        MultiHeadAttention(8, 2, rng, **{"tile": 4, **options})


def test_the_scale_must_be_positive():
    with pytest.raises(ValueError, match="TiledAttention: scale=0"):
        TiledAttention(scale=0)


@pytest.mark.parametrize("version, tile_matters", [("numpy", True), ("numba", False)])
def test_numpy_walks_through_tiles_of_this_size_and_the_kernel_has_its_own(
        version, tile_matters, rng):
    if version == "numba" and backend.compiled_attention() is None:
        pytest.skip("needs Numba")
    q, k, v = rng.standard_normal((3, 1, 1, 50, 4)).astype(np.float32)
    with backend.using(version):
        one, other = (TiledAttention(tile)(q, k, v) for tile in (7, 50))
    assert np.array_equal(one, other) is not tile_matters
    np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def peak(layer, T):
    """Bytes of a forward and backward of one head of width 16."""
    q, k, v = np.random.default_rng(0).standard_normal((3, 1, 1, T, 16)).astype(np.float32)
    with backend.using("numpy"):
        tracemalloc.start()
        try:
            y, saved = layer.forward(q, k, v, pattern=CAUSAL)
            layer.backward(np.ones_like(y), saved)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()


@pytest.mark.slow
def test_memory_grows_with_the_length(rng):
    layer = TiledAttention()
    first, second = (peak(layer, T) for T in (1024, 2048))
    assert first < 0.7 * 2 ** 20 and second < 2.2 * first


def test_the_memory_of_the_docstring_is_that_of_the_measurement(rng):
    """`numformer experiment three-ways` prints what `layer_costs` measures."""
    in_tiles, whole = map(float, re.search(
        r"([\d.]+) MiB in tiles and ([\d.]+) with all weights", TiledAttention.__doc__).groups())
    for tile, wanted in ((64, in_tiles), (None, whole)):
        layer = MultiHeadAttention(64, 1, rng, tile=tile)
        with backend.using("numpy"):
            _, found = layer_costs(layer, 1024, 64, pattern=CAUSAL)
        assert abs(found / 2 ** 20 / wanted - 1) < 0.05
