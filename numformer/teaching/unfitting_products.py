"""A matrix product whose shapes do not fit, and what would: a transpose, or the other order.

The message of NumPy ("mismatch in its core dimension 0, with gufunc signature ...") names neither
the product nor what would help. What is advised is tried on the shapes first, batch axes included.
"""

import ast
import inspect
import textwrap
from dataclasses import dataclass

import numpy as np

PRODUCTS = ("matmul", "dot")                         # np.dot pairs the batch axes of both


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
        Such as "`dz @ q`: (2, 4, 3) and (2, 4, 5) do not fit; `dz.mT @ q` does".

    Examples
    --------
    >>> def backward(dy, weight):
    ...     return dy @ weight
    >>> try:
    ...     backward(np.ones((2, 3)), np.ones((4, 3)))
    ... except ValueError as error:
    ...     unfitting_product(error, backward.__code__.co_filename)
    '`dy @ weight`: (2, 3) and (4, 3) do not fit; `dy @ weight.mT` does'
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
        if np.ndim(a) > 1 and np.ndim(b) > 1 and not _fit(a.shape, b.shape):
            return f"`{product}`: {_words(Factor(left, a.shape), Factor(right, b.shape))}"
    return ""


def unpacked_pair(error, file):
    """Words on a variable that is a pair, (array, saved), where the array was meant; "" if none is.

    Parameters
    ----------
    error, file
        As in `unfitting_product`.

    Examples
    --------
    >>> def forward(x):
    ...     a = (x, "saved")
    ...     return x + a
    >>> try:
    ...     forward(np.ones((2, 3)))
    ... except Exception as error:
    ...     unpacked_pair(error, forward.__code__.co_filename)
    '`a` is a tuple that begins with an array: take that alone, as by `a, saved = ...`'
    """
    frame = _last_frame(error, file)
    if frame is None:
        return ""
    for node in _nodes(frame, ast.Name):
        value = frame.tb_frame.f_locals.get(node.id)
        if isinstance(value, tuple) and len(value) == 2 and isinstance(
                value[0], np.ndarray) and not isinstance(value[1], np.ndarray):
            return (f"`{node.id}` is a tuple that begins with an array: take that alone, as by "
                    f"`{node.id}, saved = ...`")
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
    for node in _nodes(frame, ast.expr):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            yield node.left, node.right, ast.unparse(node)
        elif (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
              and node.func.attr in PRODUCTS and len(node.args) == 2):
            yield *node.args, ast.unparse(node)


def _nodes(frame, kind):
    """The nodes of a kind in the lines where a frame stands."""
    code = frame.tb_frame.f_code
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(code)))
    except (OSError, SyntaxError, TypeError):             # typed into a console
        return
    line = frame.tb_lineno - code.co_firstlineno + 1
    for node in ast.walk(tree):
        if isinstance(node, kind) and node.lineno <= line <= node.end_lineno:
            yield node


def _value(node, frame):
    """An operand: names, subscripts, transposes and other products, but no calls of functions."""
    for part in ast.walk(node):
        if isinstance(part, ast.Call) and not (
                isinstance(part.func, ast.Attribute)
                and part.func.attr in ("transpose", "swapaxes", "reshape", "sum")):
            raise ValueError("a call")
    code = compile(ast.Expression(node), "<operand>", "eval")
    return eval(code, frame.f_globals, frame.f_locals)    # of the student's own code, where it ran


@dataclass
class Factor:
    """A factor of a product: its expression, and the shape that it has here."""

    node: ast.expr
    shape: tuple

    def __str__(self):
        code = ast.unparse(self.node)
        whole = (ast.Name, ast.Attribute, ast.Subscript, ast.Call)
        return code if isinstance(self.node, whole) else f"({code})"

    @property
    def all_axes_reversed(self):
        """The array of which this is ``.T``, if that has more than two axes; else None."""
        if len(self.shape) > 2 and isinstance(self.node, ast.Attribute) and self.node.attr == "T":
            return Factor(self.node.value, self.shape[::-1])
        return None

    @property
    def transposed(self):
        """The factor with its last two axes exchanged."""
        shape = (*self.shape[:-2], self.shape[-1], self.shape[-2])
        if isinstance(self.node, ast.Attribute) and (
                self.node.attr == "mT" or self.node.attr == "T" and len(self.shape) == 2):
            return Factor(self.node.value, shape)
        return Factor(ast.Attribute(ast.Name(str(self)), "mT"), shape)


def _fit(one, other):
    """Whether the matrix product of arrays of these shapes exists."""
    try:
        np.broadcast_shapes(one[:-2], other[:-2])
    except ValueError:
        return False
    return one[-1] == other[-2]


def _words(left, right):
    """Why a product does not exist, and which one does: the likeliest that fits."""
    told = f"{left.shape} and {right.shape} do not fit"
    of = {id(factor): factor.all_axes_reversed for factor in (left, right)}
    reversed_ = [factor for factor in (left, right) if of[id(factor)]]
    for factor in reversed_:
        n = len(factor.shape)
        told += (f"; `{factor}` reverses all {n} axes of `{of[id(factor)]}`, and .mT exchanges the "
                 "last two alone")
    # of an array with all axes reversed, what is meant is the array, transposed or not
    left, right = (of[id(factor)].transposed if of[id(factor)] else factor
                   for factor in (left, right))
    for one, other in _others(left, right, bool(reversed_)):
        if _fit(one.shape, other.shape):
            verb = "fits" if reversed_ else "does"
            return f"{told}{':' if reversed_ else ';'} `{one} @ {other}` {verb}"
    if left.shape[-1] == right.shape[-2]:
        told += (f"; the last two axes do, but {left.shape[:-2]} and {right.shape[:-2]} before "
                 "them do not broadcast")
    return told


def _others(left, right, may_be_right):
    """(left, right) of other products, the likeliest first."""
    if may_be_right:
        yield left, right
    if len(left.shape) == 2 < len(right.shape):           # a weight, which stands on the right
        yield right, left
        yield right.transposed, left
    yield left.transposed, right
    yield left, right.transposed
    yield left.transposed, right.transposed
