"""The head and its loss, a slice of the vocabulary at a time: vocabularies of several slices."""

import tracemalloc

import numpy as np
import pytest

from numformer import backend
from numformer import functional as F
from numformer.layers import Embedding, Linear, LMHead
from numformer.layers.linear import head_loss, head_loss_backward
from numformer.parameter import Parameter

linear_cross_entropy = pytest.importorskip("numformer.kernels.linear_cross_entropy")
SLICE = linear_cross_entropy.SLICE


@pytest.mark.parametrize("options", [{}, dict(label_smoothing=0.2, z_loss=0.1)], ids=str)
@pytest.mark.parametrize("V", [SLICE - 1, SLICE, SLICE + 1, 3 * SLICE + 5])
def test_slices_equal_the_reference(V, options, rng):
    x, weight = rng.standard_normal((5, 3, 8)), rng.standard_normal((V, 8))
    targets = rng.integers(0, V, (5, 3))
    targets[0, 0], targets[1, 1], targets[2, 2] = -100, V - 1, 0
    loss, saved = F.linear_cross_entropy(x, weight, targets, **options)
    dx, dweight = F.linear_cross_entropy_backward(0.7, saved)
    for dtype, bound in ((np.float64, 1e-13), (np.float32, 1e-5)):
        found, saved = backend.linear_cross_entropy(x.astype(dtype), weight.astype(dtype), targets,
                                                    **options)
        assert found.dtype == dtype and abs(found - loss) <= bound * abs(loss)
        for _ in range(2):                                # the backward changes nothing in saved
            gradients = backend.linear_cross_entropy_backward(0.7, saved)
            for a, b in zip(gradients, (dx, dweight), strict=True):
                assert a.dtype == dtype and np.abs(a - b).max() <= bound * np.abs(b).max()
        assert not gradients[0][0, 0].any()               # its target is ignored


def test_the_maximum_may_be_in_any_slice_and_logits_may_be_infinite():
    V = 2 * SLICE + 3
    for largest in (0, SLICE - 1, SLICE, V - 1):
        weight = np.full((V, 1), -np.inf)
        weight[largest], weight[largest - 1] = 1000, 1000 - np.log(3)
        loss, saved = backend.linear_cross_entropy(np.ones((1, 1)), weight, np.array([largest]))
        assert loss == pytest.approx(np.log(4 / 3), rel=1e-10)
        with np.errstate(invalid="ignore"):               # 0 * Inf in the product
            _, dweight = backend.linear_cross_entropy_backward(1.0, saved)
        np.testing.assert_allclose(dweight[[largest, largest - 1], 0], [-0.25, 0.25], rtol=1e-10)
        assert np.abs(dweight).sum() == pytest.approx(0.5)


@pytest.mark.parametrize("place", [0, SLICE + 1])
def test_a_nan_in_any_slice_is_seen(place):
    weight = np.ones((2 * SLICE, 2), np.float32)
    weight[place] = np.nan
    loss, _ = backend.linear_cross_entropy(np.ones((1, 2), np.float32), weight, np.array([5]))
    assert np.isnan(loss)


def test_logits_never_exist_whole(rng):
    N, V = 64, 20 * SLICE
    x, weight = rng.standard_normal((N, 4), np.float32), rng.standard_normal((V, 4), np.float32)
    total, targets = np.zeros_like(weight), rng.integers(0, V, N)
    for _ in range(2):                                    # the first time loads the kernels
        tracemalloc.start()
        _, saved = backend.linear_cross_entropy(x, weight, targets)
        backend.linear_cross_entropy_backward_accumulate(1.0, saved, total)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 4 * N * V / 8                           # an eighth of all logits


@pytest.mark.parametrize("change", [
    dict(weight=np.ones((3, 5))), dict(weight=np.ones(4)), dict(x=np.ones((2, 4), np.float32)),
    dict(targets=np.array([0])), dict(targets=np.array([0, 3])), dict(targets=np.array([0.0, 1.0])),
    dict(targets=np.array([-100, -100])), dict(label_smoothing=1.0), dict(z_loss=-1)], ids=str)
def test_bad_arguments_are_refused_by_both_versions(change):
    given = dict(x=np.ones((2, 4)), weight=np.ones((3, 4)), targets=np.array([0, 1])) | change
    for functions in (F, backend):
        with pytest.raises((ValueError, TypeError), match="cross_entropy: "):
            functions.linear_cross_entropy(**given)


@pytest.mark.parametrize("kind", ["LMHead", "Linear", "a capped head", "with a bias"])
def test_the_loss_of_a_head_is_that_of_its_logits(kind, rng):
    """A head that is no plain table computes its logits itself."""
    class Capped(LMHead):
        def forward(self, x):
            y, saved = super().forward(x)
            capped, saved_cap = F.soft_cap(y, 2.0)
            return capped, (saved, saved_cap)

        def backward(self, dy, saved):
            return super().backward(F.soft_cap_backward(dy, saved[1]), saved[0])

    table = Embedding(9, 4, rng, std=1.0, dtype=np.float64).weight
    bias = Parameter(rng.standard_normal(9))
    head = {"LMHead": LMHead, "a capped head": Capped,
            "with a bias": lambda table: LMHead(table, bias)}.get(
                kind, lambda _: Linear(4, 9, rng, dtype=np.float64))(table)
    x, targets = rng.standard_normal((2, 3, 4)), rng.integers(0, 9, (2, 3))
    loss, saved = head_loss(head, x, targets, label_smoothing=0.1)
    dx = head_loss_backward(head, 0.5, saved)
    found = [parameter.grad.copy() for parameter in head.parameters()]
    head.zero_grad()
    logits, saved_head = head.forward(x)
    true, saved_loss = F.cross_entropy(logits, targets, label_smoothing=0.1)
    true_dx = head.backward(F.cross_entropy_backward(0.5, saved_loss), saved_head)
    assert loss == pytest.approx(true, rel=1e-12)
    np.testing.assert_allclose(dx, true_dx, rtol=1e-10, atol=1e-14)
    for a, parameter in zip(found, head.parameters(), strict=True):
        np.testing.assert_allclose(a, parameter.grad, rtol=1e-10, atol=1e-14)
