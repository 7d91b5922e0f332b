"""Numbers of parameters, exact, from the config.json of published models.

The totals are those that the hub shows for the files of weights (safetensors), or the size of the
files by that of a number. No weights are needed: models are built for their shapes alone.
"""

import math

import pytest

from numformer.analysis import count
from numformer.interop import FAMILIES
from numformer.models import CONFIGS, KINDS, VISION_CONFIGS


def gpt2(n_layer, n_head, n_embd):
    return dict(model_type="gpt2", architectures=["GPT2LMHeadModel"], vocab_size=50257,
                activation_function="gelu_new", n_ctx=1024, n_positions=1024, n_layer=n_layer,
                n_head=n_head, n_embd=n_embd, layer_norm_epsilon=1e-5, resid_pdrop=0.1,
                summary_type="cls_index")


def llama(hidden, inner, layers, heads, groups, vocabulary=32000, context=2048, **more):
    return {**dict(model_type="llama", architectures=["LlamaForCausalLM"], hidden_act="silu",
                   vocab_size=vocabulary, max_position_embeddings=context, hidden_size=hidden,
                   intermediate_size=inner, num_hidden_layers=layers, num_attention_heads=heads,
                   num_key_value_heads=groups, rms_norm_eps=1e-6, rope_scaling=None,
                   tie_word_embeddings=False), **more}


def llama3(hidden, inner, layers, heads, factor, tied):
    return llama(hidden, inner, layers, heads, 8, 128256, 131072, rope_theta=5e5, head_dim=None,
                 tie_word_embeddings=tied, rope_scaling=dict(
                     rope_type="llama3", factor=factor, low_freq_factor=1.0, high_freq_factor=4.0,
                     original_max_position_embeddings=8192))


def mistral(vocabulary, window=None):
    return llama(4096, 14336, 32, 32, 8, vocabulary, 32768, model_type="mistral",
                 architectures=["MistralForCausalLM"], rope_theta=1e6, sliding_window=window)


def qwen2(hidden, inner, layers, heads, groups, vocabulary, tied):
    return llama(hidden, inner, layers, heads, groups, vocabulary, 32768, model_type="qwen2",
                 architectures=["Qwen2ForCausalLM"], rope_theta=1e6, max_window_layers=layers,
                 sliding_window=32768, use_sliding_window=False, tie_word_embeddings=tied)


def qwen3(hidden, inner, layers, heads, tied):
    return llama(hidden, inner, layers, heads, 8, 151936, 40960, model_type="qwen3", head_dim=128,
                 architectures=["Qwen3ForCausalLM"], attention_bias=False, rope_theta=1e6,
                 max_window_layers=layers, sliding_window=None, use_sliding_window=False,
                 tie_word_embeddings=tied)


def pythia(hidden, layers, heads, vocabulary=50304):
    return dict(model_type="gpt_neox", architectures=["GPTNeoXForCausalLM"], hidden_act="gelu",
                vocab_size=vocabulary, hidden_size=hidden, intermediate_size=4 * hidden,
                num_hidden_layers=layers, num_attention_heads=heads, layer_norm_eps=1e-5,
                max_position_embeddings=2048, rotary_emb_base=10000, rotary_pct=0.25,
                tie_word_embeddings=False, use_parallel_residual=True)


def bloom(hidden, layers, heads):
    return dict(model_type="bloom", architectures=["BloomForCausalLM"], n_embed=hidden,
                n_layer=layers, num_attention_heads=heads, vocab_size=250880, seq_length=2048,
                n_inner=None, offset_alibi=100, layer_norm_epsilon=1e-5, attention_dropout=0.0,
                hidden_dropout=0.0, apply_residual_connection_post_layernorm=False)


def gemma(kind, hidden, inner, layers, heads, groups, vocabulary=256000, **more):
    name = dict(gemma="Gemma", gemma2="Gemma2", gemma3_text="Gemma3")[kind]
    facts = llama(hidden, inner, layers, heads, groups, vocabulary, 8192, model_type=kind,
                  architectures=[f"{name}ForCausalLM"], **{"head_dim": 256, **more})
    del facts["tie_word_embeddings"], facts["hidden_act"]
    return {**facts, ("hidden_act" if kind == "gemma" else "hidden_activation"):
            "gelu_pytorch_tanh"}


