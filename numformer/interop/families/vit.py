"""The Vision Transformer that classifies images, and DeiT without its distillation token."""

from numformer.interop.family import Family
from numformer.interop.families.bert import ACTIVATIONS
from numformer.interop.keys import IGNORED, Derived, Fixed, Labels, Option
from numformer.interop.operations import CONVOLUTION, Leading, Part
from numformer.interop.table import Row, linear, norm

_LAYER = (("attention.query", "attention.attention.query"),
          ("attention.key", "attention.attention.key"),
          ("attention.value", "attention.attention.value"),
          ("attention.output", "attention.output.dense"),
          ("feedforward.hidden", "intermediate.dense"), ("feedforward.output", "output.dense"))


def _rows(config):
    T, theirs = config.side ** 2, "vit.embeddings"
    positions = f"{theirs}.position_embeddings"                       # (1, 1 + T, C)
    yield Row("patches.weight", f"{theirs}.patch_embeddings.projection.weight", (CONVOLUTION,))
    yield Row("patches.bias", f"{theirs}.patch_embeddings.projection.bias")
    yield Row("positions.weight", positions, (Leading(1), Part(0, 1, 1 + T)))
    # Theirs adds a position to the class token; ours is the sum
    yield Row("class_token", f"{theirs}.cls_token", (Leading(2),))
    yield Row("class_token", positions, (Leading(1), Part(0, 0, 1 + T, 1), Leading(1)), added=True)
    for n in range(config.n_layers):
        block, layer = f"encoder.blocks.{n}", f"vit.encoder.layer.{n}"
        for part, other in _LAYER:
            yield from linear(f"{block}.{part}", f"{layer}.{other}")
        yield from norm(f"{block}.norm1", f"{layer}.layernorm_before")
        yield from norm(f"{block}.norm2", f"{layer}.layernorm_after")
    yield from norm("encoder.norm", "vit.layernorm")
    yield from linear("head", "classifier")


VIT = Family(
    name="vit", kind="VisionTransformer", architectures=("ViTForImageClassification",),
    keys={
        "image_size": Option("image_size"), "patch_size": Option("patch_size"),
        "num_channels": Option("channels", 3), "id2label": Labels(),
        "hidden_size": Option("d_model"), "num_hidden_layers": Option("n_layers"),
        "num_attention_heads": Option("n_heads"), "intermediate_size": Option("d_hidden"),
        "hidden_act": Option("feedforward", "gelu", ACTIVATIONS), "qkv_bias": Fixed(True),
        "layer_norm_eps": Option("epsilon", 1e-12), "initializer_range": Option("init_std", 0.02),
        "hidden_dropout_prob": Option("dropout", 0.0),
        "attention_probs_dropout_prob": Derived(lambda c: c.dropout, 0.0),
        **dict.fromkeys(("encoder_stride", "pooler_act", "pooler_output_size"), IGNORED)},
    rows=_rows, prefix="vit.", buffers=r"vit\.pooler\.dense\.\w+")
