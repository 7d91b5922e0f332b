"""Exercises on mixtures of experts."""

from numformer import functional as F
from numformer.verify.exercises.exercise import Exercise, sizes


def routed(rng):
    """Logits of N tokens for E experts, and the k chosen: k is not 1, and less than E."""
    N, E, k = sizes(rng, 3)
    E, k = max(E, k) + 1, min(E, k)
    logits = 1.5 * rng.standard_normal((N + 3, E))
    return logits, F.top_k_experts(logits, k)


def weighed(**options):
    def make(rng):
        logits, chosen = routed(rng)
        return {"logits": logits, "chosen": chosen}, options
    return make


def drifted(rng):
    return {"logits": routed(rng)[0]}, {}


def sent(capacity=None):
    def make(rng):
        _, chosen = routed(rng)
        N, k = chosen.shape
        slots, _ = F.sort_by_expert(chosen, int(chosen.max()) + 1, capacity)
        return {"x": rng.standard_normal((N, int(rng.integers(2, 8)))), "slots": slots, "k": k}, {}
    return make


def collected(capacity=None):
    def make(rng):
        arguments, _ = sent(capacity)(rng)
        x, slots, k = arguments.values()
        return {"outputs": rng.standard_normal((len(slots), x.shape[1])), "weights": rng.random((len(x), k)), "slots": slots}, {}
    return make


EXERCISES = {
    "top_k_gates": Exercise(F.top_k_gates, F.top_k_gates_backward, ("logits",), {"plain": weighed(), 'over="all"': weighed(over="all")}),
    "load_balance_loss": Exercise(F.load_balance_loss, F.load_balance_loss_backward, ("logits",), {"plain": weighed()}),
    "router_z_loss": Exercise(F.router_z_loss, F.router_z_loss_backward, ("logits",), {"plain": drifted}),
    "dispatch_to_experts": Exercise(F.dispatch_to_experts, F.dispatch_to_experts_backward, ("x",), {
        "plain": sent(), "tokens without a slot": sent(capacity=2)}),
    "combine_experts": Exercise(F.combine_experts, F.combine_experts_backward, ("outputs", "weights"), {
        "plain": collected(), "tokens without a slot": collected(capacity=2)}),
}
