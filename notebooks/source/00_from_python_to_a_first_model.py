# %% [markdown]
# # 0. From Python to a first model
#
# **Question.** What must you know before you can train a model that writes, and how little code
# does the smallest one need?
#
# **You will learn**
#
# - to work along one axis of an array, and to name the shape of every result;
# - to turn characters into vectors, and scores into probabilities;
# - to derive a derivative by hand, and to measure it to machine precision;
# - to train a model of a text by gradient descent, and to sample from it.
#
# **You need** some Python and NumPy (arrays, indexing, functions, loops), the derivative of $e^x$.
#
# **Time.** 2 x 45 minutes; the cells run in about 15 seconds.
# %% tags=["setup"]
# %matplotlib inline
import numpy as np

from numformer import check, hint, solution
from numformer.data import load_corpus
from numformer.plots.axes import draw_map, new_axes
# %% [markdown] minutes=5
# ## How to use these lessons
# Each lesson is a **notebook**, a page of texts and of cells with Python code. To change and run
# it, you need Jupyter, which comes with the extra `notebooks`. In the folder of numformer, run `pip
# install -e '.[notebooks]'`, then `jupyter lab notebooks`: a browser opens, with the lessons on the
# left. Click on a cell and press Shift and Enter: the cell runs, and its result appears below it.
#
# > All cells of a notebook share one memory. Run them from the top, in order.
#
# If results look wrong, the menu Kernel has "Restart and run all". An exercise is a function
# without a body: replace the three dots of its body, run the cell, and `check` says whether it is
# right. What `check` lists as not tested, such as an option that your function does not have, is no
# mistake. `hint("linear")` gives the first of three hints for the function `linear`, each call one
# more; after a pass, `solution("linear")` shows ours.
# %% [markdown] minutes=15
# ## Arrays and axes
# An array has a **shape**: the sizes of its **axes**. Here are two texts of three characters, each
# with a vector of four numbers. We write this shape as (B, T, C): B for the batch, T for positions
# in time, C for the coordinates of a vector. All lessons use these letters.
# %%
x = np.arange(24.0).reshape(2, 3, 4)                                  # (B, T, C)
print("x[0, 2] is one vector:", x[0, 2], "  x[..., 0] has the shape", x[..., 0].shape)
print("sums:", x.sum(axis=0).shape, x.sum(axis=1).shape, x.sum(axis=-1).shape, x.sum().shape)
print("with keepdims=True:", x.sum(axis=-1, keepdims=True).shape)
# %% [markdown]
# The three dots in `x[..., 0]` stand for all axes before the last, and so they do in shapes such as
# (..., C). A sum over an axis removes it; a sum over all leaves a single number, whose shape is
# `()`. The last axis has the number -1 whatever the number of axes, so code that uses -1 also works
# for one text, (T, C). With `keepdims=True` the axis stays, as one of size one. That is useful for
# the next step, **broadcasting**: where one array has size 1 and the other has more, NumPy repeats
# the one. A missing axis on the left counts as size 1.
# %%
centred = x - x.mean(axis=-1, keepdims=True)                          # (B, T, C) - (B, T, 1)
print("means are 0:", np.abs(centred.mean(axis=-1)).max(), "  (B, T, C) * (C,):",
      (x * np.array([1.0, 10, 100, 1000])).shape)
W = np.arange(20.0).reshape(4, 5)                                     # (C, F)
y = x @ W                                                             # (B, T, F)
print(y.shape, " an entry is a sum over C:", y[1, 0, 2], "=", sum(x[1, 0, c] * W[c, 2]
                                                                  for c in range(4)))
# %% [markdown]
# The product `x @ W` multiplies every vector along the last axis by the same matrix, which has F
# columns for F numbers of output:
#
# $$y_{btf} = \sum_{c=1}^{C} x_{btc}\, W_{cf}, \qquad
# x: (B, T, C),\; W: (C, F),\; y: (B, T, F)$$
#
# > Ask of every line which axis it works along. All other axes only repeat the same computation.
#
# **Exercise 0.1** (5 minutes). A linear layer multiplies by a matrix, weight: (C, F), and adds a
# bias: (F,) to every vector. Write it for any number of axes before the last. `hint("linear")`
# helps; after a pass, `solution("linear")` shows ours.
# %%
def linear(x, weight, bias):
    """x (..., C), any axes before the last. Return y (..., F)."""
    ...


