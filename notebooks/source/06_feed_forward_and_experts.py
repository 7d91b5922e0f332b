# %% [markdown]
# # 6. Feed-forward networks, gates and mixtures of experts
#
# **Question.** Attention only moves information between positions. Where does a Transformer compute
# with what it has gathered, and how can this part grow without more work for each token?
#
# **You will learn** to
#
# - explain why every block has a second half, and what share of the parameters it holds;
# - derive and implement the gradients of a feed-forward network and of its gated version;
# - measure what happens to units that are always off;
# - derive how the gradient reaches a router that chooses between experts;
# - explain why a mixture of experts needs a loss for balance.
#
# **You need** lessons 4 and 5 (attention, residual branches), the chain rule, matrix products.
#
# **Time.** 2 x 45 minutes; the cells run in about 20 seconds.

# %% tags=["setup"]
# %matplotlib inline
from functools import partial

import numpy as np
from matplotlib.figure import Figure

from numformer import AttentionPattern, check, hint, solution
from numformer.analysis import capture, dead_units, hidden_activations
from numformer.data import BlockStream, CharacterTokenizer, load_corpus
from numformer.functional import (
    ACTIVATIONS, silu, softmax, swish, swish_backward, top_k_experts, top_k_gates)
from numformer.layers import (
    FeedForward, MixtureOfExperts, MultiHeadAttention, ResidualBranch, RMSNorm,
    SelfAttentionBranch, SwiGLU, TransformerBlock)
from numformer.models import Decoder, DecoderConfig
from numformer.plots import activation_curves, computation_graph
from numformer.training import Trainer, TrainingConfig
from numformer.verify import gradcheck

rng = np.random.default_rng(0)

# %% [markdown] minutes=10
# ## Attention is global, the feed-forward network local
#
# Disturb one input vector a little. Which output vectors change? For attention with a causal mask:
# that of the same position and all later ones. For a feed-forward network: that of the same
# position alone. In the picture, row t, column s shows how strongly output t depends on input s:
# the norm of the gradient of a random combination of the coordinates of output t with respect to
# input s (its square root, so that small values are visible). White means no influence.

# %%
T, C = 10, 16
layers = {"attention, causal": (MultiHeadAttention(C, 2, rng, dtype=np.float64),
                                {"pattern": AttentionPattern(causal=True)}),
          "feed-forward": (FeedForward(C, 4 * C, "gelu", rng, dtype=np.float64), {})}
x, direction = rng.standard_normal((1, T, C)), rng.standard_normal(C)
influence = {name: np.zeros((T, T)) for name in layers}
for name, (layer, options) in layers.items():
    _, saved = layer.forward(x, **options)                            # (1, T, C)
    for t in range(T):
        dy = np.zeros((1, T, C))
        dy[0, t] = direction                                          # output t alone
        influence[name][t] = np.linalg.norm(layer.backward(dy, saved)[0], axis=-1)      # (T,)
# %% tags=["hide-input"]
def panels(n, width=3.6, height=3.2):
    """n axes in a row."""
    return Figure(figsize=(width * n, height), layout="constrained").subplots(1, n)


axes = panels(2)
for ax, (name, norms) in zip(axes, influence.items()):
    ax.imshow(norms ** 0.5, cmap="Blues")
    ax.set(title=name, xlabel="input s", ylabel="output t")
axes[0].figure

# %% [markdown]
# > Attention moves information between positions; the feed-forward network computes on each vector
# > separately, with the same weights at every position.
#
# **Think.** How would both maps look without the mask?
#
# <details><summary>Answer</summary>
#
# That of attention would be full, as every output would depend on every input. That of the
# feed-forward network would stay diagonal, as it has no mask.
#
# </details>
#
# The network has two linear maps with a nonlinear function f between them:
#
# $$h = x W_1 + b_1, \qquad a = f(h), \qquad y = a W_2 + b_2$$
#
# $$x: (B, T, C) \quad W_1: (C, F) \quad b_1: (F,) \quad h, a: (B, T, F) \quad W_2: (F, C) \quad
# b_2: (C,) \quad y: (B, T, C)$$
#
# B is the batch, T the number of positions, C the width of the model, F the width between the maps,
# usually 4 C. The F coordinates of a are called *hidden units*. Without f, the two maps would
# collapse into one, because $(x W_1) W_2 = x (W_1 W_2)$. With f, each hidden unit detects one
# direction in its input, and its row of $W_2$ is what it adds to the output when it is active.
#
# With F = 4 C the two matrices hold $8 C^2$ numbers. The four matrices of attention hold $4 C^2$.
# So two thirds of a block's weights are here. The weights do not depend on the position, so the
# network handles texts of any length, and all positions can be computed at once.

