"""The gradients of a recurrent step.

h = tanh(x W + state U + b)

dstate is passed to the previous step, and through U at every step: why do gradients vanish?
"""
# goal: find the factor that multiplies a gradient at every step
# needs: rnn_cell, linear_backward
# lessons: 7, 11
# ideas: the derivative of tanh; two linear maps of one sum; the factor of every step
# points: 3
# parts: dx 0.5, dstate 1, dinput_weight 0.5, drecurrent_weight 0.5, dbias 0.5
# checks: rnn_cell_backward

import numpy as np


def rnn_cell_backward(dh, x, state, input_weight, recurrent_weight, bias):
    """dx, dstate, dinput_weight, drecurrent_weight, dbias."""
    # BEGIN SOLUTION
    h = np.tanh(x @ input_weight + state @ recurrent_weight + bias)
    da = dh * (1 - h * h)
    return da @ input_weight.T, da @ recurrent_weight.T, x.T @ da, state.T @ da, da.sum(axis=0)
    # END SOLUTION
