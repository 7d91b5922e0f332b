"""The loop over time that `RNN`, `LSTM` and `GRU` share, and backpropagation through time.

The inputs of all time steps are multiplied by their weight in one product before the loop, and the
gradients of the weights are one product after it: only what depends on the previous step is inside
the loop. There the first axis is time, (T, B, ...), so that the numbers of a step are contiguous.
"""

import numpy as np

from numformer.checks import check_array, check_whole
from numformer.description import Description
from numformer.layers.linear import Linear
from numformer.parameter import Layer, Parameter, normal

# of the weights and of h through time, for diagrams
THROUGH_TIME = (r"dh_t = dy_t + da_{t+1} U^\top", r"dU = \Sigma_t h_{t-1}^\top da_t",
                r"dx_t = da_t\,W^\top", r"dW = \Sigma_t x_t^\top da_t")


class Recurrent(Layer):
    """The loop over time of `RNN`, `LSTM` and `GRU`, which define one step.

    A state is one array (B, state_width): output and cell of the LSTM, concatenated; of the others,
    the output itself.
    """

    gates, parts = 1, 1                     # blocks of width F in the weights, and in the state

    def __init__(self, d_in, d_out, rng, bias=True, reverse=False, dtype=np.float32):
        owner = type(self).__name__
        check_whole(owner, "d_in", d_in)
        check_whole(owner, "d_out", d_out)
        self.input = Linear(d_in, self.gates * d_out, rng, bias, dtype=dtype)
        self.recurrent_weight = orthogonal(rng, d_out, self.gates, dtype)
        self.reverse = bool(reverse)

    @property
    def width(self):
        """F, the width of the output of a time step, unless it is the whole state."""
        return len(self.recurrent_weight.data)

    @property
    def state_width(self):
        """The width of a state."""
        return self.parts * self.width

    def forward(self, x, state=None, lengths=None):
        """Run over the sequences.

        Parameters
        ----------
        x : ndarray, shape (B, T, C)
        state : ndarray, shape (B, state_width), optional
            The initial state; zeros unless given.
        lengths : sequence of int, shape (B,), optional
            How many positions of each sequence are real, 0 .. T. Beyond them the state does not
            change, and `x` is ignored. So ``y[:, -1]`` is always the last real output, or
            ``y[:, 0]`` of a layer with ``reverse=True``.

        Returns
        -------
        y : ndarray, shape (B, T, F)
        saved : tuple
        """
        states, saved = self._run(x, state, lengths)
        return self._batch_first(self._outputs(states[1:])), saved

    def backward(self, dy, saved):
        """Gradient of `x`, or of `x` and `state` where one was given."""
        states, steps, running, saved_input, given = saved
        dstates = self._outputs_backward(self._time_first(dy))        # (T, B, state_width)
        weight = np.asfortranarray(self.recurrent_weight.data)        # steps multiply by weight.T
        dstate, da = np.zeros_like(states[0]), [None] * len(steps)
        for t in reversed(range(len(steps))):
            # y[t] = outputs(states[t + 1])
            dstate = dstate + dstates[t]

            # states[t + 1] = where(running[t], step(a[t], states[t]), states[t])
            if running is None:
                da[t], dstate = self._step_backward(dstate, steps[t], weight)
            else:
                dafter = np.where(running[t], dstate, 0)
                da[t], dbefore = self._step_backward(dafter, steps[t], weight)
                dstate = dbefore + np.where(running[t], 0, dstate)

        # step(a[t], states[t]), for every t: the gradients of the weights
        da = np.stack(da)                                             # (T, B, gates F)
        h = states[:-1, :, :self.width]                     # (T, B, F): the output before each step
        self._add_weight_gradients(da.reshape(-1, da.shape[2]), h.reshape(-1, self.width), steps)

        # a = input(x)
        dx = self._batch_first(self.input.backward(da, saved_input))  # (B, T, C)
        return (dx, dstate) if given else dx

    def step(self, x, state=None, lengths=None):
        """Continue sequences. Inference only.

        Parameters
        ----------
        x : ndarray, shape (B, T, C)
            Only the new positions.
        state : ndarray, shape (B, state_width), optional
            What the last call returned; None at the start.
        lengths : sequence of int, shape (B,), optional
            As in `forward`.

        Returns
        -------
        y : ndarray, shape (B, T, F)
        state : ndarray, shape (B, state_width)
            A new value; the old one stays as it was.
        """
        if self.reverse:
            raise ValueError(f"{type(self).__name__}: a layer with reverse=True starts at the last "
                             "position and cannot continue; use forward.")
        states, _ = self._run(x, state, lengths)
        return self._batch_first(self._outputs(states[1:])), states[-1].copy()

    def _run(self, x, state, lengths):
        """All states, (T + 1, B, state_width), the first of them `state`; and `saved`."""
        running, given = self._check(x, state, lengths), state is not None
        x = np.ascontiguousarray(self._time_first(x))                 # (T, B, C)
        if running is not None:
            x = np.where(running, x, 0)                       # padding does not leak, not even NaN
        a, saved_input = self.input.forward(x)                        # (T, B, gates F)
        state = state if given else np.zeros((x.shape[1], self.state_width), x.dtype)
        states, steps = [state], []
        for t in range(len(x)):
            after, saved_step = self._step(a[t], states[t])
            if running is not None:
                after = np.where(running[t], after, states[t])
            states.append(after)
            steps.append(saved_step)
        states = np.stack(states)

        saved = (states, steps, running, saved_input, given)
        return states, saved

    def _time_first(self, x):
        """(B, T, C) to (T, B, C), in the direction of the layer."""
        x = x.transpose(1, 0, 2)
        return x[::-1] if self.reverse else x

    def _batch_first(self, y):
        """The inverse of `_time_first`, as a copy."""
        return (y[::-1] if self.reverse else y).transpose(1, 0, 2).copy()

    def _check(self, x, state, lengths):
        """Check the arguments; True where a step is real, (T, B, 1), or None if all steps are."""
        owner, weight = type(self).__name__, self.input.weight.data
        sizes = check_array(owner, "x", x, "(B, T, C)", weight.dtype, C=len(weight))
        B, T = sizes["B"], sizes["T"]
        if not B or not T:
            raise ValueError(f"{owner}: x is empty, shape {x.shape}; give at least one sequence of "
                             "at least one position.")
        if state is not None:
            axis = "F" if self.parts == 1 else f"{self.parts}F"
            check_array(owner, "state", state, f"(B, {axis})", weight.dtype, B=B,
                        **{axis: self.state_width})
        if lengths is None:
            return None
        lengths = np.asarray(lengths)
        if (lengths.shape != (B,) or lengths.dtype.kind not in "iu"
                or lengths.min() < 0 or lengths.max() > T):
            raise ValueError(f"{owner}: lengths={lengths.tolist()} must be B={B} whole numbers in "
                             f"0 .. T={T}.")
        running = np.arange(T)[:, None, None] < lengths[:, None]      # (T, B, 1)
        return running[::-1] if self.reverse else running

    def _outputs(self, states):
        """The part of the states that is the output."""
        return states

    def _outputs_backward(self, dy):
        return dy

    def _add_weight_gradients(self, da, h, steps):
        """From da (T B, gates F) and the outputs before each step (T B, F)."""
        # a + h @ recurrent_weight
        self.recurrent_weight.grad += h.T @ da

    def describe(self):
        return Description(type(self).__name__, f"{len(self.input.weight.data):,} to "
                           f"{self.width:,}, state to state", self.gradient_equations,
                           weights=self.recurrent_weight.data.size, state=self.state_width,
                           recurrent=True)


def orthogonal(rng, width, blocks, dtype):
    """A Parameter (F, blocks F) of random orthogonal blocks: they keep the norm of a state.

    Each is the Q of a matrix of unit normals, with signs that make the diagonal of R positive: then
    Q is distributed uniformly.

    Examples
    --------
    >>> Q = orthogonal(np.random.default_rng(0), 3, 2, np.float64).data[:, 3:]
    >>> (Q.T @ Q).round(12) + 0
    array([[1., 0., 0.],
           [0., 1., 0.],
           [0., 0., 1.]])
    """
    if rng is None:
        return normal(None, (width, blocks * width), 1, dtype)
    Q, R = np.linalg.qr(rng.standard_normal((blocks, width, width)))
    Q = Q * np.sign(np.diagonal(R, axis1=1, axis2=2))[:, None, :]
    return Parameter(Q.transpose(1, 0, 2).reshape(width, blocks * width).astype(dtype))
