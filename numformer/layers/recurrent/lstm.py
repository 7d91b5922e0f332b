"""LSTM: long short-term memory over whole sequences.

The cell and its backward are in `functional.recurrent.lstm`, the loop over time and back is in
`through_time`: here is what the two need of each other.
"""

import numpy as np

from numformer.functional.recurrent.lstm import lstm_step, lstm_step_backward
from numformer.layers.recurrent.through_time import THROUGH_TIME, Recurrent


class LSTM(Recurrent):
    r"""Long short-term memory, (B, T, C) to (B, T, F): `lstm_cell` at every time step.

    The blocks of a, of width F each, become input gate i, forget gate f, output gate o and
    candidate g. The output y_t is h_t.

    .. math::

        (a_i, a_f, a_o, a_g) = x_t W + h_{t-1} U + b, \qquad
        i, f, o = \sigma(a_i), \sigma(a_f), \sigma(a_o), \qquad g = \tanh(a_g)

    .. math:: c_t = f\, c_{t-1} + i\, g, \qquad h_t = o\, \tanh(c_t)

    The backward runs from the last step to the first. h has two uses, as output and in the next
    step, and so has c, in h and in the next c; dc passes from step to step through f alone.

    .. math::

        dh_t = dy_t + da_{t+1} U^\top, \qquad
        dc_t = dh_t\, o_t (1 - \tanh^2 c_t) + dc_{t+1} f_{t+1}

    .. math::

        da_i = dc_t\, g\; i (1 - i), \quad da_f = dc_t\, c_{t-1}\; f (1 - f), \quad
        da_o = dh_t \tanh(c_t)\; o (1 - o), \quad da_g = dc_t\, i\; (1 - g^2)

    .. math:: dx_t = da_t W^\top, \qquad dW = \sum_t x_t^\top da_t, \qquad
              dU = \sum_t h_{t-1}^\top da_t, \qquad db = \sum_t da_t

    Parameters
    ----------
    d_in, d_out : int
        C and F. A state is (B, 2F): output h and cell c, concatenated.
    rng : numpy.random.Generator or None
        Samples W, normal with standard deviation 1 / sqrt(C), and U, an orthogonal block for each
        gate; None: only shapes. The bias of the forget gate starts at 1, so that the cell is
        kept at first; the other biases start at 0.
    bias : bool
    reverse : bool
        Whether to run from the last (real) position to the first: y[:, t] depends on positions from
        t on.
    whole_state : bool
        Whether the output is the whole state of every position, (B, T, 2F). Then the final state,
        y[:, -1] or with `reverse` y[:, 0], can be passed on to another layer and gets a gradient;
        y[..., :F] is the usual output.
    dtype : float32 or float64

    Raises
    ------
    ValueError, TypeError
        If a width is not a whole number above 0, or an input, state or lengths do not fit.

    References
    ----------
    Hochreiter and Schmidhuber (1997); Gers, Schmidhuber, Cummins (2000). The initial bias of the
    forget gate: Jozefowicz, Zaremba, Sutskever (2015), "An Empirical Exploration of Recurrent
    Network Architectures". Orthogonal initial weights: Saxe, McClelland, Ganguli (2014), section 3.

    Examples
    --------
    >>> encoder = LSTM(3, 4, np.random.default_rng(0), whole_state=True)
    >>> decoder = LSTM(3, 4, np.random.default_rng(1))
    >>> states = encoder(np.ones((2, 5, 3), np.float32))
    >>> decoder(np.ones((2, 6, 3), np.float32), states[:, -1]).shape
    (2, 6, 4)
    """

    gradient_equations = (
        r"dc_t = dh_t\,o_t\,(1 - \tanh^2 c_t) + f_{t+1}\,dc_{t+1}", *THROUGH_TIME)

    gates, parts = 4, 2

    def __init__(self, d_in, d_out, rng, bias=True, reverse=False, whole_state=False,
                 dtype=np.float32):
        super().__init__(d_in, d_out, rng, bias, reverse, dtype)
        self.whole_state = bool(whole_state)
        if bias and rng is not None:                 # a model of shapes alone has no numbers
            self.input.bias.data[d_out:2 * d_out] = 1

    def _step(self, a, state):                      # a: x W + b of one time step, (B, 4F)
        return lstm_step(a, state, self.recurrent_weight.data)

    def _step_backward(self, dafter, saved, weight):
        return lstm_step_backward(dafter, saved, weight)

    def _outputs(self, states):
        return states if self.whole_state else states[..., :self.width]

    def _outputs_backward(self, dy):
        if self.whole_state:
            return dy
        # y = states[..., :F], so c gets no gradient from outside
        return np.concatenate([dy, np.zeros_like(dy)], axis=2)
