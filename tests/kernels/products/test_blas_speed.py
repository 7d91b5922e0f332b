"""How libraries are timed, how that is kept, and that products do not depend on where they lie."""

import itertools
import json

import numpy as np
import pytest

pytest.importorskip("numba")
from numformer.kernels.runtime import blas, blas_speed, mkl  # noqa: E402  (needs Numba)

SCIPYS = blas.get_cython_function_address("scipy.linalg.cython_blas", "sgemm")
FAST, SLOW = (dict(openblas=10.0, mkl=ms) for ms in (9.6, 9.8))
WITH_MKL = pytest.mark.skipif(mkl.find_mkl() is None, reason="the package mkl is not installed")


def unwanted(*_):
    raise AssertionError("not needed")


def kept(folder, versions="1", measure=unwanted):
    return blas_speed.kept_milliseconds(versions, dict, lambda: (folder, ""), measure)


def test_libraries_are_loaded_when_they_are_measured(tmp_path):
    for load in (lambda: SLOW, unwanted):
        found = blas_speed.kept_milliseconds("1", load, lambda: (tmp_path, ""), lambda given: given)
        assert found == (SLOW, "")


def test_times_are_measured_once_for_the_same_versions(tmp_path):
    assert kept(tmp_path, measure=lambda addresses: FAST) == (FAST, "")
    assert kept(tmp_path) == (FAST, "")
    assert kept(tmp_path, "2", lambda addresses: SLOW) == (SLOW, "")
    assert kept(tmp_path, "2") == (SLOW, "")
    assert [path.name for path in tmp_path.iterdir()] == ["blas.json"]


@pytest.mark.parametrize("content", [
    "", "[]", "null", '{"versions": "1"}', "\0\0\0", "[" * 5000,
    '{"versions": "1", "milliseconds": 3}', '{"versions": "1", "milliseconds": {"mkl": 1.0}}',
    '{"versions": "1", "milliseconds": []}',
    *(json.dumps({"versions": "1", "milliseconds": {"mkl": ms, "openblas": 1.0}})
      for ms in (None, "1", 0.0, -1.0, True, float("nan"), float("inf")))])
def test_a_damaged_file_is_replaced(content, tmp_path):
    (tmp_path / "blas.json").write_text(content)
    assert kept(tmp_path, measure=lambda addresses: FAST) == (FAST, "")
    assert kept(tmp_path) == (FAST, "")


def test_without_a_folder_or_a_disk_nothing_is_measured_or_kept(tmp_path, monkeypatch):
    where = dict(find=lambda: (None, "NUMFORMER_CACHE is empty"), measure=unwanted)
    found = blas_speed.kept_milliseconds("1", unwanted, **where)
    assert found == (None, "NUMFORMER_CACHE is empty")
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
    monkeypatch.setattr(blas_speed, "ROUNDS", 3)
    found = blas_speed.milliseconds({"one": SCIPYS, "two": SCIPYS, "three": SCIPYS})
    assert set(found) == {"one", "two", "three"} and all(0 < ms < 1000 for ms in found.values())


def test_no_library_multiplies_what_another_one_has_just_multiplied(monkeypatch):
    """The second would find its matrices in the cache."""
    calls = []
    monkeypatch.setattr(blas_speed, "PRODUCTS", (((3, 4, 5), ""),))
    monkeypatch.setattr(blas_speed, "ROUNDS", 6)
    monkeypatch.setattr(blas_speed, "_call", lambda address, a, b, c, transposed: (
        lambda: calls.append((address, a.ctypes.data))))
    blas_speed.milliseconds({"one": 1, "two": 2, "three": 3})
    for n in range(len(calls) - 2):
        assert len({matrix for _, matrix in calls[n:n + 2]}) == 2
    for name in (1, 2, 3):                                          # and each multiplies all
        assert len({matrix for address, matrix in calls if address == name}) == 6


def moved(x, offset):
    """A copy of x that begins so many numbers behind a cache line."""
    memory = np.empty(x.size + 32, x.dtype)
    start = -memory.ctypes.data % 64 // x.itemsize + offset
    copy = memory[start:start + x.size].reshape(x.shape)
    copy[...] = x
    return copy


@pytest.mark.parametrize("name", ["openblas", pytest.param("mkl", marks=WITH_MKL), "numformer"])
def test_bits_do_not_depend_on_where_matrices_begin(name, rng):
    address = {"openblas": lambda: SCIPYS, "numformer": lambda: blas.SGEMM.address,
               "mkl": lambda: mkl.load_mkl(mkl.find_mkl()[0])["sgemm"]}[name]()
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
