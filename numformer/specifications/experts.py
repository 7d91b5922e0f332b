"""Mixtures of experts."""

import numpy as np

from numformer import functional as F
from numformer.specifications.levels import sizes
from numformer.specifications.pair import Pair
from numformer.specifications.specification import specify


# ---- top_k_gates ---------------------------------------------------------------------------------

def top_k_gates(logits, chosen):
    rows = np.arange(len(logits))[:, None]
    e = np.exp(logits[rows, chosen])
    return e / e.sum(axis=-1, keepdims=True)


def top_k_gates_backward(dweights, logits, chosen):
    rows = np.arange(len(logits))[:, None]
    e = np.exp(logits[rows, chosen])
    w = e / e.sum(axis=-1, keepdims=True)
    dlogits = np.zeros(logits.shape)
    dlogits[rows, chosen] = w * (dweights - (w * dweights).sum(axis=-1, keepdims=True))
    return dlogits


def routed(rng):
    """Logits of N tokens for E experts, and the k chosen ones, with 1 < k < E."""
    N, E, k = sizes(rng, 3)
    E, k = max(E, k) + 1, min(E, k)
    logits = 1.5 * rng.standard_normal((N + 3, E))
    return logits, F.top_k_experts(logits, k)


def gated(**options):
    def make(rng):
        logits, chosen = routed(rng)
        return {"logits": logits, "chosen": chosen}, options
    return make


def at_the_chosen(dz, logits, chosen):
    dlogits = np.zeros_like(logits)
    np.put_along_axis(dlogits, chosen, dz, axis=-1)
    return dlogits


def gates_without_softmax(dweights, logits, chosen):
    return at_the_chosen(dweights, logits, chosen)


def gates_without_sum(gates):
    return lambda dweights, logits, chosen: at_the_chosen(
        gates(logits, chosen)[0] * dweights, logits, chosen)


def gates_over_all(dweights, logits, chosen):
    return F.top_k_gates_over_all_backward(dweights, F.top_k_gates_over_all(logits, chosen)[1])


CHOSEN = np.array([[2, 0], [2, 1], [3, 2], [2, 3],
                   [0, 2]])           # of four experts, the third in every row


specify(
    F.top_k_gates, ("logits",),
    {"plain": gated()},
    mistakes=[
        ("the Jacobian of the softmax is missing: dweights is passed unchanged to the chosen "
         "logits", gates_without_softmax),
        ("the sum over the weights is missing in the Jacobian of the softmax",
         gates_without_sum(F.top_k_gates)),
        ("the softmax is over all logits, but must be over the k chosen ones", gates_over_all)],
    hints=(
        "Only the chosen experts take part: the softmax runs over their k logits, and the weights "
        "sum to 1.",
        "chosen (N, k) names columns of logits (N, E), others in each row: np.take_along_axis "
        "along axis 1 gathers them, (N, k).",
        "scores = np.take_along_axis(logits, chosen, axis=1), and the weights are the softmax of "
        "scores over the last axis."),
    backward_hints=(
        "Two steps back: the softmax over k scores, then the lookup. A logit that was not chosen "
        "enters nowhere: its gradient is 0.",
        "dscores = w (dweights - the sum of w dweights over the k chosen), (N, k). It must get to "
        "the columns that chosen names, in (N, E).",
        "np.put_along_axis writes dscores into zeros of the shape of logits at chosen, along axis "
        "1: no expert is chosen twice by one token."))


# ---- top_k_gates_over_all ------------------------------------------------------------------------

def top_k_gates_over_all(logits, chosen):
    rows = np.arange(len(logits))[:, None]
    p = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    return p[rows, chosen]


def top_k_gates_over_all_backward(dweights, logits, chosen):
    rows = np.arange(len(logits))[:, None]
    p = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    dp = np.zeros(logits.shape)
    dp[rows, chosen] = dweights
    return p * (dp - (p * dp).sum(axis=-1, keepdims=True))


