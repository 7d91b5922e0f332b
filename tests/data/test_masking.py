"""Masks and other noise: what is hidden, how much of it, and that the text can be rebuilt."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numformer.functional import IGNORE_INDEX
from numformer.data import (
    MaskedStream, PassageRows, corrupt_spans, hide_tokens, infill, mask_tokens, permute_sentences)
from numformer.data.noise.spans import _arrange, _cut

SPECIAL, MASK = [0, 1, 2, 3], 3
lengths, seeds, rates = st.integers(1, 60), st.integers(0, 2**32), st.floats(0.01, 0.99)


def rows_of_text(rng, B=64, T=50, V=100):
    ids = rng.integers(4, V, (B, T))
    ids[:, 0], ids[:, T // 2] = 1, 2
    ids[: B // 2, -10:] = 0
    return ids


def without_segments(ids):
    zeros = np.zeros(len(ids), int)
    return PassageRows(ids, np.zeros_like(ids), zeros + ids.shape[1], zeros)


def within(count, n, p):
    """Whether a count of n coins of chance p is within five standard deviations."""
    return abs(count - n * p) < 5 * np.sqrt(n * p * (1 - p))


def test_masks_have_berts_rates(rng):
    ids = rows_of_text(rng, B=2000)
    before = ids.copy()
    inputs, targets = mask_tokens(ids, SPECIAL, 100, MASK, rng)
    chosen, ordinary = targets != IGNORE_INDEX, ids >= 4
    assert np.array_equal(ids, before) and np.array_equal(targets[chosen], ids[chosen])
    assert np.array_equal(inputs[~chosen], ids[~chosen])
    assert not (chosen & ~ordinary).any()
    assert np.array_equal(chosen.sum(axis=1), np.round(0.15 * ordinary.sum(axis=1)))
    n, masked, kept = chosen.sum(), (inputs == MASK)[chosen], (inputs == ids)[chosen]
    # a random token may be the same one
    assert within(masked.sum(), n, 0.8) and within(kept.sum(), n, 0.1 + 0.1 / 96)
    random = inputs[chosen][~masked & ~kept]
    assert random.min() == 4 and random.max() == 99
    assert np.bincount(random)[4:].max() < 4 * len(random) / 96
    places = chosen[1000:, 1:25].sum(axis=0)                          # every place alike
    assert all(within(count, 1000, chosen[1000:].sum() / ordinary[1000:].sum()) for count in places)


@given(st.integers(1, 4), lengths, seeds, rates)
def test_masks_keep_special_tokens_and_restore_the_text(B, T, seed, rate):
    rng = np.random.default_rng(seed)
    ids = rng.integers(0, 9, (B, T))
    inputs, targets = mask_tokens(ids, SPECIAL, 9, MASK, np.random.default_rng(seed), rate)
    chosen, ordinary = targets != IGNORE_INDEX, ids >= 4
    assert np.array_equal(np.where(chosen, targets, inputs), ids) and not (chosen & ~ordinary).any()
    # at least one, if there is one
    assert np.array_equal(chosen.any(axis=1), ordinary.any(axis=1))
    again = mask_tokens(ids, SPECIAL, 9, MASK, np.random.default_rng(seed), rate)
    assert np.array_equal(inputs, again[0]) and np.array_equal(targets, again[1])
    assert not np.isin(inputs[chosen], [0, 1, 2]).any() and inputs.dtype == ids.dtype


def test_small_and_unsigned_ids_keep_their_dtype():
    inputs, targets = mask_tokens(np.full((2, 5), 7, np.uint8), [0], 9, 0, np.random.default_rng(0))
    assert inputs.dtype == np.uint8 and targets.min() == IGNORE_INDEX and targets.dtype == np.int64


def test_static_masks_stay_and_dynamic_ones_change(rng):
    rows = rows_of_text(rng, B=12)
    # so that a row is known by its second token, masked or not
    rows[:, 1] = 4 + np.arange(12)

    def epochs(dynamic, seed=0):
        stream = MaskedStream(without_segments(rows), SPECIAL, 100, MASK, 5, seed, dynamic)
        batches = [stream.batch(step) for step in range(9)]
        assert [len(batch.inputs) for batch in batches[:3]].count(5) == 2
        pairs = [[(tuple(i), tuple(t)) for batch in batches[3 * epoch : 3 * epoch + 3]
                  for i, t in zip(batch.inputs.tolist(), batch.targets.tolist())]
                 for epoch in range(3)]
        texts = [sorted(tuple(np.where(np.array(t) != IGNORE_INDEX, t, i)) for i, t in epoch)
                 for epoch in pairs]
        assert texts == [sorted(map(tuple, rows))] * 3                # every row once in an epoch
        assert all(np.array_equal(a, b) for a, b in zip(stream.batch(4), batches[4]))
        return pairs

    static, dynamic = epochs(False), epochs(True)
    assert set(static[0]) == set(static[1]) == set(static[2]) and static[0] != static[1]
    assert not set(dynamic[0]) & set(dynamic[1]) and set(epochs(False, seed=1)[0]) != set(static[0])


def restore(source, target, sentinels):
    """The text before span corruption: each sentinel gives way to what follows it in the target."""
    spans, sentinel = {}, None
    for i in target.tolist():
        if i in sentinels:
            sentinel = i
            spans[sentinel] = []
        else:
            spans[sentinel].append(i)
    assert spans.pop(sentinel) == []                                  # the last closes the target
    assert list(spans) == sentinels[: len(spans)] and all(spans.values())
    text = [i for item in source.tolist() for i in (spans[item] if item in spans else [item])]
    return text, spans


@given(st.integers(2, 80), seeds, rates, st.floats(1, 10))
def test_corrupted_spans_restore_the_text(N, seed, rate, mean_span):
    ids, sentinels = np.random.default_rng(seed).integers(0, 5, N), list(range(200, 100, -1))
    source, target = corrupt_spans(ids, sentinels, np.random.default_rng(seed), rate, mean_span)
    text, spans = restore(source, target, sentinels)
    hidden = sum(map(len, spans.values()))
    assert text == ids.tolist() and hidden == min(max(1, round(rate * N)), N - 1)
    assert len(spans) == min(max(1, round(hidden / mean_span)), N - hidden + 1)
    assert len(source) + len(target) == N + 2 * len(spans) + 1
    together = np.isin(source, sentinels)
    assert not (together[1:] & together[:-1]).any()                   # spans never touch
    again = corrupt_spans(ids, sentinels, np.random.default_rng(seed), rate, mean_span)
    assert np.array_equal(source, again[0]) and np.array_equal(target, again[1])


def test_spans_have_the_mean_length_and_any_position(rng):
    sentinels, hidden, spans = list(range(1000, 1010)), np.zeros(100), 0
    for _ in range(4000):
        source, target = corrupt_spans(np.arange(100), sentinels, rng)
        hidden[target[target < 100]] += 1
        spans += (target >= 1000).sum() - 1
    assert hidden.sum() == 4000 * 15 and spans == 4000 * 5
    # few spans reach the very ends
    assert hidden.min() > 150 and 480 < hidden[10:90].min() <= hidden[10:90].max() < 720


@pytest.mark.slow
def test_all_arrangements_of_spans_are_equally_likely(rng):
    cuts = [tuple(_cut(5, 3, rng)) for _ in range(6000)]
    assert set(cuts) == {(1, 1, 3), (1, 3, 1), (3, 1, 1), (1, 2, 2), (2, 1, 2), (2, 2, 1)}
    assert all(within(cuts.count(cut), 6000, 1 / 6) for cut in set(cuts))
    starts = [tuple(_arrange([2, 1], 6, rng)[0]) for _ in range(6000)]
    assert set(starts) == {(0, 3), (0, 4), (0, 5), (1, 4), (1, 5), (2, 5)}
    assert all(within(starts.count(places), 6000, 1 / 6) for places in set(starts))


@given(lengths, seeds, rates)
def test_hide_tokens_masks_the_rate(N, seed, rate):
    ids = np.arange(N)
    noisy = hide_tokens(ids, 99, np.random.default_rng(seed), rate)
    assert (noisy == 99).sum() == max(1, round(rate * N)) and ((noisy == ids) | (noisy == 99)).all()
    assert np.array_equal(ids, np.arange(N))
    assert np.array_equal(noisy, hide_tokens(ids, 99, np.random.default_rng(seed), rate))


@given(lengths, seeds, rates, st.floats(0.1, 8))
def test_infilled_spans_have_one_mask_each(N, seed, rate, mean_span):
    noisy = infill(np.arange(N), 99, np.random.default_rng(seed), rate, mean_span)
    left, masks = noisy[noisy != 99], noisy == 99
    assert len(left) == N - max(1, round(rate * N)) and (np.diff(left) > 0).all() and masks.any()
    assert not (masks[1:] & masks[:-1]).any()
    gaps = np.diff(np.flatnonzero(np.diff(np.concatenate([[-1], left, [N]])) > 1)).size + 1
    # nothing is missing without a mask
    assert gaps <= masks.sum()
    assert np.array_equal(noisy, infill(np.arange(N), 99, np.random.default_rng(seed), rate,
                                        mean_span))


def test_infilled_spans_are_poisson_distributed(rng):
    """Lengths of all spans, empty ones too: Poisson-distributed, except the one cut to fit."""
    found = []
    for _ in range(300):
        noisy = infill(np.arange(1000), 9999, rng)
        framed = np.concatenate([[-1], noisy, [1000]])
        at = np.flatnonzero(framed == 9999)
        found += (framed[at + 1] - framed[at - 1] - 1).tolist()
    shares = np.bincount(found, minlength=12)[:12] / len(found)
    poisson = np.exp(-3) * np.cumprod([1, *(3 / k for k in range(1, 12))])
    assert np.abs(shares - poisson).max() < 0.01 and abs(np.mean(found) - 3) < 0.05


def test_the_span_cut_to_fit_may_be_anywhere(rng):
    first, last = [], []
    for _ in range(3000):
        noisy = infill(np.arange(40), 99, rng)
        framed = np.concatenate([[-1], noisy, [40]])
        at = np.flatnonzero(framed == 99)
        lengths = framed[at + 1] - framed[at - 1] - 1
        first.append(lengths[0])
        last.append(lengths[-1])
    assert (abs(np.mean(first) - np.mean(last))
            < 5 * np.hypot(np.std(first), np.std(last)) / np.sqrt(3000))


def test_sentences_come_in_any_order(rng):
    sentences = [np.array([10, 11, 12]), np.array([20]), np.array([30, 31])]
    orders = {tuple(int(s[0]) for s in permute_sentences(sentences, rng)) for _ in range(200)}
    assert len(orders) == 6


TEXT, RNG = np.arange(10), np.random.default_rng(0)
ROWS = TEXT[None] + 4


@pytest.mark.parametrize("call, error, words", [
    (lambda: mask_tokens(ROWS, SPECIAL, 13, MASK, RNG), ValueError, "hold 13"),
    (lambda: mask_tokens(TEXT, SPECIAL, 20, MASK, RNG), ValueError, r"shape \(B, T\)"),
    (lambda: mask_tokens(ROWS / 2, SPECIAL, 20, MASK, RNG), TypeError, "integers"),
    (lambda: mask_tokens(ROWS, [0, 1], 20, MASK, RNG), ValueError,
     r"mask_id=3 must be among the special ids \[0, 1\]"),
    (lambda: mask_tokens(ROWS, [20, MASK], 20, MASK, RNG), ValueError, "special must lie in"),
    (lambda: mask_tokens(ROWS * 0, [0, 1], 2, 1, RNG), ValueError, "all 2 ids are special"),
    (lambda: mask_tokens(ROWS, SPECIAL, 20, MASK, None), TypeError, "Generator"),
    (lambda: mask_tokens(ROWS, SPECIAL, 20, MASK, RNG, rate=0), ValueError, "rate=0"),
    (lambda: mask_tokens(ROWS, SPECIAL, 20, MASK, RNG, rate=1), ValueError, "rate=1"),
    (lambda: MaskedStream(without_segments(ROWS), SPECIAL, 20, MASK, 0, 0), ValueError,
     "batch_size=0"),
    (lambda: MaskedStream(without_segments(ROWS), SPECIAL, 13, MASK, 1, 0), ValueError, "hold 13"),
    (lambda: corrupt_spans(TEXT, [5, 99], RNG), ValueError, "hold a sentinel"),
    (lambda: corrupt_spans(TEXT, [99], RNG), ValueError, "there are 1 sentinels; give 2"),
    (lambda: corrupt_spans(TEXT[:1], [99, 98], RNG), ValueError, "two or more"),
    (lambda: corrupt_spans(ROWS, [99, 98], RNG), ValueError, "one text at a time"),
    (lambda: corrupt_spans(TEXT, [99, 98], RNG, mean_span=0.5), ValueError, "mean_span=0.5"),
    (lambda: corrupt_spans(TEXT, [99, 98], RNG, rate=1.5), ValueError, "rate=1.5"),
    (lambda: corrupt_spans(TEXT, [99, 98], 7), TypeError, "Generator"),
    (lambda: corrupt_spans(TEXT, [99, 98], None), TypeError, "must be a .*Generator, but is None"),
    (lambda: hide_tokens(TEXT[:0], 99, RNG), ValueError, "empty"),
    (lambda: hide_tokens(TEXT, 5, RNG), ValueError, "ids hold mask_id=5"),
    (lambda: infill(TEXT, -1, RNG), ValueError, "mask_id=-1"),
    (lambda: infill(TEXT, 99, RNG, mean_span=0), ValueError, "mean_span=0"),
    (lambda: permute_sentences([], RNG), ValueError, "no sentences"),
    (lambda: permute_sentences([TEXT], None), TypeError, "Generator")])
def test_bad_arguments_are_named(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_at_the_highest_rate_one_token_is_left(rng):
    source, target = corrupt_spans(np.arange(2), [5, 6], rng, rate=0.99)
    assert len(source) == 2 and len(target) == 3


def test_ids_of_noise_may_be_0_and_as_large_as_32_bits_allow(rng):
    assert set(hide_tokens(np.arange(1, 99), 0, rng, rate=0.5)) > {0}
    text, largest = np.array([4, 5]), 2**31 - 1
    hide_tokens(np.array([largest]), 0, rng)
    corrupt_spans(text, [7, largest], rng)
    with pytest.raises(ValueError, match=f"ids must lie in 0 .. {largest}"):
        hide_tokens(np.array([largest + 1]), 0, rng)
    with pytest.raises(ValueError, match=f"sentinels must lie in 0 .. {largest}"):
        corrupt_spans(text, [7, largest + 1], rng)
