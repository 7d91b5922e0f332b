"""The convolutional network: against PyTorch, its published size, and wrong configs."""

import numpy as np
import pytest

from numformer import functional as F
from numformer.analysis import count
from numformer.models import (
    CONVOLUTION_CONFIGS, ConvolutionClassifier, ConvolutionClassifierConfig)

SIZES = dict(image_size=8, channels=2, n_classes=3, widths=(3, 4), kernel_width=3, padding=1,
             hidden=(5,), dtype="float64")


def close(found, expected, tolerance=1e-12):
    expected = expected.detach().numpy()
    np.testing.assert_allclose(found, expected, rtol=tolerance,
                               atol=tolerance * max(1e-300, float(np.abs(expected).max())))


@pytest.mark.parametrize("shape, kernel, stride, padding", [
    ((2, 6, 7, 3), (3, 3), 1, 1), ((1, 8, 5, 2), (2, 4), 2, 0), ((2, 5, 5, 1), (5, 5), 3, 2)])
def test_convolution_2d_against_pytorch(shape, kernel, stride, padding, rng):
    torch = pytest.importorskip("torch")
    arrays = (rng.standard_normal(shape), rng.standard_normal((*kernel, shape[-1], 4)),
              rng.standard_normal(4))
    x, weight, bias = (torch.tensor(array, requires_grad=True) for array in arrays)
    y, saved = F.convolution_2d(*arrays, stride=stride, padding=padding)
    expected = torch.nn.functional.conv2d(
        x.permute(0, 3, 1, 2), weight.permute(3, 2, 0, 1), bias, stride, padding)
    expected = expected.permute(0, 2, 3, 1)
    close(y, expected)
    dy = rng.standard_normal(y.shape)
    expected.backward(torch.tensor(dy))
    for found, leaf in zip(F.convolution_2d_backward(dy, saved), (x, weight, bias), strict=True):
        close(found, leaf.grad)


@pytest.mark.parametrize("size, stride", [(2, None), (3, 1), (3, 2)])
@pytest.mark.parametrize("kind", ["max", "mean"])
def test_pooling_2d_against_pytorch(kind, size, stride, rng):
    torch = pytest.importorskip("torch")
    nn = torch.nn.functional
    images = rng.standard_normal((2, 7, 6, 3))
    x = torch.tensor(images, requires_grad=True)
    y, saved = getattr(F, f"{kind}_pooling_2d")(images, size, stride)
    pool = nn.max_pool2d if kind == "max" else nn.avg_pool2d
    expected = pool(x.permute(0, 3, 1, 2), size, stride).permute(0, 2, 3, 1)
    close(y, expected)
    dy = rng.standard_normal(y.shape)
    expected.backward(torch.tensor(dy))
    close(getattr(F, f"{kind}_pooling_2d_backward")(dy, saved), x.grad)


def test_of_equal_maxima_the_first_gets_the_gradient():
    y, saved = F.max_pooling_2d(np.ones((1, 2, 2, 1)), 2)
    found = F.max_pooling_2d_backward(np.full_like(y, 3.0), saved)
    assert found[0, ..., 0].tolist() == [[3.0, 0.0], [0.0, 0.0]]


def test_the_model_against_pytorch(rng):
    torch = pytest.importorskip("torch")
    nn = torch.nn.functional
    model = ConvolutionClassifier(ConvolutionClassifierConfig(**SIZES), rng)
    images, labels = rng.standard_normal((4, 8, 8, 2)), np.array([0, 2, 1, 1])
    loss, saved = model.loss((images, labels))
    model.loss_backward(saved)
    leaves = {name: torch.tensor(parameter.data, requires_grad=True)
              for name, parameter in model.named_parameters()}
    x = torch.tensor(images).permute(0, 3, 1, 2)
    for k in range(2):
        weight = leaves[f"convolutions.{k}.weight"].permute(3, 2, 0, 1)
        x = nn.max_pool2d(nn.relu(nn.conv2d(x, weight, leaves[f"convolutions.{k}.bias"],
                                            padding=1)), 2)
    x = x.permute(0, 2, 3, 1).flatten(1)
    x = nn.relu(x @ leaves["hidden.0.weight"] + leaves["hidden.0.bias"])
    expected = nn.cross_entropy(x @ leaves["head.weight"] + leaves["head.bias"],
                                torch.tensor(labels))
    close(loss, expected)
    expected.backward()
    for name, parameter in model.named_parameters():
        close(parameter.grad, leaves[name].grad)


