r"""Does the complex step differentiate what real numbers compute? Tests of forward alone.

A function that drops a part of the imaginary numbers (by abs, real, np.var), or that takes another
path for complex numbers, has a wrong complex step, which may agree with an equally wrong backward.
For an analytic function, differences and complex steps of a finite size h err in opposite ways:

.. math:: \frac{f(x + hv) - f(x - hv)}{2h} + \frac{\mathrm{Im} f(x + \mathrm{i}hv)}{h}
          - 2 f'(x) v = O(h^4)

So the sum tells a lost part from the error of the difference, up to rounding: about 1e-11. The even
parts, f(x + hv) + f(x - hv) + 2 Re f(x + ihv) - 4 f(x), show kinks.
"""

import numpy as np

from numformer.verify.jacobians import COMPLEX_STEP
from numformer.verify.tensors import (
    generic_direction, moved_along, named_tensors, output_at)

STEPS = 2.0 ** -np.arange(8, 24, 2)                 # relative to the size of every number
NOISE_STEPS = 1e-5, 1e-12                           # a kink shows as noise that goes with the step
SMALLEST = 1e-270                                   # times the complex step, it underflows
SMALLER = (1.0, 1 / 4, 1 / 8)
DIFFERENCES = np.array([1, -6, 15, -20, 15, -6, 1])                   # of order 6


def complex_path_problem(layer, inputs, options=None):
    """Why the complex step is no reference, or "" if it is one; and whether there may be a kink.

    A contradiction counts if three random directions show it, the last two at smaller inputs and
    parameters: at the point itself there may be kinks, and the real function may be saturated.
    """
    tensors, at_kink = named_tensors(layer, inputs), False
    for seed, factor in enumerate(SMALLER):
        rng = np.random.default_rng(seed)
        nearby = moved_along(tensors, generic_direction(tensors, rng), 0.05) if seed else tensors
        smaller = {name: factor * x for name, x in nearby.items()}
        if not np.isfinite(output_at(layer, inputs, options, smaller)).all():
            smaller = nearby                          # outside the domain of the function
        line = _Line(layer, inputs, options, smaller, generic_direction(smaller, rng))
        problem, decided = line.problem()
        at_kink |= not seed and not decided
        if not problem and (decided or seed):
            return "", at_kink
    return problem, at_kink


class _Line:
    """The output along a random line through a point in all inputs and parameters at once."""

    def __init__(self, layer, inputs, options, point, direction):
        def output(step):
            return output_at(layer, inputs, options, moved_along(point, direction, step))

        self.output, self.y = output, output(0.0)
        differences = [np.tensordot(DIFFERENCES, [output(k * step) for k in range(-3, 4)], axes=1)
                       for step in NOISE_STEPS]
        self.noise = np.maximum(
            np.abs(differences).min(axis=0) / np.sqrt((DIFFERENCES ** 2).sum()),
            np.finfo(float).eps * np.abs(self.y) + SMALLEST)

    def problem(self):
        """(sentence or "", whether every output was decided)."""
        z = self.output(1j * COMPLEX_STEP)
        most = np.abs(self.y).max(initial=0)
        if (np.abs(z.real - self.y) > 1e3 * self.noise + 1e-12 * most).any():
            return ("forward computes something else for complex numbers: y differs by up to "
                    f"{np.abs(z.real - self.y).max():.1e}."), True
        slope = z.imag / COMPLEX_STEP
        decided = np.zeros(self.y.shape, bool)
        before, lasted = np.full(self.y.shape, np.inf), np.zeros(self.y.shape, int)
        for step in STEPS:
            above, below, z = self.output(step), self.output(-step), self.output(1j * step)
            odd = (above - below) / (2 * step) + z.imag / step - 2 * slope
            even = (above + below + 2 * z.real - 4 * self.y) / step
            decided |= np.abs(odd) <= 400 * self.noise / step
            if decided.all():
                return "", True
            # a lost part is the same for all steps, the error of a difference is not; a function
            # that is flat for real numbers is saturated
            flat = (above == self.y) & (below == self.y)
            lasts = (np.abs(odd - before) <= 0.1 * np.abs(odd)) & (np.abs(even) < np.abs(odd) / 4)
            lasts &= ~flat
            before, lasted = odd, np.where(lasts & ~decided, lasted + 1, 0)
            if lasted.max() >= 2:
                return ("the imaginary part is partly lost; look for abs, real, np.var, "
                        "np.linalg.norm, conj."), True
        return "", False
