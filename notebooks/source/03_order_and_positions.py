# %% [markdown]
# # 3. Order and positions
#
# **Question.** "Dog bites man" and "man bites dog" have the same words. How does attention find out
# which comes first?
#
# **You will learn**
#
# - to derive that self-attention without positions does not depend on the order of its inputs;
# - to explain five ways to add positions: learned, sinusoidal, ALiBi, T5's bias and rotations;
# - to derive that sinusoids and rotations make scores depend on the distance;
# - to derive and implement the gradient of rotary positions;
# - to explain what happens beyond the length of the training texts.
#
# **You need** lesson 2, sine and cosine, rotations of the plane.
#
# **Time.** 2 x 45 minutes; the cells run in about 10 seconds.
# %% tags=["setup"]
# %matplotlib inline
import numpy as np

from numformer import AttentionPattern, check, hint, solution
from numformer.analysis import attention_steps
from numformer.functional import (
    alibi, alibi_slopes, relative_position_buckets, sinusoidal_positions)
from numformer.layers import MultiHeadAttention
from numformer.plots import (
    permutation_panels, position_biases, position_vectors, position_waves, rotary_clocks,
    rotary_proof, similarity_by_distance)

rng = np.random.default_rng(0)
# %% [markdown] minutes=20
# ## Attention does not depend on the order
# The first row of the picture is one head of self-attention over five words. In the second row the
# words are permuted: all intermediate results are the same numbers in other rows and columns, and
# so are the outputs. Only where position vectors are added (third row) do the outputs differ from
# those of the sentence in order with the same position vectors, `rows[2]`, which are not drawn.
# Above the outputs is the largest difference.
# %%
sentence, order = "dog bites man bites back".split(), [2, 1, 0, 4, 3]
layer = MultiHeadAttention(6, 1, rng, bias=False, std=0.8, dtype=np.float64)
words = {word: rng.standard_normal(6) for word in sorted(set(sentence))}
x = np.array([words[word] for word in sentence])                      # (T, C)
P = sinusoidal_positions(np.arange(5), 6)                             # (T, C)
rows = [attention_steps(layer, each) for each in (x, x[order], x + P, x[order] + P)]
for name, row in (("without", rows[0]), ("with", rows[2])):
    difference = abs(row["outputs"][1] - row["outputs"][3]).max()
    print(f"outputs of the two 'bites' {name} positions: differ by up to {difference:.2f}")
# %% tags=["hide-input"]
permutation_panels(rows, sentence, order).figure
# %% [markdown]
# A permutation is a matrix $\Pi$: (T, T) with a single 1 in each row and column; $\Pi X$ has the
# rows of X: (T, C) in another order, and $\Pi^\top \Pi = I$. We follow it through attention, with
# the scores $z = Q K^\top / \sqrt D$, the weights $p = \mathrm{softmax}(z)$: (T, T) and the outputs
# $o = p V$:
#
# $$\begin{aligned}
# (\Pi X) W_Q &= \Pi (X W_Q) = \Pi Q && \text{rows are permuted; keys and values likewise} \\
# (\Pi Q)(\Pi K)^\top &= \Pi\, (Q K^\top)\, \Pi^\top && \text{rows and columns are permuted} \\
# \mathrm{softmax}(\Pi z\, \Pi^\top) &= \Pi p\, \Pi^\top && \text{each row has the same scores,
#   and so the same sum} \\
# (\Pi p\, \Pi^\top)(\Pi V) &= \Pi\, (p V) = \Pi\, o && \Pi^\top \Pi = I
# \end{aligned}$$
#
# > Self-attention is permutation-equivariant: permuted inputs give the same outputs, permuted in
# > the same way. It is a function of sets.
#
# Some lecture decks call it *invariant*, which would mean that the outputs do not change at all.
# That is true of a mean or a maximum over the outputs, and such a function is right for data
# without an order, such as the points of a laser scan. For text it is a defect: both words "bites"
# get the same output.
#
# Does a causal mask, which lets each position attend to itself and to earlier ones, bring the order
# back? We expect that in one layer the last output still does not depend on the order of the tokens
# before it, since it is an average over the same set. In two layers it should: the vectors that the
# second layer reads are averages over different prefixes.
# %%
causal, shuffled = AttentionPattern(causal=True), [2, 0, 3, 1, 4]     # the last one stays
for seed in (1, 2, 3):
    rng = np.random.default_rng(seed)
    first, second = (MultiHeadAttention(6, 1, rng, std=0.8, dtype=np.float64) for _ in range(2))
    one = [first(each[None], pattern=causal) for each in (x, x[shuffled])]
    two = [second(each, pattern=causal) for each in one]
    print(f"change of the last output: one layer {abs(one[0] - one[1])[0, -1].max():.0e}, "
          f"two layers {abs(two[0] - two[1])[0, -1].max():.0e}")
