"""Mixtures of experts: routing, capacity, balance, the dense sum, auxiliary losses."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from numformer import functional as F
from numformer.layers import FeedForward, GatedFeedForward, MixtureOfExperts
from numformer.verify import LAYER, gradcheck


def mixture(rng, E=4, k=2, dtype=np.float64, **options):
    """A layer on vectors of width 6 whose router prefers some experts clearly."""
    layer = MixtureOfExperts(6, 5, E, k, "gelu", rng, dtype=dtype, **options)
    layer.router.weight.data *= 3
    return layer


def forced(layer, places):
    """x (N, C) of which token n goes first to expert places[n], and then to places[n] + 1."""
    E = len(layer.experts)
    layer.router.weight.data[...] = 5 * np.eye(6, E)                  # coordinate e speaks for expert e
    x = 0.1 * np.random.default_rng(3).standard_normal((len(places), 6))
    x[np.arange(len(places)), places] += 2
    x[np.arange(len(places)), (np.asarray(places) + 1) % E] += 1
    return x


# Routing


def test_the_largest_are_chosen_and_ties_go_to_the_lowest():
    logits = np.array([[1.0, 5.0, 5.0, 2.0, 5.0], [0.0, 0.0, 0.0, 0.0, 0.0], [-np.inf, 3.0, np.inf, -1.0, 0.0]])
    assert F.top_k_experts(logits, 3).tolist() == [[1, 2, 4], [0, 1, 2], [2, 1, 4]]
    assert F.top_k_experts(logits.astype(np.float32), 5).tolist()[0] == [1, 2, 4, 3, 0]
    assert F.top_k_experts(logits[:2] + 1j * np.arange(5), 2).tolist() == [[1, 2], [0, 1]], "imaginary parts choose nothing"


@given(arrays(float, (5, 6), elements=st.floats(-50, 50)), st.integers(1, 6))
def test_choices_and_weights(logits, k):
    chosen = F.top_k_experts(logits, k)
    assert all(len(set(row)) == k for row in chosen.tolist())
    taken = np.take_along_axis(logits, chosen, axis=-1)
    assert (np.diff(taken, axis=-1) <= 0).all() and (np.sort(logits)[:, ::-1][:, :k] == taken).all()
    weights, _ = F.top_k_gates(logits, chosen)
    np.testing.assert_allclose(weights.sum(axis=-1), 1, rtol=1e-14)
    over_all, _ = F.top_k_gates(logits, chosen, "all")
    np.testing.assert_allclose(over_all / over_all.sum(axis=-1, keepdims=True), weights, rtol=1e-12)
    assert (over_all.sum(axis=-1) <= 1 + 1e-14).all()


def test_nan_is_not_passed_over(rng):
    """As in a softmax: the token whose logits hold NaN is NaN, and no other."""
    logits = rng.standard_normal((3, 4))
    logits[1, 3] = np.nan
    for over in ("chosen", "all"):
        weights, _ = F.top_k_gates(logits, F.top_k_experts(logits, 2), over)
        assert np.isnan(weights[1]).all() and np.isfinite(weights[[0, 2]]).all()
    layer, x = mixture(rng), rng.standard_normal((3, 6))
    x[1, 2] = np.nan
    y, saved = layer.forward(x)
    assert np.isnan(y[1]).all() and np.isfinite(y[[0, 2]]).all() and np.isnan(layer.auxiliary_loss(saved))


@given(arrays(int, (7, 3), elements=st.integers(0, 4)), st.none() | st.integers(1, 8))
def test_slots_by_hand(chosen, capacity):
    """One loop over the places in their order is what the sort does."""
    rows = [[] for _ in range(5)]
    for place, e in enumerate(chosen.reshape(-1)):
        if capacity is None or len(rows[e]) < capacity:
            rows[e].append(place)
    slots, counts = F.sort_by_expert(chosen, 5, capacity)
    assert slots.tolist() == sum(rows, []) and counts.tolist() == [len(row) for row in rows]


# The layer


@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("gates_over", ["chosen", "all"])
def test_all_experts_for_each_token_are_the_dense_sum(gated, gates_over, rng):
    layer, x = mixture(rng, 5, 5, gated=gated, gates_over=gates_over), rng.standard_normal((3, 4, 6))
    weights, _ = F.softmax(layer.router(x))
    dense = sum(weights[..., e, None] * expert(x) for e, expert in enumerate(layer.experts))
    np.testing.assert_allclose(layer(x), dense, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("gates_over", ["chosen", "all"])
def test_k_of_the_experts_by_hand(gates_over, rng):
    layer, x = mixture(rng, 5, 2, gates_over=gates_over), rng.standard_normal((20, 6))
    z = layer.router(x)
    for n in range(20):
        best = np.argsort(-z[n])[:2]
        e = np.exp(z[n])
        total = e[best].sum() if gates_over == "chosen" else e.sum()
        by_hand = sum(e[b] / total * layer.experts[b](x[n:n + 1])[0] for b in best)
        np.testing.assert_allclose(layer(x)[n], by_hand, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("gated, kind", [(False, FeedForward), (True, GatedFeedForward)])
def test_a_single_expert_is_a_plain_feed_forward(gated, kind, rng):
    layer, x = mixture(rng, 1, 1, gated=gated), rng.standard_normal((2, 3, 6))
    expert, = layer.experts
    assert type(expert) is kind and np.array_equal(layer(x), expert(x)), "its weight is 1"
    x = rng.standard_normal((7, 6))
    one_of_three = mixture(rng, 3, 1, gates_over="all")
    weights, _ = F.softmax(one_of_three.router(x))
    best = weights.argmax(axis=-1)
    for n, e in enumerate(best):
        np.testing.assert_allclose(one_of_three(x)[n], weights[n, e] * one_of_three.experts[e](x[n:n + 1])[0], rtol=1e-12)


def test_permuted_tokens_have_permuted_outputs(rng):
    layer, x = mixture(rng), rng.standard_normal((40, 6))
    order = rng.permutation(40)
    np.testing.assert_allclose(layer(x[order]), layer(x)[order], rtol=1e-12, atol=1e-15)
    dy, dx = rng.standard_normal(x.shape), {}
    for name, rows in (("straight", np.arange(40)), ("permuted", order)):
        dx[name] = layer.backward(dy[rows], layer.forward(x[rows])[1], 0.7)
    np.testing.assert_allclose(dx["permuted"], dx["straight"][order], rtol=1e-11, atol=1e-14)


def test_shapes_do_not_matter(rng):
    layer, x = mixture(rng), rng.standard_normal((2, 3, 5, 6))
    np.testing.assert_allclose(layer(x).reshape(30, 6), layer(x.reshape(30, 6)), rtol=1e-13)
    assert layer(x[0, 0, 0]).shape == (6,)


@pytest.mark.parametrize("gates_over, k, learns", [("chosen", 2, True), ("all", 1, True), ("all", 2, True), ("chosen", 1, False)])
def test_the_router_learns_through_the_weights(gates_over, k, learns, rng):
    layer, x = mixture(rng, 4, k, gates_over=gates_over), rng.standard_normal((9, 6))
    layer.backward(rng.standard_normal((9, 6)), layer.forward(x)[1])
    assert (np.abs(layer.router.weight.grad).max() > 1e-3) == learns
    assert learns or (layer.router.weight.grad == 0).all()


def test_float32_stays_float32(rng):
    layer, x = mixture(rng, dtype=np.float32, z_weight=0.3, capacity_factor=1.0), rng.standard_normal((9, 6), np.float32)
    y, saved = layer.forward(x)
    dx = layer.backward(y, saved, np.float64(0.5))
    assert y.dtype == dx.dtype == layer.auxiliary_loss(saved).dtype == np.float32
    assert all(parameter.grad.dtype == np.float32 for parameter in layer.parameters())
    exact = mixture(np.random.default_rng(0), z_weight=0.3, capacity_factor=1.0)
    exact.load_state_dict(layer.state_dict())
    y64, saved64 = exact.forward(x.astype(float))
    np.testing.assert_allclose(y, y64, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(layer.auxiliary_loss(saved), exact.auxiliary_loss(saved64), rtol=1e-5)


def test_experts_without_tokens_keep_their_gradients(rng):
    layer = mixture(rng, 4, 1, gates_over="all")
    y, saved = layer.forward(forced(layer, [2, 2, 2]))
    layer.experts[0].hidden.weight.grad += 1
    layer.backward(np.ones_like(y), saved)
    assert (layer.experts[0].hidden.weight.grad == 1).all() and (layer.experts[2].hidden.weight.grad != 0).any()


def test_a_replica_has_its_own_gradients(rng):
    layer, x = mixture(rng), rng.standard_normal((9, 6))
    replica = layer.replica()
    y, saved = replica.forward(x)
    replica.backward(y, saved, 1.0)
    assert np.array_equal(y, layer(x)) and not layer.router.weight.grad.any() and replica.router.weight.grad.any()


# Capacity


def test_capacity_drops_exactly_the_late_ones(rng):
    places = [0, 1, 0, 0, 2, 0, 1, 0]                                 # five for expert 0; 8 tokens, 4 experts: an even share is 2
    for factor, capacity, late in ((1.0, 2, {3, 5, 7}), (1.5, 3, {5, 7}), (2.2, 5, set()), (0.01, 1, {2, 3, 5, 6, 7})):
        layer = mixture(rng, 4, 1, gates_over="all", capacity_factor=factor)
        x = forced(layer, places)
        assert layer.capacity(8) == capacity
        y, saved = layer.forward(x)
        assert {n for n in range(8) if not y[n].any()} == late
        layer.capacity_factor = 0.0
        served = sorted(set(range(8)) - late)
        np.testing.assert_allclose(y[served], layer(x)[served], rtol=1e-12)
        dx = layer.backward(np.ones_like(y), saved)
        assert {n for n in range(8) if not dx[n].any()} == late, "what is dropped has no gradient"


def test_a_dropped_choice_leaves_the_other_weights(rng):
    """With two choices each, expert 1 is the second of those who went to 0 and the first of the last token."""
    layer = mixture(rng, 4, 2, capacity_factor=1.0)
    x = forced(layer, [0, 0, 0, 1])                                   # capacity 2: expert 0 gets tokens 0, 1; expert 1 the same
    assert layer.capacity(4) == 2
    y, (logits, chosen, *_) = layer.forward(x)
    assert chosen.tolist() == [[0, 1], [0, 1], [0, 1], [1, 2]]
    weights, _ = F.top_k_gates(logits, chosen)
    assert not y[2].any()
    np.testing.assert_allclose(y[3], weights[3, 1] * layer.experts[2](x[3:])[0], rtol=1e-12)


def test_capacity_looks_backward_only(rng):
    layer, x = mixture(rng, 4, 2, capacity_factor=0.6), rng.standard_normal((1, 20, 6))
    for t in (5, 12, 19):
        changed = x.copy()
        changed[:, t:] = rng.standard_normal(changed[:, t:].shape)
        np.testing.assert_allclose(layer(changed)[:, :t], layer(x)[:, :t], rtol=1e-12, atol=1e-15)
    assert not np.allclose(layer(x), mixture(np.random.default_rng(1234))(x)), "something is dropped"


# The auxiliary losses


@pytest.mark.parametrize("E, k", [(4, 1), (4, 2), (5, 3)])
def test_balance_loss_is_one_at_perfect_balance_and_grows(E, k):
    places = np.arange(10 * E)
    logits = sum((k - j) * np.eye(E)[(places + j) % E] for j in range(k))
    chosen = F.top_k_experts(logits, k)
    assert (np.bincount(chosen.reshape(-1)) == 10 * k).all()
    losses = [F.load_balance_loss(logits, chosen)[0]]
    np.testing.assert_allclose(losses[0], 1, rtol=1e-14)
    for pull in (0.5, 2, 10, 1000):                                   # towards the first k
        z = logits + pull * np.arange(E, 0, -1)
        losses.append(F.load_balance_loss(z, F.top_k_experts(z, k))[0])
    assert (np.diff(losses) > 0).all() and losses[-1] == pytest.approx(E / k, rel=1e-12)
    uniform = np.zeros((6, E))
    assert F.load_balance_loss(uniform, F.top_k_experts(uniform, k))[0] == pytest.approx(1, rel=1e-14), "P is even, whatever f is"


def test_descent_on_the_balance_loss_balances(rng):
    layer, x = mixture(rng, 4, 1, gates_over="all", balance_weight=1.0), rng.standard_normal((200, 6)) + 1
    used = []
    for _ in range(200):
        y, saved = layer.forward(x)
        used.append(np.bincount(saved[1].reshape(-1), minlength=4).max() / 200)
        layer.zero_grad()
        layer.backward(np.zeros_like(y), saved, 1.0)
        layer.router.weight.data -= 0.3 * layer.router.weight.grad
    assert used[0] > 0.5 > 0.35 > used[-1]


def test_z_loss_by_hand_and_without_overflow():
    assert F.router_z_loss(np.zeros((3, 8)))[0] == pytest.approx(np.log(8) ** 2, rel=1e-14)
    assert F.router_z_loss(np.full((2, 4), 1000.0))[0] == pytest.approx((1000 + np.log(4)) ** 2, rel=1e-14)
    loss, saved = F.router_z_loss(np.array([[-1000.0, -2000.0]]))
    assert loss == 1e6 and F.router_z_loss_backward(2.0, saved).tolist() == [[-4000.0, 0.0]]


class Auxiliary:
    """A layer's auxiliary loss, seen as a layer."""

    def __init__(self, layer):
        self.layer, self.named_parameters = layer, layer.named_parameters

    def forward(self, x):
        y, saved = self.layer.forward(x)
        return self.layer.auxiliary_loss(saved), (np.zeros(y.shape), saved)

    def backward(self, dloss, saved):
        return self.layer.backward(*saved, float(dloss))


