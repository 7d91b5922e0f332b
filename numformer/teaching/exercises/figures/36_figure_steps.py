"""Explain the figure: how to check a gradient, and how not to.

The error of a derivative against the step size it was computed with.
Look at the picture (`draw().figure.savefig("picture.png")` writes it) and write your answers into
`answers`. Do not round numbers.

- "best": the step in `STEPS` with the smallest error of the central difference (if two are nearly
  equal, either)
- "left": what limits the accuracy for smaller steps, "rounding" or "curvature"?
- "right": what limits it for larger steps, "rounding" or "curvature"?
- "complex": is the complex step at 1e-15 better than the best difference, True or False?
"""
# goal: choose a step size, or avoid the choice with the complex step
# needs: nothing
# lessons: 8
# ideas: cancellation; the remainder of a large step; a step without a difference
# points: 2
# answers: the questions above
# BEGIN HINTS
# 1. errors() returns the curves of the picture as arrays, one entry per step in STEPS.
# 2. "best": np.argmin finds the smallest error. A tiny step subtracts two nearly equal
#    numbers; a large step leaves the region in which the function is a line.
# 3. "best": STEPS[np.argmin(errors()["central_difference"])]. "complex": is
#    errors()["complex_step"][0] below the smallest error of the difference? "left" is the
#    loss of digits, "right" the second and third derivatives.
# END HINTS

import numpy as np

from numformer.layers import FeedForward
from numformer.plots import step_error_curve
from numformer.verify import step_errors

WEIGHT_SEED = 0  # VARIANT 0 1 2 3 4
STEPS = 10.0 ** np.arange(-15, 0)


def errors():
    layer = FeedForward(3, 5, "gelu", np.random.default_rng(WEIGHT_SEED), dtype=np.float64)
    x = np.random.default_rng(WEIGHT_SEED).standard_normal((2, 3))
    return step_errors(layer, [x], steps=STEPS)


def draw():
    return step_error_curve(errors())


def answers():
    """{"best": float, "left": str, "right": str, "complex": bool}"""
    # BEGIN SOLUTION
    found = errors()
    difference, complex_step = found["central_difference"], found["complex_step"]
    return {"best": float(STEPS[np.argmin(difference)]), "left": "rounding", "right": "curvature",
            "complex": bool(complex_step[0] < difference.min())}
    # END SOLUTION


# BEGIN TEACHER
def accepts(given):
    """Rounding differs between machines: a step is right up to 3 times the best error."""
    difference, step = errors()["central_difference"], float(given["best"])
    near_best = np.isclose(STEPS, step, rtol=1e-6) & (difference <= 3 * difference.min())
    return {"best": bool(near_best.any())}
# END TEACHER
