"""CLIP: both encoders, their projections, and the temperature; each encoder alone; and that of
texts without its projection."""

from dataclasses import replace
from functools import partial

from numformer.models.bert.bert_weights import ACTIVATIONS
from numformer.models.clip.model import CLIP as Model
from numformer.models.clip.text_encoder import CLIPTextEncoder
from numformer.models.vision_transformer.model import VisionTransformer
from numformer.weights.family import Family
from numformer.weights.keys import IGNORED, Fixed, Key, Option, Same, Written
from numformer.weights.operations import CONVOLUTION, Leading, Part
from numformer.weights.table import Row, linear, norm

_LAYER = (*((f"attention.{name}", f"self_attn.{name[0]}_proj")
            for name in ("query", "key", "value")), ("attention.output", "self_attn.out_proj"),
          ("feedforward.hidden", "mlp.fc1"), ("feedforward.output", "mlp.fc2"))
_BUFFERS = r"(text|vision)_model\.embeddings\.position_ids"
_ACTIVATIONS = {"quick_gelu": "quick_gelu", **ACTIVATIONS}


class EndToken(Key):
    """The id of the end token; 2 in old files, whose models take the token with the largest id."""

    default, largest = 49407, 2

    def read(self, value, options):
        if type(value) is not int:
            raise ValueError("must be a whole number")
        options["eos_id"] = None if value == self.largest else value

    def write(self, config):
        return self.largest if config.eos_id is None else config.eos_id


def _blocks(config, ours, theirs):
    for n in range(config.n_layers):
        block, layer = f"{ours}encoder.blocks.{n}", f"{theirs}.encoder.layers.{n}"
        for part, other in _LAYER:
            yield from linear(f"{block}.{part}", f"{layer}.{other}")
        for i in (1, 2):
            yield from norm(f"{block}.norm{i}", f"{layer}.layer_norm{i}")


def _text_rows(config, ours="", projection=True):
    theirs = "text_model"
    yield Row(f"{ours}embedding.weight", f"{theirs}.embeddings.token_embedding.weight")
    yield Row(f"{ours}positions.weight", f"{theirs}.embeddings.position_embedding.weight")
    yield from _blocks(config, ours, theirs)
    yield from norm(f"{ours}encoder.norm", f"{theirs}.final_layer_norm")
    if projection:
        yield from linear(f"{ours}projection", "text_projection", False)


def _image_rows(config, ours=""):
    theirs, T = "vision_model", config.side ** 2
    positions = f"{theirs}.embeddings.position_embedding.weight"      # (1 + T, C)
    yield Row(f"{ours}patches.weight", f"{theirs}.embeddings.patch_embedding.weight",
              (CONVOLUTION,))
    yield Row(f"{ours}positions.weight", positions, (Part(0, 1, 1 + T),))
    # Theirs adds a position to the class token; ours is the sum
    yield Row(f"{ours}class_token", f"{theirs}.embeddings.class_embedding")
    yield Row(f"{ours}class_token", positions, (Part(0, 0, 1 + T, 1), Leading(1)), added=True)
    yield from norm(f"{ours}embedding_norm", f"{theirs}.pre_layrnorm")           # their spelling
    yield from _blocks(config, ours, theirs)
    yield from norm(f"{ours}encoder.norm", f"{theirs}.post_layernorm")
    yield from linear(f"{ours}head", "visual_projection", False)


def _rows(config):
    yield from _text_rows(config.text, "text.")
    yield from _image_rows(config.image, "image.")
    yield Row("logit_scale", "logit_scale")


# The width of the projections is that of the whole model; rates of dropout are of old files
_BOTH = {"attention_dropout": Written(lambda c: 0.0), "add_cross_attention": Fixed(False),
         "is_decoder": Fixed(False), "projection_dim": IGNORED, "dropout": IGNORED}
_TEXT = {
    **_BOTH, "model_type": Fixed("clip_text_model"),
    "vocab_size": Option("vocab_size", 49408), "hidden_size": Option("text_width", 512),
    "intermediate_size": Option("text_hidden", 2048),
    "num_hidden_layers": Option("text_layers", 12), "num_attention_heads": Option("text_heads", 8),
    "max_position_embeddings": Option("context_length", 77),
    "hidden_act": Same("feedforward", "quick_gelu", _ACTIVATIONS),
    "layer_norm_eps": Same("epsilon", 1e-5), "eos_token_id": EndToken()}
_IMAGE = {
    **_BOTH, "model_type": Fixed("clip_vision_model"),
    "image_size": Option("image_size", 224), "patch_size": Option("patch_size", 32),
    "num_channels": Option("channels", 3), "hidden_size": Option("d_model", 768),
    "intermediate_size": Option("d_hidden", 3072), "num_hidden_layers": Option("n_layers", 12),
    "num_attention_heads": Option("n_heads", 12),
    "hidden_act": Option("feedforward", "quick_gelu", _ACTIVATIONS),
    "layer_norm_eps": Option("epsilon", 1e-5), "initializer_range": Option("init_std", 0.02)}
CLIP = Family(
    name="clip", model=Model, architectures=("CLIPModel",), parts=("text_config", "vision_config"),
    keys={"projection_dim": Option("d_embedding", 512), "logit_scale_init_value": IGNORED,
          **{f"text_config.{key}": meaning for key, meaning in _TEXT.items()},
          **{f"vision_config.{key}": meaning for key, meaning in _IMAGE.items()}},
    rows=_rows, buffers=_BUFFERS)
CLIP_TEXT = Family(
    name="clip_text_model", model=CLIPTextEncoder, architectures=("CLIPTextModelWithProjection",),
    keys={**_TEXT, "projection_dim": Option("d_embedding", 512, least=1),
          "hidden_size": Option("d_model", 512), "intermediate_size": Option("d_hidden", 2048),
          "num_hidden_layers": Option("n_layers", 12), "num_attention_heads": Option("n_heads", 8),
          "hidden_act": Option("feedforward", "quick_gelu", _ACTIVATIONS),
          "layer_norm_eps": Option("epsilon", 1e-5),
          "initializer_range": Option("init_std", 0.02)},
    rows=_text_rows, head="text_projection.weight", buffers=_BUFFERS)
CLIP_TEXT_ALONE = replace(
    CLIP_TEXT, name="clip_text_alone", model_type="clip_text_model",
    architectures=("CLIPTextModel",), options=dict(d_embedding=None), head="",
    prefix="text_model.",                             # later versions leave it out
    keys=CLIP_TEXT.keys | {"projection_dim": IGNORED}, rows=partial(_text_rows, projection=False))
CLIP_IMAGE = Family(
    name="clip_vision_model", model=VisionTransformer,
    architectures=("CLIPVisionModelWithProjection",),
    options=dict(embedding_norm=True, patch_bias=False, head_bias=False),
    keys={**_IMAGE, "projection_dim": Option("n_classes", 512)}, rows=_image_rows, buffers=_BUFFERS)
