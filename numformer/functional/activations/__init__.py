"""Activation functions, one idea a file.

    relu       ReLU and its square
    gelu       exact, and with a tanh
    sigmoid    the logistic function
    swish      Swish and SiLU
    table      the names that configs use
    gated      gated linear units, with any activation of the table
"""
