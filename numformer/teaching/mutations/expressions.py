"""Small changes of an expression, each with the words that name it and how unlikely it is."""

import ast
import re

from numformer.teaching.mutations.brackets import (
    Change, bracket_changes, exchanged_factors, text)
from numformer.teaching.mutations.reductions import reduced_otherwise

OTHERS = {"sum": "mean", "mean": "sum", "max": "min", "min": "max", "argmax": "argmin",
          "maximum": "minimum", "minimum": "maximum", "sin": "cos", "cos": "sin", "tanh": "exp",
          "exp": "tanh", "any": "all", "zeros": "ones", "ones": "zeros"}    # called in its place
AXES = ("-1", "-2", "0", "1", "2", "None", "(-2, -1)", "(0, 1)")
COMPARED = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}
LEFT_IN = ("reshape", "copy", "astype", "float", "zeros", "empty", "zeros_like", "empty_like",
           "tuple", "range", "shape", "ndindex", "arange", "result_type", "isfinite", "cos", "sin")


def changes(node):
    """All changes of one expression, not of its parts.

    Parameters
    ----------
    node : ast.expr

    Yields
    ------
    Change

    Examples
    --------
    >>> for change in changes(ast.parse("1 - t", mode="eval").body):
    ...     print(change.new, "|", change.what)
    1 | without `- t`
    t | with `t` in place of `1 - t`
    -(t) | without `1`
    (1) + (t) | with `+` in place of `-` before `t`
    (t) - (1) | with the opposite sign of `1 - t`
    (1) - 2 * (t) | with `t` twice
    (1) / (t) | with `/` in place of `-` before `t`
    """
    kinds = {ast.BinOp: _binary, ast.UnaryOp: _unary, ast.Call: _call, ast.Subscript: _subscript,
             ast.Attribute: _attribute, ast.Constant: _constant, ast.Compare: _compare,
             ast.IfExp: _choice, ast.Tuple: _several, ast.List: _several}
    find = kinds.get(type(node))
    return find(node) if find else iter(())


