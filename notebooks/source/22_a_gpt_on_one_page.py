# %% [markdown]
# # 22. A GPT on one page, line by line
#
# **Question.** `numformer/minimal.py` is a whole GPT with its backward, training and sampling, in
# 300 lines of NumPy. What does each line do, and why is it there?
#
# **You will learn**
#
# - to read a model as pairs of functions, and to check each pair by the complex step;
# - to explain the shapes of heads, targets and batches, and the reshapes between them;
# - to derive the lines whose comments are short: LayerNorm, cross-entropy, repeated ids;
# - to train the page, to look into what it saved, and to change a function of it.
#
# **You need** lessons 4, 5, 7 and 10 (heads, norms, backpropagation, AdamW).
#
# **Time.** 2 x 45 minutes; the cells run in about 30 seconds.
# %% tags=["setup"]
# %matplotlib inline
from inspect import getsource

import numpy as np

from numformer import check, hint, minimal, solution
from numformer.data import load_corpus
from numformer.plots import attention_grid
from numformer.plots.axes import new_axes


def show(*functions):
    print("\n\n".join(getsource(function).rstrip() for function in functions))


def complex_step(f, x, dy):
    """The gradient of sum(dy * f(x)) with respect to x: lesson 8."""
    dx, z = np.empty(x.shape), x.astype(complex)
    for index in np.ndindex(x.shape):
        z[index] += 1e-30j
        dx[index] = (dy * f(z)).sum().imag / 1e-30
        z[index] = x[index]
    return dx
# %% [markdown] minutes=10
# ## A layer is a pair of functions
# Open the page next to this lesson; `show` prints its functions here in the order of reading. It
# has no classes. A layer is a function that returns its output and `saved`, what its backward
# needs. The settings are names in capital letters at its top. We make them tiny, so that each array
# can be printed.
# %%
minimal.CONTEXT, minimal.LAYERS, minimal.HEADS, minimal.WIDTH = 8, 2, 2, 4
rng = np.random.default_rng(0)
show(minimal.linear, minimal.linear_backward)
# %% [markdown]
# The forward needs no reshape, since `@` works along the last axes. The backward does. All B T
# vectors share one weight, so its gradient is a sum over them; the reshape to (-1, C) puts them
# below each other, and one product of matrices does sum and products:
#
# $$\bar{W}_{cf} = \sum_{n=1}^{BT} x_{nc}\, \bar{y}_{nf}, \qquad x: (BT, C),\; \bar{y}: (BT, F)$$
#
# $\bar{x} = \partial L / \partial x$ is the gradient of the loss L with respect to x, `dx` in code.
# `dy` is given: the layers above compute it.
# %%
x, weight, bias = (rng.standard_normal(shape) for shape in ((2, 3, 4), (4, 5), (5,)))
y, saved = minimal.linear(x, weight, bias)                            # (B, T, F)
dy = rng.standard_normal(y.shape)
dx, dweight, dbias = minimal.linear_backward(dy, saved)
print([array.shape for array in (y, dx, dweight, dbias)])
exact = complex_step(lambda z: minimal.linear(x, z, bias)[0], weight, dy)
print(f"largest error of dweight {np.abs(dweight - exact).max():.0e}")
# %% [markdown]
# > Every gradient has the shape of its array, and every sum in a backward is there because the
# > forward used one number several times.
# %% [markdown] minutes=15
# ## LayerNorm and GELU
# LayerNorm gives each vector mean 0 and variance 1, whatever the layers before it did. The
# coordinates of a vector share mean and variance, so each output depends on all of them.
# %%
show(minimal.layer_norm, minimal.layer_norm_backward)
# %% [markdown]
# The step that the comment makes fast: r is a power, and what is raised to it is a mean of squares.
# With c for `centred` and g for `dx_hat`,
#
# $$\begin{aligned}
# r &= u^{-1/2}, \qquad u = \tfrac{1}{C} \textstyle\sum_i c_i^2 + \epsilon && c: (C,) \\
# \frac{\partial r}{\partial c_j} &= -\tfrac12 u^{-3/2} \cdot \tfrac{2}{C} c_j
#   = -\tfrac{1}{C} r^3 c_j && \text{power rule; } u^{-3/2} = r^3 \\
# \bar{c}_j &= r\, g_j - \tfrac{1}{C} r^3 c_j \textstyle\sum_i g_i c_i
#   && \hat{x}_i = c_i r \text{: directly, and through } r \\
# &= r \big( g_j - \hat{x}_j\, \tfrac{1}{C} \textstyle\sum_i g_i \hat{x}_i
#   \big) && c = \hat{x} / r \text{, twice}
# \end{aligned}$$
#
# The last lines subtract the mean, since $x_j$ is in every $c_i$. Without either term the error is
# large:
# %%
x, weight, bias = 3 + rng.standard_normal((2, 3, 4)), np.ones(4), np.zeros(4)
y, saved = minimal.layer_norm(x, weight, bias)
dy, (x_hat, r, _) = rng.standard_normal(y.shape), saved
exact = complex_step(lambda z: minimal.layer_norm(z, weight, bias)[0], x, dy)
for name, dx in {"whole": minimal.layer_norm_backward(dy, saved)[0], "r alone": r * dy,
                 "without the mean": r * (dy - x_hat * (dy * x_hat).mean(-1, keepdims=True))
                 }.items():
    print(f"{name:16}: error {np.abs(dx - exact).max():.0e}")
