"""Where the time of a training step goes: by function, for one shard on one thread."""

import cProfile
import pstats
import time
from pathlib import Path

import numformer
from numformer import backend, functional
from numformer.benchmarks.training import Case, trainer

ROOT = Path(numformer.__file__).parent
ROOMS = ("functional", "kernels")


def breakdown(case, steps=20):
    """The CPU time of a step in ms by function, for one shard of half the batch on one thread.

    A function's time is without that of other functions that it calls. Time outside of
    `functional/` and `kernels/` is "rest": layers, sums of gradients, Python.
    """
    half = Case(case.name, case.L, case.H, case.C, max(1, case.B // 2), case.T, case.V)
    with backend.threads(1):
        ours = trainer(half, shards=1)
        for _ in range(3):
            ours.train_step()
        times = times_by_name(lambda: [ours.train_step() for _ in range(steps)])
    rest = times.pop("rest")
    times = sorted(times.items(), key=lambda item: -item[1])
    return {name: 1000 * seconds / steps for name, seconds in [*times, ("rest", rest)]}


def times_by_name(work, clock=time.thread_time):
    """Seconds of each function of `functional/` in a call of `work`; the compiled one counts as it.

    The profiler slows every call down by about the same time, which is taken off again: it is what
    a call of `work` takes longer with the profiler than without, divided by the number of calls.

    Returns
    -------
    dict of str to float
        With the remaining time as "rest".
    """
    started = clock()
    work()
    plain = clock() - started
    profile = cProfile.Profile(clock)
    profile.runcall(work)
    stats, callees = pstats.Stats(profile).stats, {}
    calls = sum(number for _, number, _, _, _ in stats.values())
    slower = (sum(own for _, _, own, _, _ in stats.values()) - plain) / calls
    seconds = {function: own - slower * number
               for function, (_, number, own, _, _) in stats.items()}
    for callee, (_, _, _, total, callers) in stats.items():
        if _name(callee) is None and total:
            for caller, (_, _, _, from_here) in callers.items():
                callees.setdefault(caller, []).append((callee, from_here / total))
    times = {"rest": plain}
    for function in stats:
        if name := _name(function):
            took = _without_named(function, seconds, callees, {function})
            times[name] = times.get(name, 0.0) + took
            times["rest"] -= took
    return times


def _without_named(function, seconds, callees, above):
    """The time of a function and of all that it calls, but for functions with a name of theirs.

    What several functions call is divided between them as the profiler divided its time.
    """
    return seconds[function] + sum(
        part * _without_named(callee, seconds, callees, above | {callee})
        for callee, part in callees.get(function, []) if callee not in above)


def _name(function):
    """The name in the breakdown; None for what belongs to its caller."""
    file, _, name = function
    path = Path(file)
    ours = path.is_relative_to(ROOT) and path.relative_to(ROOT).parts[0] in ROOMS
    return name if ours and hasattr(functional, name.removesuffix("_accumulate")) else None
