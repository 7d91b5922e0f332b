"""Every small change of a function: of its expressions, its variables and its statements."""

import ast
from functools import lru_cache
from itertools import combinations

import numpy as np

from numformer.teaching.mutations.brackets import Change, text
from numformer.teaching.mutations.expressions import changes
from numformer.teaching.mutations.mutant import NUMBER, Source


def mutants(function, variables=None):
    """All small changes of a function, one at a time.

    Parameters
    ----------
    function : function
    variables : dict, optional
        The values of its variables in some run: a variable is replaced by others of its shape.

    Yields
    ------
    Mutant

    Examples
    --------
    >>> def scaled(x, scale):
    ...     y = x * scale
    ...     return y
    >>> for mutant in list(mutants(scaled))[1:5]:
    ...     print(mutant)
    `y = x * scale` of scaled, left out
    `y = x * scale` of scaled, without the factor `scale`
    `y = x * scale` of scaled, without the factor `x`
    `y = x * scale` of scaled, divided by `scale`, not multiplied by it
    """
    source = Source(function)
    alike = {}
    for edit in list(_edits(source.definition, variables)):
        holder, field, index, statement, new, what, cost, where = edit
        if not isinstance(new, (ast.stmt, type(None))):
            alike.setdefault(what, []).append(edit)
        yield source.mutant([(holder, field, index, new)], _line(statement), what + where, cost)
    for edits, line, what in _exchanged_steps(source.definition):
        yield source.mutant(edits, line, what, 2)
    for what, edits in alike.items():
        lines = list(dict.fromkeys(_line(edit[3]) for edit in edits))
        if len(edits) > 1 and len(lines) < 4:
            where = " in every place" if len(lines) == 1 else ", in all these lines"
            yield source.mutant([(*edit[:3], edit[4]) for edit in edits],
                                "` and `".join(lines), what + where, edits[0][6])


def terms_left_out(function, variables=None):
    """A Mutant for each term of a sum of floats: with 0 times the term, so that it is left out.

    Its words have a # where the factor belongs that the term may have instead of 1.
    """
    source = Source(function)
    for holder, field, index, node, statement in list(_sites(source.definition)):
        if _may_be_a_term(node, holder):
            inner = text(node)
            new = ast.parse(f"0 * ({inner})", mode="eval").body
            yield source.mutant([(holder, field, index, new)], _line(statement),
                                f"with `{inner}` times #", 2)


def numbers_of(function, variables=None):
    """A Mutant for each number that is no whole one, written in the code or named by it."""
    source = Source(function)
    for holder, field, index, node, statement in list(_sites(source.definition)):
        value = node.value if isinstance(node, ast.Constant) else (variables or {}).get(
            node.id) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) else None
        if type(value) is float and value != int(value):
            new = ast.parse(NUMBER, mode="eval").body
            yield source.mutant([(holder, field, index, new)], _line(statement), "", 2, value)


def _may_be_a_term(node, holder):
    """Whether an expression may be a term: a side of a sum, a value, an argument."""
    if (not isinstance(node, ast.expr) or isinstance(getattr(node, "ctx", None), ast.Store)
            or isinstance(node, (ast.Constant, ast.Tuple, ast.Slice, ast.Compare, ast.BoolOp,
                                 ast.Starred))):
        return False
    if isinstance(holder, ast.BinOp):
        return isinstance(holder.op, (ast.Add, ast.Sub))
    return isinstance(holder, (ast.Assign, ast.AugAssign, ast.Return, ast.Tuple, ast.Call))


def _edits(definition, variables):
    """(holder, field, index, statement, new node, what, cost) of every change."""
    for holder, field, index, node, statement in _sites(definition):
        if isinstance(node, ast.stmt):
            for new, what, cost in _statement_changes(node):
                yield holder, field, index, statement, new, what, cost, ""
        else:
            for new, *words in _expression_changes(node, holder, variables or {}):
                try:
                    new = ast.parse(new, mode="eval").body
                except SyntaxError:
                    continue
                yield holder, field, index, statement, new, *words


def _sites(node, statement=None):
    """(holder, field, index, child, statement it belongs to) of every node below one."""
    for field, value in ast.iter_fields(node):
        if field in ("args", "decorator_list", "returns") and isinstance(node, ast.FunctionDef):
            continue
        several = isinstance(value, list)
        for index, child in enumerate(value if several else [value]):
            if not isinstance(child, (ast.stmt, ast.expr, ast.comprehension, ast.keyword)):
                continue
            if isinstance(child, (ast.Raise, ast.JoinedStr)) or _packs_saved(child):
                continue
            owner = child if isinstance(child, ast.stmt) else statement
            if isinstance(child, (ast.stmt, ast.expr)):
                yield node, field, index if several else None, child, owner
            yield from _sites(child, owner)


