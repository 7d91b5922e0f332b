"""Mutants of the reference: they differ from it, leave it as it was, and are few enough."""

from inspect import unwrap

import numpy as np
import pytest

from numformer import check
from numformer import functional as F
from numformer.specifications import PROBLEMS, Instance, find_problem, versions
from numformer.teaching.mutations import Pair, pairs_of


@pytest.mark.parametrize("name", ["softmax", "layer_norm", "attention", "lstm_cell", "embedding"])
def test_a_mutant_changes_one_call_and_the_reference_stays(name):
    problem = PROBLEMS[name]
    instance = Instance(problem, next(iter(problem.levels)), 3)
    dy, gradients = instance.dy(), instance.expected(backward=True)
    arguments, options = instance.arguments()
    pair = pairs_of(f"{name}_backward")[0]
    differ = 0
    with np.errstate(all="ignore"):
        for mutant in pair.mutants(dy, arguments, options)[:150]:
            try:
                outputs = pair.run(mutant, dy, arguments, options)
            except Exception:
                continue
            differ += not all(map(np.array_equal, outputs, gradients.values()))
            again = pair.run(None, dy, arguments, options)
            assert all(map(np.array_equal, again, gradients.values())), str(mutant)
    assert differ > 10


def test_the_mutants_of_every_pair_are_bounded():
    problem = PROBLEMS["scaled_dot_product_attention"]
    arguments, options = Instance(problem, "plain", 3).arguments()
    dy = np.ones_like(arguments["q"])
    (pair,) = pairs_of("scaled_dot_product_attention_backward")[:1]
    mutants = pair.mutants(dy, arguments, options)
    assert 500 < len(mutants) <= 4000
    assert mutants is pair.mutants(dy, arguments, options)
    assert [mutant.cost for mutant in mutants] == sorted(mutant.cost for mutant in mutants)


def test_functions_in_a_table_are_changed_too():
    pair = Pair(F.gated_linear_unit, F.gated_linear_unit_backward)
    assert {*map(unwrap, (F.gelu, F.sigmoid_backward, F.relu))} <= set(pair.program.copies)


@pytest.mark.parametrize("name", [
    version.__name__ for name in PROBLEMS for end in ("", "_backward")
    for version in versions(name + end)])
def test_the_textbook_is_right(name):
    known = name.split("_in_")[0]
    (version,) = (version for version in versions(known) if version.__name__ == name)
    verdict = check(known, version, seed=2, levels=[next(iter(find_problem(known)[1].levels))])
    assert verdict, str(verdict)
