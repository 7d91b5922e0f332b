"""An expression of the code as a formula: ``q @ k.mT * scale`` is q kᵀ / √D."""

import ast
import re
from typing import NamedTuple

import numpy as np

from numformer.analysis.structure.observed_call import arrays_in

SUM, TIMES, PRODUCT, POWER, ATOM = range(5)                   # what binds more tightly is larger
# Functions that have a sign of their own, or that only change how an array is stored
SIGNS = {"linear": "{0} {1} + {2}", "add": "{0} + {1}", "residual_dropout": "{0} + {1}",
         "dropped": "{0} + dropout({1})", "masked_matmul": "{0} {1}", "split_heads": "{0}",
         "join_heads": "concat({0})", "ascontiguousarray": "{0}",
         "asfortranarray": "{0}", "astype": "{0}", "copy": "{0}",
         "float": "{0}", "reshape": "{0}", "sqrt": "√{0}"}
OPERATORS = {ast.Add: (" + ", SUM), ast.Sub: (" − ", SUM), ast.Mult: (" · ", TIMES),
             ast.Div: (" / ", TIMES), ast.MatMult: (" ", PRODUCT)}
POWERS = {2: "²", 3: "³", -1: "⁻¹"}
TRANSPOSED = ("mT", "T")
MARK = re.compile("\ue000(\\d+)\ue001")                       # stands for the name of a variable
ALL_AXES = "-1", "vectors", "tuple(range(dy.ndim - 1))"      # of numbers that belong together
SHORT = 12                                                    # of a number that is written out


class Formula(NamedTuple):
    """A text, how tightly its outermost operation binds, and what it is made of.

    Parameters
    ----------
    text : str
        With a mark for each variable, as names may change.
    binds : int
    multiplies : bool
        Whether it has a matrix product of two arrays that were computed.
    """

    text: str
    binds: int = ATOM
    multiplies: bool = False

    @property
    def variables(self):
        """Indices of the variables, in their order."""
        return list(dict.fromkeys(int(found) for found in MARK.findall(self.text)))

    @property
    def alone(self):
        """The variable that it is nothing but; None if it is more."""
        found = MARK.fullmatch(self.text)
        return int(found[1]) if found else None

    def inside(self, binds):
        """The text as an operand of an operation that binds this tightly."""
        return self.text if self.binds >= binds else f"({self.text})"


def mark(index):
    """The formula of a variable."""
    return Formula(f"\ue000{index}\ue001")


