"""What a student's function takes: `saved`, an option, further arguments."""

import inspect
from functools import lru_cache


def takes_saved(fn):
    """Whether the second argument is named `saved`."""
    try:
        names = list(inspect.signature(fn).parameters)
    except (TypeError, ValueError):
        return False
    return len(names) > 1 and names[1] == "saved"


def accepts(fn, option):
    """Whether a function takes a keyword argument of this name."""
    try:
        parameters = inspect.signature(fn).parameters.values()
    except (TypeError, ValueError):
        return True
    return any(p.kind == p.VAR_KEYWORD or p.name == option and p.kind != p.POSITIONAL_ONLY
               for p in parameters)


def promises(fn, instance, backward, named=False):
    """Whether the signature of a function promises the level of an instance.

    If the level is `named` by who checks, only its options count: they have to be passed.
    """
    level = instance.problem.levels[instance.level]
    arguments, options = instance.numbers
    if backward and takes_saved(fn):
        return True
    if not all(accepts(fn, name) for name in options):
        return False
    return named or (all(accepts(fn, name) for name in level.needs)
                     and (not level.optional or may_be_none(fn, len(arguments) + backward)))


def may_be_none(fn, position):
    """Whether the parameter at a position has a default of None."""
    try:
        parameters = list(inspect.signature(fn).parameters.values())
    except (TypeError, ValueError):
        return False
    return len(parameters) > position and parameters[position].default is None


@lru_cache
def defaults(reference):
    """{parameter: its default} of a function."""
    return {name: p.default for name, p in inspect.signature(reference).parameters.items()
            if p.default is not p.empty}


def missing_defaults(fn, known, n_given):
    """Of the reference's defaults, those of further arguments that `fn` requires."""
    try:
        further = list(inspect.signature(fn).parameters.values())[n_given:]
    except (TypeError, ValueError):
        return {}
    return {p.name: known[p.name] for p in further if p.default is p.empty and p.name in known
            and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