# %%
show(minimal.gelu, minimal.gelu_backward)
x = np.float32([1e20])
with np.errstate(over="ignore", invalid="ignore"):
    print("\nslope at 1e20:", minimal.gelu_backward(1, minimal.gelu(x)[1]), "  0 x²:", 0 * (x * x))
# %% [markdown]
# GELU is a smooth ReLU, x times a number between 0 and 1 that grows with x. Its backward is the
# product rule. One line is about computers, not mathematics: for a large x the tanh is exactly 1,
# its slope 0, but $x^2$ may be infinite, and 0 times infinity is no number (NaN).
#
# > A backward quotes the forward, line by line from the last to the first, and applies one rule to
# > each.
#
# **Exercise 22.1** (5 minutes). CLIP has a cheaper GELU, $y = x\, \sigma(1.702\, x)$ with
# $\sigma(a) = 1 / (1 + e^{-a})$. Write its backward; you can put the pair into the page in place of
# `gelu`. `hint("quick_gelu_backward")` helps; after a pass, `solution("quick_gelu_backward")` shows
# ours.
# %%
def quick_gelu_backward(dy, x):
    """dy and x have the same shape, with any number of axes. Return dx."""
    ...


check("quick_gelu_backward", quick_gelu_backward, seed=0)
# %% [markdown] minutes=15
# ## Softmax and attention
# In attention every position sends a **query**, what it looks for. It compares it with the **keys**
# of all earlier positions, what they offer to match, and takes a mean of their **values**, what
# they pass on. The softmax makes weights from the comparisons.
# %%
show(minimal.softmax, minimal.softmax_backward, minimal.attention, minimal.attention_backward)
# %% [markdown]
# One softmax gives one set of weights, so one mean. To read two positions apart, a model needs two
# **heads**, each with a part of the vector: D = C / H numbers. `reshape` must first cut each vector
# in H parts, and then `swapaxes` moves H to the front. A reshape to the final shape would do
# neither. Here the tens of each number are its position, the ones its coordinate:
# %%
x = (10 * np.arange(1, 4)[:, None] + np.arange(4))[None]              # (B, T, C) = (1, 3, 4)
print("right, head 1:", *x.reshape(1, 3, 2, 2).swapaxes(1, 2)[0, 0])  # (T, D)
print("wrong, head 1:", *x.reshape(1, 2, 3, 2)[0, 0])
# %% [markdown]
# In the wrong line, the numbers of position 1 occupy two rows: positions mix. The way back at the
# end is the same in reverse, first `swapaxes`, then `reshape`.
#
# The mask needs no line in the backward. Where a score was $-\infty$ its weight is 0, and the
# softmax's gradient $\bar{z}_j = p_j (\bar{p}_j - \sum_i \bar{p}_i p_i)$ has the weight as a
# factor.
# %%
qkv = rng.standard_normal((1, 3, 12))                                 # (B, T, 3C)
y, saved = minimal.attention(qkv)
dy = rng.standard_normal(y.shape)                                     # (B, T, C)
dqkv = minimal.attention_backward(dy, saved)
exact = complex_step(lambda z: minimal.attention(z)[0], qkv, dy)
print("weights of head 1, (T, T):", *saved[3][0, 0].round(2))
print(f"largest error of {dqkv.size} derivatives {np.abs(dqkv - exact).max():.0e}")
# %% [markdown]
# > reshape splits the last axis into heads, swapaxes puts the heads before the positions, and `@`
# > then works on every head alone.
# %% [markdown] minutes=10
# ## The loss
# The last layer compares the scores of the next character, the **logits**, with what really came.
# %%
show(minimal.cross_entropy, minimal.cross_entropy_backward)
# %% [markdown]
# `np.eye(V)` is the unit matrix. Its row i has a 1 at i and else 0, so `np.eye(V)[targets]` looks
# up a row for each target: the one-hot vectors, (B, T, V). Multiplied by `log_p` and summed over V,
# they choose the logarithm of the target's probability. The unit of the loss is the **nat**;
# divided by log 2 it would be bits.
#
# $$-\log p_y = \log \sum_k e^{z_k} - z_y, \qquad
# \bar{z}_j = \frac{1}{n} \Big( \frac{e^{z_j}}{\sum_k e^{z_k}} - [j = y] \Big)$$
#
# The loss is the end of the chain, so its backward gets no `dy`: $\partial L / \partial L = 1$.
# %%
logits, targets = rng.standard_normal((1, 2, 3)), np.array([[2, 0]])  # (B, T, V), (B, T)
loss, saved = minimal.cross_entropy(logits, targets)
print("one-hot:", *np.eye(3)[targets][0])
print("gradient:", *minimal.cross_entropy_backward(saved)[0].round(3))
exact = complex_step(lambda z: minimal.cross_entropy(z, targets)[0], logits, 1)
print(f"largest error {np.abs(minimal.cross_entropy_backward(saved) - exact).max():.0e}")
# %% [markdown]
# > The gradient of the loss is prediction minus target: negative for the true character, whose
# > logit descent raises, positive for all others.
#
# **Think.** What is the sum of $\bar{z}$ over all characters, for one position?
#
# <details><summary>Answer</summary>
#
# 0, since the probabilities sum to 1, and so does the one-hot vector. A constant that is added to
# all logits does not change the loss.
#
# </details>
#
# **Exercise 22.2** (10 minutes, at home). A large model can teach a small one: the target is no
# character but the teacher's probabilities. What replaces the one-hot vector in $\bar{z}$? Write it
# for the mean over all vectors; `dloss` is the gradient of the loss, here a factor.
# `hint("distillation_loss_backward")` helps; after a pass, `solution("distillation_loss_backward")`
# shows ours, with a temperature.
# %%
def distillation_loss_backward(dloss, logits, teacher_logits):
    """logits, teacher_logits (..., V), any axes before the last. Return dlogits."""
    ...


