# %% [markdown]
# # 4. Heads, masks, cross-attention and local attention
#
# **Question.** A verb needs its subject and the word just before it. How can attention find both at
# once, and how do we forbid it to look at the word that it has to predict?
#
# **You will learn**
#
# - to explain why attention has several heads, and to count what they cost;
# - to derive and implement the forward and the backward of multi-head attention;
# - to explain causal, local and padding masks, and to derive what a mask does to gradients;
# - to distinguish self-attention from cross-attention, and multi-head from grouped attention.
#
# **You need** lessons 2 and 3.
#
# **Time.** 2 x 45 minutes; the cells run in about 10 seconds.
# %% tags=["setup"]
# %matplotlib inline
import numpy as np

from numformer import AttentionPattern, check, hint, solution
from numformer.functional import attention, attention_backward, softmax
from numformer.layers import MultiHeadAttention
from numformer.plots import attention_grid, mask_panels
from numformer.verify import gradcheck

rng = np.random.default_rng(0)
# %% [markdown] minutes=10
# ## One average is not enough
# One head computes one weighted average per position. It can spread its weights over two words, but
# then their values arrive mixed, with no record of which came from where. Several **heads** attend
# in parallel, each with its own weights, and their outputs are kept apart. The picture shows four
# heads made by hand for "the cat saw the dog and ran away". A row is the query, a column the key,
# both in the order of the text; each word may attend to itself and to earlier ones. Head 1 attends
# to the previous word, head 2 to the same word and its earlier copies (the fourth word is "the"
# again), head 3 to the first word, head 4 evenly to all. (In head 1 the first word can only attend
# to itself. Colours follow the square root of the weight. )
# %%
words = "the cat saw the dog and ran away".split()
T = len(words)
distance = np.arange(T)[:, None] - np.arange(T)                       # t - s
same = np.array([[a == b for b in words] for a in words])
scores = np.stack([-4.0 * abs(distance - 1), 4.0 * same,              # previous word; same word
                   4.0 * (np.arange(T) == 0) + 0 * distance, 0.0 * distance])
# %% tags=["hide-input"]
axes = attention_grid([softmax(scores, mask=distance >= 0)[0]], distance >= 0,
                      title="Previous word, same word, first word, all words").axes
for ax in axes[:4]:
    ax.set_xticks(range(T), words, rotation=90, fontsize="small")
axes[0].set_yticks(range(T), words, fontsize="small")
axes[0].set_ylabel("queries")
axes[0].figure
# %% [markdown]
# > A head is one attention with projections of its own. H heads give H different averages for every
# > position.
#
# Do trained heads specialise like this? `numformer reproduce head-patterns` trains small encoders
# and looks for the best head for each pattern, on one half of the texts; on the other half its mean
# weight on the word of the pattern is 0.88 for the previous word and 0.96 for the next (medians of
# three seeds; even weights: 0.013). But not every expected head exists: one from pronouns to the
# nouns they refer to appeared with one seed of three (0.014, 0.023, 0.445). Nobody assigns these
# roles: heads start from different random weights, and the roles arise in training.
#
# **Think.** What if all heads started with the same matrices, and with the same rows of the output
# matrix?
#
# <details><summary>Answer</summary>
#
# They would compute the same and get the same gradients, so they would stay the same: H copies of
# one head. Random weights break this symmetry.
#
# </details>
# %% [markdown] minutes=15
# ## From one matrix to H heads
# Each head h has matrices $W_Q^h$, $W_K^h$ and $W_V^h$ of its own. The outputs of all heads are
# **concatenated** and multiplied by an output matrix $W_O$, which mixes what the heads have found:
#
# $$\begin{aligned}
# o_h &= \mathrm{softmax}\!\left( (X W_Q^h)(X W_K^h)^\top / \sqrt D \right) X W_V^h
#   && W_Q^h, W_K^h, W_V^h: (C, D),\; o_h: (T, D) \\
# Y &= [\, o_1, \dots, o_H \,]\, W_O && W_O: (H D, C),\; Y: (T, C)
# \end{aligned}$$
#
# In code the matrices of all heads are the columns of one matrix (C, H D), so that a single product
# serves all heads. After it, the axis H D is split, and H moves to the front. Then attention runs
# on all heads at once. Lesson 2's function would do; we import the library's, which also returns
# what its backward needs, and takes arrays with four axes, (B, H, T, D), so that `[None]` adds an
# axis B = 1:
#
# | step | X | times $W_Q, W_K, W_V$ | split | scores, weights | averages | joined | times $W_O$ |
# |---|---|---|---|---|---|---|---|
# | shape | (T, C) | (T, H D) | (H, T, D) | (H, T, T) | (H, T, D) | (T, H D) | (T, C) |
#
# The softmax runs over the last axis, the keys. (One lecture deck has dimension 1, which is right
# without heads; with them it would be the queries.) Usually D = C / H, so H D = C.
# %%
def split(x, H):
    return x.reshape(len(x), H, -1).swapaxes(0, 1)                    # (T, H D) -> (H, T, D)


