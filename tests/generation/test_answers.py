"""Several sampled answers to each prompt."""

import numpy as np
import pytest

from numformer import models
from numformer.functional import IGNORE_INDEX, token_log_probs
from numformer.generation import generate, generate_batch, sample_answers
from numformer.models import Decoder, DecoderConfig

V, END, MOST = 5, 2, 10
PROMPTS = [np.array([3, 1, 0]), np.array([1]), np.array([0, 0, 4, 1, 3])]


def model_of(**options):
    sizes = dict(vocab_size=V, context_length=16, n_layers=2, n_heads=2, d_model=8)
    model = Decoder(DecoderConfig(**sizes, **options), np.random.default_rng(0))
    rng = np.random.default_rng(1)
    for parameter in model.parameters():
        parameter.data += 0.4 * rng.standard_normal(parameter.data.shape).astype(np.float32)
    return model


MODELS = {"learned positions": {}, "rotary": dict(positions="rotary"),
          "alibi": dict(positions="alibi")}


@pytest.mark.parametrize("options", MODELS.values(), ids=MODELS)
def test_answers_are_those_of_one_text_at_a_time_to_the_bit(options):
    model = model_of(**options)
    answers = sample_answers(model, PROMPTS, 6, MOST, np.random.default_rng(7), end=END)
    rng, lengths = np.random.default_rng(7), set()                    # whose next child is used
    for p, prompt in enumerate(PROMPTS):
        for g in range(6):
            alone = sample_answers(model, [prompt], 1, MOST, rng, end=END)
            n = alone.lengths[0, 0]
            assert np.array_equal(answers.ids[p, g, :n], alone.ids[0, 0])
            assert np.array_equal(answers.log_probs[p, g, :n], alone.log_probs[0, 0])
            assert (answers.ids[p, g, n:] == IGNORE_INDEX).all()
            assert (answers.log_probs[p, g, n:] == 0).all()
            assert answers.ended[p, g] == alone.ended[0, 0] and answers.lengths[p, g] == n
            lengths.add((int(n), bool(answers.ended[p, g])))
    assert len(lengths) > 4 and (MOST, False) in lengths              # of many lengths, and cut off
    rngs = np.random.default_rng(7).spawn(18)
    repeated = [prompt for prompt in PROMPTS for _ in range(6)]
    steps = np.stack(list(generate_batch(model, repeated, MOST, rngs, end=END)), axis=1)
    for text, row in zip(steps, answers.ids.reshape(18, -1)):
        counts = (row != IGNORE_INDEX) & (row != END)
        assert np.array_equal(text[:len(row)][counts], row[counts])


@pytest.mark.parametrize("temperature", [1.0, 0.7, 0])
@pytest.mark.parametrize("reproducible", [True, False])
@pytest.mark.parametrize("options", [dict(), dict(sandwich_norm=True, positions="rotary")],
                         ids=["compiled step", "layers"])
def test_log_probabilities_are_those_of_the_whole_text(options, reproducible, temperature):
    model = model_of(**options)
    answers = sample_answers(model, PROMPTS, 5, MOST, np.random.default_rng(3), temperature,
                             END, reproducible)
    for p, prompt in enumerate(PROMPTS):
        for g in range(5):
            n = answers.lengths[p, g]
            ids = answers.ids[p, g, :n]
            logits = model(np.concatenate([prompt, ids])[None, :-1])[0, len(prompt) - 1:]
            wanted, _ = token_log_probs(logits, ids, temperature or 1.0)
            assert answers.log_probs[p, g, :n] == pytest.approx(wanted, abs=2e-5)
            assert answers.ended[p, g] == (ids[-1] == END) and END not in ids[:-1]
            assert np.array_equal(answers.tokens(p, g), ids[ids != END])
            if temperature == 0:
                assert ids.tolist() == logits.argmax(axis=1).tolist()


def test_plain_products_sample_the_same_answers_but_for_rounding():
    model = model_of(dtype="float64")
    one, other = (sample_answers(model, PROMPTS, 20, MOST, np.random.default_rng(5), end=END,
                                 reproducible=reproducible) for reproducible in (True, False))
    assert np.array_equal(one.ids, other.ids)
    assert one.log_probs == pytest.approx(other.log_probs, abs=1e-12)


def test_a_prompt_is_read_once_and_answers_that_have_ended_leave(monkeypatch):
    model, rows = model_of(), []
    step = model.step

    def counted(ids, *args, **options):
        rows.append(len(ids))
        return step(ids, *args, **options)

    monkeypatch.setattr(model, "step", counted, raising=False)
    answers = sample_answers(model, PROMPTS, 6, MOST, np.random.default_rng(7), end=END)
    lengths = answers.lengths.ravel()
    assert rows == [3, *((lengths > t).sum() for t in range(1, answers.ids.shape[2]))]


def test_without_an_end_all_answers_are_cut_and_an_end_may_be_any_of_several():
    model = model_of()
    answers = sample_answers(model, PROMPTS, 4, 6, np.random.default_rng(0))
    assert (answers.lengths == 6).all() and not answers.ended.any()
    some = sample_answers(model, PROMPTS, 4, 6, np.random.default_rng(0), end=[END, 0])
    for p in range(3):
        for g in range(4):
            ids = answers.ids[p, g].tolist()
            first = next((n for n, token in enumerate(ids, 1) if token in (END, 0)), 6)
            assert some.lengths[p, g] == first


def test_greedy_answers_need_no_generator_and_are_equal():
    model = model_of()
    answers = sample_answers(model, PROMPTS, 2, MOST, temperature=0, end=END)
    for p, prompt in enumerate(PROMPTS):
        wanted = list(generate(model, prompt, MOST, temperature=0, end=END))
        assert answers.tokens(p, 0).tolist() == answers.tokens(p, 1).tolist() == wanted


@pytest.mark.parametrize("changed, error, words", [
    (dict(prompts=[]), ValueError, "no prompts"),
    (dict(prompts=[np.array([], int)]), ValueError, "empty"),
    (dict(prompts=[np.array([V])]), ValueError, "prompts"),
    (dict(prompts=[np.array([1.0])]), TypeError, "prompts"),
    (dict(prompts=[np.array([[1]])]), ValueError, r"shape \(S,\)"),
    (dict(samples=0), ValueError, "samples=0"),
    (dict(tokens=0), ValueError, "tokens=0"),
    (dict(tokens=12), ValueError, "context_length of 16"),
    (dict(rng=None), ValueError, "rng is missing"),
    (dict(rng=3), TypeError, "rng"),
    (dict(temperature=-1), ValueError, "temperature"),
    (dict(end=V), ValueError, "end"),
    (dict(reproducible="no"), ValueError, "reproducible")])
def test_bad_values_are_errors(changed, error, words):
    arguments = dict(prompts=PROMPTS, samples=2, tokens=4, rng=np.random.default_rng(0))
    with pytest.raises(error, match=words):
        sample_answers(model_of(), **{**arguments, **changed})


@pytest.mark.parametrize("name", ["NGramDecoder", "RecurrentLanguageModel"])
def test_a_model_whose_cache_has_no_rows_is_refused(name, rng):
    sizes = dict(vocab_size=V, context_length=16, n_layers=1, d_model=8)
    if name == "NGramDecoder":
        sizes |= dict(n_heads=1)
    model_class = getattr(models, name)
    model = model_class(model_class.config_class(**sizes), rng)
    with pytest.raises(TypeError, match="give a Decoder"):
        sample_answers(model, PROMPTS[:1], 2, 5, rng, end=END)
