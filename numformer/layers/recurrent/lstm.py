"""LSTM: long short-term memory over whole sequences."""

import numpy as np

from numformer.functional.recurrent.lstm import lstm_step, lstm_step_backward
from numformer.layers.recurrent.through_time import THROUGH_TIME, Recurrent


class LSTM(Recurrent):
    r"""Long short-term memory, (B, T, C) to (B, T, F): `lstm_cell` at every time step.

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
        Whether the output is the whole state of every position, (B, T, 2F). Then the final state
        y[:, -1] can be passed on to another layer and gets a gradient; y[..., :F] is the usual
        output.
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

    def _step(self, a, state):
        return lstm_step(a, state, self.recurrent_weight.data)

    def _step_backward(self, dafter, saved, weight):
        return lstm_step_backward(dafter, saved, weight)

    def _outputs(self, states):
        return states if self.whole_state else states[..., :self.width]

    def _outputs_backward(self, dy):
        if self.whole_state:
            return dy
        return np.concatenate([dy, np.zeros_like(dy)], axis=2)
