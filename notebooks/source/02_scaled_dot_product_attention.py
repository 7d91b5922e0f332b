# %% [markdown]
# # 2. Scaled dot-product attention, and why the square root of D
#
# **Question.** "The bat flew at dusk": how can a layer find out from the other words which kind of
# bat this is, and how does it learn where to look?
#
# **You will learn**
#
# - to explain attention as a soft lookup with queries, keys and values;
# - to explain and measure why scores are divided by the square root of D;
# - to derive the gradients of softmax and of attention, step by step;
# - to implement both so that an independent check accepts them.
#
# **You need** lesson 1 (gradients of a matrix product), mean and variance.
#
# **Time.** 2 x 45 minutes; the cells run in about 10 seconds.
# %% tags=["setup"]
# %matplotlib inline
import numpy as np

from numformer import check, hint, solution
from numformer.functional import softmax
from numformer.plots import attention_maps, forward_and_backward, query_detail
# %% [markdown] minutes=15
# ## A soft lookup
# A dictionary compares a query with its keys and returns the value of the key that is equal.
# **Attention** does this softly: it compares one query with every key, turns the similarities into
# weights, and returns the weighted average of all values. Because each step is smooth, the vectors
# can be learned from gradients. Here is one query with hand-made vectors of four coordinates: the
# word "bat" looks for words about flight (first coordinate) and about sport (second).
# %%
words = ["the", "bat", "flew", "at", "dusk"]
q = np.array([2.0, 2.0, 0.0, 0.0])                                    # query of "bat": (D,)
k = np.array([[0, 0, 0, 1], [0.5, 0.5, 0, 0], [3, 0, 0, 0],           # flight, sport, time, other
              [0, 0, 0, 1], [0, 0, 2, 0]], float)                     # keys: (S, D)
v = np.array([[0, 0], [0.5, 0.5], [1, 0], [0, 0], [0.2, 0]], float)   # animal, racket: (S, D_V)
# %% tags=["hide-input"]
query_detail(q, k, words, v=v, title='The query of "bat"').figure
# %% [markdown]
# The picture shows three steps. First a **score** for each key: the dot product, which is large
# where both vectors have large coordinates of equal sign, divided by $\sqrt D$ (explained below).
# Then the **softmax** makes the scores into **attention weights**, positive and with sum 1. Then
# the values are averaged with these weights. (Products are those of the single coordinates, each
# column has its own colours, and numbers are rounded.) The key of "flew" matches best and gets 78%
# of the weight, so the output for "bat" is closest to the value of "flew": an animal, not a racket.
# (Lesson 6 follows this word, with the same numbers, through a whole block.)
#
# $$z_s = \frac{q \cdot k_s}{\sqrt D}, \qquad p_s = \frac{e^{z_s}}{\sum_j e^{z_j}}, \qquad
# o = \sum_s p_s v_s, \qquad q, k_s: (D,),\; z, p: (S,),\; v_s, o: (D_V,)$$
#
# > Attention returns an average of values. The weight of each value depends on how well its key
# > matches the query.
#
# Only query and key must have the same width D; values may have another, $D_V$. All T queries at
# once are the rows of a matrix, and then two matrix products do the work. The softmax runs along
# each row, over the keys: a softmax over the queries would give weights that do not sum to 1 for a
# query.
#
# $$O = \mathrm{softmax}\!\left( \frac{Q K^\top}{\sqrt D} \right) V, \qquad
# Q: (T, D),\; K: (S, D),\; V: (S, D_V),\; Q K^\top: (T, S),\; O: (T, D_V)$$
# %%
def attention(q, k, v):
    z = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])                 # (..., T, S)
    p = np.exp(z - z.max(axis=-1, keepdims=True))                     # p is the same without max
    p = p / p.sum(axis=-1, keepdims=True)                             # rows sum to 1
    return p @ v                                                      # (..., T, D_V)


