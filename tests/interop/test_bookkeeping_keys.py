"""Keys of config.json that every family may have, those that nothing reads, and those that would
change the mathematics."""

import json

import numpy as np
import pytest

from numformer.interop import FAMILIES, load, save
from numformer.models import KINDS
from test_folders import change, facts_of, refused, same_arrays
from witness_sizes import SMALL

# What published files hold: of the base class of configs in transformers 2 to 5, and of tools
BOOKKEEPING = {
    "_attn_implementation_autoset": True, "_commit_hash": "0a1b", "_name_or_path": "./out",
    "_num_labels": 1, "auto_map": {"AutoModel": "modeling.Own"}, "bad_words_ids": None,
    "begin_suppress_tokens": None, "bos_token_id": 1, "chunk_size_feed_forward": 0,
    "cross_attention_hidden_size": None, "diversity_penalty": 0.0, "do_sample": True,
    "dtype": "bfloat16", "early_stopping": False, "encoder_no_repeat_ngram_size": 0,
    "eos_token_ids": [1, 2], "exponential_decay_length_penalty": None, "finetuning_task": None,
    "gradient_checkpointing": False, "is_llama_config": True, "max_length": 50,
    "neftune_noise_alpha": 5.0, "no_repeat_ngram_size": 3, "num_beam_groups": 1,
    "num_return_sequences": 1, "output_past": True, "output_scores": False, "prefix": " ",
    "problem_type": None, "pruned_heads": {}, "quantization_config": None,
    "remove_invalid_values": False, "repetition_penalty": 1.1, "return_dict_in_generate": False,
    "rope_interleaved": False, "sentence_transformers": {"version": "3.0"},
    "suppress_tokens": None, "task_specific_params": {"text-generation": {"max_length": 50}},
    "temperature": 0.7, "tf_legacy_loss": False, "tie_encoder_decoder": False,
    "torch_dtype": "float16", "torchscript": False, "transformers.js_config": {"dtype": "q4"},
    "transformers_version": "4.46.0", "typical_p": 1.0, "unsloth_fixed": True,
    "unsloth_version": "2024.9", "use_bfloat16": False, "xla_device": None}


def random_folder(name, rng, path):
    family = FAMILIES[name]
    kind, config = KINDS[family.kind]
    model = kind(config(**{**family.options, **SMALL[name]}), rng)
    save(model, None, path, name)
    return model


@pytest.mark.parametrize("name", FAMILIES)
def test_forty_keys_of_bookkeeping_change_nothing(name, rng, tmp_path):
    assert len(BOOKKEEPING) >= 40
    model = random_folder(name, rng, tmp_path / "model")
    facts, config = facts_of(tmp_path / "model"), load(tmp_path / "model")[0].config
    if FAMILIES[name].kind != "SentenceBert":         # it keeps three options in other files
        for key, value in BOOKKEEPING.items():
            found = FAMILIES[name].config(facts | {key: value}, (), "float32")
            assert found == FAMILIES[name].config(facts, (), "float32"), key
    change(tmp_path / "model", **BOOKKEEPING)
    for part in FAMILIES[name].parts:                 # a part is a config of the base class, too
        change(tmp_path / "model", **{part: facts[part] | BOOKKEEPING})
    same, _ = load(tmp_path / "model", note=pytest.fail)
    assert same.config == config and same_arrays(same, model)


@pytest.mark.parametrize("name", FAMILIES)
def test_keys_that_no_class_declares_are_named_in_one_line(name, rng, tmp_path):
    model, lines = random_folder(name, rng, tmp_path / "model"), []
    more = {"surprise": 3, "condition_on_chain": True}
    change(tmp_path / "model", **more)
    assert same_arrays(load(tmp_path / "model", note=lines.append)[0], model)
    line, = lines
    assert line.endswith(f"config.json: not read, as the class of {FAMILIES[name].model_type} "
                         "declares no condition_on_chain, surprise.")
    with pytest.warns(UserWarning, match="declares no condition_on_chain, surprise"):
        load(tmp_path / "model")


