# %% [markdown]
# # 7. Backpropagation by hand through a whole block
#
# **Question.** A Transformer block has a dozen operations and six matrices. How do you compute the
# gradient of the loss with respect to every number in it, without a tool that does it for you?
#
# **You will learn** to
#
# - derive any backward from three rules;
# - derive and implement the gradients of softmax, cross-entropy, LayerNorm and attention from them;
# - implement forward and backward of a whole block, one line for each line;
# - measure every derivative, and predict which ones a missing path spoils.
#
# **You need** lessons 2, 5 and 6 (attention, norms, the feed-forward network), partial derivatives,
# matrix products.
#
# **Time.** 2 x 45 minutes; the cells run in about 10 seconds.

# %% tags=["setup"]
# %matplotlib inline
import numpy as np
from matplotlib.figure import Figure

from numformer import AttentionPattern, check, hint, solution
from numformer.functional import log_softmax, softmax
from numformer.layers import (
    FeedForward, LayerNorm, MultiHeadAttention, ResidualBranch, SelfAttentionBranch,
    TransformerBlock)
from numformer.plots import forward_and_backward

rng = np.random.default_rng(0)

# %% [markdown] minutes=5
# ## Gradients flow against the arrows
#
# The picture shows the second half of a block: a norm, two matrices with a ReLU between them, and
# the residual connection. Black arrows are the forward. Orange arrows are the backward: they carry
# gradients from y to h, on both paths.

# %% tags=["hide-input"]
ax = Figure(figsize=(8, 3.2), layout="constrained").add_subplot()
names = ["h", "\\hat{h}", "u", "a", "m", "y"]
steps = ["normalize", "times $W_1$", "max(., 0)", "times $W_2$", "+"]
for i, name in enumerate(names):
    ax.text(2 * i, 0, f"${name}$", fontsize=15, ha="center", va="center")
    ax.text(2 * i, -0.55, f"$\\bar{{{name}}}$", fontsize=15, ha="center", color="#c8500a")
for i, step in enumerate(steps):
    ax.annotate("", (2 * i + 1.6, 0), (2 * i + 0.4, 0), arrowprops={"arrowstyle": "->"})
    ax.annotate("", (2 * i + 0.4, -0.48), (2 * i + 1.6, -0.48),
                arrowprops={"arrowstyle": "->", "color": "#c8500a"})
    ax.text(2 * i + 1, 0.15, step, fontsize=12, ha="center")
ax.annotate("", (8.9, 0.1), (0.1, 0.25),
            arrowprops={"arrowstyle": "->", "connectionstyle": "arc3,rad=-0.25"})
ax.annotate("", (0.1, -0.75), (9.9, -0.7), arrowprops={
    "arrowstyle": "->", "connectionstyle": "arc3,rad=-0.2", "color": "#c8500a"})
ax.text(4.5, 1.2, "residual connection: the second use of h", fontsize=12, ha="center")
ax.set(xlim=(-0.5, 10.5), ylim=(-1.6, 1.6))
ax.axis("off")
ax.figure

# %% [markdown]
# Throughout, $\bar{x} = \partial L / \partial x$ is the gradient of the loss L with respect to x.
# It has the shape of x, and code names it `dx`. Its entry i tells how much L grows if $x_i$ grows a
# little. If x influences L only through y, a small change of $x_i$ changes every $y_j$, and each of
# these changes L. The chain rule adds them up:
#
# $$\bar{x}_i = \sum_j \bar{y}_j \frac{\partial y_j}{\partial x_i}$$
#
# > The backward visits the operations in reverse order. Each one turns the gradient of its output
# > into the gradients of its inputs, without knowing the rest of the model.
#
# Why backwards? To change every weight a little and run the model again would take as many forwards
# as there are weights. Going backwards, one pass of about twice the work of a forward gives all
# derivatives at once, because every operation reuses the gradient that the operation after it has
# already computed. This is *backpropagation*.

