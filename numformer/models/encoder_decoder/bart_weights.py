"""BART, and mBART, which is pre-norm: learned positions, and a norm of the embeddings."""

from numformer.models.bert.bert_weights import ACTIVATIONS
from numformer.models.encoder_decoder.config import BART as OPTIONS
from numformer.models.encoder_decoder.model import EncoderDecoder
from numformer.models.encoder_decoder.t5_weights import DecoderLayers, EncoderLayers
from numformer.weights.family import Family
from numformer.weights.keys import IGNORED, RATE, Derived, Fixed, Old, Option
from numformer.weights.operations import Part
from numformer.weights.table import Row, linear, norm

_LINEARS = (("attention.query", "self_attn.q_proj"), ("attention.key", "self_attn.k_proj"),
            ("attention.value", "self_attn.v_proj"), ("attention.output", "self_attn.out_proj"))
_CROSS = tuple((f"cross_{ours}", theirs.replace("self", "encoder")) for ours, theirs in _LINEARS)
_FEEDFORWARD = ("feedforward.hidden", "fc1"), ("feedforward.output", "fc2")
_NORMS = ("self_attn_layer_norm", "encoder_attn_layer_norm", "final_layer_norm")
UNUSED = 2                                            # first rows of a table of positions


def _stack(config, ours, theirs, name, n_layers, linears, norms):
    """The rows of the encoder or the decoder; `name` is "input" or "output"."""
    rows = Part(0, UNUSED, config.context_length + UNUSED)
    yield Row(f"{name}_positions.weight", f"{theirs}.embed_positions.weight", (rows,))
    yield from norm(f"{name}_norm", f"{theirs}.layernorm_embedding")
    for n in range(n_layers):
        block, layer = f"{ours}blocks.{n}", f"{theirs}.layers.{n}"
        for part, other in (*linears, *_FEEDFORWARD):
            yield from linear(f"{block}.{part}", f"{layer}.{other}")
        for i, other in enumerate(norms, 1):
            yield from norm(f"{block}.norm{i}", f"{layer}.{other}")
    if config.norm_first:
        yield from norm(f"{ours}norm", f"{theirs}.layer_norm")


def _rows(config):
    yield Row("embedding.weight", "model.shared.weight")
    yield from _stack(config, "encoder.", "model.encoder", "input",
                      config.n_encoder_layers or config.n_layers, _LINEARS, _NORMS[::2])
    yield from _stack(config, "", "model.decoder", "output", config.n_layers,
                      (*_LINEARS, *_CROSS), _NORMS)


def _same(name, option, function):
    """The key of the encoder, which is an option of ours, and that of the decoder, the same."""
    return {f"encoder_{name}": Option(option), f"decoder_{name}": Derived(function)}


def _family(name, architecture, norm_first):
    return Family(
        name=name, model=EncoderDecoder, options={**OPTIONS, "norm_first": norm_first},
        architectures=(f"{architecture}ForConditionalGeneration", f"{architecture}Model"),
        keys={
            "vocab_size": Option("vocab_size"), "d_model": Option("d_model"),
            "max_position_embeddings": Option("context_length"),
            "encoder_layers": EncoderLayers(), "decoder_layers": DecoderLayers(),
            **_same("attention_heads", "n_heads", lambda c: c.n_heads),
            **_same("ffn_dim", "d_hidden", lambda c: c.hidden_width),
            "num_hidden_layers": Derived(lambda c: c.n_encoder_layers or c.n_layers),
            "activation_function": Option("feedforward", "gelu", ACTIVATIONS),
            "scale_embedding": Option("embedding_scale", False),
            "init_std": Option("init_std", 0.02), "dropout": Option("dropout", 0.1),
            # Ours has one rate; the others, like layerdrop, matter in training alone
            "attention_dropout": RATE,
            **dict.fromkeys(("activation_dropout", "classif_dropout", "classifier_dropout",
                             "encoder_layerdrop", "decoder_layerdrop"), IGNORED),
            "normalize_before": Old(norm_first), "add_final_layer_norm": Old(norm_first),
            "normalize_embedding": Old(True), "static_position_embeddings": Old(False),
            "extra_pos_embeddings": Old(UNUSED), "add_bias_logits": Old(False),
            "do_blenderbot_90_layernorm": Old(False), "is_decoder": Fixed(False),
            "is_encoder_decoder": Fixed(True), "tie_word_embeddings": Fixed(True),
            **dict.fromkeys(("force_bos_token_to_be_generated", "save_step"), IGNORED)},
        rows=_rows, prefix="model.", buffers=r"(model\.)?(en|de)coder\.version",
        zeros={"final_logits_bias": lambda c: (1, c.vocab_size)},
        copies=dict.fromkeys(("model.encoder.embed_tokens.weight", "lm_head.weight",
                              "model.decoder.embed_tokens.weight"), "model.shared.weight"))


BART = _family("bart", "Bart", norm_first=False)
MBART = _family("mbart", "MBart", norm_first=True)
