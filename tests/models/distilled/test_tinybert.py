"""TinyBERT: its loss part by part, and what the teacher adds to a batch."""

import numpy as np
import pytest

from numformer import functional as F
from numformer.data import Batch
from numformer.models import BertClassifier, BertClassifierConfig
from numformer.models.tinybert import TinyBert, TinyBertConfig, taught, teacher_states
from numformer.training import Trainer, TrainingConfig

SIZES = dict(vocab_size=9, context_length=6, n_heads=2, n_classes=3, init_std=0.5,
             dtype="float64")


def teacher(n_layers=4, **options):
    config = BertClassifierConfig(**SIZES, n_layers=n_layers, d_model=12, **options)
    return BertClassifier(config, np.random.default_rng(1))


def student(n_layers=2, **options):
    config = TinyBertConfig(**SIZES, n_layers=n_layers, d_model=8, teacher_width=12, **options)
    return TinyBert(config, np.random.default_rng(2))


def batch_of(rng, B=4, T=6):
    lengths = rng.integers(2, T + 1, size=B)
    lengths[0] = T
    return Batch(ids=rng.integers(1, 9, size=(B, T)), lengths=lengths,
                 labels=rng.integers(0, 3, size=B))


@pytest.mark.parametrize("norm_first", [False, True])
def test_states_are_those_of_the_forward(rng, norm_first):
    batch, large = batch_of(rng), teacher(norm_first=norm_first)
    logits, states = teacher_states(large, batch.ids, batch.lengths, 2)
    np.testing.assert_allclose(logits, large(batch.ids, batch.lengths), rtol=1e-12)
    small = student(norm_first=norm_first)
    own, _ = small.states(batch.ids, batch.lengths)
    np.testing.assert_allclose(small.backbone.encoder.norm(own[-1]),
                               small.backbone(batch.ids, None, batch.lengths), rtol=1e-12)
    assert states.shape == (4, 3, 6, 12) and len(own) == 3


@pytest.mark.parametrize("n_layers, N, layers", [
    (2, 4, [0, 2, 4]), (1, 3, [0, 3]), (4, 4, [0, 1, 2, 3, 4]), (4, 12, [0, 3, 6, 9, 12])])
def test_layers_are_mapped_evenly(rng, n_layers, N, layers):
    batch, large = batch_of(rng), teacher(N)
    _, every = teacher_states(large, batch.ids, batch.lengths, N)
    _, states = teacher_states(large, batch.ids, batch.lengths, n_layers)
    np.testing.assert_array_equal(states, every[:, layers])


def test_a_student_has_at_most_as_many_layers_as_its_teacher(rng):
    batch = batch_of(rng)
    with pytest.raises(ValueError, match="n_layers=5 cannot imitate a teacher of 4"):
        teacher_states(teacher(), batch.ids, batch.lengths, 5)


def test_the_loss_is_the_weighted_sum_of_its_parts(rng):
    small = student(hard_weight=0.5, soft_weight=2.0, hidden_weight=0.25, temperature=3.0)
    batch = taught(batch_of(rng), teacher(), 2)
    ids, lengths, labels, logits, states = batch
    real = np.arange(6) < lengths[:, None]
    own = small(ids, lengths)
    expected = (0.5 * F.cross_entropy(own, labels)[0]
                + 2.0 * F.distillation_loss(own, logits, 3.0)[0])
    for m, state in enumerate(small.states(ids, lengths)[0]):
        projection = small.hidden_projection if m else small.embedding_projection
        expected += 0.25 * np.mean((projection(state) - states[:, m])[real] ** 2)
    assert small.loss(batch)[0] == pytest.approx(expected, rel=1e-12)


def test_padding_has_no_part_in_it(rng):
    small, batch = student(), taught(batch_of(rng), teacher(), 2)
    before = small.loss(batch)[0]
    padding = (np.arange(6) >= batch.lengths[:, None])[:, None, :, None]
    batch.teacher_states = np.where(padding, 99.0, batch.teacher_states)
    assert small.loss(batch)[0] == before


def test_a_teacher_of_another_width_is_refused(rng):
    batch = taught(batch_of(rng), teacher(), 2)
    batch.teacher_states = batch.teacher_states[..., :8]
    with pytest.raises(ValueError, match=r"must have shape \(4, 3, 6, 12\)"):
        student().loss(batch)


def test_training_brings_the_student_to_the_teacher(rng):
    large, small = teacher(), student(hard_weight=0.0)
    batch = batch_of(rng, B=8)
    stream = type("stream", (), {"batch": lambda self, step: taught(batch, large, 2)})()
    trainer = Trainer(small, stream, [batch], TrainingConfig(
        steps=60, learning_rate=0.02, warmup_steps=0, weight_decay=0.0, batch_size=8))
    losses = [trainer.train_step()["loss"] for _ in range(60)]
    assert losses[-1] < 0.3 * losses[0]
    expected = large(batch.ids, batch.lengths).argmax(axis=1)
    assert (small(batch.ids, batch.lengths).argmax(axis=1) == expected).mean() > 0.8
    assert np.isfinite(trainer.evaluate())                            # labels alone
