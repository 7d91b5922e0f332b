"""GPT and GPT-2: one matrix for q, k and v, and matrices that are not transposed."""

from numformer.models.decoder.model import Decoder
from numformer.weights.family import Family
from numformer.weights.keys import IGNORED, RATE, Fixed, Option
from numformer.weights.operations import Part
from numformer.weights.table import Row, norm

GELU_TANH = {"gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh"}
_KEYS = {
    "vocab_size": Option("vocab_size"), "n_positions": Option("context_length"),
    "n_embd": Option("d_model"), "n_layer": Option("n_layers"), "n_head": Option("n_heads"),
    "layer_norm_epsilon": Option("epsilon", 1e-5),
    "initializer_range": Option("init_std", 0.02),
    # One rate for all three; the published models have 0.1 for each
    "resid_pdrop": Option("dropout", 0.1), "embd_pdrop": RATE, "attn_pdrop": RATE,
    "tie_word_embeddings": Fixed(True),
    **dict.fromkeys(("summary_activation", "summary_first_dropout", "summary_hidden_size",
                     "summary_proj_to_labels", "summary_type", "summary_use_proj"), IGNORED)}


def _rows(embedding, positions, final_norm):
    def rows(config):
        C = config.d_model
        yield Row("embedding.weight", f"transformer.{embedding}.weight")
        yield Row("positions.weight", f"transformer.{positions}.weight")
        for n in range(config.n_layers):
            ours, theirs = f"blocks.{n}", f"transformer.h.{n}"
            yield from norm(f"{ours}.norm1", f"{theirs}.ln_1")
            for i, name in enumerate(("query", "key", "value")):
                for axis, part in ((1, "weight"), (0, "bias")):
                    yield Row(f"{ours}.attention.{name}.{part}", f"{theirs}.attn.c_attn.{part}",
                              (Part(axis, i * C, 3 * C, C),))
            for name, other in (("attention.output", "attn.c_proj"),
                                ("feedforward.hidden", "mlp.c_fc"),
                                ("feedforward.output", "mlp.c_proj")):
                for part in ("weight", "bias"):
                    yield Row(f"{ours}.{name}.{part}", f"{theirs}.{other}.{part}")
            yield from norm(f"{ours}.norm2", f"{theirs}.ln_2")
        if final_norm:
            yield from norm("norm", "transformer.ln_f")
    return rows


GPT2 = Family(
    name="gpt2", model=Decoder, architectures=("GPT2LMHeadModel", "GPT2Model"),
    keys={
        **_KEYS, "activation_function": Option("feedforward", "gelu_new", {
            **GELU_TANH, "gelu": "gelu", "relu": "relu", "silu": "silu"}),
        "n_inner": Option("d_hidden", None),
        "scale_attn_weights": Option("scaled_scores", True),
        "scale_attn_by_inverse_layer_idx": Fixed(False), "add_cross_attention": Fixed(False),
        "reorder_and_upcast_attn": IGNORED},
    rows=_rows("wte", "wpe", final_norm=True),
    copies={"lm_head.weight": "transformer.wte.weight"}, prefix="transformer.",
    buffers=r"(transformer\.)?h\.\d+\.attn\.(bias|masked_bias)")

GPT1 = Family(
    name="openai-gpt", model=Decoder,
    architectures=("OpenAIGPTLMHeadModel", "OpenAIGPTModel"), options=dict(norm_first=False),
    # what its code calls "gelu" is the approximation by tanh
    keys={**_KEYS, "afn": Option("feedforward", "gelu", {
        "gelu": "gelu_tanh", "relu": "relu", "swish": "silu"}),
        "predict_special_tokens": IGNORED, "n_special": IGNORED},
    rows=_rows("tokens_embed", "positions_embed", final_norm=False),
    copies={"lm_head.weight": "transformer.tokens_embed.weight"}, prefix="transformer.",
    buffers=r"(transformer\.)?(h\.\d+\.attn\.bias|position_ids)")