def test_lenet_5_and_its_costs():
    costs = count(CONVOLUTION_CONFIGS["lenet-5"])
    assert costs["parameters"] == 61706           # 156 + 2416 + 48120 + 10164 + 850
    # 28 x 28 and 10 x 10 windows, then three matrices: multiplications of the forward pass
    products = 784 * 150 + 100 * 2400 + 400 * 120 + 120 * 84 + 84 * 10
    assert costs["flops_per_image"] == 2 * products


def test_costs_with_padding_by_hand():
    """Windows: 8 x 8 of 3 x 3 pixels, with padding, and 4 x 4 after pooling."""
    products = 64 * 9 * 2 * 3 + 16 * 9 * 3 * 4 + 2 * 2 * 4 * 5 + 5 * 3
    assert count(ConvolutionClassifierConfig(**SIZES))["flops_per_image"] == 2 * products


def test_initial_weights_keep_the_scale_through_relu(rng):
    """He et al. (2015), eq. 10: twice one over the inputs of a unit, as variance."""
    config = ConvolutionClassifierConfig(image_size=16, channels=20, n_classes=3, padding=1,
                                         kernel_width=3, widths=(30, 50, 70), hidden=(90, 110))
    model = ConvolutionClassifier(config, rng)
    assert [layer.weight.data.shape[0] for layer in model.hidden] == [2 * 2 * 70, 90]
    for layer in (*model.convolutions, *model.hidden):
        fan_in = np.prod(layer.weight.data.shape[:-1])
        assert layer.weight.data.std() == pytest.approx((2 / fan_in) ** 0.5, rel=0.05)


def test_convolutions_need_no_padding(rng):
    config = ConvolutionClassifierConfig(**{**SIZES, "padding": 0, "widths": (3,)})
    assert config.sides == [3]
    assert ConvolutionClassifier(config, rng)(rng.standard_normal((2, 8, 8, 2))).shape == (2, 3)


def test_a_translated_image_has_translated_features(rng):
    weight = rng.standard_normal((3, 3, 1, 2))
    images = np.zeros((1, 9, 9, 1))
    images[0, 2:6, 2:6, 0] = rng.standard_normal((4, 4))
    y, _ = F.convolution_2d(images, weight, padding=1)
    moved, _ = F.convolution_2d(np.roll(images, (1, 2), axis=(1, 2)), weight, padding=1)
    np.testing.assert_allclose(moved, np.roll(y, (1, 2), axis=(1, 2)), atol=1e-15)


@pytest.mark.parametrize("options, words", [
    (dict(widths="3,,4"), "widths='3,,4' must be whole numbers"),
    (dict(widths=()), r"widths=\(\) must be whole numbers"),
    (dict(hidden="5,0"), "hidden='5,0' must be whole numbers"),
    (dict(image_size=2), "image_size=2 is too small for 2 convolutions"),
    (dict(pooling="median"), "pooling='median' is unknown"),
    (dict(dropout=1), "dropout=1 must be a number"),
    (dict(padding=-1), "padding=-1 must be a whole number")])
def test_wrong_configs(options, words):
    with pytest.raises(ValueError, match=words):
        ConvolutionClassifierConfig(**{**SIZES, **options})


def test_a_config_from_a_file_is_the_same():
    config = ConvolutionClassifierConfig(**SIZES)
    assert config.widths == "3,4" and config.sides == [4, 2]
    assert ConvolutionClassifierConfig.from_dict(config.as_dict()) == config
