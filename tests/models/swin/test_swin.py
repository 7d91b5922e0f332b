"""Swin: published sizes, windows and their mask counted one by one, and wrong configs."""

import numpy as np
import pytest

from numformer import functional as F
from numformer.analysis import count
from numformer.layers import WindowAttention
from numformer.layers.positions.window_bias import WindowPositionBias
from numformer.models import SWIN_CONFIGS, Swin, SwinConfig

SIZES = dict(image_size=8, patch_size=1, channels=1, n_classes=3, d_model=4, depths=(2,),
             heads=(2,), window=4, dtype="float64")


@pytest.mark.parametrize("name, millions, flops", [      # Liu et al. (2021), table 1
    ("swin-t", 28.3, 4.5), ("swin-s", 49.6, 8.7), ("swin-b", 87.8, 15.4), ("swin-l", 196.5, 34.5)])
def test_published_sizes(name, millions, flops):
    costs = count(SWIN_CONFIGS[name])
    assert round(costs["parameters"] / 1e6, 1) == millions
    # the paper counts a multiplication with its addition as one; its 34.5 for Swin-L at 224 pixels
    # is that of its published code
    assert abs(costs["flops_per_image"] / 2e9 - flops) < 0.06


@pytest.mark.parametrize("height, width, window, offset", [
    (8, 8, 4, 2), (6, 9, 3, 1), (4, 4, 4, 2), (6, 4, 2, 1), (4, 8, 4, 0)])
def test_the_mask_joins_neighbours_alone(height, width, window, offset):
    """Two vectors of a window may attend if rolling did not bring them from opposite sides."""
    mask = F.shifted_window_mask(height, width, window, offset)
    at = np.stack(np.meshgrid(np.arange(height), np.arange(width), indexing="ij"), axis=2)
    at = F.cyclic_roll(at[None].astype(float), offset)[0]
    at = F.window_partition(at, window)[0]                            # (N, M M, 2): where from
    near = (np.abs(at[:, :, None] - at[:, None, :]) < window).all(axis=3)
    if offset and height > window and width > window:
        np.testing.assert_array_equal(mask, near)
    elif not offset:
        assert mask.all() and near.all()
    assert (mask == mask.swapaxes(1, 2)).all() and mask.diagonal(axis1=1, axis2=2).all()


def reached(model, row, column):
    """(side, side) of bool: where features depend on the pixel."""
    images = np.random.default_rng(1).standard_normal((1, 8, 8, 1))
    other = images.copy()
    other[0, row, column] += 1
    stage = model.stages[0]
    x, y = (stage(model.patches(part).reshape(1, 8, 8, -1)) for part in (images, other))
    return (x != y).any(axis=(0, 3))


def test_only_shifted_windows_cross_borders(rng):
    expected = np.zeros((8, 8), bool)
    expected[:4, :4] = True
    fixed = Swin(SwinConfig(**SIZES, shifted=False, init_std=0.5), rng)
    np.testing.assert_array_equal(reached(fixed, 3, 3), expected)     # its window
    shifted = Swin(SwinConfig(**SIZES, init_std=0.5), rng)
    everywhere = reached(shifted, 3, 3)
    expected[:6, :6] = True                   # the windows of rows and columns 2 to 5, and -2 to 1
    np.testing.assert_array_equal(everywhere, expected)
    assert not everywhere[6:].any() and not everywhere[:, 6:].any()   # no attention around the edge


def test_a_stage_of_one_window_is_not_shifted(rng):
    config = SwinConfig(**{**SIZES, "depths": (2, 2), "heads": (2, 2)})
    model = Swin(config, rng)
    offsets = [[block.attention.offset for block in stage.blocks] for stage in model.stages]
    assert offsets == [[0, 2], [0, 0]] and config.stages[1] == (2, 2, 8, 4, 4)
    deep = Swin(SwinConfig(**{**SIZES, "depths": (4,)}), rng)         # every second block
    assert [block.attention.offset for block in deep.stages[0].blocks] == [0, 2, 0, 2]
    small = SwinConfig(**{**SIZES, "window": 16})                     # larger than the feature map
    assert Swin(small, rng).stages[0].blocks[0].attention.window == 8


def test_window_attention_is_attention_of_each_window(rng):
    """Each window alone, with its own part of the image, without roll and masks as batches."""
    layer = WindowAttention(4, 2, 2, rng, dtype=float)
    x = rng.standard_normal((2, 4, 6, 4))
    y = layer(x)
    for b, row, column in np.ndindex(2, 2, 3):
        part = (b, slice(2 * row, 2 * row + 2), slice(2 * column, 2 * column + 2))
        alone = layer.attention(x[part].reshape(1, 4, 4))
        np.testing.assert_allclose(y[part].reshape(1, 4, 4), alone, atol=1e-14)