check("linear", linear, seed=0)
# %% [markdown] minutes=10
# ## A character as a vector
# Our text is the documentation of Python. Each of its V different characters gets a number, its
# **id**.
# %%
text = load_corpus().text
characters = sorted(set(text))
id_of = {character: i for i, character in enumerate(characters)}
ids, V = np.array([id_of[character] for character in text]), len(characters)
print(f"{len(text):,} characters, V = {V}; {text[5000:5010]!r} is {ids[5000:5010]}")
# %% [markdown]
# Ids are names, not sizes: nothing about "b" lies between "a" and "c". So a model does not compute
# with an id but with a vector. The simplest is **one-hot**: V numbers, a 1 at the id and 0
# elsewhere. What happens if a matrix E: (V, C) multiplies it? All terms of the sum are 0 except
# one:
#
# $$\sum_{v} [v = \mathrm{id}]\, E_{vc} = E_{\mathrm{id}, c}$$
#
# Here $[v = \mathrm{id}]$ is 1 if both are equal, else 0. (In code below, `word[:, None]` adds an
# axis of size 1: (T,) becomes (T, 1).) The product is the row of E with this number. E is called
# the **embedding**: a table with a vector for each character, whose numbers are learned.
# %%
word = np.array([id_of[character] for character in "letters"])        # (T,)
one_hot = (word[:, None] == np.arange(V)).astype(float)               # (T, 1) == (V,): (T, V)
E = np.random.default_rng(0).standard_normal((V, 4))                  # (V, C)
print("the same:", np.array_equal(one_hot @ E, E[word]), (one_hot @ E).shape)
# %% tags=["hide-input"]
ax, first = new_axes((7, 3)), id_of["a"]
draw_map(ax, one_hot[:, first:first + 26], "one-hot")
ax.set(xticks=range(26), xticklabels=list("abcdefghijklmnopqrstuvwxyz"), yticks=range(7),
       yticklabels=list("letters"), xlabel="columns of the lowercase letters", ylabel="position")
ax.figure
# %% [markdown]
# > A character enters a model as a row of a table. Looking it up is the product with a one-hot
# > vector, without the zeros.
# %% [markdown] minutes=10
# ## A probability, and how to score it
# Which character follows "q"? We count. $N_{ab}$ is how often b follows a; divided by the sum of
# its row, it is the **conditional probability** $p(b \mid a)$, "b, given a". A row of p is not
# negative and has the sum 1.
# %%
N = np.zeros((V, V))                                                  # (before, next)
np.add.at(N, (ids[:-1], ids[1:]), 1)                                  # adds 1 for every pair
of_row = N.sum(axis=1, keepdims=True)                                 # (V, 1)
counted = N / np.maximum(of_row, 1)                                   # (V, V); no division by 0
for a in "qt ":
    best = np.argsort(-counted[id_of[a]])[:4]
    print(f"after {a!r}:", *(f"{characters[b]!r} {counted[id_of[a], b]:.2f} " for b in best))
# %% [markdown]
# How good is such a model? It should assign a high probability to what really follows. The **loss**
# is the mean of $-\log p$ over all n pairs of the text. It is 0 for a model that is always certain
# and right. A model that gives every character the same probability, $1 / V$, has the loss $\log
# V$. The logarithm is the natural one, and the unit is called nat:
#
# $$L = -\frac{1}{n} \sum_{t} \log p(x_{t+1} \mid x_t)
# = -\frac{1}{n} \sum_{ab} N_{ab} \log p_{ab}$$
#
# > The loss of a language model is its mean surprise, $-\log p$ of what really came next.
# %%
def loss_of(p):
    return -(N * np.log(np.where(N > 0, p, 1))).sum() / N.sum()       # log 1 = 0 where N is 0


