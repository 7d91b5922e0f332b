"""A changed line of the reference in words for somebody who has not seen that line.

A line is never quoted. A change in it is told with names that whoever writes the function has read:
arguments, gradients, and the symbols of the formulas in the docstrings. Any other variable stands
for how it is computed, or for what its specification calls it (`names`). A change that cannot be
told so has no words: a mistake that students make deserves some on the function's page.
"""

import ast
import inspect
import re
from functools import lru_cache
from inspect import unwrap

from numformer import functional
from numformer.docstrings import docstring, formulas
from numformer.specifications import SPECIFICATIONS

LONGEST = 64                                              # characters of an expression
DEPTH = 3                                                 # variables that stand for others
CALLED = ("np", "math")                                   # np.exp(x) is exp(x)
METHODS = ("sum", "mean", "max", "min", "any", "all", "argmax")     # x.sum() is sum(x)
LEFT_OUT = ("reshape", "astype", "copy")                  # of what a formula does not tell
FUNCTIONS = set(
    "exp log sqrt tanh sin cos abs where maximum minimum sum mean max min pi inf any all argmax "
    "sign erf erfc len True False None softmax log_softmax sigmoid variance eye".split())
OF_ARRAYS = ("shape", "size", "ndim", "T", "mT")
SIGNS = {"+", "-", "*", "/", "<", "<=", ">", ">=", "==", "!=", "=", "+=", "@"}
GREEK = ("alpha beta gamma delta epsilon zeta eta theta lambda mu nu rho sigma tau phi chi psi "
         "omega ell kappa Phi Lambda Sigma").split()
EVERYWHERE = 1e20                                         # a score of -1e30 is one of -Inf


class Unspeakable(Exception):
    """A change for which there are no words that everybody knows."""


def changed_line(mutant, forward, backward=None, given=None):
    """The reference with one line changed, in words: "the same numbers come out ..."; "" if none.

    Parameters
    ----------
    mutant : Mutant
    forward, backward : function
        The pair that is checked; their docstrings and arguments hold the names that are known.
    given : container of str, optional
        The arguments and options that are given to the student's function; another option of the
        reference is known only if the formulas have it. By default all are.

    Examples
    --------
    >>> from numformer import functional as F
    >>> from numformer.teaching.mutations.statements import mutants
    >>> def told(what, *pair):
    ...     mutant = next(m for m in mutants(F.sigmoid_backward) if m.what == what)
    ...     return changed_line(mutant, *pair)
    >>> told("without the factor `1 - y`", F.sigmoid, F.sigmoid_backward)
    'the same numbers come out without the factor `1 - y`'
    >>> told("without the factor `1 - y`", F.silu, F.silu_backward)     # which has no such y
    ''
    """
    pair = tuple(unwrap(function) for function in (forward, backward) if function)
    try:
        words, where = _Words(mutant, pair, given), _elsewhere(mutant, pair)
        phrase = words.of_step(mutant.line) if mutant.what == "left out" else words.of(mutant.what)
        return f"the same numbers come out {phrase}{where}"
    except Unspeakable:
        return ""


def known_names(*functions, given=None):
    """Names that somebody knows who has read the signatures and the formulas of these functions.

    The output of a forward is known in its backward if a formula there has it. Of options, those
    in `given` are known, or that formulas have; by default all.

    Examples
    --------
    >>> from numformer import functional as F
    >>> sorted(known_names(F.sigmoid, F.sigmoid_backward) - FUNCTIONS)
    ['dx', 'dy', 'sigma', 'x', 'y']
    """
    functions = tuple(map(unwrap, functions))
    hidden = set() if given is None else {
        name for name, parameter in inspect.signature(functions[0]).parameters.items()
        if parameter.default is not parameter.empty and name not in given
    }.difference(*map(symbols, functions))
    return _known(functions) - hidden - {f"d{name}" for name in hidden}


