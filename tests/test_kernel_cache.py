"""Where compiled kernels are kept, and what happens without that place or without Numba: each in a process of its own."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("numba")


SCRIPT = """
import sys
if {without_numba}:
    sys.modules["numba"] = None
import numpy as np
from numformer import backend, functional
q, k, v = np.random.default_rng(0).standard_normal((3, 1, 2, 70, 8)).astype(np.float32)
o, (twin, _) = backend.scaled_dot_product_attention(q, k, v)
assert np.abs(o - functional.scaled_dot_product_attention(q, k, v)[0]).max() < 1e-5
y, (page, _, _) = backend.gelu(q)
assert np.abs(y - functional.gelu(q)[0]).max() < 1e-5 and (page is functional) == (twin is None)
print("truth" if twin is None else "kernel")
"""


ONE_KERNEL = """
import numpy as np
from numformer import backend, functional
x = np.linspace(-3, 3, 7, dtype=np.float32)
y, (page, _, _) = backend.gelu(x)
assert np.abs(y - functional.gelu(x)[0]).max() < 1e-6
print("truth" if page is functional else "kernel")
"""


def in_a_new_process(cache, without_numba=False, script=SCRIPT, **more):
    result = subprocess.run([sys.executable, "-c", script.format(without_numba=without_numba)], capture_output=True, text=True,
                            env={**os.environ, "NUMFORMER_CACHE": str(cache), **more})
    assert result.returncode == 0, result.stderr
    return result.stdout.strip(), result.stderr


def test_kernels_are_compiled_once_per_machine(tmp_path):
    cache = tmp_path / "cache"
    first, second = in_a_new_process(cache), in_a_new_process(cache)
    assert first[0] == second[0] == "kernel"
    assert first[1].count("compiling kernels, once per machine") == 1 and not second[1]
    folder, = cache.iterdir()
    assert folder.stat().st_mode & 0o077 == 0
    for damaged in folder.rglob("*.nb?"):
        damaged.write_bytes(b"not a kernel")
    assert in_a_new_process(cache, script=ONE_KERNEL)[0] == "kernel"


def test_without_a_place_for_the_cache(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    for cache in (blocked / "below", ""):
        twin, notice = in_a_new_process(cache, script=ONE_KERNEL)     # the quickest to compile
        assert twin == "kernel" and "as there is no cache" in notice


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="no owners and modes on this system")
def test_a_cache_that_others_may_write_to_is_not_used(tmp_path):
    from numformer.kernels.compiled import cache_folder

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NUMFORMER_CACHE", str(tmp_path))
        folder = cache_folder()
        folder.chmod(0o777)
        assert cache_folder() is None


def test_without_numba_the_truth_runs(tmp_path):
    assert in_a_new_process(tmp_path, without_numba=True)[0] == "truth"
