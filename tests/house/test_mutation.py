"""The mutation run (tests/mutate.py): what it changes, and what it says of a run."""

import ast
import os
import resource
import signal
import sys

import pytest

if sys.platform != "linux":
    pytest.skip("the mutation run needs Linux", allow_module_level=True)
from mutation_runs import Child, run_children
from mutator import Mutator, replace_code, statement_lines

SOURCE = """def f(x, n=2,
      *, sign=-1):
    if x > 3:
        return [n +
                x]
    return sign
"""
no_fork_warning = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")


class Base:
    def __init__(self, x):
        self.x = x


class Derived(Base):
    def __init__(self, x):
        super().__init__(x + 1)


def tree():
    return ast.parse(SOURCE).body[0]


def mutants(f):
    counter = Mutator()
    counter.visit(f())
    found = []
    for number in range(counter.count):
        mutator = Mutator(number)
        changed = mutator.visit(f())
        found.append((mutator.what, ast.unparse(changed)))
    return found


def test_each_mutant_is_one_change_and_says_where_it_is():
    found = mutants(tree)
    assert [what for what, _ in found] == [
        "line 3: a condition is negated", "line 3: Gt becomes GtE", "line 3: 3 becomes 4",
        "line 4: Add becomes Sub", "line 1: 2 becomes 3", "line 2: USub is left out",
        "line 2: 1 becomes 2"]
    sources = [source for _, source in found]
    assert len({*sources, ast.unparse(tree())}) == 8


@pytest.mark.parametrize("line, lines", [
    (1, [1, 2, 3, 4, 5, 6]), (2, [1, 2, 3, 4, 5, 6]),                  # a default: every call
    (3, [3]), (4, [4, 5]), (5, [4, 5]), (6, [6])])
def test_a_test_executes_a_mutant_if_it_executes_its_statement(line, lines):
    assert list(statement_lines(tree(), line)) == lines


def test_code_is_replaced_in_methods_that_call_super(monkeypatch):
    function = Derived.__init__
    before = function.__code__
    changed = ast.parse("def __init__(self, x, more=5):\n    super().__init__(x + more)").body[0]
    replace_code(changed, function)
    assert Derived(1).x == 6
    function.__code__, function.__defaults__ = before, None
    assert Derived(1).x == 2


class OneFunction(Child):
    """Runs a function in place of tests."""

    def run(self, tests):
        return tests()


def endless():
    resource.setrlimit(resource.RLIMIT_CPU, (1, 2))
    while True:
        pass


def cannot():
    raise ValueError("no such function")


@no_fork_warning
@pytest.mark.parametrize("tests, expected", [
    (lambda: 0, ("survives", "")), (lambda: 1, ("noticed", "")), (endless, ("timeout", "")),
    (lambda: os.kill(os.getpid(), signal.SIGKILL), ("signal", "SIGKILL")),
    (cannot, ("noticed", "ValueError: no such function"))])
def test_results_of_a_run(tests, expected):
    (_, result), = run_children([tests], lambda tests: OneFunction(tests, lambda: None), 1)
    assert result == expected


@no_fork_warning
def test_a_change_that_cannot_be_made_is_no_result():
    with pytest.raises(RuntimeError, match="could not be made: ValueError: no such function"):
        list(run_children([endless], lambda tests: OneFunction(tests, cannot), 1))
