"""GPT-NeoX, which Pythia's models are, and BLOOM: q, k and v head by head in one matrix."""

from numformer.models.bert.bert_weights import ACTIVATIONS
from numformer.models.decoder.model import Decoder
from numformer.weights.family import Family
from numformer.weights.keys import IGNORED, NOTHING, RATE, Derived, Fixed, Option, OtherName
from numformer.weights.operations import TRANSPOSED, Heads
from numformer.weights.rotary import ROTARY, Rotary, Share
from numformer.weights.table import Row, linear, norm


def _blocks(config, layers, attention):
    for n in range(config.n_layers):
        ours, theirs = f"blocks.{n}", f"{layers}.{n}"
        yield from norm(f"{ours}.norm1", f"{theirs}.input_layernorm")
        for i, name in enumerate(("query", "key", "value")):
            part = Heads(i, 3, config.n_heads)
            joint = f"{theirs}.{attention}.query_key_value"           # (H 3 D, C)
            yield Row(f"{ours}.attention.{name}.weight", f"{joint}.weight", (part, TRANSPOSED))
            yield Row(f"{ours}.attention.{name}.bias", f"{joint}.bias", (part,))
        yield from linear(f"{ours}.attention.output", f"{theirs}.{attention}.dense")
        yield from norm(f"{ours}.norm2", f"{theirs}.post_attention_layernorm")
        yield from linear(f"{ours}.feedforward.hidden", f"{theirs}.mlp.dense_h_to_4h")
        yield from linear(f"{ours}.feedforward.output", f"{theirs}.mlp.dense_4h_to_h")


def _neox(config):
    yield Row("embedding.weight", "gpt_neox.embed_in.weight")
    yield from _blocks(config, "gpt_neox.layers", "attention")
    yield from norm("norm", "gpt_neox.final_layer_norm")
    if not config.tied:
        yield Row("head.weight", "embed_out.weight")


def _bloom(config):
    yield Row("embedding.weight", "transformer.word_embeddings.weight")
    yield from norm("embedding_norm", "transformer.word_embeddings_layernorm")
    yield from _blocks(config, "transformer.h", "self_attention")
    yield from norm("norm", "transformer.ln_f")


GPT_NEOX = Family(
    name="gpt_neox", model=Decoder, architectures=("GPTNeoXForCausalLM", "GPTNeoXModel"),
    options=dict(positions="rotary"),
    keys={
        "vocab_size": Option("vocab_size"), "max_position_embeddings": Option("context_length"),
        "hidden_size": Option("d_model"), "intermediate_size": Option("d_hidden"),
        "num_hidden_layers": Option("n_layers"), "num_attention_heads": Option("n_heads"),
        # gelu_fast is the approximation by tanh
        "hidden_act": Option("feedforward", "gelu", {**ACTIVATIONS, "gelu_fast": "gelu_tanh"}),
        "layer_norm_eps": Option("epsilon", 1e-5), "initializer_range": Option("init_std", 0.02),
        "hidden_dropout": Option("dropout", 0.0),
        "attention_dropout": RATE,
        "use_parallel_residual": Option("parallel_residual", True),
        "tie_word_embeddings": Option("tied", False), "attention_bias": Fixed(True),
        "rotary_pct": Share(0.25), "rotary_emb_base": Option("rotary_base", 10000),
        **ROTARY, "rope_parameters": Rotary(share=True),
        "rope_theta": Derived(lambda c: c.rotary_base),
        # of files that were saved again, next to rotary_pct, which is the one that is read
        "partial_rotary_factor": IGNORED, "classifier_dropout": IGNORED},
    rows=_neox, copies={"embed_out.weight": "gpt_neox.embed_in.weight"}, prefix="gpt_neox.",
    renamed={"lm_head.weight": "embed_out.weight"},
    buffers=r"(gpt_neox\.)?layers\.\d+\.attention\.(bias|masked_bias|rotary_emb\.inv_freq)")

BLOOM = Family(
    name="bloom", model=Decoder, architectures=("BloomForCausalLM", "BloomModel"),
    # its GELU is the approximation by tanh
    options=dict(positions="alibi", embedding_norm=True, feedforward="gelu_tanh"),
    keys={
        "vocab_size": Option("vocab_size"), "seq_length": Option("context_length", 2048),
        "hidden_size": Option("d_model", NOTHING), "n_embed": OtherName("d_model"),
        "n_layer": Option("n_layers", NOTHING), "num_hidden_layers": OtherName("n_layers"),
        "n_head": Option("n_heads", NOTHING), "num_attention_heads": OtherName("n_heads"),
        "n_inner": Fixed(None), "layer_norm_epsilon": Option("epsilon", 1e-5),
        "initializer_range": Option("init_std", 0.02), "hidden_dropout": Option("dropout", 0.0),
        "attention_dropout": RATE,
        "apply_residual_connection_post_layernorm": Fixed(False),
        "tie_word_embeddings": Fixed(True),
        **dict.fromkeys(("attention_softmax_in_fp32", "bias_dropout_fusion", "pretraining_tp",
                         "masked_softmax_fusion", "offset_alibi", "skip_bias_add",
                         "skip_bias_add_qkv", "slow_but_exact", "unk_token_id"), IGNORED)},
    rows=_bloom, copies={"lm_head.weight": "transformer.word_embeddings.weight"},
    prefix="transformer.")
