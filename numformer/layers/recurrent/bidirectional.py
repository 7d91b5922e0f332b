"""Bidirectional: one recurrent layer runs forward in time, one backward."""

import numpy as np

from numformer.description import Description
from numformer.layers.recurrent.through_time import Recurrent
from numformer.parameter import Layer


class Bidirectional(Layer):
    r"""Two recurrent layers in opposite directions, (B, T, C) to (B, T, F + F'), concatenated.

    .. math:: y_t = \left( \overrightarrow{h}_t,\; \overleftarrow{h}_t \right)

    So every output depends on the whole sequence.

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
    Schuster and Paliwal (1997), "Bidirectional Recurrent Neural Networks"; as an encoder: Bahdanau,
    Cho, Bengio (2015), section 3.2.

    Examples
    --------
    >>> from numformer.layers import GRU
    >>> rng = np.random.default_rng(0)
    >>> encoder = Bidirectional(GRU(3, 4, rng), GRU(3, 4, rng, reverse=True))
    >>> y = encoder(np.ones((2, 5, 3), np.float32), lengths=[5, 2])
    >>> y.shape
    (2, 5, 8)
    >>> final_forward, final_backward = y[:, -1, :4], y[:, 0, 4:]     # states after all positions
    """

    def __init__(self, forward_layer, backward_layer):
        for name, layer, reverse in (("forward_layer", forward_layer, False),
                                     ("backward_layer", backward_layer, True)):
            if not isinstance(layer, Recurrent):
                raise TypeError(f"Bidirectional: {name} must be an RNN, LSTM or GRU, "
                                f"but is {type(layer).__name__}.")
            if layer.reverse != reverse:
                raise ValueError(f"Bidirectional: {name} must have reverse={reverse}, "
                                 f"but is {layer!r}.")
        self.forward_layer, self.backward_layer = forward_layer, backward_layer

    def forward(self, x, lengths=None):
        """Run both layers over `x`, from initial states of 0.

        Parameters
        ----------
        x : ndarray, shape (B, T, C)
        lengths : sequence of int, shape (B,), optional
            How many positions of each sequence are real. Beyond them the output of the forward
            layer keeps its last value, and that of the backward layer is 0, its initial state.

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

    def describe(self):
        one, other = self.forward_layer, self.backward_layer
        return Description(f"Bidirectional {type(one).__name__}",
                           f"{len(one.input.weight.data):,} to {one.width:,} + {other.width:,}",
                           (r"dx = \overrightarrow{dx} + \overleftarrow{dx}",))
