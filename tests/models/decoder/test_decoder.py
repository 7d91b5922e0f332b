"""The decoder: causality, published counts, and its config."""

from dataclasses import replace

import numpy as np
import pytest

from decoders import STYLES, decoder_of
from numformer.functional import CAUSAL
from numformer.analysis import attention_by_layer, count
from numformer.models import CONFIGS, DECODERS, Decoder, DecoderConfig, NGramDecoderConfig
from numformer.models.decoder.caches import DecoderCache

PUBLISHED = {  # in millions: the papers' figures, GPT-2's from its code release
    "gpt1": 117, "gpt2": 124, "gpt2-medium": 355, "gpt2-large": 774, "gpt2-xl": 1558,
    "gpt3-small": 125, "gpt3-medium": 350, "gpt3-large": 760, "gpt3-2.7b": 2700,
    "gpt3-6.7b": 6700, "gpt3-13b": 13000, "gpt3": 175000,
    "llama-7b": 6700, "llama-13b": 13000, "llama-33b": 32500, "llama-65b": 65200,
    "llama2-7b": 6700, "llama2-13b": 13000, "llama2-70b": 69000, "llama3-8b": 8000,
    "llama3-70b": 70600, "llama3-405b": 405000,
    "mixtral-8x7b": 46700, "palm-8b": 8630, "palm-62b": 62500, "palm-540b": 540350,
    "glam-8b-64e": 143000, "glam-64b-64e": 1162000,
}
# printed with two digits, up to 1.8% from what their sizes give
ROUNDED = {"gpt3-medium", "gpt3-2.7b", "gpt3-13b"}
GPT3 = {  # Brown et al. (2020), table 2.1: layers, d_model, heads, d_head
    "gpt3-small": (12, 768, 12, 64), "gpt3-medium": (24, 1024, 16, 64),
    "gpt3-large": (24, 1536, 16, 96), "gpt3-xl": (24, 2048, 24, 128),
    "gpt3-2.7b": (32, 2560, 32, 80), "gpt3-6.7b": (32, 4096, 32, 128),
    "gpt3-13b": (40, 5140, 40, 128), "gpt3": (96, 12288, 96, 128),
}

# Layers, width, heads, context: Radford et al. (2018), section 4.1; Radford et al. (2019), table 2,
# whose numbers of heads are those of the published weights' config. Heads change no count.
GPT1_AND_GPT2 = {
    "gpt1": (12, 768, 12, 512), "gpt2": (12, 768, 12, 1024), "gpt2-medium": (24, 1024, 16, 1024),
    "gpt2-large": (36, 1280, 20, 1024), "gpt2-xl": (48, 1600, 25, 1024),
}


@pytest.mark.parametrize("style", STYLES)
def test_later_tokens_do_not_change_earlier_logits(style, rng):
    model = decoder_of(STYLES[style], rng)
    ids = rng.integers(0, 9, (2, 8))
    logits = model(ids)
    for t in range(8):
        changed = ids.copy()
        changed[:, t:] = rng.integers(0, 9, changed[:, t:].shape)
        assert np.array_equal(model(changed)[:, :t], logits[:, :t])
    assert not np.array_equal(model(ids[:, ::-1])[:, -1], logits[:, -1]), "order matters"


@pytest.mark.parametrize("style", STYLES)
def test_a_new_model_predicts_all_tokens_alike(style, rng):
    loss, _ = decoder_of(STYLES[style], rng).loss((rng.integers(0, 9, (50, 8)),
                                                   rng.integers(0, 9, (50, 8))))
    # 2017's embedding, scaled up, is its head too
    assert abs(loss - np.log(9)) < (1.5 if style == "2017" else 0.05)


def test_palm_and_glam_are_counted_to_the_digits_that_are_printed():
    """PaLM's table has two decimals; they come out, the last one rounded down.

    GLaM's largest: "1.2 T" and 96.6 B active, of which 2.1 B are the embedding. The printed 9.8 B
    of the smaller one, 9.7 B here, are without its embedding of 1.0 B.
    """
    for name, printed in (("palm-8b", 8.63), ("palm-62b", 62.50), ("palm-540b", 540.35)):
        assert abs(count(CONFIGS[name])["parameters"] / 1e9 - printed) < 0.01
    costs = count(CONFIGS["glam-64b-64e"])
    assert round(costs["parameters"] / 1e12, 1) == 1.2
    assert round(costs["active_parameters"] / 1e9, 1) == 96.6
    smaller = count(CONFIGS["glam-8b-64e"])["active_parameters"] - 256000 * 4096
    assert abs(smaller / 9.8e9 - 1) < 0.015


@pytest.mark.parametrize("name", GPT1_AND_GPT2)
def test_widths_and_heads_of_gpt1_and_gpt2_are_the_published_ones(name):
    config = CONFIGS[name]
    assert GPT1_AND_GPT2[name] == (
        config.n_layers, config.d_model, config.n_heads, config.context_length)