even = np.full((V, V), 1 / V)
print(f"loss: even {loss_of(even):.3f} = log V {np.log(V):.3f}, counted {loss_of(counted):.3f}")
# %% [markdown]
# **Think.** An even guess among how many characters has the loss of counting, 2.458 nats?
#
# <details><summary>Answer</summary>
#
# Among $e^{2.458} = 11.7$, since an even guess among n has the loss $\log n$. This number is called
# *perplexity*.
#
# </details>
# %% [markdown] minutes=15
# ## Softmax: from scores to probabilities
# A network computes **scores** z, any numbers. (For the next token they are called **logits**.) To
# make them probabilities, take the exponential, which is positive, and divide by the sum:
#
# $$p_i = \frac{e^{z_i}}{\sum_j e^{z_j}}, \qquad z, p: (V,)$$
#
# Adding a constant c to all scores multiplies numerator and denominator by $e^c$ and changes
# nothing. So only differences count: a score that is larger by 1 has e times the probability. We
# use this freedom to subtract the largest score, since $e^{1000}$ is too large for a computer.
# %%
def softmax(z):
    e = np.exp(z - z.max(axis=-1, keepdims=True))                     # (..., V), at most 1
    return e / e.sum(axis=-1, keepdims=True)


z = np.array([2.0, 1.0, 0.0, -1.0])
print("p", softmax(z).round(3), " ratio", (softmax(z)[0] / softmax(z)[1]).round(3))
print("all scores 1000 larger:", softmax(z + 1000).round(3), " two rows:", softmax(x[:, 0]).shape)
# %% [markdown]
# > Softmax keeps the order of the scores. Their differences decide the ratios of the probabilities.
#
# **Think.** All scores are doubled. What happens to the probabilities?
#
# <details><summary>Answer</summary>
#
# Their ratios, $p_i / p_j = e^{z_i - z_j}$, are squared. So the largest probability grows, unless
# all are equal.
#
# </details>
#
# **Exercise 0.2** (10 minutes). The loss needs $\log p$. The logarithm of the function above fails:
# $p$ can be rounded to 0. Write $\log p_i = \log \big( e^{z_i} / \sum_j e^{z_j} \big)$ as a
# difference, and make it safe for large scores. `hint("log_softmax")` helps; after a pass,
# `solution("log_softmax")` shows ours.
# %%
def log_softmax(x):
    """x (..., V), any axes before the last: the scores z. Return the logarithms, the shape of x."""
    ...


check("log_softmax", log_softmax, seed=0)
# %% [markdown] minutes=15
# ## A derivative, by hand and by the complex step
# The derivative $f'(x)$ says how much f changes if x grows a little, per unit of x. We derive one
# by the chain rule, derivative of the outer function times that of the inner one:
#
# $$\begin{aligned}
# f(x) &= \log(1 + e^x) \\
# f'(x) &= \frac{1}{1 + e^x} \cdot e^x && \text{outer: } \log' u = 1 / u \text{; inner: } e^x
# \end{aligned}$$
#
# Is it right? A first check is the definition, $(f(x + h) - f(x)) / h$ with a small h. But two
# nearly equal numbers are subtracted, and digits are lost. The **complex step** subtracts nothing.
# Taylor's series with the step $i h$, where $i^2 = -1$, is
#
# $$f(x + i h) = f(x) + i h f'(x) - \tfrac{h^2}{2} f''(x) - \dots \quad\Rightarrow\quad
# f'(x) \approx \mathrm{Im}\, f(x + i h) / h$$
#
# Its error is of the order of $h^2$, and h may be $10^{-30}$. We expect the difference to be best
# at some middle h, and the complex step to be exact to the last digits:
# %%
def f(x):
    return np.log(1 + np.exp(x))


by_hand = np.exp(0.7) / (1 + np.exp(0.7))
for h in (1e-2, 1e-5, 1e-8, 1e-11, 1e-14):
    print(f"h = {h:.0e}: error of the difference {abs((f(0.7 + h) - f(0.7)) / h - by_hand):.0e}")
