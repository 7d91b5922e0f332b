"""How threads share one piece of work: its units lie in the open, and each thread takes the next that nobody has.

A sleeping thread needs some 20 microseconds to wake up, as long as several small units take. So nobody's share is fixed, and
one who comes late finds less to do, or nothing; and who is done first stays awake a little for the others, instead of
waiting in Python for their word. Which thread computes a unit is chance; the unit's numbers are not.
"""

import numpy as np
from numba import types
from numba.extending import intrinsic

from numformer.kernels.compiled import inlined

LOOKS = 20_000                                                        # about 0.2 ms; one who sees the end has no need to be woken
LOOKS_MORE = 300                                                      # 3 us: the caller is to be first at the interpreter's lock


def new_ledger(units):
    """One entry for each unit, 1 when it is taken; at the end how many are finished."""
    return np.zeros(units + 1, np.int64)


def _atomic(operation):
    """A step that no other thread can come between: ledger[n] changed by a value, and what it was before."""
    @intrinsic
    def step(context, ledger, n, value):
        def generate(context, builder, signature, arguments):
            entries, n, value = arguments
            place = builder.gep(context.make_array(signature.args[0])(context, builder, entries).data, [n])
            return builder.atomic_rmw(operation, place, value, "seq_cst")

        return types.int64(ledger, types.intp, types.int64), generate

    return step


_exchange, _add = _atomic("xchg"), _atomic("add")


@inlined
def turn_of(turn, units, task, tasks):
    """The order in which a task asks for units: it begins with a share of its own, then helps the others.

    The same in every kernel, so that a head stays in the cache of the core that had it.
    """
    return (turn + task * units // tasks) % units


@inlined
def take(ledger, unit):
    """Whether the unit was still to be had: then it is the caller's alone."""
    return _exchange(ledger, unit, 1) == 0


@inlined
def finish(ledger):
    """Write down that one more unit is finished."""
    _add(ledger, len(ledger) - 1, 1)


@inlined
def wait_for_all(ledger):
    """Wait, awake, until the work is finished: for what comes next and needs all of it."""
    units = len(ledger) - 1
    while _add(ledger, units, 0) < units:
        pass


@inlined
def all_finished(ledger, task):
    """Whether the whole work is finished; waits for that a little, awake. Task 0 is the caller's, and leaves first."""
    units = len(ledger) - 1
    finished = looks = 0
    while finished < units and looks < LOOKS:
        finished = _add(ledger, units, 0)
        looks += 1
    if task > 0:
        for _ in range(LOOKS_MORE):
            finished = _add(ledger, units, 0)
    return finished == units
