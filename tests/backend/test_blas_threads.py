"""BLAS is held at one thread inside the guard, and restored after it."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from numformer import backend
from numformer.layers import MultiHeadAttention


def blas_threads():
    return {library["num_threads"] for library in threadpool_info()
            if library["user_api"] == "blas"}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_child_forked_inside_a_guard_has_its_blas_threads_back():
    """And its own guard holds and restores them again."""
    before = blas_threads()
    with backend.one_blas_thread():
        child = os.fork()
        if child == 0:
            free = blas_threads() == before
            with backend.one_blas_thread():
                held = blas_threads() == {1}
            os._exit(0 if free and held and blas_threads() == before else 1)
    assert os.waitpid(child, 0) == (child, 0) and blas_threads() == before


def test_blas_is_held_at_one_thread_and_restored_after():
    before = blas_threads()
    with backend.one_blas_thread():
        with backend.one_blas_thread():
            assert blas_threads() == {1}
        assert blas_threads() == {1}
    assert blas_threads() == before
    with pytest.raises(KeyError):
        with backend.one_blas_thread():
            raise KeyError
    assert blas_threads() == before


IN_A_FRESH_PROCESS = """
import numpy as np
from threadpoolctl import ThreadpoolController
from numformer import backend
from numformer.layers import Linear

def threads():
    libraries = ThreadpoolController().select(user_api="blas").lib_controllers
    return [library.num_threads for library in libraries]

layer = Linear(8, 8, np.random.default_rng(0))
ThreadpoolController().limit(limits=2, user_api="blas")
alone = len(threads())
with backend.one_blas_thread():
    y, saved = layer.forward(np.ones((4, 8), np.float32))
    layer.backward(y, saved)
    inside = threads()
print(alone < len(inside), inside, threads())
"""


@pytest.mark.slow
def test_a_blas_library_that_comes_with_the_first_kernel_is_held_too():
    """SciPy's is loaded then. Products on one thread and on two would differ in their last bits."""
    pytest.importorskip("numba")
    result = subprocess.run([sys.executable, "-c", IN_A_FRESH_PROCESS], capture_output=True,
                            text=True, check=True, env={**os.environ, "OPENBLAS_NUM_THREADS": "2",
                                                        "NUMFORMER_BLAS": "openblas"})
    # the second result if NumPy and SciPy share one library
    assert result.stdout.split("\n")[0] in ("True [1, 1] [2, 2]", "False [1] [2]"), result.stdout


def test_the_last_guard_restores_blas_in_whichever_thread_it_is():
    before, seen, entered, left = blas_threads(), [], threading.Event(), threading.Event()

    def guard():
        with backend.one_blas_thread():
            seen.append(blas_threads())
            entered.set()
            left.wait()

    for first_out in ("caller", "other"):
        entered.clear()
        left.clear()
        other = threading.Thread(target=guard)
        with backend.one_blas_thread():
            other.start()
            entered.wait()
            if first_out == "other":
                left.set()
                other.join()
        left.set()
        other.join()
        assert blas_threads() == before
    left.set()
    other = threading.Thread(target=guard)      # alone, after another thread has set the number
    other.start()
    other.join()
    assert seen == 3 * [{1}] and blas_threads() == before


WITHOUT_THREADPOOLCTL = """
import sys
sys.modules["threadpoolctl"] = None                   # an import of it raises ImportError
import numpy as np
import numformer.layers
from numformer import backend

print(backend.blas_libraries())
layer = numformer.layers.MultiHeadAttention(8, 2, np.random.default_rng(0), dtype=np.float64)
x = np.random.default_rng(1).standard_normal((2, 5, 8))
y, saved = layer.forward(x)
print(backend.run_side_by_side(lambda dy: layer.backward(dy, saved).sum().round(9), [y, 2 * y]))
print(backend.compiled_attention() is not None)
"""


@pytest.mark.slow
def test_without_threadpoolctl_blas_is_not_held_and_results_are_as_usual():
    result = subprocess.run([sys.executable, "-W", "error", "-c", WITHOUT_THREADPOOLCTL],
                            capture_output=True, text=True, check=True,
                            env={**os.environ, "OPENBLAS_NUM_THREADS": "1",
                                 "NUMFORMER_BLAS": "openblas"})
    held, gradients, compiled = result.stdout.splitlines()
    assert held == "[]"
    layer = MultiHeadAttention(8, 2, np.random.default_rng(0), dtype=np.float64)
    y, saved = layer.forward(np.random.default_rng(1).standard_normal((2, 5, 8)))
    assert gradients == str([layer.backward(dy, saved).sum().round(9) for dy in (y, 2 * y)])
    assert compiled == str(backend.compiled_attention() is not None)
