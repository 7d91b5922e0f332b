"""gradcheck accepts a right layer, and names each mistake of layers that were made wrong."""

import numpy as np
import pytest

from numformer.layers import Linear
from numformer.parameter import Layer, Parameter
from numformer.specifications.pair import Pair
from numformer.verify import gradcheck, hessian_symmetry

X = np.array([[0.5, -1.25, 2.0], [1.5, 0.25, -0.75]])


class Cube(Layer):
    """y = a x^3, right in everything; the layers below differ from it in one mistake."""

    def __init__(self):
        self.a = Parameter(np.array([1.0, 2.0, 3.0]))

    def forward(self, x):
        return self.a.data * x ** 3, (x,)

    def backward(self, dy, saved):
        (x,) = saved
        self.a.grad += (dy * x ** 3).sum(axis=0)
        return 3 * self.a.data * x ** 2 * dy


class WrongSlope(Cube):
    def backward(self, dy, saved):
        return super().backward(dy, saved) * np.where(saved[0] == 2.0, 1 + 1e-9, 1)


class LosesImaginary(Cube):
    def forward(self, x):
        return self.a.data.real * np.real(x) ** 3, (x,)


class AbsOnTheWay(Cube):
    """|x|^2 x is x^3 for real numbers only: complex output, with a different derivative."""

    def forward(self, x):
        return self.a.data * np.abs(x) ** 2 * x, (x,)


class OnlyReal(Cube):
    def forward(self, x):
        if np.iscomplexobj(x) or np.iscomplexobj(self.a.data):
            raise TypeError("real numbers, please")
        return super().forward(x)


class AbsAndWrong(AbsOnTheWay):
    def backward(self, dy, saved):
        return 0.5 * super().backward(dy, saved)


class WritesIntoItsArgument(Cube):
    def forward(self, x):
        result = super().forward(x.copy())
        x *= 2
        return result


class WritesIntoDy(Cube):
    def backward(self, dy, saved):
        dx = super().backward(dy, saved)
        dy *= 0
        return dx


class KeepsState(Cube):
    def forward(self, x):
        self.x = x
        return super().forward(x)

    def backward(self, dy, saved):
        return super().backward(dy, (self.x,))


class Overwrites(Cube):
    def backward(self, dy, saved):
        self.a.grad = np.zeros(3)
        return super().backward(dy, saved)


class WrongShape(Cube):
    def backward(self, dy, saved):
        return super().backward(dy, saved).sum(axis=0)


class WrongDtype(Cube):
    def backward(self, dy, saved):
        return super().backward(dy, saved).astype(np.float32)


class WrongParameterShape(Cube):
    def backward(self, dy, saved):
        dx = super().backward(dy, saved)
        self.a.grad = np.zeros((2, 3))
        return dx


class TooMany(Cube):
    def backward(self, dy, saved):
        dx = super().backward(dy, saved)
        return dx, dx, dx


class NoneAsParameterGradient(Cube):
    def backward(self, dy, saved):
        dx = super().backward(dy, saved)
        self.a.grad = NotImplemented
        return dx


class WritesThroughSaved(Cube):
    def backward(self, dy, saved):
        dx = super().backward(dy, saved)
        saved[0][...] *= 0
        return dx


class StepsItself(Cube):
    def backward(self, dy, saved):
        dx = super().backward(dy, saved)
        self.a.data -= 0.1 * self.a.grad
        return dx


class ReturnsAString(Cube):
    def forward(self, x):
        return "y", (x,)


class NoGradient(Cube):
    def backward(self, dy, saved):
        super().backward(dy, saved)


class NoPair(Cube):
    def forward(self, x):
        return super().forward(x)[0]


class Raises(Cube):
    def backward(self, dy, saved):
        raise RuntimeError("not today")


class GivesNaN(Cube):
    def backward(self, dy, saved):
        return super().backward(dy, saved) * np.nan


def test_a_right_layer_is_right():
    report = gradcheck(Cube(), [X])
    assert report.ok and report.worst.error < 1e-15
    assert report.method == "complex step" and "right" in str(report)


