"""The mathematics of an observed call: the statements that compute arrays, as formulas.

A call is *unfolded* into its own statements where other functions with a backward do the work, as
in ``attend(q, k, v)``; what is a step of its own, such as ``softmax(scores)`` or a sublayer, stays
one. What makes no array (checks, choices, seeds) is left out, and so is what gives an array another
name or shape: arrays are told apart by themselves, not by their names.

Of a loop there is one step, the first that ran, with the names of what it hands on to the next: a
loop over layers alone is unrolled, as each of them has parameters of its own.
"""

import ast
import re

import numpy as np

from numformer.analysis.structure.formulas import (
    ATOM, POWER, SHORT, SUM, Formula, Writer, mark, number_in_words, plain_code,
    true_everywhere)
from numformer.analysis.structure.observed_call import Call, arrays_in
from numformer.analysis.structure.unfolding import (
    calls, handed_on, is_step_of_a_loop, is_unfolded, matching)
from numformer.parameter import Layer

COMPREHENSIONS = ast.ListComp, ast.GeneratorExp
SHAPE = re.compile(r"\([\w ,.*'/+-]*\)")


class Loop:
    """What repeats some steps.

    Parameters
    ----------
    label : str
        Such as "for each t", with marks of variables.
    reads : tuple of int
        Variables in the label that the steps read.

    Attributes
    ----------
    carried : dict of int to int
        The variable that the first step read, to that which later ones read in its place.
    """

    def __init__(self, label, reads=()):
        self.label, self.reads, self.carried = label, tuple(reads), {}


