# %% [markdown]
# # 5. Norms and residuals
#
# **Question.** On the way back through 24 layers a gradient is multiplied by 24 matrices of
# derivatives. What keeps it, and the activations on the way forward, from vanishing or exploding?
#
# **You will learn**
#
# - to explain LayerNorm, RMSNorm and BatchNorm, and over which axes each computes its mean;
# - to derive the gradient of LayerNorm, through its mean and its variance, and to implement it;
# - to derive what a residual connection does to gradients, and to measure it;
# - to explain what changes when the norm is before the branch or after the sum.
#
# **You need** lessons 2 and 4, mean and variance, the chain rule.
#
# **Time.** 2 x 45 minutes; the cells run in about 10 seconds.
# %% tags=["setup"]
# %matplotlib inline
import numpy as np

from numformer import check, hint, solution
from numformer.analysis import gradient_norm_by_block, residual_stream
from numformer.functional import layer_norm
from numformer.layers import BatchNorm, LayerNorm
from numformer.models import TRANSFORMER_2017, Decoder, DecoderConfig
from numformer.plots import gradient_flow, norm_comparison, residual_norms
# %% [markdown] minutes=15
# ## Normalise, but over which axis?
# A layer multiplies its input by a matrix. If each of 24 layers makes its output 1.5 times as large
# as its input, the last output is 17,000 times as large as the first input. The gradient of a
# layer's matrix is proportional to its input (lesson 1), so such sizes differ in the gradients,
# too. A **norm** gives the inputs of a layer a known size: it subtracts a mean and divides by a
# standard deviation. Activations form a cube of numbers: B texts, T positions, C coordinates. The
# picture shows which of them share one mean. LayerNorm takes the coordinates of one vector, and
# BatchNorm one coordinate of all vectors of the batch. The maps show which output vectors (rows)
# depend on which input vectors (columns), by the norm of the **Jacobian**, the matrix of
# derivatives of one with respect to the other.
# %% tags=["setup"]
def coupling(norm, sizes):
    """The norm of the Jacobian of each output vector with respect to each input, (B T, B T)."""
    _, saved = norm.forward(np.random.default_rng(0).standard_normal(sizes))
    squares = np.zeros((sizes[0] * sizes[1],) * 2)
    for b, t, c in np.ndindex(sizes):
        dy = np.zeros(sizes)
        dy[b, t, c] = 1
        squares[b * sizes[1] + t] += (norm.backward(dy, saved) ** 2).sum(axis=-1).ravel()
    return np.sqrt(squares)
# %%
sizes = (3, 4, 6)                                                     # (B, T, C)
norms = {"LayerNorm": LayerNorm(6, dtype=np.float64), "BatchNorm": BatchNorm(6, dtype=np.float64)}
maps = {name: coupling(norm, sizes) for name, norm in norms.items()}
for name, each in maps.items():
    other = each[~np.eye(len(each), dtype=bool)]                      # of other vectors
    print(f"{name}: dependence on other vectors {other.min():.1e} to {other.max():.1e}")
