"""The head of DETR that predicts a box: three linear maps, then a logistic function."""

import numpy as np

from numformer.description import Description, to
from numformer.functional import relu, relu_backward, sigmoid, sigmoid_backward
from numformer.layers import Linear
from numformer.parameter import Layer


class BoxHead(Layer):
    r"""Centre and size of a box, as parts of the image, (..., C) to (..., 4).

    .. math:: y = \sigma(\mathrm{relu}(\mathrm{relu}(x W_1 + b_1) W_2 + b_2) W_3 + b_3)

    Parameters
    ----------
    d_model : int
        C, also the width of both hidden layers.
    rng : numpy.random.Generator or None
    dtype : float32 or float64

    References
    ----------
    Carion et al. (2020), "End-to-End Object Detection with Transformers", section 3.2.

    Examples
    --------
    >>> BoxHead(8, np.random.default_rng(0))(np.ones((2, 3, 8), np.float32)).shape
    (2, 3, 4)
    """

    def __init__(self, d_model, rng, dtype=np.float32):
        self.first = Linear(d_model, d_model, rng, True, (2 / d_model) ** 0.5, dtype)
        self.second = Linear(d_model, d_model, rng, True, (2 / d_model) ** 0.5, dtype)
        self.output = Linear(d_model, 4, rng, True, None, dtype)

    def forward(self, x):
        h, saved_first = self.first.forward(x)                        # (..., C)
        h, saved_relu1 = relu(h)
        h, saved_second = self.second.forward(h)
        h, saved_relu2 = relu(h)
        z, saved_output = self.output.forward(h)                      # (..., 4)
        y, saved_sigmoid = sigmoid(z)

        saved = (saved_first, saved_relu1, saved_second, saved_relu2, saved_output, saved_sigmoid)
        return y, saved

    def backward(self, dy, saved):
        saved_first, saved_relu1, saved_second, saved_relu2, saved_output, saved_sigmoid = saved

        # y = sigmoid(output(relu(second(relu(first(x))))))
        dh = self.output.backward(sigmoid_backward(dy, saved_sigmoid), saved_output)
        dh = self.second.backward(relu_backward(dh, saved_relu2), saved_second)
        return self.first.backward(relu_backward(dh, saved_relu1), saved_first)

    def describe(self):
        return Description("Box head", f"{to(self.first.weight.data)} twice, to 4",
                           (r"dz = dy\,y\,(1 - y)", r"dx = dz\,W_3^\top \cdots W_1^\top"))
