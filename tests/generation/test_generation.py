"""Cached logits equal the full forward, and samples follow the probabilities."""

import numpy as np
import pytest

from numformer import use
from numformer.backend import pool
from numformer.generation import choose_token, context_start, generate, generate_batch
from numformer.layers import KeyValueCache
from numformer.models import Decoder, DecoderConfig, NGramDecoder, NGramDecoderConfig
from decoders import STYLES, decoder_of


@pytest.fixture
def numpy_only():
    use("numpy")
    yield
    use("numba")


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("chunks", [[8], [1] * 8, [3, 1, 4], [7, 1], [2, 6]])
def test_cached_logits_equal_the_full_forward(style, chunks, rng):
    model = decoder_of(STYLES[style], rng)
    for parameter in model.parameters():                       # away from the small initial weights
        parameter.data += 0.2 * rng.standard_normal(parameter.data.shape)
    ids = rng.integers(0, 9, (3, 8))
    cache, parts, start = None, [], 0
    for length in chunks:
        logits, cache = model.step(ids[:, start : start + length], cache)
        parts.append(logits)
        start += length
    np.testing.assert_allclose(np.concatenate(parts, axis=1), model(ids), rtol=1e-12, atol=1e-12)


def test_step_does_not_change_its_cache(rng):
    model = Decoder(STYLES["LLaMA"], rng)
    _, cache = model.step(np.array([[1, 2]]))
    first, _ = model.step(np.array([[3]]), cache)
    model.step(np.array([[4, 5]]), cache)
    assert len(cache) == 2 and np.array_equal(model.step(np.array([[3]]), cache)[0], first)


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("prompt", [1, 5, 8, 13])
def test_the_text_is_the_same_without_a_cache(style, prompt, rng):
    model = decoder_of(STYLES[style], rng)
    for parameter in model.parameters():
        parameter.data += 0.2 * rng.standard_normal(parameter.data.shape)
    text = list(rng.integers(0, 9, prompt))
    cached = list(generate(model, np.array(text), 30, np.random.default_rng(5)))
    draw = np.random.default_rng(5)
    for _ in range(30):
        seen = text[context_start(len(text), 8):]
        assert 1 <= len(seen) <= 8
        text.append(choose_token(model(np.array([seen]))[0, -1], draw))
    assert text[prompt:] == cached


def test_each_token_is_encoded_once_until_the_context_is_full(rng):
    model, lengths = Decoder(STYLES["GPT-2"], rng), []
    step = model.step
    model.step = lambda ids, *cache, **last: (
        lengths.append(ids.shape[1]) or step(ids, *cache, **last))
    list(generate(model, np.array([1, 2, 3]), 9, rng))
    # With 9 tokens the context of 8 is full: its older half is dropped
    assert lengths == [3, 1, 1, 1, 1, 1, 5, 1, 1]


def test_no_tokens_may_be_asked_for(rng):
    assert list(generate(Decoder(STYLES["GPT-2"], rng), np.array([1]), 0)) == []


def test_left_padding_is_in_every_vocabulary(rng):
    """Prompts of different lengths, of the only token there is."""
    model = Decoder(DecoderConfig(vocab_size=1, context_length=4, n_layers=1, n_heads=1, d_model=4),
                    rng)
    prompts = [np.array([0, 0]), np.array([0])]
    assert np.array_equal(list(generate_batch(model, prompts, 2, temperature=0)), np.zeros((2, 2)))


def test_a_context_of_one_token_works(rng):
    model = Decoder(DecoderConfig(vocab_size=9, context_length=1, n_layers=1, n_heads=1, d_model=4),
                    rng)
    assert len(list(generate(model, np.array([3, 4]), 5, rng))) == 5


