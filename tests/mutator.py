"""Small changes to a function's code, one at a time: for tests/mutate.py."""

import ast

SWAPS = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Pow: ast.Mult,
    ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitOr, ast.LShift: ast.RShift, ast.RShift: ast.LShift, ast.Lt: ast.LtE,
    ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or,
    ast.Or: ast.And}


class Mutator(ast.NodeTransformer):
    """Counts what can be changed in a tree, and makes the change of number `wanted`."""

    def __init__(self, wanted=None):
        self.wanted, self.count, self.what = wanted, 0, None

    def is_wanted(self, node, what):
        self.count += 1
        if self.count - 1 != self.wanted:
            return False
        self.what = f"line {node.lineno}: {what}"
        return True

    def visit_Raise(self, node):
        return node                     # messages of errors are tested where they matter

    def visit_JoinedStr(self, node):
        return node

    def visit_FunctionDef(self, node):
        body = node.body[1:] if ast.get_docstring(node) else node.body
        node.body = [self.visit(statement) for statement in body]
        node.args.defaults = [self.visit(default) for default in node.args.defaults]
        node.decorator_list = []
        return node

    def swap_operator(self, node):
        other = SWAPS.get(type(node.op))
        name = type(node.op).__name__
        if other and self.is_wanted(node, f"{name} becomes {other.__name__}"):
            node.op = other()
        return self.generic_visit(node)

    def visit_BinOp(self, node):
        return self.swap_operator(node)

    def visit_BoolOp(self, node):
        return self.swap_operator(node)

    def visit_AugAssign(self, node):
        if self.is_wanted(node, "an augmented assignment becomes a plain one"):
            return ast.copy_location(ast.Assign([node.target], node.value), node)
        return self.swap_operator(node)

    def visit_Compare(self, node):
        for k, operator in enumerate(node.ops):
            other, name = SWAPS.get(type(operator)), type(operator).__name__
            if other and self.is_wanted(node, f"{name} becomes {other.__name__}"):
                node.ops[k] = other()
        return self.generic_visit(node)

    def visit_UnaryOp(self, node):
        if isinstance(node.op, (ast.USub, ast.Not, ast.Invert)):
            if self.is_wanted(node, f"{type(node.op).__name__} is left out"):
                return self.generic_visit(node.operand)
        return self.generic_visit(node)

    def visit_If(self, node):
        if self.is_wanted(node, "a condition is negated"):
            node.test = ast.copy_location(ast.UnaryOp(ast.Not(), node.test), node.test)
            return node
        return self.generic_visit(node)

    def visit_IfExp(self, node):
        return self.visit_If(node)

    def visit_Constant(self, node):
        if isinstance(node.value, bool):
            if self.is_wanted(node, f"{node.value} becomes {not node.value}"):
                return ast.copy_location(ast.Constant(not node.value), node)
        elif type(node.value) in (int, float):
            if self.is_wanted(node, f"{node.value} becomes {node.value + 1}"):
                return ast.copy_location(ast.Constant(node.value + 1), node)
        return node

    def visit_Call(self, node):
        if isinstance(node.func, ast.Attribute) and node.func.attr == "reshape":
            node.func = self.visit(node.func)
            node.args = [part if ast.unparse(part) == "-1" else self.visit(part)  # -2 is the same
                         for part in node.args]
            return node
        return self.generic_visit(node)
