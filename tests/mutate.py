"""Would a test notice? Change one small thing in the code at a time, and run the tests until one fails.

    python tests/mutate.py                         all of functional/, layers/ and the optimizers: hours of processor time
    python tests/mutate.py functional/softmax.py   one file
    python tests/mutate.py --kernels               the kernels as plain Python; in a run of their own, for it goes without Numba

For developers; no part of the ordinary suite. A mutant is one function in which one operator, comparison, constant or
condition is another. It is put in place by exchanging the function's code object, in a forked process that already has
everything imported. A mutant that no test minds is a survivor: a gap in the tests, or a change that makes no difference.
"""

import argparse
import ast
import contextlib
import copy
import gc
import inspect
import math
import os
import resource
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent
PACKAGE = TESTS.parent / "numformer"
SUBJECTS = ["functional/*.py", "layers/*.py", "training/optimizers.py"]
KERNELS = [f"kernels/{page}.py" for page in (                         # compiled.py, launch.py and shapes.py are about compiling itself
    "activations", "adam", "arithmetic", "attention", "token_step", "cross_entropy", "dropout", "embedding", "linear", "memory",
    "normalization", "positions", "sharing", "tiles")]
SUITES = {                                                            # the tests that may notice, the quick ones first
    "functional/": ["test_scores.py", "test_relative_positions.py", "test_local_and_global.py", "test_functional.py",
                    "test_fifty_digits.py", "test_contract.py", "test_attention.py", "test_torch_witness.py",
                    "test_torch_witness_layers.py", "test_tiled_attention.py", "test_check.py", "test_vision_parts.py",
                    "test_mixture_of_experts.py", "test_recurrent.py"],
    "layers/": ["test_scores.py", "test_relative_positions.py", "test_defaults.py", "test_token_step.py", "test_contract.py",
                "test_attention.py", "test_torch_witness.py", "test_torch_witness_layers.py", "test_decoder.py", "test_generation.py",
                "test_vision_parts.py", "test_mixture_of_experts.py", "test_recurrent.py"],
    "kernels/": ["test_twins.py::test_twins_equal_the_truth", "plain_parts.py", "plain_kernels.py", "test_twins.py"],
    "training/": ["test_optimizers.py", "test_torch_witness.py", "test_training.py", "test_checkpoint.py"],
}
PATIENCE = 6                                                          # a mutant that computes so many times as long hangs: noticed
STUCK = 900                                                           # seconds after which one that computes nothing hangs too

SWAPS = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Pow: ast.Mult, ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.BitXor: ast.BitOr, ast.LShift: ast.RShift, ast.RShift: ast.LShift,
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot,
    ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And}


class Mutator(ast.NodeTransformer):
    """Counts the places that can be changed, and changes the one whose number is wanted."""

    def __init__(self, wanted=None):
        self.wanted, self.count, self.what = wanted, 0, None

    def here(self, node, what):
        self.count += 1
        if self.count - 1 != self.wanted:
            return False
        self.what = f"line {node.lineno}: {what}"
        return True

    def visit_Raise(self, node):
        return node                                                   # the words of an error are tested where they matter

    def visit_FunctionDef(self, node):
        body = node.body[1:] if ast.get_docstring(node) else node.body
        node.body = [self.visit(statement) for statement in body]
        node.args.defaults = [self.visit(default) for default in node.args.defaults]
        node.decorator_list = []
        return node

    def swapped(self, node, attribute):
        operator = getattr(node, attribute)
        other = SWAPS.get(type(operator))
        if other and self.here(node, f"{type(operator).__name__} becomes {other.__name__}"):
            setattr(node, attribute, other())
        return self.generic_visit(node)

    def visit_BinOp(self, node):
        return self.swapped(node, "op")

    def visit_BoolOp(self, node):
        return self.swapped(node, "op")

    def visit_AugAssign(self, node):
        if self.here(node, "an augmented assignment becomes a plain one"):
            return ast.copy_location(ast.Assign([node.target], node.value), node)
        return self.swapped(node, "op")

    def visit_Compare(self, node):
        for k, operator in enumerate(node.ops):
            other = SWAPS.get(type(operator))
            if other and self.here(node, f"{type(operator).__name__} becomes {other.__name__}"):
                node.ops[k] = other()
        return self.generic_visit(node)

    def visit_UnaryOp(self, node):
        if isinstance(node.op, (ast.USub, ast.Not, ast.Invert)) and self.here(node, f"{type(node.op).__name__} is left out"):
            return self.generic_visit(node.operand)
        return self.generic_visit(node)

    def visit_If(self, node):
        if self.here(node, "a condition is turned round"):
            node.test = ast.copy_location(ast.UnaryOp(ast.Not(), node.test), node.test)
            return node
        return self.generic_visit(node)

    def visit_IfExp(self, node):
        return self.visit_If(node)

    def visit_Constant(self, node):
        if isinstance(node.value, bool) and self.here(node, f"{node.value} becomes {not node.value}"):
            return ast.copy_location(ast.Constant(not node.value), node)
        if type(node.value) in (int, float) and self.here(node, f"{node.value} becomes {node.value + 1}"):
            return ast.copy_location(ast.Constant(node.value + 1), node)
        return node

    def visit_Call(self, node):
        if isinstance(node.func, ast.Attribute) and node.func.attr == "reshape":
            node.func = self.visit(node.func)
            node.args = [part if ast.unparse(part) == "-1" else self.visit(part) for part in node.args]     # -2 would say the same
            return node
        return self.generic_visit(node)

    def visit_JoinedStr(self, node):
        return node


