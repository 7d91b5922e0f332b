"""ModernBERT with its masked-token head: rotary positions, local layers, no biases."""

from numformer.models.bert.model import MODERNBERT as OPTIONS, Bert
from numformer.weights.family import Family
from numformer.weights.keys import IGNORED, NOTHING, Derived, Fixed, Key, Option
from numformer.weights.operations import TRANSPOSED, Part
from numformer.weights.rotary import LayerTypes, LocalBase, Rotary
from numformer.weights.table import Row, linear, norm

GATED = {"gelu": "geglu", "gelu_new": "geglu_tanh", "gelu_pytorch_tanh": "geglu_tanh",
         "silu": "swiglu"}


class SpecialToken(Key):
    """The id of a special token: no matter to a model; null, as theirs by default is 50281 or
    more, which a smaller vocabulary does not have."""

    def write(self, config):
        return None


class BothSides(Key):
    """Tokens of a local layer's window, half of them on each side."""

    def read(self, value, options):
        if type(value) is not int or value < 2:
            raise ValueError("must be a whole number, 2 or more")
        options["window"] = value // 2

    def write(self, config):
        return 2 * (config.window or OPTIONS["window"])


class GlobalEvery(Option):
    """One layer in so many is global: the first of each group."""

    def read(self, value, options):
        super().read(value, options)
        if value == 1:
            options["window"] = 0

    def check(self, value, config):
        if [n % value > 0 for n in range(config.n_layers)] != _local_layers(config):
            raise ValueError("says other layers than 'layer_types'")

    def write(self, config):
        return config.global_every if config.window else 1


class GlobalFirst(LayerTypes):
    """The kinds of layers, one by one, in place of `GlobalEvery`: local but for the first of every
    so many."""

    def read(self, value, options):
        if value is None:
            return
        if not isinstance(value, list) or any(kind not in self.KINDS.values() for kind in value):
            raise ValueError("must be null or a list of 'sliding_attention' and 'full_attention'")
        if "sliding_attention" in value:
            options["global_every"] = [*value[1:], "full_attention"].index("full_attention") + 1
        else:
            options["window"] = 0

    def check(self, value, config):
        if value is not None and value != [self.KINDS[local] for local in _local_layers(config)]:
            raise ValueError("must have sliding_attention for all layers but the first of every "
                             "so many")

    def write(self, config):
        return NOTHING


class Bases(Rotary):
    """The bases of rotary angles in global and local layers, as transformers 5 writes them."""

    KINDS = {"full_attention": "rotary_base", "sliding_attention": "local_rotary_base"}

    def read(self, value, options):
        if value is None:
            return
        if not isinstance(value, dict) or not value.keys() <= self.KINDS.keys():
            raise ValueError(f"must be null or an object with {' and '.join(self.KINDS)}")
        for kind, name in self.KINDS.items():
            found = {"context_length": options["context_length"]}
            super().read(value.get(kind), found)
            if "rotary_scaling" in found:
                raise ValueError(f"must have the rope_type 'default' for {kind!r}")
            if "rotary_base" in found:
                options[name] = found["rotary_base"]


class Base(LocalBase):
    """The base of one kind of layers; null, for the local ones: that of the global ones."""

    def read(self, value, options):
        if value is None and self.name == "local_rotary_base":
            options[self.name] = None
        else:
            super().read(value, options)

    def check(self, value, config):
        if (config.rotary_base if value is None else value) != self.write(config):
            raise ValueError(f"says another base than 'rope_parameters', {self.write(config)}")

    def write(self, config):
        value = getattr(config, self.name)
        return config.rotary_base if value is None else value


def _local_layers(config):
    """Whether each layer is local."""
    return [config.window > 0 and n % config.global_every > 0 for n in range(config.n_layers)]


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
        "local_attention": BothSides(),
        "global_attn_every_n_layers": GlobalEvery("global_every", NOTHING),
        "layer_types": GlobalFirst(),
        "global_rope_theta": Base("rotary_base"), "local_rope_theta": Base("local_rotary_base"),
        "rope_parameters": Bases(), "rope_scaling": Fixed(None),
        "embedding_dropout": Option("dropout", 0.0),
        "attention_dropout": Derived(lambda c: c.dropout, 0.0),
        "mlp_dropout": Derived(lambda c: c.dropout, 0.0),
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
