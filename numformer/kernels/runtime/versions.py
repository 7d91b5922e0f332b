"""Compiled versions, by the names of their functions: each registers itself where it is defined."""

import sys

VERSIONS = {}                           # function of `functional`: the module that has it compiled


def compiled_version(function):
    """Register the compiled version of the function of `functional` that has the same name.

    Its module also has ``NAME_backward``, if the function has a backward, and where that adds to
    gradients in place, ``NAME_backward_accumulate``.
    """
    VERSIONS[function.__name__] = sys.modules[function.__module__]
    return function