# %% [markdown] minutes=10
# ## One word through a whole block
#
# Lesson 2 let the word "bat" attend from given queries, keys and values. Here the same sentence
# passes a whole pre-norm block of lesson 5, with one head and matrices made by hand, so that every
# coordinate has a meaning:
#
# $$h = x + \mathrm{softmax}\!\left( \frac{q k^\top}{\sqrt D} \right) v\, W_O, \qquad
# y = h + \max(0, m W_1)\, W_2, \qquad n = \mathrm{norm}(x),\; m = \mathrm{norm}(h)$$
#
# with $q = n W_Q$, $k = n W_K$ and $v = n W_V$. The norm is an RMSNorm whose weight
# $1 / \sqrt 8$ leaves vectors of norm 1 as they are.
# %%
coordinates = "article bat flight place time sport animal racket".split()                # C = 8


def matrix(*shape, **entries):
    """Zeros, but for the rows of these coordinates."""
    made = np.zeros(shape)
    for name, row in entries.items():
        made[coordinates.index(name)] = row
    return made


words = "the bat flew at dusk".split()
x = np.stack([matrix(8, **{name: 1}) for name in ("article", "bat", "flight", "place", "time")])
W_Q = matrix(8, 4, bat=[2, 2, 0, 0])                                  # flight, sport, time, other
W_K = matrix(8, 4, article=[0, 0, 0, 1], bat=[0.5, 0.5, 0, 0], flight=[3, 0, 0, 0],
             place=[0, 0, 0, 1], time=[0, 0, 2, 0])
W_V = matrix(8, 2, bat=[0.5, 0.5], flight=[1, 0], time=[0.2, 0])      # animal, racket
W_O = matrix(8, 2, animal=[1, 0], racket=[0, 1]).T
W_1 = matrix(8, 2, animal=[1, -1], racket=[-1, 1])                    # which of the two is larger
W_2 = matrix(8, 2, animal=[1, -1], racket=[-0.2, 0.2]).T
# %%
def norm(x):
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True)) / 8 ** 0.5


def show(step, values, names=coordinates):
    print(f"{step:26}", ", ".join(f"{name} {value:.2f}" for name, value in zip(names, values)
                                  if names is not coordinates or value))


kinds, meanings, t = ["flight", "sport", "time", "other"], ["animal", "racket"], 1    # t: "bat"
n = norm(x)                                                           # (T, C)
q, k, v = n @ W_Q, n @ W_K, n @ W_V                                   # (T, D), (T, D), (T, D_V)
scores = q @ k.T / np.sqrt(4)                                         # (T, T)
p, _ = softmax(scores)
o = p @ v                                                             # (T, D_V)
h = x + o @ W_O                                                       # (T, C)
m = norm(h)
f = np.maximum(m @ W_1, 0)                                            # (T, F)
y = h + f @ W_2                                                       # (T, C)
for step, values, *names in (
        ("x", x[t]), ("n = norm(x)", n[t]), ("q = n W_Q", q[t], kinds),
        ("k of \"flew\"", k[2], kinds), ("v of \"flew\"", v[2], meanings),
        ("scores = q k' / sqrt(4)", scores[t], words), ("p = softmax(scores)", p[t], words),
        ("o = p v", o[t], meanings), ("o W_O", (o @ W_O)[t]), ("h = x + o W_O", h[t]),
        ("m = norm(h)", m[t]), ("f = max(0, m W_1)", f[t], ["animal wins", "racket wins"]),
        ("f W_2", (f @ W_2)[t]), ("y = h + f W_2", y[t])):
    show(step, values, *names)
