"""Would a test notice? Change one small thing in the code at a time, and run tests until one fails.

    python tests/mutate.py                         functional/, layers/, the optimizers: CPU hours
    python tests/mutate.py functional/softmax.py   one file
    python tests/mutate.py --kernels               the kernels as plain Python, in a separate run

For developers; not part of the test suite. A mutant is one function in which one operator,
comparison, constant or condition is changed. It replaces the function's code object, in a forked
process that has already imported everything. A mutant that passes all tests is a survivor: a gap in
the tests, or a change that makes no difference.
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
from mutator import Mutator

TESTS = Path(__file__).resolve().parent
PACKAGE = TESTS.parent / "numformer"
SUBJECTS = ["functional/**/*.py", "layers/**/*.py", "training/optimizers.py", "training/muon.py",
            "training/clipping.py"]
KERNELS = ["kernels/*.py", "kernels/attention/*.py", "kernels/decoding/*.py",
           "kernels/runtime/*.py"]
NOT_MUTATED = ["compile.py", "launch.py", "shapes.py", "workspace.py"]      # how kernels are run
SUITES = {                              # the tests that may notice, the quick ones first
    "functional/": ["functional/**/test_*.py", "layers/**/test_*.py", "verify/test_contract.py",
                    "models/test_local_and_global.py", "teaching/test_check.py"],
    "layers/": ["layers/**/test_*.py", "verify/test_contract.py", "functional/**/test_*.py",
                "models/test_decoder.py", "generation/test_generation.py"],
    "kernels/": ["kernels/test_compiled_equals_reference.py::test_compiled_equals_reference",
                 "kernels/plain/plain_*.py", "kernels/test_compiled_*.py",
                 "kernels/test_decoding_step.py"],
    "training/": ["training/test_optimizers.py", "training/test_torch_witness*.py",
                  "training/test_training.py", "training/test_checkpoint.py"],
}
PATIENCE = 6                            # a mutant that takes so many times as long hangs: noticed
STUCK = 900                             # seconds after which one that computes nothing hangs too


def functions(path):
    """(name, tree, function) of every function and method of a file."""
    module = import_module(".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts))
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef):
            function = inspect.unwrap(getattr(module, node.name))
            if function.__module__ == module.__name__ and not makes_code(node):
                yield node.name, node, function
        elif isinstance(node, ast.ClassDef):
            kind = getattr(module, node.name)
            for method in node.body:
                if (isinstance(method, ast.FunctionDef)
                        and method.name not in ("__repr__", "_repr_html_")):
                    found = inspect.getattr_static(kind, method.name)
                    function = getattr(found, "fget", None) or getattr(found, "__func__", found)
                    yield f"{node.name}.{method.name}", method, function


def makes_code(node):
    """Whether a function is, or holds, an intrinsic or overload of Numba: they generate code."""
    names = {part.id for inner in ast.walk(node) if isinstance(inner, ast.FunctionDef)
             for decorator in inner.decorator_list
             for part in ast.walk(decorator) if isinstance(part, ast.Name)}
    return bool(names & {"intrinsic", "overload"})


def replace_code(tree, function):
    """Give a function the code of a changed tree; a method needs a class for its `super()`."""
    is_method = "." in function.__qualname__
    body = [ast.ClassDef("Mutant", [], [], [tree], [])] if is_method else [tree]
    names = dict(function.__globals__)
    exec(compile(ast.fix_missing_locations(ast.Module(body, [])), "mutant", "exec"), names)
    changed = vars(names["Mutant"])[tree.name] if is_method else names[tree.name]
    function.__code__, function.__defaults__ = changed.__code__, changed.__defaults__
    function.__kwdefaults__ = changed.__kwdefaults__


def package_of(path):
    name = path.relative_to(PACKAGE).as_posix()
    return next(folder for folder in SUITES if name.startswith(folder))


def suite(path):
    """The test files of a page, as pytest takes them."""
    tests = []
    for pattern in SUITES[package_of(path)]:
        pattern, *function = pattern.split("::")
        found = sorted(str(test) for test in TESTS.glob(pattern))
        if not found:
            sys.exit(f"no test matches {pattern}, which SUITES names")
        tests += ["::".join([test, *function]) for test in found]
    return list(dict.fromkeys(tests))


def arguments_of_pytest(path):
    # The examples of the changed page come first
    doctests = [] if package_of(path) == "kernels/" else [str(path)]
    return ["-x", "-q", "--assert=plain", "-p", "no:cacheprovider", "-m", "", *doctests,
            *suite(path)]


def survives(path, tree, function, seconds):
    """Whether the tests pass with this mutant, in a child process with so much CPU time."""
    child = os.fork()
    if child == 0:
        status = 1
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(seconds), math.ceil(seconds) + 1))
        with (open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere),
              contextlib.redirect_stderr(nowhere), contextlib.suppress(BaseException)):
            replace_code(tree, function)
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


def description(path, name, tree, function, number):
    mutator = Mutator(number)
    mutator.visit(copy.deepcopy(tree))
    return f"survives: {path.relative_to(PACKAGE)} {name} {mutator.what}"


def seconds_of_tests(path):
    """The CPU time that tests may take with a mutant; a pause of the machine does not count."""
    _, tree, function = next(functions(path))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    if not survives(path, Mutator().visit(copy.deepcopy(tree)), function, 3600):
        sys.exit(f"the tests of {path.relative_to(PACKAGE)} fail without any change")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return PATIENCE * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("file", nargs="*", help="below numformer/ (default: all subjects)")
    parser.add_argument("--kernels", action="store_true", help="the kernels as plain Python")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--every", type=int, default=1, metavar="N",
                        help="a sample: only each N-th mutant")
    parser.add_argument("--again", metavar="FILE",
                        help="only the survivors of a former run, whose output this is")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    patterns = arguments.file or (KERNELS if arguments.kernels else SUBJECTS)
    paths = [path for pattern in patterns for path in sorted(PACKAGE.glob(pattern))
             if path.name not in ("__init__.py", *NOT_MUTATED)]
    if any(package_of(path) == "kernels/" for path in paths):
        os.environ["NUMBA_DISABLE_JIT"] = "1"
    path_of_package = {package_of(path): path for path in paths}
    files = {test.split("::")[0] for path in path_of_package.values() for test in suite(path)}
    sys.path[:0] = [str(TESTS), *sorted({str(Path(file).parent) for file in files})]
    for test in sorted({"conftest", *(Path(file).stem for file in files)}):
        import_module(test)             # once here, instead of once in every child
    gc.freeze()                         # a child need not collect these objects
    jobs = []
    for path in paths:
        for name, tree, function in functions(path):
            counter = Mutator()
            counter.visit(copy.deepcopy(tree))
            jobs += [(path, name, tree, function, number) for number in range(counter.count)]
    jobs = jobs[::arguments.every]
    if arguments.again:
        former = set(Path(arguments.again).read_text().splitlines())
        jobs = [job for job in jobs if description(*job) in former]
    seconds = {}

    def run(job):
        path, _, tree, function, number = job
        mutant = Mutator(number).visit(copy.deepcopy(tree))
        return job, survives(path, mutant, function, seconds[package_of(path)])

    total = survivors = 0
    with ThreadPoolExecutor(arguments.jobs) as pool:
        for name, path in path_of_package.items():               # in a thread, as all mutants are
            seconds[name] = pool.submit(seconds_of_tests, path).result()
        for job, lives in pool.map(run, jobs):
            total, survivors = total + 1, survivors + lives
            if lives:
                print(description(*job), flush=True)
            if total % 50 == 0:
                print(f"{total} of {len(jobs)}", file=sys.stderr, flush=True)
    print(f"{total} mutants, {survivors} survive: {1 - survivors / max(1, total):.1%} killed")


if __name__ == "__main__":
    main()
