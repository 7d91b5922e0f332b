"""The second witness for class tokens and the norm before the first block: DeiT with its teacher's
token, and the image tower of CLIP, with the same weights.
"""

import numpy as np
import pytest

from numformer.models import VisionTransformer, VisionTransformerConfig

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
from torch_copies import close, random_layer, tensor  # noqa: E402  (needs PyTorch)

SIZES = dict(image_size=6, patch_size=2, channels=2, n_classes=3, n_layers=2, n_heads=2, d_model=8,
             d_hidden=12, dtype="float64")
ITS_SIZES = dict(hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=12,
                 image_size=6, patch_size=2, num_channels=2)


def linear(ours, theirs):
    yield ours.weight, theirs.weight, np.transpose
    if theirs.bias is not None:
        yield ours.bias, theirs.bias, np.copy


def norm(ours, theirs):
    yield ours.weight, theirs.weight, np.copy
    yield ours.bias, theirs.bias, np.copy


def filters(weight):
    return weight.transpose(3, 2, 0, 1)                   # (P, P, channels, C) to PyTorch's


def blocks(ours, layers, output, norm1, norm2):
    for block, layer in zip(ours.encoder.blocks, layers, strict=True):
        a = block.attention
        its = layer.attention if hasattr(layer, "attention") else layer.self_attn
        for mine, name in ((a.query, "q_proj"), (a.key, "k_proj"), (a.value, "v_proj"),
                           (a.output, output)):
            yield from linear(mine, getattr(its, name))
        yield from linear(block.feedforward.hidden, layer.mlp.fc1)
        yield from linear(block.feedforward.output, layer.mlp.fc2)
        yield from norm(block.norm1, getattr(layer, norm1))
        yield from norm(block.norm2, getattr(layer, norm2))


def deit(ours, theirs):
    its = theirs.deit.embeddings
    yield ours.patches.weight, its.patch_embeddings.projection.weight, filters
    yield ours.patches.bias, its.patch_embeddings.projection.bias, np.copy
    yield from blocks(ours, theirs.deit.layers, "o_proj", "layernorm_before", "layernorm_after")
    yield from norm(ours.encoder.norm, theirs.deit.layernorm)
    for mine, its in zip(ours.head.heads, (theirs.cls_classifier, theirs.distillation_classifier)):
        yield from linear(mine, its)


def clip(ours, theirs):
    its = theirs.vision_model
    yield ours.patches.weight, its.embeddings.patch_embedding.weight, filters
    yield ours.class_token, its.embeddings.class_embedding, np.copy
    yield from norm(ours.embedding_norm, its.pre_layrnorm)
    yield from blocks(ours, its.encoder.layers, "out_proj", "layer_norm1", "layer_norm2")
    yield from norm(ours.encoder.norm, its.post_layernorm)
    yield from linear(ours.head, theirs.visual_projection)


def agree(ours, theirs, pairs, positions, logits_of, rng):
    """Logits, and gradients of images, positions and all parameters in `pairs`."""
    theirs.eval()
    for mine, its, changed in pairs(ours, theirs):
        its.data = torch.tensor(np.ascontiguousarray(changed(mine.data)))
    K = ours.config.first_patch
    rows = np.concatenate([np.zeros((K, 8)), ours.positions.weight.data])
    positions.data = torch.tensor(rows).reshape(positions.shape)
    images, dlogits = rng.standard_normal((3, 6, 6, 2)), rng.standard_normal((3, 3))
    leaf = tensor(images)
    expected = logits_of(theirs(pixel_values=leaf.permute(0, 3, 1, 2)))
    logits, saved = ours.forward(images)
    close(logits, expected, 1e-11)
    expected.backward(torch.tensor(dlogits))
    close(ours.backward(dlogits, saved), leaf.grad, 1e-10)
    for mine, its, changed in pairs(ours, theirs):
        np.testing.assert_allclose(changed(mine.grad), its.grad.numpy(), rtol=1e-9, atol=1e-12)
    grad = positions.grad.reshape(-1, 8)
    close(ours.positions.weight.grad, grad[K:], 1e-10)
    close(ours.class_token.grad.reshape(-1, 8), grad[:K], 1e-10)


@pytest.mark.filterwarnings("ignore")
def test_deit_with_the_token_of_its_teacher(rng):
    config = VisionTransformerConfig(**SIZES, n_class_tokens=2, epsilon=1e-12)
    ours = random_layer(VisionTransformer(config, rng), rng)
    theirs = transformers.DeiTForImageClassificationWithTeacher(transformers.DeiTConfig(
        **ITS_SIZES, num_labels=3, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
        attn_implementation="sdpa")).double()
    its = theirs.deit.embeddings
    for token, mine in zip((its.cls_token, its.distillation_token), ours.class_token.data):
        token.data = torch.tensor(mine).reshape(1, 1, 8)
    agree(ours, theirs, deit, its.position_embeddings, lambda out: out.logits, rng)


@pytest.mark.filterwarnings("ignore")
def test_the_image_tower_of_clip(rng):
    """Its patches and its projection have no biases: ours are 0."""
    config = VisionTransformerConfig(**SIZES, embedding_norm=True, feedforward="quick_gelu",
                                     epsilon=1e-5)
    ours = random_layer(VisionTransformer(config, rng), rng)
    for bias in (ours.patches.bias, ours.head.bias):
        bias.data[:] = 0
    theirs = transformers.CLIPVisionModelWithProjection(transformers.CLIPVisionConfig(
        **ITS_SIZES, projection_dim=3, hidden_act="quick_gelu",
        attn_implementation="sdpa")).double()
    agree(ours, theirs, clip, theirs.vision_model.embeddings.position_embedding.weight,
          lambda out: out.image_embeds, rng)
