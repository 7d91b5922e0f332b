"""Compare programs on a noisy machine: alternating runs, medians, and the machine's own rate."""

import time
from importlib.util import find_spec

import numpy as np

from numformer.backend import get_threads, run_side_by_side

TURN_SECONDS = 0.1
REST_SECONDS = 0.1                                 # the threads of the previous side may still spin


def medians_in_turns(sides, seconds=6.0):
    """The medians of `in_turns`, in seconds.

    Examples
    --------
    >>> sides = {"a": lambda: {"forward": 1.0}, "b": lambda: {"forward": 2.0}}
    >>> medians_in_turns(sides, seconds=0)
    {'a': {'forward': 1.0}, 'b': {'forward': 2.0}}
    """
    return {name: {part: float(np.median(times)) for part, times in parts.items()}
            for name, parts in in_turns(sides, seconds).items()}


def in_turns(sides, seconds=6.0, turn=TURN_SECONDS):
    """Time several programs in alternating runs.

    Each round runs each program for one turn, or once, after a rest and a warm-up of half a turn.

    Parameters
    ----------
    sides : dict of str to callable
        Programs that return the seconds of their parts, by name.
    seconds : float
        Approximate total time; at least three rounds.
    turn : float
        Seconds of a turn, at most the total time.

    Returns
    -------
    dict of str to dict
        For each side and part, the mean of each round in seconds.
    """
    turn, rest = min(turn, seconds), min(REST_SECONDS, seconds)
    took = {name: _seconds(side) for name, side in sides.items()}     # warm-up
    took = {name: _seconds(side) for name, side in sides.items()}
    times = {name: max(1, int(turn / max(t, 1e-9))) for name, t in took.items()}
    times = {name: min(n, 1000) for name, n in times.items()}
    round_seconds = sum(rest + took[name] * (times[name] + times[name] // 2) for name in sides)
    rounds = int(min(15, max(3, seconds / max(round_seconds, 1e-9))))
    found = {name: [] for name in sides}
    for _ in range(rounds):
        for name, side in sides.items():
            time.sleep(rest)
            for _ in range(times[name] // 2):
                side()                                                # warm cores and caches
            turn = [side() for _ in range(times[name])]
            found[name].append({part: np.mean([run[part] for run in turn]) for part in turn[0]})
    return {name: {part: [float(turn[part]) for turn in turns] for part in turns[0]}
            for name, turns in found.items()}


def start_torch():
    """Let PyTorch multiply once, before numformer does: whoever uses MKL first sets its threads.

    PyTorch's own threads are then as they would be without numformer, which holds its MKL at one.
    """
    if find_spec("torch") is not None:
        import torch

        torch.set_num_threads(get_threads())
        torch.ones(500, 500) @ torch.ones(500, 500)


def sgemm_side(n=1024):
    """A side that multiplies square matrices, one per thread: {"flop": seconds per FLOP}."""
    a = np.random.default_rng(0).standard_normal((n, n)).astype(np.float32)
    outs = [np.empty_like(a) for _ in range(get_threads())]

    def side():
        started = time.perf_counter()
        run_side_by_side(lambda out: np.dot(a, a, out=out), outs)
        return {"flop": (time.perf_counter() - started) / (2 * n ** 3 * len(outs))}

    return side


def memory_side(megabytes=256):
    """A side that reads more memory than fits in caches: {"byte": seconds per byte}."""
    parts = np.ones((get_threads(), megabytes * 2**20 // 4 // get_threads()), np.float32)

    def side():
        started = time.perf_counter()
        run_side_by_side(lambda part: part @ part, parts)
        return {"byte": (time.perf_counter() - started) / parts.nbytes}

    return side


def quartiles(times):
    """The median and the quartiles."""
    low, median, high = np.percentile(times, [25, 50, 75])
    return {"median": float(median), "low": float(low), "high": float(high)}


def _seconds(function):
    started = time.perf_counter()
    function()
    return time.perf_counter() - started
