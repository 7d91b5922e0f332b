"""Intel's MKL: how it is found and set."""

import ctypes
from types import SimpleNamespace

import pytest

pytest.importorskip("numba")
from numformer.kernels.runtime import mkl  # noqa: E402  (needs Numba)


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
    monkeypatch.setattr(mkl, "_is_loaded", lambda found: False)
    with pytest.raises(OSError, match=why):
        mkl.load_mkl(path)


def test_an_mkl_that_is_not_whole_or_no_library_is_not_loaded(path):
    with pytest.raises(OSError, match="libmkl_rt.so.2"):
        mkl.load_mkl(path)
    path.with_name("libmkl_core.so.2").unlink()
    with pytest.raises(OSError, match="libmkl_core.so.2 is missing in "):
        mkl.load_mkl(path)