def bert(hidden, layers, heads, vocabulary=30522, **more):
    return {**dict(model_type="bert", architectures=["BertForMaskedLM"], hidden_act="gelu",
                   vocab_size=vocabulary, hidden_size=hidden, intermediate_size=4 * hidden,
                   num_hidden_layers=layers, num_attention_heads=heads, type_vocab_size=2,
                   max_position_embeddings=512, layer_norm_eps=1e-12, pad_token_id=0), **more}


def roberta(hidden, layers, heads):
    return bert(hidden, layers, heads, 50265, model_type="roberta", type_vocab_size=1,
                architectures=["RobertaForMaskedLM"], max_position_embeddings=514,
                layer_norm_eps=1e-5, pad_token_id=1, bos_token_id=0, eos_token_id=2)


def modernbert(hidden, inner, layers, heads):
    return dict(model_type="modernbert", architectures=["ModernBertForMaskedLM"], vocab_size=50368,
                hidden_size=hidden, intermediate_size=inner, num_hidden_layers=layers,
                num_attention_heads=heads, max_position_embeddings=8192, local_attention=128,
                global_attn_every_n_layers=3, global_rope_theta=160000.0, local_rope_theta=10000.0,
                hidden_activation="gelu", classifier_activation="gelu", classifier_bias=False,
                classifier_dropout=0.0, classifier_pooling="mean", decoder_bias=True,
                deterministic_flash_attn=False, attention_bias=False, mlp_bias=False,
                norm_bias=False, norm_eps=1e-5, layer_norm_eps=1e-5, attention_dropout=0.0,
                embedding_dropout=0.0, mlp_dropout=0.0, initializer_cutoff_factor=2.0,
                bos_token_id=50281, cls_token_id=50281, eos_token_id=50282, pad_token_id=50283,
                sep_token_id=50282, position_embedding_type="absolute", tie_word_embeddings=True)


def t5(d_model, d_ff, layers, heads):
    return dict(model_type="t5", architectures=["T5ForConditionalGeneration"], vocab_size=32128,
                d_model=d_model, d_ff=d_ff, d_kv=64, num_layers=layers, num_heads=heads,
                n_positions=512, relative_attention_num_buckets=32, is_encoder_decoder=True,
                dropout_rate=0.1, layer_norm_epsilon=1e-6)


def t5_v1_1(d_model, d_ff, layers, heads, kind="T5", vocabulary=32128):
    return dict(t5(d_model, d_ff, layers, heads), model_type=kind.lower(), vocab_size=vocabulary,
                architectures=[f"{kind}ForConditionalGeneration"], num_decoder_layers=layers,
                feed_forward_proj="gated-gelu", tie_word_embeddings=False)


def bart(d_model, d_ff, layers, heads, vocabulary=50265, decoder_layers=None, rate=0.1):
    return dict(model_type="bart", architectures=["BartModel"], activation_function="gelu",
                activation_dropout=rate, attention_dropout=rate, classif_dropout=rate, dropout=0.1,
                vocab_size=vocabulary, d_model=d_model, encoder_layers=layers,
                decoder_layers=decoder_layers or layers, encoder_ffn_dim=d_ff, decoder_ffn_dim=d_ff,
                encoder_attention_heads=heads, decoder_attention_heads=heads,
                encoder_layerdrop=0.0, decoder_layerdrop=0.0, max_position_embeddings=1024,
                num_hidden_layers=layers, add_bias_logits=False, add_final_layer_norm=False,
                normalize_before=False, normalize_embedding=True, scale_embedding=False,
                init_std=0.02, is_encoder_decoder=True, decoder_start_token_id=2,
                forced_eos_token_id=2, no_repeat_ngram_size=3, pad_token_id=1)


def vit(hidden, layers, heads, patch=16, image=224):
    return dict(model_type="vit", architectures=["ViTForImageClassification"], hidden_size=hidden,
                intermediate_size=4 * hidden, num_hidden_layers=layers, num_attention_heads=heads,
                image_size=image, patch_size=patch, num_channels=3, hidden_act="gelu",
                qkv_bias=True, layer_norm_eps=1e-12,
                id2label={str(n): f"class {n}" for n in range(1000)})


