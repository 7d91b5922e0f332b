"""Why is a function wrong? The mistake that gives the same numbers names the cause."""

import numpy as np

from numformer.specifications.edges import LONG_AXIS
from numformer.teaching.causes.evidence import CLOSE, gather, is_array, with_other_sizes
from numformer.teaching.causes.last_resorts import last_resort
from numformer.teaching.causes.relations import ALL, SOME, relation
from numformer.teaching.causes.suspects import KNOWN, MADE, made, suspects
from numformer.teaching.causes.thresholds import right_sizes, threshold
from numformer.teaching.causes.two_mistakes import two_mistakes

__all__ = ["CLOSE", "is_array", "likely_cause", "with_other_sizes"]


@np.errstate(all="ignore")                               # mistakes overflow where they will
def likely_cause(name, outputs_of, instance, wrong):
    """The cause whose mistake gives a student's numbers wherever they can be compared; "" if none.

    Mistakes are those written by hand, other ways to call the reference, and the reference's own
    code with one line changed, or two. They must give the first wrong output on several problems in
    which all sizes and options differ; further outputs may have mistakes of their own. If none
    does, the cause says what the numbers show, such as how many digits are right.

    Parameters
    ----------
    name : str
        Of the function or backward.
    outputs_of : callable
        Takes instances and returns the outputs of the student's function on each; None where it
        fails.
    instance : Instance
        One that the function got wrong.
    wrong : str
        The first gradient that differs there, or "y".
    """
    evidence = gather(name, outputs_of, instance, wrong)
    if instance.level == LONG_AXIS:                       # few mistakes show at a size alone
        found = [evidence and _best(evidence, KNOWN),
                 threshold(outputs_of, instance, name.endswith("_backward"))]
        return "; ".join(filter(None, found))
    if evidence is None:
        return ""
    shown, says = relation(evidence)
    if says == ALL:
        return shown
    cause = _best(evidence, KNOWN)
    if not cause and says == SOME:
        cause = _best(evidence, MADE)
    if cause or shown or instance.problem.levels[instance.level].hint:     # the hint says more
        return cause or shown
    return (right_sizes(outputs_of, instance, name.endswith("_backward"))
            or two_mistakes(evidence) or last_resort(evidence))


def _best(evidence, kinds):
    """The cause of the best suspect that gives the student's numbers; "" if none does."""
    best = None
    for suspect in suspects(evidence, kinds):
        if best and best[0][:2] == (0, False) and suspect.rank[:2] > best[0][-1][:2]:
            break                                         # what follows is less likely
        agreeing, outputs, exceptions = [], [], []
        for case in evidence.cases:
            made_here = made(suspect, case)
            if evidence.agrees(case, made_here):
                agreeing.append(case)
                outputs.append(made_here)
            elif not case.passed:
                break
            elif made_here is not None:                   # else a mistake without that option
                exceptions.append(case)
        else:
            together = _only_together(evidence, exceptions)
            if exceptions and not together:
                continue
            level = max(map(evidence.agreement, agreeing, outputs))
            if level == 2 and not suspect.alone:
                continue                                  # it names outputs that are right
            if best and (level, bool(together)) > best[0][:2]:
                continue
            elsewhere = sum(evidence.agrees(case, made(suspect, case)) for case in evidence.others)
            rank = (level, bool(together), -elsewhere, suspect.rank)
            told = suspect.told() if best is None or rank < best[0] else ""
            if told:
                best = rank, told + together + _reservation(evidence, level, agreeing, outputs)
    return best[1] if best else ""


def _only_together(evidence, exceptions):
    """Words for what a mistake needs to show, where it does not show on some problems; "" if none.

    `exceptions` are problems on which the function is right, though with the mistake it would be
    wrong. All problems on which it is wrong have something that none of these has.
    """
    if not exceptions:
        return ""
    wrong = [case.features() for case in evidence.cases if not case.passed]
    shared = set.intersection(*wrong).difference(*(case.features() for case in exceptions))
    return f", but only together with {', '.join(sorted(shared))}" if shared else ""


def _reservation(evidence, level, cases, outputs):
    """What is to be added to a cause that does not give all the student's numbers."""
    if level == 2:
        return f", in {evidence.wrong} alone"
    changed = {name for case, each in zip(cases, outputs)
               for name in evidence.otherwise(case, each)}
    named = [name for name in evidence.cases[0].expected if name in changed]
    return f" (and something else in {', '.join(named)})" if named else ""
