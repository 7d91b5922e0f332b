"""The right output of a part of what came in: the last example alone, all but the first."""

import numpy as np

PARTS = {"only the first entry": np.s_[:1], "only the last entry": np.s_[-1:],
         "all but the first entry": np.s_[1:], "all but the last entry": np.s_[:-1]}


def parts(evidence):
    """(cost, cause, make) of each part of dy; `make` gives the wrong output alone."""
    if not evidence.backward:
        return
    axes = min(np.ndim(evidence.cases[0].dy), 3)
    for axis in range(axes):
        for what, part in PARTS.items():
            yield (1, f"{evidence.wrong} is that of {what} along axis {axis} of dy",
                   lambda case, axis=axis, part=part: _of_part(evidence, case, axis, part))


def _of_part(evidence, case, axis, part):
    """All outputs, the wrong one computed with dy of 0 outside of a part."""
    dy = np.zeros_like(case.dy)
    kept = (slice(None),) * axis + (part,)
    dy[kept] = case.dy[kept]
    arguments, options = case.inputs()
    _, saved = evidence.problem.function(*arguments.values(), **options)
    gradients = evidence.problem.gradient(dy, saved)
    gradients = gradients if isinstance(gradients, tuple) else (gradients,)
    given = [gradient for gradient in gradients if gradient is not None]
    return evidence.in_wrong_alone(case, given[evidence.place])
