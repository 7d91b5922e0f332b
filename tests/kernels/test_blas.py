"""Which BLAS library the kernels use: how it is found, timed, chosen and called."""

import ctypes
import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("numba")
from numformer.kernels.runtime import blas, blas_speed, mkl  # noqa: E402  (needs Numba)

SCIPYS = blas.get_cython_function_address("scipy.linalg.cython_blas", "sgemm")
FAST, SLOW = ({"openblas": 10.0, "mkl": ms} for ms in (9.6, 9.8))
FOUND = Path("/somewhere/libmkl_rt.so.2"), "2026.1"
WITH_MKL = pytest.mark.skipif(mkl.find_mkl() is None, reason="the package mkl is not installed")


def choose(wanted=None, found=FOUND, load=lambda path: {"sgemm": 3, "dgemm": 4},
           kept=lambda versions, addresses: (FAST, "")):
    return blas.choose(wanted, lambda: found, load, kept)


def broken(path):
    raise OSError("invalid\nheader")


def unwanted(*_):
    raise AssertionError("not needed")


def test_mkl_is_taken_where_it_is_faster_but_not_for_tiles():
    seen = []
    found = choose(kept=lambda *given: seen.append(given) or (FAST, ""))
    assert found.name == "mkl" and found.label == "MKL 2026.1"
    assert "9.6 ms with MKL and 10.0 with SciPy's" in found.why
    assert found.addresses["sgemm"] == 3 and found.addresses["dgemm"] == 4
    assert found.addresses["tile_sgemm"] == SCIPYS
    (versions, addresses), = seen
    assert "libmkl_rt.so.2 2026.1" in versions and blas.scipy.__version__ in versions
    assert addresses == {"openblas": SCIPYS, "mkl": 3}


@pytest.mark.parametrize("options, why", [
    (dict(kept=lambda *given: (SLOW, "")), "9.8 ms with MKL and 10.0 with SciPy's"),
    (dict(found=None, load=unwanted), "mkl is not installed"),
    (dict(load=broken, kept=unwanted), "mkl 2026.1 cannot be used: invalid header"),
    (dict(kept=lambda *given: (None, "no home")),
     "the speed of mkl 2026.1 cannot be kept: no home"),
    (dict(wanted="openblas", load=unwanted, kept=unwanted), "NUMFORMER_BLAS=openblas")])
def test_else_the_library_of_scipy_is_taken(options, why):
    found = choose(**options)
    assert found.name == "openblas" and why in found.why and "MKL" not in found.label
    assert found.addresses["sgemm"] == found.addresses["tile_sgemm"] == SCIPYS
    assert found.addresses["dgemm"] == found.addresses["tile_dgemm"] != SCIPYS


@pytest.mark.parametrize("libraries, label", [
    ([], "OpenBLAS 0.3"), ([dict(version="0.4", architecture="Zen")], "OpenBLAS 0.3"),
    ([dict(version="0.3", architecture="Zen"), dict(version="0.3")], "OpenBLAS 0.3 Zen")])
def test_the_label_has_the_kind_of_processor(libraries, label, monkeypatch):
    """Other kinds give other bits."""
    monkeypatch.setattr(blas, "ThreadpoolController",
                        lambda: SimpleNamespace(info=lambda: libraries))
    monkeypatch.setattr(blas.scipy, "show_config", lambda mode: {
        "Build Dependencies": {"blas": {"name": "OpenBLAS", "version": "0.3"}}})
    assert choose("openblas").label == label


def test_mkl_can_be_demanded():
    assert choose("mkl", kept=unwanted).why == "NUMFORMER_BLAS=mkl"
    for options, why in ((dict(found=None), "not installed"),
                         (dict(load=broken), "cannot be used")):
        with pytest.raises(ValueError, match=f"NUMFORMER_BLAS=mkl, but mkl.*{why}.*pip install"):
            choose("mkl", **options)


def test_an_unknown_library_is_one_line(text, tmp_path):
    with pytest.raises(ValueError, match="NUMFORMER_BLAS=fast must be mkl or openblas; "):
        choose("fast")
    ended = subprocess.run([sys.executable, "-m", "numformer", "train", "--data", text, "--out",
                            tmp_path / "run"], capture_output=True, text=True,
                           env={**os.environ, "NUMFORMER_BLAS": "fast"})
    assert ended.returncode == 1
    assert ended.stderr.count("\n") == 1 and "NUMFORMER_BLAS=fast must be" in ended.stderr


def kept(folder, versions="1", measure=unwanted):
    return blas_speed.kept_milliseconds(versions, dict(mkl=1, openblas=2), lambda: (folder, ""),
                                        measure)