check("distillation_loss_backward", distillation_loss_backward, seed=0)
# %% [markdown] minutes=10
# ## Parameters and the block
# All parameters are in one dictionary, lists of arrays by name. `*p[name]` passes a list as
# arguments; `dx, *g[name] = ...` puts the first result into `dx` and the others, as a list, into
# the dictionary of gradients, under the same name.
# %%
show(minimal.initial_parameters, minimal.block, minimal.block_backward)
# %% [markdown]
# Why the standard deviation 0.06? An output is a sum of C products, so its variance is $C \sigma^2$
# for inputs of variance 1. With $\sigma = 1 / \sqrt{C}$ it stays 1. The page takes a bit less than
# that for its C = 128:
# %%
x = np.random.default_rng(0).standard_normal((1000, 128))
for std in (0.02, minimal.INITIAL_STD, 128 ** -0.5):
    y = x @ np.random.default_rng(1).normal(0, std, (128, 128))
    print(f"std of weights {std:.3f}: of outputs {y.std():.2f}, of inputs {x.std():.2f}")
# %% [markdown]
# Why add, in `h = x + a` and `h + m`? What a layer adds does not replace what was there, and the
# gradient has a path without any matrix: in `dh = dy + dm`, the term `dy` arrives as it is. How
# much of the gradient is that, at the start, in a block of the real width?
# %%
minimal.WIDTH, minimal.HEADS = 128, 4
p = minimal.initial_parameters(np.random.default_rng(0), 50)
x, dy = np.random.default_rng(1).standard_normal((2, 1, 8, 128))      # (B, T, C) each
dx = minimal.block_backward(dy, minimal.block(x, p, 0)[1], {}, 0)
print(f"norms: dy {np.linalg.norm(dy):.1f}, what the branches add {np.linalg.norm(dx - dy):.1f}")
# %% [markdown]
# The direct path brings the larger part, and keeps it through any number of blocks (lesson 5).
#
# > A block adds to its input twice. On the way back each sum copies the gradient to both of its
# > terms, and where the paths meet again, the gradients add.
# %% [markdown] minutes=10
# ## The whole model, forward and backward
# An id looks up its row of the embedding, a position its row of the second table; both are added,
# since a block must know what is where. Then come the blocks, a norm, and the head.
# %%
show(minimal.forward, minimal.backward)
# %% [markdown]
# `minimal.linear(x, embedding.T, 0)` is the **head**. It has no weights of its own: a logit is the
# dot product of the vector with the embedding of a character, and 0 is a bias that is not there
# (broadcasting adds it to all). So the embedding is used twice, and its gradient has two terms. The
# head's is that of a weight `embedding.T`, so it must be transposed back.
#
# The lookup's is subtle: an id that occurs several times uses its row several times. `a[ids] += dx`
# reads, adds and writes each row once, and all but one gradient are lost:
# %%
ids, dx = np.array([1, 0, 1]), np.array([[1.0], [2.0], [4.0]])
lost, added = np.zeros((2, 1)), np.zeros((2, 1))
lost[ids] += dx
np.add.at(added, ids, dx)
print("row 1 is used twice: dembedding[ids] += dx gives", lost[1], "and np.add.at", added[1])
# %% [markdown]
# The positions are the same in all B texts, so their gradient is a sum over the batch. Now the
# whole page, one random number of each parameter, in float64:
# %%
minimal.WIDTH, minimal.HEADS, rng = 8, 2, np.random.default_rng(0)
p = {name: [w.astype(float) for w in ws]
     for name, ws in minimal.initial_parameters(rng, 6).items()}
