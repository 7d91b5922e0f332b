"""Schedules, optimizers, clipping, and the settings that name them."""

import math

import numpy as np
import pytest

from numformer import use
from numformer.functional import orthogonalize
from numformer.layers import LearnedPositions, Linear
from numformer.models import Decoder, DecoderConfig
from numformer.training import (
    SCHEDULES, SGD, Adam, AdamW, Muon, TrainingConfig, clip_factor, global_norm, learning_rate)


def test_schedules_reach_their_peak_and_floor():
    for name in SCHEDULES:
        rates = [learning_rate(name, step, 100, peak=1.0, floor=0.1, warmup=9)
                 for step in range(101)]
        np.testing.assert_allclose(rates[:9], np.arange(1, 10) / 10)
        last = {"constant": 1.0, "inverse_sqrt": (10 / 101) ** 0.5}.get(name, 0.1)
        assert rates[9] == 1.0 and abs(rates[100] - last) < 1e-15
        assert all(0 <= later <= earlier for earlier, later in zip(rates[9:], rates[10:]))
    assert abs(learning_rate("cosine", 50, 100, 1.0, 0.0) - 0.5) < 1e-15
    with pytest.raises(ValueError, match="'cosine'"):
        learning_rate("cosinus", 0, 1, 1.0)


def layer_with_gradient(rng):
    layer = Linear(3, 2, rng, dtype=np.float64)
    layer.bias.data += 1
    return layer


def test_optimizers_follow_their_equations(rng):
    gradients = rng.standard_normal((5, 3, 2))
    makers = {"sgd": lambda m: SGD(m, 0.7), "adam": lambda m: Adam(m, 0.8, 0.9),
              "adamw": lambda m: AdamW(m, 0.8, 0.9, weight_decay=0.3)}
    for name, make in makers.items():
        layer = layer_with_gradient(np.random.default_rng(0))
        optimizer, theta = make(layer), layer.weight.data.copy()
        b = m = v = 0
        for t, g in enumerate(gradients, 1):
            layer.zero_grad()
            layer.weight.grad += g
            optimizer.step(0.1)
            b = 0.7 * b + g
            m, v = 0.8 * m + 0.2 * g, 0.9 * v + 0.1 * g * g
            if name == "adamw":
                theta = theta - 0.1 * 0.3 * theta
            adam = (m / (1 - 0.8 ** t)) / (np.sqrt(v / (1 - 0.9 ** t)) + 1e-8)
            theta = theta - 0.1 * (b if name == "sgd" else adam)
        np.testing.assert_allclose(layer.weight.data, theta, rtol=1e-12)
        assert (layer.bias.data == 1).all(), "no gradient, and no decay of vectors"


def test_defaults_of_optimizers(rng):
    layer = Linear(1, 1, rng)
    assert SGD(layer).momentum == 0.9
    for optimizer in (Adam(layer), AdamW(layer)):
        assert (optimizer.beta1, optimizer.beta2, optimizer.epsilon) == (0.9, 0.999, 1e-8)
    assert AdamW(layer).weight_decay == 0.01
    assert SGD(layer, 0).momentum == 0 and Adam(layer, 0, 0, 0).epsilon == 0
    assert AdamW(layer, weight_decay=0).weight_decay == 0


@pytest.mark.parametrize("kind", [SGD, Adam, AdamW, Muon])
def test_optimizers_keep_the_dtype_and_round_trip(kind, rng):
    layer = Linear(3, 2, rng)
    optimizer = kind(layer)
    layer.weight.grad += 1
    optimizer.step(np.float64(0.1))
    state = optimizer.state_dict()
    assert layer.weight.data.dtype == np.float32
    assert all(array.dtype == np.float32 for array in state.values())
    other = kind(layer)
    other.load_state_dict(state, optimizer.steps)
    assert other.steps == 1
    assert all(np.array_equal(array, state[name]) for name, array in other.state_dict().items())
    with pytest.raises(ValueError, match="another optimizer"):
        other.load_state_dict({}, 1)


@pytest.mark.parametrize("optimizer", [Adam, AdamW, Muon])
@pytest.mark.parametrize("version", ["numpy", "numba"])
def test_without_epsilon_what_has_no_gradient_does_not_move(optimizer, version, request):
    """Nor does what has one whose square underflows: both are a division by 0. NaN stays NaN."""
    request.addfinalizer(lambda: use("numba"))
    use(version)
    layer = LearnedPositions(4, 3, np.random.default_rng(0))
    before, moved = layer.weight.data.copy(), optimizer(layer, epsilon=0.0)
    moved.weight_decay, layer.weight.grad[1], layer.weight.grad[2] = 0.0, 2.0, 1e-30
    moved.step(0.1)
    np.testing.assert_array_equal(layer.weight.data[[0, 2, 3]], before[[0, 2, 3]])
    np.testing.assert_allclose(layer.weight.data[1], before[1] - 0.1, rtol=1e-5)
    layer.weight.grad[2] = np.nan
    moved.step(0.1)
    assert np.isnan(layer.weight.data[2]).all()
    assert np.isfinite(layer.weight.data[[0, 1, 3]]).all()


