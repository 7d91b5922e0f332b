"""Recurrent cells and layers, and causal convolution."""

import numpy as np

from numformer.layers import GRU, LSTM, RNN, Bidirectional, CausalConvolution, GatedConvolution
from numformer.specifications.pair import floats
from numformer.verify.registry.cases import Case


def recurrent(kind, *sizes, **options):
    return lambda rng, dtype: kind(*sizes, rng, dtype=dtype, **options)


def both_ways(kind, d_in, d_front, d_back):
    return lambda rng, dtype: Bidirectional(kind(d_in, d_front, rng, dtype=dtype),
                                            kind(d_in, d_back, rng, reverse=True, dtype=dtype))


def ragged():
    return {"lengths": [3, 1]}


def no_sequence():
    return {"lengths": np.array([2, 0])}


LAYERS = [
    Case("rnn", recurrent(RNN, 3, 4), [(2, 3, 3)],
         wrong=[((floats(2, 3),), ValueError, "(B, T, C)"), ((floats(2, 3, 4),), ValueError, "C=3"),
                ((floats(2, 0, 3),), ValueError, "empty"),
                ((floats(2, 3, 3), floats(2, 3)), ValueError, "(B, F) with B=2, F=4"),
                (([1.0],), TypeError, "array of floats"),
                ((floats(2, 3, 3), None, [4, 1]), ValueError, "lengths=[4, 1]"),
                ((floats(2, 3, 3), None, [1]), ValueError, "B=2"),
                ((floats(2, 3, 3), None, [1.0, 2.0]), ValueError, "whole"),
                ((floats(2, 3, 3), None, [-1, 2]), ValueError, "0 .. T=3")]),
    Case("rnn, first state, lengths", recurrent(RNN, 3, 4), [(2, 3, 3), (2, 4)], ragged),
    Case("rnn, reverse, without bias", recurrent(RNN, 3, 2, reverse=True, bias=False),
         [(2, 3, 3), (2, 2)], no_sequence),
    Case("lstm", recurrent(LSTM, 3, 2), [(2, 3, 3)],
         wrong=[((floats(2, 3, 4),), ValueError, "LSTM: x must have"),
                ((floats(2, 3, 3), floats(2, 2)), ValueError, "(B, 2F) with B=2, 2F=4")]),
    Case("lstm, first state, lengths", recurrent(LSTM, 3, 2), [(2, 3, 3), (2, 4)], ragged),
    Case("lstm, whole state", recurrent(LSTM, 3, 2, whole_state=True), [(2, 3, 3), (2, 4)], ragged),
    Case("lstm, reverse, without bias", recurrent(LSTM, 3, 2, reverse=True, bias=False),
         [(2, 3, 3), (2, 4)], no_sequence),
    Case("gru", recurrent(GRU, 3, 2), [(2, 3, 3)],
         wrong=[((floats(2, 3, 4),), ValueError, "GRU: x must have"),
                ((floats(2, 3, 3), floats(1, 2)), ValueError, "(B, F) with B=2, F=2")]),
    Case("gru, first state, lengths", recurrent(GRU, 3, 2), [(2, 3, 3), (2, 2)], ragged),
    Case("gru, reset before", recurrent(GRU, 3, 2, reset_after=False), [(2, 3, 3), (2, 2)]),
    Case("gru, reverse, without bias", recurrent(GRU, 3, 2, reverse=True, bias=False),
         [(2, 3, 3), (2, 2)], no_sequence),
    Case("bidirectional gru", both_ways(GRU, 3, 2, 1), [(2, 3, 3)], ragged,
         wrong=[((floats(2, 3, 4),), ValueError, "C=3")]),
    Case("bidirectional lstm", both_ways(LSTM, 3, 1, 2), [(2, 3, 3)]),
    Case("causal convolution", lambda rng, dtype: CausalConvolution(3, 4, 2, rng, dtype=dtype),
         [(2, 4, 3)],
         wrong=[((floats(2, 3),), ValueError, "(B, T, C)"), ((floats(2, 3, 4),), ValueError, "C=3"),
                ((floats(2, 0, 3),), ValueError, "must hold something")]),
    Case("causal convolution, dilated, without bias",
         lambda rng, dtype: CausalConvolution(2, 3, 3, rng, dilation=2, bias=False, dtype=dtype),
         [(2, 6, 2)]),
    Case("gated convolution",
         lambda rng, dtype: GatedConvolution(3, 2, rng, dilation=2, dtype=dtype), [(2, 4, 3)],
         wrong=[((floats(2, 3, 4),), ValueError, "C=3"),
                ((floats(2, 3),), ValueError, "(B, T, C)")]),
]
