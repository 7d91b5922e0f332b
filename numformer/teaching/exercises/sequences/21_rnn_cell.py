"""One step of a recurrent network.

h = tanh(x W + state U + b)
"""
# goal: write a step that takes a state and returns the next one
# needs: linear
# lessons: 1
# ideas: a step maps a state to the next one
# points: 1
# checks: rnn_cell

import numpy as np


def rnn_cell(x, state, input_weight, recurrent_weight, bias):
    """The next state (B, F).

    x (B, C), state (B, F), input_weight W (C, F), recurrent_weight U (F, F), bias b (F,)
    """
    # BEGIN SOLUTION
    return np.tanh(x @ input_weight + state @ recurrent_weight + bias)
    # END SOLUTION
