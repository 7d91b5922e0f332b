"""The compiled step of one token equals the same step made of layers."""

import numpy as np
import pytest

from numformer import backend
from numformer.models import Decoder, DecoderConfig

pytest.importorskip("numba")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("choices", [
    {},
    dict(bias=False, feedforward="swiglu", norm="rms_norm", positions="rotary", n_kv_heads=1),
    dict(positions="rotary", rotary_layout="interleaved", query_key_norm=True,
         feedforward="relu_squared", n_kv_heads=2),
    dict(positions="alibi", feedforward="geglu", norm="rms_norm"),
    dict(feedforward="gelu", positions="none"), dict(feedforward="silu")], ids=str)
def test_compiled_step_equals_its_layers(choices, dtype, rng, monkeypatch):
    """Over a text long enough to outgrow the cache's buffer twice."""
    monkeypatch.setattr("numformer.layers.attention.kv_cache.LEAST", 8)
    config = DecoderConfig(vocab_size=9, context_length=128, n_layers=2, n_heads=4, d_model=16,
                           dtype=np.dtype(dtype).name, **choices)
    model = Decoder(config, rng)
    for parameter in model.parameters():
        parameter.data += 0.2 * rng.standard_normal(parameter.data.shape).astype(dtype)
    ids, outputs = rng.integers(0, 9, (1, 20)), {}
    for version in ("numba", "numpy"):
        backend.use(version)
        try:
            cache, logits = None, []
            for t in range(ids.shape[1]):
                z, cache = model.step(ids[:, t:t + 1], cache)
                logits.append(z)
        finally:
            backend.use("numba")
        outputs[version] = np.concatenate(logits, axis=1)
    tolerance = 2e-4 if dtype == np.float32 else 1e-11
    np.testing.assert_allclose(outputs["numba"], outputs["numpy"], rtol=tolerance, atol=tolerance)
    assert outputs["numba"].dtype == dtype
    assert not np.array_equal(outputs["numba"], outputs["numpy"]), "the kernel did not run"