# %% [markdown]
# "bat" enters as the bare word and leaves as an animal. Attention adds 0.84 of "animal", most of it
# from "flew". The feed-forward network reads this one vector: as "animal" is larger than "racket",
# it raises the one and lowers the other.
#
# > A block adds two vectors to each position: what attention found at all positions, and what the
# > feed-forward network makes of the sum.
#
# The library's block with these matrices computes the same, and its graph has the same steps:
# %%
random = np.random.default_rng(0)
block = TransformerBlock(
    attention=SelfAttentionBranch(RMSNorm(8, 0.0, dtype=float), MultiHeadAttention(
        8, 1, random, d_head=4, d_value=2, bias=False, dtype=float)),
    feedforward=ResidualBranch(RMSNorm(8, 0.0, dtype=float),
                               FeedForward(8, 2, "relu", random, bias=False, dtype=float)))
block.load_state_dict({
    "norm1.weight": np.full(8, 8 ** -0.5), "attention.query.weight": W_Q,
    "attention.key.weight": W_K, "attention.value.weight": W_V, "attention.output.weight": W_O,
    "norm2.weight": np.full(8, 8 ** -0.5), "feedforward.hidden.weight": W_1,
    "feedforward.output.weight": W_2})
print(np.allclose(block(x[None])[0], y))
# %% tags=["hide-input"]
computation_graph(block, x[None], title="The block").figure

# %% [markdown] minutes=10
# ## Activation functions and their slopes
#
# The function f is called the *activation function*. Its values decide what a unit passes on; its
# slope decides how much gradient the unit gets back. Compare the two halves of the picture left of
# zero.

# %% tags=["hide-input"]
activation_curves({"ReLU": ACTIVATIONS["relu"], "GELU": ACTIVATIONS["gelu"],
                   "SiLU": ACTIVATIONS["silu"]}, last=4)

# %% [markdown]
# > ReLU has slope 0 for every negative input. GELU and SiLU bend smoothly and have a nonzero slope
# > almost everywhere.
#
# With the sigmoid $\sigma(x) = 1 / (1 + e^{-x})$ and the cumulative distribution function $\Phi$ of
# the standard normal distribution:
#
# $$\mathrm{ReLU}(x) = \max(0, x), \qquad \mathrm{GELU}(x) = x\, \Phi(x), \qquad
# \mathrm{SiLU}(x) = x\, \sigma(x)$$
#
# Swish has a slope parameter, $x\, \sigma(\beta x)$. With $\beta = 0$ it is half of x, with
# $\beta = 1$ it is SiLU, and the larger $\beta$, the closer it is to ReLU:

# %% tags=["hide-input"]
activation_curves({"ReLU": ACTIVATIONS["relu"]} | {
    f"beta = {beta:g}": (partial(swish, beta=beta), swish_backward)
    for beta in (0, 0.5, 1, 2, 5)}, last=4, title="Swish over beta")

# %% [markdown]
# Throughout, $\bar{x} = \partial L / \partial x$ denotes the gradient of the loss L with respect to
# x; it has the shape of x, and code names it `dx`. **The gradient of SiLU**, step by step. First
# the sigmoid:
#
# $$\sigma'(x) = \frac{e^{-x}}{(1 + e^{-x})^2}
# = \frac{1}{1 + e^{-x}} \cdot \frac{e^{-x}}{1 + e^{-x}} = \sigma(x)\, (1 - \sigma(x)) \qquad
# \text{(chain rule; split the square)}$$
#
# $$\frac{d}{dx}\, x\, \sigma(x) = \sigma(x) + x\, \sigma(x)\, (1 - \sigma(x))
# \qquad \text{(product rule)}$$
#
# $$\bar{x} = \bar{y} \odot \left( \sigma(x) + x\, \sigma(x)\, (1 - \sigma(x)) \right)
# \qquad \text{(each y depends on one x: multiply coordinate by coordinate)}$$

