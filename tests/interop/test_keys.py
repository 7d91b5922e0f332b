"""Keys of config.json about positions and local layers, and those of the families of decoders."""

import pytest

from numformer.interop import FAMILIES, load, save
from numformer.models.decoder_config import LLAMA
from test_folders import change, model_of, refused
from witness_sizes import SMALL


@pytest.mark.parametrize("scaling, words", [
    ({"rope_type": "dynamic", "factor": 8.0}, "'rope_scaling' .* has rope_type 'dynamic'"),
    ({"type": "longrope", "factor": 2.0}, "'rope_scaling' .* has rope_type 'longrope'"),
    ({"type": "linear", "rope_type": "yarn", "factor": 2.0}, "has rope_type 'yarn'"),
    ({"rope_type": ["yarn"]}, "has rope_type"), (3, "must be null or an object"),
    ({"rope_type": "default", "factor": 2.0}, "has 'factor', which is not known"),
    ({"rope_type": "yarn", "factor": 2.0, "mscale": 1.0}, "has 'mscale', which is not known"),
    ({"rope_type": "linear"}, "has no 'factor'"),
    ({"rope_type": "llama3", "factor": 2.0, "low_freq_factor": 1.0}, "has no 'high_freq_factor'"),
    ({"rope_type": "linear", "factor": "2"}, "has factor '2', which is no number"),
    ({"rope_type": "linear", "factor": 0.5}, "factor=0.5")])
def test_unknown_kinds_of_rotary_positions(rng, tmp_path, scaling, words):
    save(model_of(rng, LLAMA), None, tmp_path / "model")
    change(tmp_path / "model", rope_scaling=scaling)
    refused(tmp_path / "model", words)


@pytest.mark.parametrize("family, keys, words", [
    ("llama", {"head_dim": 8}, "has shape"), ("llama", {"head_dim": 2.5}, "'head_dim' = 2.5 must"),
    ("llama", {"sliding_window": 3}, "key 'sliding_window' = 3 is not known"),
    ("mistral", {"sliding_window": 0}, "'sliding_window' = 0 must be null or a whole number"),
    ("qwen2", {"use_sliding_window": True}, "'use_sliding_window' = True must be False"),
    ("gpt_neox", {"rotary_pct": 0.75}, "'rotary_pct' = 0.75 must be a share of the 4 coord"),
    ("gpt_neox", {"rotary_pct": "all"}, "'rotary_pct' = 'all' must be a number"),
    ("gpt_neox", {"rope_theta": 5.0}, "'rope_theta' = 5.0 must be 10000.0"),
    ("bloom", {"apply_residual_connection_post_layernorm": True}, "must be False"),
    ("bloom", {"n_head": 3}, "n_heads=3"),
    ("gemma", {"use_bidirectional_attention": True}, "must be False or None"),
    ("gemma2", {"sliding_window": None}, "'sliding_window' = None must be a whole number"),
    ("gemma2", {"query_pre_attn_scalar": 0}, "'query_pre_attn_scalar' = 0 must be above 0"),
    ("gemma2", {"layer_types": ["full_attention", "sliding_attention"]}, "'layer_types' = .* must"),
    ("gemma2", {"layer_types": ["chunked_attention"] * 2}, "'layer_types' = .* must be null or"),
    ("gemma3_text", {"rope_local_base_freq": None}, "must be a number, not None"),
    ("gemma3_text", {"rope_parameters": {"sliding_attention": {
        "rope_type": "linear", "factor": 2.0}}}, "must have 'default' for layers of"),
])
def test_keys_of_other_decoders(rng, tmp_path, family, keys, words):
    options = {**FAMILIES[family].options, **SMALL[family]}
    save(model_of(rng, options), None, tmp_path / "model", family)
    change(tmp_path / "model", **keys)
    refused(tmp_path / "model", words)


def test_two_keys_that_say_the_scaling_of_rotary_positions(rng, tmp_path):
    """Files of different ages have different ones; of both, neither may be taken silently."""
    linear = {"rope_type": "linear", "factor": 2.0}
    save(model_of(rng, LLAMA), None, tmp_path / "model")
    change(tmp_path / "model", rope_scaling=linear, rope_parameters={"rope_type": "default"})
    refused(tmp_path / "model", "'rope_parameters' = .* says another scaling of rotary angles")
    change(tmp_path / "model", rope_parameters=linear)
    scaling = load(tmp_path / "model")[0].config.rotary_scaling
    assert scaling == {"kind": "linear", "factor": 2.0}
