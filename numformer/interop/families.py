"""The families of published models: every table in a folder of `numformer.models`.

A table is a `Family` on a page whose name ends in ``weights``.
"""

from importlib import import_module
from pkgutil import walk_packages

from numformer import models
from numformer.weights.family import Family


def _tables():
    """Those of all pages, in their order; a page may hold a tuple of them."""
    for page in walk_packages(models.__path__, f"{models.__name__}."):
        if page.name.endswith("weights"):
            for value in vars(import_module(page.name)).values():
                for table in value if isinstance(value, tuple) else (value,):
                    if isinstance(table, Family):
                        yield table


FAMILIES = {family.name: family for family in _tables()}

__all__ = ["FAMILIES"]
