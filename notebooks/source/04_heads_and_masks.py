# %% [markdown]
# # 4. Heads, masks, cross-attention and local attention
#
# Time: about 5 seconds on 2 cores.
#
# **Goals.** See what several heads are for; read a mask; distinguish self-, cross-, causal and
# local attention; know what grouped heads save.
#
# **Before.** Notebooks 2 and 3.

# %%
# %matplotlib inline
import numpy as np

from numformer import AttentionPattern
from numformer.analysis import attention_by_layer
from numformer.analysis.attention_views import Reading, attention_views
from numformer.layers import MultiHeadAttention
from numformer.models import Decoder, DecoderConfig
from numformer.plots import attention_grid, attention_map, head_statistics
from numformer.verify import gradcheck

# %% [markdown]
# ## Several heads over the same vectors
#
# One head computes one weighted average per position. It can spread its weights over several
# positions, but all of their values enter that average with the same weights. H heads compute H
# averages with different weights: each head projects the vectors into a space of its own, of width
# D = C / H, and attends there. The outputs of all heads are concatenated and projected back:
#
# $$y = \mathrm{concat}(o_1, \dots, o_H) W_O, \qquad
# o_h = \mathrm{attention}(x W_Q^h, x W_K^h, x W_V^h)$$
#
# The matrix products cost as much as those of one head of the full width.

# %%
rng = np.random.default_rng(0)
layer = MultiHeadAttention(d_model=32, n_heads=4, rng=rng, std=0.5, dtype=np.float64)
x = rng.standard_normal((1, 12, 32))                                  # (B, T, C)
weights, = attention_by_layer(layer, x).values()
print("output", layer(x).shape, " weights", weights.shape)            # (B, T, C), (B, H, T, S)
causal = AttentionPattern(causal=True)
weights, = attention_by_layer(layer, x, pattern=causal).values()
attention_grid([weights[0]], causal.dense(12, 12), title="One layer, four heads").figure

# %% [markdown]
# ## Masks
#
# A mask is True where a query **may** attend. Four rules cover nearly everything, and they can be
# combined:

# %%
patterns = {
    "causal: nothing later": AttentionPattern(causal=True),
    "a window of 3 to each side": AttentionPattern(window=(3, 3)),
    "causal and local": AttentionPattern(causal=True, window=(3, 0)),
    "padding: 8 of 12 are tokens": AttentionPattern(lengths=np.array([8])),
}
for name, pattern in patterns.items():
    mask = np.broadcast_to(pattern.dense(12, 12), (1, 1, 12, 12))[0, 0]
    print(f"{name:28} {mask.sum():3} of 144 cells")
local = patterns["causal and local"].dense(12, 12)
equal = local / local.sum(axis=1, keepdims=True)                      # (T, S)
attention_map(equal, mask=local, title="Causal and local: equal weights").figure

# %% [markdown]
# Stacking layers widens a window: after L layers with a window of w, a token can depend on tokens L
# w positions earlier. Padding does not change the output at the other positions:

# %%
padded = np.concatenate([x[:, :8], rng.standard_normal((1, 4, 32))], axis=1)
padding = patterns["padding: 8 of 12 are tokens"]
print(np.abs(layer(padded, pattern=padding)[:, :8] - layer(x[:, :8])).max())

# %% [markdown]
# ## Cross-attention
#
# In cross-attention the queries come from one sequence, the keys and values from another. The
# decoder of notebook 11 reads the source sentence in this way.

# %%
source = rng.standard_normal((1, 7, 32))                              # (B, S, C)
weights, = attention_by_layer(layer, x, source).values()
print(layer(x, source).shape, weights.shape)                          # (B, T, C), (B, H, T, S)

# %% [markdown]
# ## Grouped heads
#
# During generation a decoder caches its keys and values. If several query heads share them, the
# cache is smaller:

# %%
for G in (4, 2, 1):
    grouped = MultiHeadAttention(32, 4, rng, n_kv_heads=G)
    _, cache = grouped.step(np.ones((1, 10, 32), np.float32))
    print(f"G = {G}: keys {cache.k.shape}, "
          f"{cache.k.nbytes + cache.v.nbytes} bytes for 10 tokens")

# %% [markdown]
# ## What heads do, in numbers
#
# Entropy measures how widely a head spreads its attention, distance how far back it attends. With
# random weights the differences between heads are chance; after training (notebook 10) they reflect
# what each head does.

# %%
config = DecoderConfig(vocab_size=20, context_length=16, n_layers=3, n_heads=4, d_model=32,
                       init_std=0.3)
model, ids = Decoder(config, rng), rng.integers(0, 20, (1, 16))
view, = attention_views(model, Reading((ids,), [str(i) for i in ids[0]]))
head_statistics(view.weights).figure

# %% [markdown]
# ## Is the gradient right?
#
# `gradcheck` compares every derivative of a layer, with respect to its inputs and all its
# parameters, with the complex step.

# %%
small = MultiHeadAttention(4, 2, rng, n_kv_heads=1, dtype=np.float64)
print(gradcheck(small, [rng.standard_normal((1, 3, 4))], {"pattern": causal}))

# %% [markdown]
# ## Exercises
#
# 1. With C fixed, does the number of parameters depend on H? Does the number of scores?
# 2. Which pattern lets a causal model read several documents packed into one row? (See
#    `AttentionPattern(documents=...)`.)
# 3. Exercise `31`.