@pytest.mark.parametrize("name", GPT3)
def test_sizes_of_gpt3_are_those_of_its_table(name):
    config = CONFIGS[name]
    assert GPT3[name] == (config.n_layers, config.d_model, config.n_heads, config.head_width)
    assert config.hidden_width == 4 * config.d_model and config.context_length == 2048


def test_heads_of_gpt3_xl_do_not_give_its_printed_count():
    """24 heads of 128 are half as wide again as the model; the printed 1.3 B is that of 16."""
    printed = CONFIGS["gpt3-xl"]
    billions = [count(config)["parameters"] / 1e9
                for config in (printed, replace(printed, n_heads=16))]
    assert [round(each, 2) for each in billions] == [1.52, 1.32]


@pytest.mark.parametrize("name", sorted(set(DECODERS) - {"gpt3-xl"}))
def test_counts_equal_the_published_ones(name):
    found = count(CONFIGS[name])["parameters"] / 1e6
    assert abs(found / PUBLISHED[name] - 1) < (0.02 if name in ROUNDED else 0.01)


def test_counts_equal_a_real_model(rng):
    config = STYLES["LLaMA"]
    costs = count(config)
    model = Decoder(config, rng)
    assert costs["parameters"] == sum(array.size for array in model.state_dict().values())
    cache = model.step(np.zeros((1, 8), int))[1]
    assert costs["kv_bytes_per_token"] * 8 == sum(past.k.nbytes + past.v.nbytes
                                                  for past in cache.blocks)
    C, F, V, G, D = 16, config.hidden_width, 9, 1, 8
    by_hand = 2 * (2 * C * C + 2 * C * G * D + 3 * C * F) + C * V     # weights that multiply
    assert (costs["flops_per_token"] == 2 * by_hand + 2 * 4 * C * 4.5
            and costs["training_flops_per_token"] == 3 * costs["flops_per_token"])


