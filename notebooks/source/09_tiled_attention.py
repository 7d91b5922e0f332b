# %% [markdown]
# # 9. The online softmax, and attention in tiles
#
# **Question.** Attention to 16,384 tokens with 8 heads has two billion weights: 8.6 GB in float32,
# for one layer. How can it be computed exactly without ever storing them?
#
# **You will learn** to
#
# - explain which parts of self-attention grow with the square of the length;
# - derive and implement a softmax that reads its scores once;
# - implement attention, forward and backward, one tile at a time;
# - derive why two numbers per query replace a whole row of weights in the backward;
# - measure what tiles save, and what they do not.
#
# **You need** lessons 2 and 7 (attention and its gradient), exponentials and logarithms.
#
# **Time.** 2 x 45 minutes; the cells run in about 20 seconds.

# %% tags=["setup"]
# %matplotlib inline
import math
import time
import tracemalloc

import numpy as np
from matplotlib.figure import Figure

from numformer import backend, check, hint, solution
from numformer.functional import (
    CAUSAL, scaled_dot_product_attention, scaled_dot_product_attention_backward, tiled_attention,
    tiled_attention_backward, tiled_attention_steps)
from numformer.plots import attention_costs, tile_frames, tile_order

rng = np.random.default_rng(0)

# %% [markdown] minutes=15
# ## Four matrix products, two of them quadratic
#
# How does the work of self-attention depend on the number of tokens? The picture counts the
# multiplications of a layer of width C = 512, split into the two kinds that we find below.

# %%
lengths, C = 2 ** np.arange(6, 16), 512
# %% tags=["hide-input"]
ax = Figure(figsize=(6.4, 3.4), layout="constrained").add_subplot()
ax.plot(lengths, 4 * lengths * C ** 2, "-", label="projections: $4 T C^2$")
ax.plot(lengths, 2 * lengths ** 2 * C, "--", label="scores and outputs: $2 T^2 C$")
ax.axvline(2 * C, color="gray", linewidth=1, linestyle=":", label="T = 2 C")
ax.set(xscale="log", yscale="log", xlabel="number of tokens T", ylabel="multiplications")
ax.set_xscale("log", base=2)
ax.legend()
ax.figure

# %% [markdown]
# Self-attention with H heads of width D is four matrix products. An input has T vectors of width C,
# usually C = H D:
#
# | product | shapes | multiplications |
# |---|---|---|
# | queries, keys, values | (T, C) (C, 3 H D) → (T, 3 H D) | $3\, T C H D$ |
# | scores | (H, T, D) (H, D, T) → (H, T, T) | $H T^2 D$ |
# | outputs of the heads | (H, T, T) (H, T, D) → (H, T, D) | $H T^2 D$ |
# | output projection | (T, H D) (H D, C) → (T, C) | $T C H D$ |
#
# $$4\, T C^2 \;\text{(projections)} + 2\, T^2 C \;\text{(scores and outputs)}
# \qquad \text{for } H D = C$$
#
# In return, every output depends directly on all inputs, and all outputs are computed in parallel;
# a recurrent network needs work proportional to T, but one step after the other (lesson 1). The
# second part is larger as soon as $T > 2 C$. And between the two middle products are the weights, H
# T² numbers. With H = 8 and T = 16,384 they fill 8.6 GB; the queries, keys, values and outputs of
# the layer, with C = 512, fill 0.13 GB.
#
# > Attention needs O(T²) computation. It seems to need O(T²) memory, too, but only because the
# > softmax of a row is taken to need the whole row at once.
#
# In training this matters even more, because the attention weights of every layer are kept until
# the backward needs them. So the idea: combine the second product, the softmax and the third
# product, a few rows and columns at a time, and never store the matrix between them. This is
# *FlashAttention*. The outputs are the same up to rounding; nothing is approximated. The obstacle
# is the softmax: its denominator is known only after the last key.

# %% [markdown] minutes=20
# ## A softmax in one pass
#
# A safe softmax subtracts the largest score before the exponential, or $e^{s}$ overflows. That
# seems to take three passes over the scores: for the maximum, for the sum, for the weights. The
# picture shows another way. It reads 40 scores from left to right and keeps two running numbers:
# the largest score so far, m, and the sum of the exponentials relative to it, $\ell$. Where m rises
# by much, $\ell$ drops, because all earlier terms have become small compared with the new maximum.