@lru_cache(maxsize=None)
def _known(functions):
    known = FUNCTIONS | {"dy"}
    forward, *backward = functions
    names = [name for name in inspect.signature(forward).parameters if name != "saved"]
    known.update(names, (f"d{name}" for name in names), *map(symbols, functions))
    if not backward:
        return known | {"y"}
    known.add(next(iter(inspect.signature(backward[0]).parameters)))
    return known if "y" in symbols(backward[0]) else known - {"y"} | {"y"} & set(names)


@lru_cache(maxsize=None)
def symbols(function):
    r"""The symbols in the formulas of a docstring, and the sizes in its shapes.

    Examples
    --------
    >>> from numformer import functional as F
    >>> sorted(symbols(F.rms_norm_backward))
    ['C', 'dweight', 'dx', 'dy', 'g', 'gamma', 'r', 'x_hat']
    """
    text = docstring(function)
    latex = " ".join(formulas(text) + re.findall(r":math:`([^`]*)`", text))
    latex = re.sub(r"\\(?:mathrm|operatorname|text|begin|end)\{[^{}]*\}", " ", latex)
    latex = re.sub(r"(?<![A-Za-z\\])e(?=\s*\^)", " ", latex)                # exp
    latex = re.sub(r"\\bar\{\\?(\w+)'?\}", r" d\1 ", latex)
    latex = re.sub(r"\\hat\{\\?(\w+)\}", r" \1_hat ", latex)
    latex = re.sub(r"\\(?:var)?([A-Za-z]+)", lambda found: f" {found[1]} " * (found[1] in GREEK),
                   latex)
    found = re.findall(r"d?[A-Za-z]+(?:_hat)?", latex)
    return frozenset([*found, *re.findall(r"\b[A-Z]\b", " ".join(re.findall(r"\([^()]*\)", text))),
                      *re.findall(r"^(\w+)(?:, \w+)* : ", text, re.MULTILINE)]) - {"saved"}


def unknown_names(words, known):
    """The names in backticks that are not known, in order; what is no expression is one of them.

    Examples
    --------
    >>> unknown_names("with `x * counts`, `+` and `x.sizes`", {"x"})
    ['counts', 'x.sizes']
    """
    found = []
    for code in re.findall("`([^`]*)`", words):
        if code in SIGNS:
            continue
        if code == "...":                                 # a part of an index
            found.append(code)
        if code[:2] in ("+ ", "- ", "* ", "/ "):
            code = code[2:]
        try:
            nodes = list(ast.walk(ast.parse(code, mode="eval")))
        except SyntaxError:
            found.append(code)
            continue
        found += [node.id for node in nodes if isinstance(node, ast.Name)
                  and node.id not in known | FUNCTIONS]
        found += [ast.unparse(node) for node in nodes if isinstance(node, ast.Attribute)
                  and node.attr not in OF_ARRAYS or isinstance(node, ast.Constant)
                  and isinstance(node.value, str)]
    return found


def _elsewhere(mutant, pair):
    """Where a change is that is in none of the two functions: " in softmax"."""
    name = mutant.source.function.__name__.split("_in_")[0]
    if not hasattr(functional, name) or name in [one.__name__ for one in pair]:
        return ""
    base = name.removesuffix("_backward")
    if base not in FUNCTIONS and not any(base in docstring(one) for one in pair):
        raise Unspeakable(f"{base} is a part that only the reference has")
    return f" in the backward of {base}" if base != name else f" in {base}"


