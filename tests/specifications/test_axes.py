"""Shapes with "..." are tested with other numbers of axes: a function written for one is wrong."""

import ast
import inspect
import re
import textwrap

import numpy as np
import pytest

from marks import every
from numformer import check
from numformer.specifications import PROBLEMS
from numformer.specifications.edges import n_sizes
from numformer.specifications.levels import LONG, OneLong
from numformer.teaching.apart.messages import MOST_OF_ARRAY

# A batch norm needs two vectors, so that the last two axes are kept
TWO_VECTORS = {"batch_norm": {"x": 2}, "masked_batch_norm": {"x": 2, "mask": 1}}


def documented(function):
    """{argument: how many axes follow the "..." in the shape that a docstring gives it}."""
    found = {}
    pages = inspect.getdoc(function).split("Parameters\n")
    for names, text in re.findall(r"^(\w[\w, ]*) : (.*)$", pages[-1].split("\nReturns\n")[0],
                                  re.MULTILINE):
        shape = re.search(r"shape \(\.\.\.((?:, [^,)]+)*)\)", text)
        if shape is not None:
            found |= {name: shape[1].count(",") for name in names.split(", ")}
    return found


@pytest.mark.parametrize("name", PROBLEMS)
def test_every_shape_with_dots_is_tested_with_other_numbers_of_axes(name):
    problem = PROBLEMS[name]
    arguments, _ = next(iter(problem.levels.values()))(np.random.default_rng(0))
    wanted = {key: n for key, n in documented(problem.function).items() if key in arguments}
    if wanted:
        assert problem.last_axes == TWO_VECTORS.get(name, wanted)
    assert problem.last_axes or "ndarray, any shape" not in inspect.getdoc(problem.function)
    if problem.last_axes:
        first = next(iter(problem.last_axes))
        level = problem.levels["another number of axes"]
        found = {level(np.random.default_rng(seed))[0][first].ndim for seed in range(4)}
        assert len(found) >= 3 and arguments[first].ndim not in found


@pytest.mark.parametrize("name", every(8, PROBLEMS))
def test_no_array_with_a_long_axis_is_too_large_to_compare(name):
    """Whichever axis is the long one: an array that an answer returns has a largest size."""
    make = next(iter(PROBLEMS[name].levels.values())).make
    for seed in range(2 * n_sizes(make)):
        arguments, _ = make(OneLong.of_seed(seed, max(LONG)))
        assert all(x.nbytes <= MOST_OF_ARRAY / 2 for x in arguments.values()
                   if isinstance(x, np.ndarray)), seed


class Positive(ast.NodeTransformer):
    """Axes counted from the front, as they are in arrays of n axes."""

    def __init__(self, n):
        self.n = n

    def visit_UnaryOp(self, node):
        self.generic_visit(node)
        if isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
            if node.operand.value in (1, 2) and isinstance(node.operand.value, int):
                return ast.Constant(self.n - node.operand.value)
        return node


def with_positive_axes(function, n):
    """A function whose axes -1 and -2 are written n - 1 and n - 2; None where it has none."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(function))))
    before = ast.dump(tree)
    for each in ast.walk(tree):                               # of axis=-1 alone: no exponents
        for keyword in [part for part in getattr(each, "keywords", ()) if part.arg == "axis"]:
            keyword.value = Positive(n).visit(keyword.value)
        if isinstance(each, ast.arguments):
            each.defaults = [Positive(n).visit(default) for default in each.defaults]
    if ast.dump(tree) == before:
        return None
    names = dict(inspect.unwrap(function).__globals__)
    exec(compile(ast.fix_missing_locations(tree), "positive", "exec"), names)
    return names[function.__name__]


WRITTEN = [(f"{name}{end}", changed) for name, problem in PROBLEMS.items() if problem.last_axes
           for end, function in (("", problem.function), ("_backward", problem.gradient))
           if (changed := with_positive_axes(function, next(iter(problem.levels.values()))(
               np.random.default_rng(0))[0][next(iter(problem.last_axes))].ndim)) is not None]


@pytest.mark.parametrize("name, changed", WRITTEN, ids=[name for name, _ in WRITTEN])
def test_a_reference_with_axes_counted_from_the_front_is_wrong(name, changed):
    verdict = check(name, changed, seed=1, process=False, cause=False)
    assert not verdict and "another number of axes" in verdict.text


def test_many_are_tried():
    assert len(WRITTEN) >= 15