# %% [markdown] minutes=15
# ## Three rules are enough
#
# > A product multiplies by the transposed other factor, a pointwise function by its slope, and a
# > variable that is used twice adds two gradients.
#
# **Rule 1, product.** $y = x W$ with x: (N, C), W: (C, F), y: (N, F). In coordinates $y_{nf} =
# \sum_c x_{nc} W_{cf}$, so
#
# $$\bar{x}_{nc} = \sum_f \bar{y}_{nf} W_{cf} \quad\Rightarrow\quad \bar{x} = \bar{y}\, W^\top
# \qquad \text{(} x_{nc} \text{ influences row n of y)}$$
#
# $$\bar{W}_{cf} = \sum_n x_{nc}\, \bar{y}_{nf} \quad\Rightarrow\quad \bar{W} = x^\top \bar{y}
# \qquad \text{(} W_{cf} \text{ influences column f of y)}$$
#
# Shapes are half of the proof: of the products of $\bar{y}$: (N, F) and W: (C, F), only $\bar{y}
# W^\top$ has the shape of x. (A column of W followed by a function is what is called a *neuron*.)
#
# **Rule 2, pointwise.** $y_i = f(x_i)$, so
#
# $$\bar{x} = \bar{y} \odot f'(x) \qquad \text{(} x_i \text{ influences } y_i \text{ alone)}$$
#
# **Rule 3, used twice.** If x enters both u and v, the sum of the chain rule has a part for each:
#
# $$\bar{x} = \bar{x}_{\text{through } u} + \bar{x}_{\text{through } v}$$
#
# "Used" has a wide meaning: a row of a table that is looked up three times is used three times, and
# a number that is added to every row is used by every row. A bias is rule 3 at work: $y_n = x_n W +
# b$ uses b in all N rows, so $\bar{b} = \sum_n \bar{y}_n$.
#
# **Think.** Which rule gives the backward of a reshape, or of a transposition?
#
# <details><summary>Answer</summary>
#
# Rule 2 with slope 1: each number of the output is one number of the input. So each gradient is
# moved back to the place its number came from.
#
# </details>

# %%
def linear_backward(dy, x, weight, bias):
    dx = dy @ weight.T
    dweight = x.reshape(-1, x.shape[-1]).T @ dy.reshape(-1, dy.shape[-1])
    dbias = dy.reshape(-1, dy.shape[-1]).sum(axis=0)
    return dx, dweight, dbias


check("linear_backward", linear_backward, seed=0)

# %% [markdown]
# **Exercise 7.1** (5 minutes). An embedding looks up rows of a table: `y = weight[ids]`, with ids:
# (B, T), weight: (V, C), y: (B, T, C). A token that occurs several times uses its row several
# times. Write the gradient of the table. `hint("embedding_backward")` helps; after a pass,
# `solution("embedding_backward")` shows ours.

# %%
def embedding_backward(dy, ids, weight):
    """dy (..., C), ids (...) with any number of axes. Return dweight (V, C)."""
    ...


check("embedding_backward", embedding_backward, seed=0)

# %% [markdown] minutes=5
# ## Softmax
#
# Softmax turns scores z into positive weights p that sum to 1. Raise one score: its own weight
# grows, and all others shrink to pay for it. The map shows the derivatives of five weights, one row
# for each: blue is negative, red positive.

# %%
z = np.array([1.0, 0.0, 2.0, -1.0, 0.5])
p, _ = softmax(z)
jacobian = np.diag(p) - np.outer(p, p)                                # (5, 5)
# %% tags=["hide-input"]
ax = Figure(figsize=(4.6, 3.6), layout="constrained").add_subplot()
ax.figure.colorbar(ax.imshow(jacobian, cmap="RdBu_r", vmin=-0.25, vmax=0.25))
ax.set(xlabel="score $z_j$", ylabel="weight $p_i$", title="derivative of weight i")
ax.figure