# %%
def silu_backward(dy, x):
    s = 1 / (1 + np.exp(-x))
    slope = s + x * s * (1 - s)
    return dy * slope


check("silu_backward", silu_backward, seed=0)

# %% [markdown]
# `check` compares a function with the library's own on random problems.
#
# **Exercise 6.1** (5 minutes). Derive the gradient of Swish, $y = x\, \sigma(\beta x)$, and write
# it below. `hint("swish_backward")` helps; after a pass, `solution("swish_backward")` shows ours.

# %%
def swish_backward(dy, x, beta=1.0):
    """dy and x have the same shape, with any number of axes. Return dx."""
    ...


check("swish_backward", swish_backward, seed=0)

# %% [markdown] minutes=10
# ## The gradient of a feed-forward network
#
# > The backward of a feed-forward network is the forward in reverse order: a product with a
# > transposed matrix for each product, a multiplication by the slope for the activation.
#
# **One linear map.** Number the vectors of all sequences from 1 to N = B T. Then, in coordinates,
#
# $$y_{nf} = \sum_c x_{nc} W_{cf} + b_f, \qquad x: (N, C) \quad W: (C, F) \quad b: (F,)$$
#
# $$\bar{x}_{nc} = \sum_f \bar{y}_{nf} W_{cf}
# \qquad \text{(} x_{nc} \text{ reaches all outputs of its row: chain rule, sum over f)}$$
#
# $$\bar{W}_{cf} = \sum_n x_{nc}\, \bar{y}_{nf}
# \qquad \text{(every row uses the same } W_{cf} \text{: the gradients add)}$$
#
# $$\bar{b}_f = \sum_n \bar{y}_{nf} \qquad \text{(every row uses the same } b_f \text{)}$$
#
# As matrix products: $\bar{x} = \bar{y} W^\top$ and $\bar{W} = x^\top \bar{y}$.
#
# **The network**, from its last line to its first:
#
# $$\bar{a} = \bar{y} W_2^\top, \quad \bar{W}_2 = a^\top \bar{y}, \quad
# \bar{b}_2 = \textstyle\sum_n \bar{y}_n \qquad \text{(linear map)}$$
#
# $$\bar{h} = \bar{a} \odot f'(h) \qquad \text{(activation)}$$
#
# $$\bar{x} = \bar{h} W_1^\top, \quad \bar{W}_1 = x^\top \bar{h}, \quad
# \bar{b}_1 = \textstyle\sum_n \bar{h}_n \qquad \text{(linear map)}$$

# %%
def linear_backward(dy, x, weight):
    (C, F), dx = weight.shape, dy @ weight.T
    return dx, x.reshape(-1, C).T @ dy.reshape(-1, F), dy.reshape(-1, F).sum(axis=0)


def feed_forward_backward(dy, x, hidden_weight, hidden_bias, output_weight, output_bias,
                          activation="gelu"):
    f, f_backward = ACTIVATIONS[activation]
    h = x @ hidden_weight + hidden_bias
    a, saved = f(h)
    da, doutput_weight, doutput_bias = linear_backward(dy, a, output_weight)   # y = a W2 + b2
    dh = f_backward(da, saved)                                                 # a = f(h)
    dx, dhidden_weight, dhidden_bias = linear_backward(dh, x, hidden_weight)   # h = x W1 + b1
    return dx, dhidden_weight, dhidden_bias, doutput_weight, doutput_bias


check("feed_forward_backward", feed_forward_backward, seed=0)

# %% [markdown] minutes=10
# ## Experiment: units that never fire
#
# A ReLU unit that is negative for every token outputs 0 and, because its slope is 0, gets no
# gradient. Such a unit is called *dead*.
#
# > A dead ReLU unit stays dead as long as its inputs do not change: no gradient reaches its
# > weights.
#
# A learning rate that is too large can push a bias far below zero. We imitate this: in a small
# language model of characters, a fifth of all hidden units gets the bias -3. Then we train for 100
# steps. **We expect** that the ReLU units stay dead, and that GELU units come back, because their
# slope is not 0. We look at these units alone: how far their activations are from 0 at most, over
# 512 held-out tokens, and how many of them are above 0 for some token. (GELU is slightly negative
# for negative inputs.)

