"""The Vision Transformer that classifies images, and DeiT with its distillation token; without it
DeiT's models are published as Vision Transformers."""

from dataclasses import replace

from numformer.models.bert.bert_weights import ACTIVATIONS
from numformer.models.vision_transformer.model import VisionTransformer
from numformer.weights.family import Family
from numformer.weights.keys import IGNORED, RATE, Fixed, Labels, Option
from numformer.weights.operations import CONVOLUTION, Leading, Part
from numformer.weights.table import Row, linear, norm

_LAYER = (("attention.query", "attention.attention.query"),
          ("attention.key", "attention.attention.key"),
          ("attention.value", "attention.attention.value"),
          ("attention.output", "attention.output.dense"),
          ("feedforward.hidden", "intermediate.dense"), ("feedforward.output", "output.dense"))


def _backbone(config, name, tokens=("cls_token",)):
    """The rows of all but the heads."""
    T, K, theirs = config.side ** 2, len(tokens), f"{name}.embeddings"
    positions = f"{theirs}.position_embeddings"                       # (1, K + T, C)
    yield Row("patches.weight", f"{theirs}.patch_embeddings.projection.weight", (CONVOLUTION,))
    yield Row("patches.bias", f"{theirs}.patch_embeddings.projection.bias")
    yield Row("positions.weight", positions, (Leading(1), Part(0, K, K + T)))
    # Theirs adds positions to class tokens; ours is the sum, (C,), or (K, C) of several
    for k, token in enumerate(tokens):
        index = None if K == 1 else k
        yield Row("class_token", f"{theirs}.{token}", (Leading(2),), index=index)
        yield Row("class_token", positions, (Leading(1), Part(0, k, K + T, 1), Leading(1)),
                  added=True, index=index)
    for n in range(config.n_layers):
        block, layer = f"encoder.blocks.{n}", f"{name}.encoder.layer.{n}"
        for part, other in _LAYER:
            yield from linear(f"{block}.{part}", f"{layer}.{other}")
        yield from norm(f"{block}.norm1", f"{layer}.layernorm_before")
        yield from norm(f"{block}.norm2", f"{layer}.layernorm_after")
    yield from norm("encoder.norm", f"{name}.layernorm")


def _vit(config):
    yield from _backbone(config, "vit")
    yield from linear("head", "classifier")


_DISTILLED = "cls_token", "distillation_token"


def _deit(config):
    yield from _backbone(config, "deit", _DISTILLED)
    yield from linear("head.heads.0", "cls_classifier")
    yield from linear("head.heads.1", "distillation_classifier")


def _deit_of_one_head(config):
    yield from _backbone(config, "deit", _DISTILLED)
    yield from linear("head", "classifier")


VIT = Family(
    name="vit", model=VisionTransformer, architectures=("ViTForImageClassification",),
    keys={
        "image_size": Option("image_size"), "patch_size": Option("patch_size"),
        "num_channels": Option("channels", 3), "id2label": Labels(),
        "hidden_size": Option("d_model"), "num_hidden_layers": Option("n_layers"),
        "num_attention_heads": Option("n_heads"), "intermediate_size": Option("d_hidden"),
        "hidden_act": Option("feedforward", "gelu", ACTIVATIONS), "qkv_bias": Fixed(True),
        "layer_norm_eps": Option("epsilon", 1e-12), "initializer_range": Option("init_std", 0.02),
        "hidden_dropout_prob": Option("dropout", 0.0),
        "attention_probs_dropout_prob": RATE,
        **dict.fromkeys(("encoder_stride", "pooler_act", "pooler_output_size"), IGNORED)},
    rows=_vit, prefix="vit.", buffers=r"vit\.pooler\.dense\.\w+")

# With a distillation token after the class token. Its logits are the mean of both heads, or those
# of the class token alone
DEIT = replace(
    VIT, name="deit", model_type="deit", architectures=("DeiTForImageClassificationWithTeacher",),
    options=dict(n_class_tokens=2), rows=_deit, prefix="deit.", head="cls_classifier.weight",
    buffers=r"deit\.pooler\.dense\.\w+")
DEIT_OF_ONE_HEAD = replace(
    DEIT, name="deit-of-one-head", architectures=("DeiTForImageClassification",),
    options=dict(n_class_tokens=2, n_class_heads=1), rows=_deit_of_one_head,
    head="classifier.weight")