def join(o):
    return o.swapaxes(0, 1).reshape(o.shape[1], -1)                   # (H, T, D) -> (T, H D)


def multi_head(x, W_q, W_k, W_v, W_o, H):
    q, k, v = (split(x @ W, H)[None] for W in (W_q, W_k, W_v))        # (1, H, T, D)
    o, _ = attention(q, k, v)
    return join(o[0]) @ W_o                                           # (T, C)


C, H = 16, 4
x, weights = rng.standard_normal((6, C)), rng.standard_normal((4, C, C)) / 4
layer = MultiHeadAttention(C, H, rng, bias=False, dtype=np.float64)
for linear, W in zip((layer.query, layer.key, layer.value, layer.output), weights):
    linear.weight.data[:] = W
print("difference from the layer:", abs(multi_head(x, *weights, H) - layer(x[None])[0]).max())
# %% [markdown]
# What do heads cost? There are four matrices with $C^2$ numbers each, $4 C^2$, whatever H is.
# Counting a multiplication and an addition as two operations, their products take $8 T C^2$
# operations, and scores and averages $2 T^2 D$ each per head, $4 T^2 C$ for all heads. Only the
# number of weights, $H T^2$, grows with H.
#
# > H heads of width C / H cost as many multiplications as one head of width C, but H times as many
# > softmax weights.
#
# **Think.** Why not take H = C heads of width 1?
#
# <details><summary>Answer</summary>
#
# The score is then a product of two numbers, $q_t k_s$: all queries with $q_t > 0$ put the keys
# into the same order, and all others into the reverse of it. Each head needs some width.
#
# </details>
# %% [markdown]
# The layer of the library as a graph, made from its code. Follow the shapes: heads become an axis
# of their own, (B, H, T, D), each has its scores, softmax and weighted mean, and `concat` joins
# them again, to (B, T, C).

# %% tags=["hide-input"]
from numformer.layers import MultiHeadAttention
from numformer.plots import computation_graph

computation_graph(MultiHeadAttention(8, 2, np.random.default_rng(0)),
                  np.ones((1, 5, 8), np.float32), title="Attention with two heads").figure

