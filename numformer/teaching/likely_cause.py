"""Why is a gradient wrong? The known mistake that gives the same numbers names the cause."""

from dataclasses import replace

import numpy as np

from numformer.teaching.mistakes import GENERAL, MISTAKES

CLOSE = 1e-9                                          # relative error of a right answer
SAME = 1e-7                                           # difference from a known mistake


def likely_cause(name, outputs_of, instance, wrong):
    """The cause whose known mistake gives a student's numbers on two instances; "" if none does.

    Parameters
    ----------
    name : str
        Of the backward.
    outputs_of : callable
        Takes an instance and returns the outputs of the student's function.
    instance : Instance
        One that the function got wrong.
    wrong : str
        The first gradient that differs there.
    """
    instances = [instance, with_other_sizes(instance)]
    answers = [outputs_of(each) for each in instances]
    references = [each.reference() for each in instances]
    for outputs, (_, _, _, gradients) in zip(answers, references):
        if outputs is None or len(outputs) != len(gradients) or not all(map(is_array, outputs)):
            return ""
    with np.errstate(invalid="ignore"):               # NaN of an answer equals nothing
        return (_known_mistake(name, answers, instances, references)
                or _factor(answers, references, wrong))


def with_other_sizes(instance):
    """An instance of the same level in which as many sizes as possible differ.

    A factor that depends on a size must not look like a constant.
    """
    def sizes(one):
        return [size for array in one.arguments()[0].values() for size in np.shape(array)]

    here = sizes(instance)
    others = [replace(instance, seed=instance.seed + 50 + k) for k in range(20)]
    return max(others, key=lambda other: sum(a != b for a, b in zip(here, sizes(other))))


def is_array(x):
    """Whether numbers can be compared: an array of float64, or a single number."""
    return (isinstance(x, (np.ndarray, np.floating)) and x.dtype == np.float64
            or isinstance(x, float))


def _known_mistake(name, answers, instances, references):
    """The cause of the first mistake whose gradients equal the answers on all instances."""
    def special(mistake):
        def gradients_of(instance, dy, gradients):
            arguments, options = instance.arguments()
            return mistake(dy, *arguments.values(), **options)
        return gradients_of

    def general(mistake):
        return lambda instance, dy, gradients: mistake(gradients, dy)

    known = [(cause, special(mistake)) for cause, mistake in MISTAKES.get(name, ())]
    known += [(cause, general(mistake)) for cause, mistake in GENERAL]
    for cause, gradients_of in known:
        if all(_equal(outputs, _made(gradients_of, instance, reference))
               for outputs, instance, reference in zip(answers, instances, references)):
            return cause
    return ""


def _made(gradients_of, instance, reference):
    """The gradients of a mistake; None if it cannot be made here, or makes no difference."""
    _, _, dy, gradients = reference
    try:
        with np.errstate(all="ignore"):
            made = gradients_of(instance, dy, gradients)
    except (ValueError, TypeError, IndexError):
        return None
    made = made if isinstance(made, tuple) else (made,)
    return None if _equal(made, tuple(gradients.values())) else made


def _equal(outputs, made):
    if made is None or len(outputs) != len(made):
        return False
    return all(np.shape(a) == np.shape(b)
               and bool((np.abs(a - b) <= SAME * (np.abs(b) + np.abs(b).max(initial=0))).all())
               for a, b in zip(outputs, made))


def _factor(answers, references, wrong):
    """The cause if the wrong gradient is the reference times one number in every entry."""
    factors = []
    for outputs, (_, _, _, gradients) in zip(answers, references):
        found, reference = outputs[list(gradients).index(wrong)], gradients[wrong]
        if np.shape(found) != np.shape(reference) or not np.isfinite(found).all():
            return ""
        factor = float((found * reference).sum() / (reference ** 2).sum())
        if not _equal((found,), (factor * reference,)) or abs(factor - 1) < SAME:
            return ""
        factors.append(factor)
    first, second = factors
    if abs(first) < SAME:
        return f"{wrong} is zero everywhere: nothing was written into it"
    if abs(first + 1) < SAME:
        return f"the sign of {wrong} is wrong"
    constant = f"{wrong} is {first:.6g} times the reference everywhere"
    if abs(first - second) < SAME:
        return f"{constant}, for all shapes: a constant factor is wrong"
    return (f"{constant}, and {second:.6g} times for other shapes: a mean instead of a sum, or a "
            "factor that depends on a size")
