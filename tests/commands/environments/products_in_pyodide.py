"""Products of WebAssembly against NumPy's own in Pyodide, as JSON: shapes, strides, and training.

`products_in_pyodide.py`
"""

import json
import time

import numpy as np

from numformer import backend
from numformer.data import BlockStream
from numformer.models import Decoder, DecoderConfig
from numformer.training import Trainer, TrainingConfig

SIZES = [0, 1, 2, 3, 4, 5, 7, 8, 9, 13, 31, 64, 255, 256, 257, 300]


def arrays(rng):
    """Factors of a random product, and where its result goes: of several shapes and strides."""
    dtype = rng.choice(["float32", "float64"])
    M, K, N = map(int, rng.choice(SIZES, 3))
    several = tuple(map(int, rng.integers(1, 3, rng.integers(3))))

    def array(rows, columns):
        kind = rng.integers(4)
        if kind == 0:                                 # one matrix for all
            return rng.standard_normal((rows, columns)).astype(dtype)
        if kind == 1:                                 # transposed
            return rng.standard_normal((*several, columns, rows)).astype(dtype).swapaxes(-1, -2)
        if kind == 2:                                 # steps, and from the last to the first
            return rng.standard_normal((*several, 2 * rows, 3 * columns)).astype(dtype)[
                ..., ::2, ::-3]
        return rng.standard_normal((*several, rows, columns)).astype(dtype)

    a, b = array(M, K), array(K, N)
    if K and rng.integers(8) == 0:
        a = np.where(rng.integers(0, 50, a.shape) == 0, rng.choice([np.nan, np.inf, -np.inf]), a)
        a = a.astype(dtype)
    if rng.integers(3):
        return a, b, None
    shape = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return a, b, np.empty((*shape, N, M), dtype).swapaxes(-1, -2)


def unequal(trials):
    """The shapes and strides of products that differ by a bit."""
    rng, found = np.random.default_rng(0), []
    for _ in range(trials):
        a, b, out = arrays(rng)
        with np.errstate(all="ignore"):
            ours = np.matmul(a, b, out=out).copy()
            with backend.using("numpy"):
                theirs = a @ b
        if not np.array_equal(ours, theirs, equal_nan=True):
            found.append([str(a.dtype), a.shape, a.strides, b.shape, b.strides, out is None])
    return found


def losses():
    """(losses of ten steps, milliseconds of one) of a small decoder, in the version in use."""
    config = DecoderConfig(vocab_size=60, context_length=32, n_layers=2, n_heads=4, d_model=64)
    trainer = Trainer(Decoder(config, np.random.default_rng(0)),
                      BlockStream(np.arange(5000) % 60, 32, 8, seed=0), [],
                      TrainingConfig(steps=10, batch_size=8, warmup_steps=2))
    started = time.perf_counter()
    found = [trainer.train_step()["loss"] for _ in range(10)]
    return found, 100 * (time.perf_counter() - started)


if __name__ == "__main__":
    version = backend.version_in_use()
    ours, fast = losses()
    with backend.using("numpy"):
        inside, (theirs, slow) = backend.version_in_use(), losses()
    print(json.dumps({"versions": [version, inside, backend.version_in_use()],
                      "unequal": unequal(400), "losses": [ours, theirs], "ms": [fast, slow]}))
