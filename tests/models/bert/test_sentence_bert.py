"""Fine-tuning BERT: a pretrained backbone, and the losses of Sentence-BERT."""

import numpy as np
import pytest

from numformer.data import Batch
from numformer.functional import (
    cosine_regression_loss, cosine_similarity, cosine_similarity_backward, pair_features,
    triplet_loss, triplet_loss_backward)
from numformer.models import (
    Bert, BertClassifier, BertClassifierConfig, BertConfig, SentenceBert, SentenceBertConfig,
    backbone_options, load_pretrained_backbone)
from numformer.training import NotFinite, mean_loss

SIZES = dict(vocab_size=20, context_length=12, n_layers=2, n_heads=2, d_model=8, dtype="float64")


def test_a_pretrained_backbone_is_copied(rng):
    bert = Bert(BertConfig(**SIZES, dropout=0.5), rng)
    config = BertClassifierConfig(**backbone_options(bert.config), n_classes=3)
    classifier = BertClassifier(config, np.random.default_rng(1))
    assert classifier.config.dropout == 0.0
    load_pretrained_backbone(classifier, bert)
    ids = rng.integers(0, 20, (2, 7))
    assert np.array_equal(classifier.backbone(ids), bert(ids))
    assert np.array_equal(classifier.pooler.linear.weight.data, bert.pooler.linear.weight.data)
    bert.backbone.embedding.weight.data += 1
    assert not np.array_equal(classifier.backbone(ids), bert(ids)), "a copy, not the same arrays"
    smaller = SentenceBert(SentenceBertConfig(**{**SIZES, "n_layers": 1}), rng)
    with pytest.raises(ValueError, match="unexpected"):
        load_pretrained_backbone(smaller, bert)


def test_fine_tuning_adds_one_new_layer(rng):
    """All parameters of a classifier are those of the pre-trained BERT, but for its last layer."""
    bert = Bert(BertConfig(**SIZES), rng)
    config = BertClassifierConfig(**backbone_options(bert.config), n_classes=3)
    fresh, tuned = (BertClassifier(config, np.random.default_rng(1)) for _ in range(2))
    load_pretrained_backbone(tuned, bert)
    pretrained = {**{f"backbone.{name}": array for name, array in
                     bert.backbone.state_dict().items()},
                  **{f"pooler.{name}": array for name, array in bert.pooler.state_dict().items()}}
    new = {"classes.weight": (8, 3), "classes.bias": (3,)}
    assert {*tuned.state_dict()} == {*pretrained, *new}
    for name, array in tuned.state_dict().items():
        if name in new:
            assert array.shape == new[name]
            assert np.array_equal(array, fresh.state_dict()[name])
        else:
            assert np.array_equal(array, pretrained[name])


