"""The n-gram model against its formula, written down plainly, and against numbers by hand."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numformer.data import load_corpus
from numformer.generation import choose_token
from numformer.models import KneserNey
from numformer.data import CharacterTokenizer


def plain_counts(text, n, k):
    """c_k of every k-gram: how often it occurs in the text, or after how many different ids."""
    def grams(k):
        return [tuple(text[i : i + k]) for i in range(len(text) - k + 1)]

    counts = {}
    for gram in grams(n) if k == n else (longer[1:] for longer in set(grams(k + 1))):
        counts[gram] = counts.get(gram, 0) + 1
    return counts


def plain(text, n, vocab_size, history, w):
    """p(w | history), by recursion over the formula and in fractions."""
    def p(k, h):
        if k == 0:
            return Fraction(1, vocab_size)
        counts = plain_counts(text, n, k)
        total = sum(c for gram, c in counts.items() if gram[:-1] == h)
        if total == 0:
            return p(k - 1, h[1:])
        n1, n2 = (sum(c == times for c in counts.values()) for times in (1, 2))
        D = Fraction(n1, n1 + 2 * n2) if n1 else Fraction(1, 2)
        followers = sum(gram[:-1] == h for gram in counts)
        return (max(counts.get((*h, w), 0) - D, 0) + D * followers * p(k - 1, h[1:])) / total

    h = tuple(history)[max(0, len(history) - n + 1):]
    return p(len(h) + 1, h)


@given(st.integers(1, 4), st.lists(st.integers(0, 2), min_size=4, max_size=30),
       st.lists(st.integers(0, 3), min_size=1, max_size=6))
def test_log_probabilities_equal_the_formula(n, text, other):
    model = KneserNey.fit(np.array(text), n, 4)
    wanted = [float(plain(text, n, 4, other, w)) for w in range(4)]
    np.testing.assert_allclose(model.distribution(np.array(other)), wanted, rtol=1e-13)
    wanted = [float(plain(text, n, 4, other[:t], other[t])) for t in range(len(other))]
    np.testing.assert_allclose(np.exp(model.log_probabilities(np.array(other))), wanted, rtol=1e-13)
    bits = model.bits_per_character(np.array(other))
    assert bits == pytest.approx(-np.log2(wanted).mean(), rel=1e-12)


def test_bigrams_by_hand():
    """0 1 0 1 0 2: the pairs 01 and 10 twice, 02 once, so D_2 = 1/5; each of 0, 1, 2 follows one
    other, so D_1 = 1 and p_1 = 1/4.
    """
    model = KneserNey.fit(np.array([0, 1, 0, 1, 0, 2]), n=2, vocab_size=4)
    np.testing.assert_allclose(model.distribution([]), [0.25] * 4, rtol=1e-15)
    np.testing.assert_allclose(model.distribution([0]), np.array([0.1, 1.9, 0.9, 0.1]) / 3,
                               rtol=1e-15)
    np.testing.assert_allclose(model.distribution([1]), np.array([1.85, 0.05, 0.05, 0.05]) / 2,
                               rtol=1e-15)
    # nothing came after 2, and 3 was not there
    np.testing.assert_allclose(model.distribution([2]), [0.25] * 4, rtol=1e-15)
    assert np.array_equal(model.distribution([3]), model.distribution([2, 1, 3])) and model.n == 2
    assert [codes.tolist() for codes in model.codes] == [[0, 1, 2], [1, 2, 4]]
    assert [counts.tolist() for counts in model.counts] == [[1, 1, 1], [2, 1, 2]]


def test_single_ids_by_hand():
    """n = 1 counts how often: 0 0 0 1 1 2 has n_1 = n_2 = 1, so D = 1/3."""
    p = KneserNey.fit(np.array([0, 0, 0, 1, 1, 2]), n=1, vocab_size=4).distribution([1, 2])
    np.testing.assert_allclose(p, np.array([8 / 3, 5 / 3, 2 / 3, 0]) / 6 + 1 / 24, rtol=1e-15)


def test_probabilities_stay_positive_without_counts_of_one():
    # n_1 = 0: D = 1/2
    p = KneserNey.fit(np.array([0, 0, 1, 1, 1]), n=1, vocab_size=3).distribution([])
    np.testing.assert_allclose(p, np.array([1.5, 2.5, 0]) / 5 + 1 / 15, rtol=1e-15)


@pytest.mark.parametrize("n", range(1, 8))
def test_probabilities_sum_to_one(n, rng):
    text = load_corpus().text[:30_000]
    tokenizer = CharacterTokenizer.of(text)
    ids = tokenizer.encode(text)
    model = KneserNey.fit(ids[:25_000], n, len(tokenizer))
    seen = [ids[i : i + length]
            for i, length in zip(rng.integers(20_000, 29_000, 200), itertools.cycle(range(9)))]
    unseen = [rng.integers(0, len(tokenizer), length) for length in range(9) for _ in range(10)]
    for history in (*seen, *unseen):
        p = model.distribution(history)
        assert abs(p.sum() - 1) < 1e-12 and p.min() > 0
    places = rng.integers(0, 5000, 20)
    held_out = model.log_probabilities(ids[25_000:])
    for t in places:
        p = model.distribution(ids[25_000:][:t])[ids[25_000 + t]]
        assert abs(np.log(p) - held_out[t]) < 1e-12


def test_longer_histories_predict_better():
    text = load_corpus().text[:200_000]
    tokenizer = CharacterTokenizer.of(text)
    ids = tokenizer.encode(text)
    bits = [KneserNey.fit(ids[:180_000], n, len(tokenizer)).bits_per_character(ids[180_000:])
            for n in (1, 2, 3, 4)]
    assert 5.5 > bits[0] > bits[1] + 0.5 > bits[2] + 1 > bits[3] + 1.3 and bits[3] > 1.5


def test_codes_of_a_large_vocabulary_do_not_overflow(rng):
    """V^n is far beyond 64 bits; codes are not."""
    text = rng.choice(rng.integers(0, 50_000, 5), 60)
    model = KneserNey.fit(text, 6, 50_000)
    p = model.distribution(text[:20])
    assert abs(p.sum() - 1) < 1e-12
    for w in (*set(text.tolist()), 7):
        assert p[w] == pytest.approx(float(plain(text.tolist(), 6, 50_000, text[:20].tolist(), w)),
                                     rel=1e-12)


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.uint64])
def test_ids_of_any_integer_dtype(dtype):
    text = [0, 1, 1, 2, 0, 1, 2, 2]
    wanted, model = KneserNey.fit(np.array(text), 3, 3), KneserNey.fit(np.array(text, dtype), 3, 3)
    assert np.array_equal(model.log_probabilities(np.array(text, dtype)),
                          wanted.log_probabilities(np.array(text)))
    assert all(array.dtype == np.int64 for array in model.to_arrays().values())


def test_samples_follow_the_distribution(rng):
    model = KneserNey.fit(rng.integers(0, 4, 50), 2, 5)
    p = model.distribution([3])
    drawn = np.bincount([choose_token(np.log(p), rng) for _ in range(4000)], minlength=5) / 4000
    assert (abs(drawn - p) < 4 * np.sqrt(p * (1 - p) / 4000)).all()


def test_arguments_are_not_written_into(rng):
    ids = rng.integers(0, 5, 40)
    before = ids.copy()
    model = KneserNey.fit(ids, 3, 5)
    first = model.log_probabilities(ids)
    model.distribution(ids)[:] = 0
    assert np.array_equal(ids, before) and np.array_equal(model.log_probabilities(ids), first)


def test_arrays_round_trip(rng):
    from safetensors.numpy import load, save

    ids = rng.integers(0, 7, 300)
    model = KneserNey.fit(ids, 4, 7)
    again = KneserNey.from_arrays(load(save(model.to_arrays())))
    assert (np.array_equal(again.log_probabilities(ids), model.log_probabilities(ids))
            and repr(again) == repr(model))
    assert repr(model) == f"KneserNey(n=4, vocab_size=7, {sum(map(len, model.codes))} n-grams)"


@pytest.mark.parametrize("change, words", [
    (lambda arrays: arrays.pop("codes.1"), "arrays must be vocab_size"),
    (lambda arrays: arrays.pop("vocab_size"), "arrays must be vocab_size"),
    (lambda arrays: arrays.update(more=np.ones(1)), "arrays must be vocab_size"),
    (lambda arrays: arrays.update(vocab_size=np.int64(3)), "arrays must be vocab_size"),
    (lambda arrays: arrays.update({"counts.2": arrays["counts.2"][1:]}),
     "codes.2 must ascend, with a count each"),
    (lambda arrays: arrays.update({"codes.2": arrays["codes.2"][::-1]}), "codes.2 must ascend"),
    (lambda arrays: arrays.update({"codes.1": np.array([0, 1, 1])}), "codes.1 must ascend"),
    (lambda arrays: arrays.update({"codes.1": np.array([0, 1, 3])}), "codes.1 must lie in 0 .. 2"),
    (lambda arrays: arrays.update({"codes.2": arrays["codes.2"] + 3}),
     "codes.2 must lie in 0 .. 8"),
    (lambda arrays: arrays.update({"counts.1": np.array([1, -1, 1])}), "counts.1 must lie in 0"),
    (lambda arrays: arrays.update({"counts.1": np.array([[1, 1, 1]])}), "counts.1 must have shape"),
    (lambda arrays: arrays.update(vocab_size=np.array([0])), "vocab_size=")])
def test_arrays_of_no_model_are_refused(change, words):
    arrays = KneserNey.fit(np.array([0, 0, 1, 2, 1, 1, 2, 2]), 2, 3).to_arrays()
    assert KneserNey.from_arrays(arrays).n == 2
    change(arrays)
    with pytest.raises(ValueError) as caught:
        KneserNey.from_arrays(arrays)
    assert words in str(caught.value)


def test_ids_that_do_not_fit_are_refused():
    ids = np.array([0, 1, 2, 1])
    for wrong, error, words in (
            (dict(ids=ids + 1), ValueError, "ids must lie in 0 .. 2, but hold 3"),
            (dict(ids=ids - 1), ValueError, "hold -1"),
            (dict(ids=ids / 1), TypeError, "array of integers"),
            (dict(ids=ids[None]), ValueError, "shape"),
            (dict(ids=ids[:0].astype(int)), ValueError, "empty"),
            (dict(n=5), ValueError, "4 ids holds no n-gram of n=5"),
            (dict(n=0), ValueError, "n=0"), (dict(vocab_size=0), ValueError, "vocab_size=0"),
            (dict(vocab_size=2.5), ValueError, "vocab_size=2.5")):
        with pytest.raises(error, match="KneserNey.*" + words):
            KneserNey.fit(**{**dict(ids=ids, n=2, vocab_size=3), **wrong})
    assert KneserNey.fit(ids, 4, 3).n == 4
    model = KneserNey.fit(ids, 2, 3)
    for ask in (model.distribution, model.log_probabilities, model.bits_per_character):
        for bad in (np.array([3]), np.array([-1]), np.array([[0]])):
            with pytest.raises(ValueError, match="KneserNey: ids"):
                ask(bad)
        with pytest.raises(TypeError, match="KneserNey: ids"):
            ask(np.array([0.5]))
    with pytest.raises(ValueError, match="empty"):
        model.bits_per_character(np.array([], int))
    with pytest.raises(ValueError, match="1 codes and 0 counts"):
        KneserNey(3, [ids], [])
