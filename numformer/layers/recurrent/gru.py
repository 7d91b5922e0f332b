"""GRU: gated recurrent units over whole sequences."""

import numpy as np

from numformer.functional.recurrent.gru import (
    gru_step, gru_step_backward, gru_weight_gradients, state_and_reset)
from numformer.functional.recurrent.gru_reset_before import (
    gru_step_reset_before, gru_step_reset_before_backward, gru_weight_gradient_reset_before)
from numformer.layers.recurrent.through_time import Recurrent
from numformer.parameter import constant


class GRU(Recurrent):
    r"""Gated recurrent units, (B, T, C) to (B, T, F): `gru_cell` at every time step.

    Parameters
    ----------
    d_in, d_out : int
        C and F. A state is (B, F): the last output is the final state, and the gradient of both is
        that of the output.
    rng : numpy.random.Generator or None
        Samples W, normal with standard deviation 1 / sqrt(C), and U, an orthogonal block for each
        gate; None: only shapes. Biases start at 0.
    bias : bool
    reverse : bool
        Whether to run from the last (real) position to the first: y[:, t] depends on positions from
        t on.
    reset_after : bool
        Whether the reset gate is applied after the product with U, as in cuDNN and PyTorch, or
        before it, as in the paper.
    dtype : float32 or float64

    Raises
    ------
    ValueError, TypeError
        If a width is not a whole number above 0, or an input, state or lengths do not fit.

    References
    ----------
    Cho et al. (2014), "Learning Phrase Representations using RNN Encoder-Decoder". Orthogonal
    initial weights: Saxe, McClelland, Ganguli (2014), section 3.

    Examples
    --------
    >>> layer = GRU(3, 4, np.random.default_rng(0))
    >>> y = layer(np.ones((2, 5, 3), np.float32), lengths=[5, 2])
    >>> y.shape, bool((y[1, -1] == y[1, 1]).all())                    # padding keeps the state
    ((2, 5, 4), True)
    """

    gradient_equations = (r"dh_t = dy_t + u_{t+1}\,dh_{t+1} + da_{t+1} U^\top",
                          r"dx_t = da_t\,W^\top", r"dW = \Sigma_t x_t^\top da_t")

    gates = 3

    def __init__(self, d_in, d_out, rng, bias=True, reverse=False, reset_after=True,
                 dtype=np.float32):
        super().__init__(d_in, d_out, rng, bias, reverse, dtype)
        self.recurrent_bias = constant(0, (d_out,), dtype) if bias and reset_after else None
        self.reset_after = bool(reset_after)

    def _step(self, a, state):
        if not self.reset_after:
            return gru_step_reset_before(a, state, self.recurrent_weight.data)
        bias = None if self.recurrent_bias is None else self.recurrent_bias.data
        return gru_step(a, state, self.recurrent_weight.data, bias)

    def _step_backward(self, dstate, saved, weight):
        step_backward = gru_step_backward if self.reset_after else gru_step_reset_before_backward
        return step_backward(dstate, saved, weight)

    def _add_weight_gradients(self, da, h, steps):
        reset = np.concatenate([state_and_reset(saved_step)[1] for saved_step in steps])
        if not self.reset_after:
            self.recurrent_weight.grad += gru_weight_gradient_reset_before(da, h, reset)
            return
        drecurrent_weight, drecurrent_bias = gru_weight_gradients(da, h, reset)
        self.recurrent_weight.grad += drecurrent_weight
        if self.recurrent_bias is not None:
            self.recurrent_bias.grad += drecurrent_bias
