"""Blocks with a mixture of experts: their options, and the feed-forward of each block."""

from dataclasses import dataclass

from numformer.checks import check_choice
from numformer.config import option
from numformer.functional.activations.table import ACTIVATIONS, GATED
from numformer.functional.experts.router import check_k
from numformer.layers import MixtureOfExperts
from numformer.models.transformer.config import TransformerConfig
from numformer.models.transformer.parts import feedforward_of


@dataclass(frozen=True, kw_only=True)
class ExpertsConfig(TransformerConfig):
    """A `TransformerConfig` whose blocks may have experts."""

    n_experts: int = option(
        "E, feed-forwards of a block, of which a router chooses k for every token: see "
        "`MixtureOfExperts`. With 1, a plain feed-forward, the other options of experts have no "
        "effect.", 1, most=2**12)
    experts_per_token: int = option("k, the experts that compute a token.", 2)
    gates_over: str = option(
        "Whether gates are a softmax over the k chosen experts or over all E; all if k = 1.",
        "chosen", choices=("chosen", "all"))
    experts_every: int = option(
        "Every `experts_every`-th block has experts, the others a plain feed-forward.", 1)
    expert_feedforward: str | None = option(
        "The activation of the experts, where it is not that of the other blocks.", None,
        choices=(*ACTIVATIONS, *GATED))
    capacity_factor: float = option(
        "Most tokens per expert in training, as a multiple of an even share; 0 for no limit.", 0.0,
        least=0)
    balance_weight: float = option(
        "Factor of the load-balancing loss of every block, which is added to the loss.", 0.01,
        least=0)
    router_z_weight: float = option(
        "Factor of the router's z-loss of every block, which is added to the loss.", 0.0, least=0)

    def __post_init__(self):
        super().__post_init__()
        owner = type(self).__name__
        if self.n_experts > 1:
            if self.expert_feedforward is None:
                check_choice(owner, "feedforward", self.feedforward, [*ACTIVATIONS, *GATED])
            check_k(owner, "experts_per_token", self.experts_per_token, self.n_experts)
            if self.experts_per_token == 1 and self.gates_over == "chosen":
                raise ValueError(
                    f"{owner}: with experts_per_token=1 and gates_over='chosen' every weight is 1, "
                    "without gradient for the router; use gates_over='all' or experts_per_token=2.")

    @property
    def expert_layers(self):
        """Whether each layer has experts."""
        return [self.n_experts > 1 and k % self.experts_every == 0
                for k in range(1, self.n_layers + 1)]


def feedforwards_of(config):
    """For each block, what builds its feed-forward: `feedforward_of`, or `experts_of`."""
    has_experts = getattr(config, "expert_layers", [False] * config.n_layers)
    return [experts_of if each else feedforward_of for each in has_experts]


def experts_of(config, initial):
    """The experts of a block; `initial` as in `feedforward_of`."""
    c, kind = config, config.expert_feedforward or config.feedforward
    return MixtureOfExperts(
        c.d_model, c.hidden_width, c.n_experts, c.experts_per_token,
        GATED.get(kind, kind), gated=kind in GATED, gates_over=c.gates_over,
        capacity_factor=c.capacity_factor, balance_weight=c.balance_weight,
        z_weight=c.router_z_weight, **initial)