# %% tags=["hide-input"]
norm_comparison(maps, sizes).figure
# %% [markdown]
# LayerNorm's map is diagonal: each vector depends on itself alone. BatchNorm's map is full. The
# output for one text depends on the other texts of its batch, and a model that generates one token
# at a time has no batch to average over, so BatchNorm then uses averages stored in training. (One
# deck has both norms treat each element individually. In fact each output depends on all the
# numbers that share its mean.)
#
# > LayerNorm treats every vector alone, so its output does not depend on the batch; BatchNorm
# > couples all vectors of a batch.
#
# Does this matter? `numformer reproduce batch-norm` trains classifiers of texts with batches of 2.
# We expect LayerNorm to be ahead, and it is with every seed: accuracies of 0.755, 0.683, 0.740 with
# the seeds 1, 2, 3, against 0.692, 0.663, 0.683 with BatchNorm.
# %% [markdown] minutes=25
# ## LayerNorm, and its gradient through mean and variance
# Let $\langle a \rangle = \frac{1}{C} \sum_i a_i$ be the mean over the C coordinates of one vector.
# LayerNorm is five short steps, the same for each vector. (The table of one lecture deck has one
# mean for a sentence of five words; there is one for every word.) A weight $\gamma$ and a bias
# $\beta$ are learned, so that the next layer can get any scale; the small number $\epsilon$ keeps
# the root away from 0:
#
# $$\begin{aligned}
# \mu &= \langle x \rangle, \quad c = x - \mu, \quad r = \left( \langle c^2 \rangle + \epsilon
#   \right)^{-1/2} && x, c: (\dots, C),\; \mu, r: (\dots, 1) \\
# \hat{x} &= c\, r, \quad y = \gamma \odot \hat{x} + \beta && \hat{x}, y: (\dots, C),\;
#   \gamma, \beta: (C,)
# \end{aligned}$$
#
# We write $\bar{x} = \partial L / \partial x$ for the gradient of the loss with respect to x (`dx`
# in code). x reaches y on three paths: directly, through the mean $\mu$, and through the variance
# in r. We go back step by step. The last step, and the two uses of c in $\hat{x}$:
#
# $$\begin{aligned}
# \bar{\gamma} &= \textstyle\sum_{\text{vectors}} \bar{y} \odot \hat{x}, \quad
#   \bar{\beta} = \textstyle\sum_{\text{vectors}} \bar{y}
#   && \text{every vector uses them: the gradients add} \\
# g &:= \gamma \odot \bar{y} && \text{the gradient of } \hat{x} \\
# \bar{r} &= \textstyle\sum_i g_i c_i && \text{one number } r \text{ multiplies all } c_i \\
# \overline{\langle c^2 \rangle} &= -\tfrac{1}{2} r^3\, \bar{r}
#   && r = u^{-1/2}, \; \mathrm{d}r / \mathrm{d}u = -\tfrac{1}{2} u^{-3/2} \\
# \bar{c}_j &= r\, g_j + \tfrac{2}{C} c_j\, \overline{\langle c^2 \rangle}
#   && c_j \text{ is used in } \hat{x}_j \text{ and in the variance: the gradients add} \\
# &= r\, g_j - \tfrac{1}{C} c_j\, r^3 \textstyle\sum_i g_i c_i && \text{insert } \bar{r} \\
# &= r \big( g_j - \hat{x}_j \langle g\, \hat{x} \rangle \big)
#   && c = \hat{x} / r \text{, twice}
# \end{aligned}$$
#
# Then the mean. It is subtracted from all coordinates, and each coordinate is a part of it:
#
# $$\begin{aligned}
# \bar{\mu} &= -\textstyle\sum_i \bar{c}_i && c_i = x_i - \mu \text{ for every } i \\
# \bar{x}_j &= \bar{c}_j + \tfrac{1}{C} \bar{\mu} = \bar{c}_j - \langle \bar{c} \rangle
#   && x_j \text{ is used in } c_j \text{ and in } \mu \text{: the gradients add} \\
# \bar{x} &= r \big( g - \langle g \rangle - \hat{x} \langle g\, \hat{x} \rangle \big)
#   && \langle \hat{x} \rangle = 0 \text{, so its term has no mean}
# \end{aligned}$$
#
# > The gradient of LayerNorm is $r (g - \langle g \rangle - \hat{x} \langle g \hat{x} \rangle)$:
# > the incoming gradient minus its mean, minus its component along $\hat{x}$.
# %%
def mean(a):
    return a.mean(axis=-1, keepdims=True)                             # (..., 1)


def layer_norm_backward(dy, x, weight, bias, epsilon=1e-5):
    c = x - mean(x)                                                   # (..., C)
    r = (mean(c * c) + epsilon) ** -0.5                               # (..., 1)
    x_hat, g, vectors = c * r, weight * dy, tuple(range(x.ndim - 1))
    dc = r * (g - x_hat * mean(g * x_hat))                            # direct, and the variance
    dx = dc - mean(dc)                                                # and the mean
    return dx, (dy * x_hat).sum(axis=vectors), dy.sum(axis=vectors)


check("layer_norm_backward", layer_norm_backward, seed=0)
# %% [markdown]
# **Think.** LayerNorm gives the same output for $x + a$ and (nearly) for $b\, x$ with b > 0. What
# does this imply for $\bar{x}$?
#
# <details><summary>Answer</summary>
#
# Moving x along the vector of ones, or along $\hat{x}$, does not change the loss, so the gradient
# has no component in these directions: its sum is 0, and its dot product with $\hat{x}$ is 0 up to
# $\epsilon$. The two subtracted terms do just this.
#
# </details>
# %%
rng = np.random.default_rng(0)
x, dy = rng.standard_normal((2, 5, 8))                                # (vectors, C)
for epsilon in (1e-5, 1e-7, 0):
    dx, _, _ = layer_norm_backward(dy, x, np.ones(8), np.zeros(8), epsilon)
    x_hat, _ = layer_norm(x, np.ones(8), np.zeros(8), epsilon)
    print(f"epsilon {epsilon:.0e}: sum of dx {abs(dx.sum(axis=1)).max():.0e}, "
          f"dx . x_hat {abs((dx * x_hat).sum(axis=1)).max():.0e}")
