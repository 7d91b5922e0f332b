"""CLIP: what transformers computes, ours does; keys of both parts; sizes of published models."""

import json

import numpy as np
import pytest

from numformer.interop import FAMILIES, gradients, load, save
from numformer.models import (
    CLIP, CLIP_CONFIGS, CLIPConfig, VisionTransformer, VisionTransformerConfig)
from test_folders import refused
from witness import (
    VOCABULARY, close, folder_of, goes_back, gradients_agree, gradients_of, in_double, quiet,
    random_model, torch, transformers as t)
from witness_sizes import SMALL

__all__ = ["in_double"]
pytestmark = [quiet, pytest.mark.usefixtures("in_double")]
TEXT = dict(vocab_size=VOCABULARY, hidden_size=6, intermediate_size=9, num_hidden_layers=3,
            num_attention_heads=3, max_position_embeddings=9, eos_token_id=VOCABULARY - 1)
IMAGE = dict(hidden_size=8, intermediate_size=12, num_hidden_layers=2, num_attention_heads=2,
             image_size=12, patch_size=4, num_channels=3)


def theirs_of(text=(), image=(), **options):
    return random_model(t.CLIPModel, t.CLIPConfig(
        text_config={**TEXT, **dict(text)}, vision_config={**IMAGE, **dict(image)},
        projection_dim=5, **options))


def captions(rng, end, pad=0):
    """Texts of different lengths, each with its end token, and their lengths."""
    ids, lengths = rng.integers(3, VOCABULARY - 1, (4, 8)), np.array([8, 5, 2, 7])
    ids[np.arange(4), lengths - 1] = end
    ids[np.arange(8) >= lengths[:, None]] = pad
    return ids, lengths


@pytest.mark.parametrize("text, image, end, pad, masked", [
    (dict(), dict(), VOCABULARY - 1, 0, False),
    (dict(), dict(), VOCABULARY - 1, VOCABULARY - 1, True),           # CLIP's tokenizer pads so
    (dict(eos_token_id=2), dict(), VOCABULARY - 1, 0, True),          # the largest id
    (dict(eos_token_id=1, hidden_act="gelu"), dict(hidden_act="gelu", num_channels=1), 1, 7, True)])
def test_logits_loss_and_every_gradient(text, image, end, pad, masked, rng, tmp_path):
    theirs = theirs_of(text, image)
    with torch.no_grad():
        theirs.logit_scale.fill_(1.3)
    ours, _ = load(folder_of(theirs, tmp_path / "theirs"))
    assert type(ours) is CLIP and ours.config.eos_id == (None if end == 22 and text else end)
    ids, lengths = captions(rng, end, pad)
    images = rng.standard_normal((4, 12, 12, ours.config.channels))
    given = dict(input_ids=torch.tensor(ids),
                 pixel_values=torch.tensor(images.transpose(0, 3, 1, 2)))
    if masked:
        given["attention_mask"] = torch.tensor((np.arange(8) < lengths[:, None]).astype(int))
    out = theirs(**given, return_loss=True)
    batch = (ids, images, lengths) if masked else (ids, images)
    loss, saved = ours.loss(batch)
    close(loss, out.loss, 1e-10)
    close(ours(*batch), out.logits_per_image, 1e-10)
    close(ours.text(ids), theirs.get_text_features(**{k: v for k, v in given.items()
                                                      if k != "pixel_values"}).pooler_output, 1e-10)
    close(ours.classify(ids[:3], images[:2]),
          out.logits_per_image[:2, :3].softmax(dim=-1), 1e-10)
    goes_back(theirs, ours, tmp_path, given)
    out.loss.backward()
    ours.loss_backward(saved)
    gradients_agree(ours, theirs, tmp_path / "gradients")


def test_the_gradient_of_the_temperature_is_that_of_its_logarithm(rng, tmp_path):
    """A scalar, whose published shape is () as ours is."""
    ours, _ = load(folder_of(theirs_of(), tmp_path / "theirs"))
    ids, images = captions(rng, VOCABULARY - 1)[0], rng.standard_normal((4, 12, 12, 3))
    ours.loss_backward(ours.loss((ids, images))[1])
    found = gradients(ours)["logit_scale"]
    assert found.shape == () and found != 0


def test_a_mask_for_padding_at_the_left(rng, tmp_path):
    """transformers numbers padding, too; so ours has a mask, but no lengths."""
    theirs = theirs_of()
    ours, _ = load(folder_of(theirs, tmp_path / "theirs"))
    ids, images = rng.integers(3, VOCABULARY - 1, (2, 6)), rng.standard_normal((2, 12, 12, 3))
    ids[:, -1] = VOCABULARY - 1
    real = np.arange(6) >= np.array([[2], [0]])
    out = theirs(input_ids=torch.tensor(ids), attention_mask=torch.tensor(real.astype(int)),
                 pixel_values=torch.tensor(images.transpose(0, 3, 1, 2)))
    mask = np.broadcast_to(real[:, None, None], (2, 1, 6, 6)).copy()
    close(ours(ids, images, mask=mask), out.logits_per_image, 1e-10)


