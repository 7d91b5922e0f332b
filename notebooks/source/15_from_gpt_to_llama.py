# %% [markdown]
# # 15. From GPT to LLaMA, and counting
#
# **Question.** Which few changes lead from the Transformer of 2017 to LLaMA, what do they gain, and
# what does one token cost such a model in parameters, operations and memory?
#
# **You will learn** to
#
# - explain the four choices in which the two models differ;
# - derive and implement the gradient of RMSNorm;
# - measure what the changes gain on the same text under equal conditions;
# - derive the number of parameters and operations of any decoder;
# - explain what a KV cache saves, what it costs, and what grouped heads change.
#
# **You need** lessons 2 to 6 and 10: attention, positions, norms, feed-forward networks, training.
#
# **Time.** 2 x 45 minutes; the cells run in about 40 seconds.

# %% tags=["setup"]
# %matplotlib inline
import time

import numpy as np
from matplotlib.figure import Figure

from numformer import check, hint, solution
from numformer.analysis import count, model_costs, model_sizes
from numformer.data import BlockStream, CharacterTokenizer, consecutive_blocks, load_corpus
from numformer.functional import rms_norm
from numformer.generation import generate
from numformer.models import CONFIGS, GPT2, LLAMA, TRANSFORMER_2017, Decoder, DecoderConfig
from numformer.plots import cost_treemap, losses_by_tokens, model_growth
from numformer.training import Trainer, TrainingConfig

# %% [markdown] minutes=10
# ## Four choices
#
# The Transformer of 2017 is an encoder-decoder for translation. Keep only its encoder blocks and
# train them to restore masked words, and you have BERT (lesson 12). Keep only its decoder blocks,
# without cross-attention, and train them to predict the next token, and you have GPT. Nearly all
# large language models of today are of this second kind, and they differ from the original in few
# parts:
#
# | | 2017 | GPT-2 (2019) | LLaMA (2023) |
# |---|---|---|---|
# | norm | LayerNorm after addition | LayerNorm before branch | RMSNorm before branch |
# | positions | sinusoids, added once | learned vectors, added once | rotations, in every block |
# | feed-forward | ReLU | GELU | SwiGLU: a gated network |
# | biases | in the feed-forward (here: everywhere) | everywhere | nowhere |
#
# One block of the last column, for x of shape (T, C), is
#
# $$h = x + \mathrm{Attention}(\mathrm{RMSNorm}(x)), \qquad
# y = h + \mathrm{SwiGLU}(\mathrm{RMSNorm}(h))$$
#
# You know the other parts: pre-norm and post-norm from lesson 5, rotary positions from lesson 3,
# gated networks from lesson 6. We derive RMSNorm here. What has changed most is the size:

# %% tags=["hide-input"]
model_growth(model_sizes(), {"transformer-big": "right", "gpt2-xl": "above", "gpt3": "above",
                             "llama-7b": "left"}).figure

# %% [markdown]
# > LLaMA is the decoder of 2017 with four parts exchanged: the norm, the positions, the
# > feed-forward network and the biases.

# %% [markdown] minutes=25
# ## RMSNorm and its gradient
#
# LayerNorm subtracts the mean of a vector and divides by its standard deviation. Zhang and Sennrich
# (2019) asked whether the mean is needed and left it out. What remains divides a vector by its
# *root mean square*. With two coordinates one can see it: every vector is moved along its own
# direction to the circle of radius $\sqrt 2$, where the mean of the two squares is 1.

# %%
points = np.random.default_rng(0).standard_normal((60, 2)) * [1.5, 0.7] + [0.4, 0.3]
moved = rms_norm(points, np.ones(2))[0]
# %% tags=["hide-input"]
ax = Figure(figsize=(4.6, 4.6), layout="constrained").add_subplot()
ax.plot([points[:, 0], moved[:, 0]], [points[:, 1], moved[:, 1]], color="silver", linewidth=0.8)
ax.scatter(*points.T, label="x", s=14)
ax.scatter(*moved.T, label="RMSNorm(x)", s=14)
ax.set(aspect="equal", title="RMSNorm keeps directions")
ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.1), ncols=2)
ax.figure

