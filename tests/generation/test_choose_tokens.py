"""Tokens of several texts at once: each as if it were alone, at every border of its sums."""

import numpy as np
import pytest

from numformer.analysis.predictions import next_token_distribution
from numformer.generation.sampling import choose_token, choose_tokens

LARGEST = 1 - 2.0 ** -53                # the largest number that a generator draws


class Fixed(np.random.Generator):
    """A generator that always draws the same number."""

    def __new__(cls, number):
        return super().__new__(cls, np.random.PCG64(0))

    def __init__(self, number):
        super().__init__(np.random.PCG64(0))
        self.number = number

    def random(self):
        return self.number


@pytest.mark.parametrize("settings", [
    {}, dict(temperature=0), dict(temperature=0.5), dict(top_k=3), dict(top_p=0.6),
    dict(temperature=1.5, top_k=4, top_p=0.7)], ids=str)
def test_each_text_gets_the_token_that_it_gets_alone(settings, rng):
    logits = 2 * rng.standard_normal((5, 7))
    together = choose_tokens(logits, [np.random.default_rng(k) for k in range(5)], **settings)
    alone = [choose_token(row, np.random.default_rng(k), **settings)
             for k, row in enumerate(logits)]
    assert together.shape == (5,) and together.tolist() == alone


def test_the_default_temperature_draws_from_the_softmax():
    logits = np.log([[0.5, 0.3, 0.2]])
    for drawn, token in ((0.0, 0), (0.49, 0), (0.51, 1), (0.79, 1), (0.81, 2), (LARGEST, 2)):
        assert choose_tokens(logits, [Fixed(drawn)]).tolist() == [token]


def test_a_number_at_a_border_belongs_to_the_next_token():
    assert choose_tokens(np.zeros((1, 2)), [Fixed(0.5)]).tolist() == [1]
    assert choose_tokens(np.zeros((1, 4)), [Fixed(0.25)]).tolist() == [1]


def test_no_token_of_probability_zero_is_drawn_where_the_sum_rounds_below_one():
    logits = np.zeros((2, 15))
    logits[:, 10:] = -np.inf                              # ten times 0.1 is less than 1
    assert np.cumsum(np.full(10, 0.1))[-1] == LARGEST
    assert choose_tokens(logits, [Fixed(LARGEST), Fixed(0.0)]).tolist() == [9, 0]


def test_the_most_likely_tokens_reach_top_p():
    logits = np.log([[0.1, 0.2, 0.3, 0.4]])
    for top_p, allowed in ((0.39, {3}), (0.5, {3, 2}), (0.8, {3, 2, 1}), (1.0, {3, 2, 1, 0})):
        drawn = {int(choose_tokens(logits, [Fixed(number)], top_p=top_p)[0])
                 for number in np.linspace(0, LARGEST, 101)}
        assert drawn == allowed


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("p, top_p, kept", [
    ([0.3, 0.1, 0.1, 0.5], 0.8, [0, 3]), ([0.1] * 10, 0.8, range(8)), ([0.1] * 10, 0.81, range(9)),
    ([1e-3] * 1000, 0.8, range(800)), ([0.7, 0.2, 0.1], 0.9, [0, 1]), ([0.5, 0.5], 0.5, [0]),
    ([0.9, 0.1, 1e-12], 1.0, [0, 1, 2])])
def test_a_sum_that_is_rounded_down_reaches_top_p(p, top_p, kept, dtype):
    """0.5 + 0.3 is 0.8, though 0.7999999... in binary; and so in the exact distribution."""
    logits = np.log(p).astype(dtype)
    distribution = next_token_distribution(logits, top_p=top_p)
    assert np.flatnonzero(distribution).tolist() == list(kept)
    last = choose_tokens(logits[None], [Fixed(LARGEST)], top_p=top_p)[0]
    first = choose_tokens(logits[None], [Fixed(0.0)], top_p=top_p)[0]
    assert {int(first), int(last)} <= {*kept}
    assert last == min(kept, key=lambda token: (logits[token], -token))