class Writer:
    """Formulas of the expressions of one statement.

    Parameters
    ----------
    names : callable
        (name, value) to the `Formula` of an array or a number; None for what is no part of the
        mathematics, such as an option that is None or a mask that is True everywhere.
    known : callable
        An array to its `Formula`; None if it has none yet.
    called : callable
        The node of a call to its `Call`, or None where it is none of this library's.
    variables, outer : dict
        Local and global ones.
    """

    def __init__(self, names, known, called, variables, outer):
        self.names, self.known, self.called = names, known, called
        self.variables, self.outer = variables, outer

    def value(self, node):
        """What an expression without calls is; None if that cannot be found out."""
        if any(isinstance(each, ast.Call) for each in ast.walk(node)):
            return None
        try:
            return eval(compile(ast.Expression(node), "", "eval"),    # a copy of our own code
                        self.outer | self.variables)
        except Exception:
            return None

    def formula(self, node):
        """The formula of an expression."""
        write = getattr(self, f"_{type(node).__name__.lower()}", None)
        found = write(node) if write else None
        return found if found is not None else self._as_it_is(node)

    def _as_it_is(self, node):
        """The code of an expression, in which known arrays have their names."""
        text = plain_code(node)
        for name in dict.fromkeys(each.id for each in ast.walk(node) if isinstance(each, ast.Name)):
            value = self.variables.get(name)
            if isinstance(value, (np.ndarray, tuple, list)):
                found = self.names(name, value)
                if found is not None and found.variables:
                    text = re.sub(rf"(?<![\w.]){name}\b", lambda _: found.inside(ATOM), text)
        return Formula(text)

    def _name(self, node):
        return self.names(node.id, self.variables.get(node.id, self.outer.get(node.id)))

    def _constant(self, node):
        return self.names("", node.value)

    def _attribute(self, node):
        if node.attr in TRANSPOSED:
            inner = self.formula(node.value)
            return transposed(inner)
        if node.attr == "real":
            return self.formula(node.value)
        value = self.value(node)
        return self.names(node.attr, value) if isinstance(value, np.ndarray) else None

    def _subscript(self, node):
        value, whole = self.value(node), self.value(node.value)
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if isinstance(whole, np.ndarray) and isinstance(value, np.ndarray):
            inner = self.formula(node.value)
            if whole.size == value.size and all(map(_only_reshapes, parts)):
                return inner                          # q[:, None]: the same numbers
            return self._at(inner, parts)
        if isinstance(node.value, ast.Call):          # f(x)[0] of (y, saved), f(x)[:, None]
            inner, own = self.formula(node.value), self.called(node.value) is not None
            if own and ast.unparse(node.slice) == "0" or not any(
                    isinstance(each, ast.Constant) and type(each.value) is int
                    for each in parts) and all(map(_only_reshapes, parts)):
                return inner
            return self._at(inner, parts)
        return self.names("", value)

    def _at(self, formula, parts):
        """Some numbers of an array."""
        places = ", ".join(
            self.formula(each).text if isinstance(each, (ast.Name, ast.Subscript))
            and isinstance(self.value(each), np.ndarray) else plain_code(each) for each in parts)
        return Formula(f"{formula.inside(ATOM)}[{places}]", ATOM, formula.multiplies)

    def _ifexp(self, node):
        taken = self.value(node.test)
        if taken is None:
            return None
        return self.formula(node.body if taken else node.orelse)

    def _unaryop(self, node):
        inner = self.formula(node.operand)
        if not isinstance(node.op, ast.USub):
            return None
        return Formula(f"−{inner.inside(TIMES)}", SUM, inner.multiplies)

    def _starred(self, node):
        return self.formula(node.value)

    def _tuple(self, node):
        parts = [self.formula(each) for each in node.elts]
        return Formula(", ".join(each.text for each in parts), SUM)

    def _listcomp(self, node):
        each, _ = self.each(node)
        return Formula(f"{each.text} for each of {self.formula(node.generators[0].iter).text}", SUM)

    def each(self, node):
        """(formula of an item of a comprehension, what it is repeated for)."""
        item, loop = node.elt.body if isinstance(node.elt, ast.IfExp) else node.elt, (
            node.generators[0])
        text = re.sub(r", saved_\w+", "", self._as_it_is(item).text)
        text = text.replace(".forward(", "(").replace(".backward(", "′(")
        whole = isinstance(loop.target, ast.Tuple) and getattr(
            getattr(loop.iter, "func", None), "id", "") == "zip"
        pairs = list(zip(loop.target.elts, loop.iter.args)) if whole else [(loop.target, loop.iter)]
        label = f"for each {ast.unparse(pairs[0][0])}"
        for target, values in pairs if not whole else pairs[1:]:
            if not ast.unparse(target).startswith("saved"):
                label += f", {ast.unparse(target)} of {self.formula(values).text}" if whole else (
                    f" of {self.formula(values).text}")
        return Formula(text), label

    _generatorexp = _listcomp

    def _binop(self, node):
        left, right = self.formula(node.left), self.formula(node.right)
        both = left.multiplies or right.multiplies
        if isinstance(node.op, ast.Pow):
            text = _power(left.inside(ATOM), right.text)
            return Formula(text, TIMES if " / " in text else POWER, both)
        if type(node.op) not in OPERATORS:
            return None
        sign, binds = OPERATORS[type(node.op)]
        if binds == TIMES and right.text == "1":
            return left
        if isinstance(node.op, ast.Add) and left.text == "0":
            return right
        if isinstance(node.op, ast.Mult):
            if left.text == "1":
                return right
            if right.text.startswith("1 / "):         # x * (1 / y)
                return Formula(f"{left.inside(TIMES)}{right.text[1:]}", TIMES, both)
            # A scale is written first
            if not right.variables and left.variables and right.binds == ATOM:
                left, right = right, left
        product = isinstance(node.op, ast.MatMult) and bool(
            left.variables and right.variables)
        tight = binds + isinstance(node.op, (ast.Sub, ast.Div))
        return Formula(f"{left.inside(binds)}{sign}{right.inside(tight)}", binds, both or product)

    def _call(self, node):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(
            node.func, "id", "")
        call = self.called(node)
        if call is not None:
            parts = [self.known(array) for array in arrays_in(call.returned)]
            if parts and None not in parts:
                return parts[0] if len(parts) == 1 else Formula(
                    ", ".join(part.text for part in parts), SUM)
            return self.of_call(call, node)
        if name == "zip":
            return Formula(", ".join(self.formula(each).text for each in node.args), SUM)
        owner = getattr(node.func, "value", None)
        method = owner is not None and getattr(owner, "id", "") not in ("np", "math", "self")
        if name == "where" and len(node.args) == 3:   # what keeps NaN out, where there is none
            condition = self.value(node.args[0])
            if isinstance(condition, np.ndarray) and condition.all() in (True, condition.any()):
                return self.formula(node.args[1 if condition.all() else 2])
        if name == "concatenate" and isinstance(node.args[0], (ast.List, ast.Tuple)):
            return Formula(f"[{self._tuple(node.args[0]).text}]")
        parts = [self.formula(each) for each in [owner] * method + node.args]
        if name in ("mean", "sum", "max", "min"):
            parts, axis = parts[:1], [each for each in node.keywords if each.arg == "axis"]
            if axis and ast.unparse(axis[0].value) not in ALL_AXES:
                parts.append(Formula(f"axis {ast.unparse(axis[0].value)}"))
        return signed(name or plain_code(node.func), parts)

    def of_call(self, call, node):
        """The formula of a call of this library, by what it was called with."""
        gradients = self.gradients(node)
        if gradients:
            return gradients[0]
        parts, given = [], _arguments(node, call)
        for name, value in call.arguments.items():    # what is only passed on
            if isinstance(value, np.ndarray) and value is next(arrays_in(call.result), None):
                return self.formula(given[name]) if name in given else self.names(name, value)
        for name, value in call.arguments.items():
            if name in ("self", "rng", "seed", "epsilon") or value is _default(call.tree, name):
                continue
            by_itself = name in given and isinstance(value, (np.ndarray, int, float)) and (
                not isinstance(value, bool) and not true_everywhere(value))
            parts.append(self.formula(given[name]) if by_itself else self.names(name, value))
        name = call.code.co_name
        if name == "residual_dropout" and call.arguments["rng"] and call.arguments["rate"]:
            name = "dropped"
        if name in ("forward", "backward", "__call__") and call.layer is not None:
            own, owner = self.names("", call.layer), getattr(node.func, "value", node.func)
            name = own.text if own else getattr(owner, "attr", getattr(owner, "id", name))
            name += "′" * (call.code.co_name == "backward")
        elif name.endswith("_norm") and (norm := self.names("", call)) is not None:
            name, parts = norm.text, parts[:1]
        return signed(name, [part for part in parts if part is not None])

    def gradients(self, node):
        """The formulas dy Wᵀ, xᵀ dy and sum(dy) of the backward of a linear map; else nothing."""
        call = self.called(node) if isinstance(node, ast.Call) else None
        if call is None or "linear_backward" not in (call.code.co_name, call.only_calls):
            return ()
        inner = next(each for each in call.below() if each.code.co_name == "linear_backward")
        x, weight, _ = (self.names("x", each) for each in inner.arguments["saved"])
        dy = self.formula(node.args[0])
        return (Formula(f"{dy.inside(PRODUCT)} {transposed(weight).text}", PRODUCT),
                Formula(f"{transposed(x).text} {dy.inside(PRODUCT)}", PRODUCT, True),
                Formula(f"sum({dy.text})"))


