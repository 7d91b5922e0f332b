"""Texts side by side: the same bits as alone, on any number of threads; caches are values."""

import numpy as np
import pytest

from numformer import backend
from numformer.backend import dispatch
from numformer.generation import generate, generate_batch
from numformer.layers.attention.paged_cache import PagedCache
from numformer.layers.token_step import TextsCache, TokenStep
from numformer.models import Decoder, DecoderConfig, NGramDecoder, NGramDecoderConfig
from numformer.models.decoder.caches import DecoderCache

pytest.importorskip("numba")
V = 9
STYLES = {
    "gpt": {}, "llama": dict(bias=False, feedforward="swiglu", norm="rms_norm", tied=False,
                             positions="rotary", n_kv_heads=1),
    "alibi": dict(positions="alibi", query_key_norm=True, n_kv_heads=2, feedforward="geglu"),
    "interleaved": dict(positions="rotary", rotary_layout="interleaved", feedforward="relu"),
    "yarn": dict(positions="rotary", d_head=6, query_key_norm=True, rotary_scaling=dict(
        kind="yarn", factor=4.0, original_length=40)),
    "none": dict(positions="none", feedforward="relu_squared"),
    "sinusoidal": dict(positions="sinusoidal", feedforward="silu")}


def config(**more):
    return DecoderConfig(**dict(vocab_size=V, context_length=80, n_layers=3, n_heads=4,
                                d_model=32) | more)


def moved(model, rng):
    for parameter in model.parameters():
        noise = 0.2 * rng.standard_normal(parameter.data.shape)
        parameter.data += noise.astype(parameter.data.dtype)
    return model


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("style", STYLES)
def test_logits_are_the_same_bits_alone_and_side_by_side(style, dtype, rng):
    """And however the tokens are split into calls; and they are those of the forward."""
    model = moved(Decoder(config(dtype=dtype, **STYLES[style]), rng), rng)
    B, T = 11, 60
    ids, padding = rng.integers(0, V, (B, T)), rng.integers(0, 40, B)
    first, cache = model.step(ids[:, :40], left_padding=padding)
    parts = [first]
    for t in range(40, T - 5):
        logits, cache = model.step(ids[:, t:t + 1], cache)
        parts.append(logits)
    parts.append(model.step(ids[:, -5:], cache)[0])
    found = np.concatenate(parts, axis=1)
    tolerance = 2e-4 if dtype == "float32" else 1e-11
    for b in range(B):
        alone, _ = model.step(ids[b:b + 1, padding[b]:])
        assert np.array_equal(alone[0], found[b, padding[b]:])
        np.testing.assert_allclose(alone, model(ids[b:b + 1, padding[b]:]), rtol=tolerance,
                                   atol=tolerance)


@pytest.mark.parametrize("size", [400, 1000])
def test_long_prompts_are_read_in_parts_with_the_same_bits(size, rng):
    model = moved(Decoder(config(context_length=1024, n_layers=1), rng), rng)
    ids = rng.integers(0, V, (2, size))
    padding = np.array([0, 130])
    together, _ = model.step(ids, left_padding=padding)
    last, _ = model.step(ids, left_padding=padding, last=True)
    assert np.array_equal(last, together[:, -1:])
    _, cache = model.step(ids[1:, 130:200])
    alone, _ = model.step(ids[1:, 200:], cache)
    assert np.array_equal(alone[0], together[1, 200:])
    np.testing.assert_allclose(together[:1], model(ids[:1]), rtol=2e-4, atol=2e-4)


def test_bits_do_not_depend_on_the_number_of_threads(rng, monkeypatch):
    model, found, tasks = Decoder(config(), rng), [], []
    run = dispatch.run_with_helpers
    monkeypatch.setattr(dispatch, "run_with_helpers",
                        lambda work, items, **options: (
                            tasks.append(len(items)) or run(work, items, **options)))
    monkeypatch.setattr(dispatch, "PARALLEL_FROM", 0)
    for threads in (1, 2, 3, 8):
        with backend.threads(threads):
            _, cache = model.step(np.array([[1, 2, 3], [4, 5, 6], [7, 8, 0]]))
            for token in range(40):
                logits, cache = model.step(np.full((3, 1), token % V), cache)
            found.append(logits)
    assert all(np.array_equal(found[0], other) for other in found) and {1, 2, 3, 8} <= set(tasks)
    assert np.isfinite(found[0]).all() and found[0].std() > 0


@pytest.mark.parametrize("ngrams", [False, True])
@pytest.mark.parametrize("style", ["gpt", "llama"])
def test_texts_go_on_beyond_the_context_as_alone(style, ngrams, rng):
    """Each text's context begins anew when it is full, not when that of another is."""
    options = dict(STYLES[style], context_length=16)
    model = moved(NGramDecoder(NGramDecoderConfig(
        vocab_size=V, n_layers=2, n_heads=4, d_model=32, ngram_rows=50, **options), rng)
        if ngrams else Decoder(config(**options), rng), rng)
    prompts = [rng.integers(0, V, n) for n in (3, 16, 1, 40, 9)]
    together = np.stack(list(generate_batch(model, prompts, 40, [
        np.random.default_rng(b) for b in range(5)], temperature=0.8)))
    for b, prompt in enumerate(prompts):
        alone = list(generate(model, prompt, 40, np.random.default_rng(b), temperature=0.8))
        assert together[:, b].tolist() == alone


