"""Edges: levels that every function has, made from its first level.

A function that is right on plain random numbers may still be wrong for sizes of 1, for very large
and very small numbers, for large gradients, for arrays in another layout of memory, and in float32.
"""

from dataclasses import replace

import numpy as np

from numformer.specifications.levels import Level, OneLong, SomeOfSizeOne, in_pairs

LARGE = 1e4
SUBTRACT = "subtract the maximum of each row first"
TWICE = ("exp makes larger: compute the same scores by the same operations in the same order "
         "wherever you need them, such as in the forward and in a tile")
ROUNDED = 1e-6                                           # a relative error below it is of rounding


def large_numbers_show(found, reference):
    """What the first wrong number shows where most are about 10,000: which side exp has left."""
    about = "Most numbers are about 10,000 here, of either sign. "
    if np.isnan(found):
        return (f"{about}exp overflows to Inf above 709 and underflows to 0 below -745; Inf / Inf "
                f"and 0 / 0 are NaN: {SUBTRACT}, and write sigmoid with exp(-|x|).")
    if np.isinf(found):
        return (f"{about}Inf comes of an exp that overflows, above 709, or of the logarithm or the "
                f"reciprocal of one that underflows to 0, below -745: {SUBTRACT}. A running "
                "maximum begins at -Inf: from 0 it never gets down to negative numbers.")
    if found == 0:
        return (f"{about}A 0 like this comes of an exp that underflows, below -745: {SUBTRACT}. A "
                "running maximum begins at -Inf, not at 0.")
    if abs(found - reference) <= ROUNDED * abs(reference):
        return (f"{about}Nothing overflows: the numbers differ by rounding, which {TWICE}.")
    return (f"{about}The first wrong one is finite: look for a clip, for a maximum that is not "
            "that of its own row, or that is subtracted in one place only, and for scores whose "
            f"rounding {TWICE}.")


def with_edges(levels, names, smallest, last_axes=None):
    """The levels, pairs of their options, and their edges; other arguments as in Specification."""
    if not levels:
        return {}
    levels = {name: make if isinstance(make, Level) else Level(make)
              for name, make in levels.items()}
    plain = next(iter(levels.values())).make
    edges = {
        "sizes of 1": Level(
            lambda rng: plain(SomeOfSizeOne(rng.bit_generator)), instances=6, ambiguous=True, hint=(
                "Some axes have size 1 here. squeeze() removes them, and broadcasting stretches "
                "them silently; name the axis, and use keepdims=True.")),
        LONG_AXIS: Level(long_axis(plain), instances=2 * n_sizes(plain), hint=(
            "An axis is long here, up to 257. Look for what holds for few numbers only: a tile or "
            "chunk that is the last one, a loop with a fixed end, a table of a fixed size.")),
        "another number of axes": Level(
            with_axes(plain, last_axes or {}), instances=4, ambiguous=True, hint=(
                "The arrays have another number of axes here, as the shape with ... allows. Count "
                "axes from the end, as axis=-1 does, and sum over all axes before the last ones.")),
        "large numbers": Level(
            first_negative(times(plain, names, 1, slice(-1), LARGE)), instances=2, ambiguous=True,
            shows=large_numbers_show, hint=(
                "Most numbers are about 10,000 here. exp overflows above 709 and underflows below "
                f"-745: {SUBTRACT}, write sigmoid with exp(-|x|), and do not divide two results of "
                "exp that may both be 0 or Inf.")),
        "small numbers": Level(
            times(plain, names, 1e-6, slice(1), smallest / 1e-6, one_at_a_time=True),
            instances=max(2, len(names)), ambiguous=True, hint=(
                "The numbers of an array are about 0.000001 and less here. Look for a constant "
                "that was added to avoid a division by 0, for a rounding, and for a comparison "
                "with a small number.")),
        "a large dy": Level(plain, dy=1e6, instances=2, ambiguous=True, hint=(
            "dy is about 1,000,000 here, and a backward is linear in dy: nothing in it may be "
            "clipped or bounded.")),
        "a small dy": Level(plain, dy=1e-9, instances=2, ambiguous=True, hint=(
            "dy is about 0.000000001 here, and a backward is linear in dy: nothing in it may be "
            "rounded to 0, and no small constant may be added.")),
        "views": Level(plain, arrange=view, ambiguous=True, hint=(
            "The arrays are views here, transposed or with steps in memory, as x.T and x[::2] are. "
            "Do not rely on the order of the numbers in memory: order='K' or 'A', .data, .strides, "
            "ravel().view(), np.frombuffer.")),
        "float32": Level(plain, dtype=np.float32, instances=2, hint=(
            "The arrays are float32 here. Look for float16, for numbers above 3e38, and for tiny "
            "constants that vanish: 1 + 1e-8 is 1 in float32.")),
    }
    if last_axes is None:
        del edges["another number of axes"]
    return {**levels, **in_pairs(levels), **edges, **masked_large(levels, names),
            **at_the_edges(levels)}