def test_each_encoder_alone(rng, tmp_path):
    """With its projection, as folders of their own."""
    parts = dict(text=(t.CLIPTextModelWithProjection, t.CLIPTextConfig(**TEXT, projection_dim=5)),
                 image=(t.CLIPVisionModelWithProjection,
                        t.CLIPVisionConfig(**IMAGE, projection_dim=5)))
    ids, lengths = captions(rng, VOCABULARY - 1)
    images = rng.standard_normal((4, 12, 12, 3))
    arrays = dict(text=ids, image=images)
    tensors = dict(text=dict(input_ids=torch.tensor(ids)),
                   image=dict(pixel_values=torch.tensor(images.transpose(0, 3, 1, 2))))
    for name, (kind, config) in parts.items():
        theirs, folder = random_model(kind, config), tmp_path / name
        ours, _ = load(folder_of(theirs, folder / "theirs"))
        expected = getattr(theirs(**tensors[name]), f"{name}_embeds")
        y, saved = ours.forward(arrays[name])
        close(y, expected, 1e-10)
        goes_back(theirs, ours, folder, tensors[name])
        dy = rng.standard_normal(y.shape)
        expected.backward(torch.tensor(dy))
        ours.backward(dy, saved)
        gradients_agree(ours, theirs, folder / "gradients")


def test_the_text_encoder_without_its_projection(rng, tmp_path):
    """A text is the vector of its end token; transformers 5 leaves "text_model." out of names."""
    theirs = random_model(t.CLIPTextModel, t.CLIPTextConfig(**TEXT))
    ours, _ = load(folder_of(theirs, tmp_path / "theirs"))
    ids, _ = captions(rng, VOCABULARY - 1)
    given = dict(input_ids=torch.tensor(ids))
    expected = theirs(**given).pooler_output
    y, saved = ours.forward(ids)
    close(y, expected, 1e-12)
    goes_back(theirs, ours, tmp_path, given)
    dy = rng.standard_normal(y.shape)
    expected.backward(torch.tensor(dy))
    ours.backward(dy, saved)
    found = {name.removeprefix("text_model."): x for name, x in gradients(ours).items()}
    others = gradients_of(theirs, tmp_path / "gradients")
    assert found.keys() == others.keys()
    for name in others:
        if not name.endswith("k_proj.bias"):          # softmax takes it away: only rounding
            close(found[name], others[name], 1e-10)


@pytest.mark.parametrize("inner", [dict(hidden_size=6, num_attention_heads=3), dict()])
def test_the_second_form_of_a_part_in_old_files(inner, tmp_path):
    """It replaces the first, whose end token was wrong: there, defaults of transformers hold."""
    theirs = theirs_of(dict(vocab_size=49408, eos_token_id=2))
    folder = folder_of(theirs, tmp_path / "theirs")
    facts = json.loads((folder / "config.json").read_text())
    facts["text_config_dict"] = {**TEXT, "vocab_size": 49408, **inner}
    del facts["text_config_dict"]["eos_token_id"]
    facts["vision_config_dict"] = None
    (folder / "config.json").write_text(json.dumps(facts))
    again = t.CLIPModel.from_pretrained(folder)
    ours, _ = load(folder)
    assert again.config.text_config.eos_token_id == ours.config.eos_id == 49407


def change(folder, **keys):
    """Change keys of config.json, those of a part by ``part__key``."""
    facts = json.loads((folder / "config.json").read_text())
    for key, value in keys.items():
        part, _, inner = key.partition("__")
        if inner:
            facts[part][inner] = value
        else:
            facts[key] = value
    (folder / "config.json").write_text(json.dumps(facts))


@pytest.mark.parametrize("keys, words", [
    (dict(text_config=[3]), "'text_config' = .* must be an object"),
    (dict(text_config_dict="no"), "'text_config_dict' = 'no' must be an object"),
    (dict(text_config__hidden_act="gelu"), "'text_config.hidden_act' = 'gelu' must be 'quick"),
    (dict(text_config__hidden_act="mish"), "'text_config.hidden_act' = 'mish' must be 'quick"),
    (dict(text_config__layer_norm_eps=1e-3), "must be 1e-05, as another part"),
    (dict(vision_config__hidden_act=["gelu"]), "'vision_config.hidden_act' = "),
    (dict(text_config__model_type="clip"), "'text_config.model_type' = 'clip' must be"),
    (dict(text_config__eos_token_id=[7, 8]), "'text_config.eos_token_id' = .* must be a whole"),
    (dict(text_config__eos_token_id=11), "eos_id=11 must be below vocab_size=11"),
    (dict(vision_config__image_size=[8, 8]), "image_size=.* must be int"),
    (dict(vision_config__patch_size=3), "image_size=8 is not divisible by patch_size=3"),
    (dict(text_config__num_hidden_layers=10**9), "'text_config.num_hidden_layers' = 1000000000, "),
    (dict(text_config__num_hidden_layers=2 * 10**5), "text_layers=200000 must be a"),
    (dict(text_config__num_hidden_layers=3), "missing: text_model.encoder.layers.1"),
    (dict(projection_dim=7), "text_projection.weight has shape")])
