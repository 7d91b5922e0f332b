"""Changes of brackets: a factor that reaches more terms or fewer, inside a sum or outside."""

import ast
from collections import namedtuple

Change = namedtuple("Change", "new what cost")       # cost: the lower, the likelier the mistake
Change.__doc__ = "A new expression as text, what was done to the old one, and 1, 2 or 3."


def text(node):
    """The source of an expression, in one line."""
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
        elif isinstance(node.op, (ast.Add, ast.Sub)):
            sign = "+" if isinstance(node.op, ast.Add) else "-"
            for part in factors(other):
                pair = (f"({part}) * ({f})", text(other))
                one, two = pair if factor is node.left else pair[::-1]
                yield Change(f"{one} {sign} {two}", f"with the factor `{part}` on `{f}` too", 2)


def factors(node):
    """The factors of a product, as text; none of another expression."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        parts = [factors(side) or [text(side)] for side in (node.left, node.right)]
        return parts[0] + parts[1]
    return []