# %% [markdown]
# > The gradient of a score is its weight times a difference: the gradient of this weight, minus the
# > weighted mean of the gradients of all weights.
#
# Lesson 2 derived this, lesson 5 the gradient of LayerNorm. Here both, and that of attention, are
# repeated in one notation. If you know them, cover the right-hand sides and derive them again.
#
# $$p_i = \frac{e^{z_i}}{Z}, \qquad Z = \sum_i e^{z_i}, \qquad z, p: (S,)$$
#
# $$\frac{\partial p_i}{\partial z_j} = \frac{\delta_{ij}\, e^{z_i} Z - e^{z_i} e^{z_j}}{Z^2}
# \qquad \text{(quotient rule; } \delta_{ij} \text{ is 1 for i = j, else 0)}$$
#
# $$\frac{\partial p_i}{\partial z_j} = p_i\, (\delta_{ij} - p_j)
# \qquad \text{(divide by Z twice)}$$
#
# $$\bar{z}_j = \sum_i \bar{p}_i\, p_i (\delta_{ij} - p_j)
# \qquad \text{(chain rule: every weight depends on } z_j \text{)}$$
#
# $$\bar{z}_j = p_j \Big( \bar{p}_j - \sum_i p_i \bar{p}_i \Big)
# \qquad \text{(the } \delta \text{ picks i = j; } p_j \text{ leaves the sum)}$$
#
# Two quick checks: the entries of $\bar{z}$ sum to 0, because a constant added to all scores
# changes no weight. And a weight near 0 gives its score a gradient near 0, as long as $\bar{p}$ is
# bounded: the scores of a softmax that is nearly certain get almost no gradient. (What that means
# for queries, keys and their weights is measured in lesson 2.)

# %%
def softmax_backward(dp, x):
    p, _ = softmax(x)
    return p * (dp - (p * dp).sum(axis=-1, keepdims=True))


check("softmax_backward", softmax_backward, seed=0)

# %% [markdown] minutes=10
# ## Cross-entropy: prediction minus target
#
# A language model turns logits z: (N, V) into probabilities, and its loss is the mean of $-\log p$
# of the true tokens $y_n$, n = 1 ... N. In the gradient, $\delta_{v y_n}$ is 1 for the true token,
# $v = y_n$, and 0 for all others.
#
# $$L = -\frac{1}{N} \sum_n \log p_{n y_n}, \qquad p_n = \mathrm{softmax}(z_n)$$
#
# $$-\log p_{n y_n} = \log \sum_i e^{z_{ni}} - z_{n y_n} \qquad \text{(logarithm of a quotient)}$$
#
# $$\bar{z}_{nv} = \frac{1}{N} \left( \frac{e^{z_{nv}}}{\sum_i e^{z_{ni}}} - \delta_{v y_n} \right)
# = \frac{1}{N} (p_{nv} - \delta_{v y_n}) \qquad \text{(derivative of the logarithm; the target is
# used once more)}$$
#
# > The gradient of the loss with respect to the logits is the prediction minus the target, divided
# > by the number of targets.
#
# So the two together are simpler than either alone. The gradient is large where the model is wrong
# with confidence, and it vanishes where the prediction is the target. Code also gains: it computes
# $\log p$ directly and never takes the logarithm of a rounded 0. Its first argument, `dloss`, is
# the gradient of the loss from whatever follows it, such as a sum with other losses: by the chain
# rule a factor, and 1 where nothing follows.

# %%
def softmax_cross_entropy_backward(dloss, logits, targets):
    log_p, _ = log_softmax(logits)
    dlogits = np.exp(log_p) - np.eye(logits.shape[-1])[targets]       # prediction - target
    return dloss * dlogits / targets.size


check("softmax_cross_entropy_backward", softmax_cross_entropy_backward, seed=0)

