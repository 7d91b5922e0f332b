"""The walk along time that `RNN`, `LSTM` and `GRU` share, and the walk back: backpropagation through time.

The products with the inputs of all time steps are one product before the loop, and the gradients of the weights one product
after it: the loop has only what must wait for the step before. There arrays are time first, (T, B, ...), so that the numbers of
one step lie side by side.
"""

import numpy as np

from numformer.checks import check_array, check_whole
from numformer.layers.linear import Linear
from numformer.parameter import Layer, Parameter, normal


class Recurrent(Layer):
    """What `RNN`, `LSTM` and `GRU` share: the walk along time. They say what one step is.

    A state is one array (B, state_width): for the LSTM output and memory side by side, for the others the output itself.
    """

    gates, parts = 1, 1                                               # blocks of width F in the weights, and in the state

    def __init__(self, d_in, d_out, rng, bias=True, reverse=False, dtype=np.float32):
        owner = type(self).__name__
        check_whole(owner, "d_in", d_in)
        check_whole(owner, "d_out", d_out)
        self.input = Linear(d_in, self.gates * d_out, rng, bias, dtype=dtype)
        self.recurrent_weight = orthogonal(rng, d_out, self.gates, dtype)
        self.reverse = bool(reverse)

    @property
    def width(self):
        """F, the width of the output of one time step, unless the layer gives its whole state."""
        return len(self.recurrent_weight.data)

    @property
    def state_width(self):
        """The width of a state."""
        return self.parts * self.width

    def forward(self, x, state=None, lengths=None):
        """Carry a state along the sequences.

        Parameters
        ----------
        x : ndarray, shape (B, T, C)
        state : ndarray, shape (B, state_width), optional
            Where to begin; zeros unless given.
        lengths : sequence of int, shape (B,), optional
            How many positions of each sequence are real, 0 .. T. Beyond them the state stays as it is, and what stands in `x` there
            is never looked at. So ``y[:, -1]`` is always the last real output, or ``y[:, 0]`` where the layer is a reverse one.

        Returns
        -------
        y : ndarray, shape (B, T, F)
        saved : tuple
        """
        states, saved = self._walk(x, state, lengths)
        return self._batch_first(self._outputs(states[1:])), saved

    def backward(self, dy, saved):
        """Gradient of `x`, or of `x` and `state` where one was given."""
        states, steps, running, saved_input, given = saved
        dstates = self._outputs_backward(self._time_first(dy))        # (T, B, state_width)
        turned = np.ascontiguousarray(self.recurrent_weight.data.T)   # (gates F, F): a copy, for products are faster with it
        dstate, da = np.zeros_like(states[0]), [None] * len(steps)
        for t in reversed(range(len(steps))):
            # y[t] = outputs(states[t + 1])
            dstate = dstate + dstates[t]

            # states[t + 1] = where(running[t], step(a[t], states[t]), states[t])
            if running is None:
                da[t], dstate = self._step_backward(dstate, steps[t], turned)
            else:
                da[t], dbefore = self._step_backward(np.where(running[t], dstate, 0), steps[t], turned)
                dstate = dbefore + np.where(running[t], 0, dstate)

        # step(a[t], states[t]), for every t: the gradients of the weights
        da = np.stack(da)                                             # (T, B, gates F)
        h = states[:-1, :, :self.width]                               # (T, B, F): the output before each step
        self._add_weight_gradients(da.reshape(-1, da.shape[2]), h.reshape(-1, self.width), steps)

        # a = input(x)
        dx = self._batch_first(self.input.backward(da, saved_input))  # (B, T, C)
        return (dx, dstate) if given else dx

    def step(self, x, state=None, lengths=None):
        """Continue sequences. Inference only.

        Parameters
        ----------
        x : ndarray, shape (B, T, C)
            The new positions alone.
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
            raise ValueError(f"{type(self).__name__}: a reverse layer begins at the end and cannot go on; use forward.")
        states, _ = self._walk(x, state, lengths)
        return self._batch_first(self._outputs(states[1:])), states[-1].copy()

    def _walk(self, x, state, lengths):
        """All states, (T + 1, B, state_width), the first of them `state`; and what the backward needs."""
        running, given = self._check(x, state, lengths), state is not None
        x = np.ascontiguousarray(self._time_first(x))                 # (T, B, C)
        if running is not None:
            x = np.where(running, x, 0)                               # nothing leaks from beyond a length, not even NaN
        a, saved_input = self.input.forward(x)                        # (T, B, gates F)
        states, steps = [state if given else np.zeros((x.shape[1], self.state_width), x.dtype)], []
        for t in range(len(x)):
            after, saved_step = self._step(a[t], states[t])
            states.append(after if running is None else np.where(running[t], after, states[t]))
            steps.append(saved_step)
        states = np.stack(states)

        saved = (states, steps, running, saved_input, given)
        return states, saved

    def _time_first(self, x):
        """(B, T, C) to (T, B, C), in the order of the walk."""
        x = x.transpose(1, 0, 2)
        return x[::-1] if self.reverse else x

    def _batch_first(self, y):
        """(T, B, C) to (B, T, C), and back from the order of the walk: a copy."""
        return (y[::-1] if self.reverse else y).transpose(1, 0, 2).copy()

    def _check(self, x, state, lengths):
        """Check the arguments; which sequences are running at each time step, (T, B, 1), or None if all are at all."""
        owner, weight = type(self).__name__, self.input.weight.data
        sizes = check_array(owner, "x", x, "(B, T, C)", weight.dtype, C=len(weight))
        B, T = sizes["B"], sizes["T"]
        if not B or not T:
            raise ValueError(f"{owner}: x is empty, shape {x.shape}; give at least one sequence of at least one position.")
        if state is not None:
            held = "F" if self.parts == 1 else f"{self.parts}F"
            check_array(owner, "state", state, f"(B, {held})", weight.dtype, B=B, **{held: self.state_width})
        if lengths is None:
            return None
        lengths = np.asarray(lengths)
        if lengths.shape != (B,) or lengths.dtype.kind not in "iu" or lengths.min() < 0 or lengths.max() > T:
            raise ValueError(f"{owner}: lengths={lengths.tolist()} must be B={B} whole numbers in 0 .. T={T}.")
        running = np.arange(T)[:, None, None] < lengths[:, None]      # (T, B, 1)
        return running[::-1] if self.reverse else running

    def _outputs(self, states):
        """What of the states is the output."""
        return states

    def _outputs_backward(self, dy):
        return dy

    def _add_weight_gradients(self, da, h, steps):
        """From da (T B, gates F) and the outputs before each step (T B, F)."""
        # a + h @ recurrent_weight
        self.recurrent_weight.grad += h.T @ da


def orthogonal(rng, width, blocks, dtype):
    """A Parameter (F, blocks F) of random orthogonal squares side by side: none makes a state longer or shorter at first.

    The Q of a square of unit normals, with signs such that R's diagonal is positive, is spread evenly over all of them.

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
