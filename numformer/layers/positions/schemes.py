"""The position schemes by the names that configs use: every file of this folder that has one."""

import pkgutil
from importlib import import_module

from numformer.layers.positions.added import AddedPositions
from numformer.layers.positions.in_attention import AttentionPositions


def _schemes(base):
    """{scheme: class} of the subclasses of a base, in the order of their pages."""
    folder = __name__.rpartition(".")[0]
    paths = import_module(folder).__path__
    kinds = [kind for page in pkgutil.iter_modules(paths)
             for kind in vars(import_module(f"{folder}.{page.name}")).values()
             if isinstance(kind, type) and issubclass(kind, base)]
    return {kind.scheme: kind for kind in kinds if vars(kind).get("scheme") is not None}


ADDED = _schemes(AddedPositions)                      # to the input of a stack
IN_ATTENTION = _schemes(AttentionPositions)           # in the attention of every block