def test_only_the_text_whose_context_is_full_is_read_again(rng, monkeypatch):
    model, rows = Decoder(config(context_length=16), rng), []
    call = TokenStep.__call__
    monkeypatch.setattr(TokenStep, "__call__", lambda self, x, pages, padding=None, last=False: (
        rows.append(x.shape[1] * len(x) - (0 if padding is None else padding.sum()))
        or call(self, x, pages, padding, last)))
    for _ in generate_batch(model, [np.ones(12, int), np.ones(4, int)], 7, temperature=0):
        pass
    assert rows == [16, 2, 2, 2, 2, 9 + 1, 2]


def test_a_generation_goes_on_with_the_weights_with_which_it_began(rng):
    """Whether they are changed in place or replaced; the next one takes the new ones."""
    model, ids = Decoder(config(tied=False), rng), rng.integers(0, V, (2, 6))
    _, cache = model.step(ids[:, :4])
    expected, _ = model.step(ids[:, 4:], cache)
    model.blocks[1].feedforward.hidden.weight.data += 0.5
    model.norm.bias.data += 0.5
    model.head.weight.data = model.head.weight.data + 0.1
    again, after = model.step(ids[:, 4:], cache)
    assert np.array_equal(again, expected) and after.step is cache.step
    new, fresh = model.step(ids)
    assert fresh.step is not cache.step and abs(new[:, 4:] - expected).max() > 0.01
    np.testing.assert_allclose(new, model(ids), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("style", ["gpt", "llama", "interleaved", "yarn"])
def test_a_cache_of_another_model_or_version_goes_on_with_the_layers(style, rng):
    model, ids = Decoder(config(dtype="float64", **STYLES[style]), rng), rng.integers(0, V, (2, 60))
    padding = np.array([0, 3])
    first, cache = model.step(ids[:, :57], left_padding=padding)
    expected, _ = model.step(ids[:, 57:], cache)
    other = model.replica()
    for found, after in [other.step(ids[:, 57:], cache), in_numpy(model, ids[:, 57:], cache)]:
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-11)
        assert type(after) is DecoderCache
        assert after.left_padding.tolist() == [0, 3]
    with pytest.raises(ValueError, match="other weights"):
        other.step(ids[:, 57:], cache, left_padding=np.array([1, 0]))
    with pytest.raises(ValueError, match="has one already"):
        model.step(ids[:, 57:], after, left_padding=np.array([1, 0]))
    assert type(other.step(ids[:, :3], model.new_cache())[1]) is DecoderCache
    with backend.using("numpy"):
        assert model.new_cache() is None


def in_numpy(model, ids, cache):
    with backend.using("numpy"):
        return model.step(ids, cache)


def test_a_cache_is_a_value(rng):
    """Two texts that part after a common beginning, in one page and in different ones."""
    model = Decoder(config(), rng)
    for length in (3, 47, 48, 49):
        ids = rng.integers(0, V, (2, length + 4))
        ids[1, :length] = ids[0, :length]
        _, cache = model.step(ids[:1, :length])
        one, after_one = model.step(ids[:1, length:length + 2], cache)
        two, after_two = model.step(ids[1:, length:length + 2], cache)
        pair = TextsCache(after_one.step, cache.pages.rows(np.array([0, 0])))
        both, _ = model.step(ids[:, length:length + 2], pair)
        assert np.array_equal(both, np.concatenate([one, two]))
        one, _ = model.step(ids[:1, length + 2:], after_one)
        two, _ = model.step(ids[1:, length + 2:], after_two)
        expected, _ = model.step(ids)
        assert np.array_equal(np.concatenate([one, two]), expected[:, length + 2:])
        assert [len(each) for each in (cache, after_one, pair)] == [length, length + 2, length]
        other_order, _ = model.step(ids[::-1, length:length + 2], cache.rows(np.array([0, 0])))
        assert np.array_equal(other_order, both[::-1])


def test_a_cache_grows_without_copies():
    cache = PagedCache((1, 2, 1, 8), 4, np.dtype(np.float32), texts=2)
    one = cache.extended(np.array([6, 2]))
    two = one.extended(np.array([1, 0])).extended(np.array([7, 2]))
    assert [len(pages) for pages in two.pages] == [4, 1] and two.lengths.tolist() == [14, 4]
    assert two.pages[0][:2] == one.pages[0] and two.pages[1] == one.pages[1]
    assert two.addresses.shape == (2, 4) and (two.addresses[1, 1:] == 0).all()
    other = one.extended(np.array([1, 1]))
    assert other.pages[0][0] is one.pages[0][0] and other.pages[0][1] is not one.pages[0][1]
    assert other.pages[1][0] is not one.pages[1][0]
    again = two.restarted(np.array([True, False]))
    assert again.lengths.tolist() == [0, 4] and again.pages[0] == () and len(again) == 4


def test_bad_padding_and_caches_are_refused(rng):
    model, ids = Decoder(config(), rng), rng.integers(0, V, (2, 4))
    for wrong in (np.array([0]), np.array([0, 4]), np.array([-1, 0]), 2):
        with pytest.raises(ValueError, match="left_padding must have shape"):
            model.step(ids, left_padding=wrong)
    _, cache = model.step(ids)
    for wrong in (ids[:1], ids[[0, 1, 1]]):
        with pytest.raises(ValueError, match="begin with cache=None"):
            model.step(wrong, cache)
    shallow = Decoder(config(n_layers=1), rng)
    with pytest.raises(ValueError, match="begin with cache=None"):
        shallow.step(ids, cache)


def test_an_empty_cache_begins_with_any_number_of_texts(rng):
    model = Decoder(config(), rng)
    cache = model.new_cache()
    for B in (1, 3):
        ids = rng.integers(0, V, (B, 5))
        logits, after = model.step(ids, cache)
        assert np.array_equal(logits, model.step(ids)[0]) and after.step is cache.step
        assert after.texts == B and cache.texts == 0
