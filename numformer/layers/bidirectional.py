"""Bidirectional: one layer reads from the front, one from the back, and every position has heard of the whole sequence."""

import numpy as np

from numformer.layers.through_time import Recurrent
from numformer.parameter import Layer


class Bidirectional(Layer):
    r"""Two recurrent layers over the same sequences, (B, T, C) to (B, T, F + F'), their outputs side by side.

    .. math:: y_t = \left( \overrightarrow{h}_t,\; \overleftarrow{h}_t \right)

    Parameters
    ----------
    forward_layer : RNN, LSTM or GRU
    backward_layer : RNN, LSTM or GRU
        With ``reverse=True``.

    Raises
    ------
    ValueError, TypeError
        If a layer is of another kind or direction, or an input or lengths do not fit.

    References
    ----------
    Schuster and Paliwal (1997), "Bidirectional Recurrent Neural Networks"; as an encoder: Bahdanau, Cho, Bengio (2015), section 3.2.

    Examples
    --------
    >>> from numformer.layers import GRU
    >>> rng = np.random.default_rng(0)
    >>> encoder = Bidirectional(GRU(3, 4, rng), GRU(3, 4, rng, reverse=True))
    >>> y = encoder(np.ones((2, 5, 3), np.float32), lengths=[5, 2])
    >>> y.shape
    (2, 5, 8)
    >>> last_from_front, last_from_back = y[:, -1, :4], y[:, 0, 4:]    # final states, each of all real positions
    """

    def __init__(self, forward_layer, backward_layer):
        for name, layer, reverse in (("forward_layer", forward_layer, False), ("backward_layer", backward_layer, True)):
            if not isinstance(layer, Recurrent):
                raise TypeError(f"Bidirectional: {name} must be an RNN, LSTM or GRU, but is {type(layer).__name__}.")
            if layer.reverse != reverse:
                raise ValueError(f"Bidirectional: {name} must have reverse={reverse}, but is {layer!r}.")
        self.forward_layer, self.backward_layer = forward_layer, backward_layer

    def forward(self, x, lengths=None):
        """Read `x` both ways; both begin with zeros.

        Parameters
        ----------
        x : ndarray, shape (B, T, C)
        lengths : sequence of int, shape (B,), optional
            How many positions of each sequence are real. Beyond them the front's part stays at its last state, and the back's at 0,
            where it begins.

        Returns
        -------
        y : ndarray, shape (B, T, F + F')
        saved : tuple
        """
        front, saved_front = self.forward_layer.forward(x, lengths=lengths)
        back, saved_back = self.backward_layer.forward(x, lengths=lengths)
        y = np.concatenate([front, back], axis=2)

        saved = (front.shape[2], saved_front, saved_back)
        return y, saved

    def backward(self, dy, saved):
        width, saved_front, saved_back = saved

        # y = concatenate([front, back])
        dx = self.backward_layer.backward(dy[:, :, width:], saved_back)
        return dx + self.forward_layer.backward(dy[:, :, :width], saved_front)
