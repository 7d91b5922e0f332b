"""The statements of a function that ran, as steps between variables."""

import ast
import re

from numformer.analysis.structure.observed_call import content_of, packed

SHAPE = re.compile(r"\([\w ,.*'/+-]*\)")


class Statements:
    """Steps and variables of an observed call.

    Parameters
    ----------
    call : Call

    Attributes
    ----------
    variables : list of [name, content, role]
    steps : list of (text, indices that it reads, indices that it makes)
    saved : str
        The tuple that is packed, as the code has it; empty without one.
    """

    def __init__(self, call):
        self.call, self.variables, self.steps, self._now = call, [], [], {}
        self.saved, tree = "", packed(call.tree)
        packed_names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} if (
            tree is not None) else set()
        for name, value in call.arguments.items():
            if value is not None or name in packed_names:
                self._make(name, content_of(value), "input")
        self._walk(call.tree.body)

    def _walk(self, statements):
        for statement in statements:
            after = self.call.after(statement)
            if after is None:
                continue
            if isinstance(statement, ast.For):
                each = self._indices(statement.iter)
                makes = self._targets(statement.target, after, statement)
                self.steps.append((f"for each of {text_of(statement.iter)}", each, makes))
            for block in ("body", "orelse", "finalbody"):
                self._walk(getattr(statement, block, []))
            read = getattr(self, f"_{type(statement).__name__.lower()}", None)
            if read is not None:
                read(statement, after)

    def _assign(self, statement, after):
        target, value = statement.targets[-1], statement.value
        if getattr(target, "id", "") == "saved" and isinstance(value, ast.Tuple):
            self.saved = text_of(value)
            self._mark(value, "saved")
            return
        reads = self._indices(value)
        for each in ast.walk(target):                 # x[...] = y changes x
            if isinstance(each, ast.Subscript):
                reads += [index for index in self._indices(each.value) if index not in reads]
        makes = [index for each in statement.targets
                 for index in self._targets(each, after, statement)]
        self.steps.append((text_of(value), reads, makes))

    def _augassign(self, statement, after):
        reads = self._indices(statement.target) + self._indices(statement.value)
        makes = self._targets(statement.target, after, statement)
        self.steps.append((f"added: {text_of(statement.value)}", list(dict.fromkeys(reads)), makes))

    def _expr(self, statement, after):
        call = statement.value
        if not isinstance(call, ast.Call) or "check" in text_of(call.func):
            return
        reads, owner = self._indices(call), getattr(call.func, "value", None)
        if isinstance(owner, ast.Name) and owner.id in self._now:
            makes = [self._make(owner.id, after.get(owner.id, ""), "value")]
        else:
            name = text_of(owner) if isinstance(owner, ast.Attribute) else "parameters"
            makes = [self._make(f"{name}.grad", "", "gradient")]
        self.steps.append((text_of(call), reads, makes))

    def _return(self, statement, after):
        value = statement.value
        results = self.call.result
        parts = value.elts if isinstance(value, ast.Tuple) else [value]
        results = results if isinstance(value, ast.Tuple) else [results]
        if self.saved or len(parts) == 2 and isinstance(parts[1], ast.Tuple):
            parts = parts[:-1]                        # the last is saved
        for part, result in zip(parts, results):
            if isinstance(part, ast.Name):
                self._mark(part, "output")
            elif isinstance(part, ast.Tuple):
                for each in part.elts:
                    self._mark(each, "output")
            elif part is not None:
                made = self._make("result", content_of(result), "output")
                self.steps.append((text_of(part), self._indices(part), [made]))

    def _targets(self, target, after, statement):
        """New variables for the targets of an assignment."""
        if isinstance(target, (ast.Tuple, ast.List)):
            return [index for each in target.elts
                    for index in self._targets(each, after, statement)]
        if isinstance(target, ast.Starred):
            return self._targets(target.value, after, statement)
        if isinstance(target, ast.Subscript) and not isinstance(target.value, ast.Name):
            return self._targets(target.value, after, statement)
        if isinstance(target, ast.Subscript):
            target = target.value
        if isinstance(target, ast.Attribute):
            name = text_of(target)
            return [self._make(name, "", "gradient" if name.endswith("grad") else "value")]
        content, comment = after.get(target.id, ""), self.call.comment(statement)
        alone = isinstance(statement, ast.Assign) and statement.targets[-1] is target
        if alone and SHAPE.fullmatch(comment) and content.startswith("("):
            content = f"{comment} = {content}"
        return [self._make(target.id, content, "value")]

    def _make(self, name, content, role):
        primes = sum(each[0].rstrip("′") == name for each in self.variables)
        self._now[name] = len(self.variables)
        self.variables.append([name + "′" * primes, content, role])
        return self._now[name]

    def _indices(self, node):
        """The variables that an expression reads."""
        names = [each.id for each in ast.walk(node) if isinstance(each, ast.Name)]
        return list(dict.fromkeys(self._now[name] for name in names if name in self._now))

    def _mark(self, node, role):
        """Give this role to the variables of a tuple; of ``x.shape`` x itself is not kept."""
        if isinstance(node, ast.Name) and node.id in self._now:
            entry = self.variables[self._now[node.id]]
            if role != "output" or entry[2] == "value":
                entry[2] = role
        elif not isinstance(node, (ast.Attribute, ast.Compare)):
            for child in ast.iter_child_nodes(node):
                self._mark(child, role)


def text_of(node):
    """The source of an expression, without ``self.``, on one line.

    Examples
    --------
    >>> text_of(ast.parse("self.norm.forward( x )").body[0].value)
    'norm.forward(x)'
    """
    return re.sub(r"\bself\.", "", ast.unparse(node))
