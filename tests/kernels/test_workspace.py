"""Memory is reused, but never while somebody holds it, from any thread, and only up to a limit."""

import gc
import threading

import numpy as np
import pytest

pytest.importorskip("numba")
from numformer.kernels.runtime import workspace  # noqa: E402  (needs Numba)

SIZE = workspace.SMALLEST // 4                                          # of float32
FLOAT32 = np.dtype(np.float32)


@pytest.fixture(autouse=True)
def empty():
    workspace.release()
    yield
    workspace.release()


def address(x):
    return x.ctypes.data


def test_memory_is_reused_once_nobody_holds_it():
    first = workspace.new_array((SIZE,), FLOAT32)
    where = address(first)
    view = first.reshape(4, -1)[1:]
    del first
    gc.collect()
    other = workspace.new_array((SIZE,), FLOAT32)
    assert address(other) != where, "a view holds it"
    del view
    again = workspace.new_array((SIZE // 2, 2), FLOAT32)
    assert address(again) == where, "another shape of the same size"


def test_small_arrays_are_allocated_by_numpy():
    x = workspace.new_array((SIZE - 1,), FLOAT32)
    assert x.base is None and x.flags.owndata
    assert workspace.new_like(np.zeros((3, 5))).shape == (3, 5)
    assert workspace.new_array((), np.dtype(float)).shape == ()


def test_reused_arrays_behave_like_others():
    x = workspace.new_like(np.zeros((SIZE, 3)))
    x[...] = 2
    assert x.dtype == np.float64 and x.flags.c_contiguous and x.flags.writeable
    assert (x @ np.ones((3, 1)) == 6).all()
    assert address(x) % 16 == 0 and np.array_equal(x.copy(), x)


def test_no_more_memory_is_kept_than_allowed(monkeypatch):
    """Of five arrays that are freed, three are kept, until `release`."""
    monkeypatch.setattr(workspace, "LARGEST_RESERVE", 3 * workspace.SMALLEST)
    arrays = [workspace.new_array((SIZE,), FLOAT32) for _ in range(5)]
    del arrays
    assert kept_bytes() == 3 * workspace.SMALLEST
    workspace.new_array((SIZE,), FLOAT32)
    assert kept_bytes() == 3 * workspace.SMALLEST, "taken and returned"
    workspace.release()
    assert kept_bytes() == 0


def kept_bytes():
    """What is kept: the sum over the blocks, which is also the running total."""
    blocks = sum(size * len(blocks) for size, blocks in workspace._free.items())
    assert blocks == workspace._free_bytes
    return blocks


def test_threads_never_share_an_array():
    """Each thread writes its number and reads it back while the others do the same."""
    wrong = []

    def work(number):
        for _ in range(300):
            x = workspace.new_array((SIZE,), FLOAT32)
            x[...] = number
            y = workspace.new_like(x)
            y[...] = -number
            if not ((x == number).all() and (y == -number).all()):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and kept_bytes() >= 0
