"""BatchNorm in an encoder: padding, statistics of training and of inference, and shards."""

import numpy as np
import pytest

from numformer.layers import BatchNorm
from numformer.models import (
    BertClassifier, BertClassifierConfig, BertEncoder, BertEncoderConfig, DecoderConfig)
from numformer.models.transformer import BatchNormsOfCall, running_statistics

SIZES = dict(vocab_size=9, context_length=8, n_layers=2, n_heads=2, d_model=8, dtype="float64",
             norm="batch_norm", epsilon=1e-5)
IDS = np.array([[1, 5, 2, 7, 0, 0], [1, 6, 6, 3, 8, 2], [1, 4, 0, 0, 0, 0]])
LENGTHS = np.array([4, 6, 2])


def encoder(rng, **options):
    return BertEncoder(BertEncoderConfig(**{**SIZES, **options}), rng)


@pytest.mark.parametrize("norm_first", [True, False])
def test_padding_is_in_no_statistic(norm_first, rng):
    model, other = encoder(rng, norm_first=norm_first), IDS.copy()
    other[np.arange(6) >= LENGTHS[:, None]] = 8                       # other padding
    calls = [BatchNormsOfCall(), BatchNormsOfCall()]
    one, two = (model.forward(ids, lengths=LENGTHS, batch_norms=call)[0]
                for ids, call in zip((IDS, other), calls))
    real = np.arange(6) < LENGTHS[:, None]
    np.testing.assert_allclose(one[real], two[real], rtol=1e-12)
    for a, b in zip(*(call.updated() for call in calls)):
        np.testing.assert_allclose(a.mean, b.mean, atol=1e-14)
    assert len(calls[0].saved) == 1 + 4 + norm_first                  # embedding, branches, final


@pytest.mark.parametrize("norm_first", [True, False])
def test_texts_depend_on_each_other_in_training_and_not_in_inference(norm_first, rng):
    model, other = encoder(rng, norm_first=norm_first), IDS.copy()
    other[1, 1:] = 3
    first = [model(ids, lengths=LENGTHS)[0, :4] for ids in (IDS, other)]
    assert np.abs(first[0] - first[1]).max() > 1e-3
    model.statistics = running_statistics(model, [dict(ids=IDS, lengths=LENGTHS)] * 2)
    first = [model(ids, lengths=LENGTHS)[0, :4] for ids in (IDS, other)]
    np.testing.assert_allclose(*first, rtol=1e-12)
    alone = model(IDS[:1, :4])[0]
    np.testing.assert_allclose(alone, first[0], rtol=1e-12)


def test_running_statistics_are_those_of_the_norms_by_hand(rng):
    model = encoder(rng, n_layers=1)
    (of_embedding, *rest) = running_statistics(model, [dict(ids=IDS)])
    x = model.embedding(IDS)
    x = model.positions(x) + model.segments(np.zeros_like(IDS))
    np.testing.assert_allclose(of_embedding.mean, x.mean(axis=(0, 1)), atol=1e-15)
    np.testing.assert_allclose(of_embedding.variance, x.var(axis=(0, 1), ddof=1), rtol=1e-12)
    assert len(rest) == 2 and all(type(norm) is BatchNorm for norm in (
        model.norm, model.encoder.blocks[0].norm1, model.encoder.blocks[0].norm2))


def test_statistics_of_another_model_are_refused(rng):
    model = encoder(rng)
    model.statistics = running_statistics(encoder(rng, n_layers=1), [dict(ids=IDS)])
    with pytest.raises(ValueError, match="3 statistics came for more BatchNorms"):
        model(IDS)
    call = BatchNormsOfCall()
    encoder(rng).forward(IDS, batch_norms=call)
    with pytest.raises(ValueError, match="is longer than"):
        call.updated(model.statistics)


def test_a_forward_leaves_nothing_in_the_model_and_its_replica_has_the_statistics(rng):
    model = BertClassifier(BertClassifierConfig(**SIZES, n_classes=3), rng)
    before = model(IDS, LENGTHS)
    np.testing.assert_array_equal(model(IDS, LENGTHS), before)
    model.backbone.statistics = running_statistics(model.backbone, [dict(ids=IDS)])
    inferred = model(IDS, LENGTHS)
    assert np.abs(inferred - before).max() > 1e-6
    np.testing.assert_array_equal(model.replica()(IDS, LENGTHS), inferred)


def test_decoders_have_no_batch_norm():
    with pytest.raises(ValueError, match="norm='batch_norm'"):
        DecoderConfig(vocab_size=5, context_length=8, n_layers=1, n_heads=1, d_model=4,
                      norm="batch_norm")
