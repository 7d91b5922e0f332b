"""What `check` advises helps: products that it names fit, and levels say what the numbers show."""

import re

import numpy as np
import pytest

from numformer import check, minimal
from numformer.teaching.judge import judge_own
from numformer.teaching.unfitting_products import unfitting_product


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


# ---- products whose shapes do not fit ------------------------------------------------------------

def reversed_left(x, dy, weight):
    return x.T @ dy


def reversed_right(x, dy, weight):
    return x @ (dy + 0).T


def weight_on_the_left(x, dy, weight):
    return weight @ x


def weight_on_the_left_of_the_transpose(x, dy, weight):
    return weight @ x.mT


def not_transposed(x, dy, weight):
    return dy @ weight


def both_not_transposed(x, dy, weight):
    return x @ dy


PRODUCTS = [
    (reversed_left, "`x.T` reverses all 3 axes of `x`", "x.mT @ dy"),
    (reversed_right, "`(dy + 0).T` reverses all 3 axes of `(dy + 0)`", "x.mT @ (dy + 0)"),
    (weight_on_the_left, "", "x @ weight"),
    (weight_on_the_left_of_the_transpose, "", "x @ weight"),
    (not_transposed, "", "dy @ weight.mT"),
    (both_not_transposed, "", "x.mT @ dy")]


@pytest.mark.parametrize("function, words, better", PRODUCTS)
def test_the_product_that_is_advised_fits(function, words, better):
    x, dy, weight = np.ones((2, 4, 5)), np.ones((2, 4, 3)), np.ones((5, 3))
    with pytest.raises(ValueError) as raised:
        function(x, dy, weight)
    said = unfitting_product(raised.value, __file__)
    assert words in said
    advised = re.findall(r"`([^`]* @ [^`]*)` (?:does|fits)", said)
    assert advised == [better]
    for product in advised:
        eval(product, {"x": x, "dy": dy, "weight": weight})


def test_batch_axes_that_do_not_broadcast_are_named():
    def product(q, k):
        return q @ k

    with pytest.raises(ValueError) as raised:
        product(np.ones((2, 3, 4, 5)), np.ones((2, 6, 5, 4)))
    assert unfitting_product(raised.value, __file__) == (
        "`q @ k`: (2, 3, 4, 5) and (2, 6, 5, 4) do not fit; the last two axes do, but (2, 3) and "
        "(2, 6) before them do not broadcast")


def test_a_pair_that_is_taken_for_an_array_is_named():
    def block(x, norm1, qkv, output, norm2, mlp1, mlp2):
        a, _ = minimal.layer_norm(x, *norm1)
        a, _ = minimal.linear(a, *qkv)
        a = minimal.attention(a)
        a, _ = minimal.linear(a, *output)
        return x + a

    assert "`a` is a tuple that begins with an array" in judge_own("39_block", block, seed=0)


# ---- relations of outputs ------------------------------------------------------------------------

def linear_gradients(dy, x, weight):
    vectors, dvectors = x.reshape(-1, x.shape[-1]), dy.reshape(-1, dy.shape[-1])
    return dy @ weight.T, vectors.T @ dvectors, dvectors.sum(axis=0)


def test_a_sum_over_too_many_axes_says_which_to_keep():
    def backward(dy, x, weight, bias):
        dx, dweight, dbias = linear_gradients(dy, x, weight)
        return dx, dweight, dbias.sum()

    assert check("linear_backward", backward, seed=0).cause == (
        "dbias is summed over its last axis too, which must be kept")


@pytest.mark.parametrize("order", [(2, 0, 1), (2, 1, 0), (1, 0, 2), (1, 2, 0)])
def test_right_outputs_in_any_order_are_named_in_that_order(order):
    def backward(dscores, q, k, weight):
        found = (dscores @ k @ weight.T, dscores.mT @ q @ weight, (q.mT @ dscores @ k).sum(axis=0))
        return tuple(found[j] for j in order)

    names = [("dq", "dk", "dweight")[j] for j in order]
    assert check("general_scores_backward", backward, seed=0).cause == (
        f"the gradients are right, but in another order: {', '.join(names)}")


# ---- what large and low scores show --------------------------------------------------------------

def attention_without_maximum(q, k, v, mask=None):
    scores = q @ k.mT / q.shape[-1] ** 0.5
    e = np.exp(scores if mask is None else np.where(mask, scores, -np.inf))
    return e / e.sum(axis=-1, keepdims=True) @ v


def attention_guarded(q, k, v, mask=None):
    scores = q @ k.mT / q.shape[-1] ** 0.5
    e = np.exp(scores if mask is None else np.where(mask, scores, -np.inf))
    total = e.sum(axis=-1, keepdims=True)
    return e / np.where(total == 0, 1, total) @ v


def attention_masked_by_a_number(q, k, v, mask=None):
    scores = q @ k.mT / q.shape[-1] ** 0.5
    return softmax(scores if mask is None else np.where(mask, scores, -1e4)) @ v


def loss_with_maximum_from_zero(logits, targets):
    m = np.maximum(logits.max(axis=-1, keepdims=True), 0)
    lse = m + np.log(np.exp(logits - m).sum(axis=-1, keepdims=True))
    return -np.take_along_axis(logits - lse, targets[..., None], axis=-1).mean()


def attention_backward_with_other_rounding(do, q, k, v):
    scale = q.shape[-1] ** -0.5
    scores = np.einsum("bhtd,bhsd->bhts", q, k) * scale
    m = scores.max(axis=-1, keepdims=True)
    total = np.exp(scores - m).sum(axis=-1, keepdims=True)
    p = np.exp((q * scale) @ k.mT - m) / total
    dp = do @ v.mT
    ds = p * (dp - (p * dp).sum(axis=-1, keepdims=True)) * scale
    return ds @ k, ds.mT @ q, p.mT @ do


SHOWN = [
    ("log_softmax", lambda x: np.log(softmax(x)), "p underflows to 0, and log 0 is -Inf", "709"),
    ("log_softmax", lambda x: x - np.log(np.exp(x).sum(axis=-1, keepdims=True)),
     "exp overflows to Inf above 709", "underflow"),
    ("softmax", lambda x: np.exp(x) / np.exp(x).sum(axis=-1, keepdims=True),
     "exp overflows to Inf above 709", "underflow"),
    ("attention", attention_without_maximum, "every exp underflows to 0", "what is masked"),
    ("attention", attention_guarded, "every exp underflows to 0", "what is masked"),
    ("attention", attention_masked_by_a_number, "what is masked must have no weight", "underflow"),
    ("softmax_cross_entropy", loss_with_maximum_from_zero, "A running maximum begins at -Inf",
     "Nothing overflows"),
    ("attention_backward", attention_backward_with_other_rounding,
     "compute the same scores by the same operations",
     "subtract the maximum"),
]


@pytest.mark.parametrize("name, function, words, other", SHOWN)
def test_a_level_says_what_the_numbers_show(name, function, words, other):
    text = check(name, function, seed=0).text
    assert words in text and other not in text, text
