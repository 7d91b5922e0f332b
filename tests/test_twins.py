"""Compiled twins against the truth in NumPy: values, gradients, special numbers, layouts, refusals. Attention has tests of its own."""

import numpy as np
import pytest

from numformer import backend
from numformer import functional as F
from numformer.models import Decoder, DecoderConfig
from numformer.verify.jacobians import made
from numformer.verify.registry import PAIRS

numba = pytest.importorskip("numba")
SHAPES = [(1,), (7,), (1, 1), (3, 2), (5, 17)] + ([] if numba.config.DISABLE_JIT else [(5, 64), (2, 3, 65), (2, 2, 4, 127), (96, 128)])
TWINS = [pair for pair in PAIRS if pair.function.__name__ in backend.TWINS]


def arguments(name, shape, rng):
    """Positional arguments of a function for vectors of that shape, in float64, and keyword arguments to choose from."""
    x, other = 2 * rng.standard_normal((2, *shape))
    gain, shift = 1 + 0.3 * rng.standard_normal((2, shape[-1]))
    if name == "layer_norm":
        return (x, gain, shift), [dict(), dict(epsilon=0.1, epsilon_inside=False), dict(shift=None)][int(rng.integers(3))]
    if name == "rms_norm":
        return (x, gain), [dict(), dict(epsilon=0.1, epsilon_inside=False)][int(rng.integers(2))]
    if name == "gated_linear_unit":
        return (x, other, str(rng.choice(list(F.ACTIVATIONS)))), {}
    if name == "cross_entropy":
        targets = rng.integers(0, shape[-1], shape[:-1])
        if targets.size > 1:
            targets.flat[::3] = -100
            targets.flat[-1] = 0
        return (x, targets), [dict(), dict(label_smoothing=0.2, z_loss=0.3)][int(rng.integers(2))]
    if name == "rotary":
        x = 2 * rng.standard_normal((2, 3, *shape[-1:], 2 * (shape[-1] // 2 + 1)))
        return (x, *F.rotary_angles(3, 3 + x.shape[-2], x.shape[-1]), str(rng.choice(["half", "interleaved"]))), {}
    if name == "embedding":
        return (rng.integers(0, 60, shape), rng.standard_normal((60, shape[-1] + 2))), {}
    if name == "linear":                                              # a single vector is what its kernel is for
        weight = rng.standard_normal((shape[-1], 7))
        return (x[(0,) * (x.ndim - 1)], np.asfortranarray(weight) if rng.random() < 0.5 else weight, shift[0] + np.arange(7.0)), {}
    if name == "dropout":
        return (x, 0.3, "rng"), {}
    if name == "residual_dropout":
        return (x, other, 0.3, "rng"), {}
    return (x,), dict(beta=1.7) if name == "swish" else {}


def run(functions, name, given, options, dy=None):
    """y and all gradients."""
    given = [np.random.default_rng(8) if isinstance(x, str) and x == "rng" else x for x in given]
    if "shift" in options:
        given = given[:2]
    y, saved = getattr(functions, name)(*given, **options)
    if dy is None:
        dy = np.random.default_rng(9).standard_normal(np.shape(y)) if np.shape(y) else np.float64(0.7)
    gradients = getattr(functions, f"{name}_backward")(dy.astype(y.dtype), saved)
    return [y, *(gradients if isinstance(gradients, tuple) else (gradients,))]


def cast(given, dtype):
    return [x.astype(dtype) if isinstance(x, np.ndarray) and x.dtype.kind == "f" else x for x in given]


PAIR_NAMES = sorted(name for name in backend.TWINS if hasattr(F, f"{name}_backward"))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", PAIR_NAMES)
def test_twins_equal_the_truth(name, shape, rng):
    """In float64 up to rounding; in float32 with errors like those of NumPy in float32."""
    if name == "cross_entropy" and len(shape) == 1:
        shape = (1, *shape)
    for _ in range(3):
        given, options = arguments(name, shape, rng)
        single = cast(given, np.float32)
        truth = run(F, name, cast(single, np.float64), options)
        double = run(backend, name, cast(single, np.float64), options)
        found, in_numpy = run(backend, name, single, options), run(F, name, single, options)
        for x64, x32, numpy32, true in zip(double, found, in_numpy, truth, strict=True):
            if true is None:
                assert x64 is None and x32 is None
                continue
            size = max(1, np.abs(true).max())
            assert x64.dtype == np.float64 and x32.dtype == np.float32 and np.shape(x32) == np.shape(true)
            assert np.abs(x64 - true).max() <= 1e-13 * size, (given, options)
            allowed = 2 * np.abs(numpy32 - true).max() + 16 * np.spacing(np.float32(size))
            assert np.abs(x32 - true).max() <= allowed, (given, options)


@pytest.mark.parametrize("pair", TWINS, ids=lambda pair: pair.name)
def test_registered_pairs_run_compiled(pair):
    """What is registered for a function with a twin really goes to the twin; NumPy, complex numbers and odd dtypes do not."""
    name = pair.function.__name__
    forward = getattr(backend, name)

    def functions(inputs):
        return forward(*pair.before, *inputs, *pair.after, **made(pair.options))[1][0]

    inputs = pair.inputs()
    assert functions(inputs).__name__ == f"numformer.kernels.{backend.TWINS[name]}"
    assert functions([x.astype(complex) for x in inputs]) is F
    with np.errstate(all="ignore"):
        assert functions([x.astype(np.float16) for x in inputs]) is F
    try:
        backend.use("numpy")
        assert functions(inputs) is F
    finally:
        backend.use("numba")


@pytest.mark.parametrize("name", [name for name in PAIR_NAMES if name != "linear"])    # which leaves weights with gaps to BLAS
def test_any_layout(name, rng):
    """Arrays with gaps, turned round or transposed give the same bits; nothing is written into arguments."""
    given, options = arguments(name, (4, 6, 8), rng)
    straight = run(backend, name, given, options)
    for spread in (lambda x: np.repeat(x, 2, axis=-1)[..., ::2], lambda x: x[::-1].copy()[::-1], np.asfortranarray):
        others = [spread(x) if isinstance(x, np.ndarray) and x.ndim > 1 else x for x in given]
        copies = [x.copy() if isinstance(x, np.ndarray) else x for x in others]
        for x, y in zip(run(backend, name, others, options), straight, strict=True):
            assert x is y is None or np.array_equal(x, y)
        assert all(np.array_equal(x, y) for x, y in zip(others, copies) if isinstance(x, np.ndarray))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")                 # NumPy warns where a kernel does not
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["relu", "relu_squared", "gelu", "gelu_tanh", "silu", "swish", "layer_norm", "rms_norm"])
def test_special_values(name, dtype, rng):
    """NaN and infinities come out where they do in NumPy, and nowhere else; far out, values are those of float64."""
    rows = np.array([[0.5, np.nan, 1.0], [np.inf, 1.0, 2.0], [1.0, -np.inf, -1.0], [1e3, -1e3, 30.0], [-30.0, 9.0, -9.0],
                     [0.0, -0.0, 1e-30]], dtype)
    given = (rows,) if "norm" not in name else (rows, np.ones(3, dtype))
    y, = run(backend, name, given, {})[:1]
    true, = run(F, name, given, {})[:1]
    assert np.array_equal(np.isfinite(y), np.isfinite(true)) and np.array_equal(np.isnan(y), np.isnan(true)), (y, true)
    finite = np.isfinite(true)
    np.testing.assert_allclose(y[finite], run(F, name, cast(given, np.float64), {})[0][finite], rtol=2e-5 if dtype == np.float32 else 1e-12,
                               atol=1e-6 if dtype == np.float32 else 1e-15)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gates_shut_by_a_relu_stay_shut(dtype):
    dy = np.array([np.inf, np.nan, 1.0], dtype)
    x = np.array([-1.0, 0.0, 2.0], dtype)
    for name, expected in (("relu", [0, 0, 1]), ("relu_squared", [0, 0, 4])):
        assert run(backend, name, [x], {}, dy)[1].tolist() == expected
    for activation, expected in (("relu", [0, 0, 3]), ("relu_squared", [0, 0, 12])):
        assert run(backend, "gated_linear_unit", [x, np.full(3, 3, dtype), activation], {}, dy)[1].tolist() == expected


def test_gelu_to_four_ulp():
    """In float32, on all scales: where it is a tail, where it is linear, and between."""
    x = np.concatenate([np.linspace(-12.9, 12.9, 20001), np.geomspace(1e-30, 12, 2000), -np.geomspace(1e-30, 12, 2000)]).astype(np.float32)
    y, dx = run(backend, "gelu", [x], {}, np.ones_like(x))
    true, slope = run(F, "gelu", [x.astype(float)], {}, np.ones(x.shape))
    assert (np.abs(y - true) <= 8 * np.spacing(np.abs(true).astype(np.float32))).all()
    assert np.abs(dx - slope).max() < 5e-7
    y, dx = run(backend, "gelu_tanh", [x], {}, np.ones_like(x))
    true, slope = run(F, "gelu_tanh", [x.astype(float)], {}, np.ones(x.shape))
    assert np.abs(y - true).max() < 1e-6 and np.abs(dx - slope).max() < 1e-6


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dropout_masks_are_the_same_to_the_bit(dtype, rng):
    for shape in [(), (5,), (3, 70), (2, 3, 33)]:
        x = np.asarray(1 + rng.random(shape), dtype)
        for rate in (0.1, 0.5, 0.999):
            (y, dx), (true, dtrue) = run(backend, "dropout", [x, rate, "rng"], {}), run(F, "dropout", [x, rate, "rng"], {})
            assert np.array_equal(y == 0, true == 0) and np.array_equal(dx == 0, dtrue == 0)
            found, truth = (run(functions, "residual_dropout", [x, x, rate, "rng"], {}) for functions in (backend, F))
            for a, b in zip(found, truth):
                np.testing.assert_allclose(a, b, rtol=1e-6)


def test_adam_is_equal_to_the_bit(rng):
    for dtype in (np.float32, np.float64):
        for shape in ((1,), (37,), (5, 9), (64, 128)):
            arrays = rng.standard_normal((3, *shape)).astype(dtype)
            arrays = [*arrays, (arrays[2] ** 2).copy()]
            mine, true = ([x.copy() for x in arrays] for _ in range(2))
            for steps in (1, 2, 1000):
                more = dict(learning_rate=0.01, steps=steps, beta1=0.8, beta2=0.99, epsilon=1e-7, weight_decay=0.1, shorten=0.3)
                backend.adam_step(*mine, **more)
                F.adam_step(*true, **more)
            assert all(np.array_equal(x, y) for x, y in zip(mine, true)) and not np.array_equal(mine[0], arrays[0])
    turned = [np.asfortranarray(x) for x in (rng.standard_normal((4, 3, 5)) ** 2)]
    true = [x.copy() for x in turned]
    backend.adam_step(*turned, 0.1, 3)
    F.adam_step(*true, 0.1, 3)
    assert all(np.array_equal(x, y) for x, y in zip(turned, true))


def test_sums_of_squares(rng):
    for dtype in (np.float32, np.float64):
        for shape in ((1,), (1000,), (64, 65)):
            x = (1e3 * rng.standard_normal(shape)).astype(dtype)
            assert abs(backend.sum_of_squares(x) / F.sum_of_squares(x) - 1) < 1e-14
    assert backend.sum_of_squares(np.full(100, 1e30, np.float32)) == pytest.approx(1e62)
    assert np.isnan(backend.sum_of_squares(np.array([np.nan, 1.0]))) and backend.sum_of_squares(np.array([-np.inf])) == np.inf


def test_refusals_are_the_same(rng):
    """What the truth refuses, the twin refuses in the same words; and a gradient of another precision is no gradient."""
    x = rng.standard_normal((2, 3))
    for name, given in (("layer_norm", (x, np.ones(4))), ("layer_norm", (x, np.ones(3, np.float32))), ("rms_norm", (x, np.ones(3), -1.0)),
                        ("gelu", ([1.0],)), ("cross_entropy", (x, np.array([0, 3]))), ("cross_entropy", (x, np.array([-100, -100]))),
                        ("gated_linear_unit", (x, x[:1])), ("gated_linear_unit", (x, x, "elu")), ("dropout", (x, 1.0)),
                        ("residual_dropout", (x, x[0], 0.1)), ("rotary", (x, np.ones((2, 1)), np.ones((2, 1)))),
                        ("rotary", (x[:, :2], np.ones((2, 1)), np.ones((2, 2)))), ("embedding", (np.array([5]), x))):
        with pytest.raises((ValueError, TypeError)) as truth:
            getattr(F, name)(*given)
        with pytest.raises(truth.type) as twin:
            getattr(backend, name)(*given)
        assert str(twin.value) == str(truth.value)
    _, saved = backend.gelu(x)
    with pytest.raises(TypeError, match="gelu_backward: dy is float32"):
        backend.gelu_backward(x.astype(np.float32), saved)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gradients_of_weights_are_added_in_place(dtype, rng):
    """By rows and by columns, as an unembedding has its table; also where the twin leaves it to the truth."""
    x, dy, bias = (rng.standard_normal(shape).astype(dtype) for shape in ((3, 5, 4), (3, 5, 6), (6,)))
    weight = rng.standard_normal((4, 6)).astype(dtype)
    before = rng.standard_normal((4, 6)).astype(dtype)
    for layout in (np.ascontiguousarray, np.asfortranarray, lambda x: np.repeat(x, 2, axis=1)[:, ::2]):
        for functions in (F, backend):
            total = layout(before.copy())
            dx, dweight, dbias = functions.linear_backward(dy, functions.linear(x, weight, bias)[1], total)
            assert dweight is total and dx.shape == x.shape and dbias.shape == bias.shape
            np.testing.assert_allclose(total, before + np.tensordot(x, dy, ([0, 1], [0, 1])), rtol=1e-5 if dtype == np.float32 else 1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("choices", [
    {}, dict(bias=False, feedforward="swiglu", norm="rms_norm", positions="rotary", n_kv_heads=1),
    dict(positions="rotary", rotary_layout="interleaved", query_key_norm=True, feedforward="relu_squared", n_kv_heads=2),
    dict(positions="alibi", feedforward="geglu", norm="rms_norm"), dict(feedforward="gelu", positions="none"), dict(feedforward="silu")])
def test_a_block_in_one_call_equals_its_parts(choices, dtype, rng, monkeypatch):
    """The compiled step of one token, against the same step made of layers, over a text that outgrows two rooms."""
    monkeypatch.setattr("numformer.layers.cache.LEAST", 8)
    config = DecoderConfig(vocab_size=9, context_length=128, n_layers=2, n_heads=4, d_model=16, dtype=np.dtype(dtype).name, **choices)
    model = Decoder(config, rng)
    for parameter in model.parameters():
        parameter.data += 0.2 * rng.standard_normal(parameter.data.shape).astype(dtype)
    ids, found = rng.integers(0, 9, (1, 20)), {}
    for twin in ("numba", "numpy"):
        backend.use(twin)
        try:
            cache, logits = None, []
            for t in range(ids.shape[1]):
                z, cache = model.step(ids[:, t:t + 1], cache)
                logits.append(z)
        finally:
            backend.use("numba")
        found[twin] = np.concatenate(logits, axis=1)
    tolerance = 2e-4 if dtype == np.float32 else 1e-11
    np.testing.assert_allclose(found["numba"], found["numpy"], rtol=tolerance, atol=tolerance)
    assert found["numba"].dtype == dtype and not np.array_equal(found["numba"], found["numpy"])