# %%
scores = 3 * rng.standard_normal(40)
m, l, history = -math.inf, 0.0, []
for s in scores:
    m_new = max(m, s)
    l, m = math.exp(m - m_new) * l + math.exp(s - m_new), m_new
    history.append((s, m, l))
# %% tags=["hide-input"]
above, below = Figure(figsize=(7, 4), layout="constrained").subplots(2, 1, sharex=True)
s, m, l = np.transpose(history)
above.plot(s, "o", markersize=4, label="score s")
above.step(range(40), m, where="post", label="maximum so far, m")
above.legend()
below.step(range(40), l, where="post", color="#c8500a", label="sum so far, $\\ell$")
below.legend()
below.set(xlabel="key")
above.figure

# %% [markdown]
# > A sum of exponentials that was computed with an old maximum m can be rescaled to a new one:
# > multiply it by $e^{m - m'}$.
#
# For one query with scores $s_1, s_2, \dots$ and values $v_1, v_2, \dots$, each (D,), we keep after
# j keys
#
# $$m = \max_{i \le j} s_i, \qquad \ell = \sum_{i \le j} e^{s_i - m}, \qquad
# a = \sum_{i \le j} e^{s_i - m}\, v_i$$
#
# with m and $\ell$ numbers and a: (D,). Now the next score s arrives with the value v. The new
# maximum is
#
# $$m' = \max(m, s)$$
#
# $$\sum_{i \le j} e^{s_i - m'} = \sum_{i \le j} e^{s_i - m}\, e^{m - m'} = e^{m - m'}\, \ell
# \qquad \text{(split the exponent; the factor leaves the sum)}$$
#
# $$\ell' = e^{m - m'}\, \ell + e^{s - m'} \qquad \text{(add the new term)}$$
#
# $$a' = e^{m - m'}\, a + e^{s - m'}\, v \qquad \text{(the same, with values)}$$
#
# $$o = \frac{a}{\ell} = \sum_i \frac{e^{s_i - m}}{\sum_j e^{s_j - m}}\, v_i
# \qquad \text{(at the end: the softmax-weighted mean)}$$
#
# No exponent is ever positive, so nothing overflows. This is the *online softmax*.

# %%
def online_attention(scores, values):
    m, l, a = -math.inf, 0.0, np.zeros(values.shape[1])
    for s, v in zip(scores, values):
        m_new = max(m, s)
        alpha, p = math.exp(m - m_new), math.exp(s - m_new)
        l, a, m = alpha * l + p, alpha * a + p * v, m_new
    return a / l


scores, values = 1000 + 3 * rng.standard_normal(50), rng.standard_normal((50, 4))
weights = np.exp(scores - scores.max())
difference = online_attention(scores, values) - weights @ values / weights.sum()
print(f"largest difference from the softmax in three passes: {np.abs(difference).max():.0e}")

# %% [markdown]
# **Exercise 9.1** (10 minutes). The same idea saves memory at the other end of a language model.
# The loss, $\log \sum_v e^{z_v} - z_y$ averaged over all targets y, needs the log-sum-exp of the
# logits z over a large vocabulary. Write it with a loop over classes, `logits[..., v]`, that keeps
# only m and $\ell$, with logits: (..., V), targets: (...), any axes before the classes. `check`
# tests the loss, but not the loop: whether yours needs memory for one class at a time, you have to
# see yourself. `hint("softmax_cross_entropy")` helps; after a pass,
# `solution("softmax_cross_entropy")` shows ours.

# %%
def softmax_cross_entropy(logits, targets):
    """logits (..., V), any axes before the classes; targets (...). Return the mean loss."""
    ...


check("softmax_cross_entropy", softmax_cross_entropy, seed=0)

# %% [markdown] minutes=15
# ## Attention in tiles
#
# One key at a time is slow; processors want matrix products. So take a *tile*: some queries and
# some keys. Its scores are a small matrix that fits into the processor's cache. Walk through the
# keys tile by tile, then go on to the next queries. The numbers show the order for 8 queries and 8
# keys in tiles of 2; "rescaled" counts the queries whose maximum rose in that tile. Attention is
# causal here, so the tiles above the diagonal are hatched: no query in them may attend to a key,
# and they are skipped.

# %%
q, k, v = 2 * rng.standard_normal((3, 1, 1, 8, 2))                    # (B, H, T, D)
steps = list(tiled_attention_steps(q, k, v, CAUSAL, tile=2))
# %% tags=["hide-input"]
tile_order(steps).figure

