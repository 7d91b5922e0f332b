"""Which library computes the kernels' products: how it is found, timed, chosen and called."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("numba")
from numformer.kernels.runtime import blas, mkl  # noqa: E402  (needs Numba)

SCIPYS = blas.get_cython_function_address("scipy.linalg.cython_blas", "sgemm")
OWN = SimpleNamespace(address=5)


def took(openblas, mkl, own):
    return {"openblas": openblas, "mkl": mkl, "numformer": own}


WITHOUT_MKL, LEVEL = ({"openblas": 10.0, "numformer": ms} for ms in (9.5, 10.0))
FAST, SLOW, OURS = took(10.0, 9.6, 9.65), took(10.0, 9.8, 9.75), took(10.0, 9.6, 9.5)
FOUND = Path("/somewhere/libmkl_rt.so.2"), "2026.1"


def choose(wanted=None, found=FOUND, load=lambda path: {"sgemm": 3, "dgemm": 4},
           kept=lambda versions, load: (FAST, "")):
    return blas.choose(wanted, lambda: found, load, kept, OWN)


def broken(path):
    raise OSError("invalid\nheader")


def unwanted(*_):
    raise AssertionError("not needed")


def test_mkl_is_taken_where_it_is_fastest_but_not_for_tiles():
    seen = []
    found = choose(kept=lambda *given: seen.append(given) or (FAST, ""))
    assert found.name == "mkl" and found.label == "MKL 2026.1"
    assert ("10.0 ms with SciPy's library, 9.6 ms with MKL, 9.7 ms with numformer's own"
            in found.why)
    assert found.addresses["sgemm"] == 3 and found.addresses["dgemm"] == 4
    assert found.addresses["tile_sgemm"] == SCIPYS
    (versions, addresses_to_measure), = seen
    assert "MKL 2026.1" in versions and blas.scipy.__version__ in versions
    assert addresses_to_measure() == {"openblas": SCIPYS, "mkl": 3, "numformer": 5}


def test_without_the_compiler_scipys_library_is_taken_and_nothing_is_measured(monkeypatch):
    monkeypatch.setattr(blas.numba.config, "DISABLE_JIT", True)
    found = choose(kept=unwanted)
    assert found.name == "openblas" and "NUMBA_DISABLE_JIT" in found.why
    assert choose("mkl").name == "mkl"
    with pytest.raises(ValueError, match="with NUMBA_DISABLE_JIT .* is not compiled; leave the"):
        choose("numformer")


@pytest.mark.parametrize("options", [
    dict(load=unwanted, kept=lambda *given: (OURS, "")),
    dict(wanted="numformer", load=unwanted, kept=unwanted),
    dict(found=None, load=unwanted, kept=lambda *given: (WITHOUT_MKL, ""))])
def test_our_own_product_is_taken_where_it_is_fastest_but_in_float32_alone(options):
    found, scipys = choose(**options), choose("openblas")
    assert found.name == "numformer" and found.addresses["sgemm"] == 5
    assert found.label == f"numformer's own product; float64: {scipys.label}"
    for name in ("dgemm", "tile_sgemm", "tile_dgemm"):
        assert found.addresses[name] == scipys.addresses[name]


@pytest.mark.parametrize("options, why", [
    (dict(load=unwanted, kept=lambda *given: (SLOW, "")),
     "10.0 ms with SciPy's library, 9.8 ms with MKL"),
    (dict(found=None, load=unwanted, kept=lambda *given: (LEVEL, "")), "mkl is not installed"),
    (dict(load=broken, kept=lambda versions, load: (LEVEL if len(load()) == 2 else FAST, "")),
     "MKL 2026.1 cannot be used: invalid header"),
    (dict(load=broken, kept=lambda *given: (FAST, "")),
     "MKL 2026.1 cannot be used: invalid header"),
    (dict(load=unwanted, kept=lambda *given: (None, "no home")),
     "speed of others cannot be kept: no home"),
    (dict(wanted="openblas", load=unwanted, kept=unwanted), "NUMFORMER_BLAS=openblas")])
def test_else_the_library_of_scipy_is_taken(options, why):
    found = choose(**options)
    assert found.name == "openblas" and why in found.why and found.label == choose("openblas").label
    assert found.addresses["sgemm"] == found.addresses["tile_sgemm"] == SCIPYS
    assert found.addresses["dgemm"] == found.addresses["tile_dgemm"] != SCIPYS


@pytest.mark.parametrize("libraries, label", [
    ([], "OpenBLAS 0.3"), ([dict(version="0.4", architecture="Zen")], "OpenBLAS 0.3"),
    ([dict(version="0.3", architecture="Zen"), dict(version="0.3")], "OpenBLAS 0.3 Zen")])
def test_the_label_has_the_kind_of_processor(libraries, label, monkeypatch):
    """Other kinds give other bits."""
    monkeypatch.setattr(blas, "blas_controllers", lambda user_api: [
        SimpleNamespace(info=lambda library=library: library) for library in libraries])
    monkeypatch.setattr(blas.scipy, "show_config", lambda mode: {
        "Build Dependencies": {"blas": {"name": "OpenBLAS", "version": "0.3"}}})
    assert choose("openblas").label == label


def test_mkl_can_be_demanded():
    assert choose("mkl", kept=unwanted).why == "NUMFORMER_BLAS=mkl"
    for options, why in ((dict(found=None), "not installed"),
                         (dict(load=broken), "cannot be used")):
        with pytest.raises(ValueError, match=f"NUMFORMER_BLAS=mkl, but .*{why}.*pip install"):
            choose("mkl", **options)


@pytest.mark.slow
def test_an_unknown_library_is_one_line(text, tmp_path):
    with pytest.raises(ValueError, match="NUMFORMER_BLAS=fast must be openblas, mkl or numformer"):
        choose("fast")
    ended = subprocess.run([sys.executable, "-m", "numformer", "train", "--data", text, "--out",
                            tmp_path / "run"], capture_output=True, text=True,
                           env={**os.environ, "NUMFORMER_BLAS": "fast"})
    assert ended.returncode == 1
    assert ended.stderr.count("\n") == 1 and "NUMFORMER_BLAS=fast must be" in ended.stderr


CALLED = """
import ctypes, sys
import llvmlite.binding
import numpy as np
from numformer.kernels.runtime import blas
from numformer.kernels import linear
called = []
if sys.argv[1] == "another":
    library = ctypes.CFUNCTYPE(None, *13 * [ctypes.c_void_p])(lambda *given: called.append(given))
    llvmlite.binding.add_symbol("numformer_sgemm", ctypes.cast(library, ctypes.c_void_p).value)