def test_times_are_measured_once_for_the_same_versions(tmp_path):
    assert kept(tmp_path, measure=lambda addresses: FAST) == (FAST, "")
    assert kept(tmp_path) == (FAST, "")
    assert kept(tmp_path, "2", lambda addresses: SLOW) == (SLOW, "")
    assert kept(tmp_path, "2") == (SLOW, "")
    assert [path.name for path in tmp_path.iterdir()] == ["blas.json"]


@pytest.mark.parametrize("content", [
    "", "[]", "null", '{"versions": "1"}', "\0\0\0", "[" * 5000,
    '{"versions": "1", "milliseconds": 3}', '{"versions": "1", "milliseconds": {"mkl": 1.0}}',
    *(json.dumps({"versions": "1", "milliseconds": {"mkl": ms, "openblas": 1.0}})
      for ms in (None, "1", 0.0, -1.0, True, float("nan"), float("inf")))])
def test_a_damaged_file_is_replaced(content, tmp_path):
    (tmp_path / "blas.json").write_text(content)
    assert kept(tmp_path, measure=lambda addresses: FAST) == (FAST, "")
    assert kept(tmp_path) == (FAST, "")


def test_without_a_folder_or_a_disk_nothing_is_measured_or_kept(tmp_path, monkeypatch):
    where = dict(find=lambda: (None, "NUMFORMER_CACHE is empty"), measure=unwanted)
    assert blas_speed.kept_milliseconds("1", {}, **where) == (None, "NUMFORMER_CACHE is empty")
    found, why = kept(tmp_path / "missing", measure=lambda addresses: FAST)
    assert found is None and why.startswith(str(tmp_path)) and "No such file" in why


@pytest.mark.parametrize("transposed", ["", "a", "b"])
def test_what_is_timed_is_the_product(transposed, rng):
    a, b, c = (rng.random(shape, np.float32) for shape in ((3, 5), (5, 4), (3, 4)))
    expected = c + a @ b
    a, b = (np.ascontiguousarray(x.T) if name == transposed else x for name, x in zip("ab", (a, b)))
    blas_speed._call(SCIPYS, a, b, c, transposed)()
    np.testing.assert_allclose(c, expected, rtol=1e-6)


def test_both_are_timed_by_the_same_products(monkeypatch):
    monkeypatch.setattr(blas_speed, "PRODUCTS", (((3, 4, 5), ""), ((3, 4, 5), "a")))
    monkeypatch.setattr(blas_speed, "ROUNDS", 2)
    found = blas_speed.milliseconds({"one": SCIPYS, "two": SCIPYS})
    assert found.keys() == {"one", "two"} and all(0 < ms < 1000 for ms in found.values())


def installed(monkeypatch, prefix, files=()):
    """Whether the package has these files, or, if there are none, is not installed."""
    def version(name):
        if not files:
            raise mkl.metadata.PackageNotFoundError(name)
        return "2026.1"

    monkeypatch.setattr(mkl.metadata, "version", version)
    monkeypatch.setattr(mkl.metadata, "files", lambda name: [
        SimpleNamespace(locate=lambda path=prefix / file: path) for file in files])
    monkeypatch.setattr(mkl.sys, "prefix", str(prefix))


@pytest.mark.parametrize("name", ["libmkl_rt.so.3", "libmkl_rt.so", "libmkl_rt.2.dylib",
                                  "mkl_rt.2.dll"])
def test_mkl_is_found_by_its_package_or_in_the_folder_of_conda(name, tmp_path, monkeypatch):
    installed(monkeypatch, tmp_path)
    assert mkl.find_mkl() is None
    installed(monkeypatch, tmp_path, ["libmkl_core.so.3", "mkl_rt.lib", name])
    assert mkl.find_mkl() == (tmp_path / name, "2026.1")
    installed(monkeypatch, tmp_path)
    folder = tmp_path / ("Library/bin" if name.endswith("dll") else "lib")
    folder.mkdir(parents=True)
    (folder / "libmkl_core.so.3").touch()
    assert mkl.find_mkl() is None
    (folder / name).touch()
    assert mkl.find_mkl() == (folder / name, "")


class Library:
    """MKL's functions for its modes, which record what was set."""

    def __init__(self, interface=0, branch=1, refused=0):
        self.set, self.interface, self.branch, self.refused = [], interface, branch, refused
        self.sgemm_, self.dgemm_ = ctypes.c_void_p(7), ctypes.c_void_p(8)

    def MKL_Set_Threading_Layer(self, layer):
        self.set.append(("layer", layer))

    def MKL_Set_Interface_Layer(self, layer):
        return self.interface

    def MKL_CBWR_Get(self, what):
        return self.branch

    def MKL_CBWR_Set(self, branch):
        self.set.append(("branch", branch))
        return self.refused


