"""numformer: the Transformer family in NumPy, every gradient derived by hand.

`functional` holds functions and their backwards, `layers` classes that own parameters, `models`
whole architectures. `check` tests a gradient of your own, `hint` helps with one; `use` chooses
between NumPy, the reference, and the compiled kernels. The command `numformer deck` is the map of
the lecture notes that this implements.

Names and packages are imported on first use: NumPy and SciPy take half a second, in which the
command `numformer` could not answer Ctrl-C.
"""

from importlib import import_module

__version__ = "0.2.0"
__all__ = [
    "AttentionPattern", "Layer", "Parameter", "check", "functional", "get_threads", "hint",
    "layers", "models", "set_threads", "solution", "use",
]
_HOMES = {
    "AttentionPattern": "functional", "Layer": "parameter", "Parameter": "parameter",
    "check": "teaching", "get_threads": "backend", "hint": "teaching", "set_threads": "backend",
    "solution": "teaching", "use": "backend",
}


def __getattr__(name):
    if name in _HOMES:
        value = getattr(import_module(f"numformer.{_HOMES[name]}"), name)
    else:
        value = _room(name)
    globals()[name] = value
    return value


def __dir__():
    return sorted({*globals(), *__all__})


def _room(name):
    """A module of this package, as `numformer.verify`."""
    if not name.startswith("_"):
        try:
            return import_module(f"numformer.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"numformer.{name}":
                raise                                       # a package that it needs is missing
    raise AttributeError(f"module 'numformer' has no attribute {name!r}")