def _binary(node):
    a, b, whole = text(node.left), text(node.right), text(node)
    yield from bracket_changes(node)
    yield from _other_slope(node)
    yield from exchanged_factors(node)
    match node.op:
        case ast.Add():
            yield Change(a, f"without `+ {b}`", 1)
            yield Change(b, f"without `{a}`", 1)
            yield Change(f"({a}) - ({b})", f"with `-` in place of `+` before `{b}`", 1)
            yield Change(f"({b}) - ({a})", f"with `-` before `{a}`", 2)
            yield Change(f"({a}) + 2 * ({b})", f"with `{b}` twice", 3)
            yield Change(f"2 * ({a}) + ({b})", f"with `{a}` twice", 3)
            yield Change(f"({a}) * ({b})", f"with `*` in place of `+` before `{b}`", 3)
        case ast.Sub():
            yield Change(a, f"without `- {b}`", 1)
            if a == "1":
                yield Change(b, f"with `{b}` in place of `{whole}`", 1)
            yield Change(f"-({b})", f"without `{a}`", 1)
            yield Change(f"({a}) + ({b})", f"with `+` in place of `-` before `{b}`", 1)
            yield Change(f"({b}) - ({a})", f"with the opposite sign of `{whole}`", 1)
            if a != "1":
                yield Change(b, f"with `{b}` in place of `{whole}`", 2)
            yield Change(f"({a}) - 2 * ({b})", f"with `{b}` twice", 3)
            yield Change(f"({a}) / ({b})", f"with `/` in place of `-` before `{b}`", 3)
        case ast.Mult() if a == b:
            yield Change(a, f"without the square of `{a}`", 1)
            yield Change("1", f"without the factor `{whole}`", 2)
            yield Change(f"2 * ({a})", f"with `2 * {a}` in place of the square", 3)
            yield Change(f"({a}) * ({a}) * ({a})", f"with the cube of `{a}`", 3)
        case ast.Mult():
            yield Change(a, f"without the factor `{b}`", 1)
            yield Change(b, f"without the factor `{a}`", 1)
            yield Change(f"({a}) / ({b})", f"divided by `{b}`, not multiplied by it", 1)
            yield Change(f"({a}) * ({b}) * ({b})", f"with the factor `{b}` twice", 2)
            yield Change(f"({a}) * ({a}) * ({b})", f"with the factor `{a}` twice", 2)
            yield Change(f"({b}) / ({a})", f"divided by `{a}`, not multiplied by it", 2)
            yield Change(f"({a}) + ({b})", f"with `+` in place of `*` before `{b}`", 3)
        case ast.Div():
            yield Change(a, f"without the division by `{b}`", 1)
            yield Change(f"({a}) * ({b})", f"multiplied by `{b}`, not divided by it", 1)
            yield Change(f"({a}) / ({b}) / ({b})", f"divided by `{b}` twice", 2)
            yield Change(f"({a}) / ({b}) ** 0.5", f"divided by the root of `{b}`", 3)
            yield Change(f"({a}) / (({b}) - 1)", f"divided by `{b} - 1`, not by `{b}`", 2)
            yield Change(f"({a}) / (({b}) + 1)", f"divided by `{b} + 1`, not by `{b}`", 3)
            yield Change(f"1 / ({b})", f"without the factor `{a}`", 2)
            yield Change(f"({b}) / ({a})", f"with the reciprocal of `{whole}`", 3)
        case ast.MatMult():
            for left, right, which in ((f"({a}).mT", f"({b})", a), (f"({a})", f"({b}).mT", b)):
                bare = which.removesuffix(".mT").removesuffix(".T")
                if bare == which:
                    yield Change(f"{left} @ {right}", f"with `{which}` transposed", 1)
            yield Change(f"({b}) @ ({a})", f"with `{a}` and `{b}` exchanged", 2)
            yield Change(f"({a} @ {b}).mT", f"with `{whole}` transposed", 2)
        case ast.Pow():
            number = b if re.fullmatch(r"-?[\d.]+", b.strip("()")) else f"`{b}`"
            yield Change(a, f"without the power {number} of `{a}`", 1)
            if isinstance(node.left, ast.BinOp) and isinstance(node.left.op, ast.Add):
                inside, added = text(node.left.left), text(node.left.right)
                if b.strip("()") == "-0.5":
                    yield Change(f"1 / (({inside}) ** 0.5 + {added})",
                                 f"with `{added}` added outside the root, not inside", 1)
            for power in ("0.5", "-0.5", "2", "-1", "1.5", "-1.5", "3"):
                if power not in (b, f"({b})", b.strip("()")):
                    yield Change(f"({a}) ** ({power})",
                                 f"with the power {power}, not {number}, of `{a}`", 2)
        case ast.FloorDiv():
            yield Change(f"({a}) % ({b})", f"with the remainder of `{whole}`", 2)
            yield Change(a, f"without the division by `{b}`", 2)


def _other_slope(node):
    """The slope of the sigmoid for that of tanh, by their values, and the reverse.

    Examples
    --------
    >>> for code in ("1 - t * t", "s * (1 - s)"):
    ...     for change in _other_slope(ast.parse(code, mode="eval").body):
    ...         print(change.new, "|", change.what)
    (t) * (1 - (t)) | with the slope of a sigmoid, t (1 - t), in place of that of tanh, 1 - t^2
    1 - (s) * (s) | with the slope of tanh, 1 - t^2, in place of that of a sigmoid, s (1 - s)
    """
    match node:
        case (ast.BinOp(ast.Constant(1), ast.Sub(), ast.BinOp(t, ast.Mult(), same))
              | ast.BinOp(ast.Constant(1), ast.Sub(), ast.BinOp(t, ast.Pow(),
                                                                ast.Constant(2) as same))):
            if isinstance(same, ast.Constant) or text(same) == text(t):
                t = text(t)
                yield Change(f"({t}) * (1 - ({t}))", "with the slope of a sigmoid, t (1 - t), in "
                             "place of that of tanh, 1 - t^2", 1)
        case ast.BinOp(s, ast.Mult(), ast.BinOp(ast.Constant(1), ast.Sub(), same)):
            if text(same) == text(s):
                s = text(s)
                yield Change(f"1 - ({s}) * ({s})", "with the slope of tanh, 1 - t^2, in place of "
                             "that of a sigmoid, s (1 - s)", 1)


