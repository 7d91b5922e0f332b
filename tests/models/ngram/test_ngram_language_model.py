"""The n-gram model as a language model: loss, steps, costs, and what is saved of it."""

import numpy as np
import pytest

from numformer.generation import generate_batch
from numformer.models import KneserNey, NGramLanguageModel, NGramLanguageModelConfig


def model_of(V=5):
    return NGramLanguageModel(NGramLanguageModelConfig(vocab_size=V, context_length=8))


def test_the_loss_is_the_mean_over_the_targets_of_all_rows(rng):
    """A row begins with an input that is no target."""
    model, ids = model_of(), rng.integers(0, 5, 200)
    model.fit(ids, 3)
    blocks = ids[:18].reshape(2, 9)
    expected = [-np.log(model.counts.distribution(row[:t])[row[t]])
                for row in blocks for t in range(1, 9)]
    loss, saved = model.loss((blocks[:, :-1], blocks[:, 1:]))
    assert loss == pytest.approx(np.mean(expected), rel=1e-12) and saved is None
    assert model_of().loss((blocks[:, :-1], blocks[:, 1:]))[0] == pytest.approx(np.log(5))


def test_targets_that_are_ignored_do_not_count(rng):
    """Tokens in their place are history, as the inputs tell."""
    model, ids = model_of(), rng.integers(0, 5, 200)
    model.fit(ids, 3)
    row = ids[:9]
    targets = row[1:].copy()
    targets[[2, 7]] = -100
    expected = [-np.log(model.counts.distribution(row[:t])[row[t]]) for t in (1, 2, 4, 5, 6, 7)]
    batch = row[None, :-1], targets[None]
    assert model.loss(batch)[0] == pytest.approx(np.mean(expected), rel=1e-12)
    assert model_of().loss(batch)[0] == pytest.approx(np.log(5))
    for each in (model, model_of()):
        with pytest.raises(ValueError, match="every target is ignore_index=-100"):
            each.loss((batch[0], np.full((1, 8), -100)))


def test_costs_and_parameters_are_the_counts(rng):
    model, ids = model_of(), rng.integers(0, 5, 200)
    free = {"flops_per_token": 0, "training_flops_per_token": 0, "kv_bytes_per_token": 0}
    assert model.costs() == {**free, "parameters": 0, "active_parameters": 0, "state_bytes": 0}
    assert model.n == 0 and model.parameters() == [] and model.replica() is model
    model.fit(ids, 3)
    expected = KneserNey.fit(ids, 3, 5)
    assert [name for name, _ in model.named_parameters()] == ["counts.1", "counts.2", "counts.3"]
    for parameter, counts in zip(model.parameters(), expected.counts, strict=True):
        assert np.array_equal(parameter.data, counts)
    size = sum(map(len, expected.counts))
    assert model.costs() == {**free, "parameters": size, "active_parameters": 3, "state_bytes": 16}
    assert repr(model) == f"NGramLanguageModel({expected!r})"


def test_a_state_round_trips_also_before_the_first_step(rng):
    model, other, ids = model_of(), model_of(), rng.integers(0, 5, 200)
    assert model.state_dict() == {}
    model.fit(ids, 2)
    other.load_state_dict(model.state_dict())
    assert np.array_equal(other.step(ids[None, :8])[0], model.step(ids[None, :8])[0])
    other.load_state_dict({})
    assert other.counts is None and other.n == 0


@pytest.mark.parametrize("n", [0, 1, 3])
def test_an_ngram_model_steps_with_its_distribution(n, rng):
    model = model_of()
    ids = rng.integers(0, 5, 200)
    if n:
        model.fit(ids, n)
    logits, cache = model.step(ids[None, :4])
    more, after = model.step(ids[None, 4:6], cache)
    for t, z in enumerate(np.concatenate([logits, more], axis=1)[0]):
        wanted = model.counts.distribution(ids[:t + 1]) if n else np.full(5, 0.2)
        np.testing.assert_allclose(np.exp(z), wanted, rtol=1e-12)
    assert after[0].tolist() == ids[6 - max(0, n - 1):6].tolist()
    padded, caches = model.step(np.array([[0, 0, 3], [1, 2, 3]]), left_padding=np.array([2, 0]))
    np.testing.assert_array_equal(padded[0, 2], model.step(np.array([[3]]))[0][0, 0])
    assert [len(c) for c in caches] == [min(1, max(0, n - 1)), min(3, max(0, n - 1))]
    loss = model.loss((ids[None, :7], ids[None, 1:8]))[0]
    z = model.step(ids[None, :7])[0][0]
    assert loss == pytest.approx(-z[np.arange(7), ids[1:8]].mean(), rel=1e-12)
    assert np.stack(list(generate_batch(model, [ids[:3], ids[:1]], 12,
                                        temperature=0))).shape == (12, 2)


def test_counts_of_another_vocabulary_are_refused(rng):
    model, other = model_of(5), model_of(6)
    model.fit(rng.integers(0, 5, 100), 2)
    with pytest.raises(ValueError, match="vocab_size=5, not 6"):
        other.load_state_dict(model.state_dict())
    with pytest.raises(ValueError, match="vocab_size=0"):
        NGramLanguageModelConfig(vocab_size=0, context_length=8)
