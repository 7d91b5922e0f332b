"""Which tiles the attention kernel visits, which pairs it hides, and products of tiles with NaN."""

import numpy as np
import pytest
from random_tiles import options_of, random_tile

from numformer.kernels.attention import tiles
from numformer.kernels.attention.tiles import ALL, NONE, SOME


def intervals_and_mask(options, b, h):
    """The intervals and the mask of one head, by definition."""
    first = options.first[b % len(options.first)]
    last = options.last[b % len(options.last)]
    mask = np.ones((options.T, options.S), bool)
    if options.mask.size:
        mask = options.mask[b % len(options.mask), h % options.mask.shape[1]]
    return first, last, mask


def queries_by_definition(options, b, h, i0, i1, j0, j1):
    first, last, mask = intervals_and_mask(options, b, h)
    reached = [i for i in range(i0, i1) if first[i] < j1 and last[i] > j0]
    if not reached:
        return i1, i1, NONE
    rows = slice(reached[0], reached[-1] + 1)
    allowed = mask[rows, j0:j1]
    if not allowed.any():
        return rows.start, rows.stop, NONE
    inside = (first[rows] <= j0).all() and (last[rows] >= j1).all()
    return rows.start, rows.stop, ALL if inside and allowed.all() else SOME


@pytest.mark.parametrize("seed", range(250))
def test_visited_queries_and_keys_are_those_that_the_pattern_reaches(seed):
    options, b, h, i0, i1, j0, j1 = random_tile(np.random.default_rng(seed))
    first, last, mask = intervals_and_mask(options, b, h)
    found = tiles.intervals_of(options, b)
    assert found[0].tolist() == first.tolist() and found[1].tolist() == last.tolist()
    seen = [i for i in range(i0, i1) if first[i] < last[i]]
    wanted = options.S, 0
    if seen:
        wanted = min(first[i] for i in seen), max(last[i] for i in seen)
    assert tiles.keys_to_visit(options, b, i0, i1) == wanted
    if options.mask.size:
        assert tiles.mask_of(options, b, h).tolist() == mask.tolist()
        part = mask[i0:i1, j0:j1]
        allowed = ALL if part.all() else SOME if part.any() else NONE
        assert tiles.allowed_by_mask(options, b, h, i0, i1, j0, j1) == allowed
        assert tiles.allowed_by_mask(options, b, h, i0, i0, j0, j1) == NONE
    tile = options, b, h, i0, i1, j0, j1
    assert tiles.queries_to_visit(*tile) == queries_by_definition(*tile)
    for i in range(options.T):
        for j in range(options.S):
            allowed = first[i] <= j < last[i] and mask[i, j]
            assert tiles.is_allowed(options, b, h, i, j) == allowed


@pytest.mark.parametrize("seed", range(250))
def test_the_next_tile_is_half_as_wide_where_something_is_hidden(seed, monkeypatch):
    """And no tile is examined twice."""
    rng = np.random.default_rng(seed)
    options, b, h, i0, i1, j0, _ = random_tile(rng)
    examined, examine = [], tiles.queries_to_visit
    monkeypatch.setattr(tiles, "queries_to_visit",
                        lambda *tile: examined.append(tile[-1]) or examine(*tile))
    end = int(rng.integers(j0 + 1, options.S + 1))
    for keys in (2, 4, 6):
        examined.clear()
        border, half = (min(end, j0 + 1 + (-j0 - 1) % width) for width in (keys, keys // 2))
        found = queries_by_definition(options, b, h, i0, i1, j0, border)
        wanted = [border]
        if found[2] == SOME and half < border:
            found, border = queries_by_definition(options, b, h, i0, i1, j0, half), half
            wanted.append(half)
        assert tiles.next_tile(options, b, h, i0, i1, j0, end, keys) == (border, *found)
        assert examined == wanted


@pytest.mark.parametrize("seed", range(60))
def test_exactly_the_hidden_pairs_are_filled(seed):
    rng = np.random.default_rng(seed)
    options, b, h, i0, i1, j0, j1 = random_tile(rng)
    first, last, mask = intervals_and_mask(options, b, h)
    i, j = np.arange(i0, i1), np.arange(j0, j1)[:, None]
    allowed = (first[i] <= j) & (j < last[i]) & mask[i, j]
    x = rng.standard_normal((j1 - j0, i1 - i0))
    wanted = np.where(allowed, x, 7)
    tiles.fill_hidden(x, 7.0, options, b, h, i0, j0)
    assert x.tolist() == wanted.tolist()


@pytest.mark.parametrize("window", range(9))
def test_of_a_window_all_is_hidden_that_it_does_not_reach(window):
    """Each query sees one key more than the one before, and loses one: every border is met."""
    T = 12
    options = options_of(T, T, [np.maximum(np.arange(T) - window, 0)], [np.arange(T) + 1])
    for i0 in range(T):
        for j0 in range(T):
            for i1 in range(i0 + 1, T + 1):
                for j1 in (j0 + 1, min(j0 + 3, T), min(j0 + 6, T)):
                    x = np.zeros((j1 - j0, i1 - i0))
                    tiles.fill_hidden(x, 1.0, options, 0, 0, i0, j0)
                    keys, queries = np.arange(j0, j1)[:, None], np.arange(i0, i1)
                    assert np.array_equal(x == 0, (keys <= queries) & (queries <= keys + window))


def test_a_mask_of_one_pair_hides():
    x = np.ones((1, 1))
    options = options_of(1, 1, mask=np.zeros((1, 1, 1, 1), bool))
    tiles.fill_hidden(x, 7.0, options, 0, 0, 0, 0)
    assert x.item() == 7


def test_nan_and_inf_do_not_get_through_hidden_pairs_of_a_product(monkeypatch, rng):
    """Only a tile that hides something and is not finite is multiplied in loops."""
    by_blas, multiply = [], tiles.product
    monkeypatch.setattr(tiles, "product",
                        lambda *given: by_blas.append(given) or multiply(*given))
    options = options_of(6, 5, mask=rng.random((1, 1, 6, 5)) < 0.5)
    mask = options.mask[0, 0, 2:6, 1:4]                             # 4 queries, 3 keys
    for allowed, value, products in ((ALL, 1.0, 1), (ALL, np.nan, 1), (SOME, 1.0, 1),
                                     (SOME, np.nan, 0), (SOME, -np.inf, 0)):
        for by_keys in (False, True):
            weights = rng.random((4, 3)) * (mask if allowed == SOME else 1)
            a = weights.T.copy() if by_keys else weights
            b = rng.standard_normal((a.shape[1], 2))
            c = rng.standard_normal((a.shape[0], 2))
            b[1, 1] = value
            visible = mask.T if by_keys else mask
            terms = np.where(visible[:, :, None] | (allowed == ALL), a[:, :, None] * b, 0)
            wanted = c + 0.3 * terms.sum(axis=1)
            by_blas.clear()
            tiles.add_product(allowed, 0.3, a, b, c, options, 0, 0, 2, 1, by_keys)
            assert len(by_blas) == products
            np.testing.assert_allclose(c, wanted, rtol=1e-12)