# %% [markdown]
# The sum is 0 up to rounding. The product is not, because of $\epsilon$: it shrinks in proportion
# to $\epsilon$, and with $\epsilon = 0$ it is a rounding error too.
#
# **Exercise 5.1** (10 minutes). BatchNorm has the same formulas, with means over all axes but the
# last: of x: (B, T, C), over B and T, so that each of the C coordinates has its own mean. Change
# the axes of the means, and nothing else. `hint("batch_norm_backward")` helps; after a pass,
# `solution("batch_norm_backward")` shows ours.
# %%
def batch_norm_backward(dy, x, weight, bias):
    """dy, x (..., C), any axes before the last; weight, bias (C,). Return dx, dweight, dbias."""
    ...


check("batch_norm_backward", batch_norm_backward, seed=0)
# %% [markdown] minutes=15
# ## RMSNorm leaves out the mean
# Zhang and Sennrich (2019) subtract no mean and add no bias: only the size of a vector is set, by
# its root mean square. The paper reports models of equal quality in 7% to 64% less time. LLaMA and
# T5 use RMSNorm.
#
# $$y = \gamma \odot x\, r, \qquad r = \left( \langle x^2 \rangle + \epsilon \right)^{-1/2}, \qquad
# x, y: (\dots, C),\; r: (\dots, 1),\; \gamma: (C,)$$
#
# > RMSNorm sets the root mean square of each vector to 1, over its C coordinates; then the weight
# > scales each coordinate.
#
# The mean is over the width of a vector. (One deck divides by N, which in its other formulas is the
# number of vectors.) Papers also disagree about $\epsilon$: inside the root as here, or added to
# the root. The two differ for vectors whose root mean square is not far above $\sqrt\epsilon$, so a
# model with such vectors needs the form that it was trained with. And RMSNorm does not give all
# word vectors of a model the same norm, although this is sometimes said: only the input of a branch
# is normalised, and the weight then scales each coordinate.
#
# **Exercise 5.2** (10 minutes). Repeat the derivation: which path is missing, and which term?
# `hint("rms_norm_backward")` helps; after a pass, `solution("rms_norm_backward")` shows ours.
# %%
def rms_norm_backward(dy, x, weight):
    """dy, x (..., C), any axes before the last; weight (C,). Return dx, dweight."""
    ...


check("rms_norm_backward", rms_norm_backward, seed=0)
# %% [markdown]
# <details><summary>The derivation</summary>
#
# $$\begin{aligned}
# \bar{r} &= \textstyle\sum_i g_i x_i && r \text{ multiplies all } x_i \text{; } g = \gamma \odot
#   \bar{y} \\
# \bar{x}_j &= r\, g_j + \tfrac{2}{C} x_j \cdot \big( -\tfrac{1}{2} r^3\, \bar{r} \big)
#   && x_j \text{ is used directly and in } \langle x^2 \rangle \text{: the gradients add} \\
# &= r \big( g_j - \hat{x}_j \langle g\, \hat{x} \rangle \big) && \hat{x} = x\, r
#   \text{, twice; no mean was subtracted, so no mean of } g
# \end{aligned}$$
#
# </details>
# %% [markdown] minutes=15
# ## Residual connections keep a short path
# A **residual connection**, or skip connection, adds the input of a layer to its output. The layer
# then has to learn only a change, and a layer that adds 0 does no harm. The sums of all layers form
# the **residual stream**: each layer reads from it and adds to it. For gradients the sum is the
# point:
#
# $$\begin{aligned}
# y &= x + f(x) && x, y \text{: a vector of } T C \text{ numbers each} \\
# \bar{x} &= \bar{y} + J_f^\top \bar{y} && x \text{ is used twice: the gradients add;
#   } J_f = \partial f / \partial x: (T C, T C) \\
# \bar{x}_0 &= (I + J_1^\top)(I + J_2^\top) \cdots (I + J_L^\top)\, \bar{x}_L
#   && L \text{ blocks in a row}
# \end{aligned}$$
#
# Multiplied out, the product has the term I: a path on which the gradient is not multiplied at all.
# Without the residual only $J_1^\top J_2^\top \cdots J_L^\top$ is left, as in the recurrent network
# of lesson 1. We take 24 random Jacobians in a row, whose entries have the variance $0.3^2 / C$:
# each coordinate of $J^\top v$ is a sum of C terms, with the variance $0.3^2 |v|^2 / C$, so the
# norm of a vector becomes about 0.3 times as large. We expect about $0.3^{24} = 10^{-12.5}$ without
# the residual. With it the squared norm should grow by $1 + 0.3^2$ per block, so the norm by
# $1.09^{12} = 2.8$.
# %%
for seed in (1, 2, 3):
    rng, C = np.random.default_rng(seed), 64
    plain = skips = start = rng.standard_normal(C)
    for _ in range(24):
        J = 0.3 * rng.standard_normal((C, C)) / np.sqrt(C)            # |J^T v| is about 0.3 |v|
        plain, skips = J.T @ plain, skips + J.T @ skips
    print(f"gradient after 24 blocks: {np.linalg.norm(plain) / np.linalg.norm(start):.0e} without "
          f"skips, {np.linalg.norm(skips) / np.linalg.norm(start):.1f} with skips")
