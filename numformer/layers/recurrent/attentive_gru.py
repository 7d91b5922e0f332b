"""AttentiveGRU: a recurrent decoder that attends to a context before every step."""

import numpy as np

from numformer.checks import check_array, check_whole
from numformer.description import Description
from numformer.functional.recurrent.gru import (
    gru_step, gru_step_backward, gru_weight_gradients, state_and_reset)
from numformer.functional.attention.masks import EVERYWHERE, AttentionPattern
from numformer.layers.linear import Linear
from numformer.layers.attention.score_attention import ScoreAttention
from numformer.layers.recurrent.through_time import orthogonal
from numformer.parameter import Layer, constant, normal


class AttentiveGRU(Layer):
    r"""Bahdanau's decoder: GRU with attention, (B, T, C) and a context (B, S, K) to (B, T, F + K).

    .. math::

        c_t = \mathrm{attention}(s_{t-1}, \mathrm{context}), \qquad
        s_t = \mathrm{gru}([x_t; c_t], s_{t-1}), \qquad y_t = [s_t; c_t]

    The query is the state *before* the step. So every step depends on the one before it, and the
    loop over time contains attention and cell. Only the products with x come before the loop, for
    all steps at once, and the gradients of the weights of the cell after it.

    Parameters
    ----------
    d_in, d_out, d_context : int
        C, F and K.
    rng : numpy.random.Generator or None
        Samples the initial weights as `GRU` and `ScoreAttention` do; None: only shapes.
    score : "additive", "dot", "general" or "scaled_dot"
        See `ScoreAttention`; "dot" and "scaled_dot" need K = F.
    dtype : float32 or float64

    Raises
    ------
    ValueError, TypeError
        If a width is not a whole number above 0 or does not fit the score, or if an input does not
        fit.

    References
    ----------
    Bahdanau, Cho, Bengio (2015), "Neural Machine Translation by Jointly Learning to Align and
    Translate", section 3.1 and A.2.2. There the reset gate multiplies the state before its product
    with the weight; here after it, as in `GRU`.

    Examples
    --------
    >>> layer = AttentiveGRU(3, 4, 6, np.random.default_rng(0))
    >>> x, context = np.ones((2, 5, 3), np.float32), np.ones((2, 7, 6), np.float32)
    >>> state = np.zeros((2, 4), np.float32)
    >>> y, saved = layer.forward(x, state, context, lengths=[7, 2])
    >>> y.shape
    (2, 5, 10)
    >>> layer.attention_weights(saved)[1, 0].round(6)
    array([0.5, 0.5, 0. , 0. , 0. , 0. , 0. ], dtype=float32)
    """

    def __init__(self, d_in, d_out, d_context, rng, score="additive", dtype=np.float32):
        for name, size in (("d_in", d_in), ("d_out", d_out), ("d_context", d_context)):
            check_whole("AttentiveGRU", name, size)
        self.attention = ScoreAttention(score, d_out, d_context, rng, dtype=dtype)
        # One weight for [x; c], cut in two: the products with x do not depend on c.
        self.input = Linear(d_in, 3 * d_out, rng, std=(d_in + d_context) ** -0.5, dtype=dtype)
        self.context_weight = normal(rng, (d_context, 3 * d_out), (d_in + d_context) ** -0.5, dtype)
        self.recurrent_weight = orthogonal(rng, d_out, 3, dtype)
        self.recurrent_bias = constant(0, (d_out,), dtype)

    @property
    def width(self):
        """F, the width of a state."""
        return len(self.recurrent_weight.data)

    def forward(self, x, state, context, lengths=None):
        """Run over the sequences, with attention to the context before every step.

        Parameters
        ----------
        x : ndarray, shape (B, T, C)
        state : ndarray, shape (B, F)
            The initial state.
        context : ndarray, shape (B, S, K)
        lengths : sequence of int, shape (B,), optional
            How many vectors of each context are real; the others are masked.

        Returns
        -------
        y : ndarray, shape (B, T, F + K)
            The state after each step, and the c that it was computed from.
        saved : tuple
        """
        self._check(x, state)
        memory, saved_memory = self.prepare(context, lengths)
        time_first = np.ascontiguousarray(x.transpose(1, 0, 2))       # (T, B, C)
        a, saved_input = self.input.forward(time_first)               # (T, B, 3F)
        steps, ys = [], []
        for a_t in a:
            y_t, saved_step = self._step(a_t, state, memory)          # (B, F + K)
            state = y_t[:, :self.width]
            ys.append(y_t)
            steps.append(saved_step)
        y = np.stack(ys, axis=1)                                      # (B, T, F + K)

        saved = (saved_memory, saved_input, steps, y)
        return y, saved

    def backward(self, dy, saved):
        """Gradients of `x`, `state` and `context`."""
        saved_memory, saved_input, steps, y = saved
        F = self.width
        # Products with transposes that are contiguous are faster
        recurrent_weight = np.asfortranarray(self.recurrent_weight.data)     # (F, 3F)
        context_transposed = np.ascontiguousarray(self.context_weight.data.T)          # (3F, K)
        dstate, dmemory, da = 0, [0, 0], [None] * len(steps)
        for t in reversed(range(len(steps))):
            saved_attend, saved_gru = steps[t]

            # y[:, t] = concatenate([state, c])
            dstate, dc = dstate + dy[:, t, :F], dy[:, t, F:]

            # state = gru_step(a[t] + c @ context_weight, state, recurrent_weight, recurrent_bias)
            da[t], dstate = gru_step_backward(dstate, saved_gru, recurrent_weight)
            dc = dc + da[t] @ context_transposed

            # c = attend(state, memory)
            dquery, dkeys, dvalues = self.attention.attend_backward(
                dc[:, None], saved_attend)
            dstate = dstate + dquery[:, 0]
            dmemory = [dmemory[0] + dkeys, dmemory[1] + dvalues]

        # gru_step(...), for every t: the gradients of its weights
        da = np.stack(da)                                             # (T, B, 3F)
        rows = da.reshape(-1, 3 * F)                                  # (T B, 3F)
        c = y[:, :, F:].transpose(1, 0, 2).reshape(len(rows), -1)     # (T B, K)
        before, reset = (np.concatenate(parts) for parts in zip(
            *(state_and_reset(saved_gru) for _, saved_gru in steps)))
        drecurrent_weight, drecurrent_bias = gru_weight_gradients(rows, before, reset)
        self.context_weight.grad += c.T @ rows
        self.recurrent_weight.grad += drecurrent_weight
        self.recurrent_bias.grad += drecurrent_bias

        # a = input(x);  memory = prepare(context)
        dx = self.input.backward(da, saved_input).transpose(1, 0, 2).copy()
        return dx, dstate, self.attention.prepare_backward(*dmemory, saved_memory)

    def prepare(self, context, lengths=None):
        """Compute what depends on the context alone, for `step`.

        Returns a tuple of arrays, each with first axis B, or None; and `saved`.
        """
        (keys, values, finite), saved = self.attention.prepare(context)
        if lengths is not None:
            lengths, (B, S) = np.asarray(lengths), finite.shape
            if (lengths.shape != (B,) or lengths.dtype.kind not in "iu"
                    or lengths.min() < 0 or lengths.max() > S):
                raise ValueError(f"AttentiveGRU: lengths={lengths.tolist()} must be B={B} whole "
                                 f"numbers in 0 .. S={S}.")
        return (keys, values, finite, lengths), saved

    def step(self, x, state, memory):
        """Continue sequences by one position each. Inference only.

        Parameters
        ----------
        x : ndarray, shape (B, 1, C)
        state : ndarray, shape (B, F)
        memory : tuple
            From `prepare`.

        Returns
        -------
        y : ndarray, shape (B, 1, F + K)
        state : ndarray, shape (B, F)
            A new value; the old one stays as it was.
        """
        if self._check(x, state) != 1:
            raise ValueError("AttentiveGRU: step takes one position, x of shape (B, 1, C), but it "
                             f"has shape {x.shape}; use forward.")
        y, _ = self._step(self.input(x[:, 0]), state, memory)
        return y[:, None], y[:, :self.width].copy()

    def attention_weights(self, saved):
        """The attention weights (B, T, S) of all steps of the forward that saved."""
        *_, steps, _ = saved
        return np.concatenate([p for (p, *_), _ in steps], axis=1)

    def _step(self, a, state, memory):
        """[state; context] from a = input(x), (B, 3F)."""
        *parts, lengths = memory
        pattern = EVERYWHERE if lengths is None else AttentionPattern(lengths=lengths)
        c, saved_attend = self.attention.attend(state[:, None], tuple(parts), pattern)
        c = c[:, 0]                                                   # (B, K)
        state, saved_gru = gru_step(a + c @ self.context_weight.data, state,
                                    self.recurrent_weight.data, self.recurrent_bias.data)

        saved = (saved_attend, saved_gru)
        return np.concatenate([state, c], axis=1), saved

    def _check(self, x, state):
        """Check the arguments; T."""
        weight = self.input.weight.data
        sizes = check_array("AttentiveGRU", "x", x, "(B, T, C)", weight.dtype, C=len(weight))
        if not sizes["B"] or not sizes["T"]:
            raise ValueError(f"AttentiveGRU: x is empty, shape {x.shape}; give at least one "
                             "sequence of at least one position.")
        check_array("AttentiveGRU", "state", state, "(B, F)", weight.dtype, B=sizes["B"],
                    F=self.width)
        return sizes["T"]

    def describe(self):
        return Description("GRU with attention", f"{self.attention.describe().sizes} of states and "
                           "inputs", (r"dx_t = da_t\,W^\top", r"dc_t = dy^c_t + da_t\,W_c^\top",
                                      r"dp_{tj} = dc_t \cdot h_j", r"ds = p\,(dp - \Sigma\,p\,dp)"),
                           recurrent=True)
