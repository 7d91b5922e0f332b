"""Why is it wrong? The known mistake whose numbers equal a student's tells what the student did."""

from dataclasses import replace

import numpy as np

from numformer.verify.mistakes import attention, bert, mixture_of_experts, linear, norms, pointwise, recurrent, scores, softmax, vision

CLOSE, SAME = 1e-9, 1e-7                                              # right; and near enough to a known mistake
MISTAKES = {name: mistakes for page in (attention, bert, mixture_of_experts, linear, norms, pointwise, recurrent, scores, softmax, vision)
            for name, mistakes in page.MISTAKES.items()}


def likely_cause(name, outputs_of, problem, wrong):
    """The sentence of the mistake that gives the same numbers as a student's function, on two problems; "" if none does.

    Parameters
    ----------
    name : str
        Of the backward.
    outputs_of : callable
        A problem to what the student's function returned for it.
    problem : Problem
        One that the function got wrong.
    wrong : str
        The first gradient that differs there.
    """
    problems = [problem, of_other_sizes(problem)]
    theirs = [outputs_of(each) for each in problems]
    if any(outputs is None or len(outputs) != len(problem.truth()[3]) or not all(map(is_array, outputs)) for outputs in theirs):
        return ""
    with np.errstate(invalid="ignore"):                               # NaN of theirs equals nothing
        return _known(name, theirs, problems) or _factor(theirs, problems, wrong)


def of_other_sizes(problem):
    """A problem of the same kind in which as many sizes as can be differ: what goes with a size must not look like a constant."""
    def sizes(one):
        return [size for array in one.arguments()[0].values() for size in np.shape(array)]

    here, others = sizes(problem), [replace(problem, seed=problem.seed + 50 + draw) for draw in range(20)]
    return max(others, key=lambda other: sum(a != b for a, b in zip(here, sizes(other))))


def is_array(x):
    """Whether numbers can be compared: an array of float64, or a single number."""
    return isinstance(x, (np.ndarray, np.floating)) and x.dtype == np.float64 or isinstance(x, float)


def _known(name, theirs, problems):
    for cause, mistake in [*MISTAKES.get(name, ()), *GENERAL]:
        if all(_equal(outputs, _made(mistake, each)) for outputs, each in zip(theirs, problems)):
            return cause
    return ""


def _made(mistake, problem):
    """What a mistake gives on a problem; None where it cannot be made, or makes no difference."""
    arguments, options = problem.arguments()
    _, _, dy, truth = problem.truth()
    try:
        with np.errstate(all="ignore"):
            made = mistake(truth, dy, arguments, options) if mistake in GENERAL_FUNCTIONS else mistake(dy, *arguments.values(), **options)
    except (ValueError, TypeError, IndexError):
        return None
    made = made if isinstance(made, tuple) else (made,)
    return None if _equal(made, tuple(truth.values())) else made


def _equal(outputs, made):
    if made is None or len(outputs) != len(made):
        return False
    return all(np.shape(a) == np.shape(b) and bool((np.abs(a - b) <= SAME * (np.abs(b) + np.abs(b).max(initial=0))).all())
               for a, b in zip(outputs, made))


def _factor(theirs, problems, wrong):
    """The cause where the wrong gradient is the truth times the same number in every place."""
    factors = []
    for outputs, problem in zip(theirs, problems):
        truth = problem.truth()[3]
        found, true = outputs[list(truth).index(wrong)], truth[wrong]
        if np.shape(found) != np.shape(true) or not np.isfinite(found).all():
            return ""
        factor = float((found * true).sum() / (true ** 2).sum())
        if not _equal((found,), (factor * true,)) or abs(factor - 1) < SAME:
            return ""
        factors.append(factor)
    first, second = factors
    if abs(first) < SAME:
        return f"{wrong} is zero everywhere: nothing was written into it"
    if abs(first + 1) < SAME:
        return f"the sign of {wrong} is turned"
    steady = f"{first:.6g} times the truth everywhere"
    return f"{wrong} is {steady}, whatever the shapes: a constant factor is wrong" if abs(first - second) < SAME else \
        f"{wrong} is {steady} here, and {second:.6g} times with other shapes: a mean taken for a sum, or a factor that goes with a size"


# Mistakes that can be made with any function


def forgets_dy(truth, dy, arguments, options):
    """Only where the derivative of every place is its own."""
    (gradient,) = truth.values()
    return gradient / dy


def turned_around(truth, dy, arguments, options):
    return tuple(np.swapaxes(gradient, -1, -2) for gradient in truth.values())


def passes_dy_on(truth, dy, arguments, options):
    (gradient,) = truth.values()
    return dy + 0 * gradient


def in_another_order(truth, dy, arguments, options):
    return tuple(truth.values())[::-1]


GENERAL = [
    ("dy does not enter: what comes from above must be multiplied by the derivative", forgets_dy),
    ("the gradients are right, but in the opposite order", in_another_order),
    ("the last two axes are exchanged", turned_around),
    ("dy is handed on as it is: the derivative of the function itself is missing", passes_dy_on),
]
GENERAL_FUNCTIONS = [function for _, function in GENERAL]
