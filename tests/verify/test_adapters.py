"""What gradcheck takes besides layers: plain classes, pairs of functions, several outputs."""

import numpy as np
import pytest

from numformer.parameter import Layer, Parameter
from numformer.verify import gradcheck
from right_layers import plain

X = np.array([[0.5, -1.25, 2.0], [1.5, 0.25, -0.75]])


def test_a_plain_class_shows_its_parameters():
    report = gradcheck(plain.PlainStack(), [np.ones((1, 4))])
    assert report.ok and report.name == "PlainStack"
    assert [row.tensor for row in report.rows] == ["x", "parts.0.W", "parts.0.b",
                                                   "parts.1.parameters.gate"]


def test_a_gradient_in_an_unknown_place_is_called_state_with_a_hint():
    class Grads:
        def __init__(self):
            self.params, self.grads = {"w": np.ones(3)}, {"w": np.zeros(3)}

        def forward(self, x):
            return x * self.params["w"], x

        def backward(self, dy, x):
            self.grads["w"] += (dy * x).sum(axis=0)
            return dy * self.params["w"]

    report = gradcheck(Grads(), [X])
    assert "backward changes self.grads['w']; if that is a gradient, keep it" in report.findings[0]


def test_a_pair_of_functions_with_and_without_saved():
    def scaled(x, factor=2.0):
        return x * factor

    assert gradcheck((scaled, lambda dy, x, factor=2.0: dy * factor), [X], {"factor": 5.0}).ok
    assert gradcheck((scaled, lambda dy, x: dy * 2), [X]).ok
    report = gradcheck((scaled, lambda dy, x: dy * 2), [X], {"factor": 5.0})
    assert not report.ok and report.name == "scaled" and report.worst.reference == 5
    assert gradcheck([lambda x: (x * 3, None), lambda dy, saved: dy * 3], [X]).ok


def test_a_wrong_gradient_of_one_of_two_outputs_is_found():
    class Wrong(plain.TwoOutputs):
        def backward(self, dy, centred):
            return super().backward((dy[0], 1.001 * dy[1]), centred)

    assert gradcheck(plain.TwoOutputs(), [X]).ok
    report = gradcheck(Wrong(), [X])
    assert not report.findings and not report.ok and report.worst.output_index in [(2,), (3,)]


def test_an_argument_with_the_name_of_a_parameter_is_checked_too():
    class Same(Layer):
        def __init__(self):
            self.w = Parameter(np.ones(3))

        def forward(self, w):
            return w * self.w.data, w

        def backward(self, dy, w):
            self.w.grad += (dy * w).sum(axis=0)
            return 2 * dy * self.w.data

    report = gradcheck(Same(), [X])
    assert [row.tensor for row in report.rows] == ["argument w", "w"] and not report.ok
    assert report.worst.tensor == "argument w"


def test_views_of_dy_are_remarks_and_refused_layouts_too():
    class View(Layer):
        def forward(self, x):
            if not x.flags.c_contiguous:
                raise ValueError("contiguous arrays, please")
            return x.reshape(-1), x.shape

        def backward(self, dy, shape):
            return dy.reshape(shape)

    report = gradcheck(View(), [X])
    assert report.ok and len(report.remarks) == 4
    assert "  note: the gradient of x is a view of dy: write into neither" in str(report)
    assert "in Fortran order it raised ValueError: contiguous arrays, please" in str(report)


def test_what_is_no_layer_is_refused():
    with pytest.raises(TypeError, match="PlainLinear is a class; pass an object of it"):
        gradcheck(plain.PlainLinear, [X])
    with pytest.raises(TypeError, match="a pair of functions .f, f_backward., instead of function"):
        gradcheck(plain.swish, [X])


def test_a_function_of_real_numbers_is_compared_with_differences():
    pair = (plain.real_sigmoid, plain.real_sigmoid_backward)
    report = gradcheck(pair, [X], complex_safe=False)
    assert report.ok and report.method == "central differences" and report.bound == 1e-6
    assert "pass complex_safe=False" in gradcheck(pair, [X]).findings[0]
    wrong = (plain.real_sigmoid, lambda dy, x: 1.00001 * plain.real_sigmoid_backward(dy, x))
    assert not gradcheck(wrong, [X], complex_safe=False).ok
