"""The docstring of a function, also where Python has left it out, and the formulas in it."""

import ast
import inspect
import re
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


def formulas(text):
    r"""The formulas of a docstring that stand in lines of their own, in LaTeX.

    Examples
    --------
    >>> formulas('''A line.
    ...
    ... .. math::
    ...
    ...     y = x^2, \\qquad
    ...     z = y
    ...
    ... Other words.''')
    ['y = x^2, \\qquad z = y']
    """
    found = re.findall(r"\.\. math::(.*?)(?:\n\s*\n(?!\s)|\Z)", text, re.DOTALL)
    return [" ".join(lines.split()) for lines in found]
