"""Time and memory of a forward and backward pass of one layer, by sequence length."""

import time
import tracemalloc

import numpy as np

from numformer import backend
from numformer import functional as F
from numformer.analysis.fits.power_law import power_law
from numformer.layers.attention.efficient.projected import ProjectedAttention

LENGTHS = 64, 128, 256, 512, 1024, 2048, 4096
FEW = LENGTHS[:5]                                     # for a test
FITTED = 512                                          # shorter ones are mostly fixed costs
ENOUGH = 0.1                                          # seconds of repetition
WIDTH = 64
NEAR = 64                                             # keys in a window


class WrittenOutAttention(ProjectedAttention):
    """Causal attention that holds all T x T weights: `attention`."""

    def attend(self, q, k, v, causal):
        return F.attention(q, k, v, np.tri(q.shape[2], dtype=bool))

    def attend_backward(self, do, saved):
        return F.attention_backward(do, saved)


class WindowAttention(ProjectedAttention):
    """Causal attention to the last 64 keys: `sparse_attention` with these in its table."""

    def attend(self, q, k, v, causal):
        keys = np.arange(q.shape[2])[:, None] - np.arange(NEAR)       # (T, 64)
        return F.sparse_attention(q, k, v, np.maximum(keys, -1))

    def attend_backward(self, do, saved):
        return F.sparse_attention_backward(do, saved)


def layer_costs(layer, N, width, **options):
    """(milliseconds of CPU time, peak bytes) of a forward and backward pass over N vectors.

    The bytes are those that NumPy allocates, as `tracemalloc` sees them, without the input; the
    time is the least of several passes, on one thread.
    """
    x = np.random.default_rng(0).standard_normal((1, N, width), np.float32)

    def both():
        y, saved = layer.forward(x, **options)
        layer.backward(np.ones_like(y), saved)

    with backend.one_blas_thread():
        both()                                        # compiles, and fills caches
        tracemalloc.start()
        both()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        times = []
        while not times or sum(times) < ENOUGH:
            started = time.process_time()
            both()
            times.append(max(time.process_time() - started, 1e-6))
    return 1000 * min(times), peak


def fitted_slope(values):
    """The exponent of {length: value}, over the longer lengths."""
    x = [N for N in values if N >= FITTED]
    return power_law(x, [values[N] for N in x])[1]