ids, targets = rng.integers(6, size=(2, 2, 8))                        # (B, T) each


def loss_with(name, i, w):
    changed = {**p, name: [*p[name][:i], w, *p[name][i + 1:]]}
    return minimal.cross_entropy(minimal.forward(changed, ids)[0], targets)[0]


logits, saved = minimal.forward(p, ids)
_, saved_loss = minimal.cross_entropy(logits, targets)
g, errors = minimal.backward(minimal.cross_entropy_backward(saved_loss), saved), []
for name in p:
    for i, w in enumerate(p[name]):
        index, z = tuple(rng.integers(w.shape)), w.astype(complex)
        z[index] += 1e-30j
        errors.append(abs(g[name][i][index] - loss_with(name, i, z).imag / 1e-30))
print(f"{len(errors)} arrays, largest error {max(errors):.0e}")
# %% [markdown]
# > The backward of a model visits its layers in reverse order. A parameter that is used in several
# > places gets the sum of the gradients of all its uses.
# %% [markdown] minutes=15
# ## AdamW, and training
# %%
show(minimal.adamw, minimal.train)
# %% [markdown]
# m is a running mean of gradients, v of their squares, so $\sqrt{v}$ has the unit of a gradient,
# and $m / \sqrt{v}$ has none. Without the root a gradient twice as large would give half the step.
# With it the first step has the size of the learning rate, whatever the gradient:
#
# $$\frac{\hat{m}}{\sqrt{\hat{v}}} = \frac{g}{\sqrt{g^2}} = \pm 1 \qquad \text{(first step:
# } \hat{m} = g,\; \hat{v} = g^2 \text{)}$$
#
# `w.ndim == 2` chooses what decays: matrices, and the two tables, which are matrices, too. A decay
# to 0 makes sense for them, whose random entries have mean 0; the weight of a norm begins at 1.
# %%
for size in (1e-3, 1.0, 1e3):
    w, m, v = {"w": [np.ones(1)]}, {"w": [np.zeros(1)]}, {"w": [np.zeros(1)]}
    minimal.adamw(w, {"w": [np.array([size])]}, m, v, step=1, learning_rate=0.01)
    print(f"gradient {size:6}: the weight moves by {w['w'][0][0] - 1:.3f}")
