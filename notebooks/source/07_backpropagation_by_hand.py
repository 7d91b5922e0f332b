# %% [markdown]
# # 7. Backpropagation by hand through a whole block
#
# Time: about 5 seconds on 2 cores.
#
# **Goals.** Differentiate a whole Transformer block by hand, one line at a time; know the three
# rules that suffice; check the result to machine precision.
#
# **Before.** Notebooks 2, 5 and 6.

# %%
# %matplotlib inline
import numpy as np

from numformer import AttentionPattern
from numformer.layers import (
    FeedForward, LayerNorm, MultiHeadAttention, ResidualBranch, SelfAttentionBranch,
    TransformerBlock)
from numformer.plots import step_error_curve
from numformer.verify import step_errors

# %% [markdown]
# ## Three rules
#
# Write $\bar{x}$ for the gradient of the loss with respect to x. Then for any line of code:
#
# 1. **Product.** $y = x W$ gives $\bar{x} = \bar{y} W^\top$ and $\bar{W} = x^\top \bar{y}$,
#    summed over all uses of W.
# 2. **Pointwise.** $y = f(x)$ gives $\bar{x} = \bar{y} \odot f'(x)$.
# 3. **Used twice.** The gradient of a variable that is used in two lines is the sum of the
#    gradients from both.
#
# Softmax, LayerNorm and attention all follow from these rules. Shapes are half of the proof:
# $\bar{x}$ has the shape of x.
#
# ## Softmax
#
# $p = \mathrm{softmax}(z)$ has $\partial p_j / \partial z_k = p_j (\delta_{jk} - p_k)$, so
#
# $$\bar{z}_k = \sum_j \bar{p}_j\, p_j (\delta_{jk} - p_k)
# = p_k \Big( \bar{p}_k - \sum_j p_j \bar{p}_j \Big)$$
#
# ## Cross-entropy
#
# $L = -\log p_y$ gives $\bar{p}_j = -\delta_{jy} / p_y$. Substituted into the equation above, this
# gives $\bar{z}_k = p_k - \delta_{ky}$: prediction minus target.
#
# ## LayerNorm
#
# See notebook 5: $\bar{x} = r \left( g - \langle g \rangle - \hat{x} \langle g \hat{x} \rangle
# \right)$ with $g = \gamma \bar{y}$.
#
# ## Attention
#
# $z = s\, q k^\top$, $p = \mathrm{softmax}(z)$, $o = p v$. Rule 1 for o: $\bar{v} = p^\top
# \bar{o}$, $\bar{p} = \bar{o} v^\top$. Softmax: $\bar{z}$ from $\bar{p}$. Rule 1 for z: $\bar{q} =
# s\, \bar{z} k$, $\bar{k} = s\, \bar{z}^\top q$.
#
# ## The whole block, forward
#
# Here is a pre-norm block with one head, without biases, in plain NumPy. Each intermediate is
# named, because the backward pass needs it.

# %%
def normalize(x):
    centred = x - x.mean(axis=-1, keepdims=True)
    r = ((centred * centred).mean(axis=-1, keepdims=True) + 1e-5) ** -0.5
    return centred * r, r


def block(x, w):
    """x (T, C) to y (T, C); w holds the matrices."""
    a, r1 = normalize(x)                                              # (T, C)
    q, k, v = a @ w["q"], a @ w["k"], a @ w["v"]                      # (T, D)
    z = q @ k.T / np.sqrt(q.shape[1])                                 # (T, T)
    z = np.where(np.tri(len(x), dtype=bool), z, -np.inf)              # causal
    p = np.exp(z - z.max(axis=1, keepdims=True))
    p = p / p.sum(axis=1, keepdims=True)
    o = p @ v                                                         # (T, D)
    h = x + o @ w["o"]                                                # (T, C)
    b, r2 = normalize(h)
    u = b @ w["1"]                                                    # (T, F)
    f = np.maximum(u, 0)
    y = h + f @ w["2"]                                                # (T, C)
    return y, (a, r1, q, k, v, p, o, b, r2, u, f)


rng = np.random.default_rng(0)
T, C, D, F = 6, 8, 8, 16
w = {name: rng.standard_normal(shape) / 3 for name, shape in
     (("q", (C, D)), ("k", (C, D)), ("v", (C, D)), ("o", (D, C)), ("1", (C, F)), ("2", (F, C)))}
x = rng.standard_normal((T, C))
y, saved = block(x, w)
print(y.shape)

# %% [markdown]
# ## And backward
#
# The backward runs from the last line to the first. The comment above each step quotes the forward
# line that it differentiates.