# %% tags=["setup"]
corpus = load_corpus()
tokenizer = CharacterTokenizer.of(corpus.text)
text, held_out = (tokenizer.encode(part) for part in corpus.split())
ids = held_out[:16 * 32].reshape(16, 32)                              # (B, T)


def small_model(seed, **options):
    """One block, 32 characters of context."""
    config = DecoderConfig(vocab_size=len(tokenizer), context_length=32, n_layers=1, n_heads=2,
                           d_model=32, **options)
    return Decoder(config, np.random.default_rng(seed))


def train(model, seed, steps=100):
    """Train for some steps on blocks of 32 characters."""
    stream = BlockStream(text, 32, batch_size=16, seed=seed)
    settings = TrainingConfig(steps=steps, batch_size=16, learning_rate=4e-3, warmup_steps=10,
                              seed=seed, shards=1)
    trainer = Trainer(model, stream, [], settings)
    for _ in range(steps):
        trainer.train_step()

# %%
for name in ("relu", "gelu"):
    for seed in (1, 2, 3):
        model = small_model(seed, feedforward=name)
        model.blocks[0].feedforward.hidden.bias.data[::5] = -3
        (before,) = hidden_activations(model, ids).values()           # (B, T, F)
        train(model, seed)
        (after,) = hidden_activations(model, ids).values()
        above = (after[..., ::5] > 0).any(axis=(0, 1)).mean()
        print(f"{name}, seed {seed}: largest size {np.abs(before[..., ::5]).max():.3f} before, "
              f"{np.abs(after[..., ::5]).max():.3f} after, above 0 {above:.0%}; "
              f"dead, of all units: {dead_units(after):.0%}")

# %% [markdown]
# **What came out.** The ReLU units behave as expected: with all three seeds their activations are
# still exactly 0. (A few units that we did not touch are 0 on all these tokens, too.) The GELU
# units get a gradient, so they move, but the expectation that they come back fails: after 100 steps
# none is above 0 for any token. A small slope means slow learning.

# %% [markdown] minutes=10
# ## Gates: one projection multiplies another
#
# A *gate* is a number that multiplies a signal: 0 blocks it, 1 lets it pass. The picture shows the
# product of a signal h and a gate silu(g). Left, where g is negative, nearly nothing passes.

# %%
g, h = np.meshgrid(np.linspace(-4, 4, 81), np.linspace(-2, 2, 81))
# %% tags=["hide-input"]
ax = Figure(figsize=(5, 3.4), layout="constrained").add_subplot()
image = ax.imshow(silu(g)[0] * h, cmap="RdBu_r", vmin=-8, vmax=8, origin="lower", aspect="auto",
                  extent=(-4, 4, -2, 2))
ax.figure.colorbar(image, label="silu(g) h")
ax.set(xlabel="gate input g", ylabel="signal h")
ax.figure

# %% [markdown]
# > In a gated feed-forward network, one projection of x decides how much of another projection of x
# > passes.
#
# $$g = x W_1 + b_1, \qquad h = x W_2 + b_2, \qquad a = f(g) \odot h, \qquad y = a W_3 + b_3$$
#
# $$x: (N, C) \quad W_1, W_2: (C, F) \quad g, h, a: (N, F) \quad W_3: (F, C) \quad y: (N, C) \quad
# b_1, b_2: (F,) \quad b_3: (C,)$$
#
# With f = SiLU this is SwiGLU, the choice of LLaMA; with GELU it is GEGLU. The gates of an LSTM are
# similar products. But an LSTM's gates are sigmoids, fractions between 0 and 1, and they control a
# state that is carried through time. SiLU is unbounded above, and there is no state.
#
# Three matrices replace two. To keep the number of parameters, the hidden width shrinks:
#
# $$3\, C F = 2\, C \cdot 4 C \qquad \Rightarrow \qquad F = \tfrac{8}{3}\, C$$
#
# **The gradient**, from the last line to the first (weights and biases as in the linear map above):
#
# $$\bar{a} = \bar{y} W_3^\top \qquad \text{(linear map)}$$
#
# $$\bar{h} = \bar{a} \odot f(g), \qquad \overline{f(g)} = \bar{a} \odot h
# \qquad \text{(product rule: each factor gets } \bar{a} \text{ times the other)}$$
#
# $$\bar{g} = \bar{a} \odot h \odot f'(g) \qquad \text{(activation)}$$
#
# $$\bar{x} = \bar{g} W_1^\top + \bar{h} W_2^\top
# \qquad \text{(x is used twice: the gradients add)}$$