@pytest.fixture
def path(tmp_path):
    for part in ("rt", "core", "sequential"):
        (tmp_path / f"libmkl_{part}.so.2").write_text("no library")
    return tmp_path / "libmkl_rt.so.2"


@pytest.mark.parametrize("in_use, branch, expected", [
    (False, 1, [("layer", 1), ("branch", 2)]), (False, 10, [("layer", 1)]),
    (True, 1, [("branch", 2)])])
def test_mkl_is_set_before_its_first_product(in_use, branch, expected, path, monkeypatch):
    """The threads of an MKL that NumPy uses are NumPy's; a mode that the user chose remains."""
    library = Library(branch=branch)
    monkeypatch.setattr(mkl.ctypes, "CDLL", lambda name: library)
    monkeypatch.setattr(mkl, "_is_loaded", lambda found: in_use and found == path)
    assert mkl.load_mkl(path) == {"sgemm": 7, "dgemm": 8} and library.set == expected


@pytest.mark.parametrize("library, why", [
    (Library(interface=1), "integers of 64 bits"), (Library(interface=3), "integers of 64 bits"),
    (Library(refused=-8), "no longer lets itself be made reproducible"),
    (SimpleNamespace(), "MKL_Set_Threading_Layer")])
def test_an_mkl_that_cannot_be_set_is_not_used(library, why, path, monkeypatch):
    monkeypatch.setattr(mkl.ctypes, "CDLL", lambda name: library)
    with pytest.raises(OSError, match=why):
        mkl.load_mkl(path)


def test_an_mkl_that_is_not_whole_or_no_library_is_not_loaded(path):
    with pytest.raises(OSError, match="libmkl_rt.so.2"):
        mkl.load_mkl(path)
    path.with_name("libmkl_core.so.2").unlink()
    with pytest.raises(OSError, match="libmkl_core.so.2 is missing in "):
        mkl.load_mkl(path)


def moved(x, offset):
    """A copy of x that begins so many numbers behind a cache line."""
    memory = np.empty(x.size + 32, x.dtype)
    start = -memory.ctypes.data % 64 // x.itemsize + offset
    copy = memory[start:start + x.size].reshape(x.shape)
    copy[...] = x
    return copy


@pytest.mark.parametrize("name", ["openblas", pytest.param("mkl", marks=WITH_MKL)])
def test_bits_do_not_depend_on_where_matrices_begin(name, rng):
    address = SCIPYS if name == "openblas" else mkl.load_mkl(mkl.find_mkl()[0])["sgemm"]
    for (M, N, K), transposed in itertools.product(
            [(64, 128, 96), (13, 17, 300), (100, 65, 384), (8, 256, 128)], ["", "a", "b"]):
        a, b = rng.standard_normal((M, K), np.float32), rng.standard_normal((K, N), np.float32)
        a, b = (x.T.copy() if side == transposed else x for side, x in zip("ab", (a, b)))
        results = []
        for offsets in ((0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1), (3, 5, 7), (8, 4, 2)):
            given = [moved(x, n) for x, n in zip((a, b, np.zeros((M, N), np.float32)), offsets)]
            blas_speed._call(address, *given, transposed)()
            results.append(given[2])
        assert all(np.array_equal(result, results[0]) for result in results)


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


def test_compiled_code_finds_the_library_by_name_when_it_is_loaded(tmp_path):
    """Kernels that were compiled with one library call another, without being compiled again."""
    for _ in range(3):                  # what could not be saved is tried again
        found, notice = run(tmp_path, "openblas")
        assert found == ["openblas", "0", "56.0"] and "compiling" in notice
        if list(tmp_path.rglob("*.nbc")):
            break
    assert run(tmp_path, "openblas") == (["openblas", "0", "56.0"], "")
    assert run(tmp_path, "openblas", "another") == (["openblas", "1", "8.0"], "")
    if mkl.find_mkl() is not None:
        assert run(tmp_path, "mkl") == (["mkl", "0", "56.0"], "")


@WITH_MKL
def test_without_a_variable_the_choice_is_kept(tmp_path):
    (name, _, total), _ = run(tmp_path)
    file, = tmp_path.rglob("blas.json")
    took = json.loads(file.read_text())["milliseconds"]
    assert total == "56.0" and name == ("mkl" if took["mkl"] <= 0.97 * took["openblas"]
                                        else "openblas")
    file.write_text(file.read_text().replace(str(took["mkl"]), "1000.0"))
    assert run(tmp_path)[0][0] == "openblas"