def _packs_saved(node):
    """Whether a statement only packs or unpacks `saved`, or checks arguments."""
    if isinstance(node, ast.Assign):
        return "saved" in (text(node.targets[0]), text(node.value))
    return (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
            and text(node.value.func).lstrip("_").startswith("check"))


def _exchanged_steps(definition):
    """(edits, line, what) of each two neighbouring steps that change the same variable."""
    def named(step):
        return text(step.test if isinstance(step, ast.If) else step.value)

    for holder in ast.walk(definition):
        body = getattr(holder, "body", None)
        for k in range(len(body) - 1) if isinstance(body, list) else ():
            one, two = body[k:k + 2]
            if _changed_by(one) & _changed_by(two) and all(
                    isinstance(step, (ast.If, ast.Assign)) for step in (one, two)):
                yield (((holder, "body", k, two), (holder, "body", k + 1, one)), _line(one),
                       f"with the steps for `{named(one)}` and for `{named(two)}` in the other "
                       "order")


def _changed_by(step):
    """The variables that a step takes and changes, such as x in ``x = f(x)``."""
    found = set()
    for node in ast.walk(step):
        if isinstance(node, ast.Assign):
            stored, loaded = ({part.id for part in ast.walk(node) if isinstance(part, ast.Name)
                               and isinstance(part.ctx, kind)} for kind in (ast.Store, ast.Load))
            found |= stored & loaded
    return found


def _statement_changes(node):
    if isinstance(node, ast.AugAssign):
        plain = ast.copy_location(ast.Assign([node.target], node.value), node)
        yield plain, "with only the last term kept, as by `=` in place of `+=`", 1
        other = ast.Sub() if isinstance(node.op, ast.Add) else ast.Add()
        yield (ast.copy_location(ast.AugAssign(node.target, other, node.value), node),
               "with the opposite sign", 1)
    if isinstance(node, ast.Expr) and text(node).startswith("np.add.at("):
        table, rows, values = map(text, node.value.args)
        lost = ast.parse(f"{table}[{rows}] += {values}").body[0]
        yield lost, "with `+=` in place of np.add.at: repeats are lost", 1
        mean = (f"if True:\n np.add.at({table}, {rows}, {values})\n"
                f" n = np.zeros({table}.shape)\n np.add.at(n, {rows}, 1)\n"
                f" {table} /= np.maximum(n, 1)")
        yield ast.parse(mean).body[0], "with the mean of what repeats, not its sum", 2
    if isinstance(node, (ast.Assign, ast.Return)):
        yield from _exchanged_names(node)
    if isinstance(node, (ast.AugAssign, ast.Assign, ast.Expr, ast.If)):
        yield None, "left out", 1
    if isinstance(node, ast.If) and len(node.body) == 1:
        yield node.body[0], f"without the condition `{text(node.test)}`", 2


def _exchanged_names(node):
    """Two variables on the right exchanged, wherever they are in the statement."""
    names = sorted({part.id for part in ast.walk(node.value or node) if isinstance(part, ast.Name)
                    and isinstance(part.ctx, ast.Load)} - {"np", "math", "len"})
    for a, b in combinations(names, 2):
        other = ast.parse(text(node)).body[0]
        for part in ast.walk(other.value):
            if isinstance(part, ast.Name) and part.id in (a, b):
                part.id = b if part.id == a else a
        yield other, f"with `{a}` and `{b}` exchanged", 2
    targets = getattr(node, "targets", [None])[0]
    if isinstance(targets, ast.Tuple):
        for i, j in combinations(range(len(targets.elts)), 2):
            other = ast.parse(text(node)).body[0]
            parts = other.targets[0].elts
            parts[i], parts[j] = parts[j], parts[i]
            yield other, f"with `{text(parts[j])}` and `{text(parts[i])}` exchanged", 2


def _expression_changes(node, holder, variables):
    number = node.operand if isinstance(node, ast.UnaryOp) else node
    for change in changes(node):
        if isinstance(number, ast.Constant) and change.what.startswith("with "):
            change = change._replace(what=_of_number(node, holder, change))
        yield change
    if isinstance(getattr(node, "ctx", None), ast.Store) or (
            isinstance(node, ast.Constant) and isinstance(holder, ast.UnaryOp)):
        return                                            # -1 is one number
    is_value = isinstance(holder, (ast.Assign, ast.Return, ast.Tuple))
    if is_value and not isinstance(node, (ast.Tuple, ast.Constant)) and text(node) != "saved":
        inner = text(node)
        yield Change(f"-({inner})", f"with the opposite sign of `{inner}`", 2)
        yield Change(f"2 * ({inner})", f"with `{inner}` twice", 3)
        yield Change(f"({inner}) / 2", f"with half of `{inner}`", 3)
        yield Change(f"({inner}).swapaxes(-1, -2)", f"with `{inner}` transposed", 3)
        if isinstance(holder, ast.Return) or isinstance(holder, ast.Tuple):
            for name, value in variables.items():
                if getattr(value, "ndim", 0) and value.dtype.kind in "fb":
                    yield Change(f"({inner}) * {name}",
                                 f"with `{inner}` multiplied by `{name}` too", 3)
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        yield from _other_names(node.id, variables)