def _unary(node):
    inner = text(node.operand)
    if inner.endswith(".inf") or "e+" in inner:
        yield Change("0.0", f"with 0 in place of `{text(node)}`", 1)
    if isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        yield from _constant(ast.Constant(-node.operand.value))
    elif isinstance(node.op, ast.USub):
        yield Change(inner, f"without the sign `-` of `{inner}`", 1)
    elif isinstance(node.op, (ast.Invert, ast.Not)):
        yield Change(inner, f"with `{inner}`, not its negation", 1)


def _call(node):
    function, given = text(node.func), [text(part) for part in node.args]
    name = function.rpartition(".")[2]
    is_method = (isinstance(node.func, ast.Attribute)
                 and text(node.func.value) not in ("np", "math", "np.add"))
    receiver = text(node.func.value) if is_method else ""
    of = f" of `{receiver or ', '.join(given)}`"
    yield from _other_keywords(node, of)
    yield from reduced_otherwise(node)
    if name == "sqrt" and isinstance(node.args[0], ast.BinOp) and isinstance(
            node.args[0].op, ast.Add):
        inside, added = text(node.args[0].left), text(node.args[0].right)
        yield Change(f"({function}({inside}) + {added})",
                     f"with `{added}` added outside the root, not inside", 1)
    if name == "tanh":
        yield Change(f"np.clip({given[0]}, -1, 1)", "with a clip to -1 ... 1 in place of `tanh`", 2)
        yield Change(f"1 / (1 + np.exp(-({given[0]})))", "with a sigmoid in place of `tanh`", 2)
    if name in OTHERS:
        other = function[:len(function) - len(name)] + OTHERS[name]
        yield Change(_called(other, given, node.keywords),
                     f"with `{OTHERS[name]}` in place of `{name}`", 1, of)
    if name == "mean" and is_method and "axis=-1" in text(node):
        n = f"({receiver}).shape[-1]"
        yield Change(f"({text(node)}) * ({n} / ({n} - 1))",
                     "with a division by n - 1, not by n", 2)
    if name == "where" and len(given) == 3:
        yield from _other_choice(node, *given)
    elif is_method and name not in LEFT_IN:
        yield Change(receiver, f"without the {name} of `{receiver}`", 1)
    elif name not in LEFT_IN and name not in ("take_along_axis", "put_along_axis"):
        for part in given:
            yield Change(part, f"with `{part}` in place of `{text(node)}`: `{name}` is left out", 1)
    if name not in ("where", "zeros", "empty", "isinstance"):
        for k in range(len(given) - 1):
            swapped = [*given[:k], given[k + 1], given[k], *given[k + 2:]]
            which = "axes " if name in ("transpose", "swapaxes") else ""
            yield Change(_called(function, swapped, node.keywords),
                         f"with {which}`{given[k]}` and `{given[k + 1]}` exchanged", 2)


def _called(function, given, keywords):
    """The text of a call."""
    named = [f"{keyword.arg}={text(keyword.value)}" if keyword.arg else f"**{text(keyword.value)}"
             for keyword in keywords]
    return f"{function}({', '.join([*given, *named])})"


def _other_keywords(node, of):
    """Keyword arguments left out, and other axes."""
    given = [text(part) for part in node.args]
    for k, keyword in enumerate(node.keywords):
        rest = node.keywords[:k] + node.keywords[k + 1:]
        if keyword.arg in ("axis", "axes"):
            for axis in _other_axes(keyword.value):
                other = ast.keyword(keyword.arg, ast.Name(axis))
                yield Change(_called(text(node.func), given, [*rest, other]),
                             f"with `axis={axis}`, not `axis={text(keyword.value)}`", 1, of)
        elif keyword.arg not in ("dtype", "kind", "copy", "keepdims", "minlength"):
            yield Change(_called(text(node.func), given, rest), f"without `{keyword.arg}`", 1)


def _other_choice(node, condition, a, b):
    """Changes of np.where(condition, a, b)."""
    kept, other = (b, a) if a in ("0", "0.0") else (a, b)
    yield Change(kept, f"without the condition `{condition}`", 1)
    yield Change(f"{text(node.func)}(~({condition}), {a}, {b})",
                 f"with the opposite of the condition `{condition}`", 3)
    if other not in ("0", "0.0"):
        yield Change(other, f"with `{other}` in place of `{text(node)}`", 2)