@pytest.mark.parametrize("options", [dict(z_weight=0.2), dict(k=1, gates_over="all", balance_weight=2.0),
                                     dict(balance_weight=0.0, z_weight=1.0), dict(capacity_factor=0.5, balance_weight=1.0)], ids=str)
def test_the_gradient_of_the_auxiliary_loss(options, rng):
    report = gradcheck(Auxiliary(mixture(rng, **options)), [rng.standard_normal((2, 5, 6))], bound=LAYER)
    assert report.ok, str(report)


def test_gradients_of_output_and_auxiliary_loss_add_up(rng):
    layer, x = mixture(rng, z_weight=0.3), rng.standard_normal((7, 6))
    y, saved = layer.forward(x)
    dy = rng.standard_normal(y.shape)
    both = layer.backward(dy, saved, 0.7)
    np.testing.assert_allclose(both, layer.backward(dy, saved) + 0.7 * layer.backward(0 * dy, saved, 1.0), rtol=1e-11, atol=1e-13)


# Bad input


@pytest.mark.parametrize("options, words", [
    (dict(E=3, k=4), "k=4 experts for a token are more than the E=3"), (dict(E=0), "n_experts=0"), (dict(k=0), "k=0"),
    (dict(k=True), "k=True"), (dict(gates_over="none"), "gates_over"), (dict(gated="yes"), "gated"),
    (dict(capacity_factor=float("inf")), "capacity_factor"), (dict(balance_weight=-1), "balance_weight"), (dict(z_weight="a"), "z_weight")])
