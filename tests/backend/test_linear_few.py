"""A few vectors through large matrices: in ranges, on any number of threads, with the same bits."""

import numpy as np
import pytest

from numformer import backend, functional as F
from numformer.models import Decoder, DecoderConfig
from numformer.models.decoder import caches

few_vectors = pytest.importorskip("numformer.kernels.few_vectors")
C, WIDTH = 37, 50


@pytest.fixture(autouse=True)
def all_are_large(monkeypatch):
    monkeypatch.setattr(few_vectors, "LARGE", 1)


def arrays(rng, *shapes, order="C", dtype=np.float64):
    return [np.asarray(rng.standard_normal(shape), dtype, order) for shape in shapes]


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("order", "CF")
@pytest.mark.parametrize("N", [1, 2, 16, 17])
def test_linear_maps(N, order, bias, rng):
    x, = arrays(rng, (N, C))
    weight, b = arrays(rng, (C, WIDTH), (WIDTH,), order=order)
    b = b if bias else None
    y, saved = backend.linear(x, weight, b)
    wanted, saved_wanted = F.linear(x, weight, b)
    np.testing.assert_allclose(y, wanted, rtol=1e-12, atol=1e-12)
    dy, = arrays(rng, y.shape)
    for found, expected in zip(backend.linear_backward(dy, saved),
                               F.linear_backward(dy, saved_wanted), strict=True):
        if expected is not None:
            np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name, shapes", [
    ("feed_forward", [(C, WIDTH), (WIDTH,), (WIDTH, C), (C,)]),
    ("gated_feed_forward", [(C, WIDTH), (WIDTH,), (C, WIDTH), (WIDTH,), (WIDTH, C), (C,)])])
@pytest.mark.parametrize("N", [1, 5])
def test_feed_forwards(name, shapes, N, rng):
    x, *weights = arrays(rng, (N, C), *shapes)
    y, saved = getattr(backend, name)(x, *weights, "gelu")
    wanted, saved_wanted = getattr(F, name)(x, *weights, "gelu")
    np.testing.assert_allclose(y, wanted, rtol=1e-11, atol=1e-11)
    dy, = arrays(rng, y.shape)
    for found, expected in zip(getattr(backend, f"{name}_backward")(dy, saved),
                               getattr(F, f"{name}_backward")(dy, saved_wanted), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("order", "CF")
@pytest.mark.parametrize("N", [1, 3])
def test_bits_do_not_depend_on_threads(N, order, rng):
    x, = arrays(rng, (N, 1000), dtype=np.float32)
    weight, = arrays(rng, (1000, 333), order=order, dtype=np.float32)
    found = []
    for threads in (1, 2, 3):
        with backend.threads(threads):
            found.append(backend.linear(x, weight)[0])
    assert np.array_equal(found[0], found[1]) and np.array_equal(found[0], found[2])


def test_a_large_model_is_not_copied_for_a_generation(rng, monkeypatch):
    """Its layers compute the steps: the same logits, and the memory of the weights alone."""
    model = Decoder(DecoderConfig(vocab_size=11, context_length=16, n_layers=2, n_heads=2,
                                  d_model=16, dtype="float64"), rng)
    ids = rng.integers(0, 11, (2, 9))
    assert model.new_cache() is not None
    size = sum(parameter.data.nbytes for parameter in model.parameters())
    monkeypatch.setattr(caches, "LARGEST", size // 2)
    assert model.new_cache() is None and model.new_cache("int8") is not None
    logits, cache = model.step(ids[:, :8])
    last, _ = model.step(ids[:, 8:], cache)
    np.testing.assert_allclose(np.concatenate([logits, last], axis=1), model(ids), rtol=1e-10,
                               atol=1e-12)