# %% [markdown]
# It came out as expected. In real blocks the gradient shrinks, too, though less: with 24 blocks
# without norms and residuals, the gradient with respect to the input of the first is $10^{-3.3}$ to
# $10^{-4.3}$ of that of the last, and a stack of 16 trains to a loss of 3.24 to 3.28, with
# residuals alone to 2.60 to 2.66 (`numformer reproduce skip-connections`, three seeds).
#
# > A residual connection adds the identity to the Jacobian, so the gradient has a path that no
# > layer can shrink.
# %% [markdown] minutes=20
# ## Norm before the branch, or after the sum
# A Transformer block has two such branches: attention, which moves information between positions,
# and a feed-forward network, which treats each position alone (lesson 6). In 2017 the norm came
# after each sum (**post-norm**). Baevski and Auli (2019) and GPT-2 moved it in front of each branch
# (**pre-norm**), and most models since then have it there:
#
# $$\begin{aligned}
# \text{post: } & h = \mathrm{norm}(x + \mathrm{attention}(x)), && y = \mathrm{norm}(h +
#   \mathrm{ffn}(h)), && x, h, y: (T, C) \\
# \text{pre: } & h = x + \mathrm{attention}(\mathrm{norm}(x)), && y = h +
#   \mathrm{ffn}(\mathrm{norm}(h))
# \end{aligned}$$
#
# If its branches give 0, a pre-norm block is the identity; a post-norm block is not, since it still
# normalises.
# The gradients of one branch differ in the same way:
#
# $$\begin{aligned}
# \text{post: } & y = \mathrm{norm}(x + f(x)) && \bar{x} = (I + J_f^\top)\, J_{\mathrm{norm}}^\top
#   \bar{y} && \text{every path passes through the norm} \\
# \text{pre: } & y = x + f(\mathrm{norm}(x)) && \bar{x} = \bar{y} + J_{\mathrm{norm}}^\top J_f^\top
#   \bar{y} && \text{one path is free}
# \end{aligned}$$
#
# > With pre-norm the residual stream runs from the first block to the last without a norm in
# > between; with post-norm every gradient passes through one norm per branch.
#
# We measure the gradient of each block's parameters in untrained decoders of 24 blocks. (GPT-2
# starts with smaller output weights in its 2 L branches, divided by $\sqrt{2 L}$, so that their sum
# does not grow with the depth. The model of 2017 did not, so the code multiplies by $\sqrt{2 L}$
# again. In both designs it then multiplies the output weights of attention by 1/2, and those of the
# feed-forward network, which sums four times as many terms, by 1/4.) Xiong et al. (2020) derive
# that with post-norm the gradients near the loss are large, however deep the model is. With
# pre-norm all gradients pass through the last norm, which divides by the size of a stream that has
# grown with depth. So we expect larger gradients with post-norm in the last blocks.
# %%
ids, flows, streams, L = rng.integers(0, 50, (8, 33)), {}, {}, 24
for name, norm_first in (("pre-norm", True), ("post-norm", False)):
    config = DecoderConfig(**{**TRANSFORMER_2017, "norm_first": norm_first, "init_std": 64 ** -0.5},
                           vocab_size=50, context_length=32, n_layers=L, n_heads=4, d_model=64)
    runs, streams[name] = [], []
    for seed in (1, 2, 3):
        model = Decoder(config, np.random.default_rng(seed))
        for block in model.blocks:
            block.attention.output.weight.data *= np.float32((2 * L) ** 0.5 / 2)
            block.feedforward.output.weight.data *= np.float32((2 * L) ** 0.5 / 4)
        runs.append(gradient_norm_by_block(model, (ids[:, :-1], ids[:, 1:]))["blocks"])
        streams[name].append(residual_stream(model, ids[:, :-1])["blocks"])
    flows[name] = np.mean(runs, axis=0)                               # (L,)
    print(name, "first to last block:", [f"{run[0]:.2f} to {run[-1]:.2f}" for run in runs])