def test_bad_layers(options, words, rng):
    with pytest.raises(ValueError, match="MixtureOfExperts: ") as caught:
        mixture(rng, **options)
    assert words in str(caught.value)


LOGITS, CHOSEN = np.zeros((3, 4)), np.array([[0, 1], [1, 2], [3, 0]])


@pytest.mark.parametrize("call, error, words", [
    (lambda: F.top_k_experts(LOGITS, 5), ValueError, "k=5 experts for a token are more than the E=4"),
    (lambda: F.top_k_experts(LOGITS, 0), ValueError, "k=0"), (lambda: F.top_k_experts(LOGITS[0], 2), ValueError, "(N, E)"),
    (lambda: F.top_k_experts(LOGITS[:0], 2), ValueError, "empty"), (lambda: F.top_k_experts([[1.0]], 1), TypeError, "array of floats"),
    (lambda: F.top_k_gates(LOGITS, CHOSEN, "each"), ValueError, "over='each'"),
    (lambda: F.top_k_gates(LOGITS, CHOSEN + 1), ValueError, "0 .. 3"),
    (lambda: F.top_k_gates(LOGITS, CHOSEN[:2]), ValueError, "N=3"), (lambda: F.top_k_gates(LOGITS, CHOSEN[:, 0]), ValueError, "(N, k)"),
    (lambda: F.top_k_gates(LOGITS, CHOSEN * 0), ValueError, "an expert twice"),
    (lambda: F.load_balance_loss(LOGITS, CHOSEN * 1.0), TypeError, "integers"),
    (lambda: F.load_balance_loss(LOGITS, CHOSEN[:0]), ValueError, "empty"), (lambda: F.router_z_loss(LOGITS[:0]), ValueError, "empty"),
    (lambda: F.sort_by_expert(CHOSEN, 3), ValueError, "0 .. 2"), (lambda: F.sort_by_expert(CHOSEN, 4, 0), ValueError, "capacity=0"),
    (lambda: F.sort_by_expert(CHOSEN[0], 4), ValueError, "(N, k)"), (lambda: F.sort_by_expert(CHOSEN, 0), ValueError, "n_experts=0"),
    (lambda: F.dispatch_to_experts(LOGITS, np.array([0, 6]), 2), ValueError, "0 .. 5"),
    (lambda: F.dispatch_to_experts(LOGITS, np.array([1, 1]), 2), ValueError, "different numbers"),
    (lambda: F.dispatch_to_experts(LOGITS, np.array([[1, 2]]), 2), ValueError, "different numbers"),
    (lambda: F.dispatch_to_experts(LOGITS, np.array([1]), 0), ValueError, "k=0"),
    (lambda: F.combine_experts(LOGITS, np.ones((2, 2)), np.array([0, 1])), ValueError, "M=2"),
    (lambda: F.combine_experts(LOGITS[:2], np.ones((2, 2), np.float32), np.array([0, 1])), TypeError, "float32"),
    (lambda: F.combine_experts(LOGITS[:2], np.ones((2, 2)), np.array([3, 3])), ValueError, "different numbers")])
def test_bad_arguments(call, error, words):
    with pytest.raises(error) as caught:
        call()
    assert words in str(caught.value)