# %%
def gated_feed_forward_backward(dy, x, gate_weight, gate_bias, hidden_weight, hidden_bias,
                                output_weight, output_bias, activation="silu"):
    f, f_backward = ACTIVATIONS[activation]
    g, h = x @ gate_weight + gate_bias, x @ hidden_weight + hidden_bias
    gate, saved = f(g)
    da, *doutput = linear_backward(dy, gate * h, output_weight)       # y = a W3 + b3
    dgate, dh = da * h, da * gate                                     # a = f(g) * h
    dg = f_backward(dgate, saved)
    dx_gate, *dgate = linear_backward(dg, x, gate_weight)             # g = x W1 + b1
    dx_hidden, *dhidden = linear_backward(dh, x, hidden_weight)       # h = x W2 + b2
    return dx_gate + dx_hidden, *dgate, *dhidden, *doutput


check("gated_feed_forward_backward", gated_feed_forward_backward, seed=0)

# %%
for layer in (FeedForward(96, 384, "gelu", rng, bias=False), SwiGLU(96, 256, rng, bias=False)):
    print(type(layer).__name__, f"{sum(p.data.size for p in layer.parameters()):,} parameters")

# %% [markdown]
# The library's gated layer as a graph. Both projections read the same input, and the product of the
# two is what the last one reads.

# %% tags=["hide-input"]
from numformer.layers import GatedFeedForward

computation_graph(GatedFeedForward(8, 16, "silu", np.random.default_rng(0)),
                  np.ones((1, 5, 8), np.float32), title="SwiGLU").figure

# %% [markdown] minutes=20
# ## A mixture of experts, and the gradient of its router
#
# To know more, a model needs more weights. But why should every token use all of them? A *mixture
# of experts* has E feed-forward networks, the experts, and a *router*, a linear map that scores
# them for each token. Only the k best experts compute. The map shows the weights of 12 tokens for 6
# experts with k = 2: two entries in each row.

# %%
logits = 1.5 * rng.standard_normal((12, 6))                           # (N, E)
chosen = top_k_experts(logits, 2)                                     # (N, k)
routing = np.zeros((12, 6))
np.put_along_axis(routing, chosen, top_k_gates(logits, chosen)[0], axis=1)
# %% tags=["hide-input"]
ax = Figure(figsize=(4, 4), layout="constrained").add_subplot()
ax.figure.colorbar(ax.imshow(routing, cmap="Blues", vmin=0, vmax=1), label="weight")
ax.set(xlabel="expert", ylabel="token")
ax.figure

