"""Deformable attention equals that of transformers with the same weights."""

import numpy as np
import pytest

from numformer.layers import DeformableAttention

torch = pytest.importorskip("torch")
from torch_copies import close, copy_linear, random_layer, tensor  # noqa: E402  (needs PyTorch)


@pytest.mark.parametrize("shapes", [[(4, 5)], [(4, 5), (2, 3)]])
def test_the_layer_equals_that_of_transformers(shapes, rng):
    deformable = pytest.importorskip("transformers.models.deformable_detr")
    config = deformable.DeformableDetrConfig(
        d_model=6, num_feature_levels=len(shapes), disable_custom_kernels=True)
    theirs = deformable.modeling_deformable_detr.DeformableDetrMultiscaleDeformableAttention(
        config, num_heads=3, n_points=2).double()
    ours = random_layer(DeformableAttention(6, 3, len(shapes), 2, rng, dtype=float), rng)
    pairs = [(ours.offsets, theirs.sampling_offsets), (ours.weights, theirs.attention_weights),
             (ours.value, theirs.value_proj), (ours.output, theirs.output_proj)]
    for one, other in pairs:
        copy_linear(one, other)

    S = sum(height * width for height, width in shapes)
    inputs = (rng.standard_normal((2, 4, 6)), rng.standard_normal((2, S, 6)),
              rng.uniform(0, 1, (2, 4, 2)))
    y, saved = ours.forward(*inputs, shapes)
    queries, x, points = leaves = [tensor(array) for array in inputs]
    expected, _ = theirs(queries, encoder_hidden_states=x, spatial_shapes=torch.tensor(shapes),
                         reference_points=points[:, :, None].expand(-1, -1, len(shapes), -1),
                         spatial_shapes_list=shapes)
    close(y, expected, 1e-12)

    dy = rng.standard_normal(y.shape)
    expected.backward(torch.tensor(dy))
    for gradient, leaf in zip(ours.backward(dy, saved), leaves, strict=True):
        close(gradient, leaf.grad)
    for one, other in pairs:
        close(one.weight.grad, other.weight.grad.T)
        close(one.bias.grad, other.bias.grad)


def test_first_offsets_are_those_of_transformers():
    deformable = pytest.importorskip("transformers.models.deformable_detr")
    config = deformable.DeformableDetrConfig(
        d_model=16, num_feature_levels=2, disable_custom_kernels=True)
    modeling = deformable.modeling_deformable_detr
    theirs = modeling.DeformableDetrMultiscaleDeformableAttention(config, 8, 4)
    modeling.DeformableDetrPreTrainedModel(config)._init_weights(theirs)
    ours = DeformableAttention(16, 8, 2, 4, np.random.default_rng(0))
    np.testing.assert_allclose(ours.offsets.bias.data, theirs.sampling_offsets.bias.data.numpy(),
                               atol=1e-5)
