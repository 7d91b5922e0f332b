"""Checks of arguments, before any work: shapes in the project's alphabet, types, ids, numbers.

Every message names the object, what must hold, what came, and the cure.

    B batch   T query positions   S key positions   H heads   G key-value heads   D width of a head
    C width of the model   F width of the feed-forward   V vocabulary
"""

import math
import reprlib
import sys
from functools import lru_cache

import numpy as np

from numformer.terminal import did_you_mean

_REAL = {np.dtype(kind): np.dtype(kind.lower()) for kind in "fdgFDG"}     # of floats: the real part


def check_array(owner, name, x, shape, dtype=None, **sizes):
    """Check that `x` is a floating array of a shape such as ``"(B, T, C)"`` or ``"(..., C)"``.

    Parameters
    ----------
    owner, name : str
        The caller, and its name for `x`: both appear in the message.
    x : ndarray, float32 or float64 (complex inside a complex-step check)
    shape : str
        One word for each axis; a leading ``...`` means any number of axes.
    dtype : dtype, optional
        Precision that `x` must have; complex numbers of that precision are allowed.
    **sizes : int
        The axes of known size.

    Returns
    -------
    dict
        Every named axis with its size, to be passed to the check of the next array.

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
    if type(x) is not np.ndarray or x.dtype not in _REAL:
        if not isinstance(x, np.ndarray) or x.dtype.newbyteorder("=") not in _REAL:
            raise TypeError(f"{owner}: {name} must be an array of floats (float32 or float64), but "
                            f"is {_kind(x)}; use np.asarray({name}, np.float32).")
        _check_plain(owner, name, x)
    if dtype is not None and x.dtype != dtype and _REAL[x.dtype] != _REAL[np.dtype(dtype)]:
        raise TypeError(f"{owner}: {name} is {x.dtype}, but must have the precision of the other "
                        f"arrays, {np.dtype(dtype)}; cast it with .astype("
                        f"np.{_REAL[np.dtype(dtype)]}).")
    found = _axes_of(shape, x.shape, tuple(sizes.items()))
    if found is None:
        known = ", ".join(f"{axis}={sizes[axis]}" for axis in _axes(shape)[1] if axis in sizes)
        raise ValueError(f"{owner}: {name} must have shape {shape}"
                         f"{' with ' + known if known else ''}, but has shape {x.shape}.")
    return found.copy()


def check_arrays(owner, *arrays, **sizes):
    """Check several arrays of one precision by `check_array`; a size found in one holds for all.

    Parameters
    ----------
    owner : str
    *arrays : (name, x, shape)
        In the order in which they are checked. The precision is that of the first. A shape such as
        ``"(F,) or None"`` allows None.
    **sizes : int

    Returns
    -------
    dict
        Every named axis with its size.

    Examples
    --------
    >>> check_arrays("demo", ("x", np.zeros((2, 3)), "(T, C)"), ("bias", None, "(C,) or None"))
    {'T': 2, 'C': 3}
    >>> check_arrays("demo", ("x", np.zeros((2, 3)), "(T, C)"), ("bias", np.zeros(2), "(C,)"))
    Traceback (most recent call last):
    ValueError: demo: bias must have shape (C,) with C=3, but has shape (2,).
    """
    dtype = None
    for name, x, shape in arrays:
        if shape.endswith(" or None"):
            if x is None:
                continue
            shape = shape.removesuffix(" or None")
        sizes = check_array(owner, name, x, shape, dtype, **sizes)
        dtype = x.dtype if dtype is None else dtype
    return sizes


def _check_plain(owner, name, x):
    """Check that an array is NumPy's own, with numbers in this machine's byte order."""
    # masked arrays and matrices have another arithmetic; a class with `is_plain` has not
    if type(x) not in (np.ndarray, np.memmap) and not getattr(type(x), "is_plain", False):
        cure = ("fill it with .filled() and pass a mask where one is taken"
                if isinstance(x, np.ma.MaskedArray) else f"use np.asarray({name})")
        raise TypeError(f"{owner}: {name} must be a plain NumPy array, but is a "
                        f"{type(x).__name__}; {cure}.")
    if not x.dtype.isnative:
        raise TypeError(f"{owner}: {name} is {x.dtype}, in another byte order than this machine's; "
                        f"use {name}.astype({name}.dtype.newbyteorder('=')).")


def _kind(x):
    """What was passed instead, for a message."""
    return f"an array of {x.dtype}" if isinstance(x, np.ndarray) else type(x).__name__


@lru_cache(maxsize=None)
def _axes(shape):
    """"(..., B, T)" as (True, ("B", "T")): whether other axes may come first, and the names."""
    axes = tuple(axis for axis in shape.strip("()").replace(" ", "").split(",") if axis)
    return (True, axes[1:]) if axes[:1] == ("...",) else (False, axes)


@lru_cache(maxsize=4096)
def _axes_of(shape, found, sizes):
    """Every named axis with its size in an array of shape `found`; None if that does not fit."""
    more, axes = _axes(shape)
    known, beyond = dict(sizes), len(found) - len(axes)
    fits = beyond >= 0 if more else beyond == 0
    if fits:
        for axis, size in zip(axes, found[beyond:]):
            fits &= known.setdefault(axis, size) == size
    return known if fits else None


def check_ids(owner, name, ids, size, ignore_index=None, may_be_empty=False):
    """Check that `ids` holds integers of 0 .. size-1, or `ignore_index`; none if `may_be_empty`.

    Raises
    ------
    TypeError
        If the ids are not integers: a float id would be truncated silently.
    ValueError
        If an id is out of range: a negative one would silently count from the end.

    Examples
    --------
    >>> check_ids("demo", "ids", np.array([0, 7]), 5)
    Traceback (most recent call last):
    ValueError: demo: ids must lie in 0 .. 4, but hold 7 at index (1,).
    """
    if not isinstance(ids, np.ndarray) or ids.dtype.kind not in "iu":
        raise TypeError(f"{owner}: {name} must be an array of integers, but is {_kind(ids)}; "
                        f"use np.asarray({name}, np.int64).")
    _check_plain(owner, name, ids)
    if ids.size == 0 and not may_be_empty:
        raise ValueError(f"{owner}: {name} is empty, shape {ids.shape}; give at least one id.")
    if ids.size == 0 or ids.min() >= 0 and ids.max() < size:      # as a rule; it makes no array
        return
    wrong = (ids < 0) | (ids >= size)
    wrong &= True if ignore_index is None else ids != ignore_index
    if wrong.any():
        index = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise ValueError(f"{owner}: {name} must lie in 0 .. {size - 1}, but hold {ids[index]} at "
                         f"index {index}.")


def check_whole(owner, name, value, least=1, most=None):
    """Check that `value` is a whole number, `least` or more (True and False are not numbers here),
    and not above `most`.

    Examples
    --------
    >>> check_whole("demo", "width", 0)
    Traceback (most recent call last):
    ValueError: demo: width=0 must be a whole number, 1 or more.
    >>> check_whole("demo", "width", 9, most=8)
    Traceback (most recent call last):
    ValueError: demo: width=9 must be a whole number, 1 to 8.
    """
    if (isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least
            or most is not None and value > most):
        bounds = f"{least} or more" if most is None else f"{least} to {most}"
        raise ValueError(f"{owner}: {name}={shown(value)} must be a whole number, {bounds}.")


def check_even(owner, name, value):
    """Check that `value` is an even whole number, 2 or more: rotary coordinates are pairs.

    Examples
    --------
    >>> check_even("demo", "width", 5)
    Traceback (most recent call last):
    ValueError: demo: width=5 must be even, because coordinates are rotated in pairs; use 6.
    """
    check_whole(owner, name, value, least=2)
    if value % 2:
        raise ValueError(f"{owner}: {name}={value} must be even, because coordinates are rotated "
                         f"in pairs; use {value + 1}.")


def check_number(owner, name, value, least=-np.inf, below=np.inf, above=-np.inf):
    """Check that `value` is a finite number with least <= value < below, and above < value.

    An integer that no float can hold is none: every number here is used as a float.

    Examples
    --------
    >>> check_number("demo", "rate", 1.0, least=0, below=1)
    Traceback (most recent call last):
    ValueError: demo: rate=1.0 must be a number of at least 0 and below 1.
    """
    number = (isinstance(value, (int, float, np.integer, np.floating))
              and not isinstance(value, bool))
    beyond = number and isinstance(value, int) and abs(value) > sys.float_info.max
    if (not number or beyond or not math.isfinite(value) or not least <= value < below
            or not above < value):
        bounds = ([f"of at least {least}"] * (least > -np.inf)
                  + [f"above {above}"] * (above > -np.inf) + [f"below {below}"] * (below < np.inf))
        what = f"number {' and '.join(bounds)}" if bounds else "finite number"
        raise ValueError(f"{owner}: {name}={shown(value)} must be a {what}"
                         f"{', small enough for a float' * beyond}.")


def shown(value, form=repr):
    """A value for a message: of a very long integer only how many digits it has.

    Examples
    --------
    >>> shown(7), shown("7"), shown(-10**5000)
    ('7', "'7'", 'an integer of about 5001 digits')
    """
    if isinstance(value, int) and value.bit_length() > 200:
        return f"an integer of about {int(value.bit_length() * 0.30103) + 1} digits"
    try:
        return form(value)
    except ValueError:                                # Python prints no integer of 5000 digits
        return f"{type(value).__name__} with a very long integer"


def brief(value):
    """`shown`, of long texts and lists only the beginning and the end."""
    return shown(value, reprlib.repr)


def check_generator(owner, rng, optional=True):
    """Check that `rng` is a numpy.random.Generator, or None where it is `optional`.

    Examples
    --------
    >>> check_generator("demo", 3)  # doctest: +NORMALIZE_WHITESPACE
    Traceback (most recent call last):
    TypeError: demo: rng must be a numpy.random.Generator or None, but is int;
    use np.random.default_rng(seed).
    """
    if not isinstance(rng, np.random.Generator) and not (optional and rng is None):
        raise TypeError(f"{owner}: rng must be a numpy.random.Generator{' or None' * optional}, "
                        f"but is {type(rng).__name__}; use np.random.default_rng(seed).")


def check_choice(owner, name, value, choices):
    """Check that `value` is one of `choices`.

    Examples
    --------
    >>> check_choice("demo", "layout", "spiral", ["half", "interleaved"])
    Traceback (most recent call last):
    ValueError: demo: layout='spiral' is unknown; choose from 'half', 'interleaved'.
    """
    if isinstance(value, (list, dict, set)) or value not in choices:
        closest = "" if isinstance(value, int) else did_you_mean(value, choices)
        raise ValueError(f"{owner}: {name}={shown(value)} is unknown{closest}; "
                         f"choose from {', '.join(map(repr, choices))}.")


def check_divides(owner, name, value, part_name, part):
    """Check that `part` divides `value`; the message names numbers near by that do.

    Examples
    --------
    >>> check_divides("demo", "d_model", 10, "n_heads", 4)
    Traceback (most recent call last):
    ValueError: demo: d_model=10 is not divisible by n_heads=4; use n_heads=5 or d_model=12.
    """
    check_whole(owner, name, value)
    check_whole(owner, part_name, part)
    if value % part:
        nearest = next((divisor for distance in range(1, min(value + part, 10_000))
                        for divisor in (part - distance, part + distance)
                        if divisor > 0 and value % divisor == 0), 1)
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
        raise TypeError(f"{owner}: mask must be an array of bool, True = real, but is "
                        f"{_kind(mask)}; use np.arange(T) < lengths[:, None].")
    if mask.shape != shape:
        raise ValueError(f"{owner}: mask must have shape {shape}, True = real, but has shape "
                         f"{mask.shape}.")


def check_rows(owner, name, ids, axis="T"):
    """Check that `ids` holds integers, a row for each sequence; `check_ids` checks the rest.

    Examples
    --------
    >>> check_rows("demo", "ids", np.array([1, 2]))
    Traceback (most recent call last):
    ValueError: demo: ids must have shape (B, T), but have (2,); a single sequence is ids[None].
    """
    if not isinstance(ids, np.ndarray) or ids.dtype.kind not in "iu":
        raise TypeError(f"{owner}: {name} must be an array of integers, but is {_kind(ids)}; "
                        f"use np.asarray({name}, np.int64).")
    if ids.ndim != 2:
        raise ValueError(f"{owner}: {name} must have shape (B, {axis}), but have {ids.shape}; "
                         f"a single sequence is {name}[None].")
    if not ids.size:
        raise ValueError(f"{owner}: {name} is empty, shape {ids.shape}; give at least one id.")


def check_lengths(owner, lengths, B, T, axis="T"):
    """Check the numbers of tokens of B rows without their padding, each 1 .. T.

    Examples
    --------
    >>> check_lengths("demo", np.array([3, 9]), 2, 5)
    Traceback (most recent call last):
    ValueError: demo: lengths must be B=2 whole numbers in 1 .. T=5, but are [3, 9].
    """
    whole = isinstance(lengths, np.ndarray) and lengths.dtype.kind in "iu" and lengths.shape == (B,)
    if whole:
        _check_plain(owner, "lengths", lengths)
    if not whole or B and not 1 <= lengths.min() <= lengths.max() <= T:
        raise ValueError(f"{owner}: lengths must be B={B} whole numbers in 1 .. {axis}={T}, "
                         f"but are {np.asarray(lengths).tolist()}.")