# %% [markdown]
# It came out as expected: one layer changes by rounding errors only, two layers change by different
# amounts with each seed. So a mask does not replace positions, although a deep causal model can
# learn something about the order without them.
# %% [markdown] minutes=20
# ## A vector for each position
# The oldest remedy gives each position a vector $P_t$ and adds it to the word's vector before the
# first layer: $x_t = \mathrm{word}_t + P_t$. Both must have the width C of the model, because they
# are added. (Concatenating them also works, but widens every matrix that follows.) Now the outputs
# of the two "bites" differ, as the cell above prints. The vectors can be **learned**, as in BERT
# and GPT-2; then there is none for a position beyond the longest training text. Or they are fixed
# **sinusoids**: waves over the positions, fast ones in the first coordinates and slow ones in the
# last.
# %% tags=["hide-input"]
position_waves(last=60).figure                                        # width C = 128
# %% [markdown]
# Coordinates come in pairs, the sine and the cosine of one angle, which grows with the position t
# at a frequency $\omega_i$ of its own:
#
# $$P_{t, 2i} = \sin(t\, \omega_i), \qquad P_{t, 2i+1} = \cos(t\, \omega_i), \qquad
# \omega_i = 10000^{-2i/C}, \quad i = 0, \dots, C/2 - 1, \qquad P: (T, C)$$
#
# A pair is the hand of a clock: for C = 128 the fastest goes around in 6 tokens, the slowest in
# about 54,000. All hands together identify the position. Why a sine **and** a cosine of each
# frequency?
#
# $$\begin{aligned}
# P_s \cdot P_t &= \textstyle\sum_i \big[ \sin(s \omega_i) \sin(t \omega_i)
#   + \cos(s \omega_i) \cos(t \omega_i) \big] && \text{dot product, pair by pair} \\
# &= \textstyle\sum_i \cos\big( (t - s)\, \omega_i \big)
#   && \cos(a - b) = \cos a \cos b + \sin a \sin b
# \end{aligned}$$
#
# > The dot product of two sinusoidal position vectors depends on their distance alone: it is
# > largest at distance 0.
#
# The reason given in 2017 was another one: moving by k positions is the same linear map everywhere.
#
# $$\begin{aligned}
# \sin((t + k)\, \omega_i) &= \sin(t \omega_i) \cos(k \omega_i) + \cos(t \omega_i) \sin(k \omega_i)
#   && \text{addition formula} \\
# \cos((t + k)\, \omega_i) &= \cos(t \omega_i) \cos(k \omega_i) - \sin(t \omega_i) \sin(k \omega_i)
#   && \text{addition formula}
# \end{aligned}$$
#
# So each pair of $P_{t+k}$ is that of $P_t$, rotated by the angle $k\, \omega_i$, whatever t is.
# One of the decks prints the sine for both coordinates of a pair. We expect the property to be
# lost, and the dot products to spread around their mean at each distance:
# %%
table = sinusoidal_positions(np.arange(64), 64)                       # (T, C)
sines = np.repeat(table[:, 0::2], 2, axis=1)                          # the misprint
tables = {"sine and cosine": table, "sine twice": sines}
for name, each in tables.items():
    spread = max(np.ptp((each @ each.T).diagonal(k)) for k in range(63))        # at distance k
    print(f"{name}: products at one distance differ by up to {spread:.0e}")
# %% tags=["hide-input"]
similarity_by_distance(tables).figure
# %% [markdown]
# As expected: for the right form the band between the smallest and the largest product has no
# width. (The products do not fall steadily: they are sums of cosines. Those of learned vectors
# depend on the distance only as far as training makes them.) Here is the table P as a map, with a
# row for each position. The fast coordinates are on the left:
# %% tags=["hide-input"]
position_vectors(table, title="Sinusoidal positions").figure
# %% [markdown] minutes=20
# ## A bias on the scores
# Vectors that are added give each position an **absolute** label. What matters in text is mostly
# **relative**: the word before, the sentence before. With added vectors a model must learn from
# examples that positions 7 and 8 are related as 107 and 108 are. So newer schemes change the scores
# directly, as a function of the distance. ALiBi ("attention with linear biases") subtracts a
# penalty proportional to it. Each head h has a fixed slope $m_h$, so that some heads look near and
# others far; nothing is learned. (Heads are parallel copies of attention; see lesson 4.)
# %% tags=["hide-input"]
position_biases(alibi(np.zeros((4, 24, 24)), alibi_slopes(4))[0], title="ALiBi: four heads").figure
# %% [markdown]
# $$z_{hts} = \frac{q_{ht} \cdot k_{hs}}{\sqrt D} - m_h\, |t - s|, \qquad
# m_h = 2^{-8 h / H}, \quad h = 1, \dots, H, \qquad z: (H, T, S)$$
#
# For H = 4 the slopes are 1/4, 1/16, 1/64 and 1/256: the pictures of heads 3 and 4 are nearly
# white.
#
# T5 learns the bias instead: a number for each head and each **bucket** of distances. Near
# distances have a bucket each, far ones share wider ones, and all from 91 on share the last. The
# gradient of such a number is a sum, because it is added to many scores. These are the buckets of
# some distances s - t. Negative ones are keys before the query; keys after it have 16 buckets of
# their own:
# %%
print(relative_position_buckets(np.array([0, -1, -2, -7, -8, -9, -20, -100, -1000]),
                                n_buckets=32, max_distance=128))
