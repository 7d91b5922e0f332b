"""Every registered model with a `step`: it continues sequences as its forward reads them."""

import inspect

import numpy as np
import pytest

from numformer.verify.registry import MODELS


def steps_alone(case):
    """Whether `step` takes token ids, a cache and left padding, and nothing else."""
    step = getattr(case.layer(), "step", None)
    if step is None:
        return False
    return [*inspect.signature(step).parameters][:3] == ["ids", "cache", "left_padding"]


CASES = [case for case in MODELS if steps_alone(case)]


@pytest.fixture(params=CASES, ids=lambda case: case.name)
def case(request):
    return request.param


def rows(case, T=5):
    """Ids (2, T) below the size of the vocabulary."""
    vocab_size = case.layer().config.vocab_size
    return np.random.default_rng(0).integers(0, vocab_size, (2, T))


def test_language_models_are_among_the_cases():
    assert len(CASES) >= 10


def test_steps_of_any_length_give_the_logits_of_the_forward(case):
    model, ids = case.layer(), rows(case)
    expected = model(ids)
    first, cache = model.step(ids[:, :2])
    second, cache = model.step(ids[:, 2:3], cache)
    third, _ = model.step(ids[:, 3:], cache)
    found = np.concatenate([first, second, third], axis=1)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


def test_a_cache_can_be_used_twice(case):
    model, ids = case.layer(), rows(case)
    _, cache = model.step(ids[:, :3])
    first, second = model.step(ids[:, 3:4], cache)[0], model.step(ids[:, 3:4], cache)[0]
    assert np.array_equal(first, second)
    other, expected = model.step(ids[:, 4:], cache)[0], model(np.delete(ids, 3, axis=1))[:, 3:]
    np.testing.assert_allclose(other, expected, rtol=1e-10, atol=1e-12)


def test_left_padding_changes_nothing(case):
    model, ids = case.layer(), rows(case)
    padding = np.array([2, 0])
    padded, cache = model.step(ids[:, :4], left_padding=padding)
    after, _ = model.step(ids[:, 4:], cache)
    for row, pad in enumerate(padding):
        alone = model(ids[row:row + 1, pad:])[0]                      # (T - pad, V)
        found = np.concatenate([padded[row, pad:], after[row]])
        np.testing.assert_allclose(found, alone, rtol=1e-10, atol=1e-12)