# %% [markdown]
# Two of the steps, with the running numbers of the last two queries: the first tile of keys, then
# the second. (Steps count the skipped tiles, too: steps 13 and 14 of 16 are the tiles 7 and 8
# above.) The columns acc hold the two coordinates of the weighted sum of values, called a above.
# The column $\alpha = e^{m - m'}$ is the factor that rescales the sums before the tile: 0 at the
# first tile, where there are none yet, and below 1 where the maximum rose. These rows are in bold.

# %% tags=["hide-input"]
tile_frames(steps, (12, 13)).figure

# %% [markdown]
# > With a tile of scores in place of one score, the online softmax stays the same: a maximum, a sum
# > and a weighted sum of values for each query, rescaled from tile to tile.
#
# For a tile of I queries and J keys, with m and $\ell$: (I, 1), a: (I, D), and weights p that are
# not yet divided by their sum:
#
# $$s = q\, k^\top / \sqrt{D}: (I, J), \qquad m' = \max(m, \max_j s_{ij}), \qquad
# p = e^{s - m'}: (I, J)$$
#
# $$\ell' = e^{m - m'} \ell + \textstyle\sum_j p_{ij}, \qquad a' = e^{m - m'} a + p\, v$$

# %%
def attention(q, k, v, tile=4):
    """The output (B, H, T, D) and the log-sum-exp of the scores (B, H, T, 1)."""
    (B, H, T, D), S = q.shape, k.shape[2]
    o, lse = np.zeros((B, H, T, v.shape[3]), q.dtype), np.zeros((B, H, T, 1), q.dtype)
    for i in range(0, T, tile):
        m, l, a = np.full_like(lse[:, :, i:i + tile], -np.inf), 0, 0
        for j in range(0, S, tile):
            s = q[:, :, i:i + tile] @ k[:, :, j:j + tile].mT * D ** -0.5      # (B, H, I, J)
            m_new = np.maximum(m, s.max(axis=-1, keepdims=True))
            alpha, p = np.exp(m - m_new), np.exp(s - m_new)
            l = alpha * l + p.sum(axis=-1, keepdims=True)
            a = alpha * a + p @ v[:, :, j:j + tile]
            m = m_new
        o[:, :, i:i + tile], lse[:, :, i:i + tile] = a / l, m + np.log(l)
    return o, lse


check("attention", attention, seed=0)

# %% [markdown] minutes=20
# ## The backward: recompute, do not store
#
# The backward of lesson 7 needs the weights p again, in two of its lines:
#
# $$\bar{v} = p^\top \bar{o}, \qquad \bar{p} = \bar{o}\, v^\top, \qquad
# \bar{s}_{ij} = p_{ij} ( \bar{p}_{ij} - \Delta_i ), \quad \Delta_i = \sum_j p_{ij} \bar{p}_{ij},
# \qquad \bar{q} = \frac{\bar{s}\, k}{\sqrt{D}}, \qquad \bar{k} = \frac{\bar{s}^\top q}{\sqrt{D}}$$
#
# Here $\bar{x} = \partial L / \partial x$, named `dx` in code, q, o: (T, D), k, v: (S, D) and p,
# $\bar{p}$, $\bar{s}$: (T, S). Two steps make this possible in tiles. **First**, the weights of a
# tile follow from q, k and one number per query, its log-sum-exp $\Lambda_i$ (`lse` in code):
#
# $$\Lambda_i = \log \sum_j e^{s_{ij}} = m_i + \log \ell_i
# \qquad \text{(both are known after the forward)}$$
#
# $$p_{ij} = e^{s_{ij}} / e^{\Lambda_i} = e^{s_{ij} - \Lambda_i}
# \qquad \text{(a quotient of exponentials)}$$
#
# **Second**, the sum $\Delta_i$ in the softmax's gradient (`delta` in code) runs over a whole row.
# But
#
# $$\Delta_i = \sum_j p_{ij} \bar{p}_{ij} = \sum_j p_{ij} \sum_d \bar{o}_{id} v_{jd}
# \qquad \text{(insert } \bar{p} = \bar{o} v^\top \text{)}$$
#
# $$\Delta_i = \sum_d \bar{o}_{id} \sum_j p_{ij} v_{jd} = \sum_d \bar{o}_{id}\, o_{id}
# \qquad \text{(exchange the sums; the inner one is the output)}$$
#
# > The backward computes each tile of weights a second time. Two numbers per query, the log-sum-exp
# > and the product of the output with its gradient, replace everything else that a row would
# > supply.