# %% [markdown] minutes=5
# ## LayerNorm: three paths
#
# LayerNorm gives each vector x: (C,) mean 0 and variance 1, then multiplies by a weight $\gamma$
# and adds a bias $\beta$, both (C,). Because all coordinates share one mean and one variance, each
# input influences all outputs. Write $\langle \cdot \rangle$ for the mean over its C coordinates.
#
# $$c = x - \langle x \rangle, \qquad r = \left( \langle c^2 \rangle + \epsilon \right)^{-1/2},
# \qquad \hat{x} = c\, r, \qquad y = \gamma \odot \hat{x} + \beta$$
#
# > x reaches the output on three paths: directly, through the mean, and through the variance. The
# > gradient has a term for each.
#
# From the last line to the first; n numbers the vectors, which share $\gamma$ and $\beta$:
#
# $$\bar{\gamma} = \sum_n \bar{y}_n \odot \hat{x}_n, \qquad \bar{\beta} = \sum_n \bar{y}_n,
# \qquad g = \gamma \odot \bar{y} \qquad \text{(g is the gradient of } \hat{x} \text{)}$$
#
# $$\bar{r} = \sum_i g_i c_i \qquad \text{(r multiplies all C coordinates: rule 3)}$$
#
# $$\overline{\langle c^2 \rangle} = -\tfrac12 r^3\, \bar{r}
# \qquad \text{(power rule)}$$
#
# $$\bar{c}_j = r\, g_j + \tfrac{2}{C} c_j\, \overline{\langle c^2 \rangle}
# \qquad \text{(c is used twice: in } \hat{x} \text{ and in } \langle c^2 \rangle \text{)}$$
#
# $$\bar{c}_j = r\, g_j - r^3 c_j \tfrac1C \sum_i g_i c_i
# = r \big( g_j - \hat{x}_j \langle g \hat{x} \rangle \big) \qquad \text{(insert } \bar{r}; c\, r =
# \hat{x} \text{)}$$
#
# $$\bar{x}_j = \bar{c}_j - \langle \bar{c} \rangle
# \qquad \text{(} x_j \text{ is in } c_j \text{, and with } -1/C \text{ in every } c_i \text{)}$$
#
# $$\bar{x} = r \big( g - \langle g \rangle - \hat{x} \langle g \hat{x} \rangle \big)
# \qquad \text{(} \langle \hat{x} \rangle = 0 \text{, so } \langle \bar{c} \rangle = r \langle g
# \rangle \text{)}$$
#
# The two subtracted terms have a meaning. A constant added to x, or a factor that multiplies it,
# does not change $\hat{x}$ (apart from $\epsilon$). So a gradient along these two directions would
# be of no use, and the backward removes it: $\bar{x}$ sums to 0 and is orthogonal to $\hat{x}$.

# %%
def normalize(x, epsilon=1e-5):
    c = x - x.mean(axis=-1, keepdims=True)
    r = ((c * c).mean(axis=-1, keepdims=True) + epsilon) ** -0.5
    return c * r, r


def normalize_backward(g, x_hat, r):
    return r * (g - g.mean(axis=-1, keepdims=True)
                - x_hat * (g * x_hat).mean(axis=-1, keepdims=True))


def layer_norm_backward(dy, x, weight, bias, epsilon=1e-5):
    x_hat, r = normalize(x, epsilon)
    rows = tuple(range(x.ndim - 1))
    return normalize_backward(weight * dy, x_hat, r), (dy * x_hat).sum(rows), dy.sum(rows)


check("layer_norm_backward", layer_norm_backward, seed=0)

# %% [markdown] minutes=10
# ## Attention
#
# Attention gives every query the weighted mean of the values; the weights come from a softmax over
# its scores with the keys (lesson 2). The picture shows one head with its numbers: left the weights
# p, right the gradient of the scores. The code above each map is what we derive below, where the
# scores are called z. In code, `k.mT` is k with its last two axes transposed.

# %%
q, k, v, do = rng.standard_normal((4, 9, 8))                          # (T, D) each
# %% tags=["hide-input"]
forward_and_backward(q, k, v, do, np.tri(9, dtype=bool)).figure

# %% [markdown]
# > Attention's backward is two product rules with the gradient of the softmax between them.
#
# $$z = q k^\top / \sqrt D, \qquad p = \mathrm{softmax}(z), \qquad o = p\, v$$
#
# $$q: (T, D) \quad k, v: (S, D) \quad z, p: (T, S) \quad o: (T, D)$$
#
# $$\bar{v} = p^\top \bar{o}, \qquad \bar{p} = \bar{o}\, v^\top
# \qquad \text{(rule 1 for } o = p v \text{)}$$
#
# $$\bar{z}_{ts} = p_{ts} \Big( \bar{p}_{ts} - \sum_j p_{tj} \bar{p}_{tj} \Big)
# \qquad \text{(softmax of each row)}$$
#
# $$\bar{q} = \bar{z}\, k / \sqrt D, \qquad \overline{k^\top} = q^\top \bar{z} / \sqrt D
# \qquad \text{(rule 1 for } z = q k^\top / \sqrt D \text{, with } W = k^\top \text{)}$$
#
# $$\bar{k} = \bar{z}^\top q / \sqrt D \qquad \text{(transpose both sides)}$$
#
# In words: a value gets the gradients of all queries that attended to it, in proportion to the
# weights. A score gets a gradient if its value would have helped more, or less, than the mean of
# the values did. Where the mask forbids, p is 0, so $\bar{z}$ is 0, too: the mask needs no line of
# its own.

