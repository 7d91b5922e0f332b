"""Recurrent cells: without a bias, and with saturated gates."""

import numpy as np
import pytest

from numformer import functional as F


def same(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("cell, gates, parts",
                         [(F.rnn_cell, 1, 1), (F.lstm_cell, 4, 2), (F.gru_cell, 3, 1),
                                              (F.gru_cell_reset_before, 3, 1)])
def test_cells_without_a_bias_equal_a_bias_of_zero(cell, gates, parts, rng):
    arrays = [rng.standard_normal(shape)
              for shape in ((2, 3), (2, 4 * parts), (3, 4 * gates), (4, 4 * gates))]
    y, saved = cell(*arrays)
    same(y, cell(*arrays, np.zeros(4 * gates))[0])
    backward = getattr(F, f"{cell.__name__}_backward")
    *gradients, dbias = backward(np.ones_like(y), saved)
    assert dbias is None and [g.shape for g in gradients] == [x.shape for x in arrays]
    y, saved = F.causal_convolution(np.ones((1, 2, 3)), np.ones((2, 3, 4)))
    assert F.causal_convolution_backward(y, saved)[2] is None


def test_saturated_gates_keep_overwrite_and_hide_the_state():
    """Biases of +-1000 close and open gates exactly; blocks are in the documented order."""
    x, state = np.zeros((1, 1)), np.array([[0.3, 0.7]])

    def lstm(i, f, o, g):
        return F.lstm_cell(x, state, np.zeros((1, 4)), np.zeros((1, 4)),
                           np.array([i, f, o, g], float))[0][0]

    assert np.array_equal(lstm(-1000, 1000, -1000, 5), [0, 0.7])      # keep, and output nothing
    assert np.array_equal(lstm(1000, -1000, -1000, 1000), [0, 1])     # overwrite
    assert np.array_equal(lstm(-1000, 1000, 1000, 5), [np.tanh(0.7), 0.7])

    def gru(cell, r, z, n):
        recurrent_weight = np.array([[0.0, 0.0, 1.0]])
        bias = np.array([r, z, n], float)
        return cell(x, state[:, :1], np.zeros((1, 3)), recurrent_weight, bias)[0][0, 0]

    for cell in (F.gru_cell, F.gru_cell_reset_before):
        assert gru(cell, 0.0, 1000, 5.0) == 0.3                       # keep
        # forget, and take the candidate
        assert gru(cell, -1000, -1000, 0.5) == np.tanh(0.5)
        assert gru(cell, 1000, -1000, 0.5) == np.tanh(0.8)