# %% [markdown]
# > A bias on the scores tells attention the distance of query and key, and nothing else.
#
# **Think.** With a causal mask, does it matter whether a head adds $-m_h (t - s)$ or $m_h\, s$ to
# its scores?
#
# <details><summary>Answer</summary>
#
# No. The two differ by $m_h t$, which is the same for all keys of a query, and a constant that is
# added to a row of scores does not change its softmax.
#
# </details>
#
# **Exercise 3.1** (10 minutes). Write ALiBi for scores of shape (..., H, T, S), with any number of
# axes before the heads, and slopes of shape (H,); return the new scores. With T < S, as when a
# model generates with stored keys, the last query has the position of the last key: the distance is
# $|t + S - T - s|$. Use it for T > S, too; the first queries are then before the first key.
# `hint("alibi")` helps; after a pass, `solution("alibi")` shows ours.
# %%
def alibi_by_hand(scores, slopes):
    """scores (..., H, T, S), any axes before the heads. Return the new scores."""
    ...


check("alibi", alibi_by_hand, seed=0)
# %% [markdown] minutes=25
# ## Rotary positions
# Can queries and keys carry their position, and yet have scores that depend on the distance alone?
# **Rotary positions** (RoPE) rotate queries and keys instead of adding to them. The coordinates of
# a head form D/2 pairs; at position t, pair i is rotated by the angle $t\, \omega_i$. Values are
# not rotated. Each clock below is one pair, with a hand for each of the first eight positions.
# %% tags=["hide-input"]
rotary_clocks(32, positions=8).figure
# %% [markdown]
# For one pair (a, b) and the angle $\varphi = t\, \omega_i$:
#
# $$\begin{pmatrix} a' \\ b' \end{pmatrix} = R_t \begin{pmatrix} a \\ b \end{pmatrix} =
# \begin{pmatrix} \cos\varphi & -\sin\varphi \\ \sin\varphi & \cos\varphi \end{pmatrix}
# \begin{pmatrix} a \\ b \end{pmatrix}, \qquad \omega_i = 10000^{-2i/D}, \quad q, k: (T, D)$$
#
# The score is the sum over the pairs. For one pair of a query at position m and a key at position
# n:
#
# $$\begin{aligned}
# (R_m q) \cdot (R_n k) &= q^\top R_m^\top R_n k && \text{dot product as a matrix product} \\
# &= q^\top R_{-m} R_n k && \text{the transpose of a rotation rotates back} \\
# &= q^\top R_{n-m}\, k && \text{angles of successive rotations add}
# \end{aligned}$$
#
# > Rotated queries and keys have scores that depend on their content and on the distance m - n, not
# > on the positions themselves. Norms do not change.
#
# Here are one query and one key at all pairs of positions; along each diagonal the score is
# constant:
# %% tags=["hide-input"]
rotary_proof(*np.random.default_rng(0).standard_normal((2, 32))).figure
# %% [markdown]
# For the gradient we write $\bar{x} = \partial L / \partial x$, `dx` in code. Each input of a pair
# is used in both outputs, so two gradients add:
#
# $$\begin{aligned}
# \bar{a} &= \bar{a}' \cos\varphi + \bar{b}' \sin\varphi
#   && a' = a \cos\varphi - b \sin\varphi, \quad b' = a \sin\varphi + b \cos\varphi \\
# \bar{b} &= -\bar{a}' \sin\varphi + \bar{b}' \cos\varphi && \text{this is } R_t^\top = R_{-t}
#   \text{: rotate back}
# \end{aligned}$$
#
# Which coordinates form a pair is a convention. Here pair i has the coordinates i and i + D/2, as
# in most published LLaMA weights; the paper takes 2i and 2i + 1, as the sinusoids above do. The
# proof holds for either, as long as queries and keys use the same pairs. In code, cosine and sine
# are arrays (T, D/2), one number for each position and pair. The backward gets x, as every backward
# here gets the arguments of its forward, but a rotation is linear: its gradient does not depend on
# x.
# %%
def rotary_backward(dy, x, cosine, sine):
    da, db = np.split(dy, 2, axis=-1)                                 # (..., T, D/2)
    return np.concatenate([da * cosine + db * sine, db * cosine - da * sine], axis=-1)


