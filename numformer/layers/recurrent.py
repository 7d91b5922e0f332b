"""RNN, LSTM and GRU over whole sequences: their cells in `numformer.layers.through_time`'s walk."""

import numpy as np

from numformer.functional.gru import gru_step, gru_step_backward, gru_weight_gradients, state_and_reset
from numformer.functional.lstm import lstm_step, lstm_step_backward
from numformer.functional.rnn import rnn_step, rnn_step_backward
from numformer.layers.through_time import Recurrent
from numformer.parameter import constant


class RNN(Recurrent):
    r"""The plain recurrent network, (B, T, C) to (B, T, F): `rnn_cell` along time.

    .. math:: y_t = h_t = \tanh(x_t W + h_{t-1} U + b)

    Parameters
    ----------
    d_in, d_out : int
        C and F. A state is (B, F): the last output is the final state, and its gradient goes in with that output's.
    rng : numpy.random.Generator or None
        Draws W, normal with standard deviation 1 / sqrt(C), and U, orthogonal; None for shapes alone. The bias begins at 0.
    bias : bool
    reverse : bool
        From the last (real) position to the first: y[:, t] has seen the positions from t on.
    dtype : float32 or float64

    Raises
    ------
    ValueError, TypeError
        If a width is not a whole number above 0, or an input, state or lengths do not fit.

    References
    ----------
    Elman (1990), "Finding Structure in Time". Orthogonal first weights: Saxe, McClelland, Ganguli (2014), "Exact solutions to the
    nonlinear dynamics of learning in deep linear neural networks", section 3.

    Examples
    --------
    >>> layer = RNN(3, 4, np.random.default_rng(0), dtype=np.float64)
    >>> x = np.random.default_rng(1).standard_normal((2, 5, 3))
    >>> y = layer(x)
    >>> first, state = layer.step(x[:, :2])
    >>> rest, state = layer.step(x[:, 2:], state)
    >>> np.allclose(np.concatenate([first, rest], axis=1), y), np.allclose(state, y[:, -1])
    (True, True)
    """

    def _step(self, a, state):
        return rnn_step(a, state, self.recurrent_weight.data)

    def _step_backward(self, dstate, saved, turned):
        return rnn_step_backward(dstate, saved, turned)


class LSTM(Recurrent):
    r"""Long short-term memory, (B, T, C) to (B, T, F): `lstm_cell` along time.

    Parameters
    ----------
    d_in, d_out : int
        C and F. A state is (B, 2F): output h and memory c side by side.
    rng : numpy.random.Generator or None
        Draws W, normal with standard deviation 1 / sqrt(C), and U, an orthogonal square for each gate; None for shapes alone. The
        forget gate's bias begins at 1, so that the memory is kept at first; the others at 0.
    bias : bool
    reverse : bool
        From the last (real) position to the first: y[:, t] has seen the positions from t on.
    whole_state : bool
        True: the output is the state of every position, h and c side by side, (B, T, 2F). So the final state y[:, -1] has a gradient,
        for whoever hands it on; y[..., :F] is the usual output.
    dtype : float32 or float64

    Raises
    ------
    ValueError, TypeError
        If a width is not a whole number above 0, or an input, state or lengths do not fit.

    References
    ----------
    Hochreiter and Schmidhuber (1997); Gers, Schmidhuber, Cummins (2000). The forget gate's first bias: Jozefowicz, Zaremba,
    Sutskever (2015), "An Empirical Exploration of Recurrent Network Architectures". Orthogonal first weights: Saxe, McClelland,
    Ganguli (2014), section 3.

    Examples
    --------
    >>> encoder = LSTM(3, 4, np.random.default_rng(0), whole_state=True)
    >>> decoder = LSTM(3, 4, np.random.default_rng(1))
    >>> states = encoder(np.ones((2, 5, 3), np.float32))
    >>> decoder(np.ones((2, 6, 3), np.float32), states[:, -1]).shape
    (2, 6, 4)
    """

    gates, parts = 4, 2

    def __init__(self, d_in, d_out, rng, bias=True, reverse=False, whole_state=False, dtype=np.float32):
        super().__init__(d_in, d_out, rng, bias, reverse, dtype)
        self.whole_state = bool(whole_state)
        if bias:
            self.input.bias.data[d_out:2 * d_out] = 1

    def _step(self, a, state):
        return lstm_step(a, state, self.recurrent_weight.data)

    def _step_backward(self, dstate, saved, turned):
        return lstm_step_backward(dstate, saved, turned)

    def _outputs(self, states):
        return states if self.whole_state else states[..., :self.width]

    def _outputs_backward(self, dy):
        return dy if self.whole_state else np.concatenate([dy, np.zeros_like(dy)], axis=2)


class GRU(Recurrent):
    r"""Gated recurrent units, (B, T, C) to (B, T, F): `gru_cell` along time.

    Parameters
    ----------
    d_in, d_out : int
        C and F. A state is (B, F): the last output is the final state, and its gradient goes in with that output's.
    rng : numpy.random.Generator or None
        Draws W, normal with standard deviation 1 / sqrt(C), and U, an orthogonal square for each gate; None for shapes alone. The
        biases begin at 0.
    bias : bool
    reverse : bool
        From the last (real) position to the first: y[:, t] has seen the positions from t on.
    reset_after : bool
        Whether the reset gate stands behind the product with U, as in cuDNN and PyTorch, or before it, as in the paper.
    dtype : float32 or float64

    Raises
    ------
    ValueError, TypeError
        If a width is not a whole number above 0, or an input, state or lengths do not fit.

    References
    ----------
    Cho et al. (2014), "Learning Phrase Representations using RNN Encoder-Decoder". Orthogonal first weights: Saxe, McClelland,
    Ganguli (2014), section 3.

    Examples
    --------
    >>> layer = GRU(3, 4, np.random.default_rng(0))
    >>> y = layer(np.ones((2, 5, 3), np.float32), lengths=[5, 2])
    >>> y.shape, bool((y[1, -1] == y[1, 1]).all())                    # beyond its length a sequence keeps its state
    ((2, 5, 4), True)
    """

    gates = 3

    def __init__(self, d_in, d_out, rng, bias=True, reverse=False, reset_after=True, dtype=np.float32):
        super().__init__(d_in, d_out, rng, bias, reverse, dtype)
        self.recurrent_bias = constant(0, (d_out,), dtype) if bias and reset_after else None
        self.reset_after = bool(reset_after)

    def _step(self, a, state):
        bias = None if self.recurrent_bias is None else self.recurrent_bias.data
        return gru_step(a, state, self.recurrent_weight.data, bias, self.reset_after)

    def _step_backward(self, dstate, saved, turned):
        return gru_step_backward(dstate, saved, turned)

    def _add_weight_gradients(self, da, h, steps):
        reset = np.concatenate([state_and_reset(saved_step)[1] for saved_step in steps])    # (T B, F)
        drecurrent_weight, drecurrent_bias = gru_weight_gradients(da, h, reset, self.reset_after)
        self.recurrent_weight.grad += drecurrent_weight
        if self.recurrent_bias is not None:
            self.recurrent_bias.grad += drecurrent_bias
