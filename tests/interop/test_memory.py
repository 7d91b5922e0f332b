"""Loading needs hardly more memory than the weights take, and no weights are sampled for it."""

import subprocess
import sys

import numpy as np
import pytest

from numformer.interop import load, save
from numformer.models import Decoder, DecoderConfig
from numformer.models.decoder.config import LLAMA

MEASURE = """
import resource, sys
from numformer.interop import load
load(sys.argv[1])                                     # what is imported and compiled on first use
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
model, _ = load(sys.argv[2])
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
weights = sum(parameter.data.nbytes for parameter in model.parameters()) / 1024
print(peak / weights)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the unit of ru_maxrss is that of Linux")
@pytest.mark.parametrize("half", [False, True], ids=["float32", "float16"])
def test_peak_memory(rng, tmp_path, half):
    """At most the weights and a fifth more, of 106 MB of weights, the table of tokens the largest
    as in published models."""
    sizes = dict(LLAMA, context_length=64, n_layers=6, n_heads=4, d_model=512, d_hidden=1536,
                 tied=True)
    save(Decoder(DecoderConfig(**{**sizes, "vocab_size": 40}), rng), None, tmp_path / "small")
    save(Decoder(DecoderConfig(**{**sizes, "vocab_size": 15000}), rng), None, tmp_path / "large")
    if half:
        from safetensors.numpy import load_file, save_file

        path = tmp_path / "large" / "model.safetensors"
        save_file({n: x.astype(np.float16) for n, x in load_file(path).items()}, path)
    folders = [tmp_path / "small", tmp_path / "large"]
    process = subprocess.run([sys.executable, "-c", MEASURE, *folders], capture_output=True,
                             text=True, check=True)
    assert float(process.stdout) <= 1.2


def test_no_weights_are_sampled(rng, tmp_path, monkeypatch):
    save(Decoder(DecoderConfig(vocab_size=9, context_length=8, n_layers=1, n_heads=2, d_model=8),
                 rng), None, tmp_path / "model")

    def refuse(*_, **__):
        raise AssertionError("a generator was made")

    monkeypatch.setattr(np.random, "default_rng", refuse)
    model, _ = load(tmp_path / "model")
    assert all(parameter.data.flags.writeable for parameter in model.parameters())


def test_allocate_gives_memory_to_what_was_built_for_counting():
    config = DecoderConfig(vocab_size=9, context_length=8, n_layers=1, n_heads=2, d_model=8)
    model, other = Decoder(config, None), Decoder(config, np.random.default_rng(0))
    with pytest.raises(ValueError, match="call its allocate\\(\\) first"):
        model.load_state_dict(other.state_dict())
    assert model.allocate() is model and model.head.weight is model.embedding.weight
    model.load_state_dict(other.state_dict())
    ids = np.array([[1, 2, 3]])
    assert np.array_equal(model(ids), other(ids))