check("attention", attention, seed=0)
# %% [markdown]
# Subtracting the largest score cancels in the fraction, $e^{z-m} / \sum e^{z_j - m}$, and keeps the
# exponential from overflowing. `check` compares the function with trusted code on random problems.
# Its remark is about precision: `np.sqrt` of an integer is a float64 number, so float32 scores
# become float64.
# %% [markdown] minutes=10
# ## Queries, keys and values are learned projections
# Where do the three come from? Each is a linear map of the vectors of a sequence. The matrices are
# parameters: training decides what a query looks for, what a key offers, and what a value passes
# on. In **self-attention** all three come from one sequence X; in cross-attention keys and values
# come from another one:
#
# $$Q = X W_Q, \quad K = X W_K, \quad V = X W_V, \qquad
# X: (T, C),\; W_Q, W_K: (C, D),\; W_V: (C, D_V)$$
#
# > In self-attention every vector of a sequence sends out a query, a key and a value, and every
# > output mixes all inputs.
# %%
rng = np.random.default_rng(0)
x = rng.standard_normal((5, 16))                                      # (T, C)
W_q, W_k, W_v = rng.standard_normal((3, 16, 8)) / 4                   # (C, D) each
o = attention(x @ W_q, x @ W_k, x @ W_v)                              # (T, D)
print("input", x.shape, "scores", (x @ W_q @ (x @ W_k).T).shape, "output", o.shape)
many = rng.standard_normal((50, 16))                                  # 50 vectors
for name, W in (("keys by W_K", W_k), ("keys by W_Q", W_q)):
    best = (many @ W_q @ (many @ W).T).argmax(axis=-1)                # (50,)
    print(f"{name}: {(best == np.arange(50)).mean():.0%} match themselves best")
# %% [markdown]
# Why three projections and not one? With $Q = K$ a vector often matches itself best, as the last
# line shows: "bat" would often attend to "bat". Separate matrices let a word look for something
# that it is not. Values are separate again, because what makes a word findable ("about flight") is
# not what it should contribute ("an animal"). In the same way a library finds a book by its title
# and hands out its text.
#
# There are older scores than the scaled dot product. Bahdanau et al. (2015) use a small network,
# $u^\top \tanh(q + k_s)$; Luong et al. (2015) the plain dot product, and one with a matrix, $q\, W
# k_s^\top$.
#
# **Exercise 2.1** (10 minutes, at home). Derive the gradients of the scores $z = q W k^\top$, q:
# (B, T, C), k: (B, S, K), W: (C, K), from those of a matrix product. The result z is (B, T, S), and
# all B examples share W. `hint("general_scores_backward")` helps; after a pass,
# `solution("general_scores_backward")` shows ours.
# %%
def general_scores_backward(dz, q, k, weight):
    """dz (B, T, S). Return dq, dk, dweight."""
    ...


check("general_scores_backward", general_scores_backward, seed=0)
# %% [markdown]
# The graph shows what self-attention with one head computes, a layer that makes queries, keys and
# values of the same vectors. Each step has its formula and the shape of its result. Blue variables
# are kept for the backward pass. (The code has the names `d_query` and `d_out` for D and $D_V$, and
# `y` for the output. Lesson 4 adds heads, and one more matrix at the end.)

# %% tags=["hide-input"]
from numformer.layers import SelfAttention
from numformer.plots import computation_graph

computation_graph(SelfAttention(8, 4, np.random.default_rng(0)),
                  np.ones((1, 5, 8), np.float32), title="Self-attention with one head").figure

# %% [markdown] minutes=20
# ## Why the square root of D
# The same 16 keys, once with plain and once with scaled scores, for 16 random queries of width 256.
# Without scaling every query puts nearly all its weight on one or two keys; with scaling its two
# largest weights have between a third and three quarters. (Each map has its own colour scale;
# colours follow the square root of the weight. The library's `softmax` returns a pair, the weights
# and what its backward needs.)
# %%
q, k = rng.standard_normal((2, 16, 256))                              # (T, D), (S, D)
maps = {"plain": softmax(q @ k.T)[0], "divided by 16": softmax(q @ k.T / 16)[0]}
for name, p in maps.items():
    two = np.sort(p, axis=-1)[:, -2:].sum(axis=-1)                    # (T,)
    print(f"{name}: the two largest weights of a query have {two.min():.2f} to {two.max():.2f}")
