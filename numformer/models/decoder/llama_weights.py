"""LLaMA and its relatives: Mistral, Qwen2, Qwen3, Mixtral and Gemma."""

from numformer.models.decoder.model import Decoder
from numformer.weights.family import Family
from numformer.weights.keys import IGNORED, Fixed, Option, Written
from numformer.weights.local_layers import Base, GlobalEvery, LayerTypes, RotaryByLayer, Window
from numformer.weights.rotary import ROTARY, HeadWidth, PreAttention, Rotary
from numformer.weights.table import Row, linear, norm

_OPTIONS = dict(norm="rms_norm", feedforward="swiglu", positions="rotary", bias=False)
_KEYS = {
    "vocab_size": Option("vocab_size"), "max_position_embeddings": Option("context_length"),
    "hidden_size": Option("d_model"), "intermediate_size": Option("d_hidden"),
    "num_hidden_layers": Option("n_layers"), "num_attention_heads": Option("n_heads"),
    "num_key_value_heads": Option("n_kv_heads"), "hidden_act": Fixed("silu"),
    "initializer_range": Option("init_std", 0.02), "rms_norm_eps": Option("epsilon", 1e-6),
    "tie_word_embeddings": Option("tied", False), **ROTARY,
    "attention_dropout": Written(lambda c: 0.0),
    "head_dim": HeadWidth()}
_COPIES = {"lm_head.weight": "model.embed_tokens.weight"}
_BUFFERS = r"(model\.)?(layers\.\d+\.self_attn\.)?rotary_emb\.inv_freq"


def _rows(config):
    yield Row("embedding.weight", "model.embed_tokens.weight")
    for n in range(config.n_layers):
        ours, theirs = f"blocks.{n}", f"model.layers.{n}"
        yield from norm(f"{ours}.norm1", f"{theirs}.input_layernorm", bias=False)
        for name, other in (("query", "q"), ("key", "k"), ("value", "v"), ("output", "o")):
            bias = bool(config.qkv_bias) and name != "output"
            yield from linear(f"{ours}.attention.{name}", f"{theirs}.self_attn.{other}_proj", bias)
        if config.query_key_norm:
            for name, other in (("query", "q"), ("key", "k")):
                yield from norm(f"{ours}.attention.{name}_norm",
                                f"{theirs}.self_attn.{other}_norm", bias=False)
        after = "post_attention_layernorm"            # in Gemma 2 and 3, of the attention's output
        if config.sandwich_norm:
            yield from norm(f"{ours}.output_norm1", f"{theirs}.{after}", bias=False)
            yield from norm(f"{ours}.output_norm2", f"{theirs}.post_feedforward_layernorm", False)
            after = "pre_feedforward_layernorm"
        yield from norm(f"{ours}.norm2", f"{theirs}.{after}", bias=False)
        yield from _feedforward(config, f"{ours}.feedforward", theirs)
    yield from norm("norm", "model.norm", bias=False)
    if not config.tied:
        yield Row("head.weight", "lm_head.weight")


def _feedforward(config, ours, theirs):
    if config.n_experts == 1:
        for name, other in (("gate", "gate"), ("hidden", "up"), ("output", "down")):
            yield from linear(f"{ours}.{name}", f"{theirs}.mlp.{other}_proj", False)
        return
    theirs = f"{theirs}.block_sparse_moe"
    yield from linear(f"{ours}.router", f"{theirs}.gate", False)
    for e in range(config.n_experts):
        for name, other in (("gate", "w1"), ("hidden", "w3"), ("output", "w2")):
            yield from linear(f"{ours}.experts.{e}.{name}", f"{theirs}.experts.{e}.{other}", False)


def _family(name, architecture, options=None, body="Model", **keys):
    return Family(name=name, model=Decoder, options={**_OPTIONS, **(options or {})},
                  architectures=(f"{architecture}ForCausalLM", f"{architecture}{body}"),
                  keys={**_KEYS, **keys}, rows=_rows, copies=_COPIES, prefix="model.",
                  buffers=_BUFFERS)


LLAMA = _family(
    "llama", "Llama", num_key_value_heads=Option("n_kv_heads", None),
    attention_bias=Fixed(False), mlp_bias=Fixed(False), pretraining_tp=IGNORED)
MISTRAL = _family("mistral", "Mistral", sliding_window=Window(4096))
_FULL = dict(use_sliding_window=Fixed(False), sliding_window=IGNORED, max_window_layers=IGNORED,
             layer_types=LayerTypes())
QWEN2 = _family("qwen2", "Qwen2", dict(qkv_bias=True), use_mrope=Fixed(False), **_FULL)
QWEN3 = _family("qwen3", "Qwen3", dict(query_key_norm=True), attention_bias=Fixed(False),
                head_dim=HeadWidth(128), **_FULL)
# Its loss has a balance of experts only with output_router_logits
MIXTRAL = _family(
    "mixtral", "Mixtral", dict(gates_over="chosen", balance_weight=0.0),
    num_local_experts=Option("n_experts", 8, least=2),
    num_experts_per_tok=Option("experts_per_token", 2), rms_norm_eps=Option("epsilon", 1e-5),
    rope_theta=Option("rotary_base", 1000000.0), sliding_window=Window(),
    **dict.fromkeys(("output_router_logits", "router_aux_loss_coef", "router_jitter_noise"),
                    IGNORED))

_GEMMA = dict(feedforward="geglu_tanh", unit_offset=True, embedding_scale=True)
_GEMMA_KEYS = dict(
    head_dim=HeadWidth(256), tie_word_embeddings=Option("tied", True), attention_bias=Fixed(False),
    use_bidirectional_attention=Fixed(False), cache_implementation=IGNORED)
_GEMMA2_KEYS = dict(
    **_GEMMA_KEYS, hidden_act=Fixed("gelu_pytorch_tanh", default="gelu_pytorch_tanh"),
    hidden_activation=Fixed("gelu_pytorch_tanh", default="gelu_pytorch_tanh"),
    query_pre_attn_scalar=PreAttention(256), sliding_window=Window(4096, null=False),
    sliding_window_size=IGNORED)
# "gelu" in an old config means the approximation by tanh
GEMMA = _family(
    "gemma", "Gemma", _GEMMA, **_GEMMA_KEYS, hidden_act=Fixed("gelu_pytorch_tanh", "gelu"),
    hidden_activation=Fixed(None, "gelu_pytorch_tanh"))
GEMMA2 = _family(
    "gemma2", "Gemma2", dict(
        _GEMMA, sandwich_norm=True, layer_types="sliding_attention,full_attention"),
    **_GEMMA2_KEYS,
    attn_logit_softcapping=Option("score_softcap", 50.0),
    final_logit_softcapping=Option("logit_softcap", 30.0), layer_types=LayerTypes())
GEMMA3 = _family(
    "gemma3_text", "Gemma3", dict(
        _GEMMA, sandwich_norm=True, query_key_norm=True, local_rotary_base=10000.0),
    body="TextModel", **_GEMMA2_KEYS, attn_logit_softcapping=Option("score_softcap", None),
    final_logit_softcapping=Option("logit_softcap", None),
    rope_theta=Option("rotary_base", 1000000.0),
    rope_local_base_freq=Base("local_rotary_base"), rope_parameters=RotaryByLayer(),
    rope_scaling=Rotary(written=True),
    sliding_window_pattern=GlobalEvery(6),
    _sliding_window_pattern=IGNORED, layer_types=LayerTypes())
