"""OPT, GPT-Neo and MPT: relatives of GPT-3, with biases or without."""

from numformer.layers.blocks.local import FULL, SLIDING
from numformer.models.bert.bert_weights import ACTIVATIONS
from numformer.models.decoder.gpt_weights import GELU_TANH
from numformer.models.decoder.model import Decoder
from numformer.weights.family import Family
from numformer.weights.keys import IGNORED, RATE, Derived, Fixed, Old, Option
from numformer.weights.local_layers import MOST_LAYERS, LayerTypes, Window
from numformer.weights.operations import TRANSPOSED, Part
from numformer.weights.table import Row, linear, norm

UNUSED = 2                                            # first rows of OPT's table of positions
_QUERIES = ("query", "q_proj"), ("key", "k_proj"), ("value", "v_proj")


def _opt(config):
    theirs = "model.decoder"
    yield Row("embedding.weight", f"{theirs}.embed_tokens.weight")
    yield Row("positions.weight", f"{theirs}.embed_positions.weight",
              (Part(0, UNUSED, config.context_length + UNUSED),))
    for n in range(config.n_layers):
        block, layer = f"blocks.{n}", f"{theirs}.layers.{n}"
        for part, other in (*_QUERIES, ("output", "out_proj")):
            yield from linear(f"{block}.attention.{part}", f"{layer}.self_attn.{other}")
        yield from linear(f"{block}.feedforward.hidden", f"{layer}.fc1")
        yield from linear(f"{block}.feedforward.output", f"{layer}.fc2")
        yield from norm(f"{block}.norm1", f"{layer}.self_attn_layer_norm")
        yield from norm(f"{block}.norm2", f"{layer}.final_layer_norm")
    if config.norm_first:
        yield from norm("norm", f"{theirs}.final_layer_norm")


def _gpt_neo(config):
    yield Row("embedding.weight", "transformer.wte.weight")
    yield Row("positions.weight", "transformer.wpe.weight")
    for n in range(config.n_layers):
        block, layer = f"blocks.{n}", f"transformer.h.{n}"
        for part, other in _QUERIES:
            yield from linear(f"{block}.attention.{part}", f"{layer}.attn.attention.{other}", False)
        yield from linear(f"{block}.attention.output", f"{layer}.attn.attention.out_proj")
        yield from linear(f"{block}.feedforward.hidden", f"{layer}.mlp.c_fc")
        yield from linear(f"{block}.feedforward.output", f"{layer}.mlp.c_proj")
        yield from norm(f"{block}.norm1", f"{layer}.ln_1")
        yield from norm(f"{block}.norm2", f"{layer}.ln_2")
    yield from norm("norm", "transformer.ln_f")


def _mpt(config):
    C = config.d_model
    yield Row("embedding.weight", "transformer.wte.weight")
    for n in range(config.n_layers):
        block, layer = f"blocks.{n}", f"transformer.blocks.{n}"
        for i, part in enumerate(("query", "key", "value")):
            yield Row(f"{block}.attention.{part}.weight", f"{layer}.attn.Wqkv.weight",
                      (Part(0, i * C, 3 * C, C), TRANSPOSED))
        yield from linear(f"{block}.attention.output", f"{layer}.attn.out_proj", False)
        yield from linear(f"{block}.feedforward.hidden", f"{layer}.ffn.up_proj", False)
        yield from linear(f"{block}.feedforward.output", f"{layer}.ffn.down_proj", False)
        yield from norm(f"{block}.norm1", f"{layer}.norm_1", False)
        yield from norm(f"{block}.norm2", f"{layer}.norm_2", False)
    yield from norm("norm", "transformer.norm_f", False)


class AttentionTypes(LayerTypes):
    """Groups of layers: ``[[["global", "local"], 12]]`` is 12 times a global and a local one."""

    default, names = [[["global", "local"], 12]], {"global": FULL, "local": SLIDING}

    def _kinds(self, value):
        try:
            if sum(len(kinds) * times for kinds, times in value) > MOST_LAYERS:
                raise ValueError
            return [self.names[kind] for kinds, times in value for kind in kinds * times]
        except (TypeError, ValueError, KeyError):
            raise ValueError("must be a list of groups, each a list of 'global' and 'local' and a "
                             "number") from None

    def read(self, value, options):
        super().read(self._kinds(value), options)

    def check(self, value, config):
        super().check(self._kinds(value), config)

    def write(self, config):
        return [[_names_of_layers(config), 1]]