def _only_reshapes(part):
    """Whether an index can only add or drop an axis of length 1: None, ..., : or a number."""
    if isinstance(part, ast.Slice):
        return part.lower is part.upper is part.step is None
    return isinstance(part, ast.Constant)


def _arguments(node, call):
    """{name: node} of what a call is given by itself, and not in a tuple."""
    found, names = {}, [name for name in call.arguments if name != "self"]
    for name, argument in zip(names, node.args):
        if isinstance(argument, ast.Starred):
            break
        found[name] = argument
    return found | {each.arg: each.value for each in node.keywords if each.arg}


def _default(tree, name):
    """The default of a parameter, as far as it is a constant; or what no argument is."""
    names, defaults = [each.arg for each in tree.args.args], tree.args.defaults
    place = names.index(name) - len(names) + len(defaults) if name in names else -1
    if place < 0:
        return names
    try:
        return ast.literal_eval(defaults[place])
    except ValueError:
        return names


def plain_code(node):
    """The code of an expression, without ``self.`` and without axes of length 1.

    Examples
    --------
    >>> plain_code(ast.parse("self.a[:, None] * b[..., m, None]").body[0].value)
    'a * b[..., m]'
    """
    text = re.sub(r"\bNone, |, None\b", "", re.sub(r"\bself\.", "", ast.unparse(node)))
    return re.sub(r"\[(:|\.\.\.)\]", "", text)


