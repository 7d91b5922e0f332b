r"""Wrong, or only rounded? How far rounding errors move a derivative, measured.

Some derivatives are sums that cancel: the bias of the keys has the derivative 0, since softmax does
not change if a constant is added to its scores, and 1 - tanh(x)^2 has few right digits at x = 12.
Nothing that is known of a function from outside bounds such an error, but three things show it:

- Small moves of the inputs, by a few units in the last place, change what was rounded.
- Where the inputs are smaller, the function is not saturated, and the derivative is right.
- At a kink, such as ReLU at 0, the slopes to both sides differ: there is no one derivative.
"""

import numpy as np

from numformer.verify.errors import jacobian_scale, largest, largest_magnitude, relative_error
from numformer.verify.jacobians import COMPLEX_STEP, DIFFERENCE_STEP
from numformer.verify.tensors import (
    generic_direction, gradients_at, moved_along, named_tensors, one_hot, output_at, sizes)

EPSILON = np.finfo(float).eps
MOVES = (4 * EPSILON, 16 * EPSILON, 64 * EPSILON)   # relative; their own effect is below bounds
SMALLEST = 1e-270                                   # times the complex step, it underflows
MOST_JUDGED = 3                                     # derivatives of a tensor, of each severity
SMALLER = (1 / 4, 1 / 16, 1 / 64, 1 / 1024)


def gradient_noise(layer, inputs, options, dy, gradients):
    """By how much rounding moves each gradient: the largest finite change in `MOVES`, by name."""
    rng, tensors = np.random.default_rng(0), named_tensors(layer, inputs)
    noise = {name: np.zeros_like(gradient) for name, gradient in gradients.items()}
    for move in MOVES:
        moved = moved_along(tensors, generic_direction(tensors, rng, move_zeros=False), move)
        for name, gradient in gradients_at(layer, inputs, options, moved, dy).items():
            change = np.abs(gradient - gradients[name])
            noise[name] = np.maximum(noise[name], np.where(np.isfinite(change), change, 0))
    return noise


