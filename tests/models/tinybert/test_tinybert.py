"""TinyBERT: its loss part by part, and what the teacher adds to a batch."""

import numpy as np
import pytest

from numformer import functional as F
from numformer.analysis import attention_by_layer
from numformer.data import Batch
from numformer.functional import IGNORE_INDEX
from numformer.models import (
    BertClassifier, BertClassifierConfig, TinyBert, TinyBertConfig, check_teacher, taught,
    teacher_states)
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
    logits, states, _ = teacher_states(large, batch.ids, batch.lengths, 2)
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
    _, every, all_scores = teacher_states(large, batch.ids, batch.lengths, N)
    _, states, scores = teacher_states(large, batch.ids, batch.lengths, n_layers)
    np.testing.assert_array_equal(states, every[:, layers])
    np.testing.assert_array_equal(scores, all_scores[:, [layer - 1 for layer in layers[1:]]])


@pytest.mark.parametrize("options", [
    {}, dict(norm_first=True), dict(positions="rotary"), dict(n_kv_heads=1), dict(score_scale=0.3),
    dict(query_key_norm=True)])
def test_the_softmax_of_the_scores_are_the_attention_weights(rng, options):
    batch, large = batch_of(rng), teacher(**options)
    weights = attention_by_layer(large, batch.ids, batch.lengths)
    _, _, scores = teacher_states(large, batch.ids, batch.lengths, 4)
    real = np.arange(6) < batch.lengths[:, None]
    expected = F.softmax(scores, mask=real[:, None, None, None])[0]   # (B, layers, H, T, T)
    for m, found in enumerate(weights.values()):
        pairs = real[:, None, :, None] & real[:, None, None, :] & np.ones((1, 2, 1, 1), bool)
        np.testing.assert_allclose(found[pairs], expected[:, m][pairs], rtol=1e-10)


def test_a_student_has_at_most_as_many_layers_as_its_teacher(rng):
    batch = batch_of(rng)
    with pytest.raises(ValueError, match="n_layers=5 cannot imitate a teacher of 4"):
        teacher_states(teacher(), batch.ids, batch.lengths, 5)


def test_the_loss_is_the_weighted_sum_of_its_parts(rng):
    small = student(hard_weight=0.5, soft_weight=2.0, hidden_weight=0.25, attention_weight=0.3,
                    temperature=3.0)
    batch = taught(batch_of(rng), teacher(), 2)
    ids, lengths, labels, logits, states, scores = batch
    real = np.arange(6) < lengths[:, None]
    own = small(ids, lengths)
    expected = (0.5 * F.cross_entropy(own, labels)[0]
                + 2.0 * F.distillation_loss(own, logits, 3.0)[0])
    for m, state in enumerate(small.states(ids, lengths)[0]):
        projection = small.hidden_projection if m else small.embedding_projection
        expected += 0.25 * np.mean((projection(state) - states[:, m])[real] ** 2)
    for m, (block, state) in enumerate(zip(small.backbone.encoder.blocks,
                                           small.states(ids, lengths)[0])):
        a, squares = block.attention, []
        for row, size in enumerate(lengths):
            q, k = (part(state[row : row + 1, :size]).reshape(1, size, 2, 4).swapaxes(1, 2)
                    for part in (a.query, a.key))
            squares.append(((q @ k.mT / 2)[0] - scores[row, m, :, :size, :size]) ** 2)    # D = 4
        expected += 0.3 * np.mean(np.concatenate([each.ravel() for each in squares]))
    assert small.loss(batch)[0] == pytest.approx(expected, rel=1e-12)


def test_a_text_without_a_label_adds_the_teachers_part_alone(rng):
    large, batch = teacher(), batch_of(rng)
    small = student(soft_weight=0.0, hidden_weight=0.0, attention_weight=0.0)
    batch.labels[:] = [1, IGNORE_INDEX, 2, IGNORE_INDEX]
    loss, saved = small.loss(taught(batch, large, 2))
    known = small.evaluation_loss((batch.ids[::2], batch.lengths[::2], batch.labels[::2]))
    assert loss == pytest.approx(known / 2, rel=1e-12), "the sum over labels by the number of texts"
    batch.labels[:] = IGNORE_INDEX
    loss, saved = small.loss(taught(batch, large, 2))
    small.loss_backward(saved)
    assert loss == 0 and not any(parameter.grad.any() for parameter in small.parameters())


