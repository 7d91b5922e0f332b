"""The gates of an LSTM over a sequence."""

import numpy as np

from numformer.checks import check_array
from numformer.functional.recurrent.lstm import lstm_step
from numformer.layers import LSTM


def lstm_gates(layer, x):
    """Input, forget and output gate and the memory cell at every time step.

    Parameters
    ----------
    layer : LSTM
        From left to right.
    x : ndarray, shape (B, T, C)

    Returns
    -------
    dict of str to ndarray of shape (B, T, F)
        ``input``, ``forget`` and ``output``, fractions between 0 and 1; ``cell``, the memory c; and
        ``state``, the output h = o tanh(c).

    Raises
    ------
    TypeError, ValueError
        If the layer is no `LSTM`, or runs from right to left, or x does not fit.

    References
    ----------
    Karpathy, Johnson, Fei-Fei (2016), "Visualizing and Understanding Recurrent Networks", section
    4.2.

    Examples
    --------
    >>> layer = LSTM(3, 4, np.random.default_rng(0), dtype=np.float64)
    >>> x = np.random.default_rng(1).standard_normal((1, 5, 3))
    >>> gates = lstm_gates(layer, x)
    >>> gates["forget"].shape, bool(np.allclose(gates["state"], layer(x)))
    ((1, 5, 4), True)
    """
    if not isinstance(layer, LSTM):
        raise TypeError(f"lstm_gates: layer must be an LSTM, but is {layer!r}.")
    if layer.reverse:
        raise ValueError("lstm_gates: the layer has reverse=True; give one that runs forwards.")
    check_array("lstm_gates", "x", x, "(B, T, C)", C=len(layer.input.weight.data))
    B, T, _ = x.shape
    F, a = layer.width, layer.input(x)                                # (B, T, 4F)
    state, steps = np.zeros((B, 2 * F), a.dtype), []
    for t in range(T):
        state, (_, gates, *_) = lstm_step(a[:, t], state, layer.recurrent_weight.data)
        steps.append(np.concatenate([gates, state[:, F:], state[:, :F]], axis=1))
    parts = np.split(np.stack(steps, axis=1), 5, axis=2)              # 5 of (B, T, F)
    return dict(zip(("input", "forget", "output", "cell", "state"), parts))
