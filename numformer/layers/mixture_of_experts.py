"""A mixture of experts: many feed-forwards, of which a router chooses a few for every token."""

import math

import numpy as np

from numformer.checks import (
    check_array, check_choice, check_generator, check_number, check_whole)
from numformer.description import Description, Row
from numformer.functional.experts.dispatch import (
    combine_experts, combine_experts_backward, dispatch_to_experts, dispatch_to_experts_backward,
    sort_by_expert)
from numformer.functional.experts.router import (
    check_k, top_k_experts, top_k_gates, top_k_gates_backward, top_k_gates_over_all,
    top_k_gates_over_all_backward)
from numformer.functional.experts.losses import (
    load_balance_loss, load_balance_loss_backward, router_z_loss, router_z_loss_backward)
from numformer.layers.feedforward import FeedForward, GatedFeedForward
from numformer.layers.linear import Linear
from numformer.parameter import Layer


class MixtureOfExperts(Layer):
    r"""E feed-forwards of which each token uses k, (..., C) to (..., C): more parameters for the
    same computation.

    .. math:: y = \sum_{e \,\in\, \mathrm{top}_k(z)} w_e(z)\, \mathrm{expert}_e(x), \qquad z = x W_r

    The choice has no gradient. The weights w have one, and through them the router learns which of
    the chosen experts reduced the loss. Copies of the tokens are sorted by expert, so that every
    expert computes on one slice of rows.

    Without a further loss, a router soon sends all tokens to a few experts, which then learn even
    more. The auxiliary loss

    .. math:: L = \lambda_b\, E \sum_e f_e P_e + \lambda_z \langle \ell^2 \rangle

    prevents that; see `load_balance_loss` and `router_z_loss`. It is not an output of `forward`:
    `layer.auxiliary_loss(saved)` is that of the forward which saved, and
    `backward(dy, saved, dauxiliary)` adds its gradient.

    Parameters
    ----------
    d_model, d_hidden : int
        C, and F of each expert.
    n_experts, k : int
        E, and how many of them each token uses.
    activation : str, a name in `ACTIVATIONS`
    rng : numpy.random.Generator or None
    gated : bool
        Whether the experts are `GatedFeedForward` (as in Mixtral, with SiLU) or `FeedForward` (as
        in Switch, with ReLU).
    gates_over : "chosen" or "all"
        `top_k_gates`, the weights of Mixtral, or `top_k_gates_over_all`, those of Switch. With
        k = 1 the router gets a gradient of the loss from "all" alone.
    capacity_factor : float, at least 0
        0: dropless, no token is dropped. Above, in training: an expert takes at most
        ceil(capacity_factor N k / E) of the N tokens of a call, the first ones in the order of
        their positions, sequence after sequence. It outputs 0 for later tokens, whose other weights
        stay as they are. A token dropped by all its experts has output 0; only the residual
        connection carries it on. A token is never dropped because of a later one.
    balance_weight, z_weight : float, at least 0
        Of the auxiliary loss. Switch uses 0.01 for the first, ST-MoE 0.001 for the second.
    bias, std, output_std, dtype
        As in `FeedForward`, for every expert. The router has no bias; `std` is also that of its
        initial weight.

    Raises
    ------
    ValueError, TypeError
        If k is greater than E, another setting is out of range, or `x` does not fit.

    Notes
    -----
    The shares f and P are those of one call, and so of one shard: if a batch is cut into shards,
    each is balanced separately, and the loss is the mean of theirs. The same holds for the
    capacity. Padding counts too.

    The capacity is for training alone, as in published models: like dropout, it drops nothing where
    `forward` gets no `rng`. So at inference a token's output does not depend on its batch, and a
    text is the same alone, in a batch, and step by step.

    References
    ----------
    Shazeer et al. (2017), "Outrageously Large Neural Networks", eq. 1; Fedus et al. (2022), "Switch
    Transformers", eq. 1 to 6; Zoph et al. (2022), "ST-MoE", eq. 5; Jiang et al. (2024), "Mixtral of
    Experts", section 2.1. Sorted and dropless: Gale et al. (2023), "MegaBlocks".

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> layer = MixtureOfExperts(4, 16, n_experts=3, k=2, activation="gelu", rng=rng)
    >>> y, saved = layer.forward(np.ones((2, 5, 4), np.float32))
    >>> round(float(layer.auxiliary_loss(saved)), 4)
    0.0135
    >>> layer.backward(np.ones_like(y), saved, dauxiliary=1.0).shape
    (2, 5, 4)
    >>> MixtureOfExperts(4, 16, n_experts=3, k=4, activation="gelu", rng=None)
    ... # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: MixtureOfExperts: k=4 experts for a token are more than the E=3 ...
    """

    def __init__(self, d_model, d_hidden, n_experts, k, activation, rng, gated=False,
                 gates_over="chosen", capacity_factor=0.0, balance_weight=0.01, z_weight=0.0,
                 bias=True, std=None, output_std=None, dtype=np.float32):
        owner = "MixtureOfExperts"
        check_whole(owner, "n_experts", n_experts)
        check_k(owner, "k", k, n_experts)
        check_choice(owner, "gated", gated, [True, False])
        check_choice(owner, "gates_over", gates_over, ["chosen", "all"])
        for name, number in (("capacity_factor", capacity_factor),
                             ("balance_weight", balance_weight), ("z_weight", z_weight)):
            check_number(owner, name, number, least=0)
        kind = GatedFeedForward if gated else FeedForward
        self.router = Linear(d_model, n_experts, rng, bias=False, std=std, dtype=dtype)
        self.experts = [kind(d_model, d_hidden, activation, rng, bias, std, output_std, dtype)
                        for _ in range(n_experts)]
        self.k, self.gates_over, self.capacity_factor = k, gates_over, float(capacity_factor)
        self.balance_weight, self.z_weight = float(balance_weight), float(z_weight)

    def capacity(self, N):
        """How many of N tokens an expert takes at most in training; None without a limit."""
        if not self.capacity_factor:
            return None
        share = self.capacity_factor * N * self.k / len(self.experts)
        return math.ceil(min(N, max(1, share)))       # a token is sent at most once to an expert

    def forward(self, x, rng=None):
        """Output (..., C) of the experts.

        Parameters
        ----------
        x : ndarray, shape (..., C)
        rng : numpy.random.Generator, optional
            With one, as in training, experts drop tokens above their capacity. Nothing is drawn.

        Returns
        -------
        y : ndarray, shape (..., C)
        saved : tuple
        """
        check_array("MixtureOfExperts", "x", x, "(..., C)", C=len(self.router.weight.data))
        check_generator("MixtureOfExperts", rng)
        tokens = x.reshape(-1, x.shape[-1])                           # (N, C)
        logits, saved_router = self.router.forward(tokens)            # (N, E)
        chosen = top_k_experts(logits, self.k)                        # (N, k)
        gates = top_k_gates if self.gates_over == "chosen" else top_k_gates_over_all
        weights, saved_gates = gates(logits, chosen)                  # (N, k)
        capacity = None if rng is None else self.capacity(len(tokens))
        slots, counts = sort_by_expert(chosen, len(self.experts), capacity)
        sent, saved_dispatch = dispatch_to_experts(tokens, slots, self.k)             # (M, C)
        outputs, saved_experts = self._experts(sent, counts)          # (M, C)
        y, saved_combine = combine_experts(outputs, weights, slots)   # (N, C)

        saved = (logits, chosen, saved_router, saved_gates, saved_dispatch, saved_experts,
                 saved_combine)
        return y.reshape(x.shape), saved

    def backward(self, dy, saved, dauxiliary=0.0):
        """Gradient of `x`, of (dy . y) + dauxiliary * auxiliary_loss(saved)."""
        (logits, chosen, saved_router, saved_gates, saved_dispatch, saved_experts,
         saved_combine) = saved

        # y = combine_experts(outputs, weights, slots)
        doutputs, dweights = combine_experts_backward(dy.reshape(-1, dy.shape[-1]), saved_combine)

        # outputs = experts(sent)
        dsent = self._experts_backward(doutputs, saved_experts)

        # sent = dispatch_to_experts(tokens, slots, k)
        dtokens = dispatch_to_experts_backward(dsent, saved_dispatch)

        # weights = top_k_gates(logits, chosen), or top_k_gates_over_all
        gates_backward = (top_k_gates_backward if self.gates_over == "chosen"
                          else top_k_gates_over_all_backward)
        dlogits = gates_backward(dweights, saved_gates)

        # auxiliary = balance_weight * load_balance_loss(logits, chosen)
        #             + z_weight * router_z_loss(logits)
        if dauxiliary:
            if self.balance_weight:
                _, saved = load_balance_loss(logits, chosen)
                dlogits += load_balance_loss_backward(self.balance_weight * dauxiliary, saved)
            if self.z_weight:
                _, saved = router_z_loss(logits)
                dlogits += router_z_loss_backward(self.z_weight * dauxiliary, saved)

        # logits = router(tokens)
        return (dtokens + self.router.backward(dlogits, saved_router)).reshape(dy.shape)

    def auxiliary_loss(self, saved):
        """The auxiliary loss of the forward that saved, a scalar of the layer's dtype."""
        logits, chosen, *_ = saved
        loss = logits.dtype.type(0)
        if self.balance_weight:                      # 0 times a loss that overflows would be NaN
            loss = loss + self.balance_weight * load_balance_loss(logits, chosen)[0]
        if self.z_weight:
            loss = loss + self.z_weight * router_z_loss(logits)[0]
        return loss

    def _experts(self, sent, counts):
        """Every expert on its own rows of `sent`; an expert without rows is skipped."""
        ends = np.cumsum(counts)[:-1]
        outputs, saved_rows = zip(*(
            expert.forward(rows) if len(rows) else (rows, None)
            for expert, rows in zip(self.experts, np.split(sent, ends))))

        saved = (ends, saved_rows)
        return np.concatenate(outputs), saved

    def _experts_backward(self, doutputs, saved):
        ends, saved_rows = saved

        # outputs = expert(rows), for every expert
        drows = [expert.backward(rows, saved_expert) if len(rows) else rows
                 for expert, rows, saved_expert in zip(
                     self.experts, np.split(doutputs, ends), saved_rows)]
        return np.concatenate(drows)

    def describe(self):
        return Description("Mixture of experts", f"{len(self.experts)} experts, {self.k} for each "
                           f"token: {self.experts[0].describe().sizes}",
                           (r"dw_e = dy \cdot y_e", r"dy_e = w_e\,dy",
                            r"dx = \Sigma_e dx_e + dz\,W_r^\top"),
                           idle=tuple(self.experts[self.k:]))

    def describe_parts(self, reader, box):
        (*tokens, C), E = box.shape, len(self.experts)
        router = (reader.box((*tokens, reader.letter("E", E)), self.router, name="Router"),
                  reader.function((*tokens, self.k), "Top-k weights", MixtureOfExperts,
                                  f"{self.k} of {E} for each token",
                                  (r"dz = w\,(dw - \Sigma\,w\,dw)",)))
        found = [reader.box(box.shape, expert) for expert in self.experts]
        experts = reader.function((*tokens, self.k, C), "Experts", type(self.experts[0]),
                                  f"{E} feed-forwards, {found[0].detail}",
                                  (r"dx = \Sigma_e\,dx_e",))
        experts = experts._replace(parameters=sum(each.parameters for each in found))
        total = reader.function(box.shape, "Weighted sum of experts", MixtureOfExperts, "",
                                (r"dw_e = dy \cdot y_e", r"dy_e = w_e\,dy"))
        return Row((router, (experts,))), total