def _names_of_layers(config):
    return ["local" if kind == SLIDING else "global" for kind in config.layer_kinds]


OPT = Family(
    name="opt", model=Decoder, architectures=("OPTForCausalLM", "OPTModel"),
    options=dict(epsilon=1e-5),
    keys={
        "vocab_size": Option("vocab_size"), "max_position_embeddings": Option("context_length"),
        "hidden_size": Option("d_model"), "ffn_dim": Option("d_hidden"),
        "num_hidden_layers": Option("n_layers"), "num_attention_heads": Option("n_heads"),
        "activation_function": Option("feedforward", "relu", ACTIVATIONS),
        "do_layer_norm_before": Option("norm_first", True), "_remove_final_layer_norm": Old(False),
        "word_embed_proj_dim": Derived(lambda c: c.d_model), "enable_bias": Fixed(True),
        "layer_norm_elementwise_affine": Fixed(True), "init_std": Option("init_std", 0.02),
        "dropout": Option("dropout", 0.1), "attention_dropout": RATE,
        "activation_dropout": IGNORED, "layerdrop": IGNORED, "tie_word_embeddings": Fixed(True)},
    rows=_opt, copies={"lm_head.weight": "model.decoder.embed_tokens.weight"}, prefix="model.")

GPT_NEO = Family(
    name="gpt_neo", model=Decoder, architectures=("GPTNeoForCausalLM", "GPTNeoModel"),
    options=dict(scaled_scores=False, qkv_bias=False),
    keys={
        "vocab_size": Option("vocab_size"), "max_position_embeddings": Option("context_length"),
        "hidden_size": Option("d_model"), "intermediate_size": Option("d_hidden", None),
        "num_layers": Option("n_layers"), "num_heads": Option("n_heads"),
        "attention_types": AttentionTypes(), "attention_layers": Derived(_names_of_layers),
        "window_size": Window(256, null=False),
        "activation_function": Option("feedforward", "gelu_new", {**GELU_TANH, **ACTIVATIONS}),
        "layer_norm_epsilon": Option("epsilon", 1e-5),
        "initializer_range": Option("init_std", 0.02), "resid_dropout": Option("dropout", 0.0),
        "embed_dropout": RATE, "attention_dropout": RATE, "tie_word_embeddings": Fixed(True),
        **dict.fromkeys(("classifier_dropout", "summary_activation", "summary_first_dropout",
                         "summary_proj_to_labels", "summary_type", "summary_use_proj"), IGNORED)},
    rows=_gpt_neo, copies={"lm_head.weight": "transformer.wte.weight"}, prefix="transformer.",
    buffers=r"(transformer\.)?h\.\d+\.attn\.attention\.(bias|masked_bias)")

_ATTENTION = {
    "attn_type": Fixed("multihead_attention"), "alibi": Fixed(True), "alibi_bias_max": Fixed(8),
    "clip_qkv": Old(None), "softmax_scale": Old(None),
    **dict.fromkeys(("prefix_lm", "qk_ln", "attn_uses_sequence_id"), Old(False)),
    "attn_impl": IGNORED, "attn_pdrop": IGNORED}
MPT = Family(
    name="mpt", model=Decoder, architectures=("MptForCausalLM", "MptModel", "MPTForCausalLM"),
    parts=("attn_config",), options=dict(positions="alibi", bias=False, feedforward="gelu"),
    keys={
        "vocab_size": Option("vocab_size"), "max_seq_len": Option("context_length", 2048),
        "d_model": Option("d_model"), "n_layers": Option("n_layers"), "n_heads": Option("n_heads"),
        "expansion_ratio": Fixed(4), "layer_norm_epsilon": Option("epsilon", 1e-5),
        "initializer_range": Option("init_std", 0.02), "no_bias": Fixed(True),
        "logit_scale": Old(None), "tie_word_embeddings": Fixed(True),
        # The published class has no learned positions, whatever the key says; the last three are
        # of the first files
        **dict.fromkeys(("emb_pdrop", "resid_pdrop", "embedding_fraction", "init_device",
                         "learned_pos_emb", "norm_type", "init_config", "tokenizer_name",
                         "verbose"), IGNORED),
        **{f"attn_config.{key}": meaning for key, meaning in _ATTENTION.items()}},
    rows=_mpt, copies={"lm_head.weight": "transformer.wte.weight"}, prefix="transformer.")
