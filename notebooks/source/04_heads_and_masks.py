# %% [markdown]
# # 4. Heads, masks, cross-attention and local attention
#
# Time: about 5 seconds on 2 cores.
#
# **Goals.** See what several heads are for; read a mask; tell self-, cross-, causal and local attention apart; know what grouped heads
# save.
#
# **Before.** Notebooks 2 and 3.

# %%
# %matplotlib inline
import numpy as np

from numformer import AttentionPattern
from numformer.layers import MultiHeadAttention
from numformer.models import Decoder, DecoderConfig
from numformer.plots import attention_grid, attention_map, head_statistics
from numformer.plots.views import Reading, attention_views
from numformer.verify import gradcheck

# %% [markdown]
# ## Several views of the same vectors
#
# One softmax has one peak, more or less. H heads have H: each projects the vectors into a space of its own of width D = C / H, attends
# there, and all outputs are joined and projected back:
#
# $$y = \mathrm{concat}(o_1, \dots, o_H) W_O, \qquad o_h = \mathrm{attention}(x W_Q^h, x W_K^h, x W_V^h)$$
#
# It costs as much as one head of the full width.

# %%
rng = np.random.default_rng(0)
layer = MultiHeadAttention(d_model=32, n_heads=4, rng=rng, std=0.5, dtype=np.float64)
x = rng.standard_normal((1, 12, 32))                                  # (B, T, C)
print("output", layer(x).shape, " weights", layer.weights(x).shape)    # (B, T, C), (B, H, T, S)
causal = AttentionPattern(causal=True)
attention_grid([layer.weights(x, pattern=causal)[0]], causal.dense(12, 12), title="One layer, four heads").figure

# %% [markdown]
# ## Masks
#
# A mask says who **may** look. Four rules cover nearly everything, and they can be combined:

# %%
patterns = {
    "causal: nothing later": AttentionPattern(causal=True),
    "a window of 3 to each side": AttentionPattern(window=(3, 3)),
    "causal and local": AttentionPattern(causal=True, window=(3, 0)),
    "padding: 8 of 12 are real": AttentionPattern(lengths=np.array([8])),
}
for name, pattern in patterns.items():
    mask = np.broadcast_to(pattern.dense(12, 12), (1, 1, 12, 12))[0, 0]
    print(f"{name:28} {mask.sum():3} of 144 cells")
local = patterns["causal and local"].dense(12, 12)
attention_map(local / local.sum(axis=1, keepdims=True), mask=local, title="Causal and local: equal weights").figure

# %% [markdown]
# Layers widen a window: after L layers of a window of w, a token may know of what stood L w places before. Padding changes nothing for
# the real ones:

# %%
padded = np.concatenate([x[:, :8], rng.standard_normal((1, 4, 32))], axis=1)
print(np.abs(layer(padded, pattern=patterns["padding: 8 of 12 are real"])[:, :8] - layer(x[:, :8])).max())

# %% [markdown]
# ## Cross-attention
#
# Queries come from one sequence, keys and values from another. That is all; the encoder-decoder of notebook 11 is made of it.

# %%
source = rng.standard_normal((1, 7, 32))                              # (B, S, C)
print(layer(x, source).shape, layer.weights(x, source).shape)         # (B, T, C), (B, H, T, S)

# %% [markdown]
# ## Grouped heads
#
# Keys and values are what a decoder remembers while it writes. If several query heads share them, the memory shrinks:

# %%
for G in (4, 2, 1):
    grouped = MultiHeadAttention(32, 4, rng, n_kv_heads=G)
    _, cache = grouped.step(np.ones((1, 10, 32), np.float32))
    print(f"G = {G}: keys {cache.k.shape}, {cache.k.nbytes + cache.v.nbytes} bytes for 10 tokens")

# %% [markdown]
# ## What heads do, in numbers
#
# Entropy says how spread out a head looks, distance how far. With weights that were drawn at random heads differ by chance alone;
# after training (notebook 10) they differ by what they do.

# %%
config = DecoderConfig(vocab_size=20, context_length=16, n_layers=3, n_heads=4, d_model=32, init_std=0.3)
model, ids = Decoder(config, rng), rng.integers(0, 20, (1, 16))
view, = attention_views(model, Reading((ids,), [str(i) for i in ids[0]]))
head_statistics(view.weights).figure

# %% [markdown]
# ## Is the gradient right?
#
# `gradcheck` holds every derivative of a layer against the complex step: inputs and all parameters, number by number.

# %%
small = MultiHeadAttention(4, 2, rng, n_kv_heads=1, dtype=np.float64)
print(gradcheck(small, [rng.standard_normal((1, 3, 4))], {"pattern": causal}))

# %% [markdown]
# ## Exercises
#
# 1. With C fixed, does the number of parameters depend on H? Does the number of scores?
# 2. Which pattern makes a causal model of documents that were packed one behind the other? (See `AttentionPattern(documents=...)`.)
# 3. Exercise `31`.