# %% [markdown] minutes=15
# ## The gradient through heads
# Again $\bar{x} = \partial L / \partial x$, `dx` in code. Splitting and joining only move numbers,
# so their gradients move them back. Let J: (T, H D) be the joined averages:
#
# $$\begin{aligned}
# \bar{W}_O &= J^\top \bar{Y}, \quad \bar{J} = \bar{Y} W_O^\top && Y = J W_O \text{ is a product} \\
# \bar{o} &= \mathrm{split}(\bar{J}) && \text{joining moved numbers; move them back} \\
# \bar{v} &= p^\top \bar{o}, \quad \bar{p} = \bar{o}\, v^\top && o = p v \text{ in each head; heads
#   do not mix here} \\
# \bar{z} &= p \odot (\bar{p} - \textstyle\sum_s p_s \bar{p}_s) && \text{the gradient of softmax,
#   over the keys} \\
# \bar{q} &= \bar{z} k / \sqrt D, \quad \bar{k} = \bar{z}^\top q / \sqrt D
#   && z = q k^\top / \sqrt D \\
# \bar{W}_Q &= X^\top \bar{Q}, \text{ and so on} && \bar{Q} = \mathrm{join}(\bar{q}) \\
# \bar{X} &= \bar{Q} W_Q^\top + \bar{K} W_K^\top + \bar{V} W_V^\top
#   && X \text{ is used three times: the gradients add}
# \end{aligned}$$
# %%
def multi_head_backward(dy, x, W_q, W_k, W_v, W_o, H):
    q, k, v = (split(x @ W, H)[None] for W in (W_q, W_k, W_v))
    o, saved = attention(q, k, v)
    dW_o, do = join(o[0]).T @ dy, split(dy @ W_o.T, H)                # (C, C), (H, T, D)
    dq, dk, dv = (join(d[0]) for d in attention_backward(do[None], saved))
    dx = dq @ W_q.T + dk @ W_k.T + dv @ W_v.T                         # (T, C)
    return dx, x.T @ dq, x.T @ dk, x.T @ dv, dW_o
# %% [markdown]
# To check it, move all arguments a little in random directions $d$, and compare the change of $L =
# \sum \bar{Y} \odot Y$ with $\sum \bar{x} \odot d$, summed over all arguments. The step is
# imaginary: the change is $\mathrm{Im}\, L(x + i h d) / h$. No two nearly equal numbers are
# subtracted, so no digits are lost (lessons 0 and 8). `gradcheck` does this for every single number
# of a layer.
# %%
dy, arguments = rng.standard_normal((6, C)), (x, *weights)
for seed in (1, 2, 3):
    random = np.random.default_rng(seed)
    moves = [random.standard_normal(a.shape) for a in arguments]
    moved = [a + 1e-30j * d for a, d in zip(arguments, moves)]
    change = (dy * multi_head(*moved, H)).sum().imag / 1e-30
    predicted = sum((g * d).sum()
                    for g, d in zip(multi_head_backward(dy, *arguments, H), moves))
    print(f"change {change:9.4f}, relative error {abs(predicted / change - 1):.0e}")
small = MultiHeadAttention(4, 2, rng, dtype=np.float64)
report = gradcheck(small, [rng.standard_normal((1, 3, 4))])
print("every derivative of the layer:", report.ok, f"worst error {report.worst.error:.0e}")
# %% [markdown]
# > A backward is its forward in reverse: products become products with transposes, moves are
# > undone, and what was used several times receives a sum.
# %% [markdown] minutes=20
# ## Masks: who may attend to whom
# In training a language model predicts all next words of a text at once. The output at position t
# must then not depend on word t + 1, its target. Otherwise the model learns to copy the target, and
# cannot predict when it has to write by itself. A **mask** is True (blue in the picture) where a
# query may attend to a key. (In some libraries True means the opposite.) Encoders such as BERT,
# which read a finished text, attend everywhere; decoders such as GPT are causal.
# %%
i = np.arange(6)
masks = {"encoder: everywhere": np.ones((6, 6), bool),
         "decoder: causal": i[:, None] >= i,
         "causal window of 3": (i[:, None] >= i) & (i[:, None] - i < 3)}
