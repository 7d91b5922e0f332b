"""Vectors and probabilities of a vocabulary in clusters: by hand, tied, and what is refused."""

import numpy as np
import pytest

from numformer.functional import softmax
from numformer.layers import AdaptiveEmbedding, AdaptiveSoftmax


@pytest.fixture
def embedding(rng):
    return AdaptiveEmbedding(10, 4, (3, 6), rng, factor=2, dtype=float)


def test_each_token_has_the_vector_of_its_cluster_mapped_to_the_width_of_the_model(rng):
    embedding = AdaptiveEmbedding(10, 4, (3, 6), rng, factor=2, dtype=float)
    assert [table.weight.data.shape for table in embedding.tables] == [(3, 4), (3, 2), (4, 1)]
    ids = rng.permutation(10).reshape(2, 5)
    y = embedding(ids)
    for token, vector in zip(ids.flat, y.reshape(10, 4)):
        i = sum(token >= first for first in (3, 6))
        row = embedding.tables[i].weight.data[token - (0, 3, 6)[i]]
        np.testing.assert_allclose(vector, row @ embedding.projections[i].weight.data)


def test_rare_tokens_have_probabilities_in_two_steps(embedding, rng):
    layer, x = AdaptiveSoftmax(embedding, rng, std=1.0), rng.standard_normal((10, 4))
    first, second, third = (table.weight.data for table in embedding.tables)
    _, W_2, W_3 = (projection.weight.data for projection in embedding.projections)
    head = softmax(x @ np.concatenate([first, layer.clusters.data]).T)[0]           # (10, 3 + 2)
    expected = np.concatenate([
        head[:, :3], head[:, 3:4] * softmax(x @ W_2.T @ second.T)[0],
        head[:, 4:5] * softmax(x @ W_3.T @ third.T)[0]], axis=1)
    np.testing.assert_allclose(np.exp(layer.log_probabilities(x)), expected)
    np.testing.assert_allclose(expected.sum(axis=1), 1)
    targets = rng.permutation(10)
    np.testing.assert_allclose(np.exp(layer(x, targets)), expected[np.arange(10), targets])


def test_vectors_and_projections_are_tied_but_not_the_first_matrix(embedding, rng):
    layer = AdaptiveSoftmax(embedding, rng)
    own = {id(parameter) for parameter in layer.parameters()}
    shared = [id(parameter) in own for parameter in embedding.parameters()]
    names = [name for name, _ in embedding.named_parameters()]
    assert [name for name, is_shared in zip(names, shared) if not is_shared] == [
        "projections.0.weight"]
    _, saved = layer.forward(rng.standard_normal((1, 4)), np.array([9]))
    layer.backward(np.ones(1), saved)
    assert np.any(embedding.tables[2].weight.grad) and np.any(embedding.projections[2].weight.grad)
    assert not np.any(embedding.tables[1].weight.grad), "no target of the second cluster"


@pytest.mark.parametrize("options, error, words", [
    (dict(cutoffs=()), ValueError, "at least one number"),
    (dict(cutoffs=(6, 3)), ValueError, "rise between 1 and vocab_size - 1 = 9"),
    (dict(cutoffs=(3, 10)), ValueError, "rise between 1"),
    (dict(cutoffs=(0, 3)), ValueError, "cutoffs"),
    (dict(cutoffs=(2.5,)), ValueError, "cutoffs=2.5"),
    (dict(cutoffs=(3, 6), factor=4), ValueError, "divided by factor=4 2 times is below 1"),
    (dict(cutoffs=(3,), factor=0), ValueError, "factor")])
def test_clusters_that_cannot_be_are_refused(options, error, words, rng):
    with pytest.raises(error, match=f"AdaptiveEmbedding: .*{words}"):
        AdaptiveEmbedding(10, 4, rng=rng, **options)


def test_a_softmax_of_other_embeddings_and_targets_out_of_range_are_refused(embedding, rng):
    with pytest.raises(TypeError, match="must be an AdaptiveEmbedding"):
        AdaptiveSoftmax(embedding.tables[0], rng)
    layer = AdaptiveSoftmax(embedding, rng)
    with pytest.raises(ValueError, match="0 .. 9"):
        layer(np.ones((1, 4)), np.array([10]))
