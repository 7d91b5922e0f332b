"""Why is a function wrong? The mistake that gives the same numbers names the cause."""

import time

from numformer.teaching.causes.evidence import CLOSE, gather, is_array, with_other_sizes
from numformer.teaching.causes.relations import relation
from numformer.teaching.causes.suspects import CHANGED, KNOWN, MADE, made, suspects

LONGEST = 10.0                                        # seconds; about 1 is common

__all__ = ["CLOSE", "is_array", "likely_cause", "with_other_sizes"]


def likely_cause(name, outputs_of, instance, wrong):
    """The cause whose mistake gives a student's numbers wherever they can be compared; "" if none.

    Mistakes are those written by hand, other ways to call the reference, and the reference's own
    code with one line changed. They must give the first wrong output on several problems in which
    all sizes and options differ; further outputs may have mistakes of their own.

    Parameters
    ----------
    name : str
        Of the function or backward.
    outputs_of : callable
        Takes an instance and returns the outputs of the student's function; None if it fails.
    instance : Instance
        One that the function got wrong.
    wrong : str
        The first gradient that differs there, or "y".
    """
    evidence = gather(name, outputs_of, instance, wrong)
    if evidence is None:
        return ""
    shown, is_certain = relation(evidence)
    cause = _best(evidence, KNOWN)
    if not cause and not is_certain:
        cause = _best(evidence, MADE)
    return cause or shown


def _best(evidence, kinds):
    """The cause of the best suspect that gives the student's numbers; "" if none does."""
    best = None
    end = time.process_time() + LONGEST
    for suspect in suspects(evidence, kinds):
        if time.process_time() > end:
            break
        if best and best[0][0] == 0 and suspect.rank[:2] > best[0][2][:2]:
            break                                         # what follows is less likely
        outputs = []
        for case in evidence.cases:
            made_here = made(suspect, case)
            if not evidence.agrees(case, made_here):
                break
            outputs.append(made_here)
        else:
            level = max(evidence.agreement(case, each)
                        for case, each in zip(evidence.cases, outputs))
            if level == 2 and suspect.rank[0] < CHANGED:
                continue                                  # it names outputs that are right
            elsewhere = sum(evidence.agrees(case, made(suspect, case)) for case in evidence.others)
            rank = (level, -elsewhere, suspect.rank)
            if best is None or rank < best[0]:
                best = rank, suspect.cause + _reservation(evidence, level, outputs)
    return best[1] if best else ""


def _reservation(evidence, level, outputs):
    """What is to be added to a cause that does not give all the student's numbers."""
    if level == 2:
        return f", in {evidence.wrong} alone"
    changed = {name for case, each in zip(evidence.cases, outputs)
               for name in evidence.otherwise(case, each)}
    named = [name for name in evidence.cases[0].expected if name in changed]
    return f" (and something else in {', '.join(named)})" if named else ""