def gates_without_the_others(dweights, logits, chosen):
    """The chosen logits get their gradient, the others none."""
    dlogits = gates_over_all(dweights, logits, chosen)
    return at_the_chosen(np.take_along_axis(dlogits, chosen, axis=-1), logits, chosen)


def gates_over_the_chosen(dweights, logits, chosen):
    return F.top_k_gates_backward(dweights, F.top_k_gates(logits, chosen)[1])


specify(
    F.top_k_gates_over_all, ("logits",),
    {"plain": gated()},
    mistakes=[
        ("the Jacobian of the softmax is missing: dweights is passed unchanged to the chosen "
         "logits", gates_without_softmax),
        ("the sum over the weights is missing in the Jacobian of the softmax",
         gates_without_sum(F.top_k_gates_over_all)),
        ("the logits that were not chosen get no gradient: they are part of the softmax",
         gates_without_the_others),
        ("the softmax is over the k chosen logits, but must be over all E", gates_over_the_chosen)],
    hints=(
        "The softmax runs over all E experts first; then the entries of the chosen ones are "
        "taken, and not normalized again.",
        "p = softmax of logits, (N, E), over the last axis; chosen (N, k) names columns of it, "
        "others in each row.",
        "The weights are np.take_along_axis(p, chosen, axis=1), (N, k)."),
    backward_hints=(
        "Each chosen weight contains all logits, through the sum of the softmax: every logit of "
        "the token gets a gradient.",
        "dp (N, E) is dweights at the chosen columns and 0 elsewhere. Then the backward of the "
        "softmax over all E.",
        "With dp from np.put_along_axis into zeros: dlogits = p * (dp - s), where s is the sum of "
        "p * dp over the last axis, (N, 1)."))


# ---- load_balance_loss ---------------------------------------------------------------------------

def load_balance_loss(logits, chosen):
    N, E = logits.shape
    p = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    f = np.bincount(chosen.reshape(-1), minlength=E) / chosen.size
    return E * (f * p.mean(axis=0)).sum()


def load_balance_loss_backward(dloss, logits, chosen):
    N, E = logits.shape
    p = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    f = np.bincount(chosen.reshape(-1), minlength=E) / chosen.size
    dp = dloss * E * f / N
    return p * (dp - (p * dp).sum(axis=-1, keepdims=True))


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


FIRST_CHOICES = ("only the first choice of each token is counted: f is a fraction of all N k "
                 "choices")


def balance_of_first_choices(dloss, logits, chosen):
    return F.load_balance_loss_backward(dloss, F.load_balance_loss(logits, chosen[:, :1])[1])


def scaled_balance(factor):
    return lambda dloss, logits, chosen: F.load_balance_loss_backward(
        dloss * factor(*chosen.shape, logits.shape[1]), F.load_balance_loss(logits, chosen)[1])


specify(
    F.load_balance_loss, ("logits",),
    {"plain": gated()},
    cases=[
        Pair("load-balance loss", [(5, 4)], after=(CHOSEN,)),
        Pair("load-balance loss, one expert for each", [(5, 4)], after=(CHOSEN[:, :1],))],
    mistakes=[
        ("the Jacobian of the softmax is missing: P is a mean of probabilities, which depend on "
         "all logits", balance_without_softmax),
        ("the sum over the experts is missing in the Jacobian of the softmax", balance_without_sum),
        ("f, the fraction of choices, is treated as P, the mean probability: f is a count and has "
         "no gradient", balance_of_probabilities),
        ("the mean over the tokens is missing: P is a mean", scaled_balance(lambda N, k, E: N)),
        ("the factor E is missing", scaled_balance(lambda N, k, E: 1 / E)),
        ("f is divided by the number of tokens N, but is a fraction of all N k choices",
         scaled_balance(lambda N, k, E: k)),
        (FIRST_CHOICES, balance_of_first_choices)],
    forward_mistakes=[
        (FIRST_CHOICES, lambda logits, chosen: F.load_balance_loss(logits, chosen[:, :1])[0])],
    hints=(
        "For each expert, the fraction of all choices that it received, times its mean "
        "probability; summed over experts and multiplied by E.",
        "The counts come from chosen: np.bincount(chosen.reshape(-1), minlength=E), divided by N "
        "k. The softmax over experts is averaged over the N tokens.",
        "loss is E times the sum over e of used_e P_e, with P = p.mean(axis=0) and used the "
        "fractions, both (E,)."),
    backward_hints=(
        "used is a count: it does not depend on the logits smoothly, and is a constant. The only "
        "path goes through the mean probabilities.",
        "Each p_ne enters P_e with 1 / N, so dp_ne = E used_e dloss / N, the same for all tokens. "
        "Then the softmax's backward in each row.",
        "dlogits = p * (dp - s), with dp = dloss * E * used / N, broadcast over rows, where s is "
        "the sum of p * dp over experts, (N, 1)."))


