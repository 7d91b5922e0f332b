"""The bytes of the formulas are those of arrays that are read and written."""

import numpy as np
import pytest

from numformer.analysis import attention_traffic, memory_levels
from numformer.analysis.structure import traffic as page
from numformer.functional import CAUSAL, AttentionPattern, softmax, tiled_attention_steps
from numformer.functional.attention.masks import EVERYWHERE
from numformer.kernels.attention.tile_sizes import tile_size


def test_composed_bytes_are_those_of_whole_arrays(rng):
    q, k, v = (rng.standard_normal((n, 6), np.float32) for n in (10, 13, 13))
    s = q @ k.T
    p, _ = softmax(s)
    o = p @ v
    composed, _ = attention_traffic(10, 13, 6, tile=(4, 4))
    read_and_written = [(q, k), (s,), (s,), (p,), (p, v), (o,)]      # by three operations in turn
    assert sum(composed.moved.values()) == sum(x.nbytes for part in read_and_written for x in part)
    assert composed.stored == {"q": q.nbytes, "k": k.nbytes, "v": v.nbytes, "o": o.nbytes,
                               "s": s.nbytes, "p": p.nbytes}


@pytest.mark.parametrize("T, S, tile", [(12, 12, 4), (13, 10, 4), (5, 9, 8)])
def test_tiled_bytes_are_those_of_a_walk_through_the_tiles(rng, T, S, tile):
    q, k = rng.standard_normal((1, 1, T, 6)), rng.standard_normal((1, 1, S, 6))
    moved = 0
    for step in tiled_attention_steps(q, k, k, EVERYWHERE, tile=tile):
        moved += 2 * k[0, 0, step.keys].nbytes                        # keys and values
        if step.keys.start == 0:                      # q is read, o, m and l are written once
            moved += 2 * q[0, 0, step.rows].nbytes + 2 * 8 * (step.rows.stop - step.rows.start)
    _, tiled = attention_traffic(T, S, 6, (tile, tile), itemsize=8)
    assert sum(tiled.moved.values()) == moved
    assert tiled.tile["s"] == 8 * tile * tile and "s" not in tiled.stored


@pytest.mark.parametrize("pattern", [CAUSAL, AttentionPattern(causal=True, window=(3, 0))])
def test_tiles_read_the_keys_that_a_block_may_attend_to(pattern):
    T, I = 16, 4
    mask = np.broadcast_to(pattern.dense(T, T), (1, 1, T, T))[0, 0]
    keys = sum(np.ptp(np.flatnonzero(mask[i:i + I].any(axis=0))) + 1 for i in range(0, T, I))
    _, tiled = attention_traffic(T, T, 8, (I, 2), pattern)
    assert tiled.moved["k"] == tiled.moved["v"] == 4 * 8 * keys < 4 * 8 * T * T // I


def test_the_default_tiles_are_those_of_the_kernel():
    for T, D in ((64, 32), (4096, 64), (4096, 256)):
        _, tiled = attention_traffic(T, T, D)
        assert tiled.block == tile_size(T, T, D)
        assert tiled.tile["q"] == 4 * tiled.block[0] * D


def test_levels_rise_and_are_typical_where_the_system_reports_none(monkeypatch, tmp_path):
    sizes = list(memory_levels().values())
    assert sizes == sorted(sizes) and len(sizes) == 3
    monkeypatch.setattr(page, "_CACHES", tmp_path)
    assert memory_levels() == {"registers": 2048, "L1 cache": 32768, "L2 cache": 2**20}
    for number, (kind, level, size) in enumerate((("Data", 1, "48K"), ("Instruction", 1, "32K"),
                                                  ("Unified", 2, "1280K"), ("Unified", 3, "9M"))):
        folder = tmp_path / f"index{number}"
        folder.mkdir()
        for name, text in (("type", kind), ("level", level), ("size", size)):
            (folder / name).write_text(f"{text}\n")
    assert memory_levels() == {"registers": 2048, "L1 cache": 48 * 1024, "L2 cache": 1280 * 1024}


@pytest.mark.parametrize("sizes", [(0, 1, 1), (1, 1.5, 1), (1, 1, 0)])
def test_sizes_that_are_none_are_refused(sizes):
    with pytest.raises(ValueError, match="attention_traffic: .* whole number"):
        attention_traffic(*sizes, tile=(4, 4))
    with pytest.raises(ValueError, match="I=0"):
        attention_traffic(4, 4, 4, tile=(0, 4))
