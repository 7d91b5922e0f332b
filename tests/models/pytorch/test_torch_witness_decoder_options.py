"""The second witness for the options of published decoders: Transformers' own modules."""

import numpy as np
import pytest

from numformer.functional import scaled_frequencies
from numformer.models import Decoder, DecoderConfig

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
from torch_copies import close  # noqa: E402  (needs PyTorch)
from torch_decoders import (  # noqa: E402
    SIZES, agree, in_double, llama_options, llama_pairs, neox_pairs, theirs_of)
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


def family(name, **options):
    """Builds a module of LLaMA's form with the sizes of our config."""
    def build(c):
        given = dict(num_key_value_heads=c.n_kv_heads, rms_norm_eps=c.epsilon,
                     rope_theta=c.rotary_base)
        if c.d_head is not None:
            given["head_dim"] = c.d_head
        return theirs_of(name, c, **{**given, **options})
    return build


def with_head_bias(build):
    """Its head replaced by a linear layer that has a bias, as GPT-J's is."""
    def built(c):
        model = build(c)
        model.lm_head = torch.nn.Linear(c.d_model, c.vocab_size).double()
        return model
    return built


@pytest.mark.parametrize("name, options", [
    ("Llama", dict()), ("Mistral", dict(d_head=8)), ("Mistral", dict(d_head=2, n_kv_heads=1)),
    ("Qwen2", dict(qkv_bias=True, rotary_base=1e6)),
    ("Qwen2", dict(qkv_bias=True, d_head=4, n_heads=2, n_kv_heads=2, tied=True)),
    ("Qwen3", dict(query_key_norm=True, d_head=6))], ids=str)
def test_widths_of_heads_and_biases_of_queries_keys_and_values(name, options, rng):
    agree(llama_options(**options), family(name), llama_pairs, rng)


@pytest.mark.parametrize("tied", [False, True])
def test_a_bias_of_the_head(tied, rng):
    def build(c):
        model = with_head_bias(family("Qwen2"))(c)
        if tied:
            model.lm_head.weight = model.model.embed_tokens.weight
        return model

    agree(llama_options(qkv_bias=True, lm_head_bias=True, tied=tied), build, llama_pairs, rng)


@pytest.mark.parametrize("d_rotary", [2, 4, 6])
def test_rotary_positions_on_a_part_of_a_head(d_rotary, rng):
    """GPT-NeoX with its residual branches in sequence: rotary_pct is the part R / D."""
    config = DecoderConfig(**{**SIZES, "n_heads": 2}, feedforward="gelu", positions="rotary",
                           tied=False, d_rotary=d_rotary, dtype="float64")

    def build(c):
        return theirs_of("GPTNeoX", c, use_parallel_residual=False, hidden_act="gelu",
                         rotary_pct=c.d_rotary / c.head_width, layer_norm_eps=c.epsilon)

    agree(config, build, neox_pairs, rng)


SCALINGS = {
    "linear": (dict(kind="linear", factor=4.0), dict(rope_type="linear", factor=4.0)),
    "llama3": (dict(kind="llama3", factor=8.0, original_length=40),
               dict(rope_type="llama3", factor=8.0, original_max_position_embeddings=40,
                    low_freq_factor=1.0, high_freq_factor=4.0)),
    "yarn": (dict(kind="yarn", factor=4.0, original_length=300),
             dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=300)),
    "yarn with all options": (
        dict(kind="yarn", factor=16.0, original_length=100, beta_fast=5.0, beta_slow=0.5,
             truncate=False, attention_factor=0.7),
        dict(rope_type="yarn", factor=16.0, original_max_position_embeddings=100, beta_fast=5.0,
             beta_slow=0.5, truncate=False, attention_factor=0.7)),
}