# %% tags=["hide-input"]
attention_maps(maps, title="Weights of 16 queries on 16 keys, D = 256")[0].figure
# %% [markdown]
# Let all coordinates of q and k be independent, with mean 0 and variance 1. (They need not be
# normally distributed.) The score is a sum of D products:
#
# $$\begin{aligned}
# \mathrm{E}[q_d k_d] &= \mathrm{E}[q_d]\, \mathrm{E}[k_d] = 0 && \text{independent} \\
# \mathrm{Var}[q_d k_d] &= \mathrm{E}[q_d^2 k_d^2] = \mathrm{E}[q_d^2]\, \mathrm{E}[k_d^2] = 1
#   && \text{mean 0, independent, variance 1} \\
# \mathrm{Var}[q \cdot k] &= \textstyle\sum_d \mathrm{Var}[q_d k_d] = D
#   && \text{variances of independent terms add} \\
# \mathrm{Var}[q \cdot k / \sqrt D] &= D / (\sqrt D)^2 = 1
#   && \text{a factor } a \text{ multiplies the variance by } a^2
# \end{aligned}$$
#
# The typical size of a score is its standard deviation, $\sqrt D$: 16 for D = 256. A difference of
# 16 between two scores is a factor of $e^{16}$, nine million, between their weights. The softmax
# **saturates**: one or two weights share nearly everything, all others are nearly 0.
#
# > Scores grow with the square root of D. Dividing by it gives variance 1 at any width, as long as
# > the coordinates of q and k have variance 1: the softmax then does not saturate.
#
# What does saturation change? The derivative of a weight with respect to its own score is $p (1 -
# p)$, as the next section shows. It is close to 0 where p is close to 0 or to 1: a small change of
# the score then hardly changes the weight. We expect scores of variance D, and without
# scaling a mean of p (1 - p) that falls as D grows; with scaling it should be the same for each D:
# %%
for D in (4, 16, 64, 256):
    variance, plain, scaled = [], [], []
    for seed in (1, 2, 3):
        rng = np.random.default_rng(seed)
        z = rng.standard_normal((500, D)) @ rng.standard_normal((16, D)).T
        for scores, found in ((z, plain), (z / np.sqrt(D), scaled)):
            p, _ = softmax(scores)
            found.append((p * (1 - p)).mean())
        variance.append(z.var())
    print(f"D = {D:3}: variance {np.round(variance)}, p (1 - p) plain {np.round(plain, 4)}, "
          f"scaled {np.round(scaled, 4)}")
# %% [markdown]
# It came out as expected: without scaling the mean of p (1 - p) falls from 0.04 to below 0.01, with
# scaling it is 0.053 to 0.055 for every D and every seed. That is a derivative with respect to the
# score. What reaches queries and keys is another question, which we ask once their gradients are
# derived.
#
# **Think.** What is wrong with $\exp(q \cdot k_s) / \sqrt D$ in the softmax, as one deck prints it?
#
# <details><summary>Answer</summary>
#
# The root is a factor of numerator and denominator and cancels: the weights are those of unscaled
# scores. It belongs inside the exponential.
#
# </details>
# %% [markdown] minutes=20
# ## The gradient of softmax
# We write $\bar{x} = \partial L / \partial x$ for the gradient of a loss with respect to x; code
# names it `dx`. A softmax couples all scores of a row: raising one lowers all other weights. With
# $Z = \sum_j e^{z_j}$, the derivatives of one row are
#
# $$\begin{aligned}
# \frac{\partial p_i}{\partial z_i} &= \frac{e^{z_i} Z - e^{z_i} e^{z_i}}{Z^2} = p_i - p_i^2
#   && \text{quotient rule; } \partial Z / \partial z_i = e^{z_i} \\
# \frac{\partial p_i}{\partial z_j} &= \frac{0 \cdot Z - e^{z_i} e^{z_j}}{Z^2} = -p_i p_j
#   && j \ne i \text{: the numerator is constant} \\
# \frac{\partial p_i}{\partial z_j} &= p_i (\delta_{ij} - p_j)
#   && \text{both cases; } \delta_{ij} = 1 \text{ if } i = j \text{, else } 0 \\
# \bar{z}_j &= \textstyle\sum_i \bar{p}_i\, p_i (\delta_{ij} - p_j)
#   && \text{chain rule: } z_j \text{ reaches } L \text{ through every } p_i \\
# &= p_j \Big( \bar{p}_j - \textstyle\sum_i p_i \bar{p}_i \Big)
#   && \text{the first term has } i = j \text{ only; take out } p_j
# \end{aligned}$$
#
# > The gradient of softmax is $\bar{z} = p \odot (\bar{p} - \sum_i p_i \bar{p}_i)$: each weight's
# > gradient minus their average. The S x S matrix of derivatives is never needed.
# %%
def softmax_backward(dp, z):
    p, _ = softmax(z)                                                 # (..., S)
    return p * (dp - (p * dp).sum(axis=-1, keepdims=True))


check("softmax_backward", softmax_backward, seed=0)
# %% [markdown]
# **Exercise 2.2** (10 minutes). Losses use $y = \log \mathrm{softmax}(z)$, that is, $y_i = z_i -
# \log \sum_j e^{z_j}$. Derive its gradient in the same way; it is one line.
# `hint("log_softmax_backward")` helps; after a pass, `solution("log_softmax_backward")` shows ours.
# %%
def log_softmax_backward(dy, z):
    """dy, z (..., S), any axes before the last. Return dz."""
    ...


