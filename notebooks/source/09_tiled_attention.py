# %% [markdown]
# # 9. The online softmax, and attention in tiles
#
# Time: about 25 seconds on 2 cores.
#
# **Goals.** Compute a softmax in one pass; compute attention without storing the T x S weights;
# measure what this saves.
#
# **Before.** Notebook 2.

# %%
# %matplotlib inline
import math

import numpy as np

from numformer.backend import scaled_dot_product_attention, scaled_dot_product_attention_backward
from numformer.benchmarks.attention import Case, measure
from numformer.functional import (
    CAUSAL, attention_weights, tiled_attention, tiled_attention_backward, tiled_attention_steps)
from numformer.functional import scaled_dot_product_attention as reference
from numformer.functional import scaled_dot_product_attention_backward as reference_backward
from numformer.plots import attention_costs, tile_frames, tile_order

# %% [markdown]
# ## A softmax in one pass
#
# A numerically safe softmax first needs the largest score, then the sum, then the weights: three
# passes over all scores. But a partial sum computed with an old maximum can be rescaled: if the
# maximum rises from m to m', all sums so far are multiplied by $e^{m - m'}$.
#
# $$m' = \max(m, s), \qquad \ell' = e^{m - m'} \ell + e^{s - m'}, \qquad
# \mathrm{acc}' = e^{m - m'} \mathrm{acc} + e^{s - m'} v$$
#
# So the weighted mean of the values needs only one pass over the scores.

# %%
def online(scores, values):
    m, l, acc = -math.inf, 0.0, np.zeros(values.shape[1])
    for s, v in zip(scores, values):
        m_new = max(m, s)
        alpha, p = math.exp(m - m_new), math.exp(s - m_new)
        l, acc, m = alpha * l + p, alpha * acc + p * v, m_new
    return acc / l


rng = np.random.default_rng(0)
scores, values = 100 * rng.standard_normal(50), rng.standard_normal((50, 4))
weights = np.exp(scores - scores.max())
print(np.abs(online(scores, values) - weights @ values / weights.sum()).max())

# %% [markdown]
# ## Tiles
#
# Now process a tile of queries and a tile of keys at a time: only the scores of one tile exist at
# any moment. Causal attention skips the tiles above the diagonal.

# %%
q, k, v = 2 * rng.standard_normal((3, 1, 1, 8, 2))                    # (B, H, T, D)
steps = list(tiled_attention_steps(q, k, v, CAUSAL, tile=2))
tile_order(steps).figure

# %% [markdown]
# Three steps (skipped tiles are counted, too): the tiles processed so far, and the running values
# of each query. The earlier sums are multiplied by $\alpha = e^{m - m'}$. A row in bold was
# rescaled, because its maximum rose.

# %%
tile_frames(steps, (0, 1, 5)).figure

# %%
print(np.abs(tiled_attention(q, k, v, CAUSAL, tile=2)[0] - reference(q, k, v, CAUSAL)[0]).max())

# %% [markdown]
# (`numformer figures tiles` draws an animation.)
#
# ## What it saves
#
# With all weights stored, memory grows as $T^2$; with tiles it grows as T (two numbers per query;
# in this plot the tiles dominate). The plot compares the compiled kernel of this library with NumPy
# and all weights. Its memory shows what tiles save. Its times mix two effects, so they do not show
# what tiles alone contribute: the kernel is compiled and makes one pass where NumPy makes many, and
# its tiles fit into the processor's cache.

# %%
lengths, rows = (128, 512, 1024), []
for T in lengths:
    rows.append(measure(Case.parse(f"1x4x{T}x64:causal"), seconds=1.5))
milliseconds, extra_bytes = {}, {}
for name, prefix in (("all T x S weights, NumPy", "numpy_"), ("tiles, compiled", "")):
    milliseconds[name] = [row[f"{prefix}forward_ms"] + row[f"{prefix}backward_ms"] for row in rows]
    extra_bytes[name] = [row[f"{prefix}extra_bytes"] for row in rows]
attention_costs(lengths, milliseconds, extra_bytes).figure

# %% [markdown]
# ## The backward in tiles
#
# The backward needs the weights again, but it does not need them stored: it recomputes each tile's
# weights as $p_{ij} = e^{s_{ij} - L_i}$ from q, k and the log-sum-exp, $L_i = m_i + \log \ell_i$.
# The sum in the softmax's gradient, $\sum_j p_{ij} \bar{p}_{ij}$, equals $\bar{o}_i \cdot o_i$:
# one number per query.

# %%
q, k, v, do = rng.standard_normal((4, 1, 2, 40, 8))
p, o = attention_weights(q, k), reference(q, k, v)[0]                 # (B, H, T, S), (B, H, T, D)
print(p.shape, np.abs((p * (do @ v.mT)).sum(axis=-1) - (do * o).sum(axis=-1)).max())

# %% [markdown]
# The whole backward, one tile after the other, is in `numformer/functional/attention/tiled.py`:

# %%
gradients = tiled_attention_backward(do, tiled_attention(q, k, v, tile=16)[1])
expected_gradients = reference_backward(do, reference(q, k, v)[1])
for name, gradient, expected in zip("qkv", gradients, expected_gradients):
    print(f"d{name}: largest difference {np.abs(gradient - expected).max():.0e}")

# %% [markdown]
# ## Is the kernel right?
#
# NumPy is the reference. We compare the kernel with it on sizes that are not multiples of a tile:

# %%
for T, S in ((1, 1), (63, 63), (64, 65), (127, 200)):
    q, k, v = (rng.standard_normal((1, 2, n, 16)) for n in (T, S, S))
    y, expected = (attention(q, k, v, CAUSAL)[0]
                   for attention in (scaled_dot_product_attention, reference))
    print(T, S, np.abs(y - expected).max())

# %% [markdown]
# We compare its gradients with the complex step through the reference's forward alone:

# %%
q, k, v, do = rng.standard_normal((4, 1, 1, 9, 3))
_, saved = scaled_dot_product_attention(q, k, v, CAUSAL)
for argument, gradient in enumerate(scaled_dot_product_attention_backward(do, saved)):
    derivatives = np.zeros(gradient.shape)
    for index in np.ndindex(gradient.shape):
        z = [array.astype(complex) for array in (q, k, v)]
        z[argument][index] += 1e-30j
        derivatives[index] = (do * reference(*z, CAUSAL)[0]).sum().imag / 1e-30
    error = np.abs(gradient - derivatives).max()
    print("d" + "qkv"[argument], gradient.shape, f"largest error {error:.0e}")

# %% [markdown]
# ## Exercises
#
# 1. For which order of scores is nothing ever rescaled? For which order is every step rescaled?
# 2. How many tiles are skipped for T = 4096 and tiles of 64?
# 3. Exercise `35`.
