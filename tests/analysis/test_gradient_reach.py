"""Gradient reach: the gradients of single targets, added up by hand."""

import numpy as np
import pytest

from numformer.analysis import gradient_reach
from numformer.functional import IGNORE_INDEX
from numformer.models import RecurrentLanguageModel, RecurrentLanguageModelConfig


def model_of(V):
    config = RecurrentLanguageModelConfig(vocab_size=V, context_length=V, n_layers=1, d_model=4,
                                          tied=False, dtype="float64")
    return RecurrentLanguageModel(config, np.random.default_rng(0))


def by_hand(model, ids, positions):
    """The mean over positions t; all ids differ, so each token has a row of the embedding."""
    T, g = len(ids), []
    for t in positions:
        targets = np.full((1, T), IGNORE_INDEX)
        targets[0, t] = ids[t]
        model.zero_grad()
        _, saved = model.loss((ids[None], targets))
        model.loss_backward(saved)
        norms = np.linalg.norm(model.embedding.weight.grad, axis=1)
        g.append([norms[ids[t - k]] for k in range(T // 2 + 1)])
    return np.mean(g, axis=0)


@pytest.mark.parametrize("T, n_positions, positions", [
    (7, 1, [3]), (7, 2, [3, 6]), (7, 8, [3, 4, 5, 6]), (2, 8, [1]), (40, 3, [20, 29, 39])])
def test_reach_is_the_mean_over_positions_of_the_second_half(T, n_positions, positions, rng):
    model, ids = model_of(T), rng.permutation(T)
    np.testing.assert_allclose(gradient_reach(model, ids[None], ids[None], n_positions),
                               by_hand(model, ids, positions), rtol=1e-9)


def test_there_are_8_positions_by_default(rng):
    model, ids = model_of(40), rng.permutation(40)[None]
    default = gradient_reach(model, ids, ids)
    assert np.array_equal(default, gradient_reach(model, ids, ids, 8))
    assert not np.array_equal(default, gradient_reach(model, ids, ids, 9))


def test_one_token_is_too_few(rng):
    with pytest.raises(ValueError, match="T=1 must be at least 2"):
        gradient_reach(model_of(2), np.array([[0]]), np.array([[0]]))
