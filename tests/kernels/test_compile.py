"""Compiled kernels and their cache: each run in a process of its own; and the flags of the code."""

import os
import re
import subprocess
import sys
from importlib import import_module

import numpy as np
import pytest

from numformer import backend

pytest.importorskip("numba")
from numformer.kernels.attention import flash  # noqa: E402  (needs Numba)
from numformer.kernels.runtime.compile import Kernel, inlined, unfused  # noqa: E402

ATTENTION_AND_GELU = """
import sys
if {without_numba}:
    sys.modules["numba"] = None
import numpy as np
from numformer import backend, functional
q, k, v = np.random.default_rng(0).standard_normal((3, 1, 2, 70, 8)).astype(np.float32)
o, (compiled, _) = backend.scaled_dot_product_attention(q, k, v)
assert np.abs(o - functional.scaled_dot_product_attention(q, k, v)[0]).max() < 1e-5
y, (functions, _, _) = backend.gelu(q)
assert np.abs(y - functional.gelu(q)[0]).max() < 1e-5
assert (functions is functional) == (compiled is None)
print("reference" if compiled is None else "kernel")
"""

GELU = """
import numpy as np
from numformer import backend, functional
x = np.linspace(-3, 3, 7, dtype=np.float32)
y, (functions, _, _) = backend.gelu(x)
assert np.abs(y - functional.gelu(x)[0]).max() < 1e-6
print("reference" if functions is functional else "kernel")
"""


def in_a_new_process(cache, without_numba=False, script=ATTENTION_AND_GELU):
    result = subprocess.run([sys.executable, "-c", script.format(without_numba=without_numba)],
                            capture_output=True, text=True,
                            env={**os.environ, "NUMFORMER_CACHE": str(cache)})
    assert result.returncode == 0, result.stderr
    return result.stdout.strip(), result.stderr


@pytest.mark.slow
def test_kernels_are_compiled_once_per_machine_and_again_if_the_cache_is_damaged(tmp_path):
    cache = tmp_path / "cache"
    first, second = in_a_new_process(cache), in_a_new_process(cache)
    assert first[0] == second[0] == "kernel"
    assert first[1].count("compiling kernels, once per machine") == 1 and not second[1]
    folder, = cache.iterdir()
    assert folder.stat().st_mode & 0o077 == 0
    for damaged in folder.rglob("*.nb?"):
        damaged.write_bytes(b"not a kernel")
    assert in_a_new_process(cache, script=GELU)[0] == "kernel"


@pytest.mark.slow                       # compiles all, each time anew
def test_kernels_run_where_no_cache_can_be_written(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    for cache in (blocked / "below", ""):
        version, notice = in_a_new_process(cache, script=GELU)          # the quickest to compile
        assert version == "kernel" and "as there is no cache" in notice


@pytest.mark.slow
def test_without_numba_the_reference_runs(tmp_path):
    assert in_a_new_process(tmp_path, without_numba=True)[0] == "reference"


def test_a_part_stays_unfused_where_one_that_fuses_needs_it_first(rng):
    """Of equal products, a fused difference is the rounding error of one, and not 0."""
    @unfused
    def difference(a, b):
        return a * a - b * b

    @inlined
    def part(a, b):
        return difference(a, b)

    def fill(a, b, y):
        for i in range(len(a)):
            y[i] = part(a[i], b[i])

    a, y = rng.standard_normal(64), np.ones(64)
    kernel = Kernel(fill, lambda real: (real[:], real[:], real[:]))
    kernel.compile(np.float64, cached=False)(a, a.copy(), y)
    assert (y == 0).all()


@pytest.mark.slow
def test_no_unsafe_arithmetic_in_the_compiled_code():
    """`nnan` and `ninf` let LLVM assume that there is no NaN and no Inf; `fast` has both."""
    modules = [*backend.compiled_versions().values(), *(import_module(
        f"numformer.kernels.{name}")
        for name in ("attention.flash", "decoding.token_step", "few_vectors"))]
    kernels = {id(kernel): kernel for module in modules for kernel in vars(module).values()
               if isinstance(kernel, Kernel)}
    assert len(kernels) >= 20
    for kernel in kernels.values():
        code = kernel.compile(np.float32, cached=False).inspect_llvm()
        operation = re.compile(r"= (f(mul|add|sub|div|cmp|neg)|call .*@llvm\.f)")
        lines = [line for text in code.values() for line in text.split("\n")
                 if operation.search(line)]
        assert lines or kernel.function.__name__ == "multiply", "BLAS does all of its work"
        assert not [line for line in lines if re.search(r"\b(nnan|ninf|fast|afn)\b", line)]
        if kernel in (flash.FORWARD, flash.BACKWARD):
            assert len(lines) > 100 and any("contract" in line for line in lines)
