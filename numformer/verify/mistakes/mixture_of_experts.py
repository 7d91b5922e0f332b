"""Mistakes in mixtures of experts."""

import numpy as np

from numformer import functional as F


def at_the_chosen(dz, logits, chosen):
    dlogits = np.zeros_like(logits)
    np.put_along_axis(dlogits, chosen, dz, axis=-1)
    return dlogits


def gates_without_softmax(dweights, logits, chosen, over="chosen"):
    return at_the_chosen(dweights, logits, chosen)


def gates_without_sum(dweights, logits, chosen, over="chosen"):
    return at_the_chosen(F.top_k_gates(logits, chosen, over)[0] * dweights, logits, chosen)


def gates_that_forget_the_others(dweights, logits, chosen, over="all"):
    """Over all: the chosen ones' part is right, but the others get nothing."""
    dlogits = F.top_k_gates_backward(dweights, F.top_k_gates(logits, chosen, over)[1])
    return at_the_chosen(np.take_along_axis(dlogits, chosen, axis=-1), logits, chosen)


def gates_over_the_others(dweights, logits, chosen, over="chosen"):
    return F.top_k_gates_backward(dweights, F.top_k_gates(logits, chosen, "all" if over == "chosen" else "chosen")[1])


def shares(logits, chosen):
    """E f_e, and p."""
    E = logits.shape[-1]
    return E * np.bincount(chosen.reshape(-1), minlength=E) / chosen.size, F.softmax(logits)


def balance_without_softmax(dloss, logits, chosen):
    share, _ = shares(logits, chosen)
    return dloss / len(logits) * np.broadcast_to(share, logits.shape)


def balance_without_sum(dloss, logits, chosen):
    share, (p, _) = shares(logits, chosen)
    return dloss / len(logits) * p * share


def balance_by_probabilities(dloss, logits, chosen):
    """As if f were P: the loss is then E sum P^2."""
    _, (p, saved) = shares(logits, chosen)
    N, E = logits.shape
    return F.softmax_backward(dloss * 2 * E / N * np.broadcast_to(p.mean(axis=0), (N, E)), saved)


def scaled_balance(factor):
    return lambda dloss, logits, chosen: F.load_balance_loss_backward(
        dloss * factor(*chosen.shape, logits.shape[1]), F.load_balance_loss(logits, chosen)[1])


def z_parts(logits):
    """The log-sum-exp of every token, and p."""
    lse = np.log(np.exp(logits).sum(axis=-1, keepdims=True))
    return lse, np.exp(logits - lse)


def z_without_mean(dloss, logits):
    lse, p = z_parts(logits)
    return dloss * 2 * lse * p


def z_without_two(dloss, logits):
    lse, p = z_parts(logits)
    return dloss * lse * p / len(p)


def z_without_lse(dloss, logits):
    return dloss * 2 * z_parts(logits)[1] / len(logits)


def z_of_plain_squares(dloss, logits):
    return dloss * 2 * logits / len(logits)


def dispatch_with_overwriting(dy, x, slots, k):
    dx = np.zeros_like(x)
    dx[slots // k] = dy
    return dx


def dispatch_with_mean(dy, x, slots, k):
    return F.dispatch_to_experts_backward(dy, (slots, len(x), k)) / k


def dispatch_with_slots_for_tokens(dy, x, slots, k):
    """The rows taken to lie in the order of the tokens, k for each."""
    return dy.reshape(len(x), k, -1).sum(axis=1)


def combine_parts(dy, outputs, weights, slots):
    """The gradient of the token of every slot, and the gradients of weights and outputs."""
    saved = F.combine_experts(outputs, weights, slots)[1]
    return dy[slots // weights.shape[1]], *F.combine_experts_backward(dy, saved)


def combine_without_weights(dy, outputs, weights, slots):
    d, _, dweights = combine_parts(dy, outputs, weights, slots)
    return d, dweights


def combine_with_weights_in_the_order_of_tokens(dy, outputs, weights, slots):
    d, _, dweights = combine_parts(dy, outputs, weights, slots)
    return weights.reshape(-1)[:len(slots), None] * d, dweights


def combine_with_dweights_in_the_order_of_slots(dy, outputs, weights, slots):
    d, doutputs, _ = combine_parts(dy, outputs, weights, slots)
    return doutputs, (outputs * d).sum(axis=-1).reshape(weights.shape)


def combine_with_weight_in_dweights(dy, outputs, weights, slots):
    _, doutputs, dweights = combine_parts(dy, outputs, weights, slots)
    return doutputs, weights * dweights


MISTAKES = {
    "top_k_gates_backward": [
        ("the softmax's Jacobian is left out: dweights is handed on to the chosen logits", gates_without_softmax),
        ("the sum over the weights is missing in the softmax's Jacobian", gates_without_sum),
        ("the logits that were not chosen get nothing: over all, they are part of the sum", gates_that_forget_the_others),
        ("the softmax runs over the other logits: over=\"chosen\" is the k chosen alone, over=\"all\" all E", gates_over_the_others)],
    "load_balance_loss_backward": [
        ("the softmax's Jacobian is left out: P is made of probabilities, which depend on all logits", balance_without_softmax),
        ("the sum over the experts is missing in the softmax's Jacobian", balance_without_sum),
        ("f, the share of choices, is taken for P, the mean probability: f is a count, and has no gradient", balance_by_probabilities),
        ("the mean over the tokens is missing: P is a mean", scaled_balance(lambda N, k, E: N)),
        ("the factor E is missing", scaled_balance(lambda N, k, E: 1 / E)),
        ("f is counted per token, but is a share of all N k choices", scaled_balance(lambda N, k, E: k))],
    "router_z_loss_backward": [
        ("the mean over the tokens is missing", z_without_mean),
        ("the factor 2 is missing: the log-sum-exp is squared", z_without_two),
        ("the log-sum-exp itself is missing: its square has the derivative 2 l", z_without_lse),
        ("the logits are squared, but it is their log-sum-exp that is", z_of_plain_squares)],
    "dispatch_to_experts_backward": [
        ("`=` stands for `+=`: a token went to several experts, and their gradients add up", dispatch_with_overwriting),
        ("the mean over a token's copies is taken, but must be their sum", dispatch_with_mean),
        ("the rows are taken in the order of the tokens, but lie in that of the slots", dispatch_with_slots_for_tokens)],
    "combine_experts_backward": [
        ("the weight is missing in doutputs: an expert counts as much as its weight", combine_without_weights),
        ("the weights are taken in the order of the tokens, but the outputs lie in that of the slots",
         combine_with_weights_in_the_order_of_tokens),
        ("dweights lies in the order of the slots, but must in that of the tokens", combine_with_dweights_in_the_order_of_slots),
        ("dweights is multiplied by the weights: it is outputs . dy alone", combine_with_weight_in_dweights)],
}
