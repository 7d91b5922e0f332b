"""One step of a recurrent network.

h = tanh(x W + state U + b)
"""
# goal: write a step that takes a state and returns the next one
# needs: linear
# ideas: a step maps a state to the next one
# points: 1
# checks: rnn_cell
# BEGIN HINTS
# 1. Add two linear maps and a bias, then apply tanh to the sum.
# 2. x W and state U both have shape (B, F). There is one tanh, outside the sum.
# 3. h = np.tanh(x @ input_weight + state @ recurrent_weight + bias).
# END HINTS

import numpy as np


def rnn_cell(x, state, input_weight, recurrent_weight, bias):
    """The next state (B, F).

    x (B, C), state (B, F), input_weight W (C, F), recurrent_weight U (F, F), bias b (F,)
    """
    # BEGIN SOLUTION
    return np.tanh(x @ input_weight + state @ recurrent_weight + bias)
    # END SOLUTION