# %%
def attention_backward(do, q, k, v, tile=4):
    o, lse = attention(q, k, v)
    delta = (do * o).sum(axis=-1, keepdims=True)                      # (B, H, T, 1)
    dq, dk, dv, scale = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v), q.shape[3] ** -0.5
    for i in range(0, q.shape[2], tile):
        rows = np.s_[:, :, i:i + tile]
        for j in range(0, k.shape[2], tile):
            keys = np.s_[:, :, j:j + tile]
            p = np.exp(q[rows] @ k[keys].mT * scale - lse[rows])      # (B, H, I, J)
            dv[keys] += p.mT @ do[rows]                               # o = p v
            ds = p * (do[rows] @ v[keys].mT - delta[rows])            # p = softmax(s)
            dq[rows] += ds @ k[keys] * scale                          # s = scale q k^T
            dk[keys] += ds.mT @ q[rows] * scale
    return dq, dk, dv


check("attention_backward", attention_backward, seed=0)

# %% [markdown]
# A key is used by all queries, and a query by all keys, so the gradients of both add up over the
# tiles. The scores are computed by exactly the same expression as in the forward: another order of
# operations would round differently, and for large scores $s - \Lambda$ would lose digits. The
# price of recomputing is one more product for each tile, five in the backward instead of four. On
# graphics processors, Dao et al. (2022) found the backward faster nevertheless, because far fewer
# numbers are written to memory and read again.
#
# **Exercise 9.2** (10 minutes). The log-sum-exp has a gradient of its own. Language models
# sometimes add the *z-loss*, $L = \frac{1}{N} \sum_n \Lambda_n^2$ with $\Lambda_n = \log \sum_v
# e^{z_{nv}}$ and logits z: (N, V). Derive and write its gradient: first $\partial \Lambda_n /
# \partial z_{nv}$. (`dloss` is a factor, as in lesson 7.) `hint("z_loss_backward")` helps; after a
# pass, `solution("z_loss_backward")` shows ours.

# %%
def z_loss_backward(dloss, logits):
    """logits (N, V). Return dlogits."""
    ...


check("z_loss_backward", z_loss_backward, seed=0)

# %% [markdown]
# Where does such a function, a *kernel*, belong in a model? In this block of Llama 2 it replaces
# two boxes of the left column, *Attention weights* (blue) and *Weighted sum of values* above it, by
# one. The matrix of shape (B, H, T, T) between them is never stored.

# %% tags=["hide-input"]
from numformer.models import CONFIGS
from numformer.plots import architecture_diagram

architecture_diagram(CONFIGS["llama2-7b"], block=1, title="Llama 2").figure

# %% [markdown] minutes=15
# ## Experiment: what tiles save
#
# **We expect** that the memory of attention with all weights stored grows as T², and that of tiles
# as T. The time should grow as T² for both: tiles skip the half above the diagonal, but of the rest
# they save no product. We measure forward and backward of one causal head with D = 64: written out
# in NumPy, in tiles of 64 in NumPy, and in tiles compiled for the processor by Numba.

# %% tags=["setup"]
def costs(forward, backward, T):
    """(milliseconds of one thread, bytes that NumPy allocates) of a forward and a backward."""
    q, k, v, do = rng.standard_normal((4, 1, 1, T, 64), np.float32)

    def both():
        backward(do, forward(q, k, v, CAUSAL)[1])

    with backend.one_blas_thread():
        both()
        tracemalloc.start()
        both()
        peak, times = tracemalloc.get_traced_memory()[1], []
        tracemalloc.stop()
        for _ in range(3):
            started = time.process_time()
            both()
            times.append(time.process_time() - started)
    return 1000 * min(times), peak

# %%
lengths, milliseconds, peaks = (256, 512, 1024, 2048), {}, {}
for name, functions in {
        "all weights, NumPy": (scaled_dot_product_attention,
                               scaled_dot_product_attention_backward),
        "tiles, NumPy": (tiled_attention, tiled_attention_backward),
        "tiles, compiled": (backend.scaled_dot_product_attention,
                            backend.scaled_dot_product_attention_backward)}.items():
    measured = [costs(*functions, T) for T in lengths]
    milliseconds[name], memory = zip(*measured)
    print(f"{name}: ms", *(f"{each:.1f}" for each in milliseconds[name]), end="")
    if "NumPy" in name:                                               # a kernel has its own memory
        peaks[name] = memory
        print("; MiB", *(f"{each / 2 ** 20:.1f}" for each in memory), end="")
    exponent = np.polyfit(np.log(lengths), np.log(milliseconds[name]), 1)[0]
    print(f"; time grows as T to the power {exponent:.1f}")
