"""Wrong answers: linear maps, embeddings, causal convolution, patches."""

import numpy as np

from answers.corpus import wrong


@wrong("linear_backward", "the weight is not transposed: the shapes fit only where it is square")
def linear_b_transpose(dy, x, weight, bias):
    dweight = np.einsum("btc,btf->cf", x, dy)
    return dy @ weight, dweight, dy.sum((0, 1))


@wrong("linear_backward", "dweight is transposed")
def linear_b_dweight(dy, x, weight, bias):
    return dy @ weight.T, np.einsum("btc,btf->fc", x, dy), dy.sum((0, 1))


@wrong("linear_backward", "the bias' gradient is the mean over all vectors")
def linear_b_bias_mean(dy, x, weight, bias):
    return dy @ weight.T, np.einsum("btc,btf->cf", x, dy), dy.mean((0, 1))


@wrong("linear_backward", "dweight is the mean over the batch, not the sum")
def linear_b_batch_mean(dy, x, weight, bias):
    return dy @ weight.T, (x.mT @ dy).mean(axis=0), dy.sum((0, 1))


@wrong("linear_backward", "dweight is of the last example alone: = for += in the loop")
def linear_b_assign(dy, x, weight, bias):
    dweight = np.zeros_like(weight)
    for example, gradient in zip(x, dy):
        dweight = example.T @ gradient
    return dy @ weight.T, dweight, dy.sum((0, 1))


@wrong("linear_backward", "the last example is left out: a loop to B - 1")
def linear_b_off_by_one(dy, x, weight, bias):
    dweight = np.zeros_like(weight)
    for b in range(len(x) - 1):
        dweight += x[b].T @ dy[b]
    return dy @ weight.T, dweight, dy.sum((0, 1))


@wrong("linear_backward", "the bias is forgotten: its gradient is zero")
def linear_b_bias_zero(dy, x, weight, bias):
    return dy @ weight.T, np.einsum("btc,btf->cf", x, dy), np.zeros_like(bias)


@wrong("linear_backward", "dweight has the wrong sign")
def linear_b_sign(dy, saved):
    x, weight, _ = saved
    return dy @ weight.T, -np.tensordot(x, dy, ((0, 1), (0, 1))), dy.sum((0, 1))


@wrong("linear_backward", "reshape in place of transposition of x")
def linear_b_reshape(dy, x, weight, bias):
    C = x.shape[-1]
    return dy @ weight.T, x.reshape(C, -1) @ dy.reshape(-1, dy.shape[-1]), dy.sum((0, 1))


@wrong("linear_backward", "dbias is summed over B and broadcast from position 0")
def linear_b_first_position(dy, x, weight, bias):
    return dy @ weight.T, np.einsum("btc,btf->cf", x, dy), dy.sum(0)[0]


@wrong("linear_backward", "two mistakes: dweight is a mean over the batch, dbias has position 0")
def linear_b_two(dy, x, weight, bias):
    return dy @ weight.T, (x.mT @ dy).mean(axis=0), dy[:, 0].sum(0)


@wrong("linear", "the bias is subtracted")
def linear_minus(x, weight, bias):
    return x @ weight - bias


@wrong("linear", "the weight is transposed: right shapes only where it is square")
def linear_transposed(x, weight, bias):
    return x @ weight.T + bias


@wrong("embedding_backward", "d[ids] += g loses repeated ids")
def embedding_b_repeats(dy, ids, weight):
    dweight = np.zeros_like(weight)
    dweight[ids] += dy
    return dweight


@wrong("embedding_backward", "= for += in a loop: the last repeated id wins (as with d[ids] += g)")
def embedding_b_last(dy, ids, weight):
    dweight = np.zeros_like(weight)
    for row, gradients in zip(ids, dy):
        for i, g in zip(row, gradients):
            dweight[i] = g
    return dweight


@wrong("embedding_backward", "the mean of the gradients of an id, not their sum")
def embedding_b_mean(dy, ids, weight):
    dweight = np.zeros_like(weight)
    np.add.at(dweight, ids, dy)
    counts = np.bincount(ids.ravel(), minlength=len(weight))
    return dweight / np.maximum(counts, 1)[:, None]


@wrong("embedding_backward", "dy is multiplied by the embedding")
def embedding_b_times(dy, ids, weight):
    dweight = np.zeros_like(weight)
    np.add.at(dweight, ids, dy * weight[ids])
    return dweight


@wrong("embedding_backward", "only the first example of the batch counts")
def embedding_b_first(dy, ids, weight):
    dweight = np.zeros_like(weight)
    np.add.at(dweight, ids[0], dy[0])
    return dweight


@wrong("embedding", "rows are off by one: ids - 1")
def embedding_shifted(ids, weight):
    return weight[ids - 1]


def padded(x, before):
    return np.concatenate([np.zeros((len(x), before, x.shape[2])), x], axis=1)