def test_muon_follows_its_equation_and_adamw_elsewhere(rng):
    """Matrices of linear layers by orthogonal steps; vectors and tables as AdamW moves them."""
    config = DecoderConfig(vocab_size=7, context_length=4, n_layers=1, n_heads=1, d_model=4,
                           dtype="float64")
    models = [Decoder(config, np.random.default_rng(3)) for _ in range(2)]
    settings = dict(beta1=0.8, beta2=0.9, weight_decay=0.3)
    muon, adamw = Muon(models[0], momentum=0.7, ratio=5.0, iterations=4,
                       **settings), AdamW(models[1], **settings)
    hidden = {name for name in muon.parameters if name.startswith("blocks")
              and muon.parameters[name].data.ndim == 2}
    assert muon.hidden == hidden and len(hidden) == 6
    expected = {name: muon.parameters[name].data.copy() for name in hidden}
    b = dict.fromkeys(hidden, 0.0)
    for _ in range(3):
        for name in muon.parameters:
            g = rng.standard_normal(muon.parameters[name].data.shape)
            muon.parameters[name].grad[...] = adamw.parameters[name].grad[...] = g
            if name in hidden:
                b[name] = 0.7 * b[name] + 0.5 * g
                scale = max(1, g.shape[1] / g.shape[0]) ** 0.5
                step = orthogonalize(0.5 * g + 0.7 * b[name], 4) * scale
                expected[name] = (1 - 0.5 * 0.3) * expected[name] - 0.5 * step
        muon.step(0.1, 0.5)
        adamw.step(0.1, 0.5)
    for name, parameter in muon.parameters.items():
        np.testing.assert_allclose(parameter.data, expected[name] if name in hidden
                                   else adamw.parameters[name].data, rtol=1e-10, atol=1e-12)
    assert Muon(models[0]).momentum == 0.95 and Muon(models[0]).ratio == 10
    assert Muon(models[0]).iterations == 5 and Muon(models[0]).weight_decay == 0.01
    assert Muon(models[0], ratio=0).ratio == 0


@pytest.mark.parametrize("make", [
    lambda m: Muon(m, momentum=1.0), lambda m: Muon(m, momentum=-0.1), lambda m: Muon(m, ratio=-1),
    lambda m: Muon(m, iterations=0),
    lambda m: SGD(m, 1.0), lambda m: SGD(m, -0.1), lambda m: Adam(m, beta1=-0.1),
    lambda m: Adam(m, beta1=1.0),
    lambda m: Adam(m, beta2=1.0), lambda m: Adam(m, beta2=-0.1), lambda m: Adam(m, epsilon=-1e-9),
    lambda m: AdamW(m, weight_decay=-1)])
def test_bad_optimizer_settings_are_refused(make, rng):
    with pytest.raises(ValueError):
        make(Linear(1, 1, rng))


def test_the_norm_is_summed_in_float64(rng):
    layer = Linear(100, 100, rng)
    layer.weight.grad += np.float32(1e-25)
    assert abs(global_norm(layer.parameters()) / 1e-23 - 1) < 1e-6
    layer.weight.grad[...] = 1e25
    assert abs(global_norm(layer.parameters()) / 1e27 - 1) < 1e-6


@pytest.mark.parametrize("kind", [SGD, Adam, AdamW, Muon])
def test_clipping_equals_scaled_gradients(kind, rng):
    """A gradient that is too long moves the parameters as if it had been shortened beforehand."""
    layer = Linear(3, 2, rng, dtype=np.float64)
    layer.weight.grad += rng.standard_normal((3, 2))
    layer.bias.grad += 1
    norm = global_norm(layer.parameters())
    assert abs(norm - math.sqrt((layer.weight.grad ** 2).sum() + 2)) < 1e-12
    assert clip_factor(norm, 0.5) == 0.5 / norm
    assert clip_factor(norm, norm) == clip_factor(norm, norm + 1) == clip_factor(norm, 0) == 1
    shortened = layer.replica()
    for own, parameter in zip(shortened.parameters(), layer.parameters()):
        own.data, own.grad[...] = parameter.data.copy(), parameter.grad * (0.5 / norm)
    kind(layer).step(0.1, clip_factor(norm, 0.5))
    kind(shortened).step(0.1)
    for own, parameter in zip(shortened.parameters(), layer.parameters()):
        np.testing.assert_array_equal(own.data, parameter.data)


@pytest.mark.parametrize("settings, words", [
    (dict(steps=0), "steps=0"), (dict(batch_size=1.5), "batch_size"), (dict(shards=0), "shards"),
    (dict(learning_rate=-1.0), "learning_rate"),
    (dict(optimizer="lion"), "adamw"), (dict(schedule="step"), "cosine"),
    (dict(beta2=1.0), "beta2"), (dict(seed=-1), "seed"),
    (dict(clip_norm=float("inf")), "clip_norm"), (dict(patience=-1), "patience"),
    (dict(muon_iterations=101), "muon_iterations=101 must be a whole number, 1 to 100"),
    (dict(learning_rate=1e-5), "lower it too")])
def test_bad_training_settings_are_named(settings, words):
    with pytest.raises(ValueError) as caught:
        TrainingConfig(**{"steps": 10, **settings})
    assert words in str(caught.value)
    assert TrainingConfig(steps=10, muon_iterations=100).muon_iterations == 100


def test_inverse_sqrt_is_the_schedule_of_2017():
    """Equation 3 for width 512 and 4000 steps of warm-up; before their end, one step behind."""
    peak, warmup = (512 * 4000) ** -0.5, 4000
    for step in (4000, 4001, 10_000, 99_999):
        found = learning_rate("inverse_sqrt", step - 1, 100_000, peak, warmup=warmup - 1)
        assert abs(found / (512**-0.5 * min(step**-0.5, step * warmup**-1.5)) - 1) < 1e-12
    assert learning_rate("inverse_sqrt", 99, 100_000, peak, warmup=warmup - 1) == peak * 100 / 4000
    assert learning_rate("inverse_sqrt", 10**9, 10, 1.0, floor=0.3, warmup=5) == 0.3
