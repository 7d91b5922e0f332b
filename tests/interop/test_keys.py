"""Keys of config.json about positions and local layers, and those of the families of decoders."""

import json

import pytest

from numformer.interop import FAMILIES, load, save
from numformer.models import KINDS
from numformer.models.decoder.config import LLAMA
from test_folders import change, facts_of, model_of, refused
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
    ("mistral", {"sliding_window": 0}, "'sliding_window' = 0 must be null or a whole number"),
    ("qwen2", {"use_sliding_window": True}, "'use_sliding_window' = True must be False"),
    ("gpt_neox", {"rotary_pct": 0.75}, "'rotary_pct' = 0.75 must be a share of the 4 coord"),
    ("gpt_neox", {"rotary_pct": "all"}, "'rotary_pct' = 'all' must be a number"),
    ("gpt_neox", {"rope_theta": 5.0}, "'rope_theta' = 5.0 must be 10000.0"),
    ("bloom", {"apply_residual_connection_post_layernorm": True}, "must be False"),
    ("bloom", {"n_head": 3}, "n_heads=3"),
    ("gemma", {"use_bidirectional_attention": True}, "must be False"),
    ("gemma2", {"sliding_window": None}, "'sliding_window' = None must be a whole number"),
    ("gemma2", {"query_pre_attn_scalar": 0}, "'query_pre_attn_scalar' = 0 must be above 0"),
    ("gemma2", {"layer_types": ["full_attention"] * 3}, "'layer_types' = .* a kind for each of 2"),
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


def encoder(rng, tmp_path, family):
    """A small folder of a family, for its path."""
    kind, config = KINDS[FAMILIES[family].kind]
    model = kind(config(**{**FAMILIES[family].options, **SMALL[family]}), rng)
    save(model, None, tmp_path / "model", family)
    return tmp_path / "model"


FULL, LOCAL = "full_attention", "sliding_attention"


@pytest.mark.parametrize("family, keys, words", [
    ("modernbert", {"norm_bias": True}, "'norm_bias' = True must be False"),
    ("modernbert", {"attention_bias": True}, "'attention_bias' = True must be False"),
    ("modernbert", {"mlp_bias": True}, "'mlp_bias' = True must be False"),
    ("modernbert", {"classifier_bias": True}, "'classifier_bias' = True must be False"),
    ("modernbert", {"decoder_bias": False}, "'decoder_bias' = False must be True"),
    ("modernbert", {"classifier_activation": "relu"}, "'classifier_activation' = 'relu' must be"),
    ("modernbert", {"hidden_activation": "relu"}, "'hidden_activation' = 'relu' must be 'gelu' or"),
    ("modernbert", {"tie_word_embeddings": False}, "'tie_word_embeddings' = False must be True"),
    ("modernbert", {"local_attention": 1}, "'local_attention' = 1 must be a whole number, 2 or"),
    ("modernbert", {"local_attention": None}, "'local_attention' = None must be a whole number"),
    ("modernbert", {"global_attn_every_n_layers": 0}, "a whole number, 1 to 1000"),
    ("modernbert", {"local_rope_theta": "high"}, "'local_rope_theta' = 'high' must be a number"),
    ("modernbert", {"rope_scaling": {"rope_type": "linear"}}, "'rope_scaling' = .* must be None"),
    ("modernbert", {"rope_parameters": {"rope_theta": 5.0}}, "'rope_parameters' = .* an object wi"),
    ("modernbert", {"rope_parameters": {FULL: {"rope_type": "linear", "factor": 2.0}}},
     "must have 'default' for layers of 'full_attention'"),
    ("modernbert", {"layer_types": [FULL, LOCAL, LOCAL, FULL, LOCAL]},
     "'layer_types' = .* must have a kind for each of 4 layers"),
    ("modernbert", {"layer_types": [FULL, LOCAL, FULL, LOCAL]}, "other layers than 'layer_types'"),
    ("modernbert", {"global_attn_every_n_layers": 1, "layer_types": [FULL, LOCAL, LOCAL, FULL]},
     "'global_attn_every_n_layers' = 1 says other layers than 'layer_types'"),
    ("modernbert", {"rope_parameters": {LOCAL: {"rope_theta": 7.0}}},
     "'local_rope_theta' = 20.0 says another base than 'rope_parameters', 7.0"),
    ("modernbert", {"rope_parameters": {FULL: {"rope_theta": 7.0}}},
     "'global_rope_theta' = 160000.0 says another base"),
    ("modernbert", {"layer_types": ["chunked"] * 4}, "'layer_types' = .* must be null or a list"),
    ("modernbert", {"architectures": ["ModernBertForMultipleChoice"]},
     "must be one of ModernBertForMaskedLM, ModernBertForSequenceClassification"),
    ("sentence-bert", {"position_embedding_type": "relative_key"}, "must be 'absolute'"),
    ("sentence-bert", {"architectures": ["BertForMultipleChoice"]}, "must be one of BertForM"),
    ("sentence-roberta", {"pad_token_id": 0}, "'pad_token_id' = 0 must be 1"),
    ("deit", {"qkv_bias": False}, "'qkv_bias' = False must be True"),
    ("deit", {"architectures": ["DeiTForMaskedImageModeling"]}, "must be one of DeiTForImageClass"),
])
def test_keys_of_encoders(rng, tmp_path, family, keys, words):
    folder = encoder(rng, tmp_path, family)
    (folder / "modules.json").unlink(missing_ok=True)
    change(folder, **keys)
    refused(folder, words)


def test_keys_of_modernbert_old_and_new(rng, tmp_path):
    """transformers 5 lists kinds of layers and bases by kind; files before it have numbers."""
    folder = encoder(rng, tmp_path, "modernbert")
    expected = load(folder)[0].config
    old = facts_of(folder)
    assert (old["local_attention"], old["global_attn_every_n_layers"]) == (4, 3)
    assert (old["global_rope_theta"], old["local_rope_theta"]) == (160000.0, 20.0)
    new = {"layer_types": [FULL, LOCAL, LOCAL, FULL], "rope_parameters": {
        FULL: {"rope_type": "default", "rope_theta": 160000.0},
        LOCAL: {"rope_type": "default", "rope_theta": 20.0}}}
    for key in ("global_attn_every_n_layers", "global_rope_theta", "local_rope_theta"):
        del old[key]
    (folder / "config.json").write_text(json.dumps(old | new))
    assert load(folder)[0].config == expected
    (folder / "config.json").write_text(json.dumps(old | {"global_attn_every_n_layers": 3}))
    assert load(folder)[0].config.local_rotary_base == 10000.0
    change(folder, local_rope_theta=None)             # the global one
    assert load(folder)[0].config.local_rotary_base is None
    for kinds in ([LOCAL, FULL, LOCAL, FULL], [FULL, LOCAL, FULL, FULL], [LOCAL] * 4):
        (folder / "config.json").write_text(json.dumps(old | {"layer_types": kinds}))
        assert load(folder)[0].config.layer_kinds == kinds