def _of_number(node, holder, change):
    """The words for another number: in its expression, unless it has several digits of its own.

    Examples
    --------
    >>> power = ast.parse("x ** 2", mode="eval").body
    >>> _of_number(power.right, power, Change("3", "with 3, not 2", 2))
    'with the power 3, not 2, of `x`'
    >>> half = ast.parse("2 * x", mode="eval").body
    >>> _of_number(half.left, half, Change("3", "with 3, not 2", 2))
    'with `3 * x`, not `2 * x`'
    """
    if isinstance(holder, ast.BinOp) and isinstance(holder.op, ast.Pow) and node is holder.right:
        return change.what.replace("with ", "with the power ", 1) + f", of `{text(holder.left)}`"
    if isinstance(holder, ast.Subscript):
        return change.what.replace("with ", "with the index ", 1) + f" in `{text(holder)}`"
    digits = text(node).strip("(-)").replace(".", "").strip("0")
    if len(digits) > 1 or not isinstance(holder, (ast.BinOp, ast.Compare, ast.Call)):
        return change.what
    new = ast.parse(change.new, mode="eval").body
    other = type(holder)(**{field: [new if part is node else part for part in value]
                            if isinstance(value, list) else new if value is node else value
                            for field, value in ast.iter_fields(holder)})
    return f"with `{text(other)}`, not `{text(holder)}`"


def _other_names(name, variables):
    """The variable replaced by another of the same shape, or a count by a neighbour."""
    value = variables.get(name)
    if getattr(value, "dtype", None) == bool:
        yield Change(f"~{name}", f"with the opposite of `{name}`", 1)
    if hasattr(value, "shape") and value.shape:
        if getattr(value, "dtype", np.dtype(float)).kind == "i":
            yield Change(f"({name} - 1)", f"with `{name} - 1`, not `{name}`", 2)
            yield Change(f"({name} + 1)", f"with `{name} + 1`, not `{name}`", 2)
        for other, found in variables.items():
            if other != name and getattr(found, "shape", None) == value.shape:
                yield Change(other, f"with `{other}` in place of `{name}`", 2)
        yield from _once_more(name, value)
    elif type(value) is int:
        yield Change(f"({name} - 1)", f"with `{name} - 1`, not `{name}`", 2)
        yield Change(f"({name} + 1)", f"with `{name} + 1`, not `{name}`", 2)
        for other, found in variables.items():
            if other != name and type(found) is int:
                yield Change(other, f"with `{other}` in place of `{name}`", 2)
    elif isinstance(value, np.integer):
        for other, found in variables.items():
            if getattr(found, "dtype", None) == bool and found.sum() == value:
                yield Change(f"{other}.size", f"with the number of entries of `{other}`, not their "
                             "sum", 2)
    elif type(value) is float:
        yield Change("1.0", f"without `{name}`", 2)
        for n in range(1, 6):
            if float(f"{value:.{n}g}") != value:
                yield Change(f"{value:.{n}g}", f"with {value:.{n}g}, not {value:.8g}", 3)


def _once_more(name, value):
    """tanh or a sigmoid of what may be the result of one."""
    if not isinstance(value, np.ndarray) or value.dtype.kind != "f" or not value.size:
        return
    if (np.abs(value) < 1).all():
        yield Change(f"np.tanh({name})", f"with tanh applied to `{name}` once more", 3)
    if ((value > 0) & (value < 1)).all():
        yield Change(f"(1 / (1 + np.exp(-{name})))", f"with a sigmoid of `{name}` once more", 3)


@lru_cache(maxsize=2 ** 10)
def _line(statement):
    """A statement as one line; of a long one, the head."""
    if isinstance(statement, (ast.For, ast.If, ast.While, ast.With)):
        lines = [line.strip() for line in text(statement).split("\n")]
        return lines[0] if len(lines) > 3 else f"{lines[0]} {'; '.join(lines[1:])}"
    line = text(statement).replace("return (", "return ").removesuffix(")") if (
        isinstance(statement, ast.Return) and isinstance(statement.value, ast.Tuple)
    ) else text(statement)
    return line
