# %% [markdown]
# # 2. Scaled dot-product attention, and why the root of D
#
# Time: about 5 seconds on 2 cores.
#
# **Goals.** Read attention as a soft lookup; write it in four lines; see why scores are divided by the root of D; know its gradient's
# shape.
#
# **Before.** Notebook 1; softmax.

# %%
# %matplotlib inline
import numpy as np

from numformer import AttentionPattern, check
from numformer.functional import attention_weights, scaled_dot_product_attention, softmax
from numformer.plots import attention_map, query_detail

# %% [markdown]
# ## Idea: a soft dictionary
#
# A dictionary returns the value whose key equals the query. Attention returns an average of all values, each weighted by how well its
# key answers the query. So it can be differentiated: keys can learn to be found.
#
# $$o_i = \sum_j p_{ij} v_j, \qquad p_i = \mathrm{softmax}_j\!\left(\frac{q_i \cdot k_j}{\sqrt{D}}\right)$$

# %%
def attention(q, k, v):
    scores = q @ k.T / np.sqrt(q.shape[-1])                           # (T, S)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)                    # rows sum to 1
    return weights @ v                                                # (T, D)


rng = np.random.default_rng(0)
q, k, v = rng.standard_normal((5, 8)), rng.standard_normal((7, 8)), rng.standard_normal((7, 8))
ours, _ = scaled_dot_product_attention(q[None, None], k[None, None], v[None, None])       # (B, H, T, D)
print(np.abs(attention(q, k, v) - ours[0, 0]).max())

# %% [markdown]
# One query in numbers: its coordinates above those of all keys, the products, and what they add up to.

# %%
query_detail(q[0], k, [f"key {j}" for j in range(7)]).figure

# %% [markdown]
# ## Why the root of D
#
# If the coordinates of q and k are independent with mean 0 and variance 1, then each product $q_d k_d$ has mean 0 and variance 1, and
# their sum has variance D. Divided by $\sqrt{D}$ it has variance 1 again, however wide a head is.

# %%
for D in (4, 16, 64, 256):
    a, b = rng.standard_normal((2, 20000, D))
    products = (a * b).sum(axis=1)
    print(f"D = {D:3}: variance of q.k {products.var():7.2f}, after scaling {(products / np.sqrt(D)).var():.2f}")

# %% [markdown]
# Why does it matter? A softmax of large scores is nearly 0 or 1 everywhere, and its gradient, $p_j (1 - p_j)$ on the diagonal, is
# nearly 0: such a head cannot learn any more.

# %%
D = 256
q, k = rng.standard_normal((200, D)), rng.standard_normal((16, D))
for name, scale in (("plain", 1.0), ("scaled", 1 / np.sqrt(D))):
    p, _ = softmax(q @ k.T * scale)
    print(f"{name:7} largest weight {p.max(axis=1).mean():.3f}, gradient that passes {(p * (1 - p)).max(axis=1).mean():.4f}")

# %% [markdown]
# ## Who may look at whom
#
# A language model must not look at what it has to predict. The mask says so; hatched cells are forbidden.

# %%
q, k = rng.standard_normal((2, 1, 1, 10, 16))
causal = AttentionPattern(causal=True)
attention_map(attention_weights(q, k, causal)[0, 0], list("attention!"), causal.dense(10, 10)).figure

# %% [markdown]
# ## Is the gradient right?
#
# Line by line backward. With $\bar{x}$ for the gradient of x:
#
# $$\bar{v} = p^\top \bar{o}, \qquad \bar{p} = \bar{o} v^\top, \qquad \bar{z}_i = p_i \odot \Big(\bar{p}_i - \sum_k p_{ik}
# \bar{p}_{ik}\Big), \qquad \bar{q} = \frac{\bar{z} k}{\sqrt D}, \qquad \bar{k} = \frac{\bar{z}^\top q}{\sqrt D}$$

# %%
def attention_backward(do, q, k, v):
    scale = 1 / np.sqrt(q.shape[-1])
    p, _ = softmax(q @ k.swapaxes(-1, -2) * scale)
    dv, dp = p.swapaxes(-1, -2) @ do, do @ v.swapaxes(-1, -2)        # o = p v
    dz = p * (dp - (p * dp).sum(axis=-1, keepdims=True))             # p = softmax(z)
    return dz @ k * scale, dz.swapaxes(-1, -2) @ q * scale, dv       # z = q k^T scale


check("attention_backward", attention_backward, seed=0, levels=["plain"])

# %% [markdown]
# Forget the sum in the softmax, and `check` says what is missing:

# %%
def without_the_sum(do, q, k, v):
    scale = 1 / np.sqrt(q.shape[-1])
    p, _ = softmax(q @ k.swapaxes(-1, -2) * scale)
    dv, dz = p.swapaxes(-1, -2) @ do, p * (do @ v.swapaxes(-1, -2))
    return dz @ k * scale, dz.swapaxes(-1, -2) @ q * scale, dv


check("attention_backward", without_the_sum, seed=0, levels=["plain"])

# %% [markdown]
# ## Exercises
#
# 1. What happens to the weights as all scores are multiplied by 100? By 0? Which of the two is a mean?
# 2. Add a constant to all scores of a row: what changes, and what does that say of the gradient $\sum_j \bar{z}_{ij}$?
# 3. Exercises `01`, `02`, `15`, `16`, `27` and `32`.
