# %% [markdown]
# # 3. Order and positions
#
# Time: about 5 seconds on 2 cores.
#
# **Goals.** See that attention is permutation-equivariant; learn five ways to add position
# information: sinusoids, learned vectors, biases by distance, ALiBi and rotations; see that rotated
# scores depend only on distance.
#
# **Before.** Notebook 2.

# %%
# %matplotlib inline
import numpy as np

from numformer import check
from numformer.functional import (
    add_by_distance, alibi, alibi_slopes, relative_position_bias, relative_position_buckets, rotary,
    rotary_angles, sinusoidal_positions)
from numformer.layers import MultiHeadAttention, RotaryPositions
from numformer.plots import (
    position_biases, position_vectors, rotary_clocks, rotary_proof, similarity_by_distance)

# %% [markdown]
# ## Attention is permutation-equivariant
#
# Permute the inputs, and the outputs are permuted in the same way: attention treats its input as a
# set of vectors. ("dog bites man" and "man bites dog" are the same set.)

# %%
rng = np.random.default_rng(0)
layer = MultiHeadAttention(16, 2, rng, dtype=np.float64)
x, order = rng.standard_normal((1, 6, 16)), rng.permutation(6)
print(np.abs(layer(x[:, order]) - layer(x)[:, order]).max())
with_positions = MultiHeadAttention(16, 2, rng, positions=RotaryPositions(8), dtype=np.float64)
print(np.abs(with_positions(x[:, order]) - with_positions(x)[:, order]).max())

# %% [markdown]
# ## Sinusoids: a clock with many hands
#
# $$P_{t, 2i} = \sin(t\, \omega_i), \qquad P_{t, 2i+1} = \cos(t\, \omega_i), \qquad
# \omega_i = 10000^{-2i/C}$$
#
# Two neighbouring columns are the sine **and** the cosine of the same angle. (Some slides print the
# sine twice; then the next property does not hold.)

# %%
table = sinusoidal_positions(np.arange(64), 64)                       # (T, C)
position_vectors(table, title="Sinusoidal positions").figure

# %% [markdown]
# Because $\sin a \sin b + \cos a \cos b = \cos(a - b)$, the dot product of two position vectors
# depends only on their distance. Learned vectors have this property only as far as training
# produces it.

# %%
random = rng.standard_normal((64, 64))
similarity_by_distance({"sinusoids": table, "random": random}).figure

# %% [markdown]
# ## A bias by distance: ALiBi and T5
#
# Instead of adding positions to vectors, add a bias to scores. ALiBi subtracts a penalty
# proportional to distance. Each head has its own fixed slope; nothing is learned.

# %%
position_biases(alibi(np.zeros((4, 24, 24)), alibi_slopes(4))[0], title="ALiBi: four heads").figure

# %% [markdown]
# T5 learns a number for each *bucket* of distances: one bucket per distance nearby, wider buckets
# further away.

# %%
distances = np.array([0, -1, -2, -7, -8, -9, -20, -100, -1000])
print(relative_position_buckets(distances, n_buckets=32, max_distance=128))
learned = rng.standard_normal((32, 2))                                # (buckets, H): random here
bias, _ = relative_position_bias(learned, 40, 40)
biased, _ = add_by_distance(np.zeros((2, 40, 40)), bias)              # (H, T, S)
position_biases(biased, title="T5's buckets, before training").figure

# %% [markdown]
# ## Rotations
#
# RoPE rotates every pair of coordinates of q and k by an angle proportional to the position: fast
# pairs distinguish neighbours, slow pairs distant positions.

# %%
rotary_clocks(32, positions=8).figure

# %% [markdown]
# A rotation preserves norms, and $(R_m q) \cdot (R_n k) = q \cdot (R_{n-m} k)$: the score depends
# only on $m - n$. Here are one query and one key at all pairs of positions:

# %%
rotary_proof(*rng.standard_normal((2, 32))).figure

# %% [markdown]
# ## Is the gradient right?
#
# The transpose of a rotation is its inverse, so the backward rotates the gradient by the opposite
# angle.

# %%
def rotary_backward(dy, x, cosine, sine):
    da, db = np.split(dy, 2, axis=-1)
    return np.concatenate([da * cosine + db * sine, db * cosine - da * sine], axis=-1)


y, _ = rotary(rng.standard_normal((2, 4, 10, 8)), *rotary_angles(0, 10, 8))
print(y.shape)                                                        # (B, H, T, D)
check("rotary_backward", rotary_backward, seed=0)

# %% [markdown]
# ## Exercises
#
# 1. Which pair of coordinates makes one full rotation within 64 positions, for D = 32?
# 2. Show that the sum of two sinusoidal positions of one frequency does not depend only on their
#    distance. Why do we compare products?
# 3. Exercises `17`, `18`, `23`, `29` and `33`.
