"""An activation function: without it, two linear maps are one linear map.

The equation is in the docstring of the function.
"""
# goal: translate an equation into one line
# needs: nothing
# ideas: an elementwise function
# points: 1
# checks: the activation

import numpy as np


# BEGIN VARIANT silu
# BEGIN HINTS
# 1. The function is elementwise: NumPy applies exp to every entry, without a loop.
# 2. Check the sign of the exponent, and put the denominator in parentheses: x / 1 + exp(-x)
#    is another function.
# 3. y = x / (1 + np.exp(-x)).
# END HINTS
def silu(x):
    """x of any shape to y.

    y = x / (1 + exp(-x))
    """
    # BEGIN SOLUTION
    return x / (1 + np.exp(-x))
    # END SOLUTION
# END VARIANT


# BEGIN VARIANT gelu_tanh
# BEGIN HINTS
# 1. The function is elementwise. Give the argument of tanh a name first.
# 2. Both factors, sqrt(2 / pi) and (x + 0.044715 x^3), are inside the tanh. The outer factor
#    x / 2 multiplies the whole bracket, 1 included.
# 3. y = 0.5 * x * (1 + np.tanh(u)), with u = (2 / np.pi) ** 0.5 * (x + 0.044715 * x ** 3).
# END HINTS
def gelu_tanh(x):
    """x of any shape to y.

    y = x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2
    """
    # BEGIN SOLUTION
    return 0.5 * x * (1 + np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x ** 3)))
    # END SOLUTION
# END VARIANT


# BEGIN VARIANT relu_squared
# BEGIN HINTS
# 1. The function is elementwise: first the larger of x and 0, then its square.
# 2. np.maximum compares two arrays entry by entry; np.max and x.max() return one number.
# 3. y = np.maximum(x, 0) ** 2.
# END HINTS
def relu_squared(x):
    """x of any shape to y.

    y = max(x, 0)^2
    """
    # BEGIN SOLUTION
    return np.maximum(x, 0) ** 2
    # END SOLUTION
# END VARIANT
