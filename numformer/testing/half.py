"""float16 and bfloat16: their numbers, and when a result in them is right.

NumPy has no bfloat16: its numbers are float32 numbers whose last 16 bits are 0.
"""

import copy
from dataclasses import replace

import numpy as np

from numformer.specifications import Instance

EPSILONS = {"float16": 2.0 ** -10, "bfloat16": 2.0 ** -7}
LARGEST = {"float16": 65504.0, "bfloat16": 3e38}
SMALLEST = {"float16": 6e-5, "bfloat16": 1e-38}       # with all their digits
DRAWS = 12                                            # of random rounding errors


def rounded(x, dtype):
    """The float64 numbers of a dtype that are nearest to those of an array.

    Examples
    --------
    >>> rounded(np.array([1.003, 1e5]), "float16"), rounded(np.array([1.003]), "bfloat16")
    (array([1.00292969,        inf]), array([1.]))
    """
    x = np.asarray(x, np.float64)
    if dtype != "bfloat16":
        with np.errstate(over="ignore"):
            return x.astype(dtype).astype(np.float64)
    bits = x.astype(np.float32).view(np.uint32)
    kept = bits + np.uint32(0x7fff) + (bits >> np.uint32(16) & np.uint32(1))
    return (kept & np.uint32(0xffff0000)).view(np.float32).astype(np.float64)


def is_within(arguments, dtype):
    """Whether a dtype holds the arrays of floats of an instance: most are of a usual size."""
    sizes = np.concatenate([np.abs(x[np.isfinite(x) & (x != 0)]).ravel()
                            for x in arguments if _is_float(x)] or [np.zeros(0)])
    return sizes.size == 0 or bool(sizes.max() < LARGEST[dtype] / 100
                                   and sizes.min() > SMALLEST[dtype] / 100
                                   and np.median(sizes) > SMALLEST[dtype])


def with_large_squares(problem, plain, large, dtype):
    """A level of numbers whose squares a dtype does not hold; None if it cannot hold the results.

    They are in one array alone, as products of two would be too large, too.

    Parameters
    ----------
    problem : Specification
    plain : Level
    large : dict of str to ndarray
        The arguments of `plain`, those that may be large multiplied.
    dtype : "float16" or "bfloat16"
    """
    given, _ = plain(np.random.default_rng(0))
    name = next((name for name, x in large.items() if _is_float(x) and np.shape(x) == np.shape(
        given[name]) and not np.array_equal(x, given[name])), None)
    if name is None:
        return None

    def make(rng):
        arguments, options = plain.make(rng)
        x = arguments[name]
        factor = LARGEST[dtype] / 100 / np.abs(x).max(initial=1e-9)
        return {**arguments, name: x * factor}, options
    level = replace(plain, make=make, instances=2, ambiguous=True, hint=(
        f"Numbers of {name} are up to {LARGEST[dtype] / 100:.0f} here, and {dtype} does not hold "
        "their squares: square and add up in float32."))
    y, _, gradients = Instance(replace(problem, levels={"large": level}), "large", 0).exact
    largest = max(np.abs(x).max(initial=0) for x in (y, *gradients.values()))
    return level if largest < LARGEST[dtype] / 10 else None


def in_half(call, problem, backward, dtype, rtol=None):
    """A function whose results are those of the reference where a right one may differ so far.

    What is wrong stays as it is. A right result differs by a few roundings: of the inputs, whose
    effect is measured, of the result, and of the largest number of its array. The errors of a sum
    of n terms that is itself in half precision are sqrt(n) times those of its terms; and where
    rounding the inputs changes a result by half of itself, as at a mean of 1e7, it has no right
    digits.

    Parameters
    ----------
    call : callable
        Takes arrays of floats whose numbers are those of the dtype, and returns a tuple.
    problem : Specification
    backward : bool
    dtype : "float16" or "bfloat16"
    rtol : float, optional
        A relative error that is right, too.
    """
    epsilon = EPSILONS[dtype]

    def reference(given, options):
        dy, arguments = (given[:1], given[1:]) if backward else ((), given)
        y, saved = problem.function(*map(_as_before, arguments), **options)
        if not backward:
            return [y]
        gradients = problem.gradient(*dy, saved)
        return gradients if isinstance(gradients, tuple) else (gradients,)

    def snapped(*positional, **options):
        given = [np.float64(x) if _is_float(x) else _as_before(x) for x in positional]
        found = call(*positional, **options)
        more = {name: np.float64(x) if _is_float(x) else x for name, x in options.items()}
        exact, rng = reference(given, more), np.random.default_rng(0)

        def noisy(x):
            return x * (1 + epsilon * rng.uniform(-1, 1, x.shape)) if _is_float(x) else x
        rough = [reference([noisy(x) for x in given],
                           {name: noisy(x) for name, x in more.items()}) for _ in range(DRAWS)]
        most = max([x.size for x in given if _is_float(x)], default=1)
        return tuple(_snapped(x, y, [each[k] for each in rough], most) for k, (x, y)
                     in enumerate(zip(found, exact))) + tuple(found[len(exact):])

    def _snapped(found, exact, rough, most):
        if not _is_float(found) or exact is None or np.shape(found) != np.shape(exact):
            return found
        found, exact = np.asarray(found, np.float64), np.asarray(exact)
        size, largest = np.abs(exact), np.abs(exact).max(initial=0)
        noise = np.max([np.abs(each - exact) for each in rough], axis=0)
        times = max(4, np.sqrt(most / max(1, exact.size)))
        if 2 * noise.max(initial=0) > largest:
            times = max(16, times)
        allowed = epsilon * (8 * size + 2 * largest) + times * noise
        if rtol is not None:
            allowed = np.maximum(allowed, rtol * (size + 0.01 * largest))
        return np.where(np.abs(found - exact) <= allowed, exact, found).astype(np.float32)

    snapped.__wrapped__ = call                        # what inspect.signature follows
    return snapped


def _as_before(x):
    """A generator in the state that it has now; anything else as it is."""
    return copy.deepcopy(x) if isinstance(x, np.random.Generator) else x


def _is_float(x):
    return isinstance(x, np.ndarray) and x.dtype.kind == "f"
