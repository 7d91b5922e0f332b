"""`numformer.check`: a signature decides on the levels; results and rounding errors are judged."""

from inspect import Signature, signature

import numpy as np
import pytest

from numformer import check
from numformer import functional as F
from numformer.specifications import PROBLEMS, Instance
from numformer.specifications.levels import SomeOfSizeOne, sizes
from numformer.teaching.check import offered_levels
from numformer.teaching.comparison import ROUNDINGS
from numformer.teaching.rounding import sizes_of_terms
from numformer.teaching.signatures import promises


def softmax_of(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def multiplied_out(dp, x):
    p = softmax_of(x)
    return p * dp - p * (p * dp).sum(axis=-1, keepdims=True)


def by_jacobian(dp, x):
    p = softmax_of(x)
    jacobian = np.einsum("ni,ij->nij", p, np.eye(x.shape[1])) - np.einsum("ni,nj->nij", p, p)
    return np.einsum("nij,nj->ni", jacobian, dp)


def test_a_function_without_options_is_tested_at_one_level_or_more():
    """With nothing to test, `check` could only say that everything was right."""
    def function():
        """With the parameters that have no default."""

    for name, problem in PROBLEMS.items():
        function.__signature__ = Signature([parameter for parameter in signature(
            problem.function).parameters.values() if parameter.default is parameter.empty])
        assert any(promises(function, Instance(problem, level, 0), False)
                   for level in offered_levels(problem, False)), name


@pytest.mark.parametrize("fn", [multiplied_out, by_jacobian])
@pytest.mark.parametrize("seed", range(0, 300, 30))
def test_a_saturated_softmax_is_compared_up_to_rounding(fn, seed):
    """Of 300 seeds, 36 and 296 were refused at scores near 1000."""
    assert check("softmax_backward", fn, seed, ["scores near 1000"])


@pytest.mark.slow
def test_a_saturated_softmax_is_compared_up_to_rounding_for_all_seeds():
    for seed in range(300):
        for fn in (multiplied_out, by_jacobian):
            assert check("softmax_backward", fn, seed, ["scores near 1000"])


def test_a_number_that_underflows_may_be_0():
    """SciPy takes the logistic function of -720 as 0, the reference as 1e-313."""
    from scipy.special import expit

    assert check("sigmoid_backward", lambda dy, x: dy * expit(x) * expit(-x), 13, ["large numbers"])


def test_a_tanh_of_small_numbers_may_be_a_difference_of_ones():
    def rnn_cell(x, h, W, U, b):
        return 2 / (1 + np.exp(-2 * (x @ W + h @ U + b))) - 1

    assert check("rnn_cell", rnn_cell, 0)


def cross_entropy(logits, targets):
    log_p = F.log_softmax(logits)[0]
    return -np.take_along_axis(log_p, targets[..., None], axis=-1).mean()


def ignoring(logits, targets, ignore_index=-100):
    counts = targets != ignore_index
    return cross_entropy(logits[counts], targets[counts])


def test_minus_100_is_a_target_only_with_ignore_index():
    plain = check("cross_entropy", cross_entropy, 0)
    assert plain and "an ignored target" not in plain.levels
    assert "not asked for: ignore_index, label_smoothing, z_loss.)" in plain.text
    assert "Not tested" not in plain.text and plain.not_tested == (
        "ignore_index, label_smoothing, z_loss (no such parameters)",)
    assert not check("cross_entropy", cross_entropy, 0, levels=["an ignored target"])
    assert check("cross_entropy", ignoring, 0).levels[:2] == ("plain", "an ignored target")


def linear(x, weight, bias=None):
    return x @ weight if bias is None else x @ weight + bias


def test_an_argument_is_left_out_only_where_its_default_is_none():
    assert "no bias" in check("linear", linear, 0).levels
    required = check("linear", lambda x, weight, bias: linear(x, weight, bias), 0)
    assert required and "Not tested" not in required.text
    assert "(The library's function has more, which is not asked for: no bias.)" in required.text
    assert required.not_tested == ("no bias (its default must be None)",)
    added = check("linear", lambda x, weight, bias=None: x @ weight + bias, 0)
    assert not added and "There is no bias here" in added.text


def test_the_gradient_of_a_bias_that_is_none_is_none():
    def backward(dy, x, weight, bias=None):
        rows, gradients = (y.reshape(-1, y.shape[-1]) for y in (x, dy))
        dbias = None if bias is None and none else gradients.sum(0)
        return dy @ weight.T, rows.T @ gradients, dbias

    none = True
    assert check("linear_backward", backward, 0)
    none = False
    assert "there is no bias here, so dbias must be None" in check("linear_backward", backward).text


def test_forwards_have_no_level_of_dy():
    with pytest.raises(ValueError, match="level='a large dy' is unknown"):
        check("relu", F.relu, levels=["a large dy"])
    clipped = check("relu_backward",
                    lambda dy, x: np.clip(F.relu_backward(dy, F.relu(x)[1]), -1e3, 1e3), 0)
    assert "nothing in it may be clipped" in clipped.text


BUFFER = np.zeros((50, 50))


def into_a_buffer(x):
    y = BUFFER[:x.shape[0], :x.shape[1]]
    y[...] = np.maximum(x, 0)
    return y


@pytest.mark.parametrize("fn, words", [
    (into_a_buffer, "its second call wrote into the result of the first"),
    (lambda x: np.matrix(np.maximum(x, 0)), "but is a matrix, for which * is the matrix product"),
    (lambda x: np.ma.masked_less(np.maximum(x, 0), 1), "but is a MaskedArray, which hides numbers"),
    (lambda x: np.maximum(x, 0).view(np.recarray), "but is a recarray; return np.asarray"),
    (lambda x: np.maximum(x, 0).astype(object), "but is one of object"),
    (lambda x: np.maximum(x, 0).astype(np.longdouble), "must be an array of float64, like the"),
    (lambda x: np.maximum(x.astype(np.float16), 0).astype(x.dtype) if x.dtype == np.float32
     else np.maximum(x, 0), "Look for float16")])
@pytest.mark.filterwarnings("ignore:the matrix subclass")
def test_strange_results_are_refused_with_a_sentence(fn, words):
    verdict = check("relu", fn, 0)
    assert not verdict and words in verdict.text


def test_float64_out_of_float32_is_a_remark():
    verdict = check("relu", lambda x: np.maximum(x, 0).astype(np.float64), 0)
    assert verdict and len(verdict.remarks) == 1 and "Given float32, it returns" in verdict.text
    assert check("relu", F.relu, 0).remarks == ()


def test_what_is_beyond_a_plain_function_is_a_remark():
    def softmax(x, axis=-1, mask=None):
        return F.softmax(x if mask is None else np.where(mask, x, -1e30), axis)[0]

    verdict = check("softmax", softmax, 0)
    assert verdict and "A row of the mask is False everywhere" in verdict.remarks[0]
    assert not check("softmax", softmax, 0, levels=["a row of the mask is False"])


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_allowance_for_rounding_swallows_no_error(name):
    """On the plain level it is below 1e-10 of the largest number of each array."""
    problem = PROBLEMS[name]
    instance = Instance(problem, next(iter(problem.levels)), 3)
    y, _, gradients = instance.exact
    size_of_y, of_gradients = sizes_of_terms(instance)
    for exact, size in [(y, size_of_y), *((gradients[key], of_gradients[key])
                                          for key in gradients)]:
        assert np.shape(size) == np.shape(exact) and np.isfinite(size).all()
        assert 0 < ROUNDINGS * 2.2e-16 * np.max(1 + size) < 1e-10 * np.abs(exact).max()


@pytest.mark.slow
def test_an_error_of_one_in_ten_million_is_found_at_every_level():
    """Also where one entry alone is wrong, in a saturated softmax: the largest."""
    def softmax(x, axis=-1, mask=None):
        p = F.softmax(x, axis, mask)[0]
        p.flat[p.argmax()] *= 1 + 1e-7
        return p

    for level, kind in PROBLEMS["softmax"].levels.items():
        if kind.required and kind.dy == 1 and level != "float32":
            assert not check("softmax", softmax, 0, levels=[level]), level


def test_sizes_of_one():
    drawn = [sizes(SomeOfSizeOne(np.random.PCG64(seed)), 3) for seed in range(20)]
    assert all(1 in three for three in drawn)
    assert {three.index(1) for three in drawn} == {0, 1, 2}