# ---- router_z_loss -------------------------------------------------------------------------------

def router_z_loss(logits):
    lse = np.log(np.exp(logits).sum(axis=-1))
    return (lse ** 2).mean()


def router_z_loss_backward(dloss, logits):
    e = np.exp(logits)
    p = e / e.sum(axis=-1, keepdims=True)
    lse = np.log(e.sum(axis=-1, keepdims=True))
    return dloss * 2 * lse * p / len(logits)


def logits_alone(rng):
    return {"logits": routed(rng)[0]}, {}


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


specify(
    F.router_z_loss, ("logits",),
    {"plain": logits_alone},
    mistakes=[
        ("the mean over the tokens is missing", z_without_mean),
        ("the factor 2 is missing: the log-sum-exp is squared", z_without_two),
        ("the log-sum-exp itself is missing: the derivative of its square is 2 l", z_without_lse),
        ("this is the gradient of the squared logits, but the loss squares their log-sum-exp",
         z_of_plain_squares)],
    hints=(
        "The log-sum-exp of each token's logits, squared, and averaged over tokens.",
        "Subtract the maximum of each row before exp, and add it again after the logarithm. The "
        "sum is over the E experts.",
        "lse = top + log of the sum of exp(logits - top), (N, 1); the loss is the mean of lse * "
        "lse."),
    backward_hints=(
        "Chain rule in two steps: the mean of squares, then the log-sum-exp, whose derivative "
        "with respect to z_ne is the softmax p_ne.",
        "dlse_n = 2 lse_n dloss / N, one number for each token; it goes to all E logits of the "
        "token, by p.",
        "dlogits = p * (2 * lse / N) * dloss, with p the softmax of each row and lse of shape (N, "
        "1)."))


# ---- dispatch_to_experts -------------------------------------------------------------------------

def dispatch_to_experts(x, slots, k):
    tokens = slots // k
    return x[tokens]


def dispatch_to_experts_backward(dy, x, slots, k):
    tokens = slots // k
    dx = np.zeros(x.shape)
    np.add.at(dx, tokens, dy)
    return dx


def dispatched(capacity=None):
    def make(rng):
        _, chosen = routed(rng)
        N, k = chosen.shape
        slots, _ = F.sort_by_expert(chosen, int(chosen.max()) + 1, capacity)
        return {"x": rng.standard_normal((N, int(rng.integers(2, 8)))), "slots": slots, "k": k}, {}
    return make