def masked_large(levels, names):
    """The first level with a mask, and that with a pattern, with large numbers."""
    found = {}
    for option in ("mask", "pattern"):
        masked = next(((name, level) for name, level in levels.items() if level.required
                       and level.dtype == np.float64 and option in level(
                           np.random.default_rng(0))[1]), None)
        if masked:
            name, level = masked
            found[f"{name}, large numbers"] = replace(
                level, make=times(level.make, names, 1, slice(-1), LARGE), instances=2,
                ambiguous=True, shows=None, hint=MASKED_LARGE)
    return found


def at_the_edges(levels):
    """For each option a level with sizes of 1 and with a long axis; for one of its values."""
    found, met = {}, []
    for name, level in levels.items():
        options = {*level(np.random.default_rng(0))[1], *level.needs}
        if (level.required and level.dtype == np.float64 and options
                and (level.instances > 1 or options not in met)):
            met.append(options)
            found[f"{name}, at the edges"] = replace(
                level, make=at_an_edge(level.make), instances=2, hint="With this option, the "
                "arrays have axes of size 1 here, or a long axis: see the levels of these names.")
    return found


def at_an_edge(make):
    """The maker of the same arguments with some sizes of 1, or a long one, by the seed."""
    def changed(rng):
        turn = rng.bit_generator.seed_seq.entropy % 2
        return make((OneLong if turn else SomeOfSizeOne)(rng.bit_generator))
    return changed


def n_sizes(make):
    """How many sizes a maker draws."""
    rng = OneLong(np.random.default_rng(0).bit_generator)
    make(rng)
    return rng.n_sizes


def long_axis(make):
    """The maker of the same arguments with one long axis, by the seed another one."""
    return lambda rng: make(OneLong(rng.bit_generator))


def with_axes(make, last_axes):
    """The maker of the same arguments with other axes in front, by the seed another number."""
    def changed(rng):
        arguments, options = make(rng)
        first = next(iter(last_axes))
        n_axes = arguments[first].ndim
        numbers = [n for n in range(max(last_axes[first], 1), n_axes + 3) if n != n_axes]
        n_front = numbers[rng.bit_generator.seed_seq.entropy % len(numbers)] - last_axes[first]
        front = tuple(int(size) for size in rng.permutation(np.arange(2, 6))[:n_front])
        rows = None
        for name, n_last in last_axes.items():
            x = arguments[name]
            x = x.reshape(-1, *x.shape[x.ndim - n_last:])
            if rows is None:                             # the same for all arguments
                rows = rng.permutation(np.resize(np.arange(len(x)), int(np.prod(front))))
            arguments[name] = x[rows].reshape((*front, *x.shape[1:]))
        return arguments, options
    return changed


LONG_AXIS = "a long axis"
NO_BIAS = "There is no bias here: the default of None must work, and its gradient is None."
MASKED_LARGE = ("Most numbers are about 10,000 here, and some scores are masked. What is masked "
                "counts nothing at all, as with -inf: a number such as -10,000, added to a score "
                "or in its place, may not be the smallest.")
MASKED_ROW = "A row of the mask is False everywhere: its weights and its output are 0, not NaN."
NO_GENERATOR = "There is no generator or seed here, rng=None: no dropout."
MORE_QUERIES = ("There are more queries than keys here, T > S. Look for a T that should be S; the "
                "last query is aligned with the last key.")


def left_out(make, *names, hint=NO_BIAS):
    """The level without some arguments: for functions that have a default of None there."""
    def fewer(rng):
        arguments, options = make(rng)
        return {name: x for name, x in arguments.items() if name not in names}, options
    return Level(fewer, hint, optional=True)


def times(make, names, factor, rows, further, one_at_a_time=False):
    """The maker of the same arguments, with those of some names multiplied by a factor.

    Some rows of each are multiplied by a further one. Of several small arrays the product would be
    so small that 0 is right up to rounding: so the seed chooses one.
    """
    def scaled(rng):
        arguments, options = make(rng)
        chosen = [name for name in names if name in arguments]
        if one_at_a_time and chosen:
            chosen = [chosen[rng.bit_generator.seed_seq.entropy % len(chosen)]]
        for name in chosen:
            arguments[name] = x = arguments[name] * factor
            x[rows] *= further
        return arguments, options
    return scaled


def first_negative(make):
    """The maker of the same arguments, with the first row of the first moved below 0.

    A maximum that begins at 0 is above all of it. Numbers that may not be below 0 stay.
    """
    def changed(rng):
        arguments, options = make(rng)
        x = next(iter(arguments.values()), None)
        if isinstance(x, np.ndarray) and x.dtype.kind == "f" and x.ndim and (x < 0).any():
            x[0] -= x[0].max() + LARGE / 10
        return arguments, options
    return changed


def view(x, number):
    """The same numbers in another layout of memory; which one depends on the number."""
    if not x.ndim:
        return x
    layout = number % 3
    if layout == 0:
        return np.asfortranarray(x)
    if layout == 1:
        wide = np.zeros((*x.shape[:-1], 2 * x.shape[-1]), x.dtype)
        wide[..., ::2] = x
        return wide[..., ::2]
    high = np.zeros((2 * len(x), *x.shape[1:]), x.dtype)  # whoever ignores strides stays inside it
    high[:len(x)] = x[::-1]
    return high[:len(x)][::-1]


EDGES = set(with_edges({"": lambda rng: ({}, {})}, (), 1.0, {})) - {""}   # the names of all
