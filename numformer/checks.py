"""What an argument must be, said before any work: shapes by the alphabet of the project, types, ids in range.

    B batch   T query positions   S key positions   H heads   G key-value heads   D width of a head
    C width of the model   F width of the feed-forward   V vocabulary
"""

from functools import lru_cache

import numpy as np


def check_array(owner, name, x, shape, dtype=None, **sizes):
    """Check that `x` is a floating array of a shape such as ``"(B, T, C)"`` or ``"(..., C)"``.

    Parameters
    ----------
    owner, name : str
        Who asks, and what `x` is called there: both stand in the message.
    x : ndarray, float32 or float64 (complex inside a complex-step check)
    shape : str
        One word for each axis; a leading ``...`` stands for any number of axes.
    dtype : dtype, optional
        Precision that `x` must have; complex numbers of that precision are fine.
    **sizes : int
        The axes whose size is known.

    Returns
    -------
    dict
        Every named axis with its size, to hand on to the check of the next array.

    Raises
    ------
    TypeError
        If `x` is not an array of floats, or has another precision.
    ValueError
        If its shape does not fit.

    Examples
    --------
    >>> check_array("demo", "x", np.zeros((2, 3)), "(T, C)", C=3)
    {'C': 3, 'T': 2}
    >>> check_array("demo", "x", np.zeros((2, 3)), "(T, C)", C=4)
    Traceback (most recent call last):
    ValueError: demo: x must have shape (T, C) with C=4, but has shape (2, 3).
    """
    if not isinstance(x, np.ndarray) or x.dtype.kind not in "fc":
        came = f"an array of {x.dtype}" if isinstance(x, np.ndarray) else f"{type(x).__name__}"
        raise TypeError(f"{owner}: {name} must be an array of floats, but is {came}; use np.asarray({name}, np.float32).")
    if dtype is not None and x.dtype != dtype and x.real.dtype != np.dtype(dtype).type(0).real.dtype:
        raise TypeError(f"{owner}: {name} is {x.dtype}, but must have the precision of the other arrays, {np.dtype(dtype)}; "
                        f"cast it with .astype(np.{np.dtype(dtype).type(0).real.dtype}).")
    more, axes = _axes(shape)
    fits, found = x.ndim >= len(axes) if more else x.ndim == len(axes), dict(sizes)
    if fits:
        for axis, size in zip(axes, x.shape[x.ndim - len(axes):]):
            fits &= found.setdefault(axis, size) == size
    if not fits:
        known = ", ".join(f"{axis}={sizes[axis]}" for axis in axes if axis in sizes)
        raise ValueError(f"{owner}: {name} must have shape {shape}{' with ' + known if known else ''}, but has shape {x.shape}.")
    return found


@lru_cache(maxsize=None)
def _axes(shape):
    """("...", "B", "T") as (True, ("B", "T")): whether any axes may come first, and the names of the last."""
    axes = tuple(axis for axis in shape.strip("()").replace(" ", "").split(",") if axis)
    return (True, axes[1:]) if axes[:1] == ("...",) else (False, axes)


def check_ids(owner, name, ids, size, ignore_index=None):
    """Check that `ids` is an array of integers in 0 .. size-1, or equal to `ignore_index`.

    Raises
    ------
    TypeError
        If the ids are not integers: a float id would be cut to an integer without a word.
    ValueError
        If one lies outside: a negative one would silently count from the end.

    Examples
    --------
    >>> check_ids("demo", "ids", np.array([0, 7]), 5)
    Traceback (most recent call last):
    ValueError: demo: ids must lie in 0 .. 4, but hold 7 at index (1,).
    """
    if not isinstance(ids, np.ndarray) or ids.dtype.kind not in "iu":
        came = f"an array of {ids.dtype}" if isinstance(ids, np.ndarray) else f"{type(ids).__name__}"
        raise TypeError(f"{owner}: {name} must be an array of integers, but is {came}; use np.asarray({name}, np.int64).")
    if ids.size == 0:
        raise ValueError(f"{owner}: {name} is empty, shape {ids.shape}; give at least one id.")
    wrong = (ids < 0) | (ids >= size)
    if ignore_index is not None:
        wrong &= ids != ignore_index
    if wrong.any():
        index = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise ValueError(f"{owner}: {name} must lie in 0 .. {size - 1}, but hold {ids[index]} at index {index}.")


