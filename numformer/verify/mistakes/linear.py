"""Mistakes in the affine map and in looking up vectors."""

import numpy as np

from numformer import functional as F


def linear_with_weight_not_turned(dy, x, weight, bias):
    dx, dweight, dbias = linear(dy, x, weight, bias)
    return dy @ weight, dweight, dbias


def linear_without_sum_of_bias(dy, x, weight, bias):
    dx, dweight, dbias = linear(dy, x, weight, bias)
    return dx, dweight, dy


def linear_with_sum_of_bias_over_the_batch_alone(dy, x, weight, bias):
    dx, dweight, dbias = linear(dy, x, weight, bias)
    return dx, dweight, dy.sum(axis=0)


def linear_with_mean_of_bias(dy, x, weight, bias):
    dx, dweight, dbias = linear(dy, x, weight, bias)
    return dx, dweight, dy.mean(axis=(0, 1))


def linear_with_dweight_turned(dy, x, weight, bias):
    dx, dweight, dbias = linear(dy, x, weight, bias)
    return dx, dweight.T, dbias


def linear_without_sum_of_weight(dy, x, weight, bias):
    dx, dweight, dbias = linear(dy, x, weight, bias)
    return dx, np.swapaxes(x, -1, -2) @ dy, dbias


def linear(dy, x, weight, bias):
    return F.linear_backward(dy, F.linear(x, weight, bias)[1])


def embedding_with_overwriting(dy, ids, weight):
    dweight = np.zeros_like(weight)
    dweight[ids] = dy
    return dweight


MISTAKES = {
    "linear_backward": [
        ("the weight is not transposed: dx is dy @ weight.T", linear_with_weight_not_turned),
        ("dweight is transposed: it must be x.T @ dy", linear_with_dweight_turned),
        ("the sum over all tokens is missing in the bias's gradient: bias was broadcast, so its gradient is summed",
         linear_without_sum_of_bias),
        ("the bias's gradient is summed over the first axis alone: bias was broadcast over all but the last",
         linear_with_sum_of_bias_over_the_batch_alone),
        ("the bias's gradient is a mean over the tokens, but must be their sum", linear_with_mean_of_bias),
        ("the sum over the batch is missing in the weight's gradient", linear_without_sum_of_weight)],
    "embedding_backward": [
        ("of equal ids only the last keeps its gradient, but they add up: np.add.at does that, `dweight[ids] += dy` does not",
         embedding_with_overwriting)],
}