class Mathematics:
    """Steps and variables of an observed call.

    Parameters
    ----------
    call : Call
    layer : Layer
        Whose parameters and sublayers have names.
    known : list of (array, name)
        What the call finds ready, such as what the forward saved for a backward.
    numbers : dict
        Those of the forward.

    Attributes
    ----------
    variables : list of [name, content, role]
    steps : list of [name, formula, indices that it makes]
    loops : dict of int to Loop
        Of variables that are made in one.
    """

    def __init__(self, call, layer, known=(), numbers=()):
        self.layer, self.variables, self.steps = layer, [], []
        self._index, self._formulas, self._kept, self._made = {}, {}, [], {}
        self._saved = {id(array): name for array, name in known}
        self._parameters = {id(parameter.data): name
                            for name, parameter in layer.named_parameters()}
        self._gradients = {id(parameter.grad): name
                           for name, parameter in layer.named_parameters()}
        self._layers = {id(part): _last(name) for name, part in layer.named_layers()}
        self._alone = handed_on(call, layer)
        self._unrolled, self._written = set(), dict(numbers)
        self.loops, self._loop, self._loops, self._first = {}, None, {}, {}
        for name, value in call.arguments.items():
            for array in arrays_in(value) if name not in ("self", "saved") else ():
                if self._symbol(array) is None and not true_everywhere(array):
                    self._variable(name, array, "input")
        self.names, self.constants, self.results, self._numbers = {}, {}, set(), {}
        self._frame(call)
        for array in arrays_in(call.returned):
            if id(array) in self._index and not self.variables[
                    self._index[id(array)]][1].endswith(str(array.shape)):
                self.variables[self._index[id(array)]][1] = str(array.shape)

    # variables

    @property
    def numbers(self):
        """(name, value) to the `Formula` of a number that was computed."""
        return self._written

    def index_of(self, array):
        """The index of the variable of an array; None if it has none."""
        return self._index.get(id(array))

    def index_with(self, array):
        """The index of the variable of an array, or of one that has the same numbers in another
        order, such as heads that were joined; None if there is none."""
        found = self.index_of(array)
        if found is not None or array.size < 2:
            return found
        numbers = np.sort(array, axis=None)
        for other in reversed(self._kept):
            if (self.index_of(other) is not None and other.dtype == array.dtype
                    and np.array_equal(np.sort(other, axis=None), numbers)):
                return self.index_of(other)
        return None

    def _variable(self, name, array, role="value", comment=""):
        content = str(array.shape) if array.shape else "a number"
        if _fits(comment, array):
            content = f"{comment} = {content}"
        self.variables.append([name, content, role])
        self._let(array, len(self.variables) - 1)
        return len(self.variables) - 1

    def _let(self, array, index):
        self._index[id(array)] = index
        self._kept.append(array)                      # so that no other array gets its id

    def _symbol(self, array):
        """The symbol of a sublayer's parameter; None for other arrays."""
        for each, sign in ((array, ""), (array.base, "ᵀ" if array.ndim == 2 else "")):
            name = self._parameters.get(id(each))
            if name is not None and ("." in name or sign):
                *owner, last = name.split(".")
                if last.isdigit() and owner:
                    return f"{owner[-1]}_{last}{sign}"
                letter = {"weight": "W", "bias": "b"}.get(last)
                return (f"{letter}_{owner[-1]}" if letter and owner else last) + sign
        return None

    def _of_value(self, numbers, name, value):
        """The `Formula` of a name and its value; None for what is no part of the mathematics."""
        if isinstance(value, np.ndarray):
            if id(value) in self._formulas:
                return self._formulas[id(value)]
            if id(value) not in self._index:
                symbol = self._symbol(value)
                if symbol is not None:
                    return Formula(symbol, POWER if symbol.endswith("ᵀ") else ATOM)
                if true_everywhere(value):
                    return None
                known = self._saved.get(id(value))
                name = self._parameters.get(id(value), name)
                self._variable(known or name or "array", value, "saved" if known else "input")
            return mark(self._index[id(value)])
        if isinstance(value, Call):
            value = self._owner(value)
        if isinstance(value, Layer):
            return Formula(self._layers[id(value)]) if self._layers.get(id(value)) else None
        if isinstance(value, (bool, type(None))):
            return None
        if isinstance(value, (int, float, np.number)):
            found = numbers.get(name) or self._written.get((name, value))
            if found is not None and len(found.text) <= SHORT:
                return found
            if value == 1 or not name or abs(value) >= 1 and not name.isupper():
                return Formula(number_in_words(value), SUM if value < 0 else ATOM)
            return Formula(name)
        if name.startswith("saved"):
            found = {id(array): self._of_value(numbers, name, array) for array in arrays_in(value)
                     if id(array) in self._index or self._saved.get(id(array))}
            texts = [each.text for each in found.values() if each is not None and each.variables]
            return Formula(", ".join(texts)) if texts else None
        if isinstance(value, (tuple, list)):
            found = [self._of_value(numbers, name, array) for array in arrays_in(value)]
            texts = dict.fromkeys(each.text for each in found if each is not None)
            return Formula(", ".join(list(texts)[:6])) if texts else None
        return None

    def _owner(self, call):
        """The sublayer whose parameters a call of a function reads; None if there are several."""
        names = {self._parameters[id(array)].rpartition(".")[0] for array in call.arguments.values()
                 if id(array) in self._parameters}
        return dict(self.layer.named_layers()).get(names.pop()) if len(names) == 1 else None

    def _known(self, array):
        """The `Formula` of an array that has one."""
        if id(array) in self._index:
            return mark(self._index[id(array)])
        return self._formulas.get(id(array))

    # statements

    def _frame(self, call):
        """The statements of a call, in the order in which they ran."""
        numbers = {name: self._numbers.get(name) for name in call.arguments}
        inside, outer = loops_of(call.tree), self._loop
        for visit in call.visits:
            statement, n_steps = visit.statement, len(self.steps)
            self._loop = self._loops.get((id(call), id(inside.get(id(statement)))), outer)
            writer = Writer(lambda name, value: self._of_value(numbers, name, value), self._known,
                            matching(visit, call), visit.before, call.globals)
            kind = type(statement).__name__
            read = getattr(self, f"_{kind.lower()}", None)
            if read is not None:
                read(statement, visit, call, writer, numbers)
            for _, _, makes in self.steps[n_steps:]:
                for index in makes if self._loop is not None else ():
                    self.loops.setdefault(index, self._loop)
        self._loop = outer

    def _for(self, statement, visit, call, writer, numbers):
        values = [visit.after.get(node.id) for node in ast.walk(statement.target)
                  if isinstance(node, ast.Name)]
        if any(isinstance(value, Layer) for value in values):
            self._unrolled.update(map(id, ast.walk(statement)))
        else:
            self._loops.setdefault((id(call), id(statement)), Loop(label_of(statement)))
        arrays = [(node.id, visit.after.get(node.id)) for node in ast.walk(statement.target)
                  if isinstance(node, ast.Name)]
        self._make(statement, call, arrays, lambda: writer.formula(statement.iter), visit)

    def _assign(self, statement, visit, call, writer, numbers):
        first, value = statement.targets[-1], statement.value
        if isinstance(first, ast.Tuple) and isinstance(value, ast.Tuple) and (
                len(first.elts) == len(value.elts)
                and not any(isinstance(each, ast.Starred) for each in first.elts + value.elts)):
            for target, part in zip(first.elts, value.elts):
                each = ast.copy_location(ast.Assign([target], part), statement)
                self._assign(each, visit, call, writer, numbers)
            return
        targets = [(node, node.id) for target in statement.targets for node in ast.walk(target)
                   if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
        into = [node for target in statement.targets for node in ast.walk(target)
                if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name)]
        each = comprehension_in(value)
        if each is not None and targets and self._each(
                each, targets[0][1], visit.after.get(targets[0][1]), writer):
            return
        items = [node for node in into if isinstance(visit.after.get(node.value.id), list)]
        if items:                                     # a list: each run of a loop fills a place
            into = []
            arrays = [(node.value.id, item_of(node, visit, call)) for node in items]
            arrays += [(name, visit.after.get(name)) for _, name in targets]
        else:
            arrays = [(name, visit.after.get(name)) for _, name in targets]
        arrays = [pair for name, found in arrays for pair in (
            [(name, found)] if isinstance(found, np.ndarray) else
            [("result", array) for array in arrays_in(found)] * (not name.startswith("saved")))]
        if into:
            self._change(into[0].value.id, statement.value, call, visit, writer, into[0])
            return
        if not any(isinstance(value, np.ndarray) for _, value in arrays):
            self._number(statement, visit, writer, numbers, [name for _, name in targets])
            return
        self._make(statement, call, arrays, lambda: writer.formula(statement.value), visit,
                   statement.value, writer)

    def _each(self, comprehension, name, found, writer):
        """One step for all items of a comprehension; whether its items are arrays."""
        arrays = list(arrays_in(found))
        if not arrays or isinstance(found, np.ndarray):
            return False
        formula, label = writer.each(comprehension)
        reads = Formula(label).variables
        if not (reads or formula.variables):
            return False
        widths = {array.shape[1:] for array in arrays}
        shape = str(arrays[0].shape) if len({array.shape for array in arrays}) == 1 else (
            f"(..., {str(widths.pop())[1:].rstrip(',)')})" if len(widths) == 1 else "(...)")
        index = self._variable(name, arrays[0])
        self.variables[index][1] = shape
        for array in arrays[1:]:
            self._let(array, index)
        self.steps.append(["", formula, (index,)])
        self.loops[index] = Loop(label, reads)
        return True

    def _again(self, key, value, writer):
        """A later run of a statement in a loop: what it reads in place of earlier variables."""
        before, calls_before = self._first.get(key, ((), ()))
        now = self._leaves(value, writer)
        for one, other in zip(before, now):
            if self._loop is not None and None not in (one, other) and one != other:
                self._loop.carried.setdefault(one, other)
                zeros = self.constants.get(one)
                if zeros is not None and zeros.text.startswith("zeros"):
                    first = next(k for k, step in enumerate(self.steps)
                                 if self.loops.get(step[2][0]) is self._loop)
                    self.steps.insert(first, ["", Formula("0"), (one,)])
                    self.variables[one][2] = "value"
                    del self.constants[one]
        for one, other in zip(calls_before, self._calls_in(value, writer)):
            for first, later in zip(one.below(), other.below()):
                if first.code is later.code:
                    self._alike(first, later)

    def _alike(self, first, later):
        """The arrays of a call are variables of an earlier one that ran the same code."""
        pairs = [(first.result, later.result)]
        if first.visits and later.visits:
            one, other = first.visits[-1].after, later.visits[-1].after
            pairs += [(one[name], other[name]) for name in one if name in other]
        for one, other in pairs:
            for array, same in zip(arrays_in(one), arrays_in(other)):
                if id(array) in self._index and id(same) not in self._index:
                    self._let(same, self._index[id(array)])

    def _leaves(self, value, writer):
        """For each name and subscript of an expression its variable, or None."""
        found = [writer.value(node) for node in ast.walk(value)
                 if isinstance(node, (ast.Name, ast.Subscript))] if value is not None else []
        return [self._index.get(id(each)) if isinstance(each, np.ndarray) else None
                for each in found]

    @staticmethod
    def _calls_in(value, writer):
        nodes = calls(value) if value is not None else ()
        return [call for call in map(writer.called, nodes) if call is not None]

    def _augassign(self, statement, visit, call, writer, numbers):
        target = statement.target
        if isinstance(target, ast.Name) and isinstance(visit.after.get(target.id), np.ndarray):
            value = ast.BinOp(ast.Name(target.id, ast.Load()), statement.op, statement.value)
            self._change(target.id, ast.fix_missing_locations(ast.copy_location(
                value, statement)), call, visit, writer)
            return
        whole = target.value if isinstance(target, ast.Subscript) else target
        owner = writer.value(whole) if isinstance(whole, ast.Attribute) else None
        name = self._gradients.get(id(owner)) if owner is not None else None
        if name is not None:
            formula = writer.formula(statement.value)
            self.variables.append([f"d{name}", str(owner.shape), "gradient"])
            self.steps.append(["", formula, (len(self.variables) - 1,)])

    def _change(self, name, value, call, visit, writer, part=None):
        """An array gets other numbers, or a part of it does."""
        array, key = visit.after.get(name), (id(call), id(visit.statement), name)
        if not isinstance(array, np.ndarray):
            return
        before, formula = self._index.get(id(array)), writer.formula(value)
        if formula.variables and key not in self._made:
            if part is not None:
                place = plain_code(part)
                if before is not None and before not in formula.variables:
                    place = re.sub(rf"\b{name}\b", mark(before).text, place, count=1)
                formula = Formula(f"{place} = {formula.text}", SUM)
            index = self._variable(name, array)
            self.steps.append(["", formula, (index,)])
            self._made[key] = index

    def _return(self, statement, visit, call, writer, numbers):
        self._returned(statement, statement.value, call.result, visit, call, writer)

    def _returned(self, statement, part, result, visit, call, writer):
        """Variables for what is returned without a name."""
        if isinstance(part, ast.Tuple) and isinstance(result, tuple):
            starred = [isinstance(each, ast.Starred) for each in part.elts]
            if starred == [True] + [False] * (len(starred) - 1):      # *(dx, dw), db
                n_rest = len(starred) - 1
                first = result[:len(result) - n_rest]
                self._returned(statement, part.elts[0].value, first, visit, call, writer)
                rest = result[len(result) - n_rest:]
                for each, value in zip(part.elts[1:], rest):
                    self._returned(statement, each, value, visit, call, writer)
            elif not any(starred) and len(part.elts) == len(result):
                for each, value in zip(part.elts, result):
                    self._returned(statement, each, value, visit, call, writer)
            return
        if part is None or isinstance(part, ast.Name):
            return
        if result is call.result:
            result = call.returned
        arrays = [(f"result{k or ''}", array) for k, array in enumerate(arrays_in(result))]
        if arrays:
            self._make(statement, call, arrays, lambda: writer.formula(part), visit, part, writer)

    def _number(self, statement, visit, writer, numbers, names):
        """Remember how a number is computed."""
        if len(names) != 1 or not isinstance(visit.after.get(names[0]), (int, float, np.number)):
            return
        name, value = names[0], visit.after[names[0]]
        if len(name) == 1 and name.isupper():         # the letter of a size
            return
        found = self._of_number(writer, statement.value)
        numbers[name] = self._written[name, value] = found or Formula(number_in_words(value))

    def _of_number(self, writer, node):
        """The formula of a number, also of one that other functions return; None if it is long."""
        call = writer.called(node) if isinstance(node, ast.Call) else None
        if call is None:
            return _short_number(writer, node)
        last = call.visits[-1] if call.visits else None
        if last is None or not isinstance(last.statement, ast.Return):
            return None
        inner = Writer(lambda name, value: self._of_value({}, name, value), self._known,
                       matching(last, call), last.before, call.globals)
        return self._of_number(inner, last.statement.value)

    def _make(self, statement, call, arrays, formula, visit, value=None, writer=None):
        """New variables for the arrays of an assignment, or other names for known ones."""
        arrays = [(name, array) for name, array in arrays if isinstance(array, np.ndarray)
                  and not name.startswith("saved") and not true_everywhere(array)]
        node = statement if value is None else value
        key = (id(call), id(node), *(name for name, _ in arrays))
        if key in self._made and id(node) not in self._unrolled:
            for (_, array), index in zip(arrays, self._made[key]):    # a later run of a loop
                if id(array) not in self._index:
                    self._let(array, index)
            if writer is not None:
                self._again(key, value, writer)
            return
        if writer is not None and self._loop is not None:
            self._first[key] = self._leaves(value, writer), self._calls_in(value, writer)
        first, n_steps = len(self.variables), len(self.steps)
        if all(id(array) in self._index for _, array in arrays):
            if self._loop is not None and getattr(value, "id", "").startswith("saved"):
                for name, array in arrays:            # `after` of one step is `state` of the next
                    if name in self._saved.values():
                        self.variables[self._index[id(array)]][0] = name
            return
        if isinstance(value, ast.Name) and value.id.startswith("saved"):
            for name, array in arrays:                # unpacked
                if id(array) not in self._index:
                    self._of_value({}, name, array)
            return
        if isinstance(value, ast.Call) and "np.empty" in ast.unparse(value.func):
            return                                    # room, and no numbers
        call_of = writer.called(value) if isinstance(value, ast.Call) else None
        if call_of is not None and call_of.code.co_name.strip("_").startswith("check"):
            for name, array in arrays:                # a mask, say
                if id(array) not in self._index:
                    self._variable(name, array, "input", call.comment(statement))
            return
        if value is not None:
            self._unfold_in(value, writer)
        comment = call.comment(statement) if len(arrays) == 1 else ""
        if "split_heads(" in ast.unparse(statement):
            for name, array in arrays:
                found = self._of_memory(array)
                if found is not None:
                    self._rename(found, (name, array), comment)
        if not all(id(array) in self._index or id(array) in self._formulas
                   for _, array in arrays):
            text = formula()
            alone = text.alone
            if alone is not None and len(arrays) == 1:
                self._rename(alone, arrays[0], comment)
            elif len(arrays) > 1 and writer and writer.gradients(value):
                for (name, array), each in zip(arrays, writer.gradients(value)):
                    self.steps.append(["", each, (self._variable(name, array),)])
            elif not text.variables and not isinstance(statement, ast.For):
                for name, array in arrays:            # of no other array: a table or a mask
                    index = self._variable(name, array, "input", comment)
                    self.constants[index] = text
            else:
                new = [self._variable(name, array, comment=comment) for name, array in arrays
                       if id(array) not in self._index]
                self.steps.append([self._title(value, writer), text, tuple(new)])
        for name, array in arrays:
            index = self._index.get(id(array), -1)
            if index >= first and self.steps[n_steps:]:
                self._rename(index, (name, array), comment)
        if all(id(array) in self._index for _, array in arrays):
            self._made[key] = [self._index[id(array)] for _, array in arrays]

    def _of_memory(self, array):
        """The variable with the same numbers in another shape; None if there is none."""
        if id(array) in self._index:
            return None
        return next((self._index[id(each)] for each in self._kept if id(each) in self._index
                     and each.size == array.size and np.may_share_memory(each, array)), None)

    def _rename(self, index, named, comment):
        """Call a variable what its statement calls it, unless that is an input."""
        name, array = named
        self._let(array, index)
        entry = self.variables[index]
        if entry[2] != "value":
            return
        if not name.startswith(("result", "_")):
            entry[0] = name
        if not any(index in step[1].variables for step in self.steps):
            shape = str(array.shape) if array.shape else "a number"
            if _fits(comment, array):
                entry[1] = f"{comment} = {shape}"
            elif not _same(entry[1], shape):
                entry[1] = shape

    # calls

    def _unfold_in(self, value, writer):
        """Unfold the calls of an expression that are no step, from the inside out."""
        for node in calls(value):
            call = writer.called(node)
            step = self._loop is not None and call is not None and is_step_of_a_loop(call)
            if call is None or not (step or is_unfolded(call, self.layer, self._alone)):
                continue
            self._bind(node, call, writer)
            plain = next((each for each in call.below() if each.plain), None)
            if plain is not None:
                self._in_place_of(plain)
                continue
            outer, self._numbers = self._numbers, {
                name: self._passed(node, call, name, writer) for name in call.arguments}
            self._frame(call)
            self._numbers = outer

    def _in_place_of(self, call):
        """The steps of the function that a call computes in another way."""
        plain, _ = call.in_plain()
        self._kept.append(plain)
        self._frame(plain)
        for array, same in zip(arrays_in(call.returned), arrays_in(plain.returned)):
            self._let(array, self._index[id(same)])

    def _passed(self, node, call, name, writer):
        """The formula of a number that is passed on, if it has one."""
        value = call.arguments[name]
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            return None
        for argument in [*node.args, *(each.value for each in node.keywords)]:
            if isinstance(argument, ast.Name) and argument.id == name:
                return writer.formula(argument)
        return None

    def _bind(self, node, call, writer):
        """Let the arguments that are expressions stand for their formulas inside the call."""
        names = [name for name in call.arguments if name != "self"]
        for name, argument in zip(names, node.args):
            array = call.arguments[name]
            if isinstance(argument, ast.Starred):
                break
            if isinstance(array, np.ndarray) and not isinstance(argument, ast.Name) and (
                    id(array) not in self._index and self._symbol(array) is None):
                formula = writer.formula(argument)
                if formula.alone is not None:
                    self._let(array, formula.alone)
                elif formula.variables:
                    self._formulas[id(array)] = formula
                    self._kept.append(array)

    def _title(self, value, writer):
        """What a step is called: the sublayer that it is."""
        call = writer.called(value) if writer and isinstance(value, ast.Call) else None
        if call is None:
            return ""
        layer = call.layer if call.code.co_name == "forward" else (
            self._owner(call) if call.code.co_name.endswith("_norm") else None)
        if layer is None or layer is self.layer:
            return ""
        about = layer.describe()
        return f"{about.name}: {about.sizes}" if about.sizes else about.name


