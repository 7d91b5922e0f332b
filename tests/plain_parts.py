"""The parts of the kernels one by one, as plain Python, against what they say they are. For the mutation run (tests/mutate.py).

Run it by itself: NUMBA_DISABLE_JIT=1 python -m pytest tests/plain_parts.py
"""

import math

import numpy as np
import plain_kernels                                                  # puts the stand-ins in place
import pytest

from numformer import functional as F
from numformer.functional.dropout import _mix
from numformer.kernels import (
    activations, arithmetic, attention, cross_entropy, dropout, embedding, linear, memory, normalization, positions, sharing,
    tiles, token_step)
from numformer.kernels.tiles import ALL, NONE, SOME

NO_MASK = np.zeros((1, 1, 0, 0), bool)


def rules_of(T, S, first=None, last=None, **more):
    """Everything allowed and nothing added, unless something is said."""
    first = np.zeros((1, T), np.int32) if first is None else np.asarray(first, np.int32)
    last = np.full((1, T), S, np.int32) if last is None else np.asarray(last, np.int32)
    usual = dict(mask=NO_MASK, scale=1.0, softcap=0.0, slopes=np.zeros(0), bias=np.zeros((0, 0)), threshold=0, kept=1.0, seed_high=0,
                 seed_low=0)
    return tiles.Rules(first, last, **(usual | more), T=T, S=S)


def tile_of(rng):
    """Rules at random for B, H = 3, 2; an example, a head and a tile: (rules, b, h, i0, i1, j0, j1)."""
    T, S = (int(n) for n in rng.integers(1, 9, 2))
    examples = int(rng.choice([1, 3]))
    first, last = rng.integers(0, S + 1, (2, examples, T))
    if rng.random() < 0.5:                                            # a band, as windows and causal patterns are
        first, last = np.sort(first, axis=1), np.sort(last, axis=1)
    if rng.random() < 0.2:
        first, last = 0 * first, 0 * last + S
    mask = NO_MASK
    if rng.random() < 0.5:
        mask = rng.random((int(rng.choice([1, 3])), int(rng.choice([1, 2])), T, S)) < rng.choice([0.05, 0.5, 0.95, 1])
    i0, j0 = int(rng.integers(T)), int(rng.integers(S))
    return (rules_of(T, S, first, last, mask=mask), int(rng.integers(3)), int(rng.integers(2)), i0, int(rng.integers(i0, T)) + 1,
            j0, int(rng.integers(j0, S)) + 1)


def by_definition(rules, b, h):
    """The intervals and the mask of one head."""
    first, last = rules.first[b % len(rules.first)], rules.last[b % len(rules.last)]
    mask = np.ones((rules.T, rules.S), bool)
    if rules.mask.size:
        mask = rules.mask[b % len(rules.mask), h % rules.mask.shape[1]]
    return first, last, mask


def rows_by_definition(rules, b, h, i0, i1, j0, j1):
    first, last, mask = by_definition(rules, b, h)
    reach = [i for i in range(i0, i1) if first[i] < j1 and last[i] > j0]
    if not reach:
        return i1, i1, NONE
    rows = slice(reach[0], reach[-1] + 1)
    shown = mask[rows, j0:j1]
    if not shown.any():
        return rows.start, rows.stop, NONE
    inside = (first[rows] <= j0).all() and (last[rows] >= j1).all()
    return rows.start, rows.stop, ALL if inside and shown.all() else SOME