def transposed(formula):
    """The formula of a transposed array."""
    if formula.text.endswith("ᵀ") and formula.binds == POWER:
        return Formula(formula.text[:-1], ATOM, formula.multiplies)
    return Formula(formula.inside(POWER) + "ᵀ", POWER, formula.multiplies)


def signed(name, parts):
    """A function of formulas, by its sign if it has one.

    Examples
    --------
    >>> signed("linear", [Formula("x"), Formula("W")]).text
    'x W'
    >>> signed("exp", [Formula("a + b", SUM)]).text
    'exp(a + b)'
    """
    multiplies = any(part.multiplies for part in parts)
    if name in SIGNS and parts:
        pattern = SIGNS[name]
        if pattern == "{0}":
            return parts[0]
        if pattern == "√{0}":
            return Formula(f"√{parts[0].inside(ATOM)}", ATOM, multiplies)
        if "(" not in pattern:
            terms = pattern.split(" + ")
            while terms[1:] and int(terms[-1][1]) >= len(parts):
                terms.pop()                           # without a bias
            texts = [part.inside(SUM if len(term) == 3 else PRODUCT)
                     for part, term in zip(parts, [t for t in terms for _ in t.split()])]
            product = "} {" in terms[0] and bool(parts[0].variables and parts[1].variables)
            return Formula(" + ".join(terms).format(*texts), SUM if terms[1:] else PRODUCT,
                           multiplies or product)
        binds = SUM if " + " in pattern else ATOM
        return Formula(pattern.format(*(part.text for part in parts)), binds, multiplies)
    if name in ("zeros", "zeros_like"):
        return Formula("zeros")
    texts = [part.text for part in parts if part is not None]
    return Formula(f"{name.lstrip('_')}({', '.join(texts)})", ATOM, multiplies)


def _power(base, exponent):
    number = exponent.replace("−", "-").strip("()")
    try:
        number = float(number)
    except ValueError:
        return f"{base}^{exponent}"
    if number in POWERS:
        return base + POWERS[number]
    if number == 0.5:
        return f"√{base}"
    return f"1 / √{base}" if number == -0.5 else f"{base}^{exponent}"


def true_everywhere(value):
    """Whether it is a mask that hides nothing."""
    return isinstance(value, np.ndarray) and value.dtype == bool and bool(value.all())


def number_in_words(value):
    """A number as a formula has it.

    Examples
    --------
    >>> number_in_words(0.50000001), number_in_words(1.0), number_in_words(-2)
    ('0.5', '1', '−2')
    """
    return f"{value:.4g}".replace("-", "−")