# %%
def attention_backward(do, q, k, v):
    scale = q.shape[-1] ** -0.5
    p, _ = softmax(q @ k.mT * scale)                                  # (..., T, S)
    dv, dp = p.mT @ do, do @ v.mT                                     # o = p v
    dz = p * (dp - (p * dp).sum(axis=-1, keepdims=True))              # p = softmax(z)
    return dz @ k * scale, dz.mT @ q * scale, dv                      # z = q k^T scale


check("attention_backward", attention_backward, seed=0)

# %% [markdown] minutes=25
# ## The whole block
#
# A block adds to its input twice: what attention gathers, then what the feed-forward network (ffn)
# computes. Its input is the output of the block below; for the first block, embeddings plus
# positions. In the *pre-norm* order each branch begins with its norm:
#
# $$h = x + \mathrm{attention}(\mathrm{norm}(x)), \qquad
# y = h + \mathrm{ffn}(\mathrm{norm}(h)), \qquad x, h, y: (T, C)$$
#
# > The backward of a block reads like its forward in a mirror: the last line first, and for each
# > line one rule.
#
# So the block unites the parts of the earlier lessons: attention with heads and masks, positions,
# norms, residual connections, the feed-forward network. Its output has the shape of its input, so
# blocks can be stacked. With F = 4 C, its six matrices hold $12 C^2$ weights, nearly all of its
# parameters.
#
# **Exercise 7.2** (10 minutes). First the feed-forward network alone, with biases, for x: (B, T,
# C): $y = a W_2 + b_2$ with $a = \max(u, 0)$ and $u = x W_1 + b_1$. Write its backward, one line
# for each rule, without looking at lesson 6 or below. `hint("feed_forward_backward")` helps; after
# a pass, `solution("feed_forward_backward")` shows ours.

# %%
def feed_forward_backward(dy, x, w1, b1, w2, b2, activation="relu"):
    """dy, x (B, T, C). Return dx, dw1, db1, dw2, db2."""
    ...


check("feed_forward_backward", feed_forward_backward, seed=0, levels=[
    'activation="relu"', 'activation="relu", at the edges'])

# %% [markdown]
# Here is the whole block with one head, causal, without biases, and with norms that have no weight.
# Every intermediate that a rule below needs is saved: rule 1 needs both factors, rule 2 the input
# of the function, the norm its output and r. That is why training takes so much more memory than
# inference. (The code takes the real part, `.real`, in two comparisons, so that the check below can
# use complex numbers.)

# %%
def attention_branch(x, w):
    x_hat, r = normalize(x)                                           # (T, C)
    q, k, v = x_hat @ w["q"], x_hat @ w["k"], x_hat @ w["v"]          # (T, D)
    z = np.where(np.tri(len(x), dtype=bool), q @ k.T * q.shape[1] ** -0.5, -np.inf)
    p = np.exp(z - z.real.max(axis=1, keepdims=True))
    p = p / p.sum(axis=1, keepdims=True)                              # (T, T)
    o = p @ v                                                         # (T, D)
    return x + o @ w["o"], (x_hat, r, q, k, v, p, o)


def feed_forward_branch(h, w):
    h_hat, r = normalize(h)                                           # (T, C)
    u = h_hat @ w["1"]                                                # (T, F)
    a = np.where(u.real > 0, u, 0)
    return h + a @ w["2"], (h_hat, r, u, a)