print(f"complex step: error {abs(f(0.7 + 1e-30j).imag / 1e-30 - by_hand):.0e}")
# %% [markdown]
# It came out as expected. All gradients of this project are checked like this.
#
# > The complex step measures a derivative without subtracting, so it is exact to rounding.
#
# In a network, x and y are arrays inside a long chain that ends in one number, the loss L. If each
# $y_i$ depends on $x_i$ alone, the chain rule reads
#
# $$\frac{\partial L}{\partial x_i} = \frac{\partial L}{\partial y_i} f'(x_i)$$
#
# Code calls these arrays `dx` and `dy`. They have the shapes of x and y: together, the derivatives
# of L with respect to an array are its **gradient**. A **backward** is a function that gets `dy`
# and returns `dx`.
#
# **Exercise 0.3** (5 minutes). Some networks use $y = \max(x, 0)^2$, entry by entry. Derive the two
# cases, and write the backward. `hint("relu_squared_backward")` helps; after a pass,
# `solution("relu_squared_backward")` shows ours.
# %%
def relu_squared_backward(dy, x):
    """dy and x have the same shape, with any number of axes. Return dx."""
    ...


check("relu_squared_backward", relu_squared_backward, seed=0)
# %% [markdown] minutes=5
# ## One step of gradient descent
# What is a gradient for? Where the derivative is positive, a larger w gives a larger loss, so we go
# the other way. A number $\eta$, the **learning rate**, sets how far:
#
# $$w \leftarrow w - \eta\, \frac{\partial L}{\partial w}$$
#
# Take $L = w^2$ with the derivative $2 w$: one step is $w \leftarrow (1 - 2 \eta)\, w$. We expect a
# slow approach for a small $\eta$, jumps from side to side above 0.5, and growth above 1:
# %%
paths = {}
for rate in (0.05, 0.4, 0.9, 1.05):
    w = [1.0]
    for _ in range(12):
        w.append(w[-1] - rate * 2 * w[-1])                            # a step against dL/dw = 2 w
    paths[rate] = w                                                   # 13 numbers
# %% tags=["hide-input"]
ax = new_axes((7, 3))
for (rate, w), style in zip(paths.items(), ("o-", "s-", "^--", "v:")):
    ax.plot(w, style, label=f"learning rate {rate}: ends at {w[-1]:.2g}")
ax.set(xlabel="step", ylabel="w")
ax.legend(loc="upper left", bbox_to_anchor=(1, 1))
ax.figure
# %% [markdown]
# > Go against the gradient, by a small multiple of it: a learning rate that is too small wastes
# > steps, one that is too large diverges.
# %% [markdown] minutes=10
# ## A bigram model, learned
# Now a model: a table W: (V, V) of scores, one row for each character before; $p_a =
# \mathrm{softmax}(W_a)$. (So W is an embedding whose vectors are used as logits.) It has V²
# **parameters**, numbers that training decides. The gradient, with $N_a = \sum_b N_{ab}$:
#
# $$\begin{aligned}
# L &= -\frac{1}{n} \sum_{ab} N_{ab} \Big( W_{ab} - \log \textstyle\sum_j e^{W_{aj}} \Big)
#   && \text{logarithm of a quotient} \\
# \frac{\partial}{\partial W_{ac}} \log \textstyle\sum_j e^{W_{aj}} &= \frac{e^{W_{ac}}}{\sum_j
#   e^{W_{aj}}} = p_{ac} && \text{chain rule, as for } f \\
# \frac{\partial L}{\partial W_{ac}} &= \frac{1}{n} \big( N_a\, p_{ac} - N_{ac} \big)
#   && \text{the first term has } b = c \text{ only}
# \end{aligned}$$
#
# > The gradient is the expected number of each pair minus the true one, over n. It is 0 exactly
# > where $p_{ac} = N_{ac} / N_a$: descent has to find what counting gives.
#
# First we compare the derivatives of one row with the complex step, then we descend. (Of complex
# scores, `softmax` subtracts the one with the largest real part. Any constant would do, since it
# cancels.)
# %%
def gradient(W):
    return (of_row * softmax(W) - N) / N.sum()                        # (V, V)


W, q = np.random.default_rng(0).standard_normal((V, V)), id_of["q"]
measured = np.zeros(V)
for c in range(V):
    step = np.zeros((V, V), complex)
    step[q, c] = 1e-30j
    measured[c] = loss_of(softmax(W + step)).imag / 1e-30
