"""The loss and the gradient of a batch are those of its parts, however it is divided.

Every registered model is tried with a batch of eight examples in which targets of all kinds are
missing here and there: rows without masked tokens, without labels, images without objects.
"""

import numpy as np
import pytest

from marks import every
from numformer.data import Batch
from numformer.functional import IGNORE_INDEX
from numformer.layers import BatchNorm, MixtureOfExperts
from numformer.models import CLIP, KINDS, Decoder, DecoderConfig
from numformer.models.transformer import loss_counts
from numformer.training import TrainingConfig, mean_loss
from numformer.training.parallel.shards import Shards
from numformer.training.training_config import OPTIMIZERS
from numformer.verify.registry import MODELS
from numformer.verify.registry.cases import Case, next_tokens
from numformer.verify.registry.language_models import IDS, classifier, labelled
from numformer.verify.registry.transformer import trained_with

ROWS = 8
NAMES = {                                     # of the arrays of a batch; else inputs, then targets
    "Bert": "inputs targets segments lengths follows",
    "DETR": "images boxes labels",
    "CLIP": "ids images lengths",
    "DecoderClassifier": "ids lengths labels",
    "PolicyDecoder": "inputs targets advantages old_log_probs reference_log_probs",
    "TinyBert": "ids lengths labels logits states scores",
    "SentenceBert": "anchors n_a positives n_p negatives n_n topics"}
TARGETS = {"targets", "labels", "follows"}


def layers_of(model):
    return [layer for _, layer in model.named_layers()]


def depends_on_the_batch(model):
    """Whether examples of a batch are compared with each other: what `Shards` names."""
    return (isinstance(model, CLIP)
            or getattr(model.config, "objective", None) == "in_batch"
            or any(isinstance(layer, BatchNorm)
                   or isinstance(layer, MixtureOfExperts) and (
                       layer.balance_weight or layer.capacity_factor)
                   for layer in layers_of(model)))


def without_dropout(model):
    for layer in layers_of(model):
        for name in {"rate", "dropout"} & vars(layer).keys():
            if isinstance(getattr(layer, name), float):
                setattr(layer, name, 0.0)
    return model


def with_z_loss_alone(model):
    """Experts whose auxiliary loss compares no tokens: neither balance nor capacity."""
    for layer in layers_of(model):
        if isinstance(layer, MixtureOfExperts):
            layer.balance_weight, layer.capacity_factor, layer.z_weight = 0.0, 0.0, 0.3
    return model


EXPERTS = dict(n_experts=3, experts_per_token=2)
MORE = [Case(f"decoder classifier with experts, lm_weight={weight}",
             trained_with(classifier(**EXPERTS), lm_weight=weight), [], ids=(IDS,), batch=labelled)
        for weight in (0.0, 0.5)]
ALL = [(case, without_dropout(case.layer())) for case in [*MODELS, *MORE]]
OTHERS = [(case, model) for case, model in ALL if depends_on_the_batch(model)]
CASES = [(case, model) for case, model in (
             (case, with_z_loss_alone(without_dropout(case.layer()))) for case in [*MODELS, *MORE])
         if not depends_on_the_batch(model)]


def batch_of(case, model, seed=0):
    """Eight rows made of those of a case: floats are scaled, and some targets do not count."""
    rng, arrays = np.random.default_rng(seed), (case.batch or next_tokens)(*case.ids)
    rows = rng.permutation(np.arange(ROWS) % len(arrays[0]))
    arrays = [np.asarray(array)[rows] for array in arrays]
    names = NAMES.get(type(model).__name__)
    names = (names.split() if names else
             [f"input_{k}" for k in range(len(arrays) - 1)] + ["targets"])[:len(arrays)]
    if type(model).__name__ == "SentenceBert" and len(arrays) == 5:
        names[4] = "labels"
    for name, array in zip(names, arrays):
        if array.dtype.kind == "f":
            array *= rng.uniform(0.5, 1, (ROWS, *[1] * (array.ndim - 1)))
        elif name in TARGETS:
            array[rng.random(array.shape) < 0.3] = IGNORE_INDEX
            array[1] = IGNORE_INDEX                               # rows, and a shard, without any
            array[4:6] = IGNORE_INDEX
    return Batch(**dict(zip(names, arrays)))


