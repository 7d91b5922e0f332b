"""How far may a right function be from the reference? As far as rounding errors reach.

The reference is run a few times with a small random error in each of its steps (Monte Carlo
arithmetic): in each product, each sum, each exponential, and in its arguments. How far the results
spread, divided by the size of these errors, is the size of the terms that were added. A difference
of large terms has large rounding errors, however small it is; an error of another kind is found,
because it does not shrink with the rounding errors.

References
----------
Parker (1997), "Monte Carlo Arithmetic: exploiting randomness in floating-point arithmetic".
"""

from functools import lru_cache

import numpy as np

RUNS = 6
ERROR = 2.0 ** -36                                    # relative, of each step
EXACT = (np.negative, np.positive, np.absolute, np.maximum, np.minimum)
PRODUCTS = (np.dot, np.einsum, np.tensordot)


@lru_cache(maxsize=4)
def sizes_of_terms(instance):
    """(of y, {name: of its gradient}): for each entry, the size of the terms that make it up.

    A function that adds the same terms in another way differs from the reference by a few times
    this size, times the relative precision of its numbers. The last few results are kept: the
    outputs on one instance are compared several times.
    """
    exact_y, dy, exact = instance.exact
    y, gradients = 0, dict.fromkeys(exact, 0)
    for run in range(RUNS):
        rng = np.random.default_rng([run, instance.seed])
        found_y, found = _run(instance, dy, rng)
        y = np.maximum(y, _distance(found_y, exact_y))
        for name, size in gradients.items():
            gradients[name] = np.maximum(size, _distance(found[name], exact[name]))
    return y, gradients


def _run(instance, dy, rng):
    """(y, gradients) of the reference, with errors in all steps."""
    rough = type("Rough", (Rough,), {"rng": rng})
    arguments, options = instance.arguments(np.float64)
    arguments = {name: rough.of(x) for name, x in arguments.items()}
    options = {name: rough.of(x) for name, x in options.items()}
    with np.errstate(all="ignore"):
        y, saved = instance.problem.function(*arguments.values(), **options)
        gradients = instance.gradients(rough.of(np.asarray(dy, float)) if np.ndim(dy) else dy,
                                       saved)
    return y, gradients


def _distance(found, exact):
    """Elementwise; 0 where an error makes a number overflow: that is no reason to allow more."""
    with np.errstate(all="ignore"):
        distance = np.abs(np.asarray(found) - np.asarray(exact)) / ERROR
        return np.where(np.isfinite(distance), distance, 0)


class Rough(np.ndarray):
    """An array each of whose operations makes a random relative error; `rng` is of a subclass."""

    rng = None
    is_plain = True                                   # for numformer.checks: an array like others

    @classmethod
    def of(cls, x):
        """An array of floats with an error in each number; anything else as it is."""
        if not isinstance(x, np.ndarray) or x.dtype.kind != "f":
            return x
        return cls.erring(x, np.abs(x))

    @classmethod
    def erring(cls, x, size):
        """x with a random error in each number, relative to a size; -Inf of a mask stays."""
        size = np.where(np.isfinite(size), size, 0)
        return np.asarray(x + ERROR * cls.rng.uniform(-1, 1, np.shape(x)) * size).view(cls)

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **options):
        inputs = [_plain(x) for x in inputs]
        if out is not None:
            options["out"] = tuple(_plain(x) for x in out)
        result = getattr(ufunc, method)(*inputs, **options)
        options.pop("out", None)
        if not isinstance(result, (np.ndarray, np.floating)) or result.dtype.kind != "f":
            return result
        size = np.abs(result)
        if ufunc in EXACT:
            size = 0
        elif ufunc is np.matmul or method != "__call__":   # sums: the size of what was added
            size = getattr(ufunc, method)(*map(_size, inputs), **options)
        noisy = self.erring(result, size)
        if out is not None:
            _plain(out[0])[...] = noisy
            return out[0]
        return noisy

    def __array_function__(self, function, types, arguments, options):
        result = function(*_plain(arguments), **_plain(options))
        if not isinstance(result, np.ndarray) or result.dtype.kind != "f":
            return result
        size = 0                                          # it only moves numbers
        if function in PRODUCTS:
            size = function(*map(_size, _plain(arguments)), **_plain(options))
        return self.erring(result, size)


def _plain(x):
    """The same arrays, of NumPy's own class, inside of tuples, lists and dicts too."""
    if isinstance(x, Rough):
        return x.view(np.ndarray)
    if type(x) in (tuple, list):
        return type(x)(map(_plain, x))
    if type(x) is dict:
        return {name: _plain(value) for name, value in x.items()}
    return x


def _size(x):
    return np.abs(x) if isinstance(x, np.ndarray) and x.dtype.kind == "f" else x
