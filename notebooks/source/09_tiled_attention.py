# %% [markdown]
# # 9. The online softmax, and attention in tiles
#
# Time: about 25 seconds on 2 cores.
#
# **Goals.** Compute a softmax in one pass; see how attention does without its T x S weights; count what that saves.
#
# **Before.** Notebook 2.

# %%
# %matplotlib inline
import math

import numpy as np

from numformer.backend import scaled_dot_product_attention, scaled_dot_product_attention_backward
from numformer.benchmarks.attention import Case, measure
from numformer.functional import CAUSAL, attention_weights, tiled_attention, tiled_attention_steps
from numformer.functional import scaled_dot_product_attention as truth
from numformer.plots import attention_costs, tile_frames, tile_order

# %% [markdown]
# ## A softmax in one pass
#
# The safe softmax needs the largest score first, then the sum, then the weights: three passes over all scores. But a sum that was made
# with an old maximum can be mended: if the maximum rises from m to m', everything summed so far shrinks by $e^{m - m'}$.
#
# $$m' = \max(m, s), \qquad \ell' = e^{m - m'} \ell + e^{s - m'}, \qquad \mathrm{acc}' = e^{m - m'} \mathrm{acc} + e^{s - m'} v$$
#
# So the weighted mean of the values needs no second look at any score.

# %%
def online(scores, values):
    m, l, acc = -math.inf, 0.0, np.zeros(values.shape[1])
    for s, v in zip(scores, values):
        risen = max(m, s)
        shrink = math.exp(m - risen)
        l, acc, m = shrink * l + math.exp(s - risen), shrink * acc + math.exp(s - risen) * v, risen
    return acc / l


rng = np.random.default_rng(0)
scores, values = 100 * rng.standard_normal(50), rng.standard_normal((50, 4))
weights = np.exp(scores - scores.max())
print(np.abs(online(scores, values) - weights @ values / weights.sum()).max())

# %% [markdown]
# ## Tiles
#
# Do it for a tile of queries and a tile of keys at a time: the scores of one tile are all that there ever is. Causal attention never
# looks at tiles above the diagonal.

# %%
q, k, v = 2 * rng.standard_normal((3, 1, 1, 8, 2))                    # (B, H, T, D)
steps = list(tiled_attention_steps(q, k, v, CAUSAL, tile=2))
tile_order(steps).figure

# %% [markdown]
# Three moments, skipped tiles counted too: what was seen so far, and what is kept of each query. $\alpha = e^{m - m'}$ is what the sums
# so far shrink by. Where the maximum rose, the row is bold: it was rescaled.

# %%
tile_frames(steps, (0, 1, 5)).figure

# %%
print(np.abs(tiled_attention(q, k, v, CAUSAL, tile=2) - truth(q, k, v, CAUSAL)[0]).max())

# %% [markdown]
# (`numformer figures tiles` makes a film of it.)
#
# ## What it saves
#
# With all weights memory grows with $T^2$; in tiles it grows with T (two numbers a query, so little that the tiles themselves are all
# that is seen here). And because a tile fits into the processor's cache, it is faster, too. The compiled kernel of this library beside
# NumPy with all weights:

# %%
lengths, rows = (128, 512, 1024), []
for T in lengths:
    rows.append(measure(Case.parse(f"1x4x{T}x64:causal"), seconds=1.5))
named = (("all T x S weights, NumPy", "numpy_"), ("tiles, compiled", ""))
attention_costs(lengths, {name: [row[f"{prefix}forward_ms"] + row[f"{prefix}backward_ms"] for row in rows] for name, prefix in named},
                {name: [row[f"{prefix}extra_bytes"] for row in rows] for name, prefix in named}).figure

# %% [markdown]
# ## The backward in tiles
#
# It needs the weights again, but not stored: from q, k and the logarithm of the sum, $L_i = m_i + \log \ell_i$, each tile's weights
# come back as $p_{ij} = e^{s_{ij} - L_i}$. And the sum in the softmax's gradient, $\sum_j p_{ij} \bar{p}_{ij}$, is $\bar{o}_i \cdot
# o_i$: one number a query.

# %%
q, k, v, do = rng.standard_normal((4, 1, 2, 40, 8))
p, o = attention_weights(q, k), truth(q, k, v)[0]
print(p.shape, np.abs((p * (do @ v.mT)).sum(axis=-1) - (do * o).sum(axis=-1)).max())       # (B, H, T, S) is needed no more

# %% [markdown]
# ## Is the kernel right?
#
# NumPy is the truth; the kernel is held against it on ragged sizes:

# %%
for T, S in ((1, 1), (63, 63), (64, 65), (127, 200)):
    q, k, v = rng.standard_normal((1, 2, T, 16)), rng.standard_normal((1, 2, S, 16)), rng.standard_normal((1, 2, S, 16))
    print(T, S, np.abs(scaled_dot_product_attention(q, k, v, CAUSAL)[0] - truth(q, k, v, CAUSAL)[0]).max())

# %% [markdown]
# Its gradients, against the complex step through the truth, which knows no backward at all:

# %%
q, k, v, do = rng.standard_normal((4, 1, 1, 9, 3))
_, saved = scaled_dot_product_attention(q, k, v, CAUSAL)
for place, gradient in enumerate(scaled_dot_product_attention_backward(do, saved)):
    derivatives = np.zeros(gradient.shape)
    for index in np.ndindex(gradient.shape):
        z = [array.astype(complex) for array in (q, k, v)]
        z[place][index] += 1e-30j
        derivatives[index] = (do * truth(*z, CAUSAL)[0]).sum().imag / 1e-30
    print("d" + "qkv"[place], gradient.shape, f"largest error {np.abs(gradient - derivatives).max():.0e}")

# %% [markdown]
# ## Exercises
#
# 1. In which order of scores is there never a rescaling? In which order always?
# 2. How many tiles are skipped for T = 4096 and tiles of 64?
# 3. Exercise `35`.