class _Words:
    """The words of one Mutant of a pair of functions."""

    def __init__(self, mutant, pair, given):
        self.function = mutant.source.function
        name = self.function.__name__.split("_in_")[0]
        own = tuple(unwrap(getattr(functional, part)) for part in (
            name.removesuffix("_backward"), name) if hasattr(functional, part))
        elsewhere = own and own[-1] not in pair
        self.known = known_names(*pair, given=given)
        if elsewhere:                                     # and of the same name there
            self.known &= known_names(*dict.fromkeys(own))
        of = SPECIFICATIONS.get((own if elsewhere else pair)[0].__name__)
        self.names = of.names if of else {}
        self.definitions = _definitions(mutant.source.tree)
        if len(own) > 1 and own[1] is self.function:      # what the forward has saved
            saved = _unpacked(mutant.source.tree)
            forward = _definitions(_tree(own[0]))
            self.definitions = {**{key: value for key, value in forward.items() if key in saved},
                                **self.definitions}

    def of(self, what):
        """What a mutant does, with every expression in it shown."""
        for pattern, said in _SAID:
            if re.fullmatch(pattern, what):
                return said
        what = what.replace(" in all these lines", " everywhere").replace(
            " in every place", " everywhere")
        what = re.sub("with `axis=(.+?)`, not `axis=(.+?)`", self._axes, what)
        if re.fullmatch(r"with \S+, not -?(?:\d|0?\.\d)(?: everywhere)?", what):
            raise Unspeakable("a number that may be anywhere")
        if re.match(r"with `[^`]*(?:\.shape\[|\.size|len\()[^`]*` twice", what):
            raise Unspeakable("a size twice is not what anybody wrote")
        of_axis = re.search(r"axis .*(?<!in place) of `([^`]*)`", what)
        if of_axis:
            self._check_axes_of(of_axis[1])
        functions = re.match(r"with `(\w+)` in place of `(\w+)`(?= of |,| everywhere|$)", what)
        kept = functions[0] if functions and FUNCTIONS >= {*functions.groups()} else ""
        phrase = kept + re.sub("`([^`]*)`", lambda found: self._shown(found[1]),
                               what.removeprefix(kept))
        if re.search(r"\de\+\d", phrase):                 # 2e+30 in place of 1e+30
            raise Unspeakable("a score that only our code has")
        return phrase

    def of_step(self, line):
        """The step of a line that is left out, named by what it does."""
        try:
            node = ast.parse(line).body[0]
        except SyntaxError:                               # the head of a loop
            raise Unspeakable(line) from None
        if isinstance(node, ast.If):
            values = [part.value for part in ast.walk(node) if isinstance(part, ast.Assign)]
            if not values:
                raise Unspeakable(line)
            return (f"if {self._shown(ast.unparse(values[-1]))}, where "
                    f"{self._shown(ast.unparse(node.test))}, is left out")
        if isinstance(node, (ast.Assign, ast.AugAssign)):
            return f"if the step that makes {self._shown(ast.unparse(node.value))} is left out"
        target = next((part.id for part in ast.walk(node) if isinstance(part, ast.Name)
                       and part.id in self.known - FUNCTIONS), None)
        if target is None:
            raise Unspeakable(line)
        return f"if the step that writes into {target} is left out"

    def _shown(self, code):
        """An expression in backticks, in mathematics.

        Raises
        ------
        Unspeakable
            If it is long, or has names that are not known.
        """
        if code in SIGNS:
            return f"`{code}`"
        for written, named in self.names.items():         # not a variable, such as `a.b`
            code = code.replace(written, named) if not written.isidentifier() else code
        sign, _, rest = code.partition(" ") if code[:2] in ("+ ", "- ", "* ", "/ ") else (
            "", "", code)
        try:
            node = ast.parse(rest, mode="eval").body
        except SyntaxError:
            raise Unspeakable(code) from None
        plain = ast.unparse(_Plain(self.known, self.names, self.definitions).visit(node))
        told = f"`{sign} {plain}`" if sign else f"`{plain}`"
        if len(plain) > LONGEST or unknown_names(told, self.known):
            raise Unspeakable(plain)
        return told

    def _axes(self, found):
        """ "over axis 0, not over the last axis"."""
        one, other = (self._axis(axis) for axis in found.groups())
        return f"over {one}, not over {other}"

    def _axis(self, axis):
        if axis == "None":
            return "all axes"
        if axis.isidentifier():
            value = self.definitions.get(axis)
            if value is not None and re.fullmatch(r"tuple\(range\(\w+\.ndim - 1\)\)",
                                                  ast.unparse(value)):
                return "all axes but the last"
            parameter = inspect.signature(self.function).parameters.get(axis)
            if parameter is None or parameter.default != -1:
                raise Unspeakable(axis)
            axis = "-1"
        if not re.fullmatch(r"-?\d+|\([-\d, ]*\)", axis):
            raise Unspeakable(axis)
        return ("the last axis" if axis == "-1" else f"axes {axis}" if axis.startswith("(")
                else f"axis {axis}")

    def _check_axes_of(self, code):
        """Refuse an axis of an array that only the reference has: one that it reshapes."""
        try:
            nodes = list(ast.walk(ast.parse(code, mode="eval")))
        except SyntaxError:
            raise Unspeakable(code) from None
        nodes += [part for node in nodes if isinstance(node, ast.Name)
                  and node.id not in self.known and node.id in self.definitions
                  for part in ast.walk(self.definitions[node.id])]
        if any(isinstance(node, ast.Attribute) and node.attr == "reshape" for node in nodes):
            raise Unspeakable(code)


