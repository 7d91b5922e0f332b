"""Scores of induction heads by their definitions, and ablation as a head whose output is zero."""

import numpy as np
import pytest

from numformer.analysis import (
    ablate_heads, head_scores, induction_scores, previous_token_scores)
from numformer.functional import softmax
from numformer.functional.head_projections import join_heads, split_heads
from numformer.layers import MultiHeadAttention
from numformer.models import Decoder, DecoderConfig

SIZES = dict(vocab_size=5, context_length=12, n_layers=2, n_heads=2, d_model=8, init_std=0.5)


def decoder(**options):
    return Decoder(DecoderConfig(**SIZES, **options), np.random.default_rng(3))


def test_the_induction_score_is_the_mean_weight_after_earlier_copies(rng):
    ids = rng.integers(0, 4, size=(3, 9))
    weights = softmax(rng.standard_normal((3, 2, 9, 9)))[0]
    expected = []
    for head in range(2):
        sums = [sum(weights[b, head, t, j + 1] for j in range(t) if ids[b, j] == ids[b, t])
                for b in range(3) for t in range(9) if ids[b, t] in ids[b, :t]]
        expected.append(np.mean(sums))
    np.testing.assert_allclose(induction_scores(weights, ids), expected, rtol=1e-12)


def test_the_previous_token_score_is_the_mean_weight_of_the_token_before(rng):
    weights = softmax(rng.standard_normal((3, 2, 5, 5)))[0]
    expected = [np.mean([weights[b, head, t, t - 1] for b in range(3) for t in range(1, 5)])
                for head in range(2)]
    np.testing.assert_allclose(previous_token_scores(weights), expected, rtol=1e-12)


def test_scores_of_a_model_may_be_measured_at_some_queries_alone(rng):
    model, ids = decoder(), np.array([[1, 2, 1, 3, 2, 3]])
    queries = np.isin(ids, [1])
    induction, previous = head_scores(model, ids, queries)
    assert induction.shape == previous.shape == (2, 2)
    only, _ = head_scores(model, np.array([[1, 2, 1]]))               # causal: the same weights
    np.testing.assert_allclose(induction, only, rtol=1e-4)
    assert np.abs(induction - head_scores(model, ids)[0]).max() > 1e-3


@pytest.mark.parametrize("weights, ids, message", [
    (np.ones((1, 2, 3, 4)), np.array([[1, 1, 1]]), "not self-attention"),
    (np.ones((1, 2, 3, 3)), np.array([[1, 1]]), r"ids must have shape \(B, T\) = \(1, 3\)"),
    (np.ones((1, 2, 3, 3)), np.array([[1, 2, 3]]), "no token of ids comes twice"),
])
def test_wrong_arguments_of_scores_are_refused(weights, ids, message):
    with pytest.raises(ValueError, match=message):
        induction_scores(weights, ids)


def test_an_ablated_head_adds_nothing(rng):
    layer = MultiHeadAttention(12, 3, rng, bias=True, dtype=np.float64)
    layer.output.bias.data[:] = rng.standard_normal(12)
    x = rng.standard_normal((2, 5, 12))
    q, k, v = (split_heads(part(x), 4) for part in (layer.query, layer.key, layer.value))
    heads = softmax(q @ k.swapaxes(2, 3) / 2)[0] @ v                   # (B, H, T, D)
    heads[:, 1] = 0
    with ablate_heads(layer, [(0, 1)]):
        found = layer(x)
    np.testing.assert_allclose(found, layer.output(join_heads(heads)), rtol=1e-10, atol=1e-12)


def test_ablation_ends_with_the_weights_as_before_even_after_an_error():
    model, ids = decoder(), np.array([[1, 2, 3, 1]])
    before, state = model(ids), {name: x.copy() for name, x in model.state_dict().items()}
    with pytest.raises(RuntimeError), ablate_heads(model, [(0, 1), (1, 0), (1, 0)]):
        assert np.abs(model(ids) - before).max() > 1e-3
        assert np.abs(model.step(ids)[0] - model(ids)).max() < 1e-5   # generation is ablated, too
        raise RuntimeError
    assert all((x == state[name]).all() for name, x in model.state_dict().items())
    assert (model(ids) == before).all()


@pytest.mark.parametrize("head", [(2, 0), (0, 2), (-1, 0), (0, -1)])
def test_a_head_that_does_not_exist_is_refused(head):
    with pytest.raises(ValueError, match="the heads of the attention layers, from 0: 2, 2"):
        with ablate_heads(decoder(), [head]):
            pass