def test_one_wrong_derivative_of_many_is_named():
    report = gradcheck(WrongSlope(), [X])
    assert not report.ok and not report.findings and report.worst.tensor == "x"
    assert report.worst.index == report.worst.output_index == (0, 2)
    assert "WRONG" in str(report) and "(0, 2)" in str(report)
    assert report.worst.found == pytest.approx(36 * (1 + 1e-9),
                                               rel=1e-15) and report.worst.reference == 36
    assert report.worst.error == pytest.approx(1e-9, rel=0.05)


@pytest.mark.parametrize("kind, words", [
    (LosesImaginary,
     "not complex-safe: LosesImaginary: complex numbers went in, and float64 came out"),
    (AbsOnTheWay, "not complex-safe: the imaginary part is partly lost"),
    (OnlyReal, "given complex numbers it raised TypeError"),
    (WritesIntoItsArgument, "forward writes into its argument x"),
    (WritesIntoDy, "backward writes into dy"),
    (KeepsState, "keeps state between calls"),
    (Overwrites, "the gradient of a does not accumulate"),
    (WrongShape, "the gradient of x has shape (3,), but x has (2, 3)"),
    (WrongDtype, "the gradient of x is float32, but x is float64"),
    (WrongParameterShape,
     "the gradient of a must be an array of shape (3,) and dtype float64, "
     "but is one of shape (2, 3)"),
    (TooMany, "backward returned 3 gradients for 1 inputs"),
    (NoGradient, "backward returned NoneType as the gradient of x"),
    (NoPair, "forward must return (y, saved), but returned ndarray"),
    (Raises, "it raised RuntimeError: not today"),
    (WritesThroughSaved, "backward writes into its argument x"),
    (StepsItself, "backward writes into the parameter a"),
    (ReturnsAString, "y must be an array of float64, but is str"),
    (NoneAsParameterGradient,
     "the gradient of a must be an array of shape (3,) and dtype float64, "
     "but is NotImplementedType")])
def test_each_broken_rule_is_named(kind, words):
    report = gradcheck(kind(), [X.copy()])
    assert not report.ok and any(words in finding for finding in report.findings), str(report)


def test_a_layer_that_is_not_complex_safe_is_still_compared():
    assert gradcheck(LosesImaginary(), [X]).method == "central differences"
    assert gradcheck(LosesImaginary(), [X]).worst.error < 1e-6
    report = gradcheck(AbsAndWrong(), [X])
    assert not report.ok and report.worst.error > 0.4
    assert gradcheck(OnlyReal(), [X]).worst.error < 1e-6


@pytest.mark.parametrize("forward, backward", [
    (lambda x: (x - x.mean(-1, keepdims=True)) / np.sqrt(np.var(x, -1, keepdims=True) + 1e-5),
     lambda dy, x: (dy - dy.mean(-1, keepdims=True))
     / np.sqrt(np.var(x, -1, keepdims=True) + 1e-5)),
    (lambda x: x * x.real, lambda dy, x: dy * x), (lambda x: x + np.abs(x), lambda dy, x: dy * 1),
    (lambda x: x / np.linalg.norm(x), lambda dy, x: dy / np.linalg.norm(x))])
def test_differences_find_a_term_that_backward_and_complex_step_both_miss(forward, backward):
    """Both leave out the same term, so that they agree; differences show it."""
    report = gradcheck(Pair("", [], function=lambda x: (forward(x), x), gradient=backward), [X])
    assert not report.ok and report.method == "central differences"
    assert "the imaginary part is partly lost" in report.findings[0]
    assert report.worst.error > 0.01


def test_an_output_that_does_not_depend_on_an_input_may_be_real():
    class Unused(Cube):
        def forward(self, x):
            return x * 1.0, (x,)

        def backward(self, dy, saved):
            return dy.copy()

    assert gradcheck(Unused(), [X]).ok


