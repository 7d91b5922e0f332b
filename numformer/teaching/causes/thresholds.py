"""A function that is right on short axes and wrong on long ones: up to which size?"""

from dataclasses import replace

import numpy as np

from numformer.specifications.levels import OneLong
from numformer.teaching.causes.evidence import CLOSE

SIZES = (4, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257)


def threshold(outputs_of, instance, backward):
    """ "it is right up to a size of 64 of k.shape[2], and wrong from 65 on"; "" if it is not so.

    Parameters
    ----------
    outputs_of : callable
        As in `likely_cause`.
    instance : Instance
        Of the level with a long axis, on which the function is wrong.
    backward : bool
    """
    plain = next(iter(instance.problem.levels.values()))

    def of_size(size):
        level = replace(plain, make=lambda _: plain(OneLong.of_seed(instance.seed, size)))
        return replace(instance, problem=replace(instance.problem, levels={"plain": level}),
                       level="plain")

    instances = list(map(of_size, SIZES))
    right = [_is_right(outputs, each, backward)
             for outputs, each in zip(outputs_of(instances), instances)]
    if True not in right or False not in right or sorted(right, reverse=True) != right:
        return ""
    last, first = SIZES[right.index(False) - 1], SIZES[right.index(False)]
    axis = _axis_of_size(of_size(SIZES[-1]), SIZES[-1])
    tile = f": look for a tile or chunk of {last}, or a loop that ends there" if (
        first == last + 1) else ""
    return f"it is right while {axis} is at most {last}, and wrong from {first} on{tile}"


def _is_right(outputs, instance, backward):
    expected = list(instance.expected(backward).values())
    return outputs is not None and len(outputs) == len(expected) and all(
        np.shape(found) == np.shape(right) and np.allclose(
            found, right, rtol=1e3 * CLOSE, atol=1e3 * CLOSE * np.abs(right).max(initial=0))
        for found, right in zip(outputs, expected))


def _axis_of_size(instance, size):
    """The first axis of an argument that has this size, as code."""
    for name, x in instance.numbers[0].items():
        if size in np.shape(x):
            return f"{name}.shape[{np.shape(x).index(size)}]"
    return "one size"