@wrong("causal_convolution_backward", "the kernel is reversed in dx, as in a true convolution")
def conv_b_reversed(dy, x, weight, bias, dilation=1):
    K, T = len(weight), x.shape[1]
    past, dweight = padded(x, (K - 1) * dilation), np.zeros_like(weight)
    dpast = np.zeros_like(past)
    for k in range(K):
        tap = slice(k * dilation, k * dilation + T)
        dpast[:, tap] += dy @ weight[K - 1 - k].T
        dweight[k] = np.einsum("btc,btf->cf", past[:, tap], dy)
    return dpast[:, (K - 1) * dilation:], dweight, dy.sum((0, 1))


@wrong("causal_convolution_backward", "= for +=: only the last tap reaches x")
def conv_b_assign(dy, x, weight, bias, dilation=1):
    K, T = len(weight), x.shape[1]
    past, dweight = padded(x, (K - 1) * dilation), np.zeros_like(weight)
    dpast = np.zeros_like(past)
    for k in range(K):
        tap = slice(k * dilation, k * dilation + T)
        dpast[:, tap] = dy @ weight[k].T
        dweight[k] = np.einsum("btc,btf->cf", past[:, tap], dy)
    return dpast[:, (K - 1) * dilation:], dweight, dy.sum((0, 1))


@wrong("causal_convolution_backward", "the gradient is cut at the wrong end: the padding is kept")
def conv_b_end(dy, x, weight, bias):
    K, T = len(weight), x.shape[1]
    past, dweight = padded(x, K - 1), np.zeros_like(weight)
    dpast = np.zeros_like(past)
    for k in range(K):
        dpast[:, k:k + T] += dy @ weight[k].T
        dweight[k] = np.einsum("btc,btf->cf", past[:, k:k + T], dy)
    return dpast[:, :T], dweight, dy.sum((0, 1))


@wrong("causal_convolution_backward", "the taps of dweight are in the wrong order")
def conv_b_taps(dy, x, weight, bias):
    K, T = len(weight), x.shape[1]
    past, dweight = padded(x, K - 1), np.zeros_like(weight)
    dpast = np.zeros_like(past)
    for k in range(K):
        dpast[:, k:k + T] += dy @ weight[k].T
        dweight[K - 1 - k] = np.einsum("btc,btf->cf", past[:, k:k + T], dy)
    return dpast[:, K - 1:], dweight, dy.sum((0, 1))


@wrong("causal_convolution_backward", "the dilation is ignored")
def conv_b_dilation(dy, x, weight, bias, dilation=1):
    K, T = len(weight), x.shape[1]
    past, dweight = padded(x, K - 1), np.zeros_like(weight)
    dpast = np.zeros_like(past)
    for k in range(K):
        dpast[:, k:k + T] += dy @ weight[k].T
        dweight[k] = np.einsum("btc,btf->cf", past[:, k:k + T], dy)
    return dpast[:, K - 1:], dweight, dy.sum((0, 1))


@wrong("causal_convolution_backward", "only the newest tap reaches x (as with = for += in dx)")
def conv_b_newest(dy, x, weight, bias):
    K, T = len(weight), x.shape[1]
    past = padded(x, K - 1)
    dweight = np.stack([np.einsum("btc,btf->cf", past[:, k:k + T], dy) for k in range(K)])
    return dy @ weight[-1].T, dweight, dy.sum((0, 1))


@wrong("causal_convolution_backward", "the first tap is left out: range(1, K)")
def conv_b_range(dy, x, weight, bias):
    K, T = len(weight), x.shape[1]
    past, dweight = padded(x, K - 1), np.zeros_like(weight)
    dpast = np.zeros_like(past)
    for k in range(1, K):
        dpast[:, k:k + T] += dy @ weight[k].T
        dweight[k] = np.einsum("btc,btf->cf", past[:, k:k + T], dy)
    return dpast[:, K - 1:], dweight, dy.sum((0, 1))


@wrong("causal_convolution", "not causal: the padding is on both sides")
def conv_centred(x, weight, bias):
    K, T = len(weight), x.shape[1]
    before = (K - 1) // 2
    past = np.pad(x, ((0, 0), (before, K - 1 - before), (0, 0)))
    return sum(past[:, k:k + T] @ weight[k] for k in range(K)) + bias


@wrong("causal_convolution", "the kernel is reversed")
def conv_reversed(x, weight, bias):
    K, T = len(weight), x.shape[1]
    past = padded(x, K - 1)
    return sum(past[:, k:k + T] @ weight[K - 1 - k] for k in range(K)) + bias


@wrong("causal_convolution", "the bias is added once for each tap")
def conv_bias(x, weight, bias):
    K, T = len(weight), x.shape[1]
    past = padded(x, K - 1)
    return sum(past[:, k:k + T] @ weight[k] + bias for k in range(K))


@wrong("embedding_backward", "two mistakes: repeated ids are lost, and rows are off by one")
def embedding_b_two(dy, ids, weight):
    dweight = np.zeros_like(weight)
    dweight[ids - 1] += dy
    return dweight