# %%
def normalize_backward(da, a, r):
    return r * (da - da.mean(axis=-1, keepdims=True) - a * (da * a).mean(axis=-1, keepdims=True))


def block_backward(dy, saved, w):
    a, r1, q, k, v, p, o, b, r2, u, f = saved
    dw, s = {}, 1 / np.sqrt(q.shape[1])

    # y = h + f @ w2: the first use of h
    dh, df, dw["2"] = dy, dy @ w["2"].T, f.T @ dy

    # f = max(u, 0)
    du = df * (u > 0)

    # u = b @ w1
    db, dw["1"] = du @ w["1"].T, b.T @ du

    # b = normalize(h): the second use of h
    dh = dh + normalize_backward(db, b, r2)

    # h = x + o @ wo
    dx, do, dw["o"] = dh, dh @ w["o"].T, o.T @ dh

    # o = p @ v
    dp, dv = do @ v.T, p.T @ do

    # p = softmax(z); where z is masked, p is 0, and so is dz
    dz = p * (dp - (p * dp).sum(axis=1, keepdims=True))

    # z = q @ k.T * s
    dq, dk = dz @ k * s, dz.T @ q * s

    # q, k, v = a @ wq, a @ wk, a @ wv: a is used three times
    da = dq @ w["q"].T + dk @ w["k"].T + dv @ w["v"].T
    dw["q"], dw["k"], dw["v"] = a.T @ dq, a.T @ dk, a.T @ dv

    # a = normalize(x): the second use of x
    return dx + normalize_backward(da, a, r1), dw


dy = rng.standard_normal(y.shape)
dx, dw = block_backward(dy, saved, w)
print(dx.shape, {name: gradient.shape for name, gradient in dw.items()})

# %% [markdown]
# ## Is it right?
#
# We use the complex step: evaluate f at $x + ih$; then $\mathrm{Im}\, f / h$ is the derivative.
# There is no subtraction, so no digits are lost. The block above accepts complex numbers without
# changes: NumPy orders them by their real parts, so `max` is correct. We check the derivative with
# respect to every entry of x and of the six matrices:

# %%
def complex_step(name):
    """The derivative of sum(dy * y) with respect to every entry of x or of a matrix."""
    arrays = {"x": x, **w}
    z = arrays[name].astype(complex)
    reference = np.zeros(z.shape)
    for index in np.ndindex(z.shape):
        z[index] += 1e-30j
        inputs = {**arrays, name: z}
        reference[index] = (block(inputs.pop("x"), inputs)[0] * dy).sum().imag / 1e-30
        z[index] -= 1e-30j
    return reference


for name, gradient in {"x": dx, **dw}.items():
    error = np.abs(gradient - complex_step(name)).max()
    print(f"{name}: {gradient.size} derivatives, largest error {error:.0e}")

# %% [markdown]
# The library's block, which is this one with more heads and options, gives the same result:

# %%
f64 = dict(dtype=np.float64)
library = TransformerBlock(
    attention=SelfAttentionBranch(
        LayerNorm(C, **f64), MultiHeadAttention(C, 1, rng, bias=False, **f64)),
    feedforward=ResidualBranch(
        LayerNorm(C, **f64), FeedForward(C, F, "relu", rng, bias=False, **f64)))
layers = {"q": library.attention.query, "k": library.attention.key, "v": library.attention.value,
          "o": library.attention.output, "1": library.feedforward.hidden,
          "2": library.feedforward.output}
for name, layer in layers.items():
    layer.weight.data[:] = w[name]
library_y, library_saved = library.forward(x[None], pattern=AttentionPattern(causal=True))
library_dx = library.backward(dy[None], library_saved)                # (1, T, C)
print(np.abs(library_y[0] - y).max(), np.abs(library_dx[0] - dx).max())

# %% [markdown]
# All gradients are right to the last digits. Finite differences could not show this; here is how
# their error depends on the step size.

# %%
tiny = TransformerBlock(
    attention=SelfAttentionBranch(LayerNorm(3, **f64), MultiHeadAttention(3, 1, rng, **f64)),
    feedforward=ResidualBranch(LayerNorm(3, **f64), FeedForward(3, 4, "gelu", rng, **f64)))
step_error_curve(step_errors(tiny, [rng.standard_normal((1, 3, 3))])).figure

# %% [markdown]
# ## Exercises
#
# 1. Leave out the second use of h. Which of the weights' gradients are still right?
# 2. Write the same block post-norm, and its backward.
# 3. Exercises `03`, `04`, `07`, `08`, `10`, `13`, `14` and `16`, if you have not done them yet;
#    then `25` to `30`.