# %% [markdown]
# For a vector x with C coordinates, a learned weight $\gamma$ (C) and a small $\epsilon$ that
# avoids a division by zero, we name each step; $\langle \cdot \rangle$ is the mean over the C
# coordinates:
#
# $$r = \left( \langle x^2 \rangle + \epsilon \right)^{-1/2}, \qquad \hat{x} = x\, r, \qquad
# y = \gamma \odot \hat{x}$$
#
# $\langle x^2 \rangle$ and r are single numbers for each vector; $\hat{x}$ and y have the shape of
# x, (..., C). A bar denotes the gradient of the loss L, $\bar{x} = \partial L / \partial x$, which
# code names `dx`. From the last step to the first:
#
# 1. $y = \gamma \odot \hat{x}$: a product. All vectors share $\gamma$, so its gradients add:
#
# $$g = \bar{\hat{x}} = \gamma \odot \bar{y}, \qquad \bar{\gamma} = \sum_{\text{vectors}} \bar{y}
# \odot \hat{x} \quad (C)$$
#
# 2. $\hat{x}_j = x_j\, r$: the number r multiplies every coordinate, so the gradients of these
#    uses add:
#
# $$\bar{r} = \sum_{i} g_i\, x_i$$
#
# 3. $r = u^{-1/2}$ with $u = \langle x^2 \rangle + \epsilon$: the power rule gives
#    $\mathrm{d}r / \mathrm{d}u = -\tfrac12 u^{-3/2} = -\tfrac12 r^3$:
#
# $$\overline{\langle x^2 \rangle} = -\tfrac12\, r^3\, \bar{r}$$
#
# 4. x is used twice: in step 2, and in $\langle x^2 \rangle = \frac1C \sum_j x_j^2$, whose
#    derivative with respect to $x_j$ is $2 x_j / C$. The gradients of both uses add:
#
# $$\bar{x}_j = r\, g_j + \overline{\langle x^2 \rangle}\, \frac{2 x_j}{C}
# = r\, g_j - r^3\, x_j\, \frac1C \sum_{i} g_i\, x_i$$
#
# 5. Put $x = \hat{x} / r$ into the last term, twice; $r^3$ becomes r:
#
# $$\bar{x} = r \left( g - \hat{x}\, \langle g\, \hat{x} \rangle \right) \qquad (\dots, C)$$
#
# The second term removes from g its part along $\hat{x}$. It has to: if x is scaled, y does not
# change (for small $\epsilon$), so the gradient cannot have a component along x.

# %%
def rms_norm_backward(dy, x, weight):
    r = ((x * x).mean(axis=-1, keepdims=True) + 1e-5) ** -0.5         # (..., 1)
    x_hat = r * x
    # y = weight * x_hat
    g, dweight = weight * dy, (dy * x_hat).sum(axis=tuple(range(x.ndim - 1)))
    # x_hat = r(x) * x
    dx = r * (g - x_hat * (g * x_hat).mean(axis=-1, keepdims=True))
    return dx, dweight


check("rms_norm_backward", rms_norm_backward, seed=0)

# %% [markdown]
# > RMSNorm fixes the root mean square of a vector; backward it scales the gradient and removes the
# > part along the vector itself.
#
# **Exercise 15.1** (15 minutes). In some code the small number is outside the root:
# $\hat{x} = x / (\sqrt{\langle x^2 \rangle} + \epsilon)$, with $\epsilon$ = 1e-5. Which of the five
# steps change? Where x = 0 the root has no derivative; take it as 0 there.
# `hint("rms_norm_outside_backward")` helps; after a pass, `solution("rms_norm_outside_backward")`
# shows ours.

# %%
def rms_norm_outside_backward(dy, x, weight):
    """dy, x (..., C), any axes before the last; weight (C,). Return dx, dweight."""
    ...


check("rms_norm_outside_backward", rms_norm_outside_backward, seed=0)