check("log_softmax_backward", log_softmax_backward, seed=0)
# %% [markdown] minutes=15
# ## The gradient of attention
# Attention is three lines, $z = q k^\top / \sqrt D$, $p = \mathrm{softmax}(z)$ and $o = p v$. We
# differentiate them from the last to the first, given $\bar{o}$. For a product $Y = A B$ lesson 1
# derived $\bar{A} = \bar{Y} B^\top$ and $\bar{B} = A^\top \bar{Y}$; a gradient has the shape of its
# array:
#
# $$\begin{aligned}
# \bar{v} &= p^\top \bar{o} && v_s \text{ is used by every query: the gradients add} && (S, D_V) \\
# \bar{p} &= \bar{o}\, v^\top && p_{ts} \text{ multiplies the vector } v_s && (T, S) \\
# \bar{z}_t &= p_t \odot \Big( \bar{p}_t - \textstyle\sum_s p_{ts} \bar{p}_{ts} \Big)
#   && \text{the gradient of softmax, in each row } t && (T, S) \\
# \bar{q} &= \bar{z}\, k / \sqrt D && z = q k^\top / \sqrt D \text{, a product} && (T, D) \\
# \bar{k} &= \bar{z}^\top q / \sqrt D && z^\top = k q^\top / \sqrt D \text{, a product} && (S, D)
# \end{aligned}$$
#
# > The gradient of attention is three lines in reverse order. Values receive theirs through the
# > weights, queries and keys through the softmax, which passes nothing on where one weight is 1.
# %%
def attention_backward(do, q, k, v):
    scale = q.shape[-1] ** -0.5
    p, _ = softmax(q @ k.swapaxes(-1, -2) * scale)                    # (..., T, S)
    dv, dp = p.swapaxes(-1, -2) @ do, do @ v.swapaxes(-1, -2)         # o = p v
    dz = p * (dp - (p * dp).sum(axis=-1, keepdims=True))              # p = softmax(z)
    return dz @ k * scale, dz.swapaxes(-1, -2) @ q * scale, dv        # z = q k^T scale


check("attention_backward", attention_backward, seed=0)
# %% [markdown]
# The picture has the code above what it computes for random vectors: the weights on the left, the
# gradient of the scores on the right. Each word may attend only to itself and to earlier words (a
# mask, lesson 4), so the upper right is empty. Each row on the right sums to 0: a constant that is
# added to all scores of a query does not change its weights. (`k.mT` is k with its last two axes
# exchanged; the line below the pictures compares the gradients with numerical derivatives, by the
# complex step, lesson 0. Autograd is software that derives gradients; none is used here.)
# %%
tokens = "the bat flew at dusk and came back".split()
q, k, v, do = np.random.default_rng(0).standard_normal((4, 8, 16))    # (T, D), (S, D), ...
# %% tags=["hide-input"]
forward_and_backward(q, k, v, do, np.tri(8, dtype=bool), tokens).figure
# %% [markdown] minutes=5
# ## The root once more
# The root stands in $\bar{q}$ and $\bar{k}$ too. So without it two things happen to them: $\bar{z}$
# is close to 0 for a saturated query, but a factor $1 / \sqrt D$ is gone. Which is stronger? We
# take queries $q = x W_Q$ at initialization and compare gradients without the root and with it:
# the median and the mean norm of a query's gradient, the mean norm of a key's, and the norm of
# $\bar{W}_Q = x^\top \bar{q}$. Printed are the ratios for three seeds.
# %%
def gradients(D, scale, seed):
    """The weights, and the gradients of q, k and W_Q."""
    rng = np.random.default_rng(seed)
    x, do = rng.standard_normal((2, 500, D))                          # (T, D)
    k, v = rng.standard_normal((2, 16, D))                            # (S, D)
    q = x @ rng.standard_normal((D, D)) / np.sqrt(D)                  # (T, D)
    p, _ = softmax(q @ k.T * scale)                                   # (T, S)
    dp = do @ v.T
    dz = p * (dp - (p * dp).sum(axis=-1, keepdims=True))
    dq, dk = dz @ k * scale, dz.T @ q * scale
    return p, dq, dk, x.T @ dq


def norms(D, scale, seed):
    _, dq, dk, dW = gradients(D, scale, seed)
    of_q, of_k = np.linalg.norm(dq, axis=-1), np.linalg.norm(dk, axis=-1)
    return np.array([np.median(of_q), of_q.mean(), of_k.mean(), np.linalg.norm(dW)])


for D in (16, 64, 256, 1024):
    ratios = [norms(D, 1, seed) / norms(D, 1 / np.sqrt(D), seed) for seed in (1, 2, 3)]
    print(f"D = {D}:", ", ".join(f"{name} {of_seeds.round(1)}" for name, of_seeds in zip(
        ("median q", "mean q", "mean k", "W_Q"), np.transpose(ratios))))