# %% tags=["hide-input"]
mask_panels(masks, {name: [f"x{t}" for t in i] for name in masks}).figure
# %% [markdown]
# The **causal** mask is the triangle $s \le t$: with its own position, because the first word would
# otherwise attend to nothing. The score of a masked key becomes $-\infty$ before the softmax. Many
# texts write it as a sum, $\mathrm{softmax}(Q K^\top / \sqrt D + M)$, with M: (T, S) of zeros where
# a query may attend and $-\infty$ elsewhere:
#
# $$\begin{aligned}
# z_s &= -\infty && \text{masked} \\
# p_s &= e^{-\infty} / \textstyle\sum_j e^{z_j} = 0 && \text{the other weights sum to 1} \\
# \bar{z}_s &= p_s (\bar{p}_s - \textstyle\sum_j p_j \bar{p}_j) = 0 && \text{gradient of softmax} \\
# p_s\, \bar{o} &= 0 && \text{this query's share of } \bar{v}_s \text{ is 0 too}
# \end{aligned}$$
#
# > Masking before the softmax removes a key from forward and backward alike. Zeroing weights after
# > the softmax would not: the rest would no longer sum to 1, and the masked scores would matter.
# %%
def masked_softmax(x, mask=True):
    z = np.where(mask, x, -np.inf)
    e = np.exp(z - z.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


check("softmax", masked_softmax, seed=0)
# %% [markdown]
# The remark names a *level*, a kind of problems that `check` tries: here a row whose mask is False
# everywhere. Its largest score is $-\infty$, and $-\infty - (-\infty)$ is NaN. In Exercise 4.1 such
# a row is tested.
#
# **Exercise 4.1** (10 minutes). Write attention with a mask: (T, S), or None for none; q: (B, H, T,
# D), k, v: (B, H, S, D). A query that may attend to no key must get the output 0, and no NaN.
# `hint("attention")` helps; after a pass, `solution("attention")` shows ours.
# %%
def masked_attention(q, k, v, mask=None):
    """Return o (B, H, T, D)."""
    ...


check("attention", masked_attention, seed=0, levels=[
    "plain", "a mask", "a mask, low scores", "a row of the mask is False", "large numbers",
    "sizes of 1", "a long axis"])
# %% [markdown]
# What does a wrong mask do? We expect a very low training loss and a model that cannot generate.
# `numformer reproduce slips` trains a decoder with a transposed mask, so that each position sees
# the future. With seeds 1 to 3, its training loss is 0.14, 0.17 and 0.18 nats per character. But
# when it predicts each held-out character as in generation, with nothing after it, its loss is
# 4.36, 4.63 and 4.25, more than twice that of the right model (2.05, 2.07, 2.04). A low loss in
# training does not show that a mask is right. (Printed code is no proof either: in one lecture deck
# the flag for the mask is passed on and never used.) Test it: change the last input, and no earlier
# output may change.
# %%
x = rng.standard_normal((1, 6, C))                                    # (B, T, C)
last = x + 10 * (np.arange(6) == 5)[:, None]                          # another last input
for name, pattern in (("causal", AttentionPattern(causal=True)), ("no mask", AttentionPattern())):
    change = abs(layer(last, pattern=pattern) - layer(x, pattern=pattern)).max(axis=-1)[0]    # (T,)
    print(f"{name}: change of outputs 1 to 5 {change[:5].max():.1e}, of the last {change[5]:.1e}")
# %% [markdown]
# In some decks vectors are columns. Then everything is transposed: $o = V\, \mathrm{softmax}(K^\top
# Q / \sqrt D)$, a softmax down the columns, and the mask transposed too.
# %% [markdown] minutes=10
# ## Local attention and padding
# Attention to all positions is called global, attention to near ones **local**. A **window** lets
# each query see the last w keys only, itself included. The number of scores falls from $T^2$ to $T
# w$. Does the model lose everything further away? Each layer can pass on what the layer before has
# gathered, so after L layers we expect a reach of $L (w - 1)$ tokens back:
# %%
window = AttentionPattern(causal=True, window=(3, 0))                 # w = 4: 3 before, 0 after
layers = [MultiHeadAttention(C, H, rng, dtype=np.float64) for _ in range(3)]
y = before = rng.standard_normal((1, 20, C))                          # (B, T, C)
moved = before + 1e-30j * rng.standard_normal((1, 20, C))
for L, layer in enumerate(layers, 1):
    reach = []
    for t in range(20):
        z = np.where(np.arange(20)[:, None] == t, moved, before)      # only token t is moved
        for part in layers[:L]:
            z = part(z, pattern=window)
        reach.append(np.abs(z.imag[0, -1]).max() > 0)                 # does the last output change?
    print(f"layers: {L}; the last of 20 tokens depends on {19 - int(np.argmax(reach))} before it")
# %% [markdown]
# It came out as expected, 3 more tokens with each layer. A reach is only what is possible: whether
# a model uses it depends on training. Texts of different lengths in one batch are filled up with
# **padding** tokens. A mask of the keys gives these the weight 0, so they change no other output.
# Masks are combined by "and".
#
# > A window makes the number of scores linear in the length of the text; stacked layers widen its
# > reach.
# %% [markdown] minutes=20
# ## Cross-attention and grouped heads
# In **cross-attention** queries come from one sequence, keys and values from another: a decoder
# that translates reads the source text like this (lesson 11). The formulas stay, with T queries and
# S keys. The three families of models differ in where they use which attention:
#
# | family | attention | queries from | keys, values from | mask |
# |---|---|---|---|---|
# | encoder (BERT) | self | the text | the text | none |
# | decoder (GPT) | self | the text | the text | causal |
# | encoder-decoder (T5): encoder | self | the source | the source | none |
# | its decoder, first | self | the target | the target | causal |
# | its decoder, then | cross | the target | the source | none |
#
# When a decoder generates, it reads one token at a time (`step` in the code below). With a causal
# mask the vectors of earlier tokens do not depend on later ones, so their keys and values never
# change: it keeps them. This **cache** has $2 T C$ numbers for each layer. **Grouped** heads make
# it smaller: H query heads share G heads of keys and values, so it has $2 T G D$ numbers. G = 1 is
# called multi-query attention.
#
# $$\text{query head } h \text{ uses keys and values } g = \lceil h\, G / H \rceil, \quad
# h = 1 \dots H, \qquad q: (B, H, T, D),\; k, v: (B, G, S, D)$$
#
# > Grouped heads keep H sets of queries but store only G sets of keys and values.
# %%
for G in (4, 2, 1):
    _, cache = MultiHeadAttention(32, 4, rng, n_kv_heads=G).step(np.ones((1, 10, 32), np.float32))
    print(f"G = {G}: keys {cache.k.shape}, {cache.k.size + cache.v.size} numbers for 10 tokens")
# %% [markdown]
# **Exercise 4.2** (10 minutes). The forward repeats each of the G heads H / G times in a row, x:
# (B, G, S, D) to y: (B, H, S, D), for H = `n_heads`. Each head is used several times: what is its
# gradient? `hint("repeat_kv_heads_backward")` helps; after a pass,
# `solution("repeat_kv_heads_backward")` shows ours.
# %%
def repeat_kv_heads_backward(dy, x, n_heads):
    """dy (B, H, S, D). Return dx (B, G, S, D)."""
    ...


check("repeat_kv_heads_backward", repeat_kv_heads_backward, seed=0)
# %% [markdown]
# ## Summary
# - Two heads can look for the subject and for the word before; a mask hides what is to be
#   predicted.
# - $Y = [o_1, \dots, o_H] W_O$ with heads of width D = C / H: $4 C^2$ parameters for every H.
# - A mask sets scores to $-\infty$ before the softmax; causal means $s \le t$.
# - A window of w keys reaches $L (w - 1)$ tokens back in L layers.
# - Cross-attention takes keys and values from another sequence; grouped heads share them.
# - More practice: `numformer exercises 02 16 27 31`.
# %% [markdown]
# ## Further reading
# - Vaswani et al. (2017), "Attention Is All You Need", sections 3.2.2 and 3.2.3.
# - Shazeer (2019), "Fast Transformer Decoding: One Write-Head is All You Need"; Ainslie et al.
#   (2023), "GQA": multi-query and grouped heads.
# - Beltagy, Peters and Cohan (2020), "Longformer: The Long-Document Transformer": windows.
# - Clark et al. (2019), "What Does BERT Look At? An Analysis of BERT's Attention".
# - Code: `numformer/layers/attention/`, `numformer/functional/attention/masks.py`.
