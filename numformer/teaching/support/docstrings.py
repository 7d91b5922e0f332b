"""The docstring of a function, also where Python has left it out."""

import ast
import inspect
import textwrap
from functools import lru_cache
from inspect import unwrap


@lru_cache(maxsize=None)
def docstring(function):
    """The docstring without its indent, from the source: `python -OO` leaves it out; "" if none.

    Examples
    --------
    >>> docstring(docstring).partition(",")[0]
    'The docstring without its indent'
    """
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(unwrap(function)))).body
    return ast.get_docstring(definition) or ""