def _other_axes(node):
    """Other values of an axis argument."""
    if isinstance(node, ast.Tuple):
        return [*map(text, node.elts), "-1", "None"]
    return [axis for axis in AXES if axis != text(node)]


def _subscript(node):
    if not isinstance(node.ctx, ast.Load):
        return
    base, index = text(node.value), node.slice
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    if text(index) not in ("...", ":") and "None" not in text(index):
        yield Change(base, f"with all of `{base}`, not `{text(node)}`", 2)
    for k, part in enumerate(parts):
        for new, what in _other_indices(part):
            whole = ", ".join([*map(text, parts[:k]), new, *map(text, parts[k + 1:])])
            yield Change(f"{base}[{whole}]", f"with `{base}[{whole}]`, not `{text(node)}`", what)


def _other_indices(part):
    """(another index, its cost) for one part of a subscript."""
    if isinstance(part, ast.Slice):
        lower, upper = (text(end) if end else "" for end in (part.lower, part.upper))
        step = f":{text(part.step)}" if part.step else ""
        if lower and upper:
            yield f"{lower} + 1:{upper} + 1{step}", 2
            yield f"{lower} - 1:{upper} - 1{step}", 2
        elif lower:
            yield from ((f":{lower}", 2), (f"{lower} + 1:", 2), (f"{lower} - 1:", 2),
                        (f":-{lower}", 2))
        elif upper:
            yield from ((f"{upper}:", 2), (f":{upper} + 1", 2), (f":{upper} - 1", 2))
        if (lower or upper) and not step:
            yield f"{lower}:{upper}:-1", 3
    elif isinstance(part, ast.Constant) and type(part.value) is int:
        yield from ((str(part.value + 1), 2), (str(part.value - 1), 2))
    elif isinstance(part, ast.BinOp):
        yield from ((f"{text(part)} + 1", 2), (f"{text(part)} - 1", 2))


def _attribute(node):
    base = text(node.value)
    if not isinstance(node.ctx, ast.Load):
        return
    if node.attr in ("T", "mT"):
        yield Change(base, f"with `{base}`, not transposed", 1)
        shape = f"*{base}.shape[:-2], {base}.shape[-1], {base}.shape[-2]"
        yield Change(f"{base}.reshape({shape})", f"with a reshape of `{base}`, not transposed", 2)
    elif node.attr == "size":
        yield Change(f"len({base})", f"with `len({base})`, not `{base}.size`", 1)
        yield Change(f"{base}.shape[-1]", f"with the last size of `{base}`, not all of them", 1)
        yield Change("1", f"without `{base}.size`", 1)


def _constant(node):
    if type(node.value) not in (int, float):
        return
    value = node.value
    decimal = (value * 10, value / 10) if type(value) is float else ()
    rounded = (float(f"{value:.{n}g}") for n in (1, 2, 3, 4, 5, 6))
    for new in dict.fromkeys((value + 1, value - 1, value * 2, value / 2, -value, *decimal,
                              *rounded)):
        if new != value:
            yield Change(repr(new), f"with {new:.6g}, not {value:.6g}", 2)


def _compare(node):
    left, right, op = text(node.left), text(node.comparators[0]), COMPARED.get(type(node.ops[0]))
    if op and len(node.ops) == 1:
        for other in COMPARED.values():
            if other != op:
                cost = (1 if {op, other} in ({"<", "<="}, {">", ">="}) else
                        3 if {op, other} == {"==", "!="} else 2)
                yield Change(f"({left}) {other} ({right})",
                             f"with `{other}` in place of `{op}` before `{right}`", cost)


def _choice(node):
    whole = text(node)
    yield Change(text(node.body), f"with `{text(node.body)}` in place of `{whole}`", 1)
    yield Change(text(node.orelse), f"with `{text(node.orelse)}` in place of `{whole}`", 1)


def _several(node):
    if not isinstance(node.ctx, ast.Load):
        return
    parts = [text(part) for part in node.elts]
    for i in range(len(parts)):
        for j in range(i):
            swapped = list(parts)
            swapped[i], swapped[j] = parts[j], parts[i]
            comma = "," * (len(parts) == 1)
            inside = ", ".join(swapped) + comma
            yield Change(f"[{inside}]" if isinstance(node, ast.List) else f"({inside})",
                         f"with `{parts[j]}` and `{parts[i]}` exchanged", 2)