def loops_of(tree):
    """The innermost loop of each statement that is in one: {id of the statement: ast.For}."""
    found = {}
    for loop in ast.walk(tree):                       # from the outside in
        if isinstance(loop, ast.For):
            found.update((id(node), loop) for statement in loop.body
                         for node in ast.walk(statement) if isinstance(node, ast.stmt))
    return found


def label_of(loop):
    """What a loop is called.

    Examples
    --------
    >>> label_of(ast.parse("for t in reversed(range(T)): pass").body[0])
    'for each t, from the last on'
    >>> label_of(ast.parse("for k, (W, E) in enumerate(x): pass").body[0])
    'for each k, W, E'
    """
    names = [node.id for node in ast.walk(loop.target) if isinstance(node, ast.Name)]
    backwards = isinstance(loop.iter, ast.Call) and getattr(loop.iter.func, "id", "") == "reversed"
    return f"for each {', '.join(names)}" + ", from the last on" * backwards


def comprehension_in(value):
    """The comprehension that an expression is, or that it transposes by zip; else None."""
    if isinstance(value, ast.Call) and getattr(value.func, "id", "") == "zip" and len(
            value.args) == 1 and isinstance(value.args[0], ast.Starred):
        value = value.args[0].value
    return value if isinstance(value, COMPREHENSIONS) and len(value.generators) == 1 else None


