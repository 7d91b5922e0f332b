"""T5: 1.0 with one table of tokens; 1.1, FLAN-T5 and mT5 with a gate and a head of their own; and
their encoders alone, each the backbone of a `SentenceBert`."""

from dataclasses import replace

from numformer.functional.activations.table import GATED
from numformer.models.bert.sentence_bert import SentenceBert
from numformer.models.encoder_decoder.config import T5 as OPTIONS
from numformer.models.encoder_decoder.model import EncoderDecoder
from numformer.weights.family import Family
from numformer.weights.keys import IGNORED, Derived, Fixed, Key, Option, Written
from numformer.weights.operations import Times
from numformer.weights.rotary import HeadWidth
from numformer.weights.table import Row, linear, norm

ENCODER = dict({name: value for name, value in OPTIONS.items()
                if name not in ("embedding_scale", "tied")},
               segments=0, embedding_norm=False)
_FEEDFORWARD = {"relu": "relu", "gated-gelu": "geglu_tanh", "gated-silu": "swiglu", "gelu": "gelu",
                "gelu_new": "gelu_tanh", "silu": "silu"}
_ACTIVATION = {"geglu_tanh": "gelu_new", "gelu_tanh": "gelu_new", "swiglu": "silu"}


class DecoderLayers(Key):
    """The blocks of the decoder; null: as many as in the encoder, whose number was read before."""

    default = None

    def read(self, value, options):
        if value is not None and value != options["n_layers"]:
            options.update(n_encoder_layers=options["n_layers"], n_layers=value)

    def write(self, config):
        return config.n_layers


class EncoderLayers(Option):
    """The blocks of the encoder, and for the time being of the decoder: `DecoderLayers`."""

    def __init__(self):
        super().__init__("n_layers")

    def write(self, config):
        return config.n_encoder_layers or config.n_layers


class ScaledOutputs(Key):
    """Whether the head's input is divided by sqrt(C); without this key, `OneTable` says it."""

    def read(self, value, options):
        if type(value) is not bool:
            raise ValueError("must be true or false")
        options["embedding_scale"] = value

    def write(self, config):
        return config.embedding_scale


class OneTable(ScaledOutputs):
    """Whether the head is the table of tokens; false also says that its input is not divided."""

    default = True

    def write(self, config):
        return config.tied


def _stack(config, ours, theirs, n_layers, attentions):
    """The rows of the encoder or the decoder; the first block has the table of distances."""
    yield Row(f"{ours}blocks.0.attention.positions.weight",
              f"{theirs}.block.0.layer.0.SelfAttention.relative_attention_bias.weight")
    gated = config.feedforward in GATED
    maps = (("gate", "wi_0"), ("hidden", "wi_1")) if gated else (("hidden", "wi"),)
    for n in range(n_layers):
        block, layer = f"{ours}blocks.{n}", f"{theirs}.block.{n}.layer"
        for i, (attention, other) in enumerate(attentions):
            yield from norm(f"{block}.norm{i + 1}", f"{layer}.{i}.layer_norm", False)
            for name in ("query", "key", "value", "output"):
                yield from linear(f"{block}.{attention}.{name}", f"{layer}.{i}.{other}.{name[0]}",
                                  False)
        last = len(attentions)
        yield from norm(f"{block}.norm{last + 1}", f"{layer}.{last}.layer_norm", False)
        for name, other in (*maps, ("output", "wo")):
            yield from linear(f"{block}.feedforward.{name}",
                              f"{layer}.{last}.DenseReluDense.{other}", False)
    yield from norm(f"{ours}norm", f"{theirs}.final_layer_norm", False)


def _rows(config):
    # 1.0 divides by sqrt(C) before the head, ours multiplies by it after the embedding
    scale = (Times(config.d_model ** -0.5),) if config.embedding_scale else ()
    yield Row("embedding.weight", "shared.weight", scale)
    attentions = ("attention", "SelfAttention"), ("cross_attention", "EncDecAttention")
    yield from _stack(config, "encoder.", "encoder", config.n_encoder_layers or config.n_layers,
                      attentions[:1])
    yield from _stack(config, "", "decoder", config.n_layers, attentions)
    if not config.tied:
        yield Row("head.weight", "lm_head.weight")


def _own_head(options, names):
    """Later versions have a head of their own, unless their file has none."""
    return {"tied": options["embedding_scale"] or "lm_head.weight" not in names}


_KEYS = {
    "vocab_size": Option("vocab_size"), "n_positions": Option("context_length", 512),
    "d_model": Option("d_model"), "d_ff": Option("d_hidden"), "num_heads": Option("n_heads"),
    "num_layers": EncoderLayers(), "num_decoder_layers": DecoderLayers(), "d_kv": HeadWidth(64),
    "relative_attention_num_buckets": Option("n_buckets", 32),
    "relative_attention_max_distance": Option("max_distance", 128),
    "dropout_rate": Option("dropout", 0.1), "layer_norm_epsilon": Option("epsilon", 1e-6),
    "feed_forward_proj": Option("feedforward", "relu", _FEEDFORWARD),
    "dense_act_fn": Derived(lambda c: _ACTIVATION.get(c.feedforward, c.feedforward)),
    "is_gated_act": Derived(lambda c: c.feedforward in GATED),
    "is_decoder": Fixed(False), "is_encoder_decoder": Fixed(True), "classifier_dropout": IGNORED}


def _family(name, architecture, more=(), options=None, **keys):
    return Family(
        name=name, model=EncoderDecoder, options={**OPTIONS, **(options or {})},
        architectures=(f"{architecture}ForConditionalGeneration", *more, f"{architecture}Model"),
        keys={**_KEYS, **keys}, rows=_rows, settle=_own_head,
        # Published files have a second table of distances, which is not used
        buffers=r"decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight",
        copies=dict.fromkeys(("encoder.embed_tokens.weight", "decoder.embed_tokens.weight",
                              "lm_head.weight"), "shared.weight"))


T5 = _family("t5", "T5", ("T5WithLMHeadModel",), tie_word_embeddings=OneTable(),
             scale_decoder_outputs=ScaledOutputs())
# mT5 never divides, whatever it says about its tables
MT5 = _family("mt5", "MT5", options=dict(embedding_scale=False),
              tie_word_embeddings=Written(lambda c: c.tied),
              feed_forward_proj=Option("feedforward", "gated-gelu", _FEEDFORWARD))


def _encoder_rows(config):
    # The names of a SentenceBert are those of the encoder of an encoder-decoder, one level down
    yield Row("backbone.embedding.weight", "shared.weight")
    yield from _stack(config, "backbone.encoder.", "encoder", config.n_layers,
                      (("attention", "SelfAttention"),))


def _encoder(family, architecture):
    """The family of the encoder alone, which has no decoder, no head and no factor before one."""
    return replace(
        family, name=f"sentence-{family.name}", model_type=family.name, model=SentenceBert,
        architectures=(architecture,), settle=lambda options, names: {},
        options=ENCODER, rows=_encoder_rows, elsewhere=("pooling", "normalize", "max_length"),
        keys=family.keys | {
            "num_layers": Option("n_layers"), "is_encoder_decoder": Fixed(False, True),
            **dict.fromkeys(("num_decoder_layers", "scale_decoder_outputs", "tie_word_embeddings"),
                            IGNORED)},
        buffers=r"decoder\..*|lm_head\.weight",
        copies={"encoder.embed_tokens.weight": "shared.weight"})


T5_ENCODER = _encoder(T5, "T5EncoderModel")
MT5_ENCODER = _encoder(MT5, "MT5EncoderModel")
