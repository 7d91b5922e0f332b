"""Swin against transformers' SwinForImageClassification: logits and every gradient, in float64."""

import numpy as np
import pytest

from numformer.models import Swin, SwinConfig

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

NAMES = {                                                             # of a block: ours, theirs
    "norm1": "layernorm_before", "norm2": "layernorm_after",
    "attention.attention.query": "attention.q_proj", "attention.attention.key": "attention.k_proj",
    "attention.attention.value": "attention.v_proj",
    "attention.attention.output": "attention.o_proj", "feedforward.hidden": "mlp.fc1",
    "feedforward.output": "mlp.fc2"}
TABLE = "attention.relative_position_bias.relative_position_bias_table"


def their_name(name):
    """The name in transformers of a parameter of ours."""
    first, *rest = name.split(".")
    end = rest[-1] if rest else ""
    if first == "patches":
        return f"swin.embeddings.patch_embeddings.projection.{end}"
    if first == "embedding_norm":
        return f"swin.embeddings.norm.{end}"
    if first == "norm":
        return f"swin.layernorm.{end}"
    if first == "head":
        return f"classifier.{end}"
    number, part, *inner = rest
    if part == "merging":                                             # theirs ends the stage before
        return f"swin.encoder.layers.{int(number) - 1}.downsample.{'.'.join(inner)}"
    block, *inner = inner
    path = f"swin.encoder.layers.{number}.blocks.{block}"
    if "positions" in inner:
        return f"{path}.{TABLE}"
    return f"{path}.{NAMES['.'.join(inner[:-1])]}.{end}"


def as_theirs(name, array):
    """Their matrices are transposed, and filters have the channels first."""
    if array.ndim == 4:
        return array.transpose(3, 2, 0, 1)
    return array.T if array.ndim == 2 and "positions" not in name else array


@pytest.mark.parametrize("sizes", [
    dict(image_size=16, patch_size=2, window=2, depths=(2, 2), heads=(2, 4)),       # shifted twice
    dict(image_size=12, patch_size=1, window=3, depths=(3, 2), heads=(1, 2)),       # an odd window
    dict(image_size=16, patch_size=2, window=4, depths=(2, 2), heads=(2, 4)),       # one window
    dict(image_size=16, patch_size=2, window=2, depths=(1, 2, 2), heads=(2, 2, 4),
         qkv_bias=False),
], ids=["window 2", "window 3", "window 4", "three stages"])
def test_logits_and_every_gradient(sizes, rng):
    config = SwinConfig(channels=2, n_classes=3, d_model=8, mlp_ratio=2.0, dtype="float64", **sizes)
    ours = Swin(config, rng)
    for parameter in ours.parameters():
        parameter.data += 0.3 * rng.standard_normal(parameter.data.shape)
    c = config
    theirs = transformers.SwinForImageClassification(transformers.SwinConfig(
        image_size=c.image_size, patch_size=c.patch_size, num_channels=2, embed_dim=8,
        depths=list(sizes["depths"]), num_heads=list(sizes["heads"]), window_size=c.window,
        mlp_ratio=2.0, qkv_bias=c.qkv_bias, drop_path_rate=0.0, num_labels=3)).double().eval()
    their_parameters = dict(theirs.named_parameters())
    names = {name: their_name(name) for name, _ in ours.named_parameters()}
    assert sorted(names.values()) == sorted(their_parameters)
    for name, parameter in ours.named_parameters():
        array = as_theirs(name, parameter.data)
        assert their_parameters[names[name]].shape == array.shape
        their_parameters[names[name]].data = torch.tensor(array.copy())

    images = rng.standard_normal((2, c.image_size, c.image_size, 2))
    leaf = torch.tensor(images.transpose(0, 3, 1, 2).copy(), requires_grad=True)
    logits, saved = ours.forward(images)
    expected = theirs(pixel_values=leaf).logits
    close(logits, expected)
    dlogits = rng.standard_normal(logits.shape)
    dimages = ours.backward(dlogits, saved)
    expected.backward(torch.tensor(dlogits))
    close(dimages.transpose(0, 3, 1, 2), leaf.grad)
    for name, parameter in ours.named_parameters():
        close(as_theirs(name, parameter.grad), their_parameters[names[name]].grad)


def close(found, expected, tolerance=1e-10):
    expected = expected.detach().numpy()
    np.testing.assert_allclose(found, expected, rtol=0,
                               atol=tolerance * max(1e-3, float(np.abs(expected).max())))