# %%
def feed_forward_branch_backward(dy, saved, w):
    h_hat, r, u, a = saved
    da, dw2 = dy @ w["2"].T, a.T @ dy                                 # m = a W2
    du = da * (u > 0)                                                 # a = max(u, 0)
    dh_hat, dw1 = du @ w["1"].T, h_hat.T @ du                         # u = h_hat W1
    dh = dy + normalize_backward(dh_hat, h_hat, r)                    # h is used twice
    return dh, {"1": dw1, "2": dw2}


def attention_branch_backward(dh, saved, w):
    x_hat, r, q, k, v, p, o = saved
    scale = q.shape[1] ** -0.5
    do, dwo = dh @ w["o"].T, o.T @ dh                                 # o Wo
    dp, dv = do @ v.T, p.T @ do                                       # o = p v
    dz = p * (dp - (p * dp).sum(axis=1, keepdims=True))               # p = softmax(z)
    dq, dk = dz @ k * scale, dz.T @ q * scale                         # z = q k^T scale
    dx_hat = dq @ w["q"].T + dk @ w["k"].T + dv @ w["v"].T            # x_hat is used three times
    dw = {"q": x_hat.T @ dq, "k": x_hat.T @ dk, "v": x_hat.T @ dv, "o": dwo}
    return dh + normalize_backward(dx_hat, x_hat, r), dw              # x is used twice

# %% [markdown]
# **Is it right?** The derivative of a function is also $\mathrm{Im} f(x + ih) / h$ for a tiny h
# (lesson 8 shows why). Take the number $\sum_{tc} \bar{y}_{tc}\, y_{tc}$ as the loss: its gradient
# with respect to y is $\bar{y}$. We compare all its 560 derivatives with this, one input at a time.

# %% tags=["setup"]
T, C, D, F = 6, 8, 8, 16
w = {name: rng.standard_normal(shape) / 3 for name, shape in
     (("q", (C, D)), ("k", (C, D)), ("v", (C, D)), ("o", (D, C)), ("1", (C, F)), ("2", (F, C)))}
x, dy = rng.standard_normal((2, T, C))


def complex_step(name):
    """The derivative of sum(dy * y) with respect to every entry of x or of a matrix."""
    arrays = {"x": x, **w}
    z = arrays[name].astype(complex)
    derivative = np.zeros(z.shape)
    for index in np.ndindex(z.shape):
        z[index] += 1e-30j
        inputs = {**arrays, name: z}
        h, _ = attention_branch(inputs["x"], inputs)
        derivative[index] = (dy * feed_forward_branch(h, inputs)[0]).sum().imag / 1e-30
        z[index] -= 1e-30j
    return derivative

# %%
h, saved_attention = attention_branch(x, w)
y, saved_feed_forward = feed_forward_branch(h, w)
dh, dw_feed_forward = feed_forward_branch_backward(dy, saved_feed_forward, w)
dx, dw_attention = attention_branch_backward(dh, saved_attention, w)
gradients = {"x": dx, **dw_attention, **dw_feed_forward}
exact = {name: complex_step(name) for name in gradients}
for name, gradient in gradients.items():
    print(f"{name}: {gradient.size:3} derivatives, largest error "
          f"{np.abs(gradient - exact[name]).max():.0e}")

# %% [markdown]
# The library's block has more heads and options. With the same weights it gives the same numbers:

# %%
f64 = {"dtype": np.float64}
library = TransformerBlock(
    attention=SelfAttentionBranch(LayerNorm(C, **f64),
                                  MultiHeadAttention(C, 1, rng, bias=False, **f64)),
    feedforward=ResidualBranch(LayerNorm(C, **f64),
                               FeedForward(C, F, "relu", rng, bias=False, **f64)))
attention, ffn = library.attention, library.feedforward
for name, layer in {"q": attention.query, "k": attention.key, "v": attention.value,
                    "o": attention.output, "1": ffn.hidden, "2": ffn.output}.items():
    layer.weight.data[:] = w[name]
library_y, saved = library.forward(x[None], pattern=AttentionPattern(causal=True))
library_dx = library.backward(dy[None], saved)                        # (1, T, C)
print(f"largest difference: y {np.abs(library_y[0] - y).max():.0e}, "
      f"dx {np.abs(library_dx[0] - dx).max():.0e}")