def test_keys_that_are_not_ours_are_refused_by_name(keys, words, rng, tmp_path):
    save(CLIP(CLIPConfig(**SMALL["clip"]), rng), None, tmp_path / "model")
    change(tmp_path / "model", **keys)
    refused(tmp_path / "model", words)


@pytest.mark.parametrize("options", [
    dict(eos_id=2), dict(n_kv_heads=1),
    dict(query_key_norm=True), dict(norm_first=False), dict(norm="rms_norm"), dict(bias=False)],
    ids=str)
def test_options_that_the_published_model_does_not_have(options, rng, tmp_path):
    (name, value), = options.items()
    with pytest.raises(ValueError, match=f"clip is the nearest, but has no .*{name}={value!r}"):
        save(CLIP(CLIPConfig(**{**SMALL["clip"], **options}), rng), None, tmp_path / "model")


def test_sizes_that_are_left_out_are_written_with_their_defaults(rng, tmp_path):
    """transformers refuses null for them."""
    sizes = {name: value for name, value in SMALL["clip"].items() if "hidden" not in name}
    for name in ("text_layers", "text_heads", "text_width"):
        del sizes[name]
    model = CLIP(CLIPConfig(**sizes, temperature=0.2, dtype="float64"), rng)
    save(model, None, tmp_path / "clip")
    theirs = t.CLIPModel.from_pretrained(tmp_path / "clip")
    assert theirs.config.text_config.intermediate_size == 4 * sizes["d_model"]
    assert theirs.logit_scale.item() == pytest.approx(np.log(5))
    image = VisionTransformer(VisionTransformerConfig(
        image_size=8, patch_size=4, channels=3, n_classes=5, n_layers=1, n_heads=2, d_model=8,
        dtype="float64"), rng)
    save(image, None, tmp_path / "vit")
    assert t.ViTForImageClassification.from_pretrained(tmp_path / "vit").config.hidden_size == 8


def published(E, text, image, **of_image):
    """A config.json of the hub, with the keys that change sizes."""
    facts = [dict(hidden_size=c, intermediate_size=4 * c, num_attention_heads=h,
                  num_hidden_layers=layers, hidden_act="quick_gelu", layer_norm_eps=1e-5)
             for c, h, layers in (text, image)]
    return dict(model_type="clip", architectures=["CLIPModel"], projection_dim=E,
                logit_scale_init_value=2.6592, text_config_dict=None, vision_config_dict=None,
                text_config=dict(facts[0], model_type="clip_text_model", vocab_size=49408,
                                 max_position_embeddings=77, bos_token_id=0, eos_token_id=2),
                vision_config=dict(facts[1], model_type="clip_vision_model", **of_image))


BASE, LARGE = (512, (512, 8, 12), (768, 12, 12)), (768, (768, 12, 12), (1024, 16, 24))
FILES = {"clip-vit-base-patch32": (published(*BASE, image_size=224, patch_size=32), 151_277_313),
         "clip-vit-base-patch16": (published(*BASE, image_size=224, patch_size=16), 149_620_737),
         "clip-vit-large-patch14": (published(*LARGE, image_size=224, patch_size=14), 427_616_513),
         "clip-vit-large-patch14-336": (published(*LARGE, image_size=336, patch_size=14),
                                        427_944_193)}


@pytest.mark.parametrize("name", FILES)
def test_the_tensors_of_published_files(name):
    """Names, shapes and total are those of transformers' own model, which has no memory here."""
    facts, total = FILES[name]
    family = FAMILIES["clip"]
    config = family.config(facts, (), "float32")
    parameters = dict(CLIP(config, None).named_parameters())
    found = {row.theirs: row.shape(parameters[row.ours].data.shape) for row in family.rows(config)}
    with torch.device("meta"):
        theirs = t.CLIPModel(t.CLIPConfig(**{key: value for key, value in facts.items()
                                             if not key.endswith("_dict")}))
    assert found == {key: tuple(tensor.shape) for key, tensor in theirs.state_dict().items()}
    assert sum(tensor.numel() for tensor in theirs.parameters()) == total
    assert family.differences(config) == {}
    ours = CLIP_CONFIGS[name.replace("vit-", "").replace("patch", "")]
    assert sum(p.data.size for p in CLIP(ours, None).parameters()) == total - config.d_model