def check_whole(owner, name, value, least=1):
    """Check that `value` is a whole number, `least` or more (True and False are not numbers here).

    Examples
    --------
    >>> check_whole("demo", "width", 0)
    Traceback (most recent call last):
    ValueError: demo: width=0 must be a whole number, 1 or more.
    """
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise ValueError(f"{owner}: {name}={value!r} must be a whole number, {least} or more.")


def check_even(owner, name, value):
    """Check that `value` is an even whole number, 2 or more: rotary coordinates turn in pairs.

    Examples
    --------
    >>> check_even("demo", "width", 5)
    Traceback (most recent call last):
    ValueError: demo: width=5 must be even, for coordinates turn in pairs; use 6.
    """
    check_whole(owner, name, value, least=2)
    if value % 2:
        raise ValueError(f"{owner}: {name}={value} must be even, for coordinates turn in pairs; use {value + 1}.")


def check_number(owner, name, value, least=-np.inf, below=np.inf, above=-np.inf):
    """Check that `value` is a finite number with least <= value < below, and above < value.

    Examples
    --------
    >>> check_number("demo", "rate", 1.0, least=0, below=1)
    Traceback (most recent call last):
    ValueError: demo: rate=1.0 must be a number of at least 0 and below 1.
    """
    number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if not number or not abs(value) < np.inf or not least <= value < below or not above < value:
        bounds = ([f"of at least {least}"] * (least > -np.inf) + [f"above {above}"] * (above > -np.inf)
                  + [f"below {below}"] * (below < np.inf))
        raise ValueError(f"{owner}: {name}={value!r} must be a {'' if bounds else 'finite '}number {' and '.join(bounds)}".rstrip() + ".")


def check_generator(owner, rng):
    """Check that `rng` is a numpy.random.Generator or None.

    Examples
    --------
    >>> check_generator("demo", 3)
    Traceback (most recent call last):
    TypeError: demo: rng must be a numpy.random.Generator or None, but is int; use np.random.default_rng(seed).
    """
    if rng is not None and not isinstance(rng, np.random.Generator):
        raise TypeError(f"{owner}: rng must be a numpy.random.Generator or None, but is {type(rng).__name__}; "
                        "use np.random.default_rng(seed).")


def check_choice(owner, name, value, choices):
    """Check that `value` is one of `choices`.

    Examples
    --------
    >>> check_choice("demo", "layout", "spiral", ["half", "interleaved"])
    Traceback (most recent call last):
    ValueError: demo: layout='spiral' is unknown; choose from 'half', 'interleaved'.
    """
    if value not in choices:
        raise ValueError(f"{owner}: {name}={value!r} is unknown; choose from {', '.join(map(repr, choices))}.")


def check_divides(owner, name, value, part_name, part):
    """Check that `part` divides `value`, and say which numbers near by would.

    Examples
    --------
    >>> check_divides("MultiHeadAttention", "d_model", 10, "n_heads", 4)
    Traceback (most recent call last):
    ValueError: MultiHeadAttention: d_model=10 is not divisible by n_heads=4; use n_heads=5 or d_model=12.
    """
    check_whole(owner, name, value)
    check_whole(owner, part_name, part)
    if value % part:
        nearest = next(d for distance in range(1, value + part) for d in (part - distance, part + distance) if d > 0 and value % d == 0)
        raise ValueError(f"{owner}: {name}={value} is not divisible by {part_name}={part}; "
                         f"use {part_name}={nearest} or {name}={-(-value // part) * part}.")


def check_mask(owner, mask, shape):
    """Check that `mask` is an array of bool of a shape.

    Examples
    --------
    >>> check_mask("demo", np.ones((2, 3), bool), (2, 4))
    Traceback (most recent call last):
    ValueError: demo: mask must have shape (2, 4), True = real, but has shape (2, 3).
    """
    if not isinstance(mask, np.ndarray) or mask.dtype != bool:
        came = f"an array of {mask.dtype}" if isinstance(mask, np.ndarray) else f"{type(mask).__name__}"
        raise TypeError(f"{owner}: mask must be an array of bool, True = real, but is {came}; use np.arange(T) < lengths[:, None].")
    if mask.shape != shape:
        raise ValueError(f"{owner}: mask must have shape {shape}, True = real, but has shape {mask.shape}.")
