"""Config: the base of everything that a config.json holds, and `option`, a field of it.

A field is described once, where it is declared. The check of its value, the docstring of its class,
config.json in and out, and the flags of `numformer train` with their help follow from that.
"""

import re
from dataclasses import MISSING, asdict, dataclass, field, fields
from inspect import get_annotations
from textwrap import wrap
from typing import get_args

import numpy as np

from numformer.checks import brief, check_choice, check_number, check_whole, shown

LARGEST = 2**63                                       # no size, step or seed of a file is as large
MOST_NUMBERS = 100                                    # of a list of sizes
DTYPES = "float32", "float64"
# What a float of a config may be, but for 0: its square is a number of the dtype, too
RANGES = {"float32": (1e-19, 1e19), "float64": (1e-150, 1e150)}
REQUIRED = MISSING                                    # the default of a field that must be given


@dataclass(frozen=True, kw_only=True)
class Rule:
    """What is known about a field of a config besides its type and default: see `option`."""

    help: str
    least: float | None = None
    most: int | None = None
    above: float | None = None
    below: float | None = None
    choices: tuple | None = None
    numbers: bool = False
    several: bool = False

    def check(self, owner, name, kind, value):
        """`value` for a field of type `kind`, in the form in which it is kept.

        Raises
        ------
        ValueError
            If the value is out of its bounds, or none of the choices.
        """
        kind, optional = plain_type(kind)
        if kind is bool:
            check_choice(owner, name, value, [None, True, False] if optional else [True, False])
        elif value is None and optional:
            return None
        elif self.numbers:
            return whole_numbers(owner, name, value)[0]
        elif self.several:
            return _names(owner, name, value, self.choices)
        elif self.choices is not None:
            check_choice(owner, name, value, self.choices)
        elif kind is int:
            check_whole(owner, name, value, 1 if self.least is None else self.least, self.most)
        elif kind is float:
            bounds = dict(least=self.least, above=self.above, below=self.below)
            check_number(owner, name, value, **{name: bound for name, bound in bounds.items()
                                                if bound is not None})
        return value

    def kind(self, kind):
        """The type of a field for its docstring, such as 'float in [0, 1), optional'."""
        kind, optional = plain_type(kind)
        text = kind.__name__
        if self.choices is not None:
            *names, last = (f'"{choice}"' for choice in self.choices)
            text = f"{', '.join(names)} or {last}" if names else last
            text += ", or several with commas" * self.several
        elif kind is int and self.least not in (None, 1):
            text += f", {self.least} or more"
        elif self.least is not None and self.below is not None:
            text += f" in [{self.least}, {self.below})"
        elif kind is float:
            text += "".join(f" {word} {bound}" for word, bound in (
                ("of at least", self.least), ("above", self.above), ("below", self.below))
                if bound is not None)
        return text + ", optional" * optional


def option(help, default=REQUIRED, **rule):
    """A field of a `Config`.

    Parameters
    ----------
    help : str
        What it is, first in one sentence.
    default
        Its value unless given; a field without one must be given.
    **rule
        What its value may be: `least`, `most`, `above` and `below` for a number, where a whole
        number is 1 or more unless told otherwise; `choices` for a text, such as the names of a
        table; `several=True` for a list of these; `numbers=True` for a list of whole numbers such
        as "2,2,6,2". True and False, and None for a type such as ``int | None``, need no rule.
    """
    choices = rule.pop("choices", None)
    rule = Rule(help=help, choices=None if choices is None else tuple(choices), **rule)
    return field(default=default, metadata={"rule": rule})


def like(config, name, *default):
    """A field that another config describes: its words and rules, and its default unless given."""
    known = config.__dataclass_fields__[name]
    return field(default=default[0] if default else known.default, metadata=known.metadata)


def plain_type(kind):
    """The type of a field without None, and whether it may be None.

    Examples
    --------
    >>> plain_type(int | None), plain_type(str)
    ((<class 'int'>, True), (<class 'str'>, False))
    """
    optional = type(None) in get_args(kind)
    return (get_args(kind)[0] if optional else kind), optional


