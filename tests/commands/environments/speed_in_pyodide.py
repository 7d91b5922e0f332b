"""CPU milliseconds of a training step in Pyodide, with NumPy's own products and WebAssembly's.

From the folder of this page, `python pyodide_files.py speed_in_pyodide.py` prints them.
"""

import numpy as np

from numformer import backend, minimal
from numformer.data import BlockStream
from numformer.models import Decoder, DecoderConfig
from numformer.recipes import PRESETS
from numformer.training import Trainer, TrainingConfig

V = 100                                               # characters


def tiny():
    """A function that takes a step of the preset tiny."""
    preset = PRESETS["tiny"]
    config = DecoderConfig(**preset.model, vocab_size=V)
    training = TrainingConfig(**preset.training)
    stream = BlockStream(np.random.default_rng(0).integers(0, V, 10**5), config.context_length,
                         training.batch_size, seed=0)
    return Trainer(Decoder(config, np.random.default_rng(0)), stream, [], training).train_step


def one_page():
    """The same of minimal.py."""
    rng = np.random.default_rng(0)
    p = minimal.initial_parameters(rng, V)
    mean, square = ({name: [np.zeros_like(w) for w in p[name]] for name in p} for _ in range(2))

    def step():
        parts = rng.integers(0, V, (minimal.BATCH, minimal.CONTEXT + 1))
        logits, saved = minimal.forward(p, parts[:, :-1])
        _, saved_loss = minimal.cross_entropy(logits, parts[:, 1:])
        g = minimal.backward(minimal.cross_entropy_backward(saved_loss), saved)
        minimal.adamw(p, g, mean, square, 1, 1e-3)

    return step


def milliseconds(step, times=8):
    """Of a core, by node's clock, for the fastest of several."""
    from js import process

    found = []
    for _ in range(times):
        started = process.cpuUsage()
        step()
        found.append(process.cpuUsage(started).user / 1000)
    return min(found)


if __name__ == "__main__":
    for name, make in {"tiny": tiny, "minimal.py": one_page}.items():
        for version in ("numpy", "wasm"):
            with backend.using(version):
                print(f"{name:12}{version:8}{milliseconds(make()):8.0f} ms a step")