# %% tags=["hide-input"]
attention_costs(lengths, milliseconds, peaks).figure

# %% [markdown]
# > Tiles turn quadratic memory into linear memory. The computation stays quadratic; a compiled
# > version computes the same tiles in less time.
#
# **What came out.** The dotted lines grow as T and as T². Memory behaves as expected: each doubling
# of T multiplies it by nearly 4 with all weights and by at most 2 in tiles. Times belong to the
# processor on which the cell ran, and to what else it did. The exponents printed above are near 2
# with all weights and smaller with tiles: at these lengths a part of the time is a fixed cost, and
# a part is the loop over tiles. And tiles in NumPy are hardly faster, although they skip nearly
# half of the products: each tile is a few calls from Python with small arrays. The compiled version
# has no such loop in Python and computes the same products, so what it gains is not a gain of
# operations. With larger lengths and three seeds, `numformer reproduce three-ways` found exponents
# of memory of 1.93 and 0.96, and of time of 2.23 and 1.91 (all weights, tiles; medians).
#
# Compiled code needs a check of its own. Lengths that are no multiples of a tile are where kernels
# fail:

# %%
for T, S in ((1, 1), (63, 63), (64, 65), (127, 200)):
    q, do = rng.standard_normal((2, 1, 2, T, 16))
    k, v = rng.standard_normal((2, 1, 2, S, 16))
    y, saved = backend.scaled_dot_product_attention(q, k, v, CAUSAL)
    found = (y, *backend.scaled_dot_product_attention_backward(do, saved))
    y, saved = scaled_dot_product_attention(q, k, v, CAUSAL)
    expected = (y, *scaled_dot_product_attention_backward(do, saved))
    errors = [np.abs(a - b).max() for a, b in zip(found, expected)]
    print(f"T = {T}, S = {S}: largest difference of y, dq, dk, dv {max(errors):.0e}")

# %% [markdown]
# **Think.** How many of the tiles are skipped for T = 4096, causal, in tiles of 64?
#
# <details><summary>Answer</summary>
#
# There are 64 x 64 tiles, and 64 x 63 / 2 = 2016 of 4096 are above the diagonal.
#
# </details>
#
# **Think.** For which order of the scores does the online softmax never rescale its sums, and for
# which does it rescale them at every step?
#
# <details><summary>Answer</summary>
#
# If the largest score comes first, the maximum never rises again. If the scores increase, every
# step rescales.
#
# </details>

# %% [markdown] minutes=5
# ## Summary
#
# - Two of the four products of self-attention grow as T², and so do the weights between them.
# - Online softmax: $m' = \max(m, s)$, $\ell' = e^{m - m'} \ell + e^{s - m'}$, $a' = e^{m - m'} a +
#   e^{s - m'} v$, and in the end $o = a / \ell$. It is exact, not an approximation.
# - In tiles the same recurrences need memory for one tile and, for each query, the two numbers m
#   and $\ell$ and the D numbers of a.
# - The backward recomputes $p = e^{s - \Lambda}$ and uses $\Delta_i = \sum_j p_{ij} \bar{p}_{ij} =
#   \bar{o}_i \cdot o_i$.
# - Memory becomes linear in T; the number of operations stays quadratic.
#
# More practice: `numformer exercises 35 44 45`. In the last two you write the step of one tile:
# forward, with the output so far in place of the sum a, and backward, with a causal mask.

# %% [markdown]
# ## Further reading
#
# - Milakov and Gimelshein (2018), "Online normalizer calculation for softmax", algorithm 3.
# - Dao et al. (2022), "FlashAttention: Fast and Memory-Efficient Exact Attention with
#   IO-Awareness", theorem 1; Dao (2023), "FlashAttention-2", algorithms 1 and 2.
# - Rabe and Staats (2021), "Self-attention Does Not Need O(n²) Memory".
# - Vaswani et al. (2017), "Attention Is All You Need", table 1: costs compared with recurrence and
#   convolution.
# - The code: `numformer/functional/attention/tiled.py`; compiled: `numformer/kernels/attention/`.
#   As a layer: `TiledAttention`; `MultiHeadAttention` attends with it where it is given a `tile`.