_SAID = [(r"divided by `(.*) - 1`, not by `\1`", "with a division by n - 1, not by n")]


@lru_cache(maxsize=2 ** 9)
def _tree(function):
    return ast.parse(inspect.cleandoc("\n" + inspect.getsource(function)))


@lru_cache(maxsize=2 ** 9)
def _definitions(tree):
    """{variable: the expression} of variables that are assigned once."""
    found, again = {}, set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.AugAssign, ast.For)):
            again.update(part.id for part in ast.walk(node.target) if isinstance(part, ast.Name))
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            for target in ast.walk(node.targets[0]):
                if isinstance(target, ast.Name):
                    again.update({target.id} & found.keys())
                    found[target.id] = node.value if target is node.targets[0] else None
    return {name: value for name, value in found.items() if value is not None and name not in again}


@lru_cache(maxsize=2 ** 9)
def _unpacked(tree):
    """The variables that a backward takes out of `saved`."""
    return frozenset(
        part.id for node in ast.walk(tree) if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Name) and node.value.id == "saved"
        for part in ast.walk(node.targets[0]) if isinstance(part, ast.Name))


class _Plain(ast.NodeTransformer):
    """Mathematics for code: exp(x) for np.exp(x), sum(x) for x.sum(axis=-1, keepdims=True)."""

    def __init__(self, known, names, definitions):
        self.known, self.names, self.definitions, self.depth = known, names, definitions, 0

    def visit_Name(self, node):
        if node.id in self.names:                         # as the formulas call it
            return ast.parse(self.names[node.id], mode="eval").body
        value = self.definitions.get(node.id)
        if node.id in self.known or value is None or self.depth >= DEPTH or len(
                ast.unparse(value)) > LONGEST:
            return node
        self.depth += 1
        plain = self.visit(ast.parse(ast.unparse(value), mode="eval").body)
        self.depth -= 1
        return plain

    def visit_Constant(self, node):
        if type(node.value) is float and abs(node.value) > EVERYWHERE:
            return ast.Name("inf")
        return node

    def visit_Call(self, node):
        if isinstance(node.func, ast.Attribute):
            owner, name = node.func.value, node.func.attr
            if isinstance(owner, ast.Name) and owner.id in CALLED:
                node = ast.Call(ast.Name(name), node.args, [])
            elif name in METHODS:
                node = ast.Call(ast.Name(name), [owner], [])
            elif name in LEFT_OUT:
                return self.visit(owner)
        if isinstance(node.func, ast.Name) and node.func.id == "float" and len(node.args) == 1:
            return self.visit(node.args[0])
        return ast.Call(node.func, [self.visit(part) for part in node.args], [])

    def visit_Subscript(self, node):
        if "None" in ast.unparse(node.slice):             # an axis for broadcasting
            return self.visit(node.value)
        return self.generic_visit(node)

    def visit_Attribute(self, node):
        if node.attr == "real":
            return self.visit(node.value)
        if isinstance(node.value, ast.Name) and node.value.id in CALLED:
            return ast.Name(node.attr)                    # pi, inf
        return self.generic_visit(node)