@pytest.mark.parametrize("scale", [None, 0.3])
def test_the_weights_to_look_at_are_those_that_average_the_values(scale, rng):
    positions = WindowPositionBias(2, 2, rng, std=1.0, dtype=np.float64)
    q, k, v = rng.standard_normal((3, 3, 2, 4, 5))
    for pattern in (F.EVERYWHERE, F.AttentionPattern(mask=np.tri(4, dtype=bool))):
        p = positions.weights(q, k, pattern, scale)
        o, _ = positions.attend(q, k, v, pattern, scale)
        np.testing.assert_allclose(p @ v, o, rtol=1e-12)
        np.testing.assert_allclose(p.sum(axis=-1), 1)
    bias = positions.added_to_scores(4, 4)
    s = 5 ** -0.5 if scale is None else scale
    np.testing.assert_allclose(F.softmax(s * q @ k.mT + bias)[0],
                               positions.weights(q, k, F.EVERYWHERE, scale))
    assert bias.shape == (2, 4, 4) and positions.added_to_scores(4, 4, np.float32).dtype == "f4"


def test_the_bias_is_that_of_rows_and_columns(rng):
    table = rng.standard_normal((25, 2))
    bias, saved = F.window_position_bias(table, 3)
    for i, j in np.ndindex(9, 9):
        rows, columns = i // 3 - j // 3, i % 3 - j % 3
        np.testing.assert_array_equal(bias[:, i, j], table[(rows + 2) * 5 + columns + 2])
    counts = F.window_position_bias_backward(np.ones((2, 9, 9)), saved)
    assert counts.sum() == 162 and counts[12].tolist() == [9, 9] and counts[0].tolist() == [1, 1]


@pytest.mark.parametrize("options, words", [
    (dict(image_size=12), "stage 1 has 12 x 12 vectors, which windows of 8 x 8 do not divide"),
    (dict(depths=(2, 2)), "depths='2,2' are 2 stages, but heads='2' 1"),
    (dict(depths="2;2"), "depths='2;2' must be whole numbers"),
    (dict(heads=(3,)), "the width of stage 1=4 is not divisible by heads=3"),
    (dict(patch_size=3), "image_size=8 is not divisible by patch_size=3"),
    (dict(image_size=9, depths=(1, 1), heads=(1, 1), window=9), "stage 1 has 9 x 9 vectors, an"),
    (dict(mlp_ratio=0), "mlp_ratio=0 must be a number above 0"),
    (dict(feedforward="swiglu"), "feedforward='swiglu' is unknown"),
    (dict(dropout=1.0), "dropout=1.0 must be a number"),
    (dict(image_size=24, patch_size=2), "stage 1 has 12 x 12 vectors, which windows of 8 x 8"),
    (dict(image_size=12, window=4, depths=(1, 1), heads=(1, 1)), "stage 2 has 6 x 6 vectors"),
    (dict(depths=(1, 1), heads=(1, 3)), "the width of stage 2=8 is not divisible by heads=3"),
    (dict(mlp_ratio=0.2), "hidden width=0")])
def test_wrong_configs(options, words):
    with pytest.raises(ValueError, match=words):
        SwinConfig(**{**SIZES, "window": 8, **options})


@pytest.mark.parametrize("image_size, size", [(225, 224), (256, 224), (900, 896), (20, 224)])
def test_the_image_size_that_an_error_names_fits(image_size, size):
    with pytest.raises(ValueError, match=f"; use image_size={size}[.,]"):
        SwinConfig(image_size=image_size)
    SwinConfig(image_size=size)


def test_a_hidden_width_of_one_is_wide_enough():
    config = SwinConfig(**{**SIZES, "depths": (1, 1), "heads": (1, 1)}, mlp_ratio=0.25)
    stages = Swin(config, None).stages
    assert [stage.blocks[0].feedforward.hidden.weight.data.shape for stage in stages] == [
        (4, 1), (8, 2)]


def test_flops_of_a_small_model_by_hand():
    """Patches of 2 x 2 pixels, a stage of 16 vectors of width 4, and one of 4 of width 8."""
    config = SwinConfig(**{**SIZES, "patch_size": 2, "depths": (2, 1), "heads": (1, 2),
                           "window": 2})
    first = 16 * 2 * (12 * 4 * 4 + 2 * 4 * 4)         # matrices; scores and sums of 4 keys
    second = 4 * (16 * 8 + 12 * 8 * 8 + 2 * 4 * 8)    # with the merging
    assert count(config)["flops_per_image"] == 2 * (16 * 4 * 4 + first + second + 8 * 3)


def test_wrong_inputs(rng):
    layer = WindowAttention(4, 2, 2, rng)
    x = np.zeros((1, 4, 4, 4), np.float32)
    with pytest.raises(ValueError, match="leave the pattern out"):
        layer(x, pattern=F.AttentionPattern(causal=True))
    with pytest.raises(ValueError, match="offset=2 must be below window=2"):
        WindowAttention(4, 2, 2, rng, offset=2)
    with pytest.raises(ValueError, match="shifted_window_mask: offset=2 must be below window=2"):
        F.shifted_window_mask(4, 4, 2, 2)
    with pytest.raises(ValueError, match="must be square"):
        F.window_reverse(np.zeros((2, 3, 4)), 4, 4)
    with pytest.raises(ValueError, match="3 windows do not fill whole feature maps"):
        F.window_reverse(np.zeros((3, 4, 4)), 4, 4)
    with pytest.raises(TypeError, match="offset=0.5 must be a whole number"):
        F.cyclic_roll(x, 0.5)


def test_a_config_from_a_file_is_the_same():
    config = SwinConfig(**SIZES)
    assert SwinConfig.from_dict(config.as_dict()) == config and config.depths == "2"