# %% [markdown] minutes=15
# ## Experiment: equal conditions
#
# The three columns of the table become three decoders of the same width (48) and depth (3 blocks).
# The table changes four parts at once, so a fourth model, GPT-2 with rotary positions, changes one
# part alone. All read the same characters of Python's documentation in the same order, in batches
# of 16 x 48 characters, for 100 steps. A comparison is only fair if each design has a learning rate
# that suits it. Before this lesson we tried three rates for each design with one seed, such as
# `run(LLAMA, 1, 4e-3, 150)` in the code below:
#
# | loss after 150 steps, seed 1 | 0.004 | 0.008 | 0.016 |
# |---|---|---|---|
# | 2017 | 2.291 | 2.266 | 3.333 |
# | GPT-2 | 2.282 | 2.232 | 2.299 |
# | LLaMA | 2.014 | 1.925 | 1.942 |
#
# The best is 0.008 for all three, and we use it for the fourth. The design of 2017 loses most at
# 0.016.
#
# **Expected.** Pre-norm keeps an unnormalised residual path, so early training should be easier for
# GPT-2 and LLaMA. Rotations give every head the distance between characters directly, where added
# vectors have to be learned from; that should help most in a short run.

# %%
corpus = load_corpus()
tokenizer = CharacterTokenizer.of(corpus.text)
text, held_out = (tokenizer.encode(part) for part in corpus.split())
T = 48
blocks = consecutive_blocks(held_out, T, blocks=100)


def run(choices, seed, learning_rate=8e-3, steps=100):
    """(trained model, validation losses by tokens read)."""
    sizes = dict(vocab_size=len(tokenizer), context_length=T, n_layers=3, n_heads=4, d_model=48,
                 init_std=0.08, tied=True)
    model = Decoder(DecoderConfig(**{**choices, **sizes}), np.random.default_rng(seed))
    trainer = Trainer(model, BlockStream(text, T, 16, seed=seed), blocks, TrainingConfig(
        steps=steps, batch_size=16, learning_rate=learning_rate,
        min_learning_rate=learning_rate / 10, warmup_steps=20))
    curve = []
    for step in range(steps):
        trainer.train_step()
        if trainer.step % 25 == 0:
            curve.append((trainer.n_targets, trainer.evaluate()))
    return model, curve

# %%
curves = {}
designs = {"2017": TRANSFORMER_2017, "GPT-2": GPT2,
           "GPT-2 rotary": {**GPT2, "positions": "rotary"}, "LLaMA": LLAMA}
for name, choices in designs.items():
    runs = [run(choices, seed) for seed in (1, 2, 3)]
    model, curves[name] = runs[0]
    n_parameters = sum(parameter.data.size for parameter in model.parameters())
    print(f"{name:12}: {n_parameters:,} parameters; loss with seeds 1, 2, 3:",
          ", ".join(f"{curve[-1][1]:.3f}" for _, curve in runs))
# %% tags=["hide-input"]
losses_by_tokens(curves, title="Validation loss, seed 1").figure

# %% [markdown]
# **What came out.** LLaMA's design is ahead of GPT-2's with every seed, by about 0.2 nats, which is
# far more than the seeds differ. Rotary positions alone give GPT-2 most of this gain, as expected.
# The other expectation fails for GPT-2: it is ahead of 2017 with seeds 1 and 2 and behind with seed
# 3. And these two differ in all four parts, so that no result could credit pre-norm alone. All this
# holds for a short run; added position vectors have more time to become useful in a longer one.
#
# > A fair comparison has equal data, equal sizes, a learning rate chosen for each design, and more
# > than one seed.
#
# What remains in longer runs? The presets train 0.8 million parameters on 2.46 million characters
# (`numformer reproduce decoder-2017 gpt llama`):
#
# | validation loss, nats per character | seed 1 | seed 2 | seed 3 |
# |---|---|---|---|
# | 2017 | 1.2089 | 1.2233 | 1.1956 |
# | GPT-2 | 1.1771 | 1.1799 | 1.1749 |
# | LLaMA | 1.1757 | 1.2017 | 1.1701 |
#
# Both later designs are ahead of that of 2017 with every seed. LLaMA is ahead of GPT-2 with two
# seeds and behind with one. For equal loss, the design of 2017 needs 3.28, 3.45 and 2.75 times as
# many operations as LLaMA's in small models, with seeds 1, 2, 3 (`numformer reproduce
# operations-to-loss`).

