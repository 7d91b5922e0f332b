"""Problems on mixtures of experts."""

from numformer import functional as F
from numformer.teaching.problems.problem import FunctionProblem, sizes


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


def logits_alone(rng):
    return {"logits": routed(rng)[0]}, {}


def dispatched(capacity=None):
    def make(rng):
        _, chosen = routed(rng)
        N, k = chosen.shape
        slots, _ = F.sort_by_expert(chosen, int(chosen.max()) + 1, capacity)
        return {"x": rng.standard_normal((N, int(rng.integers(2, 8)))), "slots": slots, "k": k}, {}
    return make


def combined(capacity=None):
    def make(rng):
        arguments, _ = dispatched(capacity)(rng)
        x, slots, k = arguments.values()
        return {"outputs": rng.standard_normal((len(slots), x.shape[1])),
                "weights": rng.random((len(x), k)), "slots": slots}, {}
    return make


PROBLEMS = {
    "top_k_gates": FunctionProblem(F.top_k_gates, F.top_k_gates_backward, ("logits",),
                                   {"plain": gated()}),
    "top_k_gates_over_all": FunctionProblem(
        F.top_k_gates_over_all, F.top_k_gates_over_all_backward, ("logits",),
        {"plain": gated()}),
    "load_balance_loss": FunctionProblem(F.load_balance_loss, F.load_balance_loss_backward,
                                         ("logits",), {"plain": gated()}),
    "router_z_loss": FunctionProblem(F.router_z_loss, F.router_z_loss_backward, ("logits",),
                                     {"plain": logits_alone}),
    "dispatch_to_experts": FunctionProblem(
        F.dispatch_to_experts, F.dispatch_to_experts_backward, ("x",),
        {"plain": dispatched(), "tokens without a slot": dispatched(capacity=2)}),
    "combine_experts": FunctionProblem(
        F.combine_experts, F.combine_experts_backward, ("outputs", "weights"),
        {"plain": combined(), "tokens without a slot": combined(capacity=2)}),
}
