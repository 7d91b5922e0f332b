"""A matrix product whose shapes do not fit: which of its factors fits if it is transposed.

The message of NumPy ("mismatch in its core dimension 0, with gufunc signature ...") names neither
the product nor what would help.
"""

import ast
import inspect
import textwrap

import numpy as np

PRODUCTS = ("matmul", "dot")


def unfitting_product(error, file):
    """Words on the product that an exception is about; "" if it is about none.

    Parameters
    ----------
    error : BaseException
        With the traceback of a student's function.
    file : str
        Where the function is; its frames alone are looked at.

    Returns
    -------
    str
        Such as "`dz @ q`: (2, 4, 3) and (2, 4, 5) do not fit; they do with `dz` transposed (.mT)".

    Examples
    --------
    >>> def backward(dy, weight):
    ...     return dy @ weight
    >>> try:
    ...     backward(np.ones((2, 3)), np.ones((4, 3)))
    ... except ValueError as error:
    ...     unfitting_product(error, backward.__code__.co_filename)
    '`dy @ weight`: (2, 3) and (4, 3) do not fit; they do with `weight` transposed (.mT)'
    """
    if not isinstance(error, ValueError):
        return ""
    frame = _last_frame(error, file)
    if frame is None:
        return ""
    for left, right, product in _products(frame):
        try:
            a, b = (_value(operand, frame.tb_frame) for operand in (left, right))
        except Exception:                                 # an operand that is not a mere name
            continue
        if np.ndim(a) > 1 and np.ndim(b) > 1 and a.shape[-1] != b.shape[-2]:
            return f"`{product}`: {_words(a, b, *map(ast.unparse, (left, right)))}"
    return ""


def _last_frame(error, file):
    """The innermost frame of a file in a traceback; None if there is none."""
    found, entry = None, error.__traceback__
    while entry is not None:
        if entry.tb_frame.f_code.co_filename == file:
            found = entry
        entry = entry.tb_next
    return found


def _products(frame):
    """(left, right, text) of each matrix product in the statement where a frame stands."""
    code = frame.tb_frame.f_code
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(code)))
    except (OSError, SyntaxError, TypeError):             # typed into a console
        return
    line = frame.tb_lineno - code.co_firstlineno + 1
    for node in ast.walk(tree):
        if not (isinstance(node, ast.expr) and node.lineno <= line <= node.end_lineno):
            continue
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            yield node.left, node.right, ast.unparse(node)
        elif (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
              and node.func.attr in PRODUCTS and len(node.args) == 2):
            yield *node.args, ast.unparse(node)


def _value(node, frame):
    """An operand: names, subscripts, transposes and other products, but no calls of functions."""
    for part in ast.walk(node):
        if isinstance(part, ast.Call) and not (
                isinstance(part.func, ast.Attribute)
                and part.func.attr in ("transpose", "swapaxes", "reshape", "sum")):
            raise ValueError("a call")
    code = compile(ast.Expression(node), "<operand>", "eval")
    return eval(code, frame.f_globals, frame.f_locals)    # of the student's own code, where it ran


def _words(a, b, left, right):
    fits = [f"`{name}` transposed (.mT)" for name, one in (
        (left, a.shape[-2] == b.shape[-2]), (right, a.shape[-1] == b.shape[-1])) if one]
    both = "" if a.shape[-2] != b.shape[-1] else "both transposed"
    told = " or ".join(fits) or both
    more = f"; they do with {told}" if told else ""
    return f"{a.shape} and {b.shape} do not fit{more}"
