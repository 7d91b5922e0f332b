"""Memory that is used again: never while anybody holds it, by whatever thread, and not without end."""

import gc
import threading

import numpy as np
import pytest

pytest.importorskip("numba")
from numformer.kernels import room  # noqa: E402

SIZE = room.LEAST // 4                                                # float32


@pytest.fixture(autouse=True)
def empty():
    room.forget()
    yield
    room.forget()


def place(x):
    return x.ctypes.data


def test_memory_is_used_again_once_nobody_holds_it():
    first = room.new_array((SIZE,), np.dtype(np.float32))
    where = place(first)
    view = first.reshape(4, -1)[1:]
    del first
    gc.collect()
    other = room.new_array((SIZE,), np.dtype(np.float32))
    assert place(other) != where, "a view keeps it"
    del view
    assert place(room.new_array((SIZE // 2, 2), np.dtype(np.float32))) == where, "another shape of the same size"


def test_small_arrays_are_numpys_own():
    x = room.new_array((SIZE - 1,), np.dtype(np.float32))
    assert x.base is None and x.flags.owndata
    assert room.new_like(np.zeros((3, 5))).shape == (3, 5) and room.new_array((), np.dtype(float)).shape == ()


def test_arrays_are_like_others():
    x = room.new_like(np.zeros((SIZE, 3)))
    x[...] = 2
    assert x.dtype == np.float64 and x.flags.c_contiguous and x.flags.writeable and (x @ np.ones((3, 1)) == 6).all()
    assert place(x) % 16 == 0 and np.array_equal(x.copy(), x)


def test_no_more_waits_than_allowed(monkeypatch):
    monkeypatch.setattr(room, "MOST", 3 * room.LEAST)
    arrays = [room.new_array((SIZE,), np.dtype(np.float32)) for _ in range(5)]
    del arrays
    assert len(room._waiting[room.LEAST]) == 3 and room._bytes == 3 * room.LEAST
    room.new_array((SIZE,), np.dtype(np.float32))
    assert room._bytes == 3 * room.LEAST, "taken and given back"
    room.forget()
    assert room._bytes == 0 and not room._waiting


def test_threads_never_share():
    """Each writes its number and finds it again, while the others do the same."""
    wrong = []

    def work(number):
        for _ in range(300):
            x = room.new_array((SIZE,), np.dtype(np.float32))
            x[...] = number
            y = room.new_like(x)
            y[...] = -number
            if not ((x == number).all() and (y == -number).all()):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and room._bytes == sum(size * len(blocks) for size, blocks in room._waiting.items())
