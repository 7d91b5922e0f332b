"""Wrong answers: dispatch to experts and combination of their outputs."""

import numpy as np

from answers.corpus import wrong


@wrong("dispatch_to_experts_backward", "= for a sum of k gradients (as with d[index] += g)")
def dispatch_b_assign(dy, x, slots, k):
    dx = np.zeros_like(x)
    dx[slots // k] = dy
    return dx


@wrong("dispatch_to_experts_backward", "d[index] += g counts a repeated token once")
def dispatch_b_fancy(dy, x, slots, k):
    dx = np.zeros_like(x)
    dx[slots // k] += dy
    return dx


@wrong("dispatch_to_experts_backward", "the mean over the k copies, not their sum")
def dispatch_b_mean(dy, x, slots, k):
    dx = np.zeros_like(x)
    np.add.at(dx, slots // k, dy)
    return dx / k


@wrong("dispatch_to_experts_backward", "slot % N for slot // k: the wrong token")
def dispatch_b_modulo(dy, x, slots, k):
    dx = np.zeros_like(x)
    np.add.at(dx, slots % len(x), dy)
    return dx


@wrong("combine_experts_backward", "doutputs lacks the weights")
def combine_b_weights(dy, outputs, weights, slots):
    k = weights.shape[1]
    g = dy[slots // k]
    dweights = np.zeros(weights.size)
    dweights[slots] = (outputs * g).sum(axis=1)
    return g.copy(), dweights.reshape(weights.shape)


@wrong("combine_experts_backward", "dweights is in the order of the slots, not scattered back")
def combine_b_scatter(dy, outputs, weights, slots):
    k = weights.shape[1]
    g = dy[slots // k]
    dweights = np.zeros(weights.size)
    dweights[:len(slots)] = (outputs * g).sum(axis=1)
    return weights.ravel()[slots][:, None] * g, dweights.reshape(weights.shape)


@wrong("combine_experts_backward", "the mean over the width for the sum in dweights")
def combine_b_mean(dy, outputs, weights, slots):
    k = weights.shape[1]
    g = dy[slots // k]
    dweights = np.zeros(weights.size)
    dweights[slots] = (outputs * g).mean(axis=1)
    return weights.ravel()[slots][:, None] * g, dweights.reshape(weights.shape)


@wrong("combine_experts_backward", "weights are taken by row of the output, not by slot")
def combine_b_order(dy, outputs, weights, slots):
    k = weights.shape[1]
    g = dy[slots // k]
    dweights = np.zeros(weights.size)
    dweights[slots] = (outputs * g).sum(axis=1)
    return weights.ravel()[:len(slots)][:, None] * g, dweights.reshape(weights.shape)


@wrong("combine_experts", "not weighted: the plain sum of a token's outputs")
def combine_unweighted(outputs, weights, slots):
    y = np.zeros((len(weights), outputs.shape[1]))
    np.add.at(y, slots // weights.shape[1], outputs)
    return y


@wrong("combine_experts", "y[token] += drops the repeated tokens")
def combine_lost(outputs, weights, slots):
    y = np.zeros((len(weights), outputs.shape[1]))
    y[slots // weights.shape[1]] += weights.ravel()[slots][:, None] * outputs
    return y


@wrong("dispatch_to_experts", "slot % k for slot // k")
def dispatch_modulo(x, slots, k):
    return x[slots % k]


@wrong("load_balance_loss", "the factor E is forgotten")
def balance_factor(logits, chosen):
    N, E = logits.shape
    e = np.exp(logits - logits.max(1, keepdims=True))
    p = e / e.sum(1, keepdims=True)
    return (np.bincount(chosen.ravel(), minlength=E) / chosen.size) @ p.mean(0)


@wrong("top_k_gates", "not renormalised over the chosen: weights of the whole softmax")
def gates_whole(logits, chosen):
    e = np.exp(logits - logits.max(1, keepdims=True))
    return np.take_along_axis(e / e.sum(1, keepdims=True), chosen, axis=1)


@wrong("combine_experts_backward", "two mistakes: doutputs lacks the weights, dweights is a mean")
def combine_b_two(dy, outputs, weights, slots):
    g = dy[slots // weights.shape[1]]
    dweights = np.zeros(weights.size)
    dweights[slots] = (outputs * g).mean(axis=1)
    return g.copy(), dweights.reshape(weights.shape)