print(f"largest error of {V} derivatives {np.abs(measured - gradient(W)[q]).max():.0e}")
# %%
trained, losses = {}, {}
for rate in (1, 10, 30):
    W, losses[rate] = np.zeros((V, V)), []
    for _ in range(3000):
        losses[rate].append(loss_of(softmax(W)))
        W -= rate * gradient(W)                                       # (V, V)
    trained[rate] = softmax(W)
    print(f"learning rate {rate:2}: loss {losses[rate][0]:.3f}, after 100 steps "
          f"{losses[rate][100]:.3f}, at the end "
          f"{loss_of(trained[rate]) - loss_of(counted):.3f} above that of counting")
# %% tags=["hide-input"]
ax = new_axes((7, 3.6))
for (rate, of_steps), style in zip(losses.items(), (":", "--", "-")):
    ax.loglog(np.arange(1, 3001), of_steps, style, label=f"learning rate {rate}")
ax.axhline(loss_of(counted), color="gray", label="counting")
ax.set(xlabel="step", ylabel="loss (nats)", yticks=(2.5, 3, 4), yticklabels=("2.5", "3", "4"))
ax.legend()
ax.figure
# %% [markdown]
# From the loss of an even guess, $\log V$, all three fall towards that of counting, and none gets
# below it. With the rate 30 less than 0.02 nats are left. Why so slow at the end? The row of a rare
# character has a small $N_a$, and so a small gradient. Lesson 10 has an optimizer against this.
#
# **Think.** Try the rate 1000. Why does it fail, where 30 is good?
#
# <details><summary>Answer</summary>
#
# The rows of frequent characters have the largest gradients, so their steps jump beyond the
# minimum, and back. Unlike that of w², the gradient of a row is bounded, by $N_a / n$ in each
# entry, so the loss does not grow for ever: it stays at 14 to 27 nats. With the rate 100 it still
# jumps, between 2.5 and 2.9.
#
# </details>
#
# Why descend, if counting gives the same at once? Because counting needs a table with a row for
# every history, and there are too many. A network replaces the table by a function that shares
# parameters between histories. No count gives these, and descent still works: it only needs a
# gradient.
# %% [markdown] minutes=5
# ## Sampling: the model writes
# Choose the next character at random with its probabilities, append it, repeat:
# %%
def sample(p, start, length, rng):
    written = [start]
    for _ in range(length):
        written.append(rng.choice(V, p=p[written[-1]]))
    return "".join(characters[i] for i in written)


for name, p in {"before training": even, "trained": trained[30], "counted": counted}.items():
    print(f"{name:15}: {sample(p, id_of['T'], 70, np.random.default_rng(1))!r}")
# %% [markdown]
# Before training all characters are equally likely. Afterwards most pairs of letters occur in
# English, but nearly no word does: one character of memory gives no more.
#
# > A language model writes by sampling one token at a time from its own predictions.
#
# Lesson 1 asks what more memory brings. The same three parts (predict, loss, descend) train every
# model of this course.
# %% [markdown]
# ## Summary
# - Work along axis -1; `keepdims=True` keeps an axis for broadcasting; `x @ W` maps every vector.
# - A character is an id, the id a row of a table; $p_i = e^{z_i} / \sum_j e^{z_j}$.
# - The loss is the mean of $-\log p$ of what came next, in nats; an even guess has $\log V$.
# - $f'(x) = \mathrm{Im} f(x + ih) / h$ checks a derivative that was found by hand.
# - $w \leftarrow w - \eta\, \partial L / \partial w$; for the bigram model the gradient is 0
#   where probabilities are relative frequencies.
# - More practice: `numformer exercises 05 13`.
# %% [markdown]
# ## Further reading
# - Harris et al. (2020), "Array programming with NumPy": arrays, axes and broadcasting.
# - Squire and Trapp (1998), "Using Complex Variables to Estimate Derivatives of Real Functions".
# - Shannon (1948), "A Mathematical Theory of Communication", section 3: samples from letter counts.
# - Code: `numformer/functional/softmax.py`, `numformer/functional/embedding.py`,
#   `numformer/functional/linear.py`.
