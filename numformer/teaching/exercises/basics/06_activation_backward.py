"""The gradient of that activation function.

The function is elementwise: dx = dy times the derivative at x.
"""
# goal: differentiate a function of one variable with the product rule and the chain rule
# needs: activation
# lessons: 7
# ideas: the product rule; the chain rule
# points: 2
# checks: the activation's backward
# varies with: 05

import numpy as np


# BEGIN VARIANT silu
def silu_backward(dy, x):
    """The gradient of x.

    y = x / (1 + exp(-x))
    """
    # BEGIN SOLUTION
    s = 1 / (1 + np.exp(-x))
    return dy * (s + x * s * (1 - s))
    # END SOLUTION
# END VARIANT


# BEGIN VARIANT gelu_tanh
def gelu_tanh_backward(dy, x):
    """The gradient of x.

    y = x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2
    """
    # BEGIN SOLUTION
    t = np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x ** 3))
    slope = (2 / np.pi) ** 0.5 * (1 + 3 * 0.044715 * x ** 2)
    return dy * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * slope)
    # END SOLUTION
# END VARIANT


# BEGIN VARIANT relu_squared
def relu_squared_backward(dy, x):
    """The gradient of x.

    y = max(x, 0)^2
    """
    # BEGIN SOLUTION
    return dy * 2 * np.maximum(x, 0)
    # END SOLUTION
# END VARIANT