# %% [markdown]
# > More experts add parameters, but hardly any work: each token uses only k of them. The choice
# > of experts has no gradient; the weights of the chosen ones have, and through them the router
# > learns.
#
# For a token $x_n$ with the chosen experts $c_{n1}, \dots, c_{nk}$:
#
# $$z = x W_r, \qquad w_{nj} = \frac{e^{z_{n c_{nj}}}}{\sum_{i=1}^k e^{z_{n c_{ni}}}}, \qquad
# o_{nj} = \mathrm{expert}_{c_{nj}}(x_n), \qquad y_n = \sum_{j=1}^k w_{nj}\, o_{nj}$$
#
# $$W_r: (C, E) \quad z: (N, E) \quad w: (N, k) \quad o: (N, k, C) \quad y: (N, C)$$
#
# The weights of all experts together have the shapes (E, C, F) and (E, F, C). Mixtral has E = 8 and
# k = 2: 46.7 billion parameters, of which 12.9 billion are active for each token (`numformer count
# mixtral-8x7b`).
#
# **The gradient.** The last line is a weighted sum, so
#
# $$\bar{o}_{nj} = w_{nj}\, \bar{y}_n, \qquad \bar{w}_{nj} = \bar{y}_n \cdot o_{nj}
# \qquad \text{(} w_{nj} \text{ multiplies all C coordinates: sum over them)}$$
#
# The weights of one token are a softmax of the k chosen scores, $w_i = e^{s_i} / Z$ with $Z =
# \sum_j e^{s_j}$:
#
# $$\frac{\partial w_i}{\partial s_j} = \frac{\delta_{ij} e^{s_i} Z - e^{s_i} e^{s_j}}{Z^2}
# = w_i (\delta_{ij} - w_j) \qquad \text{(quotient rule; } \delta_{ij} \text{ is 1 for i = j, else
# 0)}$$
#
# $$\bar{z}_{n c_{nj}} = \sum_i \bar{w}_{ni}\, w_{ni} (\delta_{ij} - w_{nj})
# = w_{nj} \Big( \bar{w}_{nj} - \sum_i w_{ni} \bar{w}_{ni} \Big) \qquad \text{(chain rule; 0 for
# experts that were not chosen)}$$
#
# $$\bar{x}_n = \bar{z}_n W_r^\top + \sum_j \text{(backward of expert } c_{nj} \text{ with }
# \bar{o}_{nj} \text{)} \qquad \text{(x is used by the router and by k experts)}$$
#
# A step against the gradient raises the score of a chosen expert whose output reduces the loss more
# than the average of the chosen ones. Experts that were not chosen learn nothing from this token.

# %%
def top_k_gates_backward(dweights, logits, chosen):
    w, _ = softmax(np.take_along_axis(logits, chosen, axis=1))        # (N, k)
    dscores = w * (dweights - (w * dweights).sum(axis=1, keepdims=True))
    dlogits = np.zeros_like(logits)                                   # (N, E)
    np.put_along_axis(dlogits, chosen, dscores, axis=1)
    return dlogits


check("top_k_gates_backward", top_k_gates_backward, seed=0)

# %% [markdown]
# The whole layer, router and experts together, against numerical derivatives (lesson 8):

# %%
small = MixtureOfExperts(3, 4, 3, 2, "gelu", rng, dtype=np.float64)
print("gradients right:", gradcheck(small, [rng.standard_normal((1, 4, 3))]).ok)

# %% [markdown]
# **Exercise 6.2** (10 minutes). With k = 1 the weight above is always 1, and the router learns
# nothing. The Switch Transformer therefore takes the softmax over *all* experts and keeps the
# chosen entries: $w_{nj} = p_{n c_{nj}}$ with $p_n = \mathrm{softmax}(z_n)$. Write its gradient.
# Which logits get one now? `hint("top_k_gates_over_all_backward")` helps; after a pass,
# `solution("top_k_gates_over_all_backward")` shows ours.

# %%
def top_k_gates_over_all_backward(dweights, logits, chosen):
    """dweights, chosen (N, k), logits (N, E). Return dlogits."""
    ...


check("top_k_gates_over_all_backward", top_k_gates_over_all_backward, seed=0)

# %% [markdown] minutes=10
# ## Experiment: balance between experts
#
# An expert that is slightly better at first is chosen more often, so it learns more, so it is
# chosen even more often. A second loss counters this. With $p_n = \mathrm{softmax}(z_n)$, the
# fraction $f_e$ of all choices that fall on expert e, and its mean probability $P_e$,
#
# $$L_b = E \sum_e f_e P_e, \qquad f_e = \frac{1}{N k} \sum_{n, j} [c_{nj} = e], \qquad
# P_e = \frac{1}{N} \sum_n p_{ne}$$
#
# > The load-balancing loss is 1 if all experts are used equally, and E if one expert gets every
# > token with probability 1. Its gradient lowers the probability of the experts that are used most.
#
# Here $[c_{nj} = e]$ is 1 if choice j of token n is expert e, else 0.
#
# **We expect** that without this loss a few experts get most tokens, and that with it the tokens
# spread. We train 100 steps with E = 4 and k = 1 and print the fraction of 512 held-out tokens per
# expert.