# %% tags=["hide-input"]
gradient_flow(flows).figure
# %% [markdown]
# It came out as expected with every seed. In the last block the gradient norm is 1.75 to 2.10 with
# post-norm and 0.43 to 0.53 with pre-norm; in the first block the two hardly differ. The paper
# concludes that large gradients near the loss make the first steps unsafe, and that the 2017
# Transformer therefore needs a **warm-up**, in which the learning rate grows from nearly 0.
# Pre-norm has a price, though. Nothing in the stream is ever divided, so we expect that its vectors
# grow with depth, and that later blocks change them less:
# %%
for name, runs in streams.items():                                    # L + 1 arrays (B, T, C) each
    change = [[np.median(np.linalg.norm(b - a, axis=-1) / np.linalg.norm(a, axis=-1))
               for a, b in ((run[0], run[1]), (run[-2], run[-1]))] for run in runs]
    first, last = np.transpose(change).round(2)
    print(f"{name}: change over size of the stream, first block {first}, last block {last}")
# %% tags=["hide-input"]
residual_norms({name: runs[0] for name, runs in streams.items()}).figure
# %% [markdown]
# As expected with each seed (the picture has seed 1): with pre-norm the stream grows, and the first
# block changes it by more than a third of its size, the last by a fifth. With post-norm both change
# it by about a half.
#
# **Think.** Why does a pre-norm model have one more norm after its last block, and a post-norm
# model none?
#
# <details><summary>Answer</summary>
#
# The output layer is a linear map that also needs inputs of a known size. With post-norm the last
# block ends with a norm; with pre-norm the stream has grown and was never normalised itself.
#
# </details>
# %% [markdown]
# A block of GPT-2, drawn from its layers: each branch begins with a LayerNorm, and there is no norm
# on the path from one circle with a plus to the next.

# %% tags=["hide-input"]
from numformer.models import CONFIGS
from numformer.plots import architecture_diagram

architecture_diagram(CONFIGS["gpt2"], block=1, title="GPT-2").figure

# %% [markdown]
# ## Summary
# - LayerNorm: $\hat{x} = (x - \mu)\, r$, $\bar{x} = r (g - \langle g \rangle - \hat{x} \langle g
#   \hat{x} \rangle)$, $g = \gamma \odot \bar{y}$. RMSNorm has no mean and no term $\langle g
#   \rangle$.
# - LayerNorm averages over the coordinates of a vector, BatchNorm over the vectors of a batch.
# - A residual adds the identity to the Jacobian: $\bar{x} = \bar{y} + J_f^\top \bar{y}$.
# - Norms keep activations at a known size, residuals keep gradients from vanishing: both are in
#   every block. With pre-norm a last norm follows the last block.
# - More practice: `numformer exercises 09 11 34`.
# %% [markdown]
# ## Further reading
# - Ba, Kiros and Hinton (2016), "Layer Normalization", section 3. Ioffe and Szegedy (2015), "Batch
#   Normalization". Zhang and Sennrich (2019), "Root Mean Square Layer Normalization", eq. 4.
# - He, Zhang, Ren and Sun (2016), "Deep Residual Learning for Image Recognition".
# - Baevski and Auli (2019), "Adaptive Input Representations for Neural Language Modeling", section
#   4.1: pre-norm. Xiong et al. (2020), "On Layer Normalization in the Transformer Architecture".
# - Code: `numformer/functional/norms/`, `numformer/layers/blocks/`.