def test_without_a_teachers_part_it_is_the_classifier(rng):
    small, batch = student(), batch_of(rng)
    plain = BertClassifier(BertClassifierConfig(**SIZES, n_layers=2, d_model=8), None).allocate()
    plain.load_state_dict({name: parameter.data for name, parameter in small.named_parameters()
                           if "projection" not in name})
    losses = [model.loss(batch) for model in (small, plain)]
    for model, (_, saved) in zip((small, plain), losses):
        model.loss_backward(saved)
    assert losses[0][0] == losses[1][0]
    gradients = dict(small.named_parameters())
    for name, parameter in plain.named_parameters():
        np.testing.assert_array_equal(gradients[name].grad, parameter.grad)
    alone = TinyBert(TinyBertConfig(**SIZES, n_layers=2, d_model=8), rng)
    assert not any("projection" in name for name, _ in alone.named_parameters())
    with pytest.raises(ValueError, match="teacher_width=None is a student without a teacher"):
        alone.loss(taught(batch, teacher(), 2))


def test_padding_has_no_part_in_it(rng):
    small, batch = student(), taught(batch_of(rng), teacher(), 2)
    before = small.loss(batch)[0]
    padding = (np.arange(6) >= batch.lengths[:, None])[:, None, :, None]
    batch.teacher_states = np.where(padding, 99.0, batch.teacher_states)
    padding = padding | padding.swapaxes(2, 3)                        # of a query, or of a key
    batch.teacher_scores = np.where(padding[:, :, None], np.nan, batch.teacher_scores)
    assert small.loss(batch)[0] == before


def test_a_teacher_of_another_width_is_refused(rng):
    batch = taught(batch_of(rng), teacher(), 2)
    batch.teacher_states = batch.teacher_states[..., :8]
    with pytest.raises(ValueError, match=r"must have shape \(4, 3, 6, 12\)"):
        student().loss(batch)


def test_a_teacher_with_other_heads_is_refused_unless_scores_have_no_weight(rng):
    batch = taught(batch_of(rng), teacher(), 2)
    batch.teacher_scores = batch.teacher_scores[:, :, :1]
    with pytest.raises(ValueError, match=r"must have shape \(4, 2, 2, 6, 6\)"):
        student().loss(batch)
    assert np.isfinite(student(attention_weight=0.0).loss(batch)[0])


@pytest.mark.parametrize("options, words", [
    (dict(n_heads=4), "n_heads=4 must be that of the teacher, 2"),
    (dict(n_layers=5), "n_layers=5 must be at most that of the teacher, 4"),
    (dict(context_length=7), "context_length=7 must be at most that of the teacher, 6"),
    (dict(vocab_size=10), "vocab_size=10 must be that of the teacher, 9"),
    (dict(n_classes=2), "n_classes=2 must be that of the teacher, 3"),
    (dict(teacher_width=8), "teacher_width=8 must be d_model of the teacher, 12")])
def test_a_teacher_that_does_not_fit_is_refused(options, words):
    config = dict(SIZES, n_layers=2, d_model=8, teacher_width=12)
    check_teacher(TinyBertConfig(**config), teacher())
    with pytest.raises(ValueError, match=words):
        check_teacher(TinyBertConfig(**config | options), teacher())


def test_a_teacher_is_a_classifier_without_batch_norm():
    config = TinyBertConfig(**SIZES, n_layers=2, d_model=8, teacher_width=12)
    with pytest.raises(ValueError, match="the teacher is a Linear, but must be a classifier"):
        check_teacher(config, student().hidden_projection)
    with pytest.raises(ValueError, match="the teacher has norm='batch_norm'"):
        check_teacher(config, teacher(norm="batch_norm"))
    with pytest.raises(ValueError, match="norm='batch_norm' is unknown"):
        student(norm="batch_norm")


@pytest.mark.slow
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
