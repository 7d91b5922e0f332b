"""How threads go through the phases of a step together: all units of one before any of the next.

Each task has a share of the units of a phase and takes them in order; a task that is done, or that
started early, takes what others have not taken yet. Which thread computes a unit may vary; the
unit's numbers do not.
"""

from llvmlite.binding import address_of_symbol
from numba import types

from numformer.kernels.runtime.compile import inlined
from numformer.kernels.runtime.work_queue import EXTRA_POLLS, _add

POLLS = 2000                            # some 20 us: a phase ends at about one time for all
YIELD = next(filter(address_of_symbol, ("sched_yield", "SwitchToThread")), None)

if YIELD is None:
    @inlined
    def give_way():
        """There is no system call to give the core to another thread."""
else:
    _give_way = types.ExternalFunction(YIELD, types.intc())

    @inlined
    def give_way():
        """Give the core to another thread, perhaps to the one that is waited for."""
        _give_way()


@inlined
def next_unit(queue, units, task, tasks):
    """A unit of the phase that nobody has taken yet; -1 if there is none.

    queue (tasks + 1,): the units taken of each share, and the finished ones of all.
    """
    for turn in range(tasks):
        share = (task + turn) % tasks
        first, last = units * share // tasks, units * (share + 1) // tasks
        if queue[share] < last - first:
            unit = first + _add(queue, share, 1)
            if unit < last:
                return unit
    return -1


@inlined
def wait_for_units(queue, units):
    """Wait until all units of the phase are finished; give way to other threads meanwhile."""
    finished, polls = len(queue) - 1, 0
    while _add(queue, finished, 0) < units:
        polls += 1
        if polls > POLLS:
            give_way()


@inlined
def let_the_caller_leave_first(queue, task):
    """True, after some polls of a helper: the caller, task 0, then has the GIL before it."""
    if task > 0:
        for _ in range(EXTRA_POLLS):
            _add(queue, len(queue) - 1, 0)
    return True
