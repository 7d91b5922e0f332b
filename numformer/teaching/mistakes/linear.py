"""Mistakes in the linear map and in the embedding."""

import numpy as np

from numformer import functional as F


def linear_with_weight_not_transposed(dy, x, weight, bias):
    dx, dweight, dbias = linear(dy, x, weight, bias)
    return dy @ weight, dweight, dbias


def linear_without_sum_of_bias(dy, x, weight, bias):
    dx, dweight, dbias = linear(dy, x, weight, bias)
    return dx, dweight, dy


def linear_with_sum_of_bias_over_the_batch_only(dy, x, weight, bias):
    dx, dweight, dbias = linear(dy, x, weight, bias)
    return dx, dweight, dy.sum(axis=0)


def linear_with_mean_of_bias(dy, x, weight, bias):
    dx, dweight, dbias = linear(dy, x, weight, bias)
    return dx, dweight, dy.mean(axis=(0, 1))


def linear_with_dweight_transposed(dy, x, weight, bias):
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
        ("the weight is not transposed: dx is dy @ weight.T", linear_with_weight_not_transposed),
        ("dweight is transposed: it must be x.T @ dy", linear_with_dweight_transposed),
        ("the sum over all tokens is missing in the gradient of the bias: the bias was broadcast, "
         "so its gradient is summed",
         linear_without_sum_of_bias),
        ("the gradient of the bias is summed over the first axis only: the bias was broadcast "
         "over all axes but the last",
         linear_with_sum_of_bias_over_the_batch_only),
        ("the gradient of the bias is averaged over the tokens, but must be summed",
         linear_with_mean_of_bias),
        ("the sum over the batch is missing in the gradient of the weight",
         linear_without_sum_of_weight)],
    "embedding_backward": [
        ("the gradients of repeated ids must be summed, but only the last is kept: np.add.at sums "
         "them, `dweight[ids] += dy` does not",
         embedding_with_overwriting)],
}