def test_scalar_integer_and_empty_inputs():
    square = Pair("", [], function=lambda x: (x * x, x), gradient=lambda dy, x: 2 * x * dy)
    assert gradcheck(square, [np.array(3.0)]).ok
    of_integers = gradcheck(square, [np.array([1, 2, 3])])
    assert "y must be an array of float64, but is int64" in of_integers.findings[0]
    assert "nothing was compared" in gradcheck(square, [np.zeros((0, 2))]).findings[0]
    with pytest.raises(TypeError, match="array of complex128"):
        gradcheck(square, [X + 0j])
    chosen = np.array([[True, False, True], [False, True, True]])

    class Where(Cube):
        def forward(self, keep, x):
            return np.where(keep, 0.0, x)[keep | True], (keep,)

        def backward(self, dy, saved):
            return np.where(saved[0], 0, dy.reshape(saved[0].shape))

    assert gradcheck(Where(), [chosen, X]).ok


def test_inputs_and_parameters_are_restored_whatever_the_layer_does():
    for kind in (WritesIntoItsArgument, WritesThroughSaved, StepsItself, Raises):
        layer, x = kind(), X.copy()
        data = layer.a.data
        gradcheck(layer, [x])
        assert (x == X).all() and layer.a.data is data and data.tolist() == [1, 2, 3]


def test_nan_is_an_infinite_error():
    report = gradcheck(GivesNaN(), [X])
    assert not report.ok and report.worst.error == np.inf


def test_gradients_that_parameters_hold_are_kept():
    layer = Cube()
    layer.a.grad += 7
    gradcheck(layer, [X])
    hessian_symmetry(layer, [X])
    assert (layer.a.grad == 7).all() and layer.a.data.dtype == float


def test_bad_arguments_are_refused():
    with pytest.raises(TypeError, match="x is float32"):
        gradcheck(Cube(), [X.astype(np.float32)])
    with pytest.raises(TypeError, match="weight is float32"):
        gradcheck(Linear(3, 2, np.random.default_rng(0)), [X])
    with pytest.raises(TypeError, match="x must be an array of real numbers, but is list"):
        gradcheck(Cube(), [[1.0]])
    with pytest.raises(ValueError, match="condition=0.5"):
        gradcheck(Cube(), [X], condition=0.5)


# ---- what a layer keeps, holds and returns -------------------------------------------------------

class KeepsItsMask(Cube):
    """The mask depends on the generator alone, which is the same in each call of the check."""

    def forward(self, x, rng):
        self.mask = rng.random(x.shape) < 0.7
        y, saved = super().forward(x * self.mask)
        return y, (*saved, self.mask)

    def backward(self, dy, saved):
        return super().backward(dy, saved[:1]) * saved[1]


class KeepsItsShape(Cube):
    def forward(self, x):
        self.shape = x.shape
        return super().forward(x)


class HoldsAParameterInASet(Cube):
    def __init__(self):
        super().__init__()
        self.more = {"parts": {Parameter(np.ones(3))}}


class SavesItsOutput(Cube):
    def forward(self, x):
        y, saved = super().forward(x)
        return y, (*saved, y)

    def backward(self, dy, saved):
        return super().backward(dy, saved[:1])


def test_a_mask_that_is_kept_is_found_with_another_generator():
    report = gradcheck(KeepsItsMask(), [X], {"rng": np.random.default_rng(0)})
    assert "keeps state between calls: forward changes self.mask" in str(report)


def test_what_the_first_call_sets_is_remarked():
    report = gradcheck(KeepsItsShape(), [X])
    assert report.ok and any("the first call sets self.shape" in each for each in report.remarks)


def test_a_parameter_that_is_reached_but_not_named_is_found():
    report = gradcheck(HoldsAParameterInASet(), [X])
    assert not report.ok and "the parameter self.more['parts'][0] is not among" in str(report)


def test_an_output_that_is_saved_is_remarked():
    report = gradcheck(SavesItsOutput(), [X])
    assert report.ok and "y is kept in saved: write into it only after backward" in report.remarks


def test_second_derivatives_of_a_pair_of_functions():
    def product(x, y):
        return x * y

    for factor, symmetric in ((1, True), (1.1, False)):
        def gradient(dy, x, y):
            return dy * y, factor * dy * x
        assert (hessian_symmetry((product, gradient), [X, 2 - X]) < 1e-14) == symmetric
