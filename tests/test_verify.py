"""The checker checked: it accepts what is right, and names what is wrong in layers made for that."""

import numpy as np
import pytest

from numformer import functional as F
from numformer import verify
from numformer.layers import FeedForward, LayerNorm, Linear
from numformer.parameter import Layer, Parameter
from numformer.verify import central_difference_jacobian, complex_step_jacobian, gradcheck, hessian_symmetry, step_errors
from numformer.verify.cases import Pair

X = np.array([[0.5, -1.25, 2.0], [1.5, 0.25, -0.75]])


class Cube(Layer):
    """y = a x^3, right in everything: the other layers here differ from it by one mistake."""

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


class SwallowsImaginary(Cube):
    def forward(self, x):
        return self.a.data.real * np.real(x) ** 3, (x,)


class AbsOnTheWay(Cube):
    """|x|^2 x is x^3 for real numbers alone: complex numbers come out, with another derivative."""

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
        self.a._grad = self.a.grad = NotImplemented
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
    assert report.ok and report.worst.error < 1e-15 and report.method == "complex step" and "right" in str(report)


def test_one_wrong_derivative_of_many_is_named():
    report = gradcheck(WrongSlope(), [X])
    assert not report.ok and not report.findings and report.worst.tensor == "x"
    assert report.worst.index == report.worst.output_index == (0, 2) and "WRONG" in str(report) and "(0, 2)" in str(report)
    assert report.worst.found == pytest.approx(36 * (1 + 1e-9), rel=1e-15) and report.worst.truth == 36
    assert report.worst.error == pytest.approx(1e-9, rel=0.05)


@pytest.mark.parametrize("kind, words", [
    (SwallowsImaginary, "not complex-safe: SwallowsImaginary: complex numbers went in, and float64 came out"),
    (AbsOnTheWay, "not complex-safe: some of an imaginary part is lost on the way"),
    (OnlyReal, "given complex numbers it raised TypeError"),
    (WritesIntoItsArgument, "forward writes into its argument x"), (WritesIntoDy, "backward writes into dy"),
    (KeepsState, "keeps state between calls"), (Overwrites, "the gradient of a does not add up"),
    (WrongShape, "the gradient of x has shape (3,), but x has (2, 3)"), (WrongDtype, "the gradient of x is float32, but x is float64"),
    (WrongParameterShape, "the gradient of a must be an array of shape (3,) and dtype float64, but is one of shape (2, 3)"),
    (TooMany, "backward returned 3 gradients for 1 inputs"),
    (NoGradient, "backward returned NoneType as the gradient of x"), (NoPair, "forward must return (y, saved), but returned ndarray"),
    (Raises, "it raised RuntimeError: not today"), (WritesThroughSaved, "backward writes into its argument x"),
    (StepsItself, "backward writes into the parameter a"), (ReturnsAString, "y must be an array of float64, but is str"),
    (NoneAsParameterGradient, "the gradient of a must be an array of shape (3,) and dtype float64, but is NotImplementedType")])
def test_broken_rules_are_named(kind, words):
    report = gradcheck(kind(), [X.copy()])
    assert not report.ok and any(words in finding for finding in report.findings), str(report)


def test_a_layer_that_is_not_complex_safe_is_still_compared():
    assert gradcheck(SwallowsImaginary(), [X]).method == "central differences"
    assert gradcheck(SwallowsImaginary(), [X]).worst.error < 1e-6
    report = gradcheck(AbsAndWrong(), [X])
    assert not report.ok and report.worst.error > 0.4
    assert gradcheck(OnlyReal(), [X]).worst.error < 1e-6


@pytest.mark.parametrize("forward, backward", [
    (lambda x: (x - x.mean(-1, keepdims=True)) / np.sqrt(np.var(x, -1, keepdims=True) + 1e-5),
     lambda dy, x: (dy - dy.mean(-1, keepdims=True)) / np.sqrt(np.var(x, -1, keepdims=True) + 1e-5)),
    (lambda x: x * x.real, lambda dy, x: dy * x), (lambda x: x + np.abs(x), lambda dy, x: dy * 1),
    (lambda x: x / np.linalg.norm(x), lambda dy, x: dy / np.linalg.norm(x))])
def test_a_backward_that_forgets_what_the_complex_step_cannot_see(forward, backward):
    """Both leave the same term out, so they agree; differences do not."""
    report = gradcheck(Pair("", lambda x: (forward(x), x), backward, []), [X])
    assert not report.ok and report.method == "central differences" and "some of an imaginary part is lost" in report.findings[0]
    assert report.worst.error > 0.01