# %% [markdown]
# The same for a block of GPT-2, drawn from its layers. Black arrows are the forward pass. An orange
# arrow runs against each of them, an orange plus adds the gradients of two paths, and each box has
# the equation of its gradient. (The boxes of LayerNorm leave out that of its bias, the sum of the
# incoming gradients.)

# %% tags=["hide-input"]
from numformer.models import CONFIGS
from numformer.plots import architecture_diagram

architecture_diagram(CONFIGS["gpt2"], block=1, backward=True, title="GPT-2").figure

# %% [markdown] minutes=10
# ## Experiment: forget one path
#
# A common error is a lost path: a variable is used twice, and only one gradient is kept. Suppose
# that we forget the second use of h, the norm of the feed-forward branch, and pass on $\bar{h} =
# \bar{y}$.
#
# > A lost path makes exactly those gradients wrong that are computed from the incomplete one; those
# > computed before it stay right.
#
# **We expect**: $\bar{W}_1$ and $\bar{W}_2$ are computed before $\bar{h}$ and stay right. All
# gradients of the attention branch, and $\bar{x}$, are wrong.

# %%
dx_wrong, dw_wrong = attention_branch_backward(dy, saved_attention, w)        # should be dh
for name, gradient in {**dw_feed_forward, **dw_wrong, "x": dx_wrong}.items():
    error = np.linalg.norm(gradient - exact[name]) / np.linalg.norm(exact[name])
    cosine = (gradient * exact[name]).sum() / (np.linalg.norm(gradient)
                                              * np.linalg.norm(exact[name]))
    print(f"{name}: relative error {error:.0e}, cosine with the right gradient {cosine:.2f}")

# %% [markdown]
# **What came out.** As expected. Note the cosines: the wrong gradients of q and k point nearly in
# the right direction, and even those of v and o are less than 60 degrees away from it. Since all
# cosines are positive, a small step against these gradients still reduces the loss. The next lesson
# shows how such errors hide, and how to find them.
#
# **Think.** In the *post-norm* order of 2017, $h = \mathrm{norm}(x + \mathrm{attention}(x))$ and $y
# = \mathrm{norm}(h + \mathrm{ffn}(h))$. What is the first line of its backward, and how many norms
# does the gradient pass in each block?
#
# <details><summary>Answer</summary>
#
# The first line is the gradient of the last norm, normalize_backward of dy. Its result goes both to
# the branch and to the residual connection. There is no path around the norms: the gradient passes
# two of them in each block.
#
# </details>

# %% [markdown] minutes=5
# ## Summary
#
# | forward | backward | rule |
# |---|---|---|
# | $y = x W$ | $\bar{x} = \bar{y} W^\top$, $\bar{W} = x^\top \bar{y}$ | product |
# | $y = f(x)$ | $\bar{x} = \bar{y} \odot f'(x)$ | pointwise |
# | x used twice | $\bar{x}$ = sum of both | chain rule |
# | $p = \mathrm{softmax}(z)$ | $\bar{z} = p \odot (\bar{p} - \sum p \bar{p})$ | chain rule |
# | $L$ = cross-entropy | $\bar{z} = (p - \text{target}) / N$ | softmax, then logarithm |
# | LayerNorm | $r\, (g - \langle g \rangle - \hat{x} \langle g \hat{x} \rangle)$ | three paths |
#
# A block's backward applies one of these rules for each forward line, from the last to the first.
# Each gradient has the shape of its variable, and each can be checked by a numerical derivative.
#
# More practice: `numformer exercises 06 12 18 20 22 29 39 40` (gradients that this lesson does not
# show, and a whole block).

# %% [markdown]
# ## Further reading
#
# - Rumelhart, Hinton and Williams (1986), "Learning representations by back-propagating errors".
# - Vaswani et al. (2017), "Attention Is All You Need", section 3: the block. Xiong et al. (2020),
#   "On Layer Normalization in the Transformer Architecture", figure 1: both orders of the norm.
# - Ba, Kiros and Hinton (2016), "Layer Normalization", eq. 3 and 4.
# - The code: `numformer/minimal.py` is a whole GPT with its backward on one page (lesson 22); the
#   functions are in `numformer/functional/`, the block in `numformer/layers/blocks/`.
