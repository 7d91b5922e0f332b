"""Two mistakes at once: two lines of the reference changed."""

from itertools import combinations, islice

import numpy as np

from numformer.teaching.mutations import pairs_of

MOST = 300                                            # single changes that are tried in pairs
PAIRS = 2000                                          # of them
SAMPLES = 64                                          # numbers that are compared at first


def two_mistakes(evidence):
    """The cause that names two changes which together give the student's numbers; "" if none do.

    Parameters
    ----------
    evidence : Evidence
    """
    wrong = [case for case in evidence.cases if not case.passed]
    for pair in pairs_of(evidence.name):
        mutants = pair.mutants(wrong[0].dy, *wrong[0].inputs())
        likely = list(islice(_that_matter(evidence, pair, mutants, wrong[0]), MOST))
        by_cost = sorted(combinations(likely, 2), key=lambda both: both[0].cost + both[1].cost)
        for one, two in by_cost[:PAIRS]:
            if not _independent(one, two):
                continue
            if all(evidence.agrees(case, evidence.outputs_with(pair, (one, two), case))
                   for case in wrong):
                told = [evidence.told(mutant) for mutant in (one, two)]
                if "" in told:
                    continue
                second = told[1].removeprefix("the same numbers come out ")
                return f"two mistakes at once: {told[0]}, and {second}"
    return ""


def _that_matter(evidence, pair, mutants, case):
    """The mutants of the pair's own code that change the wrong output, each kind of numbers once.

    Not those of functions that it calls: two changes in these are rarely what somebody did.
    """
    seen = set()
    right = np.asarray(case.expected[evidence.wrong])
    for mutant in mutants:
        if mutant.source.function.__module__ != pair.functions[-1].__module__:
            continue
        found = evidence.wrong_output_with(pair, (mutant,), case)
        if found is None or not np.isfinite(found).all():
            continue
        numbers = tuple(np.round(found.ravel()[:SAMPLES], 9))
        if numbers not in seen and not np.allclose(found, right, rtol=1e-9):
            seen.add(numbers)
            yield mutant


def _independent(one, two):
    """Whether two changes are in different places of the code."""
    places = [{(id(holder), field, index) for holder, field, index, _ in mutant.edits}
              for mutant in (one, two)]
    return not places[0] & places[1]
