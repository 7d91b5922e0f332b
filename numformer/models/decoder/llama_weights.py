"""LLaMA and its relatives: Mistral, Qwen2, Qwen3, Mixtral and Gemma.

Phi-3 is LLaMA with joint matrices, and StarCoder2 has LayerNorms and biases.
"""

from functools import partial

from numformer.models.bert.bert_weights import ACTIVATIONS
from numformer.models.decoder.model import Decoder
from numformer.weights.family import Family
from numformer.weights.keys import IGNORED, RATE, Fixed, Flag, Old, Option, OtherName, Written
from numformer.weights.local_layers import Base, GlobalEvery, LayerTypes, RotaryByLayer, Window
from numformer.weights.operations import TRANSPOSED, Part
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


# Names of the router and the maps of an expert
_MIXTRAL = "block_sparse_moe", {"gate": "w1", "hidden": "w3", "output": "w2"}
_MAPS = {"gate": "gate_proj", "hidden": "up_proj", "output": "down_proj"}
_ATTENTION = (("query", "q"), ("key", "k"), ("value", "v"), ("output", "o"))


def _rows(config, experts=_MIXTRAL):
    yield Row("embedding.weight", "model.embed_tokens.weight")
    for n in range(config.n_layers):
        ours, theirs = f"blocks.{n}", f"model.layers.{n}"
        yield from norm(f"{ours}.norm1", f"{theirs}.input_layernorm", bias=False)
        for name, other in _ATTENTION:
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
        yield from _feedforward(config, f"{ours}.feedforward", theirs, *experts)
    yield from norm("norm", "model.norm", bias=False)
    if not config.tied:
        yield Row("head.weight", "lm_head.weight")


def _feedforward(config, ours, theirs, mixture, maps):
    if config.n_experts == 1:
        for name, other in _MAPS.items():
            yield from linear(f"{ours}.{name}", f"{theirs}.mlp.{other}", False)
        return
    yield from linear(f"{ours}.router", f"{theirs}.{mixture}.gate", False)
    for e in range(config.n_experts):
        for name, other in maps.items():
            yield from linear(f"{ours}.experts.{e}.{name}",
                              f"{theirs}.{mixture}.experts.{e}.{other}", False)


def _joint(ours, names, theirs, sizes):
    """The rows of maps whose weights are one below the other in one matrix."""
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    for name, start, size in zip(names, starts, sizes):
        yield Row(f"{ours}.{name}.weight", f"{theirs}.weight",
                  (Part(0, start, sum(sizes), size), TRANSPOSED))


def _phi3(config):
    D, F = config.head_width, config.hidden_width
    keys = D * (config.n_kv_heads or config.n_heads)
    yield Row("embedding.weight", "model.embed_tokens.weight")
    for n in range(config.n_layers):
        ours, theirs = f"blocks.{n}", f"model.layers.{n}"
        yield from norm(f"{ours}.norm1", f"{theirs}.input_layernorm", False)
        yield from _joint(f"{ours}.attention", ("query", "key", "value"),
                          f"{theirs}.self_attn.qkv_proj", (D * config.n_heads, keys, keys))
        yield from linear(f"{ours}.attention.output", f"{theirs}.self_attn.o_proj", False)
        yield from norm(f"{ours}.norm2", f"{theirs}.post_attention_layernorm", False)
        yield from _joint(f"{ours}.feedforward", ("gate", "hidden"),
                          f"{theirs}.mlp.gate_up_proj", (F, F))
        yield from linear(f"{ours}.feedforward.output", f"{theirs}.mlp.down_proj", False)
    yield from norm("norm", "model.norm", False)
    if not config.tied:
        yield Row("head.weight", "lm_head.weight")