# A value that changes what a model computes, and one that does not
MATHEMATICS = [
    ("gpt2", "scale_attn_by_inverse_layer_idx", True, False),
    ("gpt2", "pruned_heads", {"0": [1]}, {}),
    ("gpt2", "add_cross_attention", True, None), ("gpt2", "tie_word_embeddings", False, True),
    ("llama", "rope_interleaved", True, False), ("llama", "attention_bias", True, None),
    ("llama", "mlp_bias", True, False), ("llama", "hidden_act", "gelu", "silu"),
    ("llama", "partial_rotary_factor", 0.5, 1.0),
    ("llama", "quantization_config", {"bits": 4}, None),
    ("llama", "rope_scaling", {"type": "dynamic", "factor": 2.0}, {"rope_type": "default"}),
    ("llama", "transformers_weights", "other.safetensors", None),
    ("mistral", "sliding_window", -1, None), ("qwen2", "use_sliding_window", True, False),
    ("qwen2", "use_mrope", True, False), ("qwen3", "layer_types", ["chunked"] * 2, None),
    ("gemma", "use_bidirectional_attention", True, None),
    ("bloom", "apply_residual_connection_post_layernorm", True, False),
    ("bert", "position_embedding_type", "relative_key", "absolute"),
    ("bert", "is_decoder", True, False), ("roberta", "pad_token_id", 0, 1),
    ("distilbert", "tie_weights_", False, True), ("modernbert", "norm_bias", True, False),
    ("modernbert", "classifier_activation", "relu", "gelu"),
    ("t5", "is_encoder_decoder", False, True), ("bart", "tie_encoder_decoder", True, False),
    ("bart", "normalize_before", True, False), ("vit", "qkv_bias", False, True),
    ("clip", "text_config.is_decoder", True, False),
    ("opt", "enable_bias", False, True), ("opt", "word_embed_proj_dim", 4, None),
    ("opt", "_remove_final_layer_norm", True, False),
    ("gpt_neo", "attention_types", [[["global", "even"], 1]], [[["local"], 2]]),
    ("gpt_neo", "attention_types", [["global", 2]], [[["local", "local"], 1]]),
    ("mpt", "attn_config.clip_qkv", 6.0, None), ("mpt", "logit_scale", "inv_sqrt_d_model", None),
    ("mpt", "attn_config.alibi", False, True), ("starcoder2", "use_bias", False, True),
    ("phi3", "rope_scaling", {"type": "longrope", "short_factor": [1.0]}, None),
    ("qwen3_moe", "mlp_only_layers", [0], []), ("qwen3_moe", "decoder_sparse_step", 2, 1),
    ("qwen3_moe", "norm_topk_prob", 1, True),
    ("modernbert-texts", "classifier_pooling", "max", "cls"),
    ("modernbert-tokens", "classifier_bias", True, False),
    ("distilbert-texts", "id2label", ["yes", "no"], {"0": "a", "1": "b", "2": "c"}),
    ("sentence-t5", "is_decoder", True, False),
]


@pytest.mark.parametrize("name, key, wrong, right", MATHEMATICS)
def test_a_key_that_changes_the_mathematics_is_refused_by_name(name, key, wrong, right, rng,
                                                              tmp_path):
    model = random_folder(name, rng, tmp_path / "model")
    part, _, inner = key.rpartition(".")
    for value in (wrong, right):
        facts = facts_of(tmp_path / "model")
        (facts[part] if part else facts)[inner] = value
        change(tmp_path / "model", **facts)
        if value is wrong:
            refused(tmp_path / "model", f"'{key}' = ")
        else:
            assert same_arrays(load(tmp_path / "model", note=pytest.fail)[0], model)


@pytest.mark.parametrize("name, rates", [
    ("gpt2", {"attn_pdrop": 0.3, "embd_pdrop": 0.2}), ("llama", {"attention_dropout": 0.1}),
    ("gpt_neox", {"attention_dropout": 0.2}), ("bert", {"attention_probs_dropout_prob": 0.3}),
    ("distilbert", {"attention_dropout": 0.4}), ("modernbert", {"mlp_dropout": 0.4}),
    ("vit", {"attention_probs_dropout_prob": 0.4}),
    ("mixtral", {"output_router_logits": True, "router_jitter_noise": 0.1})])
def test_what_is_for_training_alone_stops_no_model(name, rates, rng, tmp_path):
    model = random_folder(name, rng, tmp_path / "model")
    change(tmp_path / "model", **rates)
    same, _ = load(tmp_path / "model", note=pytest.fail)
    assert same.config == model.config and same_arrays(same, model)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_table_has_every_key_that_the_published_class_declares(name):
    """So what it does not have, the published code does not read either."""
    transformers = pytest.importorskip("transformers", reason="the witness is not installed")
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    family = FAMILIES[name]
    declared = CONFIG_MAPPING[family.model_type]().to_dict()
    facts = family.flat(json.loads(json.dumps(declared, default=str)))
    assert transformers and family.others(facts) == []


def test_the_published_files_that_bookkeeping_kept_out(rng, tmp_path):
    """SmolLM2-135M-Instruct and distilgpt2: what was refused in them, at a small size."""
    kinds = {"q4f16": "float16", "fp16": "float16"}
    smollm2 = {"is_llama_config": True, "rope_interleaved": False,
               "transformers.js_config": {"kv_cache_dtype": kinds}}
    for name, more in (("llama", smollm2), ("gpt2", {"_num_labels": 1})):
        model = random_folder(name, rng, tmp_path / name)
        change(tmp_path / name, **more)
        ids = np.arange(5)[None]
        np.testing.assert_array_equal(load(tmp_path / name, note=pytest.fail)[0](ids), model(ids))
