"""Score functions of attention, and one attention over all of them."""

import warnings

import numpy as np
import pytest

from numformer import functional as F
from numformer.functional import CAUSAL, AttentionPattern
from numformer.layers import ScoreAttention

SCORES = ("additive", "dot", "general", "scaled_dot")


def moved(layer, rng):
    """No parameter at a special value."""
    for parameter in layer.parameters():
        parameter.data += 0.5 * rng.standard_normal(parameter.data.shape).astype(parameter.data.dtype)
    return layer


def scored(score, rng, C=4):
    return moved(ScoreAttention(score, C, C, rng, dtype=np.float64), rng)


def test_scores_by_their_definition(rng):
    q, k, v, weight = (rng.standard_normal(shape) for shape in ((2, 3, 4), (2, 5, 4), (4,), (4, 4)))
    for b, i, j in np.ndindex(2, 3, 5):
        one, other = q[b, i], k[b, j]
        for found, wanted in ((F.additive_scores(q, k, v), v @ np.tanh(one + other)), (F.dot_scores(q, k), one @ other),
                              (F.scaled_dot_scores(q, k), one @ other / 2), (F.general_scores(q, k, weight), one @ weight @ other)):
            assert found[0][b, i, j] == pytest.approx(wanted, rel=1e-13)


@pytest.mark.parametrize("call, error, words", [
    (lambda q: F.additive_scores(q, q, np.ones(3)), ValueError, "additive_scores: v must have shape (A,) with A=4"),
    (lambda q: F.additive_scores(q, q[..., :2], np.ones(4)), ValueError, "A=4"),
    (lambda q: F.additive_scores(q.astype(np.float32), q, np.ones(4)), TypeError, "k is float64"),
    (lambda q: F.dot_scores(q, q[:1]), ValueError, "B=2"), (lambda q: F.dot_scores(q, q[..., :2]), ValueError, "D=4"),
    (lambda q: F.dot_scores([[1.0]], q), TypeError, "array of floats"),
    (lambda q: F.scaled_dot_scores(q[..., :0], q[..., :0]), ValueError, "no coordinates"),
    (lambda q: F.general_scores(q, q, np.ones((3, 4))), ValueError, "C=3"),
    (lambda q: F.general_scores(q, q, np.ones((4, 3))), ValueError, "K=3")])
def test_what_functions_refuse(call, error, words):
    with pytest.raises(error) as caught:
        call(np.ones((2, 3, 4)))
    assert words in str(caught.value)