def _starcoder2(config):
    yield Row("embedding.weight", "model.embed_tokens.weight")
    for n in range(config.n_layers):
        ours, theirs = f"blocks.{n}", f"model.layers.{n}"
        yield from norm(f"{ours}.norm1", f"{theirs}.input_layernorm")
        for name, other in _ATTENTION:
            yield from linear(f"{ours}.attention.{name}", f"{theirs}.self_attn.{other}_proj")
        yield from norm(f"{ours}.norm2", f"{theirs}.post_attention_layernorm")
        yield from linear(f"{ours}.feedforward.hidden", f"{theirs}.mlp.c_fc")
        yield from linear(f"{ours}.feedforward.output", f"{theirs}.mlp.c_proj")
    yield from norm("norm", "model.norm")
    if not config.tied:
        yield Row("head.weight", "lm_head.weight")


def _family(name, architecture, options=None, body="Model", rows=_rows, **keys):
    return Family(name=name, model=Decoder, options={**_OPTIONS, **(options or {})},
                  architectures=(f"{architecture}ForCausalLM", f"{architecture}{body}"),
                  keys={**_KEYS, **keys}, rows=rows, copies=_COPIES, prefix="model.",
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
# Their losses have a balance of experts only with output_router_logits
_ROUTER = dict.fromkeys(("output_router_logits", "router_aux_loss_coef", "router_jitter_noise"),
                        IGNORED)
MIXTRAL = _family(
    "mixtral", "Mixtral", dict(gates_over="chosen", balance_weight=0.0),
    num_local_experts=Option("n_experts", 8, least=2),
    num_experts_per_tok=Option("experts_per_token", 2), rms_norm_eps=Option("epsilon", 1e-5),
    rope_theta=Option("rotary_base", 1000000.0), sliding_window=Window(), **_ROUTER)
# Every block has experts, whose width is another key than that of a plain feed-forward
QWEN3_MOE = _family(
    "qwen3_moe", "Qwen3Moe", dict(query_key_norm=True, balance_weight=0.0),
    rows=partial(_rows, experts=("mlp", _MAPS)), attention_bias=Fixed(False),
    intermediate_size=Written(lambda c: c.hidden_width),
    moe_intermediate_size=Option("d_hidden", 768),
    num_experts=Option("n_experts", 128, least=2), num_local_experts=OtherName("n_experts"),
    num_experts_per_tok=Option("experts_per_token", 8),
    norm_topk_prob=Flag("gates_over", "chosen", "all", default=False),
    decoder_sparse_step=Fixed(1), mlp_only_layers=Old([], None),
    **{key: value for key, value in _FULL.items() if key != "layer_types"}, **_ROUTER)
# Where it is trained for longer texts, its angles are scaled by "longrope", which ours are not
PHI3 = _family(
    "phi3", "Phi3", rows=_phi3, rms_norm_eps=Option("epsilon", 1e-5),
    num_key_value_heads=Option("n_kv_heads", None), sliding_window=Window(),
    original_max_position_embeddings=IGNORED, attention_bias=Fixed(False),
    # Theirs is 32000 by default, which a smaller vocabulary does not have
    pad_token_id=Written(lambda c: None),
    resid_pdrop=Option("dropout", 0.0), embd_pdrop=RATE, attention_dropout=RATE)
STARCODER2 = _family(
    "starcoder2", "Starcoder2", dict(norm="layer_norm", bias=True, feedforward="gelu_tanh"),
    rows=_starcoder2,
    rms_norm_eps=IGNORED, norm_epsilon=Option("epsilon", 1e-5), use_bias=Fixed(True),
    hidden_act=Option("feedforward", "gelu_pytorch_tanh", {
        "gelu_pytorch_tanh": "gelu_tanh", **ACTIVATIONS}),
    num_key_value_heads=Option("n_kv_heads", 2), tie_word_embeddings=Option("tied", True),
    sliding_window=Window(), mlp_type=Old("default"), norm_type=Old("layer_norm"),
    residual_dropout=Option("dropout", 0.0), embedding_dropout=RATE, attention_dropout=RATE)

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