# %% [markdown] minutes=10
# ## Counting parameters
#
# How large is a model, before one has built it? A block has six weight matrices, four in attention
# and two (or, gated, three) in the feed-forward network. With width C, hidden width F, H heads of
# width D = C / H and G heads of keys and values:
#
# 1. queries and output: two matrices of shape (C, C), $2 C^2$ parameters;
# 2. keys and values: two matrices of shape (C, G D), $2 C G D$, which is $2 C^2$ for G = H;
# 3. feed-forward: (C, F) and (F, C), $2 C F$; with the usual F = 4 C that is $8 C^2$;
# 4. a gated network has three matrices, $3 C F$; with $F = \tfrac83 C$ that is again $8 C^2$.
#
# Norms and biases are small. So, with L blocks and a table of V tokens,
#
# $$\text{parameters} \approx L\, (4 C^2 + 8 C^2) + V C = 12\, L\, C^2 + V C$$
#
# For GPT-3, L = 96 and C = 12,288 give 173.9 billion without the table; exact counts follow below.
# They are computed from the configs alone.

# %%
for name in ("transformer-big", "gpt2", "gpt2-xl", "gpt3", "llama-7b", "llama2-70b"):
    costs = count(CONFIGS[name])
    print(f"{name:15} {costs['parameters'] / 1e9:7.3f} G parameters, "
          f"{costs['flops_per_token'] / 1e9:7.2f} GFLOPs per token, "
          f"KV cache {costs['kv_bytes_per_token'] / 2 ** 20:.3f} MiB per token in float32")

# %% [markdown]
# > Without its table a decoder has about $12 L C^2$ parameters: four squares for attention, eight
# > for the feed-forward network, gated or not.

# %% [markdown]
# Llama 2 with 7 billion parameters, drawn from its config: each box has its number of parameters.

# %% tags=["hide-input"]
from numformer.models import CONFIGS
from numformer.plots import architecture_diagram

architecture_diagram(CONFIGS["llama2-7b"], title="Llama 2").figure

# %% [markdown] minutes=10
# ## Counting operations
#
# In a product of a vector with a matrix, every parameter takes part in one multiplication and one
# addition: two operations. Attention adds work without parameters. A query at position t has t
# scores, each a product of C numbers over all heads, and as much again for the average of values:
# 4 C operations for each of t keys. The mean of t = 1, ..., T is (T + 1) / 2, so per token
#
# $$\text{forward} \approx \underbrace{2 \cdot 12\, L\, C^2}_{\text{matrices}} +
# \underbrace{2\, L\, C\, (T + 1)}_{\text{scores and averages}}$$
#
# The head is one more product and adds $2 V C$, which is much for GPT-2 and little for GPT-3. The
# two terms above are equal where T + 1 = 12 C: for LLaMA-7B, with C = 4096, at about 49,000 tokens.
# The backward of a product $Y = X W$ has two products, $\bar{X} = \bar{Y} W^\top$ and
# $\bar{W} = X^\top \bar{Y}$, so a training step costs three times the forward. The picture compares
# the formulas with what was counted in a run of our last model.

# %% tags=["hide-input"]
cost_treemap(model_costs(model.config)).figure

# %% [markdown]
# > A token costs two operations per parameter forward and six in training; attention's own share
# > grows with the length of the context.

# %% [markdown] minutes=20
# ## The KV cache, and grouped heads
#
# A decoder generates one token at a time. The new token has a new query, key and value; keys and
# values of all earlier tokens are those of the step before, as causal attention never changes the
# past. A *KV cache* keeps them. Then a token costs one pass through the weights and one pass over
# the cached keys; without a cache the whole prefix is computed again.

# %%
prompt, n_tokens = tokenizer.encode("The "), 44
list(generate(model, prompt, 5, np.random.default_rng(0)))            # warm up
started = time.perf_counter()
list(generate(model, prompt, n_tokens, np.random.default_rng(0)))
with_cache, started = time.perf_counter() - started, time.perf_counter()
ids = list(prompt)
for _ in range(n_tokens):
    ids.append(int(model(np.array([ids]))[0, -1].argmax()))