def test_what_the_output_does_not_depend_on_may_be_real():
    class Unused(Cube):
        def forward(self, x):
            return x * 1.0, (x,)

        def backward(self, dy, saved):
            return dy.copy()

    assert gradcheck(Unused(), [X]).ok


def test_inputs_of_every_kind():
    square = Pair("", lambda x: (x * x, x), lambda dy, x: 2 * x * dy, [])
    assert gradcheck(square, [np.array(3.0)]).ok
    assert "y must be an array of float64, but is int64" in gradcheck(square, [np.array([1, 2, 3])]).findings[0]
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


def test_everything_is_as_before_whatever_the_layer_does():
    for kind in (WritesIntoItsArgument, WritesThroughSaved, StepsItself, Raises):
        layer, x = kind(), X.copy()
        data = layer.a.data
        gradcheck(layer, [x])
        assert (x == X).all() and layer.a.data is data and data.tolist() == [1, 2, 3]


def test_nan_is_never_right():
    report = gradcheck(GivesNaN(), [X])
    assert not report.ok and report.worst.error == np.inf


def test_gradients_that_were_there_stay():
    layer = Cube()
    layer.a.grad += 7
    gradcheck(layer, [X])
    hessian_symmetry(layer, [X])
    assert (layer.a.grad == 7).all() and layer.a.data.dtype == float


def test_bad_arguments():
    with pytest.raises(TypeError, match="x is float32"):
        gradcheck(Cube(), [X.astype(np.float32)])
    with pytest.raises(TypeError, match="weight is float32"):
        gradcheck(Linear(3, 2, np.random.default_rng(0)), [X])
    with pytest.raises(TypeError, match="x must be an array of real numbers, but is list"):
        gradcheck(Cube(), [[1.0]])
    with pytest.raises(ValueError, match="condition=0.5"):
        gradcheck(Cube(), [X], condition=0.5)


def test_jacobians_of_a_known_function():
    expected = np.zeros((2, 3, 2, 3))
    for index in np.ndindex(2, 3):
        expected[index + index] = 3 * (index[1] + 1) * X[index] ** 2
    np.testing.assert_allclose(complex_step_jacobian(Cube(), [X])["x"], expected, rtol=1e-15)
    np.testing.assert_allclose(verify.backward_jacobian(Cube(), [X])["x"], expected, rtol=1e-15)
    np.testing.assert_allclose(central_difference_jacobian(Cube(), [X])["x"], expected, rtol=1e-9, atol=1e-9)
    with pytest.raises(verify.ComplexUnsafe, match="float64 came out"):
        complex_step_jacobian(SwallowsImaginary(), [X])


def test_differences_make_a_u_and_the_complex_step_a_line():
    layer = FeedForward(3, 4, "gelu", np.random.default_rng(0), dtype=np.float64)
    errors = step_errors(layer, [X], steps=10.0 ** np.arange(-14, 0))
    best = int(errors["central_difference"].argmin())
    assert errors["steps"][best] in (1e-6, 1e-5, 1e-4) and 1e-12 < errors["central_difference"][best] < 1e-8
    assert errors["central_difference"][0] > 1e-4 and errors["central_difference"][-1] > 1e-4
    assert errors["complex_step"][errors["steps"] < 1e-8].max() < 1e-14


def test_a_hessian_that_is_not_symmetric_is_seen():
    """A backward that leaves out LayerNorm's mean is the gradient of nothing."""
    def without_mean(dy, saved):
        x, gain, shifted, mean, rstd, _ = saved
        x_hat = (x - mean) * rstd
        dx_hat = dy * gain
        return rstd * (dx_hat - x_hat * (dx_hat * x_hat).mean(-1, keepdims=True)), (dy * x_hat).sum(0), dy.sum(0)

    arrays = [X, np.array([1.0, 2.0, 0.5]), np.zeros(3)]
    right = Pair("right", F.layer_norm, F.layer_norm_backward, [])
    assert hessian_symmetry(right, arrays) < 1e-15
    assert hessian_symmetry(Pair("wrong", F.layer_norm, without_mean, []), arrays) > 1e-3
    assert hessian_symmetry(LayerNorm(3, dtype=np.float64), [X]) < 1e-15


def test_a_hessian_needs_its_imaginary_parts():
    def into_floats(dy, x):
        dx = np.zeros(x.shape)
        dx[...] = 3 * x ** 2 * dy
        return dx

    with pytest.raises(verify.ComplexUnsafe, match="imaginary part"):
        hessian_symmetry(Pair("", lambda x: (x ** 3, x), into_floats, []), [X])