# %% [markdown]
# Which queries get the gradient? For D = 1024 we order the 500 queries by it, and look at the 50
# with the largest:
# %%
for name, scale in (("with the root", 1024 ** -0.5), ("without", 1)):
    for seed in (1, 2, 3):
        p, dq, _, _ = gradients(1024, scale, seed)
        squares = (dq ** 2).sum(axis=-1)                              # (T,)
        order = np.argsort(squares)
        share = squares[order[-50:]].sum() / squares.sum()
        p = np.sort(p, axis=-1)[order]                                # (T, S), largest weight last
        print(f"{name}: largest tenth has {share:.2f} of the squared gradient; its two largest "
              f"weights (medians) {np.median(p[-50:, -1]):.2f} {np.median(p[-50:, -2]):.2f}, of "
              f"the others {np.median(p[:-50, -1]):.2f} {np.median(p[:-50, -2]):.2f}")
# %% [markdown]
# The means and $\bar{W}_Q$ are larger without the root at every width, $\bar{W}_Q$ four times with
# D = 16, 13 to 15 times with D = 1024. But from D = 256 on the median query gets less. At D = 1024
# nearly all of the squared gradient belongs to a tenth of the queries, those whose weight is shared
# by two keys; most others have all their weight on one. One deck says that the root keeps gradients
# from exploding, the paper that without it they are extremely small. Each is half of it.
#
# > In wide heads without the root, most queries get nearly no gradient; a few get so much that the
# > gradient of $W_Q$ is larger than with it.
#
# **Think.** In self-attention, what is $\bar{x}$?
#
# <details><summary>Answer</summary>
#
# x is used three times, so three gradients add: $\bar{x} = \bar{q} W_Q^\top + \bar{k} W_K^\top +
# \bar{v} W_V^\top$.
#
# </details>
# %% [markdown] minutes=5
# ## Experiment: must weights come from the data?
# Queries and keys cost two matrices and $T^2$ dot products. Would fixed weights do as well? Two
# cheaper rules come to mind: the same weight for every earlier position, or weights that depend on
# the distance alone, learned once for all texts. We expect both to be worse than attention, since
# which earlier character matters depends on what it is. `numformer reproduce attention-weights`
# trains language models with two layers of attention on the text of lesson 1 for 500 steps, with
# the seeds 1, 2 and 3. Those without queries and keys get wider layers elsewhere, so that all have
# about the same number of parameters. The validation loss, in nats per character, is
#
# | seed | even weights | weights by distance | weights from queries and keys |
# |---|---|---|---|
# | 1 | 2.137 | 1.593 | 1.549 |
# | 2 | 2.124 | 1.588 | 1.537 |
# | 3 | 2.123 | 1.577 | 1.548 |
#
# Distance makes most of the difference; with each seed queries and keys gain little more, 0.03 to
# 0.05. A plausible reason: for the next character of a word, nearby characters matter most, and
# distance alone finds those.
#
# > In this test weights computed from the content are better than weights by distance, and these
# > are better than even ones.
# %% [markdown]
# ## Summary
# - Attention is $O = \mathrm{softmax}(Q K^\top / \sqrt D)\, V$, Q: (T, D), K: (S, D), V: (S, D_V).
# - "bat" finds its kind by a query that matches the key of "flew"; where to look is learned through
#   the gradients of queries and keys.
# - The variance of $q \cdot k$ is D; the root keeps the softmax out of saturation.
# - Without it, in wide heads, most queries get almost no gradient, and a few get much.
# - $\bar{z} = p \odot (\bar{p} - \sum p \bar{p})$, $\bar{v} = p^\top \bar{o}$, $\bar{p} = \bar{o}
#   v^\top$, $\bar{q} = \bar{z} k / \sqrt D$, $\bar{k} = \bar{z}^\top q / \sqrt D$.
# - More practice: `numformer exercises 04 32`.
# %% [markdown]
# ## Further reading
# - Vaswani et al. (2017), "Attention Is All You Need", eq. 1, section 3.2.1 and its footnote 4.
# - Bahdanau, Cho and Bengio (2015), "Neural Machine Translation by Jointly Learning to Align and
#   Translate", A.1.2; Luong, Pham and Manning (2015), "Effective Approaches to Attention-based
#   Neural Machine Translation", section 3.1.
# - Code: `numformer/functional/softmax.py`, `numformer/functional/attention/core.py`,
#   `numformer/layers/attention/attention.py`, `numformer/layers/attention/self_attention.py`.
