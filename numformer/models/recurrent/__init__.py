"""Models that read a text token by token, with a state of fixed size.

    language_model    start here: RNN, LSTM and GRU
    seq2seq           an encoder and a decoder of GRUs with attention (Bahdanau et al. 2014)
"""