# %%
for weight in (0.0, 0.01):
    for seed in (1, 2, 3):
        model = small_model(seed, feedforward="swiglu", n_experts=4, experts_per_token=1,
                            gates_over="all", balance_weight=weight)
        train(model, seed)
        with capture(model, MixtureOfExperts) as calls:
            loss = model.loss((ids[:, :-1], ids[:, 1:]))[0]
        fractions = np.bincount(calls[0].saved[1].ravel(), minlength=4) / calls[0].saved[1].size
        print(f"weight {weight}, seed {seed}: fractions", fractions.round(2), f"loss {loss:.2f}")

# %% [markdown]
# **What came out.** Without the loss one or two experts take nearly everything; with it the tokens
# spread, though not evenly. The loss on the held-out tokens hardly differs; with balance it
# includes $0.01\, L_b$, at most 0.04. In so short a training of so small a model, balance brings no
# gain. Nor does the mixture in a longer one: with 0.82 million active of 2.44 million parameters,
# the preset `moe` reaches 1.180, 1.187 and 1.179 nats (seeds 1, 2, 3), and `gpt`, with 0.82 million
# parameters in all, 1.177, 1.180 and 1.175 (`numformer reproduce moe gpt`). The gains in the papers
# below are those of far larger models.

# %% [markdown]
# **Exercise 6.3** (10 minutes, at home). Derive and write the gradient of $L_b$ with respect to the
# logits. The fractions f are counts, so they have none; $p_n = \mathrm{softmax}(z_n)$.
# `hint("load_balance_loss_backward")` helps; after a pass, `solution("load_balance_loss_backward")`
# shows ours.

# %%
def load_balance_loss_backward(dloss, logits, chosen):
    """logits (N, E), chosen (N, k). Return dlogits."""
    ...


check("load_balance_loss_backward", load_balance_loss_backward, seed=0)

# %% [markdown]
# ## Summary
#
# - Attention connects positions; the feed-forward network transforms each vector separately. With F
#   = 4 C it holds two thirds of a block's weights.
# - A linear map has $\bar{x} = \bar{y} W^\top$ and $\bar{W} = x^\top \bar{y}$; an activation
#   multiplies by its slope.
# - A dead ReLU unit gets no gradient. GELU and SiLU leave a small one.
# - SwiGLU multiplies one projection by a function of another, with F = 8 C / 3. Both paths of x add
#   their gradients.
# - A mixture of experts chooses k of E networks for each token. Its router learns through the
#   weights of the chosen ones, and needs a loss for balance.
#
# **Think.** How many feed-forward parameters has a mixture of 8 experts with k = 2, compared with
# one network of that width, and how many are active for a token?
#
# <details><summary>Answer</summary>
#
# Eight times as many, plus the router's C x 8. Two of eight experts are active for each token, so
# twice as many parameters as in the single network.
#
# </details>
#
# More practice: `numformer exercises 04 05 19 20`.

# %% [markdown]
# ## Further reading
#
# - Vaswani et al. (2017), "Attention Is All You Need", section 3.3 and eq. 2: the network.
# - Hendrycks and Gimpel (2016), "Gaussian Error Linear Units (GELUs)"; Ramachandran et al. (2017),
#   "Searching for Activation Functions": Swish.
# - Shazeer (2020), "GLU Variants Improve Transformer", eq. 5 and 6: SwiGLU.
# - Shazeer et al. (2017), "Outrageously Large Neural Networks"; Fedus et al. (2022), "Switch
#   Transformers", eq. 1 to 6; Jiang et al. (2024), "Mixtral of Experts", section 2.1.
# - The code: `numformer/functional/feed_forward.py`, `gated_feed_forward.py`, `activations/` and
#   `experts/`; the layers in `numformer/layers/feedforward.py` and `mixture_of_experts.py`.
