"""Mixtures of experts: routing, capacity, balance, the dense sum, auxiliary losses."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from numformer import functional as F
from numformer.layers import FeedForward, GatedFeedForward, MixtureOfExperts


def mixture(rng, E=4, k=2, dtype=np.float64, **options):
    """A layer on vectors of width 6 whose router prefers some experts clearly."""
    layer = MixtureOfExperts(6, 5, E, k, "gelu", rng, dtype=dtype, **options)
    layer.router.weight.data *= 3
    return layer


def forced(layer, first):
    """x (N, C) whose token n has expert first[n] as first choice, first[n] + 1 as second."""
    E = len(layer.experts)
    # coordinate e raises the logit of expert e
    layer.router.weight.data[...] = 5 * np.eye(6, E)
    x = 0.1 * np.random.default_rng(3).standard_normal((len(first), 6))
    x[np.arange(len(first)), first] += 2
    x[np.arange(len(first)), (np.asarray(first) + 1) % E] += 1
    return x


def test_by_default_experts_are_plain_and_have_biases_and_the_router_has_none(rng):
    layer = MixtureOfExperts(6, 5, 4, 2, "gelu", rng)
    assert layer.router.bias is None and type(layer.experts[0]) is FeedForward
    assert all(expert.hidden.bias is not None for expert in layer.experts)


# Routing


def test_the_largest_logits_are_chosen_and_ties_go_to_the_lowest_index():
    logits = np.array([[1.0, 5.0, 5.0, 2.0, 5.0], [0.0, 0.0, 0.0, 0.0, 0.0],
                       [-np.inf, 3.0, np.inf, -1.0, 0.0]])
    assert F.top_k_experts(logits, 3).tolist() == [[1, 2, 4], [0, 1, 2], [2, 1, 4]]
    assert F.top_k_experts(logits.astype(np.float32), 5).tolist()[0] == [1, 2, 4, 3, 0]
    chosen = F.top_k_experts(logits[:2] + 1j * np.arange(5), 2)
    assert chosen.tolist() == [[1, 2], [0, 1]], "imaginary parts do not enter the choice"


@given(arrays(float, (5, 6), elements=st.floats(-50, 50)), st.integers(1, 6))
def test_weights_are_those_of_distinct_largest_experts(logits, k):
    chosen = F.top_k_experts(logits, k)
    assert all(len(set(row)) == k for row in chosen.tolist())
    taken = np.take_along_axis(logits, chosen, axis=-1)
    assert (np.diff(taken, axis=-1) <= 0).all() and (np.sort(logits)[:, ::-1][:, :k] == taken).all()
    weights, _ = F.top_k_gates(logits, chosen)
    np.testing.assert_allclose(weights.sum(axis=-1), 1, rtol=1e-14)
    over_all, _ = F.top_k_gates_over_all(logits, chosen)
    np.testing.assert_allclose(over_all / over_all.sum(axis=-1, keepdims=True), weights, rtol=1e-12)
    assert (over_all.sum(axis=-1) <= 1 + 1e-14).all()


def test_nan_logits_give_nan_for_that_token_alone(rng):
    """As in a softmax."""
    logits = rng.standard_normal((3, 4))
    logits[1, 3] = np.nan
    for gates in (F.top_k_gates, F.top_k_gates_over_all):
        weights, _ = gates(logits, F.top_k_experts(logits, 2))
        assert np.isnan(weights[1]).all() and np.isfinite(weights[[0, 2]]).all()
    layer, x = mixture(rng), rng.standard_normal((3, 6))
    x[1, 2] = np.nan
    y, saved = layer.forward(x)
    assert np.isnan(y[1]).all()
    assert np.isfinite(y[[0, 2]]).all()
    assert np.isnan(layer.auxiliary_loss(saved))


@given(arrays(int, (7, 3), elements=st.integers(0, 4)), st.none() | st.integers(1, 8))
def test_slots_equal_a_loop_over_the_choices(chosen, capacity):
    """The sort by expert keeps the order of the choices."""
    rows = [[] for _ in range(5)]
    for slot, e in enumerate(chosen.reshape(-1)):
        if capacity is None or len(rows[e]) < capacity:
            rows[e].append(slot)
    slots, counts = F.sort_by_expert(chosen, 5, capacity)
    assert slots.tolist() == sum(rows, []) and counts.tolist() == [len(row) for row in rows]


# The layer


@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("gates_over", ["chosen", "all"])
def test_with_all_experts_the_output_is_the_dense_sum(gated, gates_over, rng):
    layer = mixture(rng, 5, 5, gated=gated, gates_over=gates_over)
    x = rng.standard_normal((3, 4, 6))
    weights, _ = F.softmax(layer.router(x))
    dense = sum(weights[..., e, None] * expert(x) for e, expert in enumerate(layer.experts))
    np.testing.assert_allclose(layer(x), dense, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("gates_over", ["chosen", "all"])
def test_the_output_is_the_weighted_sum_of_the_chosen_experts(gates_over, rng):
    layer, x = mixture(rng, 5, 2, gates_over=gates_over), rng.standard_normal((20, 6))
    z = layer.router(x)
    for n in range(20):
        best = np.argsort(-z[n])[:2]
        e = np.exp(z[n])
        total = e[best].sum() if gates_over == "chosen" else e.sum()
        by_hand = sum(e[b] / total * layer.experts[b](x[n:n + 1])[0] for b in best)
        np.testing.assert_allclose(layer(x)[n], by_hand, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("gated, kind", [(False, FeedForward), (True, GatedFeedForward)])
def test_a_single_expert_equals_a_plain_feed_forward(gated, kind, rng):
    layer, x = mixture(rng, 1, 1, gated=gated), rng.standard_normal((2, 3, 6))
    expert, = layer.experts
    assert type(expert) is kind and np.array_equal(layer(x), expert(x)), "its weight is 1"
    x = rng.standard_normal((7, 6))
    one_of_three = mixture(rng, 3, 1, gates_over="all")
    weights, _ = F.softmax(one_of_three.router(x))
    best = weights.argmax(axis=-1)
    for n, e in enumerate(best):
        np.testing.assert_allclose(one_of_three(x)[n],
                                   weights[n, e] * one_of_three.experts[e](x[n:n + 1])[0],
                                   rtol=1e-12)


def test_permuted_tokens_have_permuted_outputs(rng):
    layer, x = mixture(rng), rng.standard_normal((40, 6))
    order = rng.permutation(40)
    np.testing.assert_allclose(layer(x[order]), layer(x)[order], rtol=1e-12, atol=1e-15)
    dy, dx = rng.standard_normal(x.shape), {}
    for name, rows in (("straight", np.arange(40)), ("permuted", order)):
        dx[name] = layer.backward(dy[rows], layer.forward(x[rows])[1], 0.7)
    np.testing.assert_allclose(dx["permuted"], dx["straight"][order], rtol=1e-11, atol=1e-14)


def test_leading_axes_are_only_batch_axes(rng):
    layer, x = mixture(rng), rng.standard_normal((2, 3, 5, 6))
    np.testing.assert_allclose(layer(x).reshape(30, 6), layer(x.reshape(30, 6)), rtol=1e-13)
    assert layer(x[0, 0, 0]).shape == (6,)


@pytest.mark.parametrize("gates_over, k, learns",
                         [("chosen", 2, True), ("all", 1, True), ("all", 2, True),
                          ("chosen", 1, False)])
def test_the_router_gets_a_gradient_through_the_weights(gates_over, k, learns, rng):
    layer, x = mixture(rng, 4, k, gates_over=gates_over), rng.standard_normal((9, 6))
    layer.backward(rng.standard_normal((9, 6)), layer.forward(x)[1])
    assert (np.abs(layer.router.weight.grad).max() > 1e-3) == learns
    assert learns or (layer.router.weight.grad == 0).all()


def test_float32_stays_float32(rng):
    layer = mixture(rng, dtype=np.float32, z_weight=0.3, capacity_factor=1.0)
    x = rng.standard_normal((9, 6), np.float32)
    y, saved = layer.forward(x, rng)
    dx = layer.backward(y, saved, np.float64(0.5))
    assert y.dtype == dx.dtype == layer.auxiliary_loss(saved).dtype == np.float32
    assert all(parameter.grad.dtype == np.float32 for parameter in layer.parameters())
    exact = mixture(np.random.default_rng(0), z_weight=0.3, capacity_factor=1.0)
    exact.load_state_dict(layer.state_dict())
    y64, saved64 = exact.forward(x.astype(float), rng)
    np.testing.assert_allclose(y, y64, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(layer.auxiliary_loss(saved), exact.auxiliary_loss(saved64),
                               rtol=1e-5)


def test_experts_without_tokens_get_no_gradient(rng):
    layer = mixture(rng, 4, 1, gates_over="all")
    y, saved = layer.forward(forced(layer, [2, 2, 2]))
    layer.experts[0].hidden.weight.grad += 1
    layer.backward(np.ones_like(y), saved)
    assert (layer.experts[0].hidden.weight.grad == 1).all()
    assert (layer.experts[2].hidden.weight.grad != 0).any()


def test_a_replica_has_its_own_gradients(rng):
    layer, x = mixture(rng), rng.standard_normal((9, 6))
    replica = layer.replica()
    y, saved = replica.forward(x)
    replica.backward(y, saved, 1.0)
    assert np.array_equal(y, layer(x))
    assert not layer.router.weight.grad.any()
    assert replica.router.weight.grad.any()


# Capacity


def test_capacity_drops_exactly_the_latest_tokens(rng):
    # five for expert 0; 8 tokens, 4 experts: an even share is 2
    first = [0, 1, 0, 0, 2, 0, 1, 0]
    for factor, capacity, late in ((1.0, 2, {3, 5, 7}), (1.5, 3, {5, 7}), (2.2, 5, set()),
                                   (0.01, 1, {2, 3, 5, 6, 7})):
        layer = mixture(rng, 4, 1, gates_over="all", capacity_factor=factor)
        x = forced(layer, first)
        assert layer.capacity(8) == capacity
        y, saved = layer.forward(x, rng)
        assert {n for n in range(8) if not y[n].any()} == late
        served = sorted(set(range(8)) - late)
        np.testing.assert_allclose(y[served], layer(x)[served], rtol=1e-12)
        assert layer(x).any(axis=1).all(), "without a generator no token is dropped"
        dx = layer.backward(np.ones_like(y), saved)
        assert {n for n in range(8) if not dx[n].any()} == late, "a dropped token has no gradient"


def test_a_dropped_choice_does_not_change_the_other_weights(rng):
    """Expert 1 is the second choice of tokens 0 to 2 and the first of token 3."""
    layer = mixture(rng, 4, 2, capacity_factor=1.0)
    # capacity 2: expert 0 gets tokens 0, 1; expert 1 the same
    x = forced(layer, [0, 0, 0, 1])
    assert layer.capacity(4) == 2
    y, (logits, chosen, *_) = layer.forward(x, rng)
    assert chosen.tolist() == [[0, 1], [0, 1], [0, 1], [1, 2]]
    weights, _ = F.top_k_gates(logits, chosen)
    assert not y[2].any()
    np.testing.assert_allclose(y[3], weights[3, 1] * layer.experts[2](x[3:])[0], rtol=1e-12)


def test_later_tokens_never_drop_earlier_ones(rng):
    layer, x = mixture(rng, 4, 2, capacity_factor=0.6), rng.standard_normal((1, 20, 6))
    for t in (5, 12, 19):
        changed = x.copy()
        changed[:, t:] = rng.standard_normal(changed[:, t:].shape)
        np.testing.assert_allclose(layer(changed, rng)[:, :t], layer(x, rng)[:, :t], rtol=1e-12,
                                   atol=1e-15)
    assert not np.allclose(layer(x), layer(x, rng)), "something is dropped"


# Bad input


@pytest.mark.parametrize("options, words", [
    (dict(E=3, k=4), "k=4 experts for a token are more than the E=3"),
    (dict(E=0), "n_experts=0"), (dict(k=0), "k=0"),
    (dict(k=True), "k=True"), (dict(gates_over="none"), "gates_over"), (dict(gated="yes"), "gated"),
    (dict(capacity_factor=float("inf")), "capacity_factor"),
    (dict(balance_weight=-1), "balance_weight"), (dict(z_weight="a"), "z_weight")])
def test_bad_options_are_named(options, words, rng):
    with pytest.raises(ValueError, match="MixtureOfExperts: ") as caught:
        mixture(rng, **options)
    assert words in str(caught.value)