class Judge:
    """Explains why derivatives differ from their reference.

    Parameters
    ----------
    layer, inputs, options
        As in `gradcheck`.
    found, reference : dict of str to ndarray
        Jacobians by the backward and by the complex step.
    noise : dict of str to ndarray
        What `gradient_noise` found.
    complex_safe : bool
        False if the reference was made by central differences.
    """

    def __init__(self, layer, inputs, options, found, reference, noise, complex_safe=True):
        self.layer, self.inputs, self.options = layer, inputs, options
        self.found, self.reference, self.noise = found, reference, noise
        self.complex_safe = complex_safe
        self.tensors = named_tensors(layer, inputs)
        self.y = output_at(layer, inputs, options, {})
        self.largest = largest_magnitude(reference)

    def unexplained_error(self, name, bound):
        """(relative errors of a tensor, 0 where rounding explains them; whether it is at a kink).

        The worst derivatives are judged one by one. If rounding explains them all, it is taken to
        explain the others as well; of those that are wrong by the scale of all tensors, only if it
        explains the largest differences, too.
        """
        found, reference = self.found[name], self.reference[name]
        error = relative_error(found, reference, jacobian_scale(reference, self.y.ndim))
        overflown = ~np.isfinite(reference) & np.isfinite(found)
        if overflown.any():
            error[overflown & self._near_differences(name, overflown)] = 0
        if not (error > bound).any():
            return error, False
        error[self._below_noise(name) | (np.abs(found - reference) < SMALLEST)] = 0
        difference, explained = np.abs(found - reference), 0.0
        for severe in (False,) * MOST_JUDGED + (True,) * MOST_JUDGED:
            if severe:
                error[relative_error(found, reference, self.largest) <= bound] = 0
            if (error <= bound).all():
                return error, False
            worst = np.argmax(np.where(error > bound, difference, 0) if severe else error)
            worst = np.unravel_index(worst, error.shape)
            explanation = self.explanation(name, worst[:self.y.ndim], worst[self.y.ndim:])
            if explanation != "rounding":
                return error, explanation == "kink"
            explained, error[worst] = max(explained, difference[worst]), 0
        error[difference <= explained] = 0
        return error, False

    def _below_noise(self, name):
        """Where the gradient of a random dy has shown already that a derivative is but noise.

        An output has its share of that noise by the size of its derivatives.
        """
        found, reference = self.found[name], self.reference[name]
        size = np.maximum(np.abs(found), np.abs(reference))
        of_output = size.max(axis=tuple(range(self.y.ndim, size.ndim)), keepdims=True, initial=0)
        share = of_output / (of_output.max(initial=0) or 1.0)
        noise = 30 * share * self.noise[name]
        return (np.abs(found - reference) <= noise) & (size <= 3 * noise)

    def explanation(self, name, output, index):
        """"kink", "rounding", or "" if the derivative is wrong."""
        found = self.found[name][output][index]
        if not np.isfinite(found):
            return ""
        if self._is_kink(name, output, index):
            return "kink"
        difference = abs(found - self.reference[name][output][index])
        if not self.complex_safe:
            return "rounding" if difference <= self._noise_of_a_difference(name, index) else ""
        here = found, self.reference[name][output][index]
        if difference <= 30 * self._noise(self.tensors, name, output, index, here):
            return "rounding"
        return "rounding" if self._right_elsewhere(name, output, index, difference) else ""

    def _near_differences(self, name, where):
        """Where the backward agrees with central differences, in the columns with any `where`.

        exp overflows earlier for complex numbers, whose quotients are then NaN.
        """
        near, found, x = np.zeros(where.shape, bool), self.found[name], self.tensors[name]
        for index in map(tuple, np.argwhere(where.any(axis=tuple(range(self.y.ndim))))):
            above, below, column = x.copy(), x.copy(), (..., *index)
            above[index] += DIFFERENCE_STEP * self._typical(name, index)
            below[index] -= DIFFERENCE_STEP * self._typical(name, index)
            above, below = (output_at(self.layer, self.inputs, self.options, {name: moved})
                            for moved in (above, below))
            slope = (above - below) / (2 * DIFFERENCE_STEP * self._typical(name, index))
            near[column] = np.abs(found[column] - slope) <= (
                1e-6 * np.abs(slope) + self._noise_of_a_difference(name, index))
        return near

    def _noise_of_a_difference(self, name, index):
        """A bound on the rounding error of a central difference."""
        return 10 * EPSILON * np.abs(self.y).max() / (DIFFERENCE_STEP * self._typical(name, index))

    def _typical(self, name, index):
        """The size of a number, or of its tensor."""
        return sizes(self.tensors[name])[index]

    def _both(self, tensors, name, output, index):
        """The derivative at other tensors, by the backward and by the complex step."""
        dy = one_hot(self.y.shape, output)
        found = gradients_at(self.layer, self.inputs, self.options, tensors, dy)[name][index]
        x = tensors[name].astype(complex)
        x[index] += 1j * COMPLEX_STEP
        y = output_at(self.layer, self.inputs, self.options, {**tensors, name: x})
        return found, y[output].imag / COMPLEX_STEP

    def _is_kink(self, name, output, index):
        """Whether the slopes to both sides differ, however small the step."""
        x, step = self.tensors[name], 1e-4 * self._typical(name, index)

        def jump(step):
            above, below = x.copy(), x.copy()
            above[index] += step
            below[index] -= step
            above, below = (output_at(self.layer, self.inputs, self.options, {name: moved})[output]
                            for moved in (above, below))
            return abs(above + below - 2 * self.y[output]) / step

        small, large = jump(step / 8), jump(step)
        return small >= 0.8 * large and small * step / 8 > 1e3 * EPSILON * np.abs(self.y).max()

    def _noise(self, tensors, name, output, index, here):
        """By how much rounding moves the two derivatives; not more than they differ nearby."""
        rng, noise = np.random.default_rng(1), 0.0
        for move in MOVES:
            direction = generic_direction(tensors, rng, move_zeros=False)
            moved = moved_along(tensors, direction, move)
            there = self._both(moved, name, output, index)
            change = largest([abs(a - b) for a, b in zip(here, there)])
            apart = abs(there[0] - there[1])
            noise = max(noise, min(change, apart) if np.isfinite(apart) else 0.0)
        return noise

    def _right_elsewhere(self, name, output, index, difference):
        """Whether the derivative is right, and larger, where inputs or parameters are smaller.

        The difference has to be a rounding error of that larger derivative. Both are compared in
        units of y / x; terms may have grown with the square of the inputs, as scores do. A
        derivative that is nothing but noise there is taken to be 0 everywhere.
        """
        inputs = {key for key in self.tensors if key not in dict(self.layer.named_parameters())}
        unit = self._typical(name, index) / (np.abs(self.y).max() or 1.0)
        here = abs(self.reference[name][output][index])
        for factor in SMALLER:
            for part in (inputs, self.tensors):
                moved = {key: x * factor if key in part else x for key, x in self.tensors.items()}
                found, reference = self._both(moved, name, output, index)
                y = np.abs(output_at(self.layer, self.inputs, self.options, moved)).max()
                there = self._typical(name, index) * (factor if name in part else 1) / (y or 1.0)
                most = 100 * EPSILON * min(factor ** -2, 1024) * abs(reference) * there
                # a wrong factor is the same everywhere
                right = abs(reference) * min(1e-8, 0.01 * difference / here if here else 1.0)
                if reference and abs(found - reference) <= right and difference * unit <= most:
                    return True
                if difference * unit <= 100 * EPSILON and max(abs(found), abs(reference)) <= (
                        30 * self._noise(moved, name, output, index, (found, reference))):
                    return True
        return False
