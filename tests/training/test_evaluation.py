"""Measures over batches: weights of the batches, and which loss of a model is measured."""

from types import SimpleNamespace

import numpy as np
import pytest

from numformer.data import Batch
from numformer.functional import IGNORE_INDEX
from numformer.layers import Identity
from numformer.models.transformer import for_each_part
from numformer.training import NotFinite, accuracy, mean_loss

BATCHES = [SimpleNamespace(n_targets=1, loss=2.0), SimpleNamespace(n_targets=3, loss=6.0)]


class Model:
    def loss(self, batch):
        return np.float32(batch.loss), "saved"


class ModelWithAnAuxiliaryLoss(Model):
    def evaluation_loss(self, batch):
        return batch.loss - 1


def test_the_mean_loss_is_weighted_by_targets():
    assert mean_loss(Model(), BATCHES) == (2 + 3 * 6) / 4


def test_the_evaluation_loss_of_a_model_replaces_its_loss():
    assert mean_loss(ModelWithAnAuxiliaryLoss(), BATCHES) == (2 + 3 * 6) / 4 - 1


def test_a_stopped_measurement_has_no_result():
    answers = iter([False, True])
    assert mean_loss(Model(), BATCHES, lambda: next(answers)) is None


def test_batches_without_targets_that_count_are_left_out():
    """Their loss is not asked for: it would be a mean over nothing."""
    assert mean_loss(Model(), [*BATCHES, SimpleNamespace(n_targets=0)]) == (2 + 3 * 6) / 4
    with pytest.raises(ValueError, match="no target of the batches counts"):
        mean_loss(Model(), [SimpleNamespace(n_targets=0)])


def test_labels_that_are_ignored_count_neither_in_the_loss_nor_in_the_accuracy():
    logits = np.array([[0.1, 0.9], [0.8, 0.2], [0.7, 0.3]])
    batch = Batch(inputs=logits, labels=np.array([1, IGNORE_INDEX, 1]))
    assert batch.n_targets == 2
    assert accuracy(Identity(), [batch, *batch.split(3)]) == 0.5
    with pytest.raises(ValueError, match="no label"):
        accuracy(Identity(), [batch.split(3)[1]])


def test_a_sum_that_is_too_large_is_not_finite():
    model = SimpleNamespace(loss=lambda batch: (1.5e308, None), named_parameters=lambda: [])
    with pytest.raises(NotFinite, match="validation loss is inf"):
        mean_loss(model, [SimpleNamespace(n_targets=1)] * 2)


def test_a_loss_of_parts_takes_one_gradient_or_one_for_each_part():
    assert for_each_part(0.5, 2) == [0.5, 0.5]
    with pytest.raises(ValueError, match="dloss has 1 numbers, but the loss has 2 parts"):
        for_each_part([1.0], 2)
