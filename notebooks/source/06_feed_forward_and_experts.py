# %% [markdown]
# # 6. Feed-forward, SwiGLU, mixture of experts
#
# Time: about 5 seconds on 2 cores.
#
# **Goals.** Know the second half of a block and its activation functions; see dead units;
# understand gates; see how a router assigns tokens to experts, and how the gradient reaches the
# router.
#
# **Before.** Notebooks 4 and 5.

# %%
# %matplotlib inline
import numpy as np
from matplotlib.figure import Figure

from numformer import check
from numformer.analysis import dead_units, hidden_activations
from numformer.functional import ACTIVATIONS, gated_linear_unit
from numformer.layers import FeedForward, MixtureOfExperts, SwiGLU
from numformer.models import Decoder, DecoderConfig
from numformer.plots import activation_histograms
from numformer.verify import gradcheck

# %% [markdown]
# ## The same function at every position
#
# $$y = f(x W_1 + b_1) W_2 + b_2$$
#
# Attention moves information between positions; the feed-forward network transforms each position
# separately, with the same weights everywhere. With a hidden width of 4 C it holds two thirds of a
# block's parameters.

# %%
rng = np.random.default_rng(0)
layer = FeedForward(16, 64, "gelu", rng)
y = layer(rng.standard_normal((2, 5, 16)).astype(np.float32))
print(y.shape, f"{sum(p.data.size for p in layer.parameters()):,} parameters")

# %%
x = np.linspace(-4, 4, 401)
ax = Figure(figsize=(7, 3.6), layout="constrained").add_subplot()
styles = ("-", "--", "-.", ":", (0, (1, 3)), (0, (5, 1)))
for (name, (f, _)), style in zip(ACTIVATIONS.items(), styles):
    ax.plot(x, f(x)[0], linestyle=style, label=name)
ax.set(ylim=(-0.5, 4), xlabel="x", ylabel="f(x)", title="Activation functions")
ax.grid(alpha=0.3)
ax.legend()
ax.figure

# %% [markdown]
# A ReLU unit whose input is negative for every token passes no gradient: it is dead. GELU and SiLU
# have a nonzero slope almost everywhere. Here we give a fifth of the units a bias of -3, as an
# overly large update can:

# %%
ids, counts = rng.integers(0, 50, (8, 32)), {}
for name in ("relu", "gelu"):
    config = DecoderConfig(vocab_size=50, context_length=32, n_layers=2, n_heads=2, d_model=32,
                           feedforward=name)
    model = Decoder(config, np.random.default_rng(0))
    for block in model.blocks:
        block.feedforward.hidden.bias.data[::5] = -3
    found = hidden_activations(model, ids)
    counts.update({f"{name}, {where}": a for where, a in found.items()})
activation_histograms(counts, {name: dead_units(a) for name, a in counts.items()}).figure

# %% [markdown]
# ## Gates
#
# $$y = \left( \mathrm{silu}(x W_1) \odot x W_2 \right) W_3$$
#
# One projection gates the other: this is SwiGLU, LLaMA's choice. It has three matrices instead of
# two, so the hidden width is 8/3 C for the same number of parameters.

# %%
def gated_linear_unit_backward(dy, g, h):
    s = 1 / (1 + np.exp(-g))
    return dy * h * (s + g * s * (1 - s)), dy * g * s                 # y = silu(g) h


print(gated_linear_unit(np.array([-2.0, 0.0, 2.0]), np.ones(3))[0].round(3))
both = FeedForward(96, 384, "gelu", rng, bias=False), SwiGLU(96, 256, rng, bias=False)
print([f"{sum(p.data.size for p in each.parameters()):,}" for each in both])
check("gated_linear_unit_backward", gated_linear_unit_backward, seed=0)

# %% [markdown]
# ## A mixture of experts
#
# A mixture has E feed-forward networks, and a router that sends every token to k of them:
#
# $$y = \sum_{e \in \text{top } k} w_e\, \mathrm{expert}_e(x), \qquad
# w = \mathrm{softmax}(\text{the k largest of } x W_r)$$
#
# It has more parameters at the same cost per token. The choice of experts is not differentiable,
# but the weights $w_e$ are; through them the router learns which experts reduce the loss.

# %%
moe = MixtureOfExperts(8, 16, n_experts=4, k=2, activation="silu", rng=rng, gated=True,
                       dtype=np.float64)
x = rng.standard_normal((2, 6, 8))                                    # (B, T, C)
y, saved = moe.forward(x)
logits = x.reshape(-1, 8) @ moe.router.weight.data                    # (N, E)
chosen = np.argsort(-logits, axis=1)[:, :2]                           # (N, k)
tokens = np.bincount(chosen.ravel(), minlength=4)                     # (E,)
print("tokens for each expert:", tokens, " of", 2 * len(logits))
print("load-balancing loss:", float(moe.auxiliary_loss(saved)))

# %% [markdown]
# With k = E every expert is used, and the mixture is a plain weighted sum:

# %%
dense = MixtureOfExperts(8, 16, n_experts=4, k=4, activation="silu", rng=rng, dtype=np.float64)
w = np.exp(x @ dense.router.weight.data)
w /= w.sum(axis=-1, keepdims=True)                                    # (B, T, E)
weighted = sum(w[..., e, None] * expert(x) for e, expert in enumerate(dense.experts))
print(np.abs(dense(x) - weighted).max())

# %% [markdown]
# The gradient passes through router and experts alike:

# %%
small = MixtureOfExperts(3, 4, 3, 2, "gelu", rng, dtype=np.float64)
print(gradcheck(small, [rng.standard_normal((1, 4, 3))]).ok)

# %% [markdown]
# ## Exercises
#
# 1. How many parameters does a mixture of 8 experts with k = 2 have, and how many are active per
#    token?
# 2. What happens without the load-balancing loss if one expert is slightly better at first?
# 3. Exercises `05`, `06`, `19` and `20`.