@pytest.mark.parametrize("kind", SCALINGS)
def test_scaled_rotary_positions(kind, rng):
    ours, theirs = SCALINGS[kind]
    config = llama_options(d_head=8, rotary_base=100.0, rotary_scaling=ours)
    build = family("Llama", rope_parameters={**theirs, "rope_theta": 100.0})
    model = agree(config, build, llama_pairs, rng)
    plain = Decoder(llama_options(d_head=8, rotary_base=100.0), rng)
    plain.load_state_dict(model.state_dict())
    ids = np.arange(12)[None]
    assert np.abs(plain(ids) - model(ids)).max() > 1e-3, "the scaling matters"


@pytest.mark.parametrize("kind", SCALINGS)
@pytest.mark.parametrize("width, base", [(2, 10000.0), (8, 100.0), (64, 500000.0), (128, 1e6)])
@pytest.mark.parametrize("more", [dict(), dict(factor=1.0), dict(original_length=8192),
                                  dict(original_length=6), dict(factor=40.0)], ids=str)
def test_frequencies_are_those_of_transformers(kind, width, base, more):
    """Also where the ramp is cut at an end of the frequencies, and where it is a step."""
    ours, theirs = SCALINGS[kind]
    if "original_length" in ours or "original_length" not in more:
        ours = {**ours, **more}
    theirs = {**theirs, "factor": ours["factor"], "rope_theta": base}
    if "original_length" in ours:
        theirs["original_max_position_embeddings"] = ours["original_length"]
    with in_double():
        config = transformers.LlamaConfig(hidden_size=2 * width, num_attention_heads=2,
                                          rope_parameters=theirs)
        expected, factor = ROPE_INIT_FUNCTIONS[theirs["rope_type"]](config)
    found, found_factor = scaled_frequencies(width, base, ours)
    close(found, expected, 1e-13)
    assert found_factor == pytest.approx(factor, rel=1e-14)


@pytest.mark.parametrize("window", [1, 4, 12, 13, 40])
def test_a_sliding_window(window, rng):
    """Mistral's, which counts the query; in training, step by step, and with padding."""
    agree(llama_options(sliding_window=window), family("Mistral", sliding_window=window),
          llama_pairs, rng)


@pytest.mark.parametrize("kinds", ["sfsf", "ssfs", "sssssfs", "ff", "fssf", "sffs"])
def test_local_and_global_layers(kinds, rng):
    """Qwen3 with the layers of Gemma 2 and 3, of ModernBERT, and others."""
    kinds = ["full_attention" if kind == "f" else "sliding_attention" for kind in kinds]
    config = llama_options(query_key_norm=True, sliding_window=3, layer_types=kinds,
                           n_layers=len(kinds), d_head=4)
    agree(config, family("Qwen3", use_sliding_window=True, sliding_window=3, layer_types=kinds),
          llama_pairs, rng)


def test_local_layers_with_a_rotary_base_of_their_own(rng):
    """Each kind of layer gets the angles of a rotary embedding of Transformers of its own, as in
    Gemma 3, whose global layers alone are scaled."""
    kinds = ["sliding_attention", "full_attention", "sliding_attention"]
    ours, theirs = SCALINGS["linear"]

    def build(c):
        model = family("Qwen3", use_sliding_window=True, sliding_window=3, layer_types=kinds,
                       rope_parameters={**theirs, "rope_theta": c.rotary_base})(c)
        local = family("Qwen3", rope_theta=c.local_rotary_base)(c).model.rotary_emb

        def with_local_angles(layer, arguments, options):
            x = options.get("hidden_states", arguments[0] if arguments else None)
            n = torch.arange(x.shape[1])[None]
            positions = options.get("position_ids")
            options["position_embeddings"] = local(x, n if positions is None else positions)
            return arguments, options

        for kind, layer in zip(kinds, model.model.layers):
            if kind == "sliding_attention":
                layer.register_forward_pre_hook(with_local_angles, with_kwargs=True)
        return model

    agree(llama_options(query_key_norm=True, d_head=8, sliding_window=3, layer_types=kinds,
                        rotary_base=5000.0, local_rotary_base=20.0, rotary_scaling=ours), build,
          llama_pairs, rng)
