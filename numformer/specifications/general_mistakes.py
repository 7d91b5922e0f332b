"""Mistakes that are possible in any backward.

Each takes the reference's gradients by name and dy, and returns wrong gradients. Those that apply
to a single gradient raise a ValueError if there are more.
"""

import numpy as np


def without_dy(gradients, dy):
    """For elementwise functions only: there each entry of dx is a derivative times dy."""
    (gradient,) = gradients.values()
    return gradient / dy


def transposed(gradients, dy):
    return tuple(np.swapaxes(gradient, -1, -2) for gradient in gradients.values())


def dy_passed_on(gradients, dy):
    (gradient,) = gradients.values()
    return dy + 0 * gradient


GENERAL = [
    ("dy is not used: the output's gradient must be multiplied by the derivative", without_dy),
    ("the last two axes are exchanged", transposed),
    ("dy is returned unchanged: the derivative of the function itself is missing", dy_passed_on),
]
