"""The corpora of answers: no right one is refused, mistakes at the edges are found.

The long form, with 50 seeds, is ``python tests/teaching/examine.py right 50``.
"""

import pytest
from answers import EDGES, RIGHT

from marks import every
from numformer import check

BEYOND = {                                            # remarks: a plain function need not do these
    "very large numbers", "zero vectors", "equal vectors", "float32", "NaN behind the mask",
    "T > S", "rows fully masked", "ties"}
NOT_TESTED = {                                        # the reference refuses them; nobody promised
    "empty ids", "grouped heads"}


@pytest.mark.parametrize("answer", every(8, RIGHT), ids=str)
def test_no_right_answer_is_refused(answer):
    verdict = check(answer.name, answer.fn, seed=1, cause=False)
    assert verdict, str(verdict)


@pytest.mark.slow
@pytest.mark.parametrize("answer", RIGHT, ids=str)
def test_no_right_answer_is_refused_for_more_seeds(answer):
    for seed in range(2, 5):
        verdict = check(answer.name, answer.fn, seed=seed, cause=False)
        assert verdict, f"seed {seed}: {verdict}"


@pytest.mark.parametrize("answer", every(4, EDGES), ids=str)
def test_a_mistake_at_an_edge_is_found(answer):
    verdict = check(answer.name, answer.fn, seed=1, cause=False)
    if answer.kind in NOT_TESTED:
        assert verdict
    elif verdict:
        assert answer.kind in BEYOND and verdict.remarks
    else:
        assert "passed before: " in verdict.text or "writes into" in verdict.text
