"""An activation function: without it, two linear maps are one linear map.

The equation is in the docstring of the function.
"""
# goal: translate an equation into one line
# needs: nothing
# lessons: 0, 6
# ideas: an elementwise function
# points: 1
# checks: the activation

import numpy as np


# BEGIN VARIANT silu
def silu(x):
    """x of any shape to y.

    y = x / (1 + exp(-x))
    """
    # BEGIN SOLUTION
    return x / (1 + np.exp(-x))
    # END SOLUTION
# END VARIANT


# BEGIN VARIANT gelu_tanh
def gelu_tanh(x):
    """x of any shape to y.

    y = x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2
    """
    # BEGIN SOLUTION
    return 0.5 * x * (1 + np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x ** 3)))
    # END SOLUTION
# END VARIANT


# BEGIN VARIANT relu_squared
def relu_squared(x):
    """x of any shape to y.

    y = max(x, 0)^2
    """
    # BEGIN SOLUTION
    return np.maximum(x, 0) ** 2
    # END SOLUTION
# END VARIANT
