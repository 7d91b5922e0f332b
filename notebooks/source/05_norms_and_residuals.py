# %% [markdown]
# # 5. Norms and residuals
#
# Time: about 15 seconds on 2 cores.
#
# **Goals.** Know LayerNorm, RMSNorm and BatchNorm, and the axis over which each normalises; derive
# the gradient of LayerNorm; see how the position of the norm affects the gradients of a deep model.
#
# **Before.** Notebook 2; the chain rule.

# %%
# %matplotlib inline
import numpy as np

from numformer import check
from numformer.analysis import gradient_norm_by_block, residual_stream
from numformer.functional import layer_norm, rms_norm
from numformer.layers import BatchNorm
from numformer.models import TRANSFORMER_2017, Decoder, DecoderConfig
from numformer.plots import gradient_flow, residual_norms

# %% [markdown]
# ## Over which axis?
#
# $$\hat{x} = \frac{x - \mu}{\sqrt{\sigma^2 + \epsilon}}, \qquad y = \gamma \hat{x} + \beta$$
#
# LayerNorm computes mean and variance over the coordinates of **each vector**; BatchNorm over the
# batch, for **each coordinate**; RMSNorm does not subtract the mean.

# %%
rng = np.random.default_rng(0)
x = 3 + 2 * rng.standard_normal((4, 6, 8))                            # (B, T, C)
weight, bias = np.ones(8), np.zeros(8)
y, _ = layer_norm(x, weight, bias)
print("LayerNorm: means of vectors    ", np.abs(y.mean(axis=-1)).max().round(12))
z, _ = rms_norm(x, weight)
print("RMSNorm:   norms / sqrt(C)     ", np.sqrt((z * z).mean(axis=-1)).round(4).min(),
      "mean", z.mean().round(2))
norm = BatchNorm(8, dtype=np.float64)
print("BatchNorm: means of coordinates", np.abs(norm(x).mean(axis=(0, 1))).max().round(12))

# %% [markdown]
# The output for one sequence must not depend on the others in its batch, and a decoder generates
# one token at a time. BatchNorm suits neither.
#
# ## The gradient of LayerNorm, derived
#
# Let $r = (\sigma^2 + \epsilon)^{-1/2}$ and $g = \gamma \bar{y}$, and let $\langle \cdot \rangle$
# be the mean over the C coordinates of one vector. There are three paths from x to $\hat{x} = (x -
# \mu) r$:
#
# - directly: $\bar{x}_j \ni r\, g_j$
# - through the mean, $\mu = \langle x \rangle$, so $\partial \mu / \partial x_j = 1 / C$:
#   $\bar{x}_j \ni -r \langle g \rangle$
# - through the variance: $\partial r / \partial x_j = -r^3 (x_j - \mu) / C$, and $\sum_i g_i (x_i -
#   \mu) = \sum_i g_i \hat{x}_i / r$: $\bar{x}_j \ni -r\, \hat{x}_j \langle g \hat{x} \rangle$
#
# $$\bar{x} = r \left( g - \langle g \rangle - \hat{x} \langle g \hat{x} \rangle \right)$$
#
# The last two terms remove the components along a shift and along a scaling of x, because neither
# changes $\hat{x}$.
#
# ## Is it right?

# %%
def layer_norm_backward(dy, x, weight, bias):
    centred = x - x.mean(axis=-1, keepdims=True)
    r = ((centred * centred).mean(axis=-1, keepdims=True) + 1e-5) ** -0.5
    x_hat, g, rows = centred * r, weight * dy, tuple(range(x.ndim - 1))
    dx = r * (g - g.mean(axis=-1, keepdims=True) - x_hat * (g * x_hat).mean(axis=-1, keepdims=True))
    return dx, (dy * x_hat).sum(axis=rows), dy.sum(axis=rows)


check("layer_norm_backward", layer_norm_backward, seed=0)

# %% [markdown]
# Two properties that are easy to verify: dx sums to 0, and it is orthogonal to $\hat{x}$ (up to
# epsilon).

# %%
x, dy = rng.standard_normal((2, 5, 8))
dx, _, _ = layer_norm_backward(dy, x, weight, bias)
x_hat, _ = layer_norm(x, weight, bias)
print(np.abs(dx.sum(axis=-1)).max(), np.abs((dx * x_hat).sum(axis=-1)).max())

# %% [markdown]
# ## Residuals, and the position of the norm
#
# A residual branch adds to its input: $x + f(x)$ has the derivative $1 + f'$, so the gradient
# always has a direct path back. The 2017 Transformer normalises **after** the addition, so every
# gradient passes through the norm; since GPT-2 the norm is **before** the branch:
#
# $$\text{post: } \mathrm{norm}(x + f(x)) \qquad\qquad \text{pre: } x + f(\mathrm{norm}(x))$$

# %%
ids, flows, streams, L = rng.integers(0, 50, (8, 33)), {}, {}, 24
for name, norm_first in (("pre-norm", True), ("post-norm", False)):
    choices = {**TRANSFORMER_2017, "norm_first": norm_first, "init_std": 64 ** -0.5}
    config = DecoderConfig(**choices, vocab_size=50, context_length=32, n_layers=L, n_heads=4,
                           d_model=64)
    runs = []
    for seed in range(3):
        model = Decoder(config, np.random.default_rng(seed))
        for block in model.blocks:        # makes each branch half as large as the residual stream
            block.attention.output.weight.data *= np.float32((2 * L) ** 0.5 / 2)
            block.feedforward.output.weight.data *= np.float32((2 * L) ** 0.5 / 4)
        runs.append(gradient_norm_by_block(model, (ids[:, :-1], ids[:, 1:]))["blocks"])
    flows[name] = np.mean(runs, axis=0)                               # (L,)
    streams[name] = residual_stream(model, ids[:, :-1])["blocks"]     # L + 1 arrays (B, T, C)
gradient_flow(flows).figure

# %% [markdown]
# The picture is taken at initialisation and averaged over three seeds (a single seed is noisy). The
# gradients of post-norm blocks grow towards the loss. Large first steps would ruin the last blocks,
# so the 2017 Transformer needs a slow warm-up (Xiong et al. 2020, figure 3). The gradients of
# pre-norm blocks fall with depth and are several times smaller in the last block. The price: the
# residual stream grows.

# %%
residual_norms(streams).figure

# %% [markdown]
# ## Exercises
#
# 1. What is the gradient of RMSNorm? (Which of the three paths is missing?)
# 2. Why does a pre-norm model need a final norm before its head, and a post-norm model none?
# 3. Exercises `09` to `12`, `26` and `34`.
