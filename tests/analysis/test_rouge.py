"""ROUGE-L against cases done by hand, and the definition of a common subsequence."""

from itertools import combinations

import numpy as np
import pytest

from numformer.analysis import longest_common_subsequence, rouge_l


@pytest.mark.parametrize("candidate, reference, beta, expected", [
    ("a b c", "a b c", 1, 1),
    ("a b", "c d", 1, 0),
    ("", "a", 1, 0),
    ("a", "", 1, 0),
    ("", "", 1, 0),
    ("a b c d", "a c", 1, 2 / 3),                # LCS 2: P = 1/2, R = 1
    ("a c", "a b c d", 1, 2 / 3),
    ("b a", "a b", 1, 1 / 2),                    # the order counts
    ("a b c d", "a c", 2, 5 / 6),                # 5 * 1/2 / (1 + 4 * 1/2)
    ("a c", "a b c d", 2, 5 / 9),                # 5 * 1/2 / (1/2 + 4)
    ("the the the", "the cat", 1, 2 / 5),        # a repeated word counts once
])
def test_rouge_l_of_cases_done_by_hand(candidate, reference, beta, expected):
    assert rouge_l(candidate.split(), reference.split(), beta) == pytest.approx(expected, rel=1e-12)


def longest_by_search(one, other):
    """The longest subsequence of one that is also one of the other, found by trying all."""
    def subsequences(items, length):
        return set(combinations(items, length))
    return max(n for n in range(min(len(one), len(other)) + 1)
               if subsequences(one, n) & subsequences(other, n))


def test_the_longest_common_subsequence_is_that_of_a_search():
    rng = np.random.default_rng(0)
    for _ in range(100):
        one, other = (list(map(int, rng.integers(0, 4, rng.integers(0, 9)))) for _ in range(2))
        expected = longest_by_search(one, other)
        assert longest_common_subsequence(one, other) == expected
        assert longest_common_subsequence(other, one) == expected


def test_bad_arguments_are_refused():
    with pytest.raises(TypeError, match="reference is a text; split it into words first"):
        rouge_l(["a"], "a b")
    with pytest.raises(ValueError, match="beta=0 must be a number above 0"):
        rouge_l(["a"], ["a"], beta=0)


@pytest.mark.parametrize("beta, expected", [(1e-200, 1.0), (1, 0.8), (1e200, 2 / 3)])
def test_the_weight_of_recall_may_be_of_any_size(beta, expected):
    """The F-measure goes from precision, here 1, to recall, 2/3."""
    assert rouge_l(["a", "b"], ["a", "b", "c"], beta) == pytest.approx(expected, rel=1e-15)
