"""Changes of sums, of loops and of what repeats or reorders: one round, one entry, one block."""

import ast
from itertools import permutations

from numformer.teaching.mutations.brackets import Change, factors, text


def reduced_otherwise(node):
    """The Changes of one call that reduces, repeats, reorders or counts.

    Examples
    --------
    >>> call = ast.parse("dy.sum(axis=2)", mode="eval").body
    >>> for change in reduced_otherwise(call):
    ...     print(change.new, "|", change.what + change.where)
    (dy).shape[2] | with the number of entries of `dy`, not their sum
    (dy).take(0, axis=2) | with the first along axis 2, not the sum of `dy`
    (dy).take(-1, axis=2) | with the last along axis 2, not the sum of `dy`
    """
    name = text(node.func).rpartition(".")[2]
    given = [text(part) for part in node.args]
    if isinstance(node.func, ast.Attribute) and name in ("sum", "mean"):
        yield from _of_sum(node, name, node.func.value)
    if name == "range" and len(given) == 1:
        yield Change(f"range(1, {given[0]})", "without the first round", 2)
        yield Change(f"range({given[0]} - 1)", "without the last round", 2)
    if name == "ndindex" and len(given) == 2:
        yield Change(f"np.ndindex({given[0]} - 1, {given[1]} - 1)", "without the last rounds", 2)
    if name == "repeat":
        axis = text(node.keywords[0].value) if node.keywords else "0"
        yield Change(f"np.concatenate([{given[0]}] * {given[1]}, axis={axis})",
                     "with one copy of all after the other, as by np.tile, not each repeated", 1)
    if name == "transpose" and len(given) > 2:
        for i, j in permutations(range(len(given)), 2):
            moved = given[:i] + given[i + 1:]
            moved.insert(j, given[i])
            yield Change(f"{text(node.func)}({', '.join(moved)})",
                         f"with the axes in the order {', '.join(moved)}", 3)


def _of_sum(node, name, summed):
    receiver = text(summed)
    called = text(ast.Call(ast.Name(name), node.args, node.keywords))
    axes = [text(keyword.value) for keyword in node.keywords if keyword.arg == "axis"]
    if name == "sum":
        for part in factors(summed):
            rest = [f"({other})" for other in factors(summed) if other != part]
            yield Change(f"({part}) * ({' * '.join(rest) or '1'}).{called}",
                         f"with the factor `{part}` outside of the sum", 2)
    if not node.args and not node.keywords:
        counted = (f"({receiver}).size" if name == "sum" else
                   f"({receiver}).sum() / np.count_nonzero({receiver})")
        yield Change(counted, _number_of(receiver) if name == "sum" else
                     f"with the mean of what is not 0 in `{receiver}`", 2)
    if isinstance(summed, ast.BinOp) and (isinstance(summed.op, ast.Pow)
                                          or text(summed.left) == text(summed.right)):
        yield Change(f"({text(summed.left)}).{called} ** 2",
                     f"with the square of the {name}, not the {name} of the squares", 2)
    if name == "mean" and axes:
        of_all = text(ast.Call(ast.Name("sum"), node.args, node.keywords))
        yield Change(f"({receiver}).{of_all} / len({receiver})",
                     "with sums that are divided by the size of the first axis alone", 3)
    if len(axes) == 1 and axes[0].lstrip("-").isdigit():
        axis, keeps = axes[0], any(keyword.arg == "keepdims" for keyword in node.keywords)
        if name == "sum":
            yield Change(f"({receiver}).shape[{axis}]", _number_of(receiver), 2)
        if name == "sum" and keeps:
            yield Change(f"({receiver}).{called}.mean()", "with the mean of all these sums", 3)
        for index, which in ((0, "first"), (-1, "last")):
            index = f"[{index}]" if keeps else index
            yield Change(f"({receiver}).take({index}, axis={axis})",
                         f"with the {which} along axis {axis}, not the {name}", 2,
                         f" of `{receiver}`")
        if receiver.endswith(")") and ".reshape(" in receiver and int(axis) > 0:
            yield from _other_blocks(summed, called, int(axis))


def _number_of(array):
    return f"with the number of entries of `{array}`, not their sum"


def _other_blocks(reshaped, called, axis):
    """x.reshape(a, b, c).sum(axis=1) as x.reshape(b, a, c).sum(axis=0): blocks far apart."""
    sizes = [text(size) for size in reshaped.args]
    if axis < len(sizes):
        sizes[axis - 1], sizes[axis] = sizes[axis], sizes[axis - 1]
        yield Change(f"{text(reshaped.func)}({', '.join(sizes)})."
                     + called.replace(f"axis={axis}", f"axis={axis - 1}"),
                     "with blocks of entries far apart, not of neighbours", 2)