def item_of(node, visit, call):
    """The item of a list that a statement has set."""
    place = ast.copy_location(ast.Subscript(node.value, node.slice, ast.Load()), node)
    place = ast.Expression(ast.parse(ast.unparse(place), mode="eval").body)
    return eval(compile(place, "", "eval"), call.globals | visit.after)    # a copy of our own code


def _last(name):
    """The last part of a dotted name, and the one before a number."""
    parts = name.split(".")
    return "_".join(parts[-2:]) if parts[-1].isdigit() else parts[-1]


def _short_number(writer, node):
    """The formula of a number, if it has letters and no names of the code."""
    found = writer.formula(node)
    return found if len(found.text) <= SHORT and not re.search(r"[a-z(]", found.text) else None


def _fits(comment, array):
    """Whether a comment is the shape of an array, in letters."""
    letters = comment.count(",") + 1 - comment.endswith(",)")
    return bool(SHAPE.fullmatch(comment)) and array.ndim > 0 and (
        letters == array.ndim or comment.startswith("(..."))


def _same(one, other):
    """Whether two shapes, as texts, are the same but for axes of 1."""
    one, other = (re.findall(r"\d+", each.split("=")[-1]) for each in (one, other))
    return [size for size in one if size != "1"] == [size for size in other if size != "1"]