class Config:
    """The base of configs, which are frozen dataclasses: to a dict for JSON, and back.

    A subclass that gives a field of its base another default keeps the rest of the field. The
    parameters in its docstring are written from its fields.

    Raises
    ------
    ValueError
        If a value does not fit its field.

    Examples
    --------
    >>> @dataclass(frozen=True, kw_only=True)
    ... class SizesConfig(Config):
    ...     d_model: int = option("C, the width.")
    ...     n_layers: int = option("Number of blocks.", 2, most=100)
    >>> SizesConfig.from_dict(SizesConfig(d_model=8).as_dict())
    SizesConfig(d_model=8, n_layers=2)
    >>> SizesConfig.from_dict({"width": 8})
    Traceback (most recent call last):
    ValueError: SizesConfig: the options do not fit; unknown: ['width'], missing: ['d_model'].
    >>> SizesConfig(d_model=8, n_layers=101)
    Traceback (most recent call last):
    ValueError: SizesConfig: n_layers=101 must be a whole number, 1 to 100.
    """

    def __init_subclass__(cls, **options):
        super().__init_subclass__(**options)
        for name, kind in get_annotations(cls).items():
            value, known = vars(cls).get(name, REQUIRED), _known(cls, name)
            if known is not None and not hasattr(value, "metadata"):
                setattr(cls, name, field(default=value, metadata=known.metadata))
            elif not hasattr(value, "metadata") and "ClassVar" not in str(kind):
                raise TypeError(f"{cls.__name__}: {name} needs a description; write {name}: "
                                f"{getattr(kind, '__name__', kind)} = option(\"What it is.\").")
        if cls.__doc__ and "    Parameters\n" not in cls.__doc__:     # python -OO has none
            cls.__doc__ = _documented(cls)

    def __post_init__(self):
        for each in fields(self):
            value = getattr(self, each.name)
            kept = each.metadata["rule"].check(type(self).__name__, each.name, each.type, value)
            if kept is not value:
                object.__setattr__(self, each.name, kept)
        for each in fields(self) if hasattr(self, "dtype") else []:
            if plain_type(each.type)[0] in (float, dict):
                self._check_range(each, getattr(self, each.name))

    def _check_range(self, field, value):
        """ValueError for numbers that the dtype does not hold: of a field, or of a dict in it."""
        smallest, largest = RANGES[self.dtype]
        values = value if isinstance(value, dict) else {field.name: value}
        divides = field.metadata["rule"].above == 0                   # as a cap or a temperature
        for name, each in values.items():
            number = isinstance(each, (int, float, np.number))
            if number and (not abs(each) <= largest or divides and abs(each) < smallest):
                bounds = f"{smallest:g} to {largest:g}" if divides else f"at most {largest:g}"
                name = name if values is not value else f"{field.name}: {name}"
                raise ValueError(f"{type(self).__name__}: {name}={shown(each)} must be {bounds} "
                                 f"with dtype={self.dtype!r}, so that its square is in range.")

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
        unknown = set(options) - {each.name for each in fields(cls)}
        missing = {each.name for each in fields(cls) if each.default is MISSING} - set(options)
        if unknown or missing:
            raise ValueError(f"{cls.__name__}: the options do not fit; unknown: {sorted(unknown)}, "
                             f"missing: {sorted(missing)}.")
        for each in fields(cls):
            if each.name in options and not _is_a(each.type, options[each.name]):
                kind = getattr(each.type, "__name__", each.type)
                bound = " below 2^63" if type(options[each.name]) is int else ""
                raise ValueError(f"{cls.__name__}: {each.name}={brief(options[each.name])} must "
                                 f"be {kind}{bound}.")
        return cls(**options)


def _known(cls, name):
    """The field of this name in the bases of a config; None if there is none."""
    return next((base.__dataclass_fields__[name] for base in cls.__mro__[1:]
                 if name in getattr(base, "__dataclass_fields__", {})), None)


def _documented(cls):
    """The docstring of a config, with the parameters that it declares itself."""
    lines = []
    for name, kind in get_annotations(cls).items():
        if hasattr(vars(cls).get(name), "metadata"):                  # no ClassVar
            declared = vars(cls)[name]
            rule, default = declared.metadata["rule"], declared.default
            shown = "" if default in (REQUIRED, None) else f", default {default!r}"
            lines += [f"{name} : {rule.kind(kind)}{shown}",
                      *("    " + line for line in wrap(rule.help, 92))]
    section = "\n".join("    " + line for line in ("Parameters", "----------", *lines))
    text = cls.__doc__.rstrip()
    after = re.search(r"\n    (Raises|References|Examples)\n", text)
    first, rest = (text, "") if after is None else (text[:after.start()], text[after.start():])
    return (f"{first.rstrip()}\n\n{section}\n{rest}\n    " if lines else cls.__doc__)


def _is_a(kind, value):
    """Whether a value may stand in a field: an int also for a float, True for neither."""
    if kind in (int | None, float | None, bool | None, dict | None, str | None):
        return value is None or _is_a(get_args(kind)[0], value)
    if kind is float:
        return type(value) is float or _is_a(int, value)
    return type(value) is kind and (kind is not int or abs(value) < LARGEST)


def _names(owner, name, value, choices):
    """A list of choices as text, in which form flags and files hold it; it may come as a list."""
    names = ([name.strip() for name in value.split(",")] if isinstance(value, str) else value)
    if not isinstance(names, (tuple, list)) or not names or not set(map(repr, names)) <= set(
            map(repr, choices)):
        raise ValueError(f"{owner}: {name}={brief(value)} must be {' or '.join(choices)}, or "
                         f"several of them with commas, such as '{','.join(choices)}'.")
    return ",".join(names)


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