check("rotary_backward", rotary_backward, seed=0)
# %% [markdown]
# **Exercise 3.2** (10 minutes). GPT-NeoX rotates only the first R coordinates of a head (here R is
# a number, and no rotation). x is (..., T, D), with any axes before T; cosine and sine are (T,
# R/2). Pair i is i and i + R/2. Which gradient do the other coordinates receive?
# `hint("partial_rotary_backward")` helps; after a pass, `solution("partial_rotary_backward")` shows
# ours.
# %%
def partial_rotary_backward(dy, x, cosine, sine):
    """dy, x (..., T, D), any axes before T. Return dx."""
    ...


check("partial_rotary_backward", partial_rotary_backward, seed=0)
# %% [markdown]
# **Think.** The slowest pair of D = 32: how many tokens does one full turn take?
#
# <details><summary>Answer</summary>
#
# The last frequency is $10000^{-30/32} = 1.8 \cdot 10^{-4}$; a turn takes $2 \pi / \omega =
# 35{,}000$ tokens.
#
# </details>
# %% [markdown]
# The library's layer as a graph: the angles are computed once for all heads, and the same rotation
# is applied to q and to k, here called x. The indices a and b are those of the first and the second
# half of the coordinates; y is filled in two steps, and y′ is the same array after the second.
# There are no parameters.

# %% tags=["hide-input"]
from numformer.layers import RotaryPositions
from numformer.plots import computation_graph

computation_graph(RotaryPositions(8), np.ones((1, 2, 5, 8), np.float32)).figure

# %% [markdown] minutes=5
# ## Experiment: beyond the trained length
# Small language models learn from texts of 64 characters and are tested on 256. ALiBi changes
# scores smoothly with the distance, so we expect it to extrapolate best; rotations by angles that
# training has never shown, and vectors of positions that it has never shown, should do worse.
# `numformer reproduce length-extrapolation` measures the loss at the positions 33 to 64, in nats
# per character (median of the seeds 1, 2 and 3), and how much higher it is at the positions 225 to
# 256, with each seed:
#
# | | ALiBi | T5's bias | rotary | learned vectors | sinusoids |
# |---|---|---|---|---|---|
# | loss, 33 to 64 | 1.521 | 1.426 | 1.425 | 1.555 | 1.522 |
# | rise, seed 1 | 0.018 | 0.277 | 1.42 | 1.36 | 2.92 |
# | seed 2 | 0.011 | 0.220 | 1.73 | 1.37 | 1.99 |
# | seed 3 | 0.016 | 0.227 | 1.54 | 1.41 | 2.08 |
#
# > In this test a smooth penalty by distance extrapolates, a learned bias does less well; plain
# > rotations and vectors that are added do not.
# %% [markdown]
# ## Summary
# - Without positions $f(\Pi X) = \Pi f(X)$: self-attention cannot tell "dog bites man" from "man
#   bites dog". Order comes from vectors that are added, from biases, or from rotations.
# - Learned vectors and sinusoids are added to the inputs. Sinusoids: $P_s \cdot P_t = \sum_i
#   \cos((t - s)\, \omega_i)$.
# - ALiBi: $-m_h |t - s|$ on the scores. T5: a learned number for each bucket of distances.
# - Rotations: $(R_m q) \cdot (R_n k) = q^\top R_{n-m} k$; the gradient is rotated back.
# - More practice: `numformer exercises 15 17 33`.
# %% [markdown]
# ## Further reading
# - Vaswani et al. (2017), "Attention Is All You Need", section 3.5; Gehring et al. (2017),
#   "Convolutional Sequence to Sequence Learning", section 3.1: learned positions.
# - Shaw et al. (2018), "Self-Attention with Relative Position Representations": the first relative
#   positions in attention. Raffel et al. (2020), section 2.1: T5's bias.
# - Press et al. (2022), "Train Short, Test Long": ALiBi. Su et al. (2021), "RoFormer": rotations.
# - Haviv et al. (2022), "Transformer Language Models without Positional Encodings Still Learn
#   Positional Information". Code: `numformer/functional/positions/`.
