"""Which version runs: the compiled kernel where it can, the NumPy reference elsewhere."""

import numpy as np
import pytest

from numformer import backend
from numformer import functional as F
from numformer.functional import CAUSAL
from numformer.layers import MultiHeadAttention
from numformer.specifications import PAIRS
from numformer.verify.tensors import resolved

pytest.importorskip("numba")
from numformer.kernels.attention import flash  # noqa: E402  (needs Numba)
from numformer.kernels.runtime import workspace  # noqa: E402  (needs Numba)

COMPILED = [pair for pair in PAIRS if pair.function.__name__ in backend.compiled_versions()
            and all(backend.is_compiled(f) for f in pair.after
                    if isinstance(f, str) and f in F.ACTIVATIONS)]


@pytest.fixture
def in_numpy():
    backend.use("numpy")
    yield
    backend.use("numba")


def version_for(pair, inputs):
    forward = getattr(backend, pair.function.__name__)
    _, (functions, _, _) = forward(*pair.before, *inputs, *pair.after, **resolved(pair.options))
    return functions


@pytest.mark.parametrize("pair", COMPILED, ids=lambda pair: pair.name)
def test_real_arrays_run_compiled_and_others_in_the_reference(pair):
    """float32 and float64 run compiled, complex numbers do not; half precision is refused."""
    inputs = pair.inputs()
    assert version_for(pair, inputs) is backend.compiled_versions()[pair.function.__name__]
    assert version_for(pair, [x.astype(complex) for x in inputs]) is F
    with pytest.raises(TypeError, match="float16"):
        version_for(pair, [x.astype(np.float16) for x in inputs])


@pytest.mark.parametrize("pair", COMPILED, ids=lambda pair: pair.name)
def test_the_reference_runs_on_request(pair, in_numpy):
    assert version_for(pair, pair.inputs()) is F


def test_a_layer_runs_attention_compiled_or_in_the_reference_on_request(rng):
    layer = MultiHeadAttention(32, 4, rng, dropout=0.2)
    x = rng.standard_normal((2, 70, 32)).astype(np.float32)
    y, saved = layer.forward(x, pattern=CAUSAL, rng=np.random.default_rng(1))
    backend.use("numpy")
    try:
        reference, saved_reference = layer.forward(x, pattern=CAUSAL, rng=np.random.default_rng(1))
        assert saved_reference[3][1][0] is None and saved[3][1][0] is flash
        np.testing.assert_allclose(y, reference, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(layer.backward(reference, saved),
                                   layer.backward(reference, saved_reference),
                                   rtol=1e-3, atol=1e-5)
    finally:
        backend.use("numba")
    assert layer.forward(x.astype(np.complex64))[1][3][1][0] is None


def test_another_version_is_refused():
    with pytest.raises(ValueError, match="version='fortran'"):
        backend.use("fortran")


def test_sums_of_large_arrays_reuse_memory(rng):
    """Real arrays of one shape and dtype only: NumPy adds the others."""
    x, y = rng.standard_normal((2, 1 << 15)).astype(np.float32)
    workspace.release()
    first = backend.add(x, y)
    address = first.ctypes.data
    del first
    again = backend.add(x, y)
    assert again.ctypes.data == address and np.array_equal(again, x + y)
    for other in (y.astype(float), y.astype(complex), y[:1]):
        assert np.array_equal(backend.add(x, other), x + other)
        assert backend.add(x, other).flags.owndata
    del again
    workspace.release()


def test_a_version_runs_inside_a_with_statement(rng):
    q = rng.standard_normal((1, 1, 4, 2))

    def compiled():
        return backend.scaled_dot_product_attention(q, q, q)[1][0] is flash

    with backend.using("numpy"):
        assert not compiled()
        with backend.using("numba"):
            assert compiled()
        assert not compiled()
    assert compiled()
    with pytest.raises(KeyError), backend.using("numpy"):
        raise KeyError
    assert compiled()
    with pytest.raises(ValueError, match="version='fortran'"), backend.using("fortran"):
        pass


def test_tiles_run_compiled_or_in_the_reference_on_request(rng):
    q, k, v, do = rng.standard_normal((4, 1, 2, 9, 3))
    o, saved = backend.tiled_attention(q, k, v, CAUSAL, tile=4)
    assert saved[0] is flash
    with backend.using("numpy"):
        expected, saved_reference = backend.tiled_attention(q, k, v, CAUSAL, tile=4)
        gradients = backend.tiled_attention_backward(do, saved_reference)
    assert saved_reference[0] is None
    np.testing.assert_allclose(o, expected, rtol=1e-12)
    for one, other in zip(backend.tiled_attention_backward(do, saved), gradients):
        np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-13)
    for version in ("numpy", "numba"):
        with backend.using(version), pytest.raises(ValueError, match="tiled_attention: tile=0"):
            backend.tiled_attention(q, k, v, tile=0)
