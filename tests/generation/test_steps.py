"""Every registered model with a `step`: it continues sequences as its forward reads them, and a
text is the same alone, in a batch, and without a cache.
"""

import inspect

import numpy as np
import pytest

from marks import every
from numformer.generation import (
    beam_search, choose_token, context_start, generate, generate_batch, greedy_search,
    pooled_beam_search)
from numformer.models import KINDS, NGramLanguageModel, NGramLanguageModelConfig
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


# ---- a text is the same alone, in a batch, and without a cache -----------------------------------

PROMPTS = 2, 1, 5                                                     # tokens
NEW = 6


def counted():
    """An n-gram model, which is no layer of the registry."""
    config = NGramLanguageModelConfig(vocab_size=5, context_length=6)
    model = NGramLanguageModel(config)
    model.fit(np.random.default_rng(0).integers(0, 5, 200), 3)
    return model


def prompts_of(config):
    """Prompts below the size of the vocabulary; the longest ends beyond the context."""
    rng, longest = np.random.default_rng(3), config.context_length + 1
    return [rng.integers(0, config.vocab_size, n) for n in (*PROMPTS, longest)]


@pytest.mark.parametrize("build", [case.layer for case in CASES] + [counted],
                         ids=[case.name for case in CASES] + ["n-grams that are counted"])
@pytest.mark.parametrize("options", every(2, [
    dict(temperature=0.8, top_p=0.95), dict(temperature=0)]), ids=["sampled", "greedy"])
def test_a_text_is_the_same_alone_in_a_batch_and_without_a_cache(build, options):
    model = build()
    prompts = prompts_of(model.config)
    without_cache = model if callable(model) else lambda ids: model.step(ids)[0]
    rngs = [[np.random.default_rng(seed) for seed in range(len(prompts))] for _ in range(3)]
    alone = [list(generate(model, ids, NEW, rng, **options)) for ids, rng in zip(prompts, rngs[0])]
    batch = np.stack(list(generate_batch(model, prompts, NEW, rngs[1], **options)), axis=1)
    assert batch.tolist() == alone
    for ids, rng, found in zip(prompts, rngs[2], alone):
        text = ids.tolist()
        for token in found:
            seen = text[context_start(len(text), model.config.context_length):]
            assert choose_token(without_cache(np.array([seen]))[0, -1], rng, **options) == token
            text.append(token)


ANSWERING = [case for case in MODELS if hasattr(case.layer(), "begin")]
SOURCES = [[4, 1, 2], [3], [1, 2]]


@pytest.mark.parametrize("case", ANSWERING, ids=lambda case: case.name)
def test_an_answer_is_the_same_alone_in_a_batch_and_without_a_cache(case):
    """Greedily, and by both beam searches; of models with an encoder."""
    model = case.layer()
    together = greedy_search(model, SOURCES, 0, 1, 2, max_tokens=4)
    for source, answer in zip(SOURCES, together):
        assert answer.tolist() == greedy_search(model, [source], 0, 1, 2, max_tokens=4)[0].tolist()
        outputs = [1]
        for token in [*answer, 2][:4]:
            logits = model(np.array([source]), np.array([len(source)]), np.array([outputs]))
            assert logits[0, -1].argmax() == token
            outputs.append(token)
    for search in (beam_search, pooled_beam_search):
        together = search(model, SOURCES, 0, 1, 2, beams=3, max_tokens=4)
        for source, found in zip(SOURCES, together):
            alone, = search(model, [source], 0, 1, 2, beams=3, max_tokens=4)
            if search is beam_search:
                assert found.tolist() == alone.tolist()
            else:
                assert [each.ids for each in found] == [each.ids for each in alone]


def test_all_kinds_of_decoding_models_are_tried():
    kinds = {type(case.layer()).__name__ for case in (*CASES, *ANSWERING)} | {
        type(counted()).__name__}
    steps = {name for name, (kind, _) in KINDS.items() if hasattr(kind, "step")}
    assert kinds == steps
    experts = [case for case in (*CASES, *ANSWERING)
               if getattr(case.layer().config, "capacity_factor", 0)]
    assert len(experts) == 2
