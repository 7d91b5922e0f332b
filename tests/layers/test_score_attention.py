"""`ScoreAttention`: one attention over all score functions, whole or one query at a time."""

import warnings

import numpy as np
import pytest

from numformer.functional import CAUSAL, AttentionPattern
from numformer.layers import ScoreAttention

SCORES = ("additive", "dot", "general", "scaled_dot")


def scored(score, rng, C=4):
    """A layer without any parameter at a special value."""
    layer = ScoreAttention(score, C, C, rng, dtype=np.float64)
    for parameter in layer.parameters():
        parameter.data += 0.5 * rng.standard_normal(parameter.data.shape)
    return layer


@pytest.mark.parametrize("score", SCORES)
def test_one_query_per_step_gives_the_same_as_all_at_once(score, rng):
    """As in a recurrent decoder: the context prepared once, the gradients of all steps summed."""
    one, other = scored(score, rng), scored(score, rng)
    other.load_state_dict(one.state_dict())
    x, context, dy = (rng.standard_normal(shape) for shape in ((2, 5, 4), (2, 6, 4), (2, 5, 4)))
    lengths = AttentionPattern(lengths=[6, 3])
    y, saved = one.forward(x, context, lengths)
    dx, dcontext = one.backward(dy, saved)

    memory, saved_memory = other.prepare(context)
    steps = [other.attend(x[:, t:t + 1], memory, lengths) for t in range(5)]
    gradients = [other.attend_backward(dy[:, t:t + 1], steps[t][1]) for t in reversed(range(5))]
    found = other.prepare_backward(sum(g[1] for g in gradients), sum(g[2] for g in gradients),
                                   saved_memory)
    np.testing.assert_allclose(np.concatenate([y_t for y_t, _ in steps], axis=1), y,
                               rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(np.concatenate([g[0] for g in gradients[::-1]], axis=1), dx,
                               rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(found, dcontext, rtol=1e-11, atol=1e-13)
    for p, q in zip(one.parameters(), other.parameters()):
        np.testing.assert_allclose(q.grad, p.grad, rtol=1e-11, atol=1e-13)
    assert (dcontext[1, 3:] == 0).all()


@pytest.mark.parametrize("score", SCORES)
def test_a_query_that_may_attend_to_nothing_has_output_and_gradients_0(score, rng):
    layer = scored(score, rng)
    x, context = rng.standard_normal((2, 3, 4)), rng.standard_normal((2, 5, 4))
    pattern = AttentionPattern(lengths=[5, 0])
    y, saved = layer.forward(x, context, pattern)
    dx, dcontext = layer.backward(np.ones_like(y), saved)
    weights = layer.attention_weights(saved)
    assert weights.shape == (2, 3, 5)
    assert not any(array[1].any() for array in (y, dx, dcontext, weights))
    np.testing.assert_allclose(weights[0].sum(axis=-1), 1, rtol=1e-14)
    np.testing.assert_allclose(weights @ context, y, rtol=1e-13)


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_nan_and_inf_reach_only_the_queries_that_may_see_them(score, bad, rng):
    layer = scored(score, rng)
    x, context = rng.standard_normal((1, 3, 4)), rng.standard_normal((1, 3, 4))
    clean, saved_clean = layer.forward(x, context, CAUSAL)
    context[0, 1, 2] = bad
    dy = np.ones((1, 3, 4))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        y, saved = layer.forward(x, context, CAUSAL)
        dx, _ = layer.backward(dy, saved)
    clean_dx, _ = layer.backward(dy, saved_clean)
    assert np.array_equal(y[0, 0], clean[0, 0]) and np.isnan(y[0, 1:]).all()
    assert np.array_equal(dx[0, 0], clean_dx[0, 0]) and np.isnan(dx[0, 1:]).all()

    masked = AttentionPattern(mask=np.array([[True, False, True]] * 3))
    for parameter in layer.parameters():
        parameter.grad = np.zeros_like(parameter.data)
    y, saved = layer.forward(x, context, masked)
    assert np.isfinite(y).all() and all(np.isfinite(g).all() for g in layer.backward(dy, saved))
    assert all(np.isfinite(parameter.grad).all() for parameter in layer.parameters())


def test_parameters_of_every_score_have_the_shapes_and_deviations_of_their_widths(rng):
    layer = ScoreAttention("additive", 3, 7, rng, d_hidden=5)
    assert {name: p.data.shape for name, p in layer.named_parameters()} == {
        "query.weight": (3, 5), "key.weight": (7, 5), "weight": (5,)}
    assert ScoreAttention("additive", 3, 7, rng).weight.data.shape == (3,)
    assert ScoreAttention("general", 3, 7, rng).weight.data.shape == (3, 7)
    assert not ScoreAttention("dot", 7, 7, rng).parameters()
    assert layer.weight.data.dtype == np.float32
    wide = ScoreAttention("additive", 900, 400, rng)
    general = ScoreAttention("general", 900, 4, rng)
    for weight, d_in in ((wide.query.weight, 900), (wide.key.weight, 400), (wide.weight, 900),
                         (general.weight, 900)):
        assert abs(weight.data.std() * d_in ** 0.5 - 1) < 0.08


@pytest.mark.parametrize("arguments, words", [
    (("additiv", 4, 4), "score='additiv' is unknown"),
    (("dot", 4, 5), "they are 4 and 5; use score='general'"), (("scaled_dot", 5, 4), "the same"),
    (("dot", 4, 4, 3), "d_hidden=3 is for score='additive' alone"),
    (("general", 0, 4), "d_query=0"), (("general", 4, 1.5), "d_context=1.5"),
    (("additive", 4, 4, 0), "d_hidden=0")])
def test_options_that_do_not_go_together_are_refused(arguments, words, rng):
    with pytest.raises(ValueError, match="ScoreAttention") as caught:
        ScoreAttention(*arguments[:3], rng, *arguments[3:])
    assert words in str(caught.value)


@pytest.mark.parametrize("pattern, error, words", [
    (np.ones((3, 5), bool), TypeError, "AttentionPattern(mask=mask)"),
    (AttentionPattern(lengths=[6, 1]), ValueError, "S=5"),
    (AttentionPattern(lengths=[1, 1, 1]), ValueError, "B=2"),
    (AttentionPattern(mask=np.ones((5, 3), bool)), ValueError, "(2, 1, 3, 5)"),
    (AttentionPattern(mask=np.ones((2, 2, 3, 5), bool)), ValueError, "(2, 1, 3, 5)")])
def test_patterns_that_do_not_fit_are_refused(pattern, error, words, rng):
    with pytest.raises(error) as caught:
        scored("dot", rng)(np.ones((2, 3, 4)), np.ones((2, 5, 4)), pattern)
    assert words in str(caught.value)


@pytest.mark.parametrize("T, S", [(0, 3), (3, 0)])
def test_no_queries_or_no_keys_are_refused(T, S, rng):
    with pytest.raises(ValueError, match=f"T={T} queries and S={S} keys"):
        scored("dot", rng).forward(np.zeros((2, T, 4)), np.zeros((2, S, 4)))
