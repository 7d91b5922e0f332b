"""Linear maps, the embedding table and n-gram rows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numformer import functional as F


@given(st.lists(st.integers(0, 4), min_size=1, max_size=30), st.integers(0, 2**32 - 1))
def test_the_gradient_of_an_embedding_adds_up_repeated_ids(ids, seed):
    dy = np.random.default_rng(seed).standard_normal((len(ids), 3))
    _, saved = F.embedding(np.array(ids), np.zeros((5, 3)))
    expected = np.zeros((5, 3))
    np.add.at(expected, np.array(ids), dy)
    np.testing.assert_allclose(F.embedding_backward(dy, saved), expected, atol=1e-13)


def test_an_output_of_a_linear_map_is_a_sum_of_products(rng):
    x, weight, bias = rng.standard_normal((3, 4)), rng.standard_normal((4, 5)), np.arange(5.0)
    y, _ = F.linear(x, weight, bias)
    plain, _ = F.linear(x, weight)
    for n, f in np.ndindex(3, 5):
        expected = sum(x[n, c] * weight[c, f] for c in range(4))
        assert plain[n, f] == pytest.approx(expected, rel=1e-12)
        assert y[n, f] == pytest.approx(expected + bias[f], rel=1e-12)


@pytest.mark.parametrize("bias", [True, False])
def test_accumulated_gradients_are_added_to_what_was_there(bias, rng):
    x, weight, dy = rng.standard_normal((2, 3, 4)), rng.standard_normal((4, 5)), np.ones((2, 3, 5))
    _, saved = F.linear(x, weight, np.zeros(5) if bias else None)
    dx, dweight, dbias = F.linear_backward(dy, saved)
    weight_grad, bias_grad = np.full((4, 5), 2.0), np.full(5, 3.0) if bias else None
    assert np.array_equal(F.linear_backward_accumulate(dy, saved, weight_grad, bias_grad), dx)
    assert np.array_equal(weight_grad, 2 + dweight)
    assert bias_grad is dbias is None or np.array_equal(bias_grad, 3 + dbias)


@pytest.mark.parametrize("call, error, words", [
    (lambda: F.embedding(np.array([-1]), np.ones((3, 2))), ValueError, "hold -1"),
    (lambda: F.linear(np.ones((2, 3)), np.ones((3, 4)), np.ones(5)), ValueError, "F=4"),
    (lambda: F.linear(np.ones((2, 3), np.float32), np.ones((3, 4))), TypeError, "float32")])
def test_bad_input_is_named(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_ngram_rows_by_their_definition(rng):
    ids = rng.integers(-1, 5, (3, 9))
    for n in (1, 2, 3, 4):
        padded = np.concatenate([np.full((3, n - 1), -1), ids], axis=1)
        rows = F.ngram_rows(ids, n, 5, 6 ** n)
        seen = {}
        for b in range(3):
            for t in range(9):
                gram = tuple(int(i) if i >= 0 else 5 for i in padded[b, t:t + n])
                number = sum(token * 6 ** (n - 1 - k) for k, token in enumerate(gram))
                assert rows[b, t] == number, "a number of its own"
                seen[gram] = rows[b, t]
        assert len(set(seen.values())) == len(seen)
        hashed = F.ngram_rows(ids, n, 5, 6 ** n - 1)
        codes = rows.astype(object) * 0x9E3779B97F4A7C15 % 2**64
        expected = [[int(code >> 32) % (6 ** n - 1) for code in row] for row in codes]
        assert hashed.tolist() == expected
    assert F.ngram_rows(ids, 9, 50000, 7).max() < 7, "also where the number exceeds 64 bits"


def test_hashed_ngrams_spread_evenly_over_the_rows(rng):
    rows = F.ngram_rows(rng.integers(0, 65, (100, 1000)), 4, 65, 50)
    spread = np.bincount(rows.reshape(-1), minlength=50)
    assert spread.min() > 1700 and spread.max() < 2300


@pytest.mark.parametrize("bad", [dict(n=0), dict(vocab_size=0), dict(n_rows=0)], ids=str)
def test_sizes_of_ngrams_are_checked(bad):
    with pytest.raises(ValueError, match="ngram_rows"):
        F.ngram_rows(np.zeros((1, 2), int), **{**dict(n=2, vocab_size=5, n_rows=7), **bad})