@pytest.mark.parametrize("seed", range(250))
def test_which_rows_and_keys_are_visited(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    rules, b, h, i0, i1, j0, j1 = tile_of(rng)
    first, last, mask = by_definition(rules, b, h)
    places = tiles.intervals_of(rules, b)
    assert places[0].tolist() == first.tolist() and places[1].tolist() == last.tolist()
    seen = [i for i in range(i0, i1) if first[i] < last[i]]
    wanted = (min(first[i] for i in seen), max(last[i] for i in seen)) if seen else (rules.S, 0)
    assert tiles.keys_to_visit(rules, b, i0, i1) == wanted
    if rules.mask.size:
        assert tiles.mask_of(rules, b, h).tolist() == mask.tolist()
        part = mask[i0:i1, j0:j1]
        assert tiles.look_into_mask(rules, b, h, i0, i1, j0, j1) == (ALL if part.all() else SOME if part.any() else NONE)
        assert tiles.look_into_mask(rules, b, h, i0, i0, j0, j1) == NONE
    assert tiles.rows_to_visit(rules, b, h, i0, i1, j0, j1) == rows_by_definition(rules, b, h, i0, i1, j0, j1)
    for i in range(rules.T):
        for j in range(rules.S):
            assert tiles.is_allowed(rules, b, h, i, j) == (first[i] <= j < last[i] and mask[i, j])

    looks, look = [], tiles.rows_to_visit
    monkeypatch.setattr(tiles, "rows_to_visit", lambda *tile: looks.append(tile[-1]) or look(*tile))
    end = int(rng.integers(j0 + 1, rules.S + 1))
    for keys in (2, 4, 6):
        looks.clear()
        border, half = (min(end, j0 + 1 + (-j0 - 1) % width) for width in (keys, keys // 2))
        found = rows_by_definition(rules, b, h, i0, i1, j0, border)
        wanted = [border]
        if found[2] == SOME and half < border:
            found, border = rows_by_definition(rules, b, h, i0, i1, j0, half), half
            wanted.append(half)
        assert tiles.next_tile(rules, b, h, i0, i1, j0, end, keys) == (border, *found)
        assert looks == wanted, "no tile is looked at twice"


@pytest.mark.parametrize("seed", range(60))
def test_what_is_hidden(seed):
    rng = np.random.default_rng(seed)
    rules, b, h, i0, i1, j0, j1 = tile_of(rng)
    first, last, mask = by_definition(rules, b, h)
    i, j = np.arange(i0, i1), np.arange(j0, j1)[:, None]
    shown = (first[i] <= j) & (j < last[i]) & mask[i, j]
    x = rng.standard_normal((j1 - j0, i1 - i0))
    wanted = np.where(shown, x, 7)
    tiles.hide(x, 7.0, rules, b, h, i0, j0)
    assert x.tolist() == wanted.tolist()


def test_a_mask_of_one_pair_hides():
    x = np.ones((1, 1))
    tiles.hide(x, 7.0, rules_of(1, 1, mask=np.zeros((1, 1, 1, 1), bool)), 0, 0, 0, 0)
    assert x.item() == 7


@pytest.mark.parametrize("T, S", [(1, 1), (5, 7), (7, 4)])
@pytest.mark.parametrize("options", [
    dict(), dict(softcap=0.5), dict(softcap=2.0), dict(slopes=np.array([0.3])), dict(slopes=np.array([0.3, 0.7])), dict(bias=True),
    dict(softcap=0.7, slopes=np.array([0.3, 0.7]), bias=True)])
def test_scores_by_their_equation(T, S, options, rng):
    i0, j0 = min(1, T - 1), min(2, S - 1)
    for h in range(len(options.get("slopes", (0, 0)))):
        bias = rng.standard_normal((h + 1, T + S - 1)) if "bias" in options else np.zeros((0, 0))
        rules = rules_of(T, S, **(options | dict(scale=0.6, bias=bias)))
        q, k = rng.standard_normal((T - i0, 3)), rng.standard_normal((S - j0, 3))
        s, uncapped = np.full((2, len(k), len(q)), 7.0)
        tiles.scores(rules, h, i0, j0, k, q.T, s, uncapped)
        wanted = 0.6 * k @ q.T
        if rules.softcap:
            capped = np.tanh(wanted / rules.softcap)
            wanted, slope = rules.softcap * capped, 1 - capped ** 2
            np.testing.assert_allclose(uncapped, slope, rtol=1e-12)
        for j in range(len(k)):
            for i in range(len(q)):
                distance = (j0 + j) - (i0 + i + S - T)
                if rules.slopes.size:
                    wanted[j, i] -= rules.slopes[h] * abs(distance)
                if rules.bias.size:
                    wanted[j, i] += bias[h, distance + S - 1]
        np.testing.assert_allclose(s, wanted, rtol=1e-12)


@pytest.mark.parametrize("J", range(1, 14))
def test_the_online_softmax_of_a_tile(J, rng):
    """The largest score wherever it stands, exactly; what does not rise is not rescaled."""
    I = 4
    for place in range(J):
        for before in (-np.inf, -5.0, 1.0, 50.0):
            s = rng.standard_normal((J, I))
            s[place] = 40 + rng.random(I)
            s[:, 3] = -np.inf
            given, l_i = s.copy(), rng.random(I) * (before > -np.inf)
            m_i, alpha, top, total, l_before = np.full(I, before), np.full(I, 7.0), np.full(I, 8.0), np.full(I, 9.0), l_i.copy()
            rose = tiles.online_softmax(s, m_i, l_i, alpha, top, total)
            m = np.maximum(before, given.max(axis=0))
            base = np.where(m == -np.inf, 0, m)
            assert rose == (before < 50) and m_i.tolist() == m.tolist()
            np.testing.assert_allclose(s, np.exp(given - base), rtol=1e-14)
            shrink = np.exp(before - base)
            np.testing.assert_allclose(l_i, l_before * shrink + np.exp(given - base).sum(axis=0), rtol=1e-14)
            if rose:
                np.testing.assert_allclose(alpha, shrink, rtol=1e-14)
            else:
                assert (alpha == 7).all()


def test_a_weight_alone_in_its_row_has_no_gradient():
    p, dp, delta = np.array([[1.0, 0.5, 2.0]]), np.array([[3.0, 3.0, 3.0]]), np.array([1.0, 1.0, 1.0])
    tiles.softmax_gradient(p, delta, dp)
    assert dp.tolist() == [[0, 1, 4]]


def bits_of(seed, b, h, i, j):
    """The hash of a weight, as `attention_dropout_mask` has it."""
    b, h, i, j = (np.array([n], np.uint32) for n in (b, h, i, j))
    row = _mix(np.uint32(seed >> 32) ^ _mix(np.uint32(seed & 0xFFFFFFFF) ^ _mix(b)))
    return int(_mix(_mix(_mix(row ^ h) ^ i) + j * np.uint32(0x9E3779B9)).item())


SEEDS = [0, 1, 0xFFFFFFFF, 0xFFFFFFFF00000000, 2**64 - 1, 0x123456789ABCDEF0, 0xF0F0F0F00F0F0F0F, (5 << 32) + 9]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_hash_equal_to_the_threshold_keeps(seed):
    """In attention, and in the dropout of vectors, whose rows are those of the first head."""
    halves = dict(seed_high=seed >> 32, seed_low=seed & 0xFFFFFFFF)
    for b, h, i0, j0 in ((0, 0, 0, 0), (1, 3, 5, 2), (2, 1, 65535, 70000)):
        hashes, x, y = np.zeros(2, np.uint32), np.array([[1.0, 2.0], [3.0, 4.0]]), np.zeros((2, 2))
        for more in (0, 1):
            rules = rules_of(1, 1, threshold=bits_of(seed, b, h, i0 + 1, j0 + 1) + more, kept=1.5, **halves)
            tiles.row_hashes(rules, b, h, i0, hashes)
            tiles.drop(x, rules, hashes, j0, y)
            for j in range(2):
                for i in range(2):
                    assert y[j, i] == (1.5 * x[j, i] if bits_of(seed, b, h, i0 + i, j0 + j) >= rules.threshold else 0)
        assert x.tolist() == [[1, 2], [3, 4]] and y[1, 1] == 0
    for n, c in ((0, 0), (3, 4), (1000, 65537)):
        hashed = dropout.row_hash(n, halves["seed_low"], halves["seed_high"])
        assert dropout.is_kept(hashed, c, bits_of(seed, 0, 0, n, c)) and not dropout.is_kept(hashed, c, bits_of(seed, 0, 0, n, c) + 1)


def test_only_the_rare_tile_is_multiplied_in_loops(monkeypatch, rng):
    """By keys and by queries; NaN and Inf do not get through what is hidden."""
    by_blas, multiply = [], tiles.product
    monkeypatch.setattr(tiles, "product", lambda *given: by_blas.append(given) or multiply(*given))
    rules = rules_of(6, 5, mask=rng.random((1, 1, 6, 5)) < 0.5)
    shown = rules.mask[0, 0, 2:6, 1:4]                                # 4 queries, 3 keys
    for found, value, often in ((ALL, 1.0, 1), (ALL, np.nan, 1), (SOME, 1.0, 1), (SOME, np.nan, 0), (SOME, -np.inf, 0)):
        for by_keys in (False, True):
            weights = rng.random((4, 3)) * (shown if found == SOME else 1)
            a = weights.T.copy() if by_keys else weights
            b, c = rng.standard_normal((a.shape[1], 2)), rng.standard_normal((a.shape[0], 2))
            b[1, 1] = value
            visible = shown.T if by_keys else shown
            terms = np.where(visible[:, :, None] | (found == ALL), a[:, :, None] * b, 0)
            wanted = c + 0.3 * terms.sum(axis=1)
            by_blas.clear()
            tiles.add_product(found, 0.3, a, b, c, rules, 0, 0, 2, 1, by_keys)
            assert len(by_blas) == often
            np.testing.assert_allclose(c, wanted, rtol=1e-12)


@pytest.mark.parametrize("I, D", [(1, 1), (7, 9), (8, 8), (9, 17), (16, 8), (3, 16), (24, 10), (15, 72), (72, 15)])
def test_whole_blocks_are_turned_in_registers(I, D, monkeypatch):
    """All of them and nothing else: the rest goes number by number."""
    turned = []
    monkeypatch.setattr(memory, "turn_block", lambda x, i, d, xt: turned.append((i, d)) or plain_kernels.turn_block(x, i, d, xt))
    x, xt = np.arange(I * D).reshape(I, D) + 0.5, np.zeros((D, I))
    memory.transpose(x, xt)
    assert (xt == x.T).all()
    assert turned == [(i, d) for i in range(0, I - 7, 8) for d in range(0, D - 7, 8)]


def test_the_largest_logit_wherever_it_stands():
    for V in range(1, 5):
        for place in range(V):
            z = np.zeros(V)
            z[place] = 1e4
            assert cross_entropy.largest_of(z) == 1e4
            loss, saved = cross_entropy.cross_entropy(z[None], np.array([place]))
            assert loss == 0 and (cross_entropy.cross_entropy_backward(1.0, saved) == 0).all()


def test_a_class_that_cannot_be_costs_nothing_without_smoothing():
    loss, saved = cross_entropy.cross_entropy(np.array([[0.0, -np.inf, 0.0]]), np.array([2]))
    assert abs(loss - math.log(2)) < 1e-15
    assert cross_entropy.cross_entropy_backward(1.0, saved).tolist() == [[0.5, 0, -0.5]]


def test_the_variance_of_numbers_far_from_zero(rng):
    """From what is left of them without their mean: the difference of two squares would have lost it."""
    x = 1e8 + rng.random(8)
    mean = normalization.mean_of(x)
    assert mean == x.mean() and normalization.mean_square(x, mean) == pytest.approx(x.var(), rel=1e-12)


def test_no_dropout_asks_the_generator_for_nothing(rng):
    x, branch = rng.standard_normal((2, 3, 4))
    for functions in (F, dropout):
        for rate, generator in ((0.4, None), (0, rng), (0.0, rng)):
            before = rng.bit_generator.state
            y, saved = functions.dropout(x, rate, generator)
            assert np.array_equal(y, x) and y is not x and np.array_equal(functions.dropout_backward(x, saved), x)
            y, saved = functions.residual_dropout(x, branch, rate, generator)
            dx, dbranch = functions.residual_dropout_backward(y, saved)
            assert np.array_equal(y, x + branch) and np.array_equal(dx, y) and np.array_equal(dbranch, y)
            assert rng.bit_generator.state == before


def test_gradients_of_lookups_of_any_shape(rng):
    for shape in ((3,), (2, 3), (2, 3, 5)):
        ids, weight, dy = rng.integers(0, 4, shape), rng.standard_normal((4, 7)), rng.standard_normal((*shape, 7))
        wanted = np.zeros((4, 7))
        np.add.at(wanted, ids, dy)
        y, saved = embedding.embedding(ids, weight)
        np.testing.assert_allclose(embedding.embedding_backward(dy, saved), wanted, rtol=1e-12)


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_rotations_of_any_number_of_axes(layout, rng, monkeypatch):
    """Heads that lie as a projection leaves them are not copied."""
    cosine, sine = F.rotary_angles(2, 7, 6)
    for shape in ((5, 6), (3, 5, 6), (2, 3, 5, 6), (2, 1, 3, 5, 6)):
        x = rng.standard_normal(shape)
        np.testing.assert_allclose(positions.rotary(x, cosine, sine, layout)[0], F.rotary(x, cosine, sine, layout)[0], rtol=1e-12)
    heads, given = rng.standard_normal((2, 5, 3, 6)).transpose(0, 2, 1, 3), []
    monkeypatch.setattr(positions, "TURN", {heads.dtype: lambda x, *rest: given.append(x)})
    positions.rotary(heads, cosine, sine, layout)
    assert np.shares_memory(given[0], heads) and given[0].shape == heads.shape


def test_how_long_a_thread_looks_on(monkeypatch):
    """The caller until all is finished, or LOOKS times; a helper LOOKS_MORE times more. Nobody says it is done before it is."""
    looks, step = [], sharing._add
    monkeypatch.setattr(sharing, "_add", lambda ledger, n, value: looks.append((n, value)) or step(ledger, n, value))
    for units in (1, 2, 3):
        for finished in range(units + 1):
            for task in (0, 1, 2):
                ledger = sharing.new_ledger(units)
                assert ledger.tolist() == [0] * (units + 1)
                for _ in range(finished):
                    sharing.finish(ledger)
                looks.clear()
                assert sharing.all_finished(ledger, task) == (finished == units)
                waits = 1 if finished == units else sharing.LOOKS
                assert looks == [(units, 0)] * (waits + sharing.LOOKS_MORE * (task > 0))


@pytest.mark.parametrize("tasks", [None, 1, 2, 3, 5])
@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("T, S", [(1, 1), (9, 6), (10, 7), (30, 13)])
def test_how_attention_is_cut_into_units(tasks, with_bias, T, S, rng, monkeypatch):
    """Tiles of 9 queries in the forward. In the backward key-value heads, and where these are fewer than tasks, parts of them."""
    B, H, G, D = 1, 4, 2, 3
    q, k, v = (rng.standard_normal(shape) for shape in ((B, H, T, D), (B, G, S, D), (B, G, S, D)))
    given, done = {}, []
    for name in ("FORWARD", "BACKWARD"):
        kernel = getattr(attention, name)

        def recorded(*numbers, name=name, function=kernel.function):
            given[name] = dict(zip(function.__code__.co_varnames, numbers))
            return function(*numbers)

        monkeypatch.setattr(attention, name, {q.dtype: recorded})
    more = dict(run=lambda function, numbers: done.append([function(task) for task in numbers]), **(dict(tasks=tasks) if tasks else {}))
    bias = rng.standard_normal((H, T + S - 1)) if with_bias else None
    o, saved = attention.scaled_dot_product_attention(q, k, v, bias=bias, **more)
    gradients = attention.scaled_dot_product_attention_backward(o, saved, **more)
    tasks = tasks or 1
    assert done == 2 * [tasks * [True]] and len(gradients) == 3 + with_bias
    assert len(given["FORWARD"]["ledger"]) == B * H * math.ceil(T / 9) + 1
    parts = [(0, T, 0, S, 1, 1)]
    if tasks > B * G and not with_bias:
        parts = [(t0, t1, 0, S, 1, 0) for t0, t1 in attention.ranges(T, 9, tasks)]
        parts += [(0, T, s0, s1, 0, 1) for s0, s1 in attention.ranges(S, 6, tasks)]
    assert given["BACKWARD"]["parts"].tolist() == [list(part) for part in parts]
    assert len(given["BACKWARD"]["ledger"]) == len(parts) * B * G + 1


def softmax_of_cache(q, keys, values, slope):
    """One head of attention (D,) to all positions (S, D)."""
    z = keys @ q / math.sqrt(len(q)) - slope * np.arange(len(keys))[::-1]
    p = np.exp(z - z.max())
    return p / p.sum() @ values, z


@pytest.mark.parametrize("D", [1, 3, 4])
def test_attention_to_a_cache(D, rng):
    for S in (1, 2, 7):
        for slope in (0.0, 0.4):
            for size in (1, 1e3):                                     # exponentials of large scores would overflow
                q, (keys, values) = size * rng.standard_normal(D), rng.standard_normal((2, S, D))
                scores, o = np.full((2, 8), 7.0)
                token_step.attend_to_cache(q, keys, values, slope, scores, o)
                wanted, z = softmax_of_cache(q, keys, values, slope)
                np.testing.assert_allclose(o[:D], wanted, rtol=1e-11, atol=1e-12)
                np.testing.assert_allclose(scores[:S], z, rtol=1e-11, atol=1e-12)
                assert (o[D:] == 7).all() and (scores[S:] == 7).all()


def test_numbers_at_an_address(rng):
    x = rng.standard_normal(9)
    assert token_step.places([None, x]) == [0, x.ctypes.data]
    assert token_step.line_at(x.ctypes.data, 2, 7, x).tolist() == x[2:7].tolist()
    assert len(token_step.line_at(0, 2, 7, x)) == 0


def test_a_product_in_parts(rng, monkeypatch):
    """Of any widths, one too; with a bias or without; from any place on."""
    monkeypatch.setattr(token_step, "PARTS", 3)
    for width in (1, 3, 6):
        x, weight, bias = rng.standard_normal(5), rng.standard_normal((5, width)), rng.standard_normal(width)
        sums = np.full((3, 2 + width), 7.0)
        for part in range(3):
            token_step.multiply(x, weight.ctypes.data, 5 * part // 3, 5 * (part + 1) // 3, sums[part, 2:])
        assert (sums[:, :2] == 7).all()
        np.testing.assert_allclose(sums[1, 2:], x[1:3] @ weight[1:3], rtol=1e-12)
        for shift in (bias, np.zeros(0)):
            y = np.full(width, 7.0)
            token_step.add_up(sums, 2, shift, y)
            np.testing.assert_allclose(y, x @ weight + (bias if len(shift) else 0), rtol=1e-12)


@pytest.mark.parametrize("heads", [1, 3])
def test_heads_normalized_and_turned_in_place(heads, rng, monkeypatch):
    x, gain = rng.standard_normal((heads, 6)), rng.standard_normal(6)
    seen, normalize_one = [], token_step.normalize_one
    monkeypatch.setattr(token_step, "normalize_one", lambda *given: seen.append(given[0].copy()) or normalize_one(*given))
    y = x.reshape(-1).copy()
    token_step.norm_heads(y, gain, 0.1, 6)
    np.testing.assert_allclose(y.reshape(x.shape), F.rms_norm(x, gain, 0.1)[0], rtol=1e-12)
    assert np.array_equal(seen, x)
    cosine, sine = F.rotary_angles(5, 6, 6)
    for layout in ("half", "interleaved"):
        y = x.reshape(-1).copy()
        token_step.turn_heads(y, cosine[0], sine[0], layout == "half", 6)
        np.testing.assert_allclose(y.reshape(x.shape), F.rotary(x[:, None], cosine, sine, layout)[0][:, 0], rtol=1e-12)


@pytest.mark.parametrize("parts, tasks", [(1, 1), (2, 3), (5, 2)])
@pytest.mark.parametrize("H, G, D, width, capacity, V", [
    (3, 1, 2, 2, 3, 5), (3, 3, 2, 1, 1, 1), (3, 1, 2, 11, 3, 9), (6, 2, 2, 4, 40, 3), (1, 1, 1, 1, 1, 2), (1, 1, 2, 3, 4, 2),
    (2, 2, 1, 3, 2, 4)])
@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("options", [
    dict(), dict(centred=True, shifts=True, biases=True), dict(inside=False), dict(norms=True, slopes=True), dict(turned=True),
    dict(turned=True, halves=True, norms=True, biases=True)], ids=str)
def test_a_token_through_blocks_of_any_widths(parts, tasks, H, G, D, width, capacity, V, gated, options, rng, monkeypatch):
    """Two blocks, each weight at random; the feed-forward narrower or wider than the model, the cache shorter or longer."""
    monkeypatch.setattr(token_step, "PARTS", parts)
    C, KV, L, position = H * D, G * D, 2, capacity - 1
    turned = options.get("turned") and D % 2 == 0                     # an odd width has no pairs
    shapes = dict(
        gain1=(C,), shift1=(C,), query=(C, C), query_bias=(C,), key=(C, KV), key_bias=(KV,), value=(C, KV), value_bias=(KV,),
        query_gain=(D,), key_gain=(D,), output=(C, C), output_bias=(C,), gain2=(C,), shift2=(C,), gate=(C, width), gate_bias=(width,),
        hidden=(C, width), hidden_bias=(width,), down=(width, C), down_bias=(C,))
    assert tuple(shapes) == token_step.NAMES
    blocks = [{name: rng.standard_normal(shape) for name, shape in shapes.items()} for _ in range(L)]
    gain, shift, head = rng.standard_normal(C), rng.standard_normal(C), rng.standard_normal((V, C))
    absent = [name for name in shapes if name.startswith("gate") and not gated or name.endswith("bias") and not options.get("biases")
              or name in ("query_gain", "key_gain") and not options.get("norms") or name[:5] == "shift" and not options.get("shifts")]
    for w in blocks:
        w.update(dict.fromkeys(absent))
    shift = shift if options.get("shifts") else None
    slopes = rng.random(H) if options.get("slopes") else None
    x, epsilons = rng.standard_normal(C), 0.1 + rng.random((L, 4))
    caches = rng.standard_normal((L, 2, G, capacity, D))
    centred, inside, halves = (options.get(name, name == "inside") for name in ("centred", "inside", "halves"))
    angles = tuple(table[0] for table in F.rotary_angles(position, position + 1, D)) if turned else None
    wanted_caches = caches.copy()

    def norm(x, gain, shift, epsilon):
        return F.layer_norm(x, gain, shift, epsilon, inside)[0] if centred else F.rms_norm(x, gain, epsilon, inside)[0]

    def affine(x, w, name):
        return x @ w[name] + (0 if w[f"{name}_bias"] is None else w[f"{name}_bias"])

    def heads_of(x, gain, epsilon):
        x = x.reshape(-1, D)
        x = x if gain is None else F.rms_norm(x, gain, epsilon)[0]
        layout = "half" if halves else "interleaved"
        return x if angles is None else F.rotary(x[:, None], *(table[None] for table in angles), layout)[0][:, 0]

    h = x
    for w, eps, (keys, values) in zip(blocks, epsilons, wanted_caches):
        a = norm(h, w["gain1"], w["shift1"], eps[0])
        keys[:, position] = heads_of(affine(a, w, "key"), w["key_gain"], eps[3])
        values[:, position] = affine(a, w, "value").reshape(-1, D)
        q = heads_of(affine(a, w, "query"), w["query_gain"], eps[2])
        o = [softmax_of_cache(q[n], keys[n * G // H], values[n * G // H], 0 if slopes is None else slopes[n])[0] for n in range(H)]
        h = h + affine(np.reshape(o, -1), w, "output")
        a = norm(h, w["gain2"], w["shift2"], eps[1])
        f = F.silu(affine(a, w, "gate"))[0] * affine(a, w, "hidden") if gated else F.silu(affine(a, w, "hidden"))[0]
        h = h + affine(f, w, "down")
    wanted = head @ norm(h, gain, shift, 0.2)

    calls, kernel = [], token_step.token_step
    monkeypatch.setattr(token_step, "TOKEN_STEP", {x.dtype: lambda *given: calls.append(given) or kernel(*given)})
    done = []
    weights, ends = (np.array(token_step.places(arrays)) for arrays in ([w[name] for w in blocks for name in shapes], [gain, shift, head]))
    found = token_step.run_token_step(
        x, weights.reshape(L, -1), epsilons, ends, 0.2, width, centred, inside, "silu", angles, halves, slopes, H, G,
        [(*token_step.places(pair), capacity) for pair in caches], position, V, tasks,
        lambda work, tasks: done.extend(work(task) for task in tasks))
    assert done == [True] * min(tasks, parts) and len(calls) == len(done)
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(caches, wanted_caches, rtol=1e-10, atol=1e-11)
    given = dict(zip(kernel.__code__.co_varnames, calls[0]))
    assert given["cosine"].ndim == given["slopes"].ndim == 1 and len(given["cosine"]) == (D // 2 if turned else 0)
    assert given["ledgers"].tolist() == [[1] * parts + [parts]] * (4 * L + 1)
    assert given["room"].shape == (7, max(C, width, capacity)) and given["outer"].shape == (2 * L * parts, C)
    assert given["inner"].shape == (parts, max(3 * C, 2 * width))
    rooms = [call[-1] for call in calls]
    assert not any(np.shares_memory(a, b) for n, a in enumerate(rooms) for b in rooms[:n])


@pytest.fixture
def by_rows(monkeypatch):
    """The kernels of `linear` are compiled for matrices whose rows lie one behind the other: in Python nobody else would mind."""
    for name in ("ADD_ROWS", "ADD_DOTS", "ADD_GRADIENT"):
        def checked(*given, function=getattr(linear, name).function):
            assert all(x.flags.c_contiguous for x in given)
            function(*given)

        monkeypatch.setattr(linear, name, {np.dtype(float): checked})


@pytest.mark.usefixtures("by_rows")
@pytest.mark.parametrize("C, width", [(1, 1), (1, 3), (4, 1), (4, 3)])
def test_which_linear_maps_the_kernel_takes(C, width, rng, monkeypatch):
    """A single vector, and weights without gaps by rows or columns; everything else is BLAS's, which asks for memory."""
    asked, new_array = [], linear.new_array
    monkeypatch.setattr(linear, "new_array", lambda *given: asked.append(given) or new_array(*given))
    weight, bias = rng.standard_normal((C, width)), rng.standard_normal(width)
    spread = np.repeat(np.repeat(weight, 2, axis=0), 2, axis=1)[::2, ::2]
    one = rng.standard_normal((1, 1, C))
    many, gaps = rng.standard_normal((2, C)), rng.standard_normal((1, 2 * C))[:, ::2]
    for x, matrix, takes in ((one, weight, True), (one[0, 0], weight, True), (one, np.asfortranarray(weight), True),
                             (many, weight, False), (gaps, weight, True), (one, spread, C == width == 1)):
        for shift in (None, bias):
            asked.clear()
            y, saved = linear.linear(x, matrix, shift)
            np.testing.assert_allclose(y, x @ matrix + (0 if shift is None else shift), rtol=1e-12)
            assert bool(asked) != takes and y.shape == (*x.shape[:-1], width) and saved[2] == (shift is not None)
    for given in ((one.astype(np.float32), weight), (one, weight, np.ones(width + 1)), (one, weight, bias.astype(np.float32)),
                  (np.array(1.0), weight), ([1.0], weight), (one, [1.0]), (one, weight, [1.0]), (one, weight[0]), (one, weight[None])):
        with pytest.raises((TypeError, ValueError), match="linear: "):
            linear.linear(*given)


@pytest.mark.usefixtures("by_rows")
@pytest.mark.parametrize("C, width", [(1, 1), (4, 3)])
def test_which_gradients_of_weights_are_added_by_the_kernel(C, width, rng, monkeypatch):
    asked, kernel = [], linear.ADD_GRADIENT[np.dtype(float)]
    monkeypatch.setattr(linear, "ADD_GRADIENT", {np.dtype(float): lambda *given: asked.append(given) or kernel(*given)})
    x, weight, dy = rng.standard_normal((2, 3, C)), rng.standard_normal((C, width)), rng.standard_normal((2, 3, width))
    before, whole = rng.standard_normal((C, width)), np.tensordot(x, dy, ([0, 1], [0, 1]))
    layouts = {"C": np.ascontiguousarray, "F": np.asfortranarray, "gaps": lambda x: np.repeat(np.repeat(x, 2, axis=0), 2, axis=1)[::2, ::2],
               "single": lambda x: x.astype(np.float32)}
    for name, layout in (*layouts.items(), ("none", None)):
        for bias in (None, rng.standard_normal(width)):
            asked.clear()
            total = None if layout is None else layout(before.copy())
            dx, dweight, dbias = linear.linear_backward(dy, linear.linear(x, weight, bias)[1], total)
            assert dweight is total or total is None
            np.testing.assert_allclose(dweight, whole + (0 if total is None else before), rtol=1e-5 if name == "single" else 1e-12)
            np.testing.assert_allclose(dx, dy @ weight.T, rtol=1e-12)
            assert dx.shape == x.shape and (dbias is None) == (bias is None)
            assert dbias is None or np.allclose(dbias, dy.sum(axis=(0, 1)), rtol=1e-12)
            assert bool(asked) == (name in "CF" or name == "gaps" and C == width == 1)


def test_half_of_all_lies_below_zero():
    below, density = activations.normal_below(np.float32(0))
    assert below == 0.5 and abs(density * math.sqrt(2 * math.pi) - 1) < 1e-7


@pytest.fixture
def blas(monkeypatch):
    """BLAS as its reference tells it, by columns, over the memory behind an element; and the number of terms of each call."""
    calls = []

    def seen(of, shape, strides):
        array, i, j = of
        return np.lib.stride_tricks.as_strided(array[i:, j:], shape, [array.itemsize * step for step in strides])

    def gemm(kind, turn_a, turn_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc):
        assert (kind, turn_a) == (ord("s" if c[0].dtype == np.float32 else "d"), ord("N")) and turn_b in (ord("N"), ord("T"))
        assert lda >= m and ldc >= m and ldb >= (n if turn_b == ord("T") else k), "BLAS refuses such strides"
        left, result = seen(a, (m, k), (1, lda)), seen(c, (m, n), (1, ldc))
        right = seen(b, (k, n), (ldb, 1) if turn_b == ord("T") else (1, ldb))
        result[...] = alpha * (left @ right) + (beta * result if beta else 0)
        assert beta.dtype == result.dtype
        calls.append(k)

    monkeypatch.setattr(arithmetic, "_gemm", gemm)
    monkeypatch.setattr(arithmetic, "address", lambda x: x)
    monkeypatch.setattr(arithmetic, "element", lambda x, i, j: (x, i, j))
    return calls


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("R, K, C", [
    (1, 1, 1), (3, 1, 2), (1, 4, 3), (3, 2, 2), (3, 4, 1), (5, 96, 2), (2, 97, 3), (3, 192, 2), (2, 300, 4)])
def test_what_blas_is_told(R, K, C, dtype, rng, blas):
    """Matrices with gaps between their rows, or turned; sums of at most 96 terms, all about as long."""
    def matrix(rows, columns):
        return rng.standard_normal((rows, columns)).astype(dtype)

    lefts = [matrix(R, K), matrix(R, K + 3)[:, :K], matrix(K, R).T, matrix(K, R + 2)[:, :R].T]
    if K == 1:                                                        # where no other column follows, its distance says nothing
        lefts.append(np.lib.stride_tricks.as_strided(matrix(R, 5), (R, 1), [size * np.dtype(dtype).itemsize for size in (5, 3)]))
    for a in lefts:
        for b, whole in ((matrix(K, C), matrix(R, C)), (matrix(K, C + 2)[:, :C], matrix(R, C + 5))):
            c, before = whole[:, :C], whole.copy()
            for add in (True, False):
                if not add:
                    c[...] = np.nan
                wanted = a.astype(float) @ b
                tolerance = 1e-4 if dtype == np.float32 else 1e-11
                arithmetic.product(dtype(0.3), a, b, c, add)
                np.testing.assert_allclose(c, 0.3 * wanted + before[:, :C] * add, rtol=tolerance, atol=tolerance)
                assert sum(blas) == K and len(blas) == math.ceil(K / 96) and max(blas) - min(blas) <= 1
                blas.clear()
                c[...] = before[:, :C] if add else np.nan
                arithmetic.gemm(a, b, c, add)
                np.testing.assert_allclose(c, wanted + before[:, :C] * add, rtol=tolerance, atol=tolerance)
                assert blas == [K]
                blas.clear()
                c[...] = before[:, :C]
            assert np.array_equal(whole, before), "nothing is written beside it"
