# %% [markdown]
# # 2. Scaled dot-product attention, and why the square root of D
#
# Time: about 5 seconds on 2 cores.
#
# **Goals.** Read attention as a soft lookup; write it in four lines; see why scores are divided by
# the square root of D; derive its gradient.
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
# A dictionary returns the value whose key equals the query. Attention returns a weighted average of
# all values; the weight of each depends on how well its key matches the query. This makes the
# lookup differentiable, so queries and keys can be learned.
#
# $$o_i = \sum_j p_{ij} v_j, \qquad
# p_i = \mathrm{softmax}_j\!\left(\frac{q_i \cdot k_j}{\sqrt{D}}\right)$$

# %%
def attention(q, k, v):
    scores = q @ k.T / np.sqrt(q.shape[-1])                           # (T, S)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)                    # rows sum to 1
    return weights @ v                                                # (T, D)


rng = np.random.default_rng(0)
q = rng.standard_normal((5, 8))                                       # (T, D)
k, v = rng.standard_normal((7, 8)), rng.standard_normal((7, 8))       # (S, D)
y, _ = scaled_dot_product_attention(q[None, None], k[None, None], v[None, None])
print(np.abs(attention(q, k, v) - y[0, 0]).max())                     # y: (B, H, T, D)

# %% [markdown]
# One query in numbers: its coordinates above those of all keys, their products, and the sums of
# these products.

# %%
query_detail(q[0], k, [f"key {j}" for j in range(7)]).figure

# %% [markdown]
# ## Why the square root of D
#
# If the coordinates of q and k are independent with mean 0 and variance 1, then each product $q_d
# k_d$ has mean 0 and variance 1, and their sum has variance D. Dividing by $\sqrt{D}$ restores
# variance 1 for heads of any width.

# %%
for D in (4, 16, 64, 256):
    a, b = rng.standard_normal((2, 20000, D))
    products = (a * b).sum(axis=1)
    print(f"D = {D:3}: variance of q.k {products.var():7.2f}, "
          f"after scaling {(products / np.sqrt(D)).var():.2f}")

# %% [markdown]
# Why does it matter? A softmax of large scores is close to 0 or 1 everywhere, and its gradient,
# $p_j (1 - p_j)$ on the diagonal, is close to 0. The scores then receive small gradients, so the
# head learns slowly at first.

# %%
D = 256
q, k = rng.standard_normal((200, D)), rng.standard_normal((16, D))
for name, scale in (("plain", 1.0), ("scaled", 1 / np.sqrt(D))):
    p, _ = softmax(q @ k.T * scale)
    print(f"{name:7} largest weight {p.max(axis=1).mean():.3f}, "
          f"largest p (1 - p) {(p * (1 - p)).max(axis=1).mean():.4f}")

# %% [markdown]
# ## The causal mask
#
# A language model must not see the tokens that it has to predict. The causal mask hides them;
# hatched cells are masked.

# %%
q, k = rng.standard_normal((2, 1, 1, 10, 16))
causal = AttentionPattern(causal=True)
weights = attention_weights(q, k, causal)[0, 0]                       # (T, S)
attention_map(weights, list("attention!"), causal.dense(10, 10)).figure

# %% [markdown]
# ## Is the gradient right?
#
# We differentiate one line at a time, from the last to the first. With $\bar{x}$ for the gradient
# of the loss with respect to x:
#
# $$\bar{v} = p^\top \bar{o}, \qquad \bar{p} = \bar{o} v^\top, \qquad
# \bar{z}_i = p_i \odot \Big(\bar{p}_i - \sum_k p_{ik} \bar{p}_{ik}\Big), \qquad
# \bar{q} = \frac{\bar{z} k}{\sqrt D}, \qquad \bar{k} = \frac{\bar{z}^\top q}{\sqrt D}$$

# %%
def attention_backward(do, q, k, v):
    scale = 1 / np.sqrt(q.shape[-1])
    p, _ = softmax(q @ k.swapaxes(-1, -2) * scale)
    dv, dp = p.swapaxes(-1, -2) @ do, do @ v.swapaxes(-1, -2)         # o = p v
    dz = p * (dp - (p * dp).sum(axis=-1, keepdims=True))              # p = softmax(z)
    return dz @ k * scale, dz.swapaxes(-1, -2) @ q * scale, dv        # z = q k^T scale


check("attention_backward", attention_backward, seed=0, levels=["plain"])

# %% [markdown]
# If the sum in the softmax's gradient is left out, `check` names the missing term:

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
# 1. What happens to the weights if all scores are multiplied by 100? By 0? In which of the two
#    cases is the output the mean of the values?
# 2. Add a constant to all scores of a row: what changes, and what does that imply for the gradient
#    $\sum_j \bar{z}_{ij}$?
# 3. Exercises `01`, `02`, `15`, `16`, `27` and `32`.