@pytest.mark.parametrize("score", SCORES)
def test_one_query_a_step_is_the_whole(score, rng):
    """A recurrent decoder's way: the context prepared once, a query a time step, gradients added up."""
    one, other = scored(score, rng), scored(score, rng)
    other.load_state_dict(one.state_dict())
    x, context, dy = (rng.standard_normal(shape) for shape in ((2, 5, 4), (2, 6, 4), (2, 5, 4)))
    lengths = AttentionPattern(lengths=[6, 3])
    y, saved = one.forward(x, context, lengths)
    dx, dcontext = one.backward(dy, saved)

    memory, saved_memory = other.prepare(context)
    steps = [other.attend(x[:, t:t + 1], memory, lengths) for t in range(5)]
    gradients = [other.attend_backward(dy[:, t:t + 1], steps[t][1]) for t in reversed(range(5))]
    found = other.prepare_backward(sum(g[1] for g in gradients), sum(g[2] for g in gradients), saved_memory)
    np.testing.assert_allclose(np.concatenate([y_t for y_t, _ in steps], axis=1), y, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(np.concatenate([g[0] for g in gradients[::-1]], axis=1), dx, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(found, dcontext, rtol=1e-11, atol=1e-13)
    for p, q in zip(one.parameters(), other.parameters()):
        np.testing.assert_allclose(q.grad, p.grad, rtol=1e-11, atol=1e-13)
    assert (dcontext[1, 3:] == 0).all()


@pytest.mark.parametrize("score", SCORES)
def test_nothing_to_attend_to_gives_nothing(score, rng):
    layer, x, context = scored(score, rng), rng.standard_normal((2, 3, 4)), rng.standard_normal((2, 5, 4))
    pattern = AttentionPattern(lengths=[5, 0])
    y, saved = layer.forward(x, context, pattern)
    dx, dcontext = layer.backward(np.ones_like(y), saved)
    weights = layer.weights(x, context, pattern)
    assert weights.shape == (2, 3, 5)
    assert not y[1].any() and not dx[1].any() and not dcontext[1].any() and not weights[1].any()
    np.testing.assert_allclose(weights[0].sum(axis=-1), 1, rtol=1e-14)
    np.testing.assert_allclose(weights @ context, y, rtol=1e-13)


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_reaches_those_alone_who_may_see_it(score, bad, rng):
    layer, x, context = scored(score, rng), rng.standard_normal((1, 3, 4)), rng.standard_normal((1, 3, 4))
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

    hidden = AttentionPattern(mask=np.array([[True, False, True]] * 3))
    for parameter in layer.parameters():
        parameter.grad = np.zeros_like(parameter.data)
    y, saved = layer.forward(x, context, hidden)
    assert np.isfinite(y).all() and all(np.isfinite(g).all() for g in layer.backward(dy, saved))
    assert all(np.isfinite(parameter.grad).all() for parameter in layer.parameters())


def test_additive_scores_need_no_equal_widths_and_say_so(rng):
    layer = ScoreAttention("additive", 3, 7, rng, d_hidden=5)
    assert {name: p.data.shape for name, p in layer.named_parameters()} == {"query.weight": (3, 5), "key.weight": (7, 5), "weight": (5,)}
    assert ScoreAttention("additive", 3, 7, rng).weight.data.shape == (3,)
    assert ScoreAttention("general", 3, 7, rng).weight.data.shape == (3, 7)
    assert not ScoreAttention("dot", 7, 7, rng).parameters()
    assert layer.weight.data.dtype == np.float32
    wide = ScoreAttention("additive", 900, 400, rng)
    for weight, d_in in ((wide.query.weight, 900), (wide.key.weight, 400), (wide.weight, 900),
                         (ScoreAttention("general", 900, 4, rng).weight, 900)):
        assert abs(weight.data.std() * d_in ** 0.5 - 1) < 0.08


@pytest.mark.parametrize("arguments, words", [
    (("additiv", 4, 4), "score='additiv' is unknown"), (("dot", 4, 5), "they are 4 and 5; use score='general'"),
    (("scaled_dot", 5, 4), "the same"), (("dot", 4, 4, 3), "d_hidden=3 is of score='additive' alone"), (("general", 0, 4), "d_query=0"),
    (("general", 4, 1.5), "d_context=1.5"), (("additive", 4, 4, 0), "d_hidden=0")])
def test_score_attentions_that_cannot_be(arguments, words, rng):
    with pytest.raises(ValueError, match="ScoreAttention") as caught:
        ScoreAttention(*arguments[:3], rng, *arguments[3:])
    assert words in str(caught.value)


@pytest.mark.parametrize("pattern, error, words", [
    (np.ones((3, 5), bool), TypeError, "AttentionPattern(mask=mask)"), (AttentionPattern(lengths=[6, 1]), ValueError, "S=5"),
    (AttentionPattern(lengths=[1, 1, 1]), ValueError, "B=2"), (AttentionPattern(mask=np.ones((5, 3), bool)), ValueError, "(2, 1, 3, 5)"),
    (AttentionPattern(mask=np.ones((2, 2, 3, 5), bool)), ValueError, "(2, 1, 3, 5)")])
def test_patterns_that_do_not_fit(pattern, error, words, rng):
    with pytest.raises(error) as caught:
        scored("dot", rng)(np.ones((2, 3, 4)), np.ones((2, 5, 4)), pattern)
    assert words in str(caught.value)
