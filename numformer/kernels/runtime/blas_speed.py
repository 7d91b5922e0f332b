"""How fast BLAS libraries compute the products of a training step: measured once per machine."""

import ctypes
import json
import math
import time
from contextlib import contextmanager

import numpy as np

from numformer.files import KIB, parse_json, read_file, write_atomically
from numformer.kernels.runtime.cache import find_cache

ROWS, WIDTH, HIDDEN = 384, 128, 512     # tokens of a shard; widths of a feed-forward layer
PRODUCTS = (                            # (M, N, K), and which factor is transposed
    ((ROWS, HIDDEN, WIDTH), ""), ((ROWS, WIDTH, HIDDEN), ""),           # forward
    ((ROWS, WIDTH, HIDDEN), "b"), ((ROWS, HIDDEN, WIDTH), "b"),         # gradients of the input
    ((WIDTH, HIDDEN, ROWS), "a"), ((HIDDEN, WIDTH, ROWS), "a"))         # gradients of the weight
ROUNDS = 15                             # with 1 MB of matrices each
MOST_BYTES = 4 * KIB                    # of the file that keeps the result


def kept_milliseconds(versions, load, find=find_cache, measure=None):
    """The times of `milliseconds`, measured when this machine first needs them.

    They are kept in the folder of compiled kernels, whose name depends on the processor. A damaged
    file, or one of other versions, is replaced.

    Parameters
    ----------
    versions : str
        Of the libraries.
    load : callable
        Returns the address of each library's `sgemm`, by name; called if there is no result.
    find, measure : callable
        `find_cache` and `milliseconds`.

    Returns
    -------
    found : dict of str to float, or None
        None where they cannot be kept: then no process could rely on another's choice.
    why_not : str
    """
    folder, why_not = find()
    if folder is None:
        return None, why_not
    file = folder / "blas.json"
    found = _read(file, versions)
    if found is None:
        found = (measure or milliseconds)(load())
        try:
            content = {"versions": versions, "milliseconds": found}
            write_atomically(file, json.dumps(content).encode())
        except OSError as error:
            return None, f"{file}: {error.strerror}"
    return found, ""


def milliseconds(addresses):
    """The time that each library needs for all `PRODUCTS`, on one thread, in alternating runs.

    Of several rounds the fastest counts, for each product: other programs only slow it down. No
    library finds matrices in a near cache because another one has just multiplied them: in a
    training step they are not there, either.

    Returns
    -------
    dict of str to float
    """
    rng, fastest = np.random.default_rng(0), {name: [] for name in addresses}
    apart = ROUNDS // len(addresses)
    with _one_thread():
        for (M, N, K), transposed in PRODUCTS:
            operands = [[rng.random(shape, np.float32) for shape in (
                (K, M) if transposed == "a" else (M, K), (N, K) if transposed == "b" else (K, N),
                (M, N))] for _ in range(ROUNDS)]
            times = {name: [] for name in addresses}
            for n in range(2 * ROUNDS):                               # the first half warms up
                for k, (name, address) in enumerate(addresses.items()):
                    call = _call(address, *operands[(n + k * apart) % ROUNDS], transposed)
                    started = time.perf_counter()
                    call()
                    times[name].append(time.perf_counter() - started)
            for name in addresses:
                fastest[name].append(min(times[name][ROUNDS:]))
    return {name: 1000 * sum(times) for name, times in fastest.items()}


def _call(address, a, b, c, transposed):
    """A call of c += a b; BLAS stores matrices by columns, so it computes c' += b' a'."""
    sizes = c.shape[1], c.shape[0], len(a) if transposed == "a" else a.shape[1]
    m, n, k, b_stride, a_stride, c_stride = (
        ctypes.byref(ctypes.c_int(size)) for size in (*sizes, b.shape[1], a.shape[1], c.shape[1]))
    kinds = [b"T" if factor == transposed else b"N" for factor in "ba"]
    one = ctypes.byref(ctypes.c_float(1))
    data = [ctypes.c_void_p(x.ctypes.data) for x in (b, a, c)]
    gemm = ctypes.CFUNCTYPE(None)(address)
    return lambda: gemm(*kinds, m, n, k, one, data[0], b_stride, data[1], a_stride, one,
                        data[2], c_stride)


@contextmanager
def _one_thread():
    """Hold BLAS at one thread: kernels run so. `backend` has not held a library just loaded."""
    try:
        from threadpoolctl import OpenBLASController, ThreadpoolController
    except ImportError:                 # none can be held
        yield
        return
    if hasattr(OpenBLASController, "clear_controlling_thread"):
        OpenBLASController.clear_controlling_thread(force=True)
    with ThreadpoolController().limit(limits=1, user_api="blas"):
        yield


def _read(file, versions):
    """The kept times; None if there are none of these versions."""
    try:
        kept = parse_json(read_file(file, MOST_BYTES))
        found = kept["milliseconds"]
        right = kept["versions"] == versions and "openblas" in found and all(
            type(ms) is float and math.isfinite(ms) and ms > 0 for ms in found.values())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return found if right else None
