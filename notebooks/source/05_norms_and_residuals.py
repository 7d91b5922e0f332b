# %% [markdown]
# # 5. Norms and residuals
#
# Time: about 15 seconds on 2 cores.
#
# **Goals.** Know LayerNorm, RMSNorm and BatchNorm, and over which axis each runs; derive LayerNorm's gradient; see what the place of
# the norm does to a deep model's gradients.
#
# **Before.** Notebook 2; the chain rule.

# %%
# %matplotlib inline
import numpy as np

from numformer import check
from numformer.functional import layer_norm, rms_norm
from numformer.layers import BatchNorm
from numformer.models import TRANSFORMER_2017, Decoder, DecoderConfig, gradient_by_block, residual_stream
from numformer.plots import gradient_flow, residual_norms

# %% [markdown]
# ## Over which axis?
#
# $$\hat{x} = \frac{x - \mu}{\sqrt{\sigma^2 + \epsilon}}, \qquad y = \gamma \hat{x} + \beta$$
#
# LayerNorm takes mean and variance over the coordinates of **each vector**; BatchNorm over the batch, for **each coordinate**; RMSNorm
# leaves the mean alone.

# %%
rng = np.random.default_rng(0)
x = 3 + 2 * rng.standard_normal((4, 6, 8))                            # (B, T, C)
gain, shift = np.ones(8), np.zeros(8)
y, _ = layer_norm(x, gain, shift)
print("LayerNorm: means of vectors    ", np.abs(y.mean(axis=-1)).max().round(12))
z, _ = rms_norm(x, gain)
print("RMSNorm:   lengths / sqrt(C)   ", np.sqrt((z * z).mean(axis=-1)).round(4).min(), "mean", z.mean().round(2))
norm = BatchNorm(8, dtype=np.float64)
print("BatchNorm: means of coordinates", np.abs(norm(x).mean(axis=(0, 1))).max().round(12))

# %% [markdown]
# A sequence in a batch must not depend on its neighbours, and a decoder writes one token at a time: BatchNorm fits neither.
#
# ## The gradient of LayerNorm, derived
#
# Let $r = (\sigma^2 + \epsilon)^{-1/2}$ and $g = \gamma \bar{y}$, all over one vector of C numbers. x reaches $\hat{x} = (x - \mu) r$
# in three ways:
#
# - directly: $\bar{x}_j \ni r\, g_j$
# - through the mean, $\mu = \langle x \rangle$, so $\partial \mu / \partial x_j = 1 / C$: $\bar{x}_j \ni -r \langle g \rangle$
# - through the variance: $\partial r / \partial x_j = -r^3 (x_j - \mu) / C$, and $\sum_i g_i (x_i - \mu) = \sum_i g_i \hat{x}_i / r$:
#   $\bar{x}_j \ni -r\, \hat{x}_j \langle g \hat{x} \rangle$
#
# $$\bar{x} = r \left( g - \langle g \rangle - \hat{x} \langle g \hat{x} \rangle \right)$$
#
# The last two terms take away what a shift or a stretch of x would change: nothing.
#
# ## Is it right?

# %%
def layer_norm_backward(dy, x, gain, shift):
    centred = x - x.mean(axis=-1, keepdims=True)
    r = ((centred * centred).mean(axis=-1, keepdims=True) + 1e-5) ** -0.5
    x_hat, g, rows = centred * r, gain * dy, tuple(range(x.ndim - 1))
    dx = r * (g - g.mean(axis=-1, keepdims=True) - x_hat * (g * x_hat).mean(axis=-1, keepdims=True))
    return dx, (dy * x_hat).sum(axis=rows), dy.sum(axis=rows)


check("layer_norm_backward", layer_norm_backward, seed=0)

# %% [markdown]
# Two properties to see by eye: dx sums to 0, and is orthogonal to $\hat{x}$ (but for epsilon).

# %%
x, dy = rng.standard_normal((2, 5, 8))
dx, _, _ = layer_norm_backward(dy, x, gain, shift)
print(np.abs(dx.sum(axis=-1)).max(), np.abs((dx * layer_norm(x, gain, shift)[0]).sum(axis=-1)).max())

# %% [markdown]
# ## Residuals, and where the norm stands
#
# A block adds to its input: $x + f(x)$ has the gradient $1 + f'$, so a gradient always finds a way back. In 2017 the norm stood
# **after** the sum, in everybody's way; since GPT-2 it stands **before** the branch:
#
# $$\text{post: } \mathrm{norm}(x + f(x)) \qquad\qquad \text{pre: } x + f(\mathrm{norm}(x))$$

# %%
ids, flows, streams, L = rng.integers(0, 50, (8, 33)), {}, {}, 24
for name, norm_first in (("pre-norm", True), ("post-norm", False)):
    choices = {**TRANSFORMER_2017, "norm_first": norm_first, "init_std": 64 ** -0.5}
    config = DecoderConfig(**choices, vocab_size=50, context_length=32, n_layers=L, n_heads=4, d_model=64)
    draws = []
    for seed in range(3):
        model = Decoder(config, np.random.default_rng(seed))
        for block in model.blocks:                                    # a branch half as strong as the stream, whatever the depth
            block.attention.output.weight.data *= np.float32((2 * L) ** 0.5 / 2)
            block.feedforward.output.weight.data *= np.float32((2 * L) ** 0.5 / 4)
        draws.append(gradient_by_block(model, (ids[:, :-1], ids[:, 1:]))["blocks"])
    flows[name] = np.mean(draws, axis=0)                              # (L,)
    streams[name] = residual_stream(model, ids[:, :-1])["blocks"]     # L + 1 arrays (B, T, C)
gradient_flow(flows).figure

# %% [markdown]
# Before the first step, as a mean of three draws (one alone wavers), the gradients of post-norm blocks grow towards the loss: large
# first steps would ruin the last blocks, so that Transformer warms up slowly (Xiong et al. 2020, figure 3). Pre-norm's fall with depth,
# and at the end are several times as short. The price: the residual stream grows.

# %%
residual_norms(streams).figure

# %% [markdown]
# ## Exercises
#
# 1. What is RMSNorm's gradient? (Which of the three ways is gone?)
# 2. Why does a post-norm model need no last norm before its head, and a pre-norm one does?
# 3. Exercises `09` to `12`, `26` and `34`.