def gradient_of(model, batch, **settings):
    config = TrainingConfig(steps=1, batch_size=ROWS, **settings)
    optimizer = OPTIMIZERS[config.optimizer](model, config)
    loss, norm = Shards(model, optimizer, config).gradient(batch, 0)
    return loss, norm, {name: p.grad.copy() for name, p in model.named_parameters()}


def test_every_kind_of_model_is_tried():
    kinds = {type(model).__name__ for _, model in CASES}
    without_backward = {"NGramLanguageModel", "CLIPTextEncoder"}
    assert kinds == KINDS.keys() - without_backward - {"CLIP"}


@pytest.mark.parametrize("case, model", every(2, CASES), ids=[case.name for case, _ in CASES])
def test_shards_and_accumulation_change_neither_loss_nor_gradient(case, model):
    batch = batch_of(case, model)
    loss, norm, gradient = gradient_of(model, batch, shards=1)
    assert norm > 0
    for settings in (dict(shards=2), dict(shards=4), dict(shards=8), dict(shards=1, accumulation=2),
                     dict(shards=2, accumulation=2)):
        other_loss, other_norm, other = gradient_of(model, batch, **settings)
        assert other_loss == pytest.approx(loss, rel=1e-12)
        assert other_norm == pytest.approx(norm, rel=1e-12)
        for name in gradient:
            np.testing.assert_allclose(other[name], gradient[name], rtol=1e-12, atol=1e-12 * norm)


@pytest.mark.parametrize("weights", [dict(router_z_weight=0.1, balance_weight=0.0),
                                     dict(balance_weight=0.1)])
def test_a_shard_without_targets_keeps_the_auxiliary_loss_of_its_rows(weights):
    config = DecoderConfig(vocab_size=9, context_length=8, n_layers=1, n_heads=2, d_model=8,
                           n_experts=4, dtype="float64", **weights)
    model, rng = Decoder(config, np.random.default_rng(0)), np.random.default_rng(1)
    ids, targets = rng.integers(0, 9, (4, 8)), np.full((4, 8), IGNORE_INDEX)
    targets[0, 3] = 5
    model.loss(Batch(inputs=ids, targets=targets))
    losses, counts = zip(*((model.loss_parts(shard)[0][1], loss_counts(model, shard))
                           for shard in Batch(inputs=ids, targets=targets).split(4)))
    assert counts == ((1, 1), (0, 1), (0, 1), (0, 1)) and min(losses) > 0
    for shards in (2, 4):
        step = TrainingConfig(steps=1, batch_size=4, shards=shards)
        batch = Batch(inputs=ids, targets=targets)
        parts = [model.loss_parts(shard)[0][1] for shard in batch.split(shards)]
        loss, _ = Shards(model, OPTIMIZERS["adamw"](model, step), step).gradient(batch, 0)
        assert loss == pytest.approx(model.evaluation_loss(batch) + np.mean(parts), rel=1e-12)
    with pytest.raises(ValueError, match="every target is ignore_index"):
        model.loss(Batch(inputs=ids, targets=np.full((4, 8), IGNORE_INDEX)))


@pytest.mark.parametrize("case, model", CASES, ids=[case.name for case, _ in CASES])
def test_the_batches_of_an_evaluation_do_not_change_its_loss(case, model):
    batch = batch_of(case, model)
    whole = mean_loss(model, [batch])
    for n in (2, 3, ROWS):
        assert mean_loss(model, batch.split(n)) == pytest.approx(whole, rel=1e-12)


@pytest.mark.parametrize("case, model", OTHERS, ids=[case.name for case, _ in OTHERS])
def test_what_depends_on_the_batch_is_named_by_shards(case, model):
    reasons = [type(model).__name__, *(type(layer).__name__ for layer in layers_of(model))]
    assert any(f"`{reason}`" in Shards.__doc__ for reason in reasons)