def functions(path):
    """(name, tree, function) of every function and method of a file."""
    module = import_module(".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts))
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef):
            function = inspect.unwrap(getattr(module, node.name))
            drawn_up = {part.id for inner in ast.walk(node) if isinstance(inner, ast.FunctionDef) for decorator in inner.decorator_list
                        for part in ast.walk(decorator) if isinstance(part, ast.Name)}
            if function.__module__ == module.__name__ and not drawn_up & {"intrinsic", "overload"}:       # these make code, they do not run
                yield node.name, node, function
        elif isinstance(node, ast.ClassDef):
            kind = getattr(module, node.name)
            for method in node.body:
                if isinstance(method, ast.FunctionDef) and method.name not in ("__repr__", "_repr_html_"):
                    found = inspect.getattr_static(kind, method.name)
                    yield f"{node.name}.{method.name}", method, getattr(found, "fget", None) or getattr(found, "__func__", found)


def put_in_place(tree, function):
    """Give a function the code of a changed tree; a method is compiled inside of a class, where `super()` has its cell."""
    body = [ast.ClassDef("Mutant", [], [], [tree], [])] if "." in function.__qualname__ else [tree]
    names = dict(function.__globals__)
    exec(compile(ast.fix_missing_locations(ast.Module(body, [])), "mutant", "exec"), names)
    changed = vars(names["Mutant"])[tree.name] if "." in function.__qualname__ else names[tree.name]
    function.__code__, function.__defaults__, function.__kwdefaults__ = changed.__code__, changed.__defaults__, changed.__kwdefaults__


def suite(path):
    name = path.relative_to(PACKAGE).as_posix()
    return next([str(TESTS / test) for test in tests] for folder, tests in SUITES.items() if name.startswith(folder))


def arguments_of_pytest(path):
    doctests = [] if path.parent.name == "kernels" else [str(path)]   # the examples of the changed page itself come first
    return ["-x", "-q", "--assert=plain", "-p", "no:cacheprovider", *doctests, *suite(path)]


def survives(path, tree, function, seconds):
    """Whether the tests pass with this mutant within so many seconds of processor time: run in a child process."""
    child = os.fork()
    if child == 0:
        status = 1
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(seconds), math.ceil(seconds) + 1))
        with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
            with contextlib.suppress(BaseException):
                put_in_place(tree, function)
                status = int(pytest.main(arguments_of_pytest(path)))
        os._exit(status)
    started = time.monotonic()
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status == 0
        if time.monotonic() - started > STUCK:
            os.kill(child, 9)
            os.waitpid(child, 0)
            return False
        time.sleep(0.02)


def survivor(path, name, tree, function, number):
    mutator = Mutator(number)
    mutator.visit(copy.deepcopy(tree))
    return f"survives: {path.relative_to(PACKAGE)} {name} {mutator.what}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("file", nargs="*", help="below numformer/ (default: all subjects)")
    parser.add_argument("--kernels", action="store_true", help="the compiled twins, as plain Python")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--every", type=int, default=1, metavar="N", help="only each N-th mutant: a sample")
    parser.add_argument("--again", metavar="FILE", help="only those that survived in a former run, whose output this is")
    arguments = parser.parse_args()
    sys.path.insert(0, str(TESTS))
    patterns = arguments.file or (KERNELS if arguments.kernels else SUBJECTS)
    paths = [path for pattern in patterns for path in sorted(PACKAGE.glob(pattern)) if path.name != "__init__.py"]
    if any(path.parent.name == "kernels" for path in paths):
        os.environ["NUMBA_DISABLE_JIT"] = "1"
    for test in {"conftest", *(test for path in paths for test in suite(path))}:      # once here, instead of once in every child
        import_module(Path(test).stem)
    gc.freeze()                                                       # nor need every child look through all that for garbage
    jobs = []
    for path in paths:
        for name, tree, function in functions(path):
            counter = Mutator()
            counter.visit(copy.deepcopy(tree))
            jobs += [(path, name, tree, function, number) for number in range(counter.count)]
    jobs = jobs[::arguments.every]
    if arguments.again:
        former = set(Path(arguments.again).read_text().splitlines())
        jobs = [job for job in jobs if survivor(*job) in former]
    seconds = {}

    def alone(path):
        """Seconds of processor time that the tests may take: so a pause of the whole machine is no hanging mutant."""
        _, tree, function = next(functions(path))
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        if not survives(path, Mutator().visit(copy.deepcopy(tree)), function, 600):
            sys.exit(f"the tests of {path.relative_to(PACKAGE)} fail without any change")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return PATIENCE * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)

    def run(job):
        path, _, tree, function, number = job
        return job, survives(path, Mutator(number).visit(copy.deepcopy(tree)), function, seconds[suite(path)[0]])

    total = survivors = 0
    with ThreadPoolExecutor(arguments.jobs) as pool:
        for path in {suite(path)[0]: path for path in paths}.values():    # in a thread, as all mutants; else each would seem noticed
            seconds[suite(path)[0]] = pool.submit(alone, path).result()
        for job, lives in pool.map(run, jobs):
            total, survivors = total + 1, survivors + lives
            if lives:
                print(survivor(*job), flush=True)
            if total % 50 == 0:
                print(f"{total} of {len(jobs)}", file=sys.stderr, flush=True)
    print(f"{total} mutants, {survivors} survive: {1 - survivors / max(1, total):.1%} killed")


if __name__ == "__main__":
    main()
