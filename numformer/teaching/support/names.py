"""What the parameters of the functions that were checked are called, for hints."""

_names = {}                   # function: ({name of the reference: own name}, own parameters)


def record_names(function, names, parameters):
    """Keep the names of the function that was checked last."""
    _names[function] = names, tuple(parameters)


def names_of(function):
    """({name of the reference: own name}, own parameters, or None before any check)."""
    return _names.get(function, ({}, None))
