"""What may be wrong: suspects that make outputs, to be compared with the student's."""

import warnings
from collections import namedtuple
from functools import partial

import numpy as np

from numformer.specifications import FORWARD_MISTAKES, GENERAL, MISTAKES
from numformer.teaching.causes.constants import other_constants
from numformer.teaching.causes.other_calls import other_calls
from numformer.teaching.causes.parts import parts
from numformer.teaching.causes.products import products
from numformer.teaching.causes.terms import scaled_terms
from numformer.teaching.mutations import pairs_of
from numformer.teaching.mutations.pairs import ONE_AT_A_TIME

Suspect = namedtuple("Suspect", "rank told make alone", defaults=[False])
Suspect.__doc__ = """A cause, how far behind others it stands, and the outputs of a Case made by it.

`told()` is the cause in words. `make` returns a tuple of arrays or a single one; it may raise.
`alone` says whether the mistake may have been made in the wrong output alone, where with it others
would be wrong, too.
"""
KNOWN, MADE = "known", "made"                            # by hand, and by machine


def suspects(evidence, kind):
    """All Suspects of a kind for a wrong function, the best explanations first."""
    if kind == KNOWN:
        yield from _known(evidence)
        yield from _general(evidence)
    else:
        yield from (Suspect((2, cost, number), partial(str, cause), make,
                            cause.startswith("as if activation"))
                    for number, (cost, cause, make) in enumerate(other_calls(evidence)))
        yield from _mutated(evidence)
        yield from (Suspect((4, cost, number), partial(str, cause), make, True)
                    for find in (parts, products, scaled_terms, other_constants)
                    for number, (cost, cause, make) in enumerate(find(evidence)))


def made(suspect, case):
    """The outputs of a suspect as a tuple; None if it cannot be made."""
    with ONE_AT_A_TIME, np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            outputs = suspect.make(case)
        except Exception:                                # whatever a changed line leads to
            return None
    if outputs is None:
        return None
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    return outputs if all(isinstance(x, (np.ndarray, np.floating, float)) for x in outputs) \
        else tuple(x if isinstance(x, (np.ndarray, np.floating, float)) else np.nan
                   for x in outputs)


def _known(evidence):
    """Mistakes written by hand."""
    def special(mistake):
        def make(case):
            arguments, options = case.inputs()
            if evidence.backward:
                return mistake(case.dy, *arguments.values(), **options)
            return mistake(*arguments.values(), **options)
        return make

    known = list({**FORWARD_MISTAKES, **MISTAKES}.get(evidence.name, ()))
    known += [(cause, function) for cause, functions in evidence.problem.sized_mistakes[
        evidence.backward] for function in functions]
    for number, (cause, mistake) in enumerate(known):
        yield Suspect((0, number), partial(str, cause), special(mistake))


def _general(evidence):
    """Mistakes possible in any backward."""
    if evidence.backward:
        for number, (cause, mistake) in enumerate(GENERAL):
            yield Suspect((1, number), partial(str, cause),
                          lambda case, mistake=mistake: mistake(case.expected, case.dy))


def _mutated(evidence):
    """The reference with one line changed."""
    case, found = evidence.cases[0], []
    for number, pair in enumerate(pairs_of(evidence.name)):
        found += [(mutant.cost, number, pair, mutant)
                  for mutant in pair.mutants(case.dy, *case.inputs())]
    found.sort(key=lambda entry: entry[:2])
    for number, (_, _, pair, mutant) in enumerate(found):
        def make(case, pair=pair, mutant=mutant):
            return evidence.outputs_with(pair, [mutant], case)
        yield Suspect((3, mutant.cost, number), partial(evidence.told, mutant),
                      make, True)