@pytest.mark.parametrize("style", STYLES)
def test_attention_weights_are_those_of_the_forward(style, rng):
    model = decoder_of(STYLES[style], rng)
    ids = rng.integers(0, 9, (2, 6))
    weights = [*attention_by_layer(model, ids).values()]
    assert len(weights) == 2 and weights[0].shape == (2, 2, 6, 6)
    for w in weights:
        np.testing.assert_allclose(w.sum(axis=-1), 1, rtol=1e-12)
        assert (np.triu(w, 1) == 0).all()
    x, _ = model.positions.forward(model.embedding(ids), start=0)
    block = model.blocks[0]
    inside = block.norm1(x) if model.config.norm_first else x
    # (B, S, H, D)
    v = block.attention.value(inside).reshape(2, 6, -1, 8)
    v = v.repeat(2 // block.attention.n_kv_heads, axis=2)
    joined = np.einsum("bhts,bshd->bthd", weights[0], v).reshape(2, 6, 16)
    np.testing.assert_allclose(block.attention.output(joined),
                               block.attention(inside, pattern=CAUSAL), rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("options, words", [
    (dict(n_heads=3), "not divisible"), (dict(n_kv_heads=3), "not divisible"),
    (dict(n_layers=0), "n_layers=0"),
    (dict(vocab_size=-1), "vocab_size"),
    (dict(norm="batch"), "layer_norm"), (dict(feedforward="tanh"), "swiglu"),
    (dict(positions="absolute"), "rotary"),
    (dict(dropout=1.0), "dropout"), (dict(dtype="float16"), "float32"),
    (dict(d_model=6, positions="rotary"), "even width"),
    (dict(d_hidden=0), "d_hidden"), (dict(epsilon=float("nan")), "epsilon"),
    (dict(d_head=0), "d_head=0"), (dict(d_head=2.0), "d_head=2.0"),
    (dict(d_head=3, positions="rotary"), "d_head = 3"), (dict(d_head=4, n_heads=0), "n_heads=0"),
    (dict(d_head=4, d_model=-1), "d_model=-1"), (dict(qkv_bias="all"), "qkv_bias='all'"),
    (dict(positions="rotary", d_rotary=3), "d_rotary=3 must be even"),
    (dict(positions="rotary", d_rotary=10), "d_rotary=10 must be at most"),
    (dict(d_rotary=0), "d_rotary=0"),
    (dict(rotary_scaling=dict(kind="ntk", factor=2.0)), "kind of scaling='ntk' is unknown"),
    (dict(rotary_scaling=dict(factor=2.0)), "kind of scaling=None is unknown"),
    (dict(rotary_scaling=dict(kind="linear")), "missing: ['factor']"),
    (dict(rotary_scaling=dict(kind="linear", factor=2.0, original_length=4)),
     "unknown: ['original_length']"),
    (dict(rotary_scaling=dict(kind="yarn", factor=0.5, original_length=4)), "factor=0.5"),
    (dict(rotary_scaling=dict(kind="yarn", factor=2.0, original_length=4, beta_fast=1)),
     "beta_fast=1"),
    (dict(rotary_scaling=dict(kind="yarn", factor=2.0, original_length=4, truncate=0.5)),
     "truncate=0.5"),
    (dict(rotary_scaling=dict(kind="yarn", factor=2.0, original_length=4, attention_factor=0.0)),
     "attention_factor=0.0"),
    (dict(rotary_base=1, rotary_scaling=dict(kind="yarn", factor=2.0, original_length=4)),
     "base=1"),
    (dict(rotary_scaling=dict(kind="llama3", factor=2.0, original_length=0)), "original_length=0"),
    (dict(rotary_scaling=dict(kind="llama3", factor=2.0, original_length=4,
                              low_frequency_factor=4.0)), "high_frequency_factor=4.0"),
    (dict(rotary_scaling=dict(kind="llama3", factor="2", original_length=4)), "factor='2'"),
    (dict(sliding_window=-1), "sliding_window=-1"), (dict(sliding_window=True), "sliding_window"),
    (dict(layer_types="local"), "layer_types='local'"),
    (dict(local_rotary_base=0.5), "local_rotary_bas"),
    (dict(lm_head_bias=None), "lm_head_bias=None"),
    (dict(d_model="wide"), "d_model='wide'"), (dict(bias="no"), "bias='no'")])
def test_options_out_of_range_are_refused(options, words):
    with pytest.raises(ValueError) as caught:
        DecoderConfig(**{**dict(vocab_size=9, context_length=8, n_layers=2, n_heads=2, d_model=16),
                         **options})
    assert words in str(caught.value)


def test_a_cache_of_another_batch_or_model_is_refused(rng):
    model = Decoder(STYLES["GPT-2"], rng)
    _, cache = model.step(np.zeros((2, 3), int))
    one, two = np.zeros((1, 1), int), np.zeros((2, 1), int)
    for ids, bad in ((one, cache), (two, DecoderCache(2 * cache.blocks)), (two, DecoderCache(()))):
        with pytest.raises(ValueError, match="cache must hold keys and values of 2 blocks"):
            model.step(ids, bad)


def test_a_model_for_counting_cannot_be_loaded(rng):
    with pytest.raises(ValueError, match="built for counting"):
        Decoder(STYLES["GPT-2"], None).load_state_dict(Decoder(STYLES["GPT-2"], rng).state_dict())


def test_config_round_trip():
    config = CONFIGS["llama2-70b"]
    assert DecoderConfig.from_dict(config.as_dict()) == config
    with pytest.raises(ValueError, match="unknown: .'colour'"):
        DecoderConfig.from_dict({**config.as_dict(), "colour": "red"})
    with pytest.raises(ValueError, match="missing: .'context_length', 'd_model'"):
        DecoderConfig.from_dict({"vocab_size": 3})


def test_options_that_may_be_absent_survive_a_file(rng):
    sizes = dict(vocab_size=9, context_length=8, n_layers=1, n_heads=3, d_model=16)
    config = DecoderConfig(**sizes, d_head=4, qkv_bias=False, d_rotary=2,
                           rotary_scaling=dict(kind="linear", factor=2.0))
    assert DecoderConfig.from_dict(config.as_dict()) == config
    with pytest.raises(ValueError, match="qkv_bias=0"):
        DecoderConfig.from_dict({**config.as_dict(), "qkv_bias": 0})
    attention = Decoder(config, rng).blocks[0].attention
    assert attention.query.weight.data.shape == attention.output.weight.data.T.shape == (16, 12)
    assert attention.query.bias is None and attention.output.bias is not None


def test_hidden_width_defaults():
    sizes = dict(vocab_size=9, context_length=8, n_layers=1, n_heads=1, d_model=48)
    assert (DecoderConfig(**sizes).hidden_width == 192
            and DecoderConfig(**sizes, feedforward="swiglu").hidden_width == 128)
    wide = DecoderConfig(**{**sizes, "d_model": 4096}, feedforward="swiglu")
    assert wide.hidden_width == 10928, "8/3 C, rounded up to a multiple of 8"


def test_rotary_bases_from_1_on_are_allowed():
    sizes = dict(vocab_size=9, context_length=8, n_layers=1, n_heads=1, d_model=4)
    assert DecoderConfig(**sizes, positions="rotary", rotary_base=1.5).rotary_base == 1.5
    with pytest.raises(ValueError, match="rotary_base=0.5"):
        DecoderConfig(**sizes, positions="rotary", rotary_base=0.5)


def test_ngrams_may_be_pairs():
    sizes = dict(vocab_size=9, context_length=8, n_layers=1, n_heads=1, d_model=4, ngram_rows=9)
    assert NGramDecoderConfig(**sizes, ngrams=2).ngrams == 2
    with pytest.raises(ValueError, match="ngrams=1"):
        NGramDecoderConfig(**sizes, ngrams=1)


def test_nan_in_a_parameter_reaches_the_loss(rng):
    model = Decoder(STYLES["GPT-2"], rng)
    model.blocks[1].feedforward.hidden.weight.data[0, 0] = np.nan
    assert np.isnan(model.loss((np.zeros((1, 3), int), np.zeros((1, 3), int)))[0])
