# %% [markdown]
# # 6. Feed-forward, SwiGLU, mixture of experts
#
# Time: about 5 seconds on 2 cores.
#
# **Goals.** Know the other half of a block and its nonlinearities; see dead units; understand gates; see how a router sends tokens to
# experts and how its gradient passes.
#
# **Before.** Notebooks 4 and 5.

# %%
# %matplotlib inline
import numpy as np
from matplotlib.figure import Figure

from numformer import check
from numformer.functional import ACTIVATIONS, gated_linear_unit
from numformer.layers import FeedForward, MixtureOfExperts, SwiGLU
from numformer.models import Decoder, DecoderConfig, dead_units, hidden_activations
from numformer.plots import activation_histograms
from numformer.verify import gradcheck

# %% [markdown]
# ## Each position by itself
#
# $$y = f(x W_1 + b_1) W_2 + b_2$$
#
# Attention moves information between places; the feed-forward works on it in each place, with the same weights everywhere. With a
# hidden width of 4 C it holds two thirds of a block's parameters.

# %%
rng = np.random.default_rng(0)
layer = FeedForward(16, 64, "gelu", rng)
y = layer(rng.standard_normal((2, 5, 16)).astype(np.float32))
print(y.shape, f"{sum(p.data.size for p in layer.parameters()):,} parameters")

# %%
x = np.linspace(-4, 4, 401)
ax = Figure(figsize=(7, 3.6), layout="constrained").add_subplot()
for (name, (f, _)), line in zip(ACTIVATIONS.items(), ("-", "--", "-.", ":", (0, (1, 3)), (0, (5, 1)))):
    ax.plot(x, f(x)[0], linestyle=line, label=name)
ax.set(ylim=(-0.5, 4), xlabel="x", ylabel="f(x)", title="Nonlinearities")
ax.grid(alpha=0.3)
ax.legend()
ax.figure

# %% [markdown]
# A ReLU unit that is negative for every token passes no gradient: it is dead. GELU and SiLU have a slope nearly everywhere. Here a
# fifth of the units got a bias of -3, as a rash step may leave it behind:

# %%
ids, counts = rng.integers(0, 50, (8, 32)), {}
for name in ("relu", "gelu"):
    config = DecoderConfig(vocab_size=50, context_length=32, n_layers=2, n_heads=2, d_model=32, feedforward=name)
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
# One half opens and shuts the other: SwiGLU, LLaMA's choice. Three matrices instead of two, so the hidden width is 8/3 C.

# %%
def gated_linear_unit_backward(dy, g, h):
    s = 1 / (1 + np.exp(-g))
    return dy * h * (s + g * s * (1 - s)), dy * g * s                 # y = silu(g) h


print(gated_linear_unit(np.array([-2.0, 0.0, 2.0]), np.ones(3))[0].round(3))
print([f"{sum(p.data.size for p in each.parameters()):,}" for each in (FeedForward(96, 384, "gelu", rng, bias=False),
                                                                     SwiGLU(96, 256, rng, bias=False))])
check("gated_linear_unit_backward", gated_linear_unit_backward, seed=0)

# %% [markdown]
# ## A mixture of experts
#
# E feed-forwards, and a router that sends every token to k of them:
#
# $$y = \sum_{e \in \text{top } k} w_e\, \mathrm{expert}_e(x), \qquad w = \mathrm{softmax}(\text{the k largest of } x W_r)$$
#
# More parameters at the same cost a token. The choice itself has no gradient; but the weights $w_e$ have, and so the router learns
# which experts were good.

# %%
moe = MixtureOfExperts(8, 16, n_experts=4, k=2, activation="silu", rng=rng, gated=True, dtype=np.float64)
x = rng.standard_normal((2, 6, 8))
y, saved = moe.forward(x)
logits = x.reshape(-1, 8) @ moe.router.weight.data                    # (N, E)
chosen = np.argsort(-logits, axis=1)[:, :2]
print("tokens for each expert:", np.bincount(chosen.ravel(), minlength=4), " of", 2 * len(logits))
print("what balance asks for beside the loss:", float(moe.auxiliary_loss(saved)))

# %% [markdown]
# With k = E every expert is asked, and the mixture is a plain weighted sum:

# %%
everyone = MixtureOfExperts(8, 16, n_experts=4, k=4, activation="silu", rng=rng, dtype=np.float64)
w = np.exp(x @ everyone.router.weight.data)
w /= w.sum(axis=-1, keepdims=True)
print(np.abs(everyone(x) - sum(w[..., e, None] * expert(x) for e, expert in enumerate(everyone.experts))).max())

# %% [markdown]
# The gradient passes through gates and experts alike:

# %%
print(gradcheck(MixtureOfExperts(3, 4, 3, 2, "gelu", rng, dtype=np.float64), [rng.standard_normal((1, 4, 3))]).ok)

# %% [markdown]
# ## Exercises
#
# 1. How many parameters has a mixture of 8 experts with k = 2, and how many work for a token?
# 2. What happens without the balance loss if one expert is a little better at first?
# 3. Exercises `05`, `06`, `19` and `20`.
