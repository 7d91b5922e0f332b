"""Recurrent and convolutional language models: steps, texts side by side, causality, what they can
see, what they cost.
"""

import numpy as np
import pytest

from numformer.generation import choose_token, context_start, generate, generate_batch
from numformer.analysis import count
from numformer.models import (
    ConvolutionLanguageModel, ConvolutionLanguageModelConfig, RecurrentLanguageModel,
    RecurrentLanguageModelConfig)
from numformer.models.recurrent.language_model import CELLS

SIZES = dict(vocab_size=9, context_length=8, n_layers=2, d_model=6, dtype="float64")
CONFIGS = {
    **{cell: RecurrentLanguageModelConfig(**SIZES, cell=cell) for cell in CELLS},
    "cnn": ConvolutionLanguageModelConfig(**{**SIZES, "n_layers": 3}, doublings=1),
    "cnn, untied": ConvolutionLanguageModelConfig(
        **SIZES, kernel_width=2, tied=False),
}


@pytest.fixture(params=CONFIGS)
def model(request, rng):
    config = CONFIGS[request.param]
    kind = RecurrentLanguageModel if request.param in CELLS else ConvolutionLanguageModel
    model = kind(config, rng)
    for parameter in model.parameters():  # away from small first weights
        parameter.data += 0.2 * rng.standard_normal(parameter.data.shape)
    return model


@pytest.mark.parametrize("chunks", [[8], [1] * 8, [3, 1, 4], [7, 1]])
def test_steps_equal_the_forward(model, chunks, rng):
    ids, cache, pieces, start = rng.integers(0, 9, (3, 8)), None, [], 0
    for length in chunks:
        logits, cache = model.step(ids[:, start:start + length], cache)
        pieces.append(logits)
        start += length
    np.testing.assert_allclose(np.concatenate(pieces, axis=1), model(ids), rtol=1e-12, atol=1e-13)


def test_a_step_does_not_change_its_cache(model):
    _, cache = model.step(np.array([[1, 2]]))
    first, _ = model.step(np.array([[3]]), cache)
    model.step(np.array([[4, 5]]), cache)
    assert np.array_equal(model.step(np.array([[3]]), cache)[0], first)


@pytest.mark.parametrize("prompt", [1, 5, 8, 13])
def test_sampled_text_is_the_same_without_a_cache(model, prompt, rng):
    text = list(rng.integers(0, 9, prompt))
    written = list(generate(model, np.array(text), 20, np.random.default_rng(5)))
    draw = np.random.default_rng(5)
    for _ in range(20):
        text.append(choose_token(model(np.array([text[context_start(len(text), 8):]]))[0, -1],
                                 draw))
    assert text[prompt:] == written


def test_texts_of_a_batch_equal_texts_alone(model, rng):
    prompts = [rng.integers(0, 9, length) for length in (1, 5, 3, 11)]
    rngs = [np.random.default_rng(k) for k in range(4)]
    together = np.stack(list(generate_batch(model, prompts, 15, rngs)), axis=1)
    alone = [list(generate(model, prompt, 15, np.random.default_rng(k)))
             for k, prompt in enumerate(prompts)]
    assert together.tolist() == alone


def test_left_padding_changes_nothing(model):
    one, cache = model.step(np.array([[0, 0, 3], [1, 2, 3]]), left_padding=np.array([2, 0]))
    other, _ = model.step(np.array([[7, 8, 3], [1, 2, 3]]), left_padding=np.array([2, 0]))
    assert np.array_equal(one, other) and not one[0, :2].any()
    assert (np.array_equal(one[0, 2], model.step(np.array([[3]]))[0][0, 0])
            and all(len(state) == 2 for state in cache))
    alone, _ = model.step(np.array([[7, 8, 3]]), left_padding=np.array([2]))
    assert alone.shape == (1, 3, 9) and np.array_equal(alone[0], one[0])


def test_later_tokens_do_not_change_earlier_logits(model, rng):
    ids = rng.integers(0, 9, (1, 8))
    changed = ids.copy()
    changed[0, 5:] = (ids[0, 5:] + 1) % 9
    logits, after = model(ids), model(changed)
    np.testing.assert_allclose(after[:, :5], logits[:, :5], rtol=1e-13, atol=1e-14)
    assert (after[:, 5:] != logits[:, 5:]).any(axis=2).all()


def test_the_receptive_field_of_convolutions(rng):
    model = ConvolutionLanguageModel(CONFIGS["cnn"], rng)  # distances 1, 2, 1 of windows of three
    assert model.reach == 2 * (1 + 2 + 1)
    ids = rng.integers(0, 9, (1, 12))
    logits, felt = model(ids), []
    for t in range(12):
        changed = ids.copy()
        changed[0, t] = (ids[0, t] + 1) % 9
        felt.append(not np.array_equal(model(changed)[0, -1], logits[0, -1]))
    assert felt == [False] * 3 + [True] * 9


def test_dropout_needs_a_generator(rng):
    for kind, config in ((RecurrentLanguageModel, RecurrentLanguageModelConfig),
                         (ConvolutionLanguageModel, ConvolutionLanguageModelConfig)):
        model, ids = kind(config(**SIZES, dropout=0.5), rng), rng.integers(0, 9, (2, 8))
        assert np.array_equal(model(ids), model(ids))
        one, other = (model(ids, rng=np.random.default_rng(seed)) for seed in (0, 1))
        assert (not np.array_equal(one, other)
                and np.array_equal(one, model(ids, rng=np.random.default_rng(0))))


def test_counts_equal_real_models(model):
    costs, c = count(model.config), model.config
    size = sum(p.data.size for p in model.parameters())
    assert costs["parameters"] == costs["active_parameters"] == size
    weights = sum(p.data.size for p in model.parameters() if p.data.ndim > 1)
    weights -= 0 if c.tied else 9 * 6
    assert (costs["flops_per_token"] == 2 * weights
            and costs["training_flops_per_token"] == 6 * weights)
    _, states = model.step(np.array([[1]]))
    assert (costs["state_bytes"] == sum(state.nbytes for state in states)
            and costs["kv_bytes_per_token"] == 0)


@pytest.mark.parametrize("options, words", [
    (dict(n_layers=0), "n_layers=0"), (dict(vocab_size=2.5), "vocab_size=2.5"),
    (dict(tied=2), "tied=2"), (dict(dropout=1), "dropout=1"),
    (dict(dtype="int8"), "'float32', 'float64'"), (dict(init_std=-1), "init_std=-1")])
@pytest.mark.parametrize("config", [RecurrentLanguageModelConfig, ConvolutionLanguageModelConfig])
def test_options_out_of_range_are_refused(config, options, words):
    with pytest.raises(ValueError) as caught:
        config(**{**SIZES, **options})
    assert words in str(caught.value) and config.__name__ in str(caught.value)


def test_unknown_cells_and_kernel_widths_are_refused():
    with pytest.raises(ValueError,
                       match="cell='elman' is unknown; choose from 'rnn', 'lstm', 'gru'"):
        RecurrentLanguageModelConfig(**SIZES, cell="elman")
    for name in ("kernel_width", "doublings"):
        with pytest.raises(ValueError, match=f"{name}=0"):
            ConvolutionLanguageModelConfig(**SIZES, **{name: 0})


def test_a_cache_of_another_batch_is_refused(model):
    _, cache = model.step(np.array([[1], [2]]))
    with pytest.raises(ValueError, match="B=1 sequences; begin with cache=None"):
        model.step(np.array([[1]]), cache)
