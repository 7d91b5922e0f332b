"""Measures over batches: weights of the batches, and which loss of a model is measured."""

from types import SimpleNamespace

import numpy as np

from numformer.training import mean_loss

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
