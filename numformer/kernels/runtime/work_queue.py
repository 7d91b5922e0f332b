"""How threads share one piece of work: each takes the next unit that nobody has taken yet.

Waking a thread takes some 20 microseconds, as long as several small units. So no share is fixed: a
thread that starts late finds less to do, or nothing. A thread that is done first polls for a little
while instead of blocking in Python until the others are done. Which thread computes a unit may
vary; the unit's numbers do not.
"""

import numpy as np
from numba import types
from numba.extending import intrinsic

from numformer.kernels.runtime.compile import inlined

POLLS = 20_000                          # about 0.2 ms; who sees the end need not be woken
EXTRA_POLLS = 300                       # 3 us of a helper: the caller takes the GIL first


def new_queue(units):
    """One entry for each unit, 1 once it is taken; the last entry counts the finished units."""
    return np.zeros(units + 1, np.int64)


def run_serially(function, tasks):
    """Call `function` on every task, one after the other; `backend` has a thread pool for them."""
    for task in tasks:
        function(task)


def _atomic(operation):
    """An atomic step: change queue[n] by a value, and return what it was before."""
    @intrinsic
    def step(context, queue, n, value):
        def generate(context, builder, signature, arguments):
            entries, n, value = arguments
            data = context.make_array(signature.args[0])(context, builder, entries).data
            return builder.atomic_rmw(operation, builder.gep(data, [n]), value, "seq_cst")

        return types.int64(queue, types.intp, types.int64), generate

    return step


_exchange, _add = _atomic("xchg"), _atomic("add")


@inlined
def unit_of_turn(turn, units, task, tasks):
    """The unit that a task tries to take at each turn: its own share first, then the others'.

    The same in every kernel, so that a head stays in the cache of the core that worked on it.
    """
    return (turn + task * units // tasks) % units


@inlined
def take(queue, unit):
    """Whether the unit was free; if so it now belongs to the caller alone."""
    return _exchange(queue, unit, 1) == 0


@inlined
def finish(queue):
    """Count one more unit as finished."""
    _add(queue, len(queue) - 1, 1)


@inlined
def all_finished(queue, task):
    """Whether all units are finished, after polling a while. Task 0, the caller, leaves first."""
    units = len(queue) - 1
    finished = polls = 0
    while finished < units and polls < POLLS:
        finished = _add(queue, units, 0)
        polls += 1
    if task > 0:
        for _ in range(EXTRA_POLLS):
            finished = _add(queue, units, 0)
    return finished == units