def test_gradients_of_three_calls_of_one_encoder_add_up(rng):
    """Three calls of one encoder give the gradients of three encoders with the same weights, added
    up.
    """
    model = SentenceBert(SentenceBertConfig(**SIZES, margin=9.0), rng)
    towers = [model.replica() for _ in range(3)]
    parts = [rng.integers(4, 20, (5, 8)) for _ in range(3)]
    lengths = np.full(5, 8)
    loss, saved = model.loss((parts[0], lengths, parts[1], lengths, parts[2], lengths,
                              np.zeros(5, int)))
    model.loss_backward(saved)
    outputs = [tower.forward(ids, lengths) for tower, ids in zip(towers, parts)]
    expected, saved_loss = triplet_loss(*(y for y, _ in outputs), margin=9.0)
    assert loss == expected
    for tower, (_, saved_tower), dy in zip(towers, outputs, triplet_loss_backward(1.0, saved_loss)):
        tower.backward(dy, saved_tower)
    for ours, *theirs in zip(model.parameters(), *(tower.parameters() for tower in towers)):
        np.testing.assert_allclose(ours.grad, sum(p.grad for p in theirs), rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("objective", ["triplet", "in_batch", "regression", "classification"])
@pytest.mark.parametrize("normalize", [False, True])
def test_a_diverged_model_has_no_finite_validation_loss(objective, normalize, rng):
    """Else a trainer would keep it as the best."""
    model = SentenceBert(SentenceBertConfig(**SIZES, objective=objective, normalize=normalize), rng)
    ids, lengths, labels = rng.integers(4, 20, (3, 8)), np.full(3, 8), np.array([0, 1, 2])
    parts = dict(a=ids, a_lengths=lengths, b=ids[::-1], b_lengths=lengths)
    if objective in ("triplet", "in_batch"):
        parts |= dict(c=ids, c_lengths=lengths)
    batch = Batch(**parts, labels=labels / 2 if objective == "regression" else labels)
    assert np.isfinite(mean_loss(model, [batch]))
    model.backbone.embedding.weight.data[...] = np.nan
    with pytest.raises(NotFinite, match="the validation loss is nan: parameter .* holds nan"):
        mean_loss(model, [batch])


def test_positives_of_the_same_topic_are_not_negatives(rng):
    model = SentenceBert(SentenceBertConfig(**SIZES, objective="in_batch", scale=5.0), rng)
    a, p, lengths = rng.integers(4, 20, (3, 8)), rng.integers(4, 20, (3, 8)), np.full(3, 8)
    z = 5 * cosine_similarity(model(a), model(p))[0]
    alone = [model.loss((a, lengths, p, lengths, p, lengths, np.array(topics)))[0]
             for topics in ([0, 1, 2], [0, 0, 0], [0, 0, 1])]
    np.testing.assert_allclose(alone[0],
                               np.mean([np.log(np.exp(z[i]).sum()) - z[i, i] for i in range(3)]),
                               rtol=1e-12)
    assert alone[1] == 0
    keep = [[0, 2], [1, 2], [0, 1, 2]]
    expected = np.mean([np.log(np.exp(z[i, keep[i]]).sum()) - z[i, i] for i in range(3)])
    np.testing.assert_allclose(alone[2], expected, rtol=1e-12)


def test_the_objectives_of_pairs_are_those_of_the_paper(rng):
    u, v, lengths = rng.integers(4, 20, (3, 8)), rng.integers(4, 20, (3, 8)), np.full(3, 8)
    model = SentenceBert(SentenceBertConfig(**SIZES, objective="regression"), rng)
    rated = np.array([1.0, 0.0, -0.5])
    cosines = np.diag(cosine_similarity(model(u), model(v))[0])
    np.testing.assert_allclose(model.loss((u, lengths, v, lengths, rated))[0],
                               np.square(cosines - rated).mean(), rtol=1e-12)
    model = SentenceBert(SentenceBertConfig(**SIZES, objective="classification", n_classes=4), rng)
    a, b = model(u), model(v)
    z = model.pair_head(np.concatenate([a, b, np.abs(a - b)], axis=1))
    classes = np.array([3, 0, 1])
    expected = np.mean(np.log(np.exp(z).sum(axis=1)) - z[np.arange(3), classes])
    np.testing.assert_allclose(model.loss((u, lengths, v, lengths, classes))[0], expected,
                               rtol=1e-12)
    with pytest.raises(ValueError, match="5 parts, of pairs, but 7"):
        model.loss((u, lengths, v, lengths, u, lengths, classes))


def test_topics_are_any_numbers(rng):
    model = SentenceBert(SentenceBertConfig(**SIZES, objective="in_batch"), rng)
    ids, lengths = rng.integers(4, 20, (3, 8)), np.full(3, 8)
    losses = [model.loss((ids, lengths, ids, lengths, ids, lengths, np.array(topics)))[0]
              for topics in ([0, 1, 0], [1_000_000, 3, 1_000_000])]
    assert losses[0] == losses[1]


def test_the_mean_of_a_text_leaves_out_its_padding(rng):
    model = SentenceBert(SentenceBertConfig(**SIZES), rng)
    ids, lengths = rng.integers(4, 20, (3, 8)), np.array([8, 1, 5])
    y, x = model(ids, lengths), model.backbone(ids, lengths=lengths)
    for b, n in enumerate(lengths):
        np.testing.assert_allclose(y[b], x[b, :n].mean(axis=0), rtol=1e-12)


def test_zero_vectors_have_finite_gradients():
    s, saved = cosine_similarity(np.array([[0.0, 0.0], [3.0, 0.0]]), np.array([[1.0, 1.0]]))
    np.testing.assert_allclose(s, [[0.0], [0.5 ** 0.5]])
    da, db = cosine_similarity_backward(np.ones((2, 1)), saved)
    assert np.isfinite(da).all() and (da[0] == 0).all() and np.isfinite(db).all()
    same = np.ones((2, 3))
    loss, saved = triplet_loss(same, same, same)
    assert loss == 1 and all((gradient == 0).all()
                             for gradient in triplet_loss_backward(1.0, saved))


def test_targets_of_a_cosine_may_be_opposite(rng):
    u = rng.standard_normal((2, 3))
    loss, _ = cosine_regression_loss(u, np.stack([u[0], -2 * u[1]]), np.array([1.0, -1.0]))
    assert loss == pytest.approx(0, abs=1e-30)


@pytest.mark.parametrize("call, error, words", [
    (lambda: cosine_similarity(np.ones((2, 3)), np.ones((2, 4))), ValueError, "C=3"),
    (lambda: cosine_similarity(np.ones(3), np.ones((2, 3))), ValueError, "(N, C)"),
    (lambda: cosine_similarity(np.ones((2, 3)), np.ones((2, 3), np.float32)), TypeError, "float64"),
    (lambda: pair_features(np.ones((2, 3)), np.ones((2, 4))), ValueError, "C=3"),
    (lambda: cosine_regression_loss(*np.ones((2, 2, 3)), np.ones(3)), ValueError, "B=2"),
    (lambda: cosine_regression_loss(*np.ones((2, 2, 3)), np.array([0.0, 5.0])), ValueError,
     "divide them by the largest"),
    (lambda: cosine_regression_loss(*np.ones((2, 2, 3)), np.array([1.0, 1.5])), ValueError,
     "targets must be cosines"),
    (lambda: cosine_regression_loss(*np.ones((2, 2, 3)), np.array([-1.0, -1.5])), ValueError,
     "targets must be cosines"),
    (lambda: cosine_regression_loss(*np.ones((2, 0, 3)), np.ones(0)), ValueError, "no pair"),
    (lambda: triplet_loss(np.ones((2, 3)), np.ones((3, 3)), np.ones((2, 3))), ValueError, "B=2"),
    (lambda: triplet_loss(*np.ones((3, 2, 3)), margin=0), ValueError, "margin=0"),
    (lambda: triplet_loss(*np.ones((3, 0, 3))), ValueError, "no triplet")])
def test_shapes_that_do_not_fit_are_refused(call, error, words):
    with pytest.raises(error) as caught:
        call()
    assert words in str(caught.value)
