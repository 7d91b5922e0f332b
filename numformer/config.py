"""Config: the base of everything that a config.json holds."""

from dataclasses import MISSING, asdict, fields
from reprlib import repr as brief
from typing import get_args

LARGEST = 2**63                                       # no size, step or seed of a file is as large
MOST_NUMBERS = 100                                    # of a list of sizes


class Config:
    """The base of configs, which are frozen dataclasses: to a dict for JSON, and back.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True, kw_only=True)
    ... class SizesConfig(Config):
    ...     d_model: int
    ...     n_layers: int = 2
    >>> SizesConfig.from_dict(SizesConfig(d_model=8).as_dict())
    SizesConfig(d_model=8, n_layers=2)
    >>> SizesConfig.from_dict({"width": 8})
    Traceback (most recent call last):
    ValueError: SizesConfig: the options do not fit; unknown: ['width'], missing: ['d_model'].
    """

    def as_dict(self):
        """All options by name."""
        return asdict(self)

    @classmethod
    def from_dict(cls, options):
        """The config of an `as_dict`, such as one from a file.

        Raises
        ------
        ValueError
            If an option is unknown, one without a default is missing, or a value is of another
            type than its field: a file may hold ``true`` or ``"8"`` where a number belongs.
        """
        unknown = set(options) - {field.name for field in fields(cls)}
        missing = {field.name for field in fields(cls) if field.default is MISSING} - set(options)
        if unknown or missing:
            raise ValueError(f"{cls.__name__}: the options do not fit; unknown: {sorted(unknown)}, "
                             f"missing: {sorted(missing)}.")
        for field in fields(cls):
            if field.name in options and not _is_a(field.type, options[field.name]):
                kind = getattr(field.type, "__name__", field.type)
                bound = " below 2^63" if type(options[field.name]) is int else ""
                raise ValueError(f"{cls.__name__}: {field.name}={brief(options[field.name])} must "
                                 f"be {kind}{bound}.")
        return cls(**options)


def _is_a(kind, value):
    """Whether a value may stand in a field: an int also for a float, True for neither."""
    if kind in (int | None, float | None, bool | None, dict | None, str | None):
        return value is None or _is_a(get_args(kind)[0], value)
    if kind is float:
        return type(value) is float or _is_a(int, value)
    return type(value) is kind and (kind is not int or abs(value) < LARGEST)


def whole_numbers(owner, name, value):
    """A list of sizes as text and as numbers: flags and files hold the text.

    Parameters
    ----------
    owner, name : str
        The config, and its name for the list: both appear in the message.
    value : str, or tuple or list of int
        Such as "2,2,6,2" or (2, 2, 6, 2).

    Raises
    ------
    ValueError
        If it is no list of whole numbers, each 1 or more, or one of more than 100.

    Examples
    --------
    >>> whole_numbers("demo", "depths", (2, 2, 6, 2))
    ('2,2,6,2', (2, 2, 6, 2))
    >>> whole_numbers("demo", "depths", "2,,6")
    Traceback (most recent call last):
    ValueError: demo: depths='2,,6' must be whole numbers, 1 or more, with commas, such as '2,6'.
    """
    parts = value.split(",") if isinstance(value, str) else value
    if isinstance(parts, (tuple, list)) and parts:
        words = [str(part).strip() for part in parts]
        if len(words) > MOST_NUMBERS:
            raise ValueError(f"{owner}: {name} holds {len(words)} numbers; give at most "
                             f"{MOST_NUMBERS}.")
        if all(word.isascii() and word.isdecimal() and 0 < int(word[:20]) < LARGEST
               for word in words):
            return ",".join(words), tuple(map(int, words))
    raise ValueError(f"{owner}: {name}={brief(value)} must be whole numbers, 1 or more, with "
                     "commas, such as '2,6'.")
