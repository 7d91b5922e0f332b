"""The corpora of answers: right ones are right, wrong ones are wrong, edges only at their edge."""

import numpy as np
import pytest
from answers import EDGES, RIGHT, WRONG, error, fits

from numformer import functional as F


def plain(answer, seed=5):
    """A generic problem: arguments and options of the first level."""
    return next(iter(answer.problem.levels.values()))(np.random.default_rng(seed))


@pytest.mark.parametrize("corpus, least, kinds", [
    (RIGHT, 100, 1), (WRONG, 300, 1), (EDGES, 50, 24)])
def test_size_of_a_corpus(corpus, least, kinds):
    assert len(corpus) >= least
    assert len({answer.kind for answer in corpus}) >= kinds
    assert len(set(map(str, corpus))) == len(corpus)                  # no answer is there twice


@pytest.mark.parametrize("answer", RIGHT, ids=str)
def test_right_answers_are_right(answer):
    assert hasattr(F, answer.name)
    assert error(answer, *plain(answer)) < 1e-9


@pytest.mark.parametrize("answer", WRONG, ids=str)
def test_wrong_answers_are_wrong_at_a_level(answer):
    assert hasattr(F, answer.name)
    problems = (make(np.random.default_rng(5)) for make in answer.problem.levels.values())
    assert any(error(answer, *problem) > 1e-6 for problem in problems if fits(answer, problem[1]))


@pytest.mark.parametrize("answer", EDGES, ids=str)
def test_edges_are_wrong_at_their_edge_alone(answer):
    assert hasattr(F, answer.name)
    assert answer.kind == "writes into saved" or error(answer, *plain(answer)) < 1e-9
    assert error(answer, *answer.case()) > 1e-6
