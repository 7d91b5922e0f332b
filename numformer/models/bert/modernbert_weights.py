"""ModernBERT with its masked-token head: rotary positions, local layers, no biases."""

from numformer.models.bert.model import MODERNBERT as OPTIONS, Bert
from numformer.weights.family import Family
from numformer.weights.keys import IGNORED, RATE, Fixed, Key, Option
from numformer.weights.local_layers import Base, GlobalEvery, LayerTypes, RotaryByLayer, Window
from numformer.weights.operations import TRANSPOSED, Part
from numformer.weights.table import Row, linear, norm

GATED = {"gelu": "geglu", "gelu_new": "geglu_tanh", "gelu_pytorch_tanh": "geglu_tanh",
         "silu": "swiglu"}


class SpecialToken(Key):
    """The id of a special token: no matter to a model; null, as theirs by default is 50281 or
    more, which a smaller vocabulary does not have."""

    def write(self, config):
        return None


EVERY = GlobalEvery(first=True)


def encoder(config, name="model"):
    """The rows of the backbone."""
    ours, inner = "backbone", config.hidden_width
    yield Row(f"{ours}.embedding.weight", f"{name}.embeddings.tok_embeddings.weight")
    yield from norm(f"{ours}.norm", f"{name}.embeddings.norm", False)
    for n in range(config.n_layers):
        block, layer = f"{ours}.encoder.blocks.{n}", f"{name}.layers.{n}"
        width = config.n_heads * config.head_width
        for i, part in enumerate(("query", "key", "value")):
            yield Row(f"{block}.attention.{part}.weight", f"{layer}.attn.Wqkv.weight",
                      (Part(0, i * width, 3 * width, width), TRANSPOSED))
        for i, part in enumerate(("gate", "hidden")):
            yield Row(f"{block}.feedforward.{part}.weight", f"{layer}.mlp.Wi.weight",
                      (Part(0, i * inner, 2 * inner, inner), TRANSPOSED))
        yield from linear(f"{block}.attention.output", f"{layer}.attn.Wo", False)
        yield from linear(f"{block}.feedforward.output", f"{layer}.mlp.Wo", False)
        if n:
            yield from norm(f"{block}.norm1", f"{layer}.attn_norm", False)
        yield from norm(f"{block}.norm2", f"{layer}.mlp_norm", False)
    yield from norm(f"{ours}.encoder.norm", f"{name}.final_norm", False)


def _rows(config):
    yield from encoder(config)
    yield from linear("head.linear", "head.dense", False)
    yield from norm("head.norm", "head.norm", False)
    yield Row("head.bias", "decoder.bias")


MODERNBERT = Family(
    name="modernbert", model=Bert, architectures=("ModernBertForMaskedLM",),
    options=OPTIONS,
    keys={
        "vocab_size": Option("vocab_size"), "hidden_size": Option("d_model"),
        "max_position_embeddings": Option("context_length", 8192),
        "num_hidden_layers": Option("n_layers"), "num_attention_heads": Option("n_heads"),
        "intermediate_size": Option("d_hidden"), "norm_eps": Option("epsilon", 1e-5),
        "hidden_activation": Option("feedforward", "gelu", GATED),
        "initializer_range": Option("init_std", 0.02),
        "local_attention": Window(128, null=False, both_sides=True),
        "global_attn_every_n_layers": EVERY, "layer_types": LayerTypes(unless=EVERY),
        "global_rope_theta": Base("rotary_base"),
        "local_rope_theta": Base("local_rotary_base", or_global=True),
        "rope_parameters": RotaryByLayer(scaled=False), "rope_scaling": Fixed(None),
        "embedding_dropout": Option("dropout", 0.0),
        "attention_dropout": RATE, "mlp_dropout": RATE,
        **dict.fromkeys(("attention_bias", "mlp_bias", "norm_bias", "classifier_bias"),
                        Fixed(False)),
        "decoder_bias": Fixed(True), "tie_word_embeddings": Fixed(True),
        "classifier_activation": Fixed("gelu"),       # of the masked-token head, too
        **dict.fromkeys(map("{}_token_id".format, ("bos", "cls", "eos", "pad", "sep")),
                        SpecialToken()),
        # Files hold the last two, which the published implementation does not read
        **dict.fromkeys(("classifier_dropout", "classifier_pooling",
                         "deterministic_flash_attn", "initializer_cutoff_factor",
                         "reference_compile", "repad_logits_with_grad", "sparse_prediction",
                         "sparse_pred_ignore_index", "layer_norm_eps", "position_embedding_type"),
                        IGNORED)},
    rows=_rows, prefix="model.", head="decoder.bias",
    copies={"decoder.weight": "model.embeddings.tok_embeddings.weight"})