def dispatch_with_overwriting(dy, x, slots, k):
    dx = np.zeros_like(x)
    dx[slots // k] = dy
    return dx


def dispatch_with_mean(dy, x, slots, k):
    return F.dispatch_to_experts_backward(dy, (slots, len(x), k)) / k


def dispatch_in_the_order_of_tokens(dy, x, slots, k):
    """The rows as if in the order of the tokens, k for each."""
    return dy.reshape(len(x), k, -1).sum(axis=1)


SERVED, _ = F.sort_by_expert(CHOSEN, 4, capacity=2)


SERVED, _ = F.sort_by_expert(CHOSEN, 4, capacity=2)


specify(
    F.dispatch_to_experts, ("x",),
    {"plain": dispatched(), "tokens without a slot": dispatched(capacity=2)},
    mistakes=[
        ("only one of a token's copies gives its gradient, but all must be summed: np.add.at sums "
         "repeated rows, `dx[rows] += g` does not", dispatch_with_overwriting),
        ("the gradients of the copies of a token are averaged, but must be summed",
         dispatch_with_mean),
        ("the rows are read in the order of the tokens, but are in the order of the slots",
         dispatch_in_the_order_of_tokens)],
    hints=(
        "Slot s_m belongs to token s_m // k: each of its k choices has a slot of its own. Copy "
        "the token's vector there.",
        "slots is (M,), of integers below N k, and y is (M, C). A token may occur in several "
        "slots, or in none.",
        "Index x (N, C) by the array of tokens, slots // k."),
    backward_hints=(
        "A token that was copied to several slots sums the gradients of its copies; one without a "
        "slot gets 0.",
        "dx is (N, C). `dx[slots // k] += dy` reads and writes each row once, so it would keep "
        "one copy alone.",
        "np.add.at adds them all: start from zeros (N, C), and add dy at slots // k."))


# ---- combine_experts -----------------------------------------------------------------------------

def combine_experts(outputs, weights, slots):
    k = weights.shape[1]
    tokens = slots // k
    w = weights.reshape(-1)[slots]
    y = np.zeros((len(weights), outputs.shape[1]))
    np.add.at(y, tokens, w[:, None] * outputs)
    return y


def combine_experts_backward(dy, outputs, weights, slots):
    k = weights.shape[1]
    tokens = slots // k
    w = weights.reshape(-1)[slots]
    d = dy[tokens]
    doutputs = w[:, None] * d
    dweights = np.zeros(weights.size)
    dweights[slots] = (outputs * d).sum(axis=-1)
    return doutputs, dweights.reshape(weights.shape)


def combined(capacity=None):
    def make(rng):
        arguments, _ = dispatched(capacity)(rng)
        x, slots, k = arguments.values()
        return {"outputs": rng.standard_normal((len(slots), x.shape[1])),
                "weights": rng.random((len(x), k)), "slots": slots}, {}
    return make


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


specify(
    F.combine_experts, ("outputs", "weights"),
    {"plain": combined(), "tokens without a slot": combined(capacity=2)},
    mistakes=[
        ("the weight is missing in doutputs: the output of each expert was multiplied by its "
         "weight", combine_without_weights),
        ("the weights are read in the order of the tokens, but the outputs are in the order of "
         "the slots",
         combine_with_weights_in_the_order_of_tokens),
        ("dweights is in the order of the slots, but must be in the order of the tokens",
         combine_with_dweights_in_the_order_of_slots),
        ("dweights is multiplied by the weights, but must be outputs . dy",
         combine_with_weight_in_dweights)],
    hints=(
        "The output of each slot, times its weight, is added to the token that the slot belongs "
        "to: token s_m // k.",
        "Slot s_m has the weight (s_m // k, s_m mod k), which is entry s_m of "
        "weights.reshape(-1). The sum is over all slots of a token.",
        "w = weights.reshape(-1)[slots][:, None]; add w * outputs (M, C) at rows slots // k of "
        "zeros (N, C), with np.add.at."),
    backward_hints=(
        "y_n = sum of w_m o_m over the slots of token n: a product in a sum. Each slot reads the "
        "dy of its token.",
        "dproduct = dy[slots // k] is (M, C). doutputs multiplies it by the slot's weight; "
        "dweights is its dot product with outputs, over C.",
        "doutputs = w * dproduct; dw = (outputs * dproduct).sum(axis=1), written at slots into "
        "zeros (N k,), reshaped to (N, k)."))
