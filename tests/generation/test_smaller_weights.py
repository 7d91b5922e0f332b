"""Text from weights of fewer bits: what the rounded model predicts, alone and side by side."""

import numpy as np
import pytest

from decoders import STYLES, decoder_of
from numformer import backend
from numformer.finite import NotFinite
from numformer.generation import generate, generate_batch, rounded_weights
from numformer.layers.token_step import UnknownPart
from numformer.models import (
    Decoder, DecoderConfig, RecurrentLanguageModel, RecurrentLanguageModelConfig)

pytest.importorskip("numba")
WEIGHTS = ["bfloat16", "int8"]
KNOWN = [name for name in STYLES if name != "2017"]           # post-norm blocks are unknown


def moved(model, rng):
    for parameter in model.parameters():
        noise = 0.2 * rng.standard_normal(parameter.data.shape)
        parameter.data += noise.astype(parameter.data.dtype)
    return model


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("style", KNOWN)
def test_logits_are_those_of_the_rounded_model(style, weights, rng):
    model = moved(decoder_of(STYLES[style], rng), rng)
    ids, before = rng.integers(0, 9, (3, 8)), model.state_dict()
    plain, _ = model.step(ids)
    found, cache = model.step(ids[:, :5], model.new_cache(weights))
    later, _ = model.step(ids[:, 5:], cache)
    found = np.concatenate([found, later], axis=1)
    with rounded_weights(model, weights):
        wanted = model(ids)
        assert not np.array_equal(model.blocks[0].attention.query.weight.data,
                                  before["blocks.0.attention.query.weight"])
    np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-11)
    assert abs(found - plain).max() > 1e-5
    after = model.state_dict()
    assert all(np.array_equal(before[name], after[name]) for name in before)
    alone, _ = model.step(ids[1:2], model.new_cache(weights))
    assert np.array_equal(alone[0], found[1])


@pytest.mark.parametrize("weights", WEIGHTS)
def test_float32_models_too_in_panels_of_any_width(weights, rng):
    model = moved(Decoder(DecoderConfig(vocab_size=50, context_length=60, n_layers=2, n_heads=2,
                                        d_model=40), rng), rng)
    ids = rng.integers(0, 50, (9, 30))
    found, _ = model.step(ids, model.new_cache(weights))
    with rounded_weights(model, weights):
        np.testing.assert_allclose(found, model(ids), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("weights", WEIGHTS)
def test_texts_are_those_of_the_rounded_model(weights, rng):
    """Beyond the context too: a text that begins anew keeps its weights."""
    model = moved(decoder_of(STYLES["LLaMA"], rng), rng)
    prompts = [rng.integers(0, 9, n) for n in (3, 1, 8)]
    together = np.stack(list(generate_batch(model, prompts, 15, temperature=0, weights=weights)))
    with rounded_weights(model, weights):
        for prompt, text in zip(prompts, together.T):
            assert list(generate(model, prompt, 15, temperature=0)) == text.tolist()


def test_what_the_compiled_step_does_not_know_is_refused(rng):
    model, known = decoder_of(STYLES["2017"], rng), decoder_of(STYLES["GPT-2"], rng)
    with pytest.raises(UnknownPart, match="needs the compiled step"):
        next(generate(model, np.array([1]), 3, temperature=0, weights="int8"))
    with pytest.raises(UnknownPart, match="does not know a part of this Decoder"):
        with rounded_weights(model, "int8"):
            pass
    recurrent = RecurrentLanguageModel(RecurrentLanguageModelConfig(
        vocab_size=9, context_length=8, n_layers=1, d_model=8), rng)
    with pytest.raises(UnknownPart, match="does not know a RecurrentLanguageModel"):
        next(generate(recurrent, np.array([1]), 3, temperature=0, weights="int8"))
    for wrong in ("int4", "float32", 8):
        with pytest.raises(ValueError, match="weights"):
            known.new_cache(wrong)
        with pytest.raises(ValueError, match="weights"):
            with rounded_weights(known, wrong):
                pass
    with backend.using("numpy"), pytest.raises(UnknownPart, match="is off"):
        known.new_cache("bfloat16")


def test_weights_come_back_after_an_error(rng):
    model = decoder_of(STYLES["GPT-2"], rng)
    before, head = model.state_dict(), model.head
    with pytest.raises(KeyboardInterrupt):
        with rounded_weights(model, "int8"):
            raise KeyboardInterrupt
    after = model.state_dict()
    assert model.head is head and all(np.array_equal(before[name], after[name]) for name in before)
    model.blocks[1].feedforward.hidden.weight.data[0, 0] = np.inf
    with pytest.raises(ValueError, match="NaN or Inf"):
        with rounded_weights(model, "int8"):
            pass
    assert np.array_equal(model.blocks[0].attention.query.weight.data,
                          before["blocks.0.attention.query.weight"])
    with pytest.raises(ValueError, match="NaN or Inf"):
        model.new_cache("int8")


@pytest.mark.parametrize("weights", WEIGHTS)
def test_a_weight_that_is_not_finite_is_named(weights, rng):
    model = decoder_of(STYLES["GPT-2"], rng)
    model.blocks[0].feedforward.hidden.weight.data[0, 1] = np.nan
    with pytest.raises(NotFinite, match=r"blocks\.0\.feedforward\.hidden\.weight holds nan"):
        next(generate(model, np.array([1]), 3, temperature=0, weights=weights))
