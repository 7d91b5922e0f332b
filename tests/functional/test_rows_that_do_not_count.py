"""What does not count may hold NaN or Inf: no loss and no gradient of the rest depends on it."""

import numpy as np
import pytest

from numformer import backend
from numformer import functional as F
from numformer.layers import MixtureOfExperts
from numformer.models import (
    BertSpanClassifier, BertSpanClassifierConfig, SentenceBert, SentenceBertConfig)

WRONG = np.nan, np.inf, -np.inf
TARGETS = np.array([[1, -100, 0], [2, 3, -100]])
IGNORED = TARGETS == -100
REAL = np.array([[True, False, True], [True, True, False]])
TABLE = np.array([[1.0, -0.5], [0.3, 0.2], [-2.0, 1.0], [0.1, 0.7]])
WEIGHTS = np.array([0.5, 1.0, 0.0, 2.0])
CASES = {                                     # what a pair is given besides x, and rows that count
    "cross_entropy": (4, (TARGETS,), {}, ~IGNORED),
    "cross_entropy, smoothing": (4, (TARGETS,), dict(label_smoothing=0.1), ~IGNORED),
    "cross_entropy, z-loss": (4, (TARGETS,), dict(z_loss=0.1), ~IGNORED),
    "linear_cross_entropy": (2, (TABLE, TARGETS), {}, ~IGNORED),
    "linear_cross_entropy, both": (2, (TABLE, TARGETS), dict(label_smoothing=0.1, z_loss=0.1),
                                   ~IGNORED),
    "weighted_cross_entropy": (4, (np.where(IGNORED, 2, TARGETS), WEIGHTS), {},
                               ~IGNORED & (TARGETS != 2)),
    "mean_pooling": (4, (REAL,), {}, REAL),
    "max_pooling": (4, (REAL,), {}, REAL),
}


def loss_and_gradients(library, name, x, arguments, options):
    function = getattr(library, name.split(",")[0])
    y, saved = function(x, *(a.astype(x.dtype) if a.dtype == float else a for a in arguments),
                        **options)
    dy = 1.0 if np.ndim(y) == 0 else np.ones_like(y)
    gradients = getattr(library, name.split(",")[0] + "_backward")(dy, saved)
    return y, gradients if isinstance(gradients, tuple) else (gradients,)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("library", [F, backend], ids=["reference", "compiled"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_that_do_not_count_reach_nothing(library, name, dtype):
    C, arguments, options, counts = CASES[name]
    x = np.random.default_rng(0).standard_normal((2, 3, C)).astype(dtype)
    right = loss_and_gradients(library, name, x, arguments, options)
    for wrong in WRONG:
        for row in (slice(None), slice(0, 1)):                # the whole row, or one of its numbers
            x[..., row][~counts] = wrong
            with np.errstate(all="raise"):
                found = loss_and_gradients(library, name, x, arguments, options)
            np.testing.assert_array_equal(found[0], right[0])
            for one, other in zip(found[1], right[1], strict=True):
                np.testing.assert_array_equal(one, other)
            assert (found[1][0][~counts] == 0).all()


def span_loss(bias, padding, smoothing):
    model = BertSpanClassifier(
        BertSpanClassifierConfig(vocab_size=9, context_length=8, n_layers=1, n_heads=2, d_model=8,
                                 dtype="float64"), np.random.default_rng(0))
    model.ends.bias.data[:], model.label_smoothing = bias, smoothing
    ids, segments = (np.array([[*row, *[0] * padding]]) for row in
                     ([1, 5, 2, 7, 8, 2], [0, 0, 0, 1, 1, 1]))
    loss, saved = model.loss((ids, np.array([6]), segments, np.array([[3, 4]])))
    model.loss_backward(saved)
    return loss, model.ends.weight.grad


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_padding_has_probability_0_whatever_is_added_to_all_logits(smoothing):
    right = span_loss(0.0, 0, smoothing)
    for bias in (0.0, -2e4, 1e7, -1e7):
        for one, other in zip(span_loss(bias, 2, smoothing), right):
            np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-8)


def test_the_end_of_a_span_is_a_token_of_its_row():
    model = BertSpanClassifier(BertSpanClassifierConfig(
        vocab_size=9, context_length=8, n_layers=1, n_heads=2, d_model=8), np.random.default_rng(0))
    ids = np.array([[1, 5, 2, 7, 0, 0]])
    for targets in ([[3, 4]], [[3, 6]], [[3]]):
        with pytest.raises(ValueError, match="targets"):
            model.loss((ids, np.array([4]), np.zeros_like(ids), np.array(targets)))


@pytest.mark.parametrize("scale", [1.0, 20.0, 1e5, 1e8])
def test_a_positive_of_the_same_topic_does_not_count_at_any_scale(scale):
    model = SentenceBert(SentenceBertConfig(
        vocab_size=9, context_length=8, n_layers=1, n_heads=2, d_model=8, dtype="float64",
        objective="in_batch", scale=scale), np.random.default_rng(0))
    a, p = np.random.default_rng(1).standard_normal((2, 4, 8))
    loss, saved = model._in_batch_loss(a, p, np.zeros(4, int))
    assert loss == 0
    assert all((gradient == 0).all() for gradient in model._in_batch_loss_backward(1.0, saved))


def test_an_auxiliary_loss_of_weight_0_is_not_computed():
    """Its square may overflow, and 0 times Inf is NaN."""
    layer = MixtureOfExperts(4, 8, 3, 2, "relu", np.random.default_rng(0), balance_weight=0.0)
    layer.router.weight.data *= np.float32(1e22)
    x = np.ones((2, 4), np.float32)
    y, saved = layer.forward(x)
    assert layer.auxiliary_loss(saved) == 0
    assert np.isfinite(layer.backward(np.ones_like(y), saved, 1.0)).all()