x = np.full((2, 3), 2, np.float32)
y, _ = linear.linear(x, np.ones((3, 4), np.float32), np.ones(4, np.float32))
print(blas.CHOICE.name, len(called), y.sum())
"""


def run(cache, library="", which="chosen"):
    ended = subprocess.run([sys.executable, "-c", CALLED, which], capture_output=True, text=True,
                           env={**os.environ, "NUMFORMER_CACHE": str(cache),
                                "NUMFORMER_BLAS": library})
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.split(), ended.stderr


@pytest.mark.slow                       # each compiles its own kernels, several times
def test_compiled_code_finds_the_library_by_name_when_it_is_loaded(tmp_path):
    """Kernels that were compiled with one library call another, without being compiled again."""
    for _ in range(3):                  # what could not be saved is tried again
        found, notice = run(tmp_path, "openblas")
        assert found == ["openblas", "0", "56.0"] and "compiling" in notice
        if list(tmp_path.rglob("*.nbc")):
            break
    assert run(tmp_path, "openblas") == (["openblas", "0", "56.0"], "")
    assert run(tmp_path, "openblas", "another") == (["openblas", "1", "8.0"], "")
    for name in ["numformer"] + ["mkl"] * (mkl.find_mkl() is not None):
        assert run(tmp_path, name)[0] == [name, "0", "56.0"]


@pytest.mark.slow
def test_without_a_variable_the_choice_is_kept(tmp_path):
    (name, _, total), _ = run(tmp_path)
    file, = tmp_path.rglob("blas.json")
    kept = json.loads(file.read_text())
    times = kept["milliseconds"]
    assert set(times) == {"openblas", "numformer"} | ({"mkl"} if mkl.find_mkl() else set())
    fastest = min(times, key=times.get)
    assert total == "56.0"
    assert name == (fastest if times[fastest] < 0.97 * times["openblas"] else "openblas")
    for wanted in times:
        kept["milliseconds"] = {name: 1.0 if name == wanted else 1000.0 for name in times}
        file.write_text(json.dumps(kept))
        assert run(tmp_path)[0][0] == wanted