@pytest.mark.slow
def test_samples_follow_the_probabilities(rng):
    logits = np.log(np.array([0.5, 0.3, 0.15, 0.05]))
    n = 5000

    def shares(**options):
        return np.bincount([choose_token(logits, rng, **options) for _ in range(n)],
                           minlength=4) / n

    np.testing.assert_allclose(shares(), [0.5, 0.3, 0.15, 0.05], atol=0.02)
    np.testing.assert_allclose(shares(top_k=2), [0.625, 0.375, 0, 0], atol=0.02)
    np.testing.assert_allclose(shares(top_p=0.5), [1, 0, 0, 0])
    np.testing.assert_allclose(shares(top_p=0.51), [0.625, 0.375, 0, 0], atol=0.02)
    np.testing.assert_allclose(shares(top_k=3, top_p=0.8), [0.625, 0.375, 0, 0], atol=0.02)
    cold = np.array([0.5, 0.3, 0.15, 0.05]) ** 2
    np.testing.assert_allclose(shares(temperature=0.5), cold / cold.sum(), atol=0.02)
    assert choose_token(logits, temperature=0) == 0
    assert choose_token(logits, rng, temperature=1e-320) == 0
    assert choose_token(logits * 1e6, rng,
                        temperature=1e-3) == 0, "a low temperature does not overflow"
    assert choose_token(np.array([-np.inf, 0.0]), rng) == 1


def test_top_p_of_1_leaves_all_tokens(rng):
    logits = rng.standard_normal(9)
    for seed in range(30):
        found, expected = (choose_token(logits, np.random.default_rng(seed), top_p=top_p)
                           for top_p in (1.0, None))
        assert found == expected


def test_probabilities_may_sum_to_less_than_1():
    """Ten times 1/10 is less than 1 in floating point, and a random number may lie between."""
    class Largest(np.random.Generator):
        def random(self):
            return np.nextafter(1, 0)

    assert np.cumsum(np.full(10, 0.1))[-1] <= Largest(np.random.PCG64(0)).random()
    assert choose_token(np.zeros(10), Largest(np.random.PCG64(0))) == 9


@pytest.mark.parametrize("options, words",
                         [(dict(temperature=-1), "temperature"),
                          (dict(temperature=float("nan")), "temperature"), (dict(top_k=0), "top_k"),
                          (dict(top_p=0.0), "top_p"), (dict(top_p=1.5), "top_p"),
                          (dict(rng=None), "rng is missing")])
def test_bad_sampling_options_are_errors(options, words):
    with pytest.raises(ValueError) as caught:
        choose_token(np.zeros(3), **{"rng": np.random.default_rng(0), **options})
    assert words in str(caught.value)


@pytest.mark.parametrize("logits", [[0.0, np.nan], [0.0, np.inf], [-np.inf, -np.inf]])
def test_logits_that_are_not_finite_are_an_error(logits):
    for temperature in (0, 1.0):
        with pytest.raises(ValueError, match="largest of the logits is"):
            choose_token(np.array(logits), np.random.default_rng(0), temperature)


@pytest.mark.parametrize("ids, error",
                         [(np.array([], int), ValueError), (np.array([9]), ValueError),
                          (np.array([1.0]), TypeError), (np.array([[1]]), ValueError)])
def test_bad_prompts_are_errors(ids, error, rng):
    with pytest.raises(error):
        next(generate(Decoder(STYLES["GPT-2"], rng), ids, 1, rng))


@pytest.mark.parametrize("style", STYLES)
def test_prompts_of_unequal_length_are_continued_as_if_alone(style, rng):
    """Also beyond the context, which each text reaches at a different step."""
    model = decoder_of(STYLES[style], rng)
    for parameter in model.parameters():
        parameter.data += 0.2 * rng.standard_normal(parameter.data.shape)
    prompts = [rng.integers(0, 9, length) for length in (3, 1, 13, 6, 8)]
    together = np.stack(list(generate_batch(model, prompts, 25,
                                            [np.random.default_rng(k) for k in range(5)])), axis=1)
    for k, prompt in enumerate(prompts):
        assert together[k].tolist() == list(generate(model, prompt, 25, np.random.default_rng(k)))


def test_two_continuations_of_one_cache_do_not_overwrite_each_other(rng):
    """Also for a second continuation of the same text, which must not write over the first."""
    q = rng.standard_normal((4, 2, 1, 300, 4))
    cache = KeyValueCache(q[0][:, :, :1], q[1][:, :, :1])
    for t in range(1, 299):
        before, cache = cache, cache.append(q[0][:, :, t:t + 1], q[1][:, :, t:t + 1])
    other = before.append(q[2][:, :, :2], q[3][:, :, :2])
    assert len(cache) == 299 and len(before) == 298 and len(other) == 300
    assert np.array_equal(cache.k, q[0][:, :, :299]) and np.array_equal(cache.v, q[1][:, :, :299])
    assert np.array_equal(other.k[:, :, :298], before.k)
    assert np.array_equal(other.v[:, :, 298:], q[3][:, :, :2])


