"""A function that is right for some sizes of an axis and wrong for others: for which?"""

from dataclasses import replace

import numpy as np

from numformer.specifications.edges import n_sizes
from numformer.specifications.levels import OneLong
from numformer.teaching.causes.evidence import CLOSE

CLEAR = 1e-4                                           # an error that is no rounding
SMALL_SIZES = (2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 33)
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
    instances = [_of_size(instance, plain, instance.seed, size) for size in SIZES]
    right = _are_right(outputs_of, instances, backward)
    if {*right} != {True, False} or sorted(right, reverse=True) != right:
        return ""
    last, first = SIZES[right.index(False) - 1], SIZES[right.index(False)]
    axis = _axis_of_size(instances[-1], SIZES[-1])
    tile = f": look for a tile or chunk of {last}, or a loop that ends there" if (
        first == last + 1) else ""
    return f"it is right while {axis} is at most {last}, and wrong from {first} on{tile}"


def right_sizes(outputs_of, instance, backward):
    """For which sizes of one axis a function is right: up to one, for multiples of a number, or
    where two axes are equal, such as "it is right where x.shape[1] and x.shape[2] are equal, and
    wrong where they differ". "" if no size decides it.

    The parameters are those of `threshold`; the instance is of any level that draws its sizes.
    """
    level = instance.problem.levels[instance.level]
    for number in range(n := n_sizes(level)):
        first = instance.seed - instance.seed % n + number            # it chooses the axis
        told = [_sizes_told(outputs_of, instance, level, seed, backward)
                for seed in (first, first + 6 * n)]                   # two, as one may be chance
        if told[0] and told[1] and told[0][0] == told[1][0]:
            return told[0][1]
    return ""


def _sizes_told(outputs_of, instance, level, seed, backward):
    """(the kind of what decides, that in words); None if no size does."""
    instances = [_of_size(instance, level, seed, size) for size in SMALL_SIZES]
    right = _are_right(outputs_of, instances, backward)
    shapes = [[(f"{name}.shape[{axis}]", size) for name, x in each.numbers[0].items()
               for axis, size in enumerate(np.shape(x))] for each in instances]
    if {*right} != {True, False} or len({len(shape) for shape in shapes}) > 1:
        return None
    for place, (axis, _) in enumerate(shapes[0]):
        sizes = [shape[place][1] for shape in shapes]
        good = sorted({size for size, is_right in zip(sizes, right) if is_right})
        bad = sorted({size for size, is_right in zip(sizes, right) if not is_right})
        if len({*sizes}) < 4 or {*good} & {*bad}:
            continue
        equal = next((other for other, size in shapes[0] if [size] == good and all(
            dict(shape)[other] == size for shape in shapes)), None)
        if equal:
            return (axis, equal), (f"it is right where {axis} and {equal} are equal, and wrong "
                                   "where they differ")
        if max(good) < min(bad):
            return axis, (f"it is right while {axis} is at most {good[-1]}, and wrong from "
                          f"{bad[0]} on")
        of = next((n for n in (8, 4, 3, 2) if not any(size % n for size in good)
                   and all(size % n for size in bad)), None)
        if of and len(good) > 1:
            return (axis, of), (f"it is right where {axis} is a multiple of {of}, as "
                                f"{_listed(good)}, and wrong where it is {_listed(bad)}")
    return None


def _listed(sizes):
    return " or ".join(filter(None, [", ".join(map(str, sizes[:-1])), str(sizes[-1])]))


def _of_size(instance, level, seed, size):
    """An Instance of a level with this size on the axis that the seed chooses."""
    sized = replace(level, make=lambda _: level.make(OneLong.of_seed(seed, size)))
    return replace(instance, problem=replace(instance.problem, levels={"sized": sized}),
                   level="sized")


def _are_right(outputs_of, instances, backward):
    """True, or False, for each instance; neither where an error is so small that it may be both."""
    return [_is_right(outputs, each, backward)
            for outputs, each in zip(outputs_of(instances), instances)]


def _is_right(outputs, instance, backward):
    expected = list(instance.expected(backward).values())
    if outputs is None or len(outputs) != len(expected) or any(
            np.shape(found) != np.shape(right) for found, right in zip(outputs, expected)):
        return False
    error = np.max([np.abs(found - right).max(initial=0) / (np.abs(right).max(initial=0) or 1)
                    for found, right in zip(outputs, expected)])          # NaN if one is
    return bool(error <= CLOSE) or (None if error < CLEAR else False)


def _axis_of_size(instance, size):
    """The first axis of an argument that has this size, as code."""
    for name, x in instance.numbers[0].items():
        if size in np.shape(x):
            return f"{name}.shape[{np.shape(x).index(size)}]"
    return "one size"