without_cache = time.perf_counter() - started
passes = sum(range(len(prompt), len(prompt) + n_tokens))
print(f"positions computed: {len(prompt) + n_tokens - 1} with a cache, {passes} without; here "
      f"{1000 * with_cache:.0f} and {1000 * without_cache:.0f} ms")

# %% [markdown]
# The measured times depend on the machine, and in so small a model they differ less than the
# numbers of positions: a call has costs that do not depend on the length. The price is memory. Each
# block keeps a key and a value of width D for each of G heads, with b bytes per number:
#
# $$\text{cache} = 2\, L\, G\, D\, b \text{ bytes per token}$$
#
# LLaMA-7B (L = 32, G D = 4096) needs 1 MiB per token in float32. To save memory, *grouped-query
# attention* (Ainslie et al., 2023) lets several query heads share one key-value head: G < H. Llama
# 2 with 70 billion parameters has H = 64 and G = 8, and so an eighth of the cache that G = 64 would
# need.
#
# > The cache trades memory for computation: nothing of the past is computed twice, and grouped
# > heads make it G / H times as large.
#
# **Exercise 15.2** (10 minutes). For the computation, the G heads of keys x (B, G, S, D) are
# repeated to H heads, y (B, H, S, D): in code, which counts from 0, head h of y is head
# h // (H / G) of x. Derive the gradient: which axis is summed, after which reshape?
# `hint("repeat_kv_heads_backward")` helps; after a pass, `solution("repeat_kv_heads_backward")`
# shows ours.

# %%
def repeat_kv_heads_backward(dy, x, n_heads):
    """dy (B, H, S, D). Return dx (B, G, S, D)."""
    ...


check("repeat_kv_heads_backward", repeat_kv_heads_backward, seed=0)

# %% [markdown]
# **Think.** How much memory does the cache of Llama 2 70B (L = 80, D = 128) take for 4,096 tokens
# in float32, and how much would it take with 64 key-value heads?
#
# <details><summary>Answer</summary>
#
# 2 x 80 x 8 x 128 x 4 bytes are 640 KiB per token, so 2.5 GiB. With 64 heads it would be 20 GiB.
#
# </details>
#
# **Think.** Why does a cache not help in training?
#
# <details><summary>Answer</summary>
#
# In training all positions are known and computed at once in one pass, so no position is computed
# twice.
#
# </details>

# %% [markdown]
# ## Summary
#
# - From 2017 to LLaMA: pre-norm with RMSNorm, rotary positions, a gated feed-forward network, no
#   biases.
# - RMSNorm: $y = \gamma \odot r x$ with $r = (\langle x^2 \rangle + \epsilon)^{-1/2}$; backward
#   $\bar{x} = r (g - \hat{x} \langle g \hat{x} \rangle)$ with $g = \gamma \odot \bar{y}$.
# - Parameters: $12 L C^2 + V C$. Operations per token: two per parameter, and $2 L C (T + 1)$;
#   three times as many in training.
# - Cache: $2 L G D$ numbers per token; grouped heads make G smaller than H.
#
# More practice: `numformer exercises 11 18 19 20 29 34 41` (RMSNorm, rotations, gated units, norms,
# attention with a cache).

# %% [markdown]
# ## Further reading
#
# - H. Touvron et al. (2023), "LLaMA: Open and Efficient Foundation Language Models": section 2.2.
# - B. Zhang, R. Sennrich (2019), "Root Mean Square Layer Normalization": equation 4.
# - R. Xiong et al. (2020), "On Layer Normalization in the Transformer Architecture": sections 3 and
#   4 for post-norm and pre-norm.
# - J. Kaplan et al. (2020), "Scaling Laws for Neural Language Models": table 1 for counts.
# - J. Ainslie et al. (2023), "GQA: Training Generalized Multi-Query Transformer Models from
#   Multi-Head Checkpoints": section 2.2.
# - Code: `numformer/functional/norms/rms_norm.py`, `numformer/models/decoder/model.py`,
#   `numformer/analysis/costs.py`.
