"""Recurrent cells: one time step each.

    rnn                 start here: a tanh of input and state
    lstm                three gates and a memory
    gru                 two gates, with the reset gate after the recurrent product
    gru_reset_before    the form of the paper
"""