def without_head(hidden, inner, layers, heads=12):
    return bert(hidden, layers, heads, intermediate_size=inner, architectures=["BertModel"])


POOLER = ("pooler.dense.weight", "pooler.dense.bias")


def deit(hidden, heads):
    return vit(hidden, 12, heads) | dict(model_type="deit",
                                         architectures=["DeiTForImageClassificationWithTeacher"])


FILES = {                                             # of the hub: config.json, parameters
    "gpt2": (gpt2(12, 12, 768), 124_439_808),
    "gpt2-medium": (gpt2(24, 16, 1024), 354_823_168),
    "gpt2-large": (gpt2(36, 20, 1280), 774_030_080),
    "gpt2-xl": (gpt2(48, 25, 1600), 1_557_611_200),
    "distilgpt2": (gpt2(6, 12, 768), 81_912_576),
    "openai-gpt": (dict(model_type="openai-gpt", architectures=["OpenAIGPTLMHeadModel"], afn="gelu",
                        vocab_size=40478, n_positions=512, n_ctx=512, n_embd=768, n_layer=12,
                        n_head=12, n_special=0, predict_special_tokens=True), 116_534_784),
    "llama-7b": (llama(4096, 11008, 32, 32, 32), 6_738_415_616),
    "llama-13b": (llama(5120, 13824, 40, 40, 40), 13_015_864_320),
    "llama-30b": (llama(6656, 17920, 60, 52, 52), 32_528_943_616),
    "llama-65b": (llama(8192, 22016, 80, 64, 64), 65_285_660_672),
    "Llama-2-7b": (llama(4096, 11008, 32, 32, 32, context=4096), 6_738_415_616),
    "Llama-2-70b": (llama(8192, 28672, 80, 64, 8, context=4096), 68_976_648_192),
    "Meta-Llama-3-8B": (llama(4096, 14336, 32, 32, 8, 128256, 8192, rope_theta=5e5),
                        8_030_261_248),
    "Meta-Llama-3-70B": (llama(8192, 28672, 80, 64, 8, 128256, 8192, rope_theta=5e5),
                         70_553_706_496),
    "Llama-3.1-8B": (llama3(4096, 14336, 32, 32, 8.0, False), 8_030_261_248),
    "Llama-3.2-1B": (llama3(2048, 8192, 16, 32, 32.0, True), 1_235_814_400),
    "Llama-3.2-3B": (llama3(3072, 8192, 28, 24, 32.0, True), 3_212_749_824),
    "TinyLlama-1.1B": (llama(2048, 5632, 22, 32, 4), 1_100_048_384),
    "SmolLM-135M": (llama(576, 1536, 30, 9, 3, 49152, tie_word_embeddings=True), 134_515_008),
    "SmolLM-360M": (llama(960, 2560, 32, 15, 5, 49152, tie_word_embeddings=True), 361_821_120),
    "SmolLM-1.7B": (llama(2048, 8192, 24, 32, 32, 49152, tie_word_embeddings=True), 1_711_376_384),
    "Mistral-7B-v0.3": (mistral(32768), 7_248_023_552),
    "Mistral-7B-v0.1": (mistral(32000, 4096), 7_241_732_096),
    "Qwen2-0.5B": (qwen2(896, 4864, 24, 14, 2, 151936, True), 494_032_768),
    "Qwen2-1.5B": (qwen2(1536, 8960, 28, 12, 2, 151936, True), 1_543_714_304),
    "Qwen2-7B": (qwen2(3584, 18944, 28, 28, 4, 152064, False), 7_615_616_512),
    "Qwen3-0.6B": (qwen3(1024, 3072, 28, 16, True), 596_049_920),
    "Qwen3-1.7B": (qwen3(2048, 6144, 28, 16, True), 1_720_574_976),
    "Qwen3-8B": (qwen3(4096, 12288, 36, 32, False), 8_190_735_360),
    "Qwen3-14B": (qwen3(5120, 17408, 40, 40, False), 14_768_307_200),
    "Mixtral-8x7B-v0.1": (llama(
        4096, 14336, 32, 32, 8, context=32768, model_type="mixtral", rope_theta=1e6,
        architectures=["MixtralForCausalLM"], num_local_experts=8, num_experts_per_tok=2,
        output_router_logits=False, router_aux_loss_coef=0.02, sliding_window=None),
        46_702_792_704),
    "pythia-70m": (pythia(512, 6, 8), 70_426_624),
    "pythia-160m": (pythia(768, 12, 12), 162_322_944),
    "pythia-410m": (pythia(1024, 24, 16), 405_334_016),
    "pythia-1b": (pythia(2048, 16, 8), 1_011_781_632),
    "pythia-1.4b": (pythia(2048, 24, 16), 1_414_647_808),
    "bloom-560m": (bloom(1024, 24, 16), 559_214_592),
    "bloom": (bloom(14336, 70, 112), 176_247_271_424),
    "gemma-2b": (gemma("gemma", 2048, 16384, 18, 8, 1), 2_506_172_416),
    "gemma-7b": (gemma("gemma", 3072, 24576, 28, 16, 16), 8_537_680_896),
    "gemma-2-2b": (gemma("gemma2", 2304, 9216, 26, 8, 4, sliding_window=4096,
                         query_pre_attn_scalar=256), 2_614_341_888),
    "gemma-2-9b": (gemma("gemma2", 3584, 14336, 42, 16, 8), 9_241_705_984),
    "gemma-2-27b": (gemma("gemma2", 4608, 36864, 46, 32, 16, head_dim=128,
                          query_pre_attn_scalar=144), 27_227_128_320),
    "gemma-3-1b": (gemma("gemma3_text", 1152, 6912, 26, 4, 1, 262144, rope_theta=1e6,
                         rope_local_base_freq=10000, sliding_window=512,
                         sliding_window_pattern=6, query_pre_attn_scalar=256), 999_885_952),
    "bert-base-uncased": (bert(768, 12, 12), 109_514_298),
    "bert-base-cased": (bert(768, 12, 12, 28996), 108_340_804),
    "bert-large-uncased": (bert(1024, 24, 16), 335_174_458),
    "roberta-base": (roberta(768, 12, 12), 124_697_433),
    "roberta-large": (roberta(1024, 24, 16), 355_412_057),
    "distilbert-base-uncased": (dict(
        model_type="distilbert", architectures=["DistilBertForMaskedLM"], vocab_size=30522,
        dim=768, n_layers=6, n_heads=12, hidden_dim=3072, max_position_embeddings=512,
        activation="gelu", sinusoidal_pos_embds=False, tie_weights_=True, qa_dropout=0.1,
        seq_classif_dropout=0.2), 66_985_530),
    "all-MiniLM-L6-v2": (without_head(384, 1536, 6), 22_713_216),
    "all-MiniLM-L12-v2": (without_head(384, 1536, 12), 33_360_000),
    "TinyBERT_General_4L_312D": (without_head(312, 1200, 4), 14_350_248),
    "TinyBERT_General_6L_768D": (without_head(768, 3072, 6), 66_955_008),
    "ModernBERT-base": (modernbert(768, 1152, 22, 12), 149_655_232),
    "ModernBERT-large": (modernbert(1024, 2624, 28, 16), 395_881_664),
    "t5-small": (t5(512, 2048, 6, 8), 60_506_624),
    "t5-base": (t5(768, 3072, 12, 12), 222_903_552),
    "t5-large": (t5(1024, 4096, 24, 16), 737_668_096),
    "t5-3b": (dict(t5(1024, 16384, 24, 32), d_kv=128), 2_851_598_336),
    # FLAN-T5 has the shapes of 1.1
    "t5-v1_1-small": (t5_v1_1(512, 1024, 8, 6), 76_961_152),
    "t5-v1_1-base": (t5_v1_1(768, 2048, 12, 12), 247_577_856),
    "t5-v1_1-large": (t5_v1_1(1024, 2816, 24, 16), 783_150_080),
    "t5-v1_1-xl": (t5_v1_1(2048, 5120, 24, 32), 2_849_757_184),
    "flan-t5-xxl": (t5_v1_1(4096, 10240, 24, 64), 11_135_332_352),
    "mt5-small": (t5_v1_1(512, 1024, 8, 6, "MT5", 250112), 300_176_768),
    "mt5-base": (t5_v1_1(768, 2048, 12, 12, "MT5", 250112), 582_401_280),
    "bart-base": (bart(768, 3072, 6, 12), 139_420_416),
    "bart-large": (bart(1024, 4096, 12, 16, rate=0.0), 406_291_456),
    "distilbart-cnn-12-6": (bart(1024, 4096, 12, 16, 50264, 6), 305_510_400),
    "mbart-large-cc25": (dict(
        bart(1024, 4096, 12, 16, 250027), model_type="mbart", scale_embedding=True,
        architectures=["MBartForConditionalGeneration"], normalize_before=True,
        add_final_layer_norm=True), 610_851_840),
    "vit-base-patch16-224": (vit(768, 12, 12), 86_567_656),
    "vit-large-patch16-224": (vit(1024, 24, 16), 304_326_632),
    "deit-tiny-patch16-224": (vit(192, 12, 3), 5_717_416),
    "deit-small-patch16-224": (vit(384, 12, 6), 22_050_664),
    "deit-base-patch16-224": (vit(768, 12, 12), 86_567_656),
    "deit-tiny-distilled-patch16-224": (deit(192, 3), 5_910_800),
    "deit-small-distilled-patch16-224": (deit(384, 6), 22_436_432),
    "deit-base-distilled-patch16-224": (deit(768, 12), 87_338_192),
}
# What `numformer count` knows, by papers' tables and by the files
NAMED = {
    "gpt1": 116_534_784, "gpt2": 124_439_808, "gpt2-medium": 354_823_168,
    "gpt2-large": 774_030_080, "gpt2-xl": 1_557_611_200, "llama-7b": 6_738_415_616,
    "llama-13b": 13_015_864_320, "llama-33b": 32_528_943_616, "llama-65b": 65_285_660_672,
    "llama2-7b": 6_738_415_616, "llama2-13b": 13_015_864_320, "llama2-70b": 68_976_648_192,
    "llama3-8b": 8_030_261_248, "llama3-70b": 70_553_706_496, "llama3-405b": 405_853_388_800,
    "mixtral-8x7b": 46_702_792_704, "t5-small": 60_506_624, "t5-base": 222_903_552,
    "t5-large": 737_668_096, "t5-v1_1-small": 76_961_152, "t5-v1_1-base": 247_577_856,
    "t5-v1_1-large": 783_150_080, "t5-v1_1-xl": 2_849_757_184,
    **{f"flan-t5-{size}": total for size, total in (
        ("small", 76_961_152), ("base", 247_577_856), ("large", 783_150_080),
        ("xl", 2_849_757_184))},
    "mt5-small": 300_176_768, "mt5-base": 582_401_280,
    # without BART's two times two unused rows of positions
    "bart-base": 139_420_416 - 4 * 768, "bart-large": 406_291_456 - 4 * 1024,
    "mbart-large": 610_851_840 - 4 * 1024,
    "bert-base": 110_106_428, "bert-large": 336_226_108,
    "modernbert-base": 149_655_232, "modernbert-large": 395_881_664,
    # without RoBERTa's two unused rows of positions and its one segment, and without the position
    # of ViT's class token
    "roberta-base": 124_697_433 - 3 * 768, "roberta-large": 355_412_057 - 3 * 1024,
    "vit-base": 86_567_656 - 768, "vit-large": 304_326_632 - 1024,
}


def family_of_facts(facts):
    return next(family for family in FAMILIES.values() if family.model_type == facts["model_type"]
                and facts["architectures"][0] in family.architectures)


@pytest.mark.parametrize("name", FILES)
def test_the_tensors_of_a_published_config(name):
    facts, total = FILES[name]
    family = family_of_facts(facts)
    names = POOLER if "BertModel" in facts["architectures"] else ("lm_head.weight",)
    config = family.config(facts, names, "float32")          # a head, if it may have its own
    model = KINDS[family.kind][0](config, None)
    parameters = {part: parameter.data for part, parameter in model.named_parameters()}
    shapes = {row.theirs: row.shape(parameters[row.ours].shape) for row in family.rows(config)}
    assert sum(map(math.prod, shapes.values())) == total
    assert family.differences(config) == {}, "it is written as it was read"


@pytest.mark.parametrize("name", NAMED)
def test_named_sizes(name):
    assert count((CONFIGS | VISION_CONFIGS)[name])["parameters"] == NAMED[name]


def test_there_are_enough():
    assert len(FILES) >= 25 and len(NAMED) >= 25
