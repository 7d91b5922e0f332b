"""Mistakes in mixtures of experts."""

import numpy as np

from numformer import functional as F


def at_the_chosen(dz, logits, chosen):
    dlogits = np.zeros_like(logits)
    np.put_along_axis(dlogits, chosen, dz, axis=-1)
    return dlogits


def gates_without_softmax(dweights, logits, chosen):
    return at_the_chosen(dweights, logits, chosen)


def gates_without_sum(gates):
    return lambda dweights, logits, chosen: at_the_chosen(
        gates(logits, chosen)[0] * dweights, logits, chosen)


def gates_without_the_others(dweights, logits, chosen):
    """The chosen logits get their gradient, the others none."""
    dlogits = gates_over_all(dweights, logits, chosen)
    return at_the_chosen(np.take_along_axis(dlogits, chosen, axis=-1), logits, chosen)


def gates_over_all(dweights, logits, chosen):
    return F.top_k_gates_over_all_backward(dweights, F.top_k_gates_over_all(logits, chosen)[1])


def gates_over_the_chosen(dweights, logits, chosen):
    return F.top_k_gates_backward(dweights, F.top_k_gates(logits, chosen)[1])


def fractions(logits, chosen):
    """E f_e, and (p, saved) of the softmax."""
    E = logits.shape[-1]
    return E * np.bincount(chosen.reshape(-1), minlength=E) / chosen.size, F.softmax(logits)


def balance_without_softmax(dloss, logits, chosen):
    fraction, _ = fractions(logits, chosen)
    return dloss / len(logits) * np.broadcast_to(fraction, logits.shape)


def balance_without_sum(dloss, logits, chosen):
    fraction, (p, _) = fractions(logits, chosen)
    return dloss / len(logits) * p * fraction


def balance_of_probabilities(dloss, logits, chosen):
    """As if f were P: the loss is then E sum P^2."""
    _, (p, saved) = fractions(logits, chosen)
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


def dispatch_in_the_order_of_tokens(dy, x, slots, k):
    """The rows as if in the order of the tokens, k for each."""
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
        ("the Jacobian of the softmax is missing: dweights is passed unchanged to the chosen "
         "logits", gates_without_softmax),
        ("the sum over the weights is missing in the Jacobian of the softmax",
         gates_without_sum(F.top_k_gates)),
        ("the softmax is over all logits, but must be over the k chosen ones", gates_over_all)],
    "top_k_gates_over_all_backward": [
        ("the Jacobian of the softmax is missing: dweights is passed unchanged to the chosen "
         "logits", gates_without_softmax),
        ("the sum over the weights is missing in the Jacobian of the softmax",
         gates_without_sum(F.top_k_gates_over_all)),
        ("the logits that were not chosen get no gradient: they are part of the softmax",
         gates_without_the_others),
        ("the softmax is over the k chosen logits, but must be over all E",
         gates_over_the_chosen)],
    "load_balance_loss_backward": [
        ("the Jacobian of the softmax is missing: P is a mean of probabilities, which depend on "
         "all logits", balance_without_softmax),
        ("the sum over the experts is missing in the Jacobian of the softmax", balance_without_sum),
        ("f, the fraction of choices, is treated as P, the mean probability: f is a count and has "
         "no gradient", balance_of_probabilities),
        ("the mean over the tokens is missing: P is a mean", scaled_balance(lambda N, k, E: N)),
        ("the factor E is missing", scaled_balance(lambda N, k, E: 1 / E)),
        ("f is divided by the number of tokens N, but is a fraction of all N k choices",
         scaled_balance(lambda N, k, E: k))],
    "router_z_loss_backward": [
        ("the mean over the tokens is missing", z_without_mean),
        ("the factor 2 is missing: the log-sum-exp is squared", z_without_two),
        ("the log-sum-exp itself is missing: the derivative of its square is 2 l", z_without_lse),
        ("this is the gradient of the squared logits, but the loss squares their log-sum-exp",
         z_of_plain_squares)],
    "dispatch_to_experts_backward": [
        ("only one of a token's copies gives its gradient, but all must be summed: np.add.at sums "
         "repeated rows, `dx[rows] += g` does not", dispatch_with_overwriting),
        ("the gradients of the copies of a token are averaged, but must be summed",
         dispatch_with_mean),
        ("the rows are read in the order of the tokens, but are in the order of the slots",
         dispatch_in_the_order_of_tokens)],
    "combine_experts_backward": [
        ("the weight is missing in doutputs: the output of each expert was multiplied by its "
         "weight", combine_without_weights),
        ("the weights are read in the order of the tokens, but the outputs are in the order of "
         "the slots",
         combine_with_weights_in_the_order_of_tokens),
        ("dweights is in the order of the slots, but must be in the order of the tokens",
         combine_with_dweights_in_the_order_of_slots),
        ("dweights is multiplied by the weights, but must be outputs . dy",
         combine_with_weight_in_dweights)],
}