@pytest.mark.parametrize("prompts, rngs, words",
                         [([], None, "at least one prompt"),
                          ([np.array([1])], [], "a generator each"),
                          ([np.array([1]), np.array([9])], None, "hold 9"),
                          ([np.array([], int)], None, "empty"),
                          ([np.array([1])], None, "rng is missing")])
def test_bad_batches_are_errors(prompts, rngs, words, rng):
    model = Decoder(STYLES["LLaMA"], rng)
    with pytest.raises(ValueError, match=words):
        next(generate_batch(model, prompts, 1, rngs))


def test_cache_buffers_double_when_they_are_full(rng):
    """At first 64 positions; copies only when the buffer is full, or its next position is taken."""
    q = rng.standard_normal((2, 3, 2, 140, 4))                # keys and values of B, G, D = 3, 2, 4
    k, v = q

    def buffer_of(cache, T):
        after = cache.extended(T)
        assert after.k.shape == after.v.shape == (3, 2, len(cache) + T, 4)
        capacity = after.k.strides[1] // after.k.strides[2]
        assert after.k.strides == after.v.strides
        return capacity, np.shares_memory(cache.k, after.k) and np.shares_memory(cache.v, after.v)

    assert buffer_of(KeyValueCache(k[:, :, :1], v[:, :, :1]), 1) == (64, True)
    assert buffer_of(KeyValueCache(k[:, :, :40], v[:, :, :40]), 40) == (80, True)
    assert buffer_of(KeyValueCache(k[:, :, :40], v[:, :, :40]), 41) == (162, False)
    assert buffer_of(KeyValueCache(k[:, :, :32], v[:, :, :32]), 32) == (64, True)
    assert buffer_of(KeyValueCache(k[:, :, :32], v[:, :, :32]), 33) == (130, False)
    short = KeyValueCache(k[:, :, :40], v[:, :, :40])
    longer = short.append(k[:, :, 40:42], v[:, :, 40:42])
    assert buffer_of(short, 1) == (82, False), "the next position is taken"
    assert buffer_of(longer, 38) == (80, True)
    assert np.array_equal(longer.k, k[:, :, :42]) and np.array_equal(longer.v, v[:, :, :42])
    assert np.array_equal(short.k, k[:, :, :40])


@pytest.mark.parametrize("version", ["numba", "numpy"])
def test_blas_is_held_at_one_thread_where_layers_may_use_it(version, rng, monkeypatch):
    """The first step of a text makes its cache; from then on a compiled one has no BLAS."""
    model, guards, step = Decoder(STYLES["LLaMA"], rng), [], Decoder.step_embedded
    monkeypatch.setattr(Decoder, "step_embedded", lambda *arguments: (
        guards.append(pool._guards) or step(*arguments)))
    use(version)
    try:
        compiled = model.new_cache() is not None
        for _ in generate_batch(model, [np.array([1, 2]), np.array([3])], 3, temperature=0):
            assert pool._guards == 0
    finally:
        use("numba")
    assert guards == ([1, 0, 0] if compiled else [1, 1, 1])


def test_the_layers_give_the_logits_of_the_last_token_alone(rng, numpy_only):
    model, ids = Decoder(STYLES["LLaMA"], rng), np.array([[1, 2, 3], [4, 5, 6]])
    (logits, _), (last, _) = model.step(ids), model.step(ids, last=True)
    assert last.shape == (2, 1, 9)
    np.testing.assert_allclose(last, logits[:, -1:], rtol=1e-12)


def test_ngram_decoders_begin_anew_without_kernels_too(rng, numpy_only):
    """The last tokens of texts that go on would be needed, so all begin."""
    model = NGramDecoder(NGramDecoderConfig(vocab_size=9, context_length=6, n_layers=1, n_heads=2,
                                            d_model=8, ngrams=3, dtype="float64"), rng)
    prompts = [np.array([1, 2, 3, 4]), np.array([5])]
    together = np.stack(list(generate_batch(model, prompts, 9, temperature=0)), axis=1)
    for prompt, text in zip(prompts, together):
        ids = list(prompt)
        for token in text:
            window = ids[context_start(len(ids), 6):]
            assert token == model(np.array([window]))[0, -1].argmax()
            ids.append(token)