starts = np.array([[0], [100]])                                       # (B, 1)
print("excerpts, (B, 1) + (5,):", *(starts + np.arange(5)))           # (B, T + 1)
# %% [markdown]
# A batch is B random excerpts of T + 1 characters, by broadcasting. Their first T are inputs and
# their last T targets: the target of each position is the next input. An **epoch** is one pass over
# the text; excerpts are random, so the page bounds the characters of all batches by 20 times the
# text. The learning rate is multiplied by the smaller of two ramps, which needs no `if`:
# %% tags=["hide-input"]
ax, steps = new_axes((7, 2.8)), 500
step = np.arange(1, steps + 1)
ax.plot(step, np.minimum(step / minimal.WARMUP, 1.2), ":", label="step / WARMUP")
ax.plot(step, 1 - step / (steps + 1), "--", label="1 - step / (steps + 1)")
ax.plot(step, np.minimum(step / minimal.WARMUP, 1 - step / (steps + 1)), label="the smaller one")
ax.set(xlabel="step", ylabel="factor")
ax.legend()
ax.figure
# %% [markdown]
# Now it trains, with a smaller width and fewer steps than the page's, on the text of lesson 0. We
# expect it to be better on held-out text than the bigram model of that lesson, since it reads up to
# 64 characters. (The counts get 0.1 more, so that no pair has the probability 0.)
# %%
minimal.CONTEXT, minimal.HEADS, minimal.WIDTH, minimal.STEPS = 64, 4, 64, 500
text = load_corpus().text
characters = sorted(set(text))
id_of = {character: i for i, character in enumerate(characters)}
ids = np.array([id_of[character] for character in text])
cut, rng = int(0.9 * len(ids)), np.random.default_rng(0)
p = minimal.train(ids[:cut], len(characters), rng)
counts = np.full((len(characters),) * 2, 0.1)
np.add.at(counts, (ids[:cut - 1], ids[1:cut]), 1)
bigram = counts / counts.sum(axis=1, keepdims=True)
print(f"held-out loss: bigram {-np.log(bigram[ids[cut:-1], ids[cut + 1:]]).mean():.2f}, "
      f"the page {minimal.evaluate(p, ids[cut:]):.2f}")
# %% [markdown]
# It came out as expected, with one seed and a short training.
#
# > Training is a loop of five steps: excerpts, forward, loss, backward, AdamW.
#
# Where do the heads look? `saved` has it: the second entry of the model is that of the blocks, the
# third of a block that of attention, and the last of attention the weights, (B, H, T, T).
# %%
words = "the value of an expr"
_, saved = minimal.forward(p, np.array([[id_of[c] for c in words]]))
weights = [saved_block[2][-1][0] for saved_block in saved[1]]         # (H, T, T) of each block
# %% tags=["hide-input"]
attention_grid(weights, np.tri(len(words), dtype=bool), title="Heads of both blocks").figure
# %% [markdown]
# Each head has a map of its own. (Colours follow the root of the weight, so that small ones show.)
# The dark columns are keys that many queries read.
# %% [markdown] minutes=5
# ## Measuring and writing
# %%
show(minimal.evaluate, minimal.generate)
for temperature in (0.2, 0.8, 1.5):
    written = minimal.generate(p, [id_of[c] for c in "The "], 60, np.random.default_rng(0),
                               temperature)
    print(f"\ntemperature {temperature}: {''.join(characters[i] for i in written)!r}")
# %% [markdown]
# `evaluate` cuts the text into blocks; the last may be shorter, so the mean is weighted by the
# number of targets. `generate` keeps only the last CONTEXT ids, as there are no more rows of
# positions; it takes the last position's logits, and computes probabilities in float64, because
# `rng.choice` wants them to add up to 1 very closely. A temperature below 1 makes large differences
# of logits larger.
#
# > Sampling runs the model on what it wrote itself, one character at a time.
#
# **Think.** `generate` computes the whole context again for each character. What could be kept?
#
# <details><summary>Answer</summary>
#
# Keys and values of earlier positions: causal attention never changes them. (Not once the window
# moves: then every position gets another row of the table.) That is the KV cache of lesson 10.
#
# </details>
# %% [markdown]
# ## Summary
# - A layer is a pair: the forward returns y and `saved`; the backward gets dy and `saved`.
# - Heads: reshape to (B, T, H, D), swapaxes to (B, H, T, D), and back in reverse.
# - Loss: $\bar{z} = (p - \text{one-hot}) / n$; a sum copies a gradient, a shared array adds them.
# - AdamW: $m / \sqrt{v}$ has no unit; decay for matrices; the rate rises, then falls.
# - The page runs as `python -m numformer.minimal TEXT`. Change it: RMSNorm for LayerNorm, no
#   positions, one head. Does the complex step still agree, and where does the loss end?
# - More practice: `numformer exercises 38 39 40`. Then `numformer assemble class/student` puts your
#   own functions into the page and trains it.
# %% [markdown]
# ## Further reading
# - Radford et al. (2019), "Language Models are Unsupervised Multitask Learners": GPT-2.
# - Kingma and Ba (2015), "Adam: A Method for Stochastic Optimization"; Loshchilov and Hutter
#   (2019), "Decoupled Weight Decay Regularization".
# - Press and Wolf (2017), "Using the Output Embedding to Improve Language Models": the tied head.
# - Code: `numformer/minimal.py`, then `numformer/functional/attention/core.py`.
