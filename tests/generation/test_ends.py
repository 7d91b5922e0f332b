"""Texts of decoders that end, and beam search from prompts."""

from itertools import product

import numpy as np
import pytest

from marks import quick_among
from numformer import models
from numformer.functional import log_softmax
from numformer.generation import beam_search_prompts, generate, generate_batch
from numformer.generation.beam_search import Hypothesis, penalized
from numformer.models import Decoder, DecoderConfig

V, END = 4, 2
PROMPTS = [np.array([3, 1, 0]), np.array([1]), np.array([0, 0])]


def model_of(**options):
    sizes = dict(vocab_size=V, context_length=16, n_layers=2, n_heads=2, d_model=8)
    model = Decoder(DecoderConfig(**sizes, dtype="float64", **options), np.random.default_rng(0))
    rng = np.random.default_rng(1)
    for parameter in model.parameters():
        parameter.data += 0.4 * rng.standard_normal(parameter.data.shape)
    return model


def all_continuations(model, prompt, longest):
    """Every continuation that ends within so many tokens, and those that are cut there."""
    ended, cut = [], []
    others = [token for token in range(V) if token != END]
    for length in range(longest + 1):
        for ids in product(others, repeat=length):
            written = [*ids, *[END] * (length < longest)]
            text = np.array([[*prompt, *written]])
            log_p, _ = log_softmax(model(text)[0, len(prompt) - 1:-1])
            sums = float(log_p[np.arange(len(written)), written].sum())
            (ended if length < longest else cut).append(Hypothesis(ids, sums, len(written)))
    return ended, cut


@pytest.mark.parametrize("options", [dict(), dict(sandwich_norm=True)],
                         ids=["compiled step", "layers"])
@pytest.mark.parametrize("length_penalty", quick_among([0.0, 1.5], [1.5]))
def test_beams_for_all_continuations_are_exhaustive(options, length_penalty):
    """Of prompts of other lengths at once, with either cache."""
    model = model_of(**options)
    found = beam_search_prompts(model, PROMPTS, END, beams=V ** 4, max_tokens=4,
                                length_penalty=length_penalty)
    for prompt, ids in zip(PROMPTS, found, strict=True):
        ended, _ = all_continuations(model, prompt, 4)
        best = max(ended, key=lambda hypothesis: penalized(hypothesis, length_penalty))
        assert ids.tolist() == list(best.ids)


def test_one_beam_is_greedy_and_cut_after_max_tokens():
    model = model_of()
    for end in (END, None):
        found = beam_search_prompts(model, PROMPTS, end, beams=1, max_tokens=9)
        for prompt, ids in zip(PROMPTS, found):
            assert ids.tolist() == list(generate(model, prompt, 9, temperature=0, end=end))
    one, = beam_search_prompts(model, PROMPTS[:1], END, beams=1, max_tokens=1)
    assert len(one) <= 1


def test_a_text_ends_before_its_end(rng):
    """With the same draws it is the text without an end, cut there."""
    model, lengths = model_of(), []
    for seed in range(12):
        without = list(generate(model, PROMPTS[0], 12, np.random.default_rng(seed)))
        found = list(generate(model, PROMPTS[0], 12, np.random.default_rng(seed), end=END))
        assert found == without[:without.index(END) if END in without else None]
        lengths.append(len(found))
    assert len(set(lengths)) > 2


def test_texts_that_have_ended_wait_for_the_others():
    model = model_of()

    def rngs():
        return [np.random.default_rng(seed) for seed in range(3)]

    alone = [list(generate(model, prompt, 30, rng, end=END))
             for prompt, rng in zip(PROMPTS, rngs())]
    rows = np.stack(list(generate_batch(model, PROMPTS, 30, rngs(), end=END)), axis=1)
    longest = max(map(len, alone))
    assert rows.shape == (3, longest) and len(set(map(len, alone))) > 1
    for row, ids in zip(rows.tolist(), alone):
        assert row == ids + [END] * (longest - len(ids))


@pytest.mark.parametrize("call, words", [
    (lambda m: list(generate(m, PROMPTS[0], 3, temperature=0, end=V)), "end"),
    (lambda m: beam_search_prompts(m, PROMPTS, -1), "end"),
    (lambda m: beam_search_prompts(m, [], END), "at least one"),
    (lambda m: beam_search_prompts(m, [np.array([], int)], END), "empty"),
    (lambda m: beam_search_prompts(m, PROMPTS, END, max_tokens=14), "context_length of 16"),
    (lambda m: beam_search_prompts(m, [np.array([V])], END), "prompts"),
    (lambda m: beam_search_prompts(m, PROMPTS, END, beams=0), "beams")])
def test_bad_values_are_errors(call, words):
    with pytest.raises(ValueError, match=words):
        call(model_of())


@pytest.mark.parametrize("name", [
    "ConvolutionLanguageModel", "NGramDecoder", "NGramLanguageModel", "RecurrentLanguageModel"])
def test_a_model_whose_cache_has_no_rows_is_refused(name, rng):
    sizes = dict(vocab_size=V, context_length=16)
    if name != "NGramLanguageModel":
        sizes |= dict(n_layers=1, d_model=8)
    if name == "NGramDecoder":
        sizes |= dict(n_heads=1)
    model_class = getattr(models, name)
    model = model_class(model_class.config_class(**sizes), rng)
    with pytest.raises(TypeError, match=rf"the cache of {name} has no rows\(order\).* a Decoder"):
        beam_search_prompts(model, PROMPTS[:1], END, max_tokens=5)


def test_a_model_of_sources_is_refused(rng):
    config = models.EncoderDecoderConfig(vocab_size=V, context_length=16, n_layers=1, n_heads=1,
                                         d_model=8)
    with pytest.raises(TypeError, match="EncoderDecoder reads sources and not prompts"):
        beam_search_prompts(models.EncoderDecoder(config, rng), PROMPTS, END, max_tokens=5)
