"""Changes of brackets: a factor that reaches more terms or fewer, inside a sum or outside."""

import ast
from collections import namedtuple
from functools import lru_cache

Change = namedtuple("Change", "new what cost where", defaults=[""])
Change.__doc__ = """A new expression as text, and what was done to the old one, in words.

The lower the cost, 1 to 3, the likelier the mistake; `where` tells like parts of a line apart.
"""


@lru_cache(maxsize=2 ** 14)
def text(node):
    """The source of an expression, in one line; kept, for most are asked for many times."""
    return ast.unparse(node)


def bracket_changes(node):
    """The Changes of one product or sum, as if brackets were elsewhere.

    Examples
    --------
    >>> for change in bracket_changes(ast.parse("dy * (y + x)", mode="eval").body):
    ...     print(change.new, "|", change.what)
    (dy) * (y) + (x) | with the factor `dy` on `y` alone
    (y) + (dy) * (x) | with the factor `dy` on `x` alone
    """
    for factor, other in ((node.left, node.right), (node.right, node.left)):
        f = text(factor)
        if isinstance(node.op, ast.Mult):
            if isinstance(other, ast.BinOp) and isinstance(other.op, (ast.Add, ast.Sub)):
                sign = "+" if isinstance(other.op, ast.Add) else "-"
                one, two = text(other.left), text(other.right)
                cost = 3 if one == "1" else 2                     # 1 - t is one thing to most
                yield Change(f"({f}) * ({one}) {sign} ({two})",
                             f"with the factor `{f}` on `{one}` alone", cost)
                yield Change(f"({one}) {sign} ({f}) * ({two})",
                             f"with the factor `{f}` on `{two}` alone", cost)
            if (isinstance(other, ast.Call) and isinstance(other.func, ast.Attribute)
                    and other.func.attr in ("sum", "mean")):
                summed = text(ast.Call(ast.Name(other.func.attr), other.args, other.keywords))
                yield Change(f"(({f}) * ({text(other.func.value)})).{summed}",
                             f"with the factor `{f}` inside the {other.func.attr}", 2)
        elif isinstance(node.op, ast.Div) and other is node.left:
            if isinstance(other, ast.BinOp) and isinstance(other.op, (ast.Add, ast.Sub)):
                sign = "+" if isinstance(other.op, ast.Add) else "-"
                one, two = text(other.left), text(other.right)
                yield Change(f"({one}) / ({f}) {sign} ({two})",
                             f"with the division by `{f}` of `{one}` alone", 2)
                yield Change(f"({one}) {sign} ({two}) / ({f})",
                             f"with the division by `{f}` of `{two}` alone", 2)
        elif isinstance(node.op, (ast.Add, ast.Sub)):
            sign = "+" if isinstance(node.op, ast.Add) else "-"
            for part in factors(other):
                pair = (f"({part}) * ({f})", text(other))
                one, two = pair if factor is node.left else pair[::-1]
                yield Change(f"{one} {sign} {two}", f"with the factor `{part}` on `{f}` too", 2)


def exchanged_factors(node):
    """a * b + c * d as c * b + a * d: the Changes of a sum of two products."""
    sides = node.left, node.right
    if isinstance(node.op, (ast.Add, ast.Sub)) and all(
            isinstance(side, ast.BinOp) and isinstance(side.op, ast.Mult) for side in sides):
        (a, b), (c, d) = ((text(side.left), text(side.right)) for side in sides)
        sign = "+" if isinstance(node.op, ast.Add) else "-"
        yield Change(f"({c}) * ({b}) {sign} ({a}) * ({d})", f"with `{a}` and `{c}` exchanged", 1)


def factors(node):
    """The factors of a product, as text; none of another expression."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        parts = [factors(side) or [text(side)] for side in (node.left, node.right)]
        return parts[0] + parts[1]
    return []
