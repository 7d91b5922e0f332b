"""RNN: the plain recurrent network over whole sequences."""

from numformer.functional.recurrent.rnn import rnn_step, rnn_step_backward
from numformer.layers.recurrent.through_time import THROUGH_TIME, Recurrent


class RNN(Recurrent):
    r"""The plain recurrent network, (B, T, C) to (B, T, F): `rnn_cell` at every time step.

    .. math:: y_t = h_t = \tanh(x_t W + h_{t-1} U + b)

    Parameters
    ----------
    d_in, d_out : int
        C and F. A state is (B, F): the last output is the final state, and the gradient of both is
        that of the output.
    rng : numpy.random.Generator or None
        Samples W, normal with standard deviation 1 / sqrt(C), and U, orthogonal; None for shapes
        alone. The bias starts at 0.
    bias : bool
    reverse : bool
        Whether to run from the last (real) position to the first: y[:, t] depends on positions from
        t on.
    dtype : float32 or float64

    Raises
    ------
    ValueError, TypeError
        If a width is not a whole number above 0, or an input, state or lengths do not fit.

    References
    ----------
    Elman (1990), "Finding Structure in Time". Orthogonal initial weights: Saxe, McClelland, Ganguli
    (2014), "Exact solutions to the nonlinear dynamics of learning in deep linear neural networks",
    section 3.

    Examples
    --------
    >>> import numpy as np
    >>> layer = RNN(3, 4, np.random.default_rng(0), dtype=np.float64)
    >>> x = np.random.default_rng(1).standard_normal((2, 5, 3))
    >>> y = layer(x)
    >>> first, state = layer.step(x[:, :2])
    >>> rest, state = layer.step(x[:, 2:], state)
    >>> np.allclose(np.concatenate([first, rest], axis=1), y), np.allclose(state, y[:, -1])
    (True, True)
    """

    gradient_equations = r"da_t = dh_t\,(1 - h_t^2)", *THROUGH_TIME

    def _step(self, a, state):
        return rnn_step(a, state, self.recurrent_weight.data)

    def _step_backward(self, dstate, saved, weight):
        return rnn_step_backward(dstate, saved, weight)
