"""The auxiliary losses of a mixture of experts: load balance and z-loss."""

import numpy as np
import pytest

from marks import every
from numformer import functional as F
from numformer.layers import MixtureOfExperts
from numformer.verify import LAYER_BOUND, gradcheck


def mixture(rng, E=4, k=2, dtype=np.float64, **options):
    """A layer on vectors of width 6 whose router prefers some experts clearly."""
    layer = MixtureOfExperts(6, 5, E, k, "gelu", rng, dtype=dtype, **options)
    layer.router.weight.data *= 3
    return layer


@pytest.mark.parametrize("E, k", [(4, 1), (4, 2), (5, 3)])
def test_balance_loss_is_one_at_perfect_balance_and_grows(E, k):
    tokens = np.arange(10 * E)
    logits = sum((k - j) * np.eye(E)[(tokens + j) % E] for j in range(k))
    chosen = F.top_k_experts(logits, k)
    assert (np.bincount(chosen.reshape(-1)) == 10 * k).all()
    losses = [F.load_balance_loss(logits, chosen)[0]]
    np.testing.assert_allclose(losses[0], 1, rtol=1e-14)
    for pull in (0.5, 2, 10, 1000):                                   # towards the first k
        z = logits + pull * np.arange(E, 0, -1)
        losses.append(F.load_balance_loss(z, F.top_k_experts(z, k))[0])
    assert (np.diff(losses) > 0).all() and losses[-1] == pytest.approx(E / k, rel=1e-12)
    uniform = np.zeros((6, E))
    loss, _ = F.load_balance_loss(uniform, F.top_k_experts(uniform, k))
    assert loss == pytest.approx(1, rel=1e-14), "P is uniform, whatever f is"


def test_descent_on_the_balance_loss_balances(rng):
    layer = mixture(rng, 4, 1, gates_over="all", balance_weight=1.0)
    x = rng.standard_normal((200, 6)) + 1
    used = []
    for _ in range(200):
        y, saved = layer.forward(x)
        used.append(np.bincount(saved[1].reshape(-1), minlength=4).max() / 200)
        layer.zero_grad()
        layer.backward(np.zeros_like(y), saved, 1.0)
        layer.router.weight.data -= 0.3 * layer.router.weight.grad
    assert used[0] > 0.5 > 0.35 > used[-1]


def test_z_loss_has_known_values_and_does_not_overflow():
    assert F.router_z_loss(np.zeros((3, 8)))[0] == pytest.approx(np.log(8) ** 2, rel=1e-14)
    loss, _ = F.router_z_loss(np.full((2, 4), 1000.0))
    assert loss == pytest.approx((1000 + np.log(4)) ** 2, rel=1e-14)
    loss, saved = F.router_z_loss(np.array([[-1000.0, -2000.0]]))
    assert loss == 1e6 and F.router_z_loss_backward(2.0, saved).tolist() == [[-4000.0, 0.0]]


class Auxiliary:
    """The auxiliary loss of a layer, as a layer."""

    def __init__(self, layer):
        self.layer, self.named_parameters = layer, layer.named_parameters

    def forward(self, x):
        y, saved = self.layer.forward(x, np.random.default_rng(0))
        return self.layer.auxiliary_loss(saved), (np.zeros(y.shape), saved)

    def backward(self, dloss, saved):
        return self.layer.backward(*saved, float(dloss))


@pytest.mark.parametrize("options", every(3, [
    dict(z_weight=0.2), dict(k=1, gates_over="all", balance_weight=2.0),
    dict(balance_weight=0.0, z_weight=1.0), dict(capacity_factor=0.5, balance_weight=1.0)]),
                         ids=str)
def test_the_gradient_of_the_auxiliary_loss_equals_the_complex_step(options, rng):
    report = gradcheck(Auxiliary(mixture(rng, **options)), [rng.standard_normal((2, 5, 6))],
                       bound=LAYER_BOUND)
    assert report.ok, str(report)


def test_gradients_of_output_and_auxiliary_loss_add_up(rng):
    layer, x = mixture(rng, z_weight=0.3), rng.standard_normal((7, 6))
    y, saved = layer.forward(x)
    dy = rng.standard_normal(y.shape)
    both = layer.backward(dy, saved, 0.7)
    separate = layer.backward(dy, saved) + 0.7 * layer.backward(0 * dy, saved, 1.0)
    np.testing.assert_allclose(both, separate, rtol=1e-11, atol=1e-13)


LOGITS, CHOSEN = np.zeros((3, 4)), np.array([[0, 1], [1, 2], [3, 0]])


@pytest.mark.parametrize("call, error, words", [
    (lambda: F.top_k_experts(LOGITS, 5), ValueError,
     "k=5 experts for a token are more than the E=4"),
    (lambda: F.top_k_experts(LOGITS, 0), ValueError, "k=0"),
    (lambda: F.top_k_experts(LOGITS[0], 2), ValueError, "(N, E)"),
    (lambda: F.top_k_experts(LOGITS[:0], 2), ValueError, "empty"),
    (lambda: F.top_k_experts([[1.0]], 1), TypeError, "array of floats"),
    (lambda: F.top_k_gates_over_all(LOGITS, CHOSEN + 1), ValueError, "0 .. 3"),
    (lambda: F.top_k_gates(LOGITS, CHOSEN + 1), ValueError, "0 .. 3"),
    (lambda: F.top_k_gates(LOGITS, CHOSEN[:2]), ValueError, "N=3"),
    (lambda: F.top_k_gates(LOGITS, CHOSEN[:, 0]), ValueError, "(N, k)"),
    (lambda: F.top_k_gates(LOGITS, CHOSEN * 0), ValueError, "an expert twice"),
    (lambda: F.load_balance_loss(LOGITS, CHOSEN * 1.0), TypeError, "integers"),
    (lambda: F.load_balance_loss(LOGITS, CHOSEN[:0]), ValueError, "empty"),
    (lambda: F.router_z_loss(LOGITS[:0]), ValueError, "empty"),
    (lambda: F.sort_by_expert(CHOSEN, 3), ValueError, "0 .. 2"),
    (lambda: F.sort_by_expert(CHOSEN, 4, 0), ValueError, "capacity=0"),
    (lambda: F.sort_by_expert(CHOSEN[0], 4), ValueError, "(N, k)"),
    (lambda: F.sort_by_expert(CHOSEN, 0), ValueError, "n_experts=0"),
    (lambda: F.dispatch_to_experts(LOGITS, np.array([0, 6]), 2), ValueError, "0 .. 5"),
    (lambda: F.dispatch_to_experts(LOGITS, np.array([1, 1]), 2), ValueError, "different numbers"),
    (lambda: F.dispatch_to_experts(LOGITS, np.array([[1, 2]]), 2), ValueError, "different numbers"),
    (lambda: F.dispatch_to_experts(LOGITS, np.array([1]), 0), ValueError, "k=0"),
    (lambda: F.combine_experts(LOGITS, np.ones((2, 2)), np.array([0, 1])), ValueError, "M=2"),
    (lambda: F.combine_experts(LOGITS[:2], np.ones((2, 2), np.float32), np.array([0, 1])),
     TypeError, "float32"),
    (lambda: F.combine_experts(LOGITS[:2], np.ones((2, 2)), np.array([3, 3])), ValueError,
     "different numbers")])
def test_bad_arguments_are_named(call, error, words):
    with pytest.raises(error) as caught:
        call()
    assert words in str(caught.value)
