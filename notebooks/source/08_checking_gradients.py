# %% [markdown]
# # 8. Gradient checking, and how to fool it
#
# **Question.** Your model trains and its loss falls. How do you know that its gradients are right?
#
# **You will learn** to
#
# - measure that models also learn from wrong gradients;
# - derive the error of a finite difference, and the best step size;
# - derive and implement the complex step, which has no such error;
# - explain five ways in which a careless check passes a wrong gradient, and avoid them.
#
# **You need** lesson 7 (backpropagation by hand), Taylor series, complex numbers.
#
# **Time.** 2 x 45 minutes; the cells run in about 15 seconds.

# %% tags=["setup"]
# %matplotlib inline
import numpy as np
from matplotlib.figure import Figure

from numformer import Layer, check, hint, solution
from numformer.data import CharacterTokenizer, load_corpus
from numformer.functional import (
    adam_step, layer_norm, layer_norm_backward, softmax_cross_entropy,
    softmax_cross_entropy_backward)
from numformer.layers import LayerNorm, Linear
from numformer.parameter import Parameter
from numformer.plots import step_error_curve
from numformer.verify import gradcheck, step_errors

# %% [markdown] minutes=15
# ## Experiment: a falling loss proves nothing
#
# A small network predicts a character from the eight before it: embeddings, a linear map, a
# LayerNorm, a ReLU, another linear map. We train it four times: once with the right gradients, and
# three times with one error:
#
# - *No mean, no variance*: LayerNorm's backward keeps the direct path only.
# - *Lost ids*: if a character occurs several times in a batch, only one of its gradients counts.
# - *None at all*: the embeddings get the gradient 0.
#
# **We expect** that all four losses fall. A small step against a wrong gradient still makes
# progress if it has a positive cosine with the right one, so we measure this, too.

# %% tags=["setup"]
corpus = load_corpus()
tokenizer = CharacterTokenizer.of(corpus.text)
text, V, ones = tokenizer.encode(corpus.split()[0]), len(tokenizer), np.ones(96, np.float32)


def loss_and_gradients(p, at, norm_backward, embedding_backward):
    """The mean loss at some places of the text, and the gradients of the three matrices."""
    ids, targets = text[at[:, None] - np.arange(8, 0, -1)], text[at]
    x = p[0][ids].reshape(-1, 128)                                    # (N, 8 * 16)
    n, saved_norm = layer_norm(x @ p[1], ones, 0 * ones)              # (N, 96)
    f = np.maximum(n, 0)
    loss, saved_loss = softmax_cross_entropy(f @ p[2], targets)
    dz = softmax_cross_entropy_backward(1.0, saved_loss)              # (N, V)
    du = norm_backward((dz @ p[2].T) * (n > 0), saved_norm)
    dx = (du @ p[1].T).reshape(-1, 8, 16)
    return float(loss), (embedding_backward(dx, ids), x.T @ du, f.T @ dz)

# %%
def norm(dy, saved):
    return layer_norm_backward(dy, saved)[0]


def direct_path_only(dy, saved):
    x, weight, mean, r = saved
    return r * weight * dy


def embeddings(dx, ids):
    dweight = np.zeros((V, 16), np.float32)
    np.add.at(dweight, ids, dx)                                       # adds repeated ids
    return dweight


def lost_ids(dx, ids):
    dweight = np.zeros((V, 16), np.float32)
    dweight[ids] += dx                                                # keeps one of them
    return dweight

# %%
def cosine(one, other):
    """Of the angle between two gradients of all parameters."""
    a, b = (np.concatenate([array.ravel() for array in each]) for each in (one, other))
    return (a @ b) / np.linalg.norm(a) / np.linalg.norm(b)


def train(seed, *functions, steps=200):
    """The losses of a training with Adam, and cosines of its gradients with the right ones."""
    rng, losses, cosines = np.random.default_rng(seed), [], []
    p = [(std * rng.standard_normal(shape)).astype(np.float32) for std, shape in
         ((1, (V, 16)), (128 ** -0.5, (128, 96)), (96 ** -0.5, (96, V)))]
    moments = [(np.zeros_like(w), np.zeros_like(w)) for w in p]
    for step in range(1, steps + 1):
        at = rng.integers(8, len(text), 256)
        loss, gradients = loss_and_gradients(p, at, *functions)
        if step % 20 == 1:
            cosines.append(cosine(gradients, loss_and_gradients(p, at, norm, embeddings)[1]))
        for w, dw, (m, v) in zip(p, gradients, moments):
            adam_step(w, dw, m, v, 0.01, step)
        losses.append(loss)
    return losses, min(cosines)

# %%
variants = {"right": (norm, embeddings), "no mean, no variance": (direct_path_only, embeddings),
            "lost ids": (norm, lost_ids),
            "none at all": (norm, lambda dx, ids: 0 * lost_ids(dx, ids))}
runs = {}
for name, functions in variants.items():
    losses, cosines = zip(*[train(seed, *functions) for seed in (1, 2, 3)])
    runs[name] = np.array(losses)                                     # (3, steps)
    print(f"{name:20}: loss of the last 50 steps with seeds 1, 2, 3",
          runs[name][:, -50:].mean(axis=1).round(3), f"smallest cosine {min(cosines):.2f}")
# %% tags=["hide-input"]
ax = Figure(figsize=(7, 3.6), layout="constrained").add_subplot()
for (name, losses), style in zip(runs.items(), ("-", "--", "-.", ":")):
    ax.plot(np.convolve(losses.mean(axis=0), np.ones(10) / 10, "valid"), style, label=name)
ax.set(xlabel="step", ylabel="loss (nats)", title="Training with right and wrong gradients")
ax.legend()
ax.figure

# %% [markdown]
# > A wrong gradient that roughly points in the right direction also reduces the loss. Training is
# > no check of a gradient.
#
# **What came out.** At the steps that we looked at, wrong gradients have a cosine of at least 0.96
# with the right ones. All four curves fall in nearly the same way. With each seed the right
# gradients win, but by only 0.02 to 0.03 nats over the wrong norm, and even embeddings that never
# learn cost only 0.11 to 0.12. Whoever sees one of the wrong curves alone has no reason to suspect
# anything.
# So we have to compare *numbers*: the derivative that the backward computes, with the derivative
# measured on the forward.

# %% [markdown] minutes=15
# ## Finite differences: two errors compete
#
# The obvious measurement moves x a little to both sides. How little? The picture shows the worst
# error of the derivatives of a LayerNorm against the step size h, for this *central difference* and
# for the method of the next section.

# %%
layer, x = LayerNorm(4, dtype=np.float64), np.random.default_rng(0).standard_normal((2, 4))
errors = step_errors(layer, [x])
print(f"smallest error of the difference {min(errors['central_difference']):.0e}, of the complex "
      f"step {min(errors['complex_step']):.0e}")
# %% tags=["hide-input"]
step_error_curve(errors, title="LayerNorm").figure

# %% [markdown]
# > A large step has a truncation error, a small step a rounding error. Even the best step leaves
# > only about ten right digits in float64.
#
# (In the picture, a difference moves each number by h times its size, the complex step by h itself.
# So the two lines on the right have the same slope, but not the same height.)
#
# Why? Taylor's series gives the truncation error:
#
# $$f(x \pm h) = f(x) \pm h f'(x) + \tfrac{h^2}{2} f''(x) \pm \tfrac{h^3}{6} f'''(x) + \dots$$
#
# $$\frac{f(x + h) - f(x - h)}{2h} = f'(x) + \tfrac{h^2}{6} f'''(x) + \dots
# \qquad \text{(subtract: even terms cancel; divide by 2h)}$$
#
# The computer knows each value only up to a relative error $\epsilon$, $10^{-16}$ in float64. The
# subtraction cancels the leading digits and keeps this error; the division by 2h enlarges it:
#
# $$E(h) = \tfrac{h^2}{6}\, |f'''| + \frac{\epsilon\, |f|}{h}
# \qquad \text{(truncation plus rounding)}$$
#
# $$E'(h) = \tfrac{h}{3}\, |f'''| - \frac{\epsilon\, |f|}{h^2} = 0
# \quad\Rightarrow\quad h = \left( \frac{3\, \epsilon\, |f|}{|f'''|} \right)^{1/3} \qquad
# \text{(smallest sum)}$$
#
# If f and f''' are about 1, the best step is $h \approx 7 \cdot 10^{-6}$, with the error $E \approx
# 2 \cdot 10^{-11}$. In float32, $\epsilon = 6 \cdot 10^{-8}$ leaves four to five digits at best.
#
# **Think.** How small can the error of a one-sided difference, $(f(x + h) - f(x)) / h$, become, if
# f and $f''$ are about 1?
#
# <details><summary>Answer</summary>
#
# Truncation $\tfrac{h}{2} |f''|$ plus rounding $2 \epsilon |f| / h$ is smallest at $h = 2
# \sqrt\epsilon = 2 \cdot 10^{-8}$, where it is $2 \cdot 10^{-8}$ as well. That is a thousand times
# the least error of the central difference.
#
# </details>

# %% [markdown] minutes=15
# ## The complex step: nothing is subtracted
#
# Move x not to the side but in the imaginary direction, and look at the imaginary part:
#
# $$f(x + ih) = f(x) + i h f'(x) - \tfrac{h^2}{2} f''(x) - \tfrac{i h^3}{6} f'''(x) + \dots
# \qquad (i^2 = -1, \; i^3 = -i)$$
#
# $$\mathrm{Im}\, f(x + ih) = h f'(x) - \tfrac{h^3}{6} f'''(x) + \dots
# \qquad \text{(f is real for real x: only odd terms)}$$
#
# $$f'(x) = \frac{\mathrm{Im}\, f(x + ih)}{h} + \tfrac{h^2}{6} f'''(x) - \dots
# \qquad \text{(divide by h)}$$
#
# > The complex step reads the derivative from the imaginary part. Without a subtraction there is no
# > cancellation, so h can be $10^{-30}$, and the derivative is as accurate as f itself.
#
# With such an h the truncation error, $10^{-60}$, is far below rounding. The step size needs no
# care any more.

# %%
def f(x):
    return np.exp(x) / np.sqrt(np.sin(x) ** 3 + np.cos(x) ** 3)


exact = 4.053427893898621                                             # f'(1.5)
for h in (1e-2, 1e-5, 1e-8, 1e-12, 1e-30):
    difference, complex_step = (f(1.5 + h) - f(1.5 - h)) / (2 * h), f(1.5 + 1j * h).imag / h
    print(f"h = {h:.0e}: error of the difference {abs(difference - exact):.0e}, "
          f"of the complex step {abs(complex_step - exact):.0e}")

# %% [markdown]
# For large h both methods have the same truncation error, as the formulas promise: the first two
# lines agree. Below $h = 10^{-5}$ the difference gets worse again, and at $10^{-30}$ it is 0
# divided by 2h, because 1.5 + h is rounded to 1.5. The complex step has no such problem: real and
# imaginary parts are stored separately, so h does not disappear next to 1.5.
#
# A whole gradient takes one evaluation per entry of x. Write $\bar{y} = \partial L / \partial y$
# for the gradient of a loss L with respect to y (in code, `dy`). We check LayerNorm with the loss
# $L = r \cdot y$, which weights the outputs y: (C,) with random numbers r: (C,), so that $\bar{y} =
# r$:

# %%
def complex_gradient(f, x, h=1e-30):
    gradient = np.zeros(x.shape)
    for index in np.ndindex(x.shape):
        z = x.astype(complex)
        z[index] += 1j * h
        gradient[index] = f(z).imag / h
    return gradient


rng = np.random.default_rng(0)
x, weight, bias, r = rng.standard_normal((4, 8))                      # (C,) each
measured = complex_gradient(lambda x: r @ layer_norm(x, weight, bias)[0], x)
claimed, _, _ = layer_norm_backward(r, layer_norm(x, weight, bias)[1])
print(f"largest difference {np.abs(claimed - measured).max():.0e}")

# %% [markdown] minutes=10
# ## Fooled by a sum
#
# Why the random r? Suppose we simply add all outputs, $f(x) = \sum_i y_i$. LayerNorm's outputs
# before the weight, $\hat{x}_i$, have mean 0. So with the same weight $\gamma$ for all coordinates
#
# $$\sum_i y_i = \sum_i (\gamma \hat{x}_i + \beta_i) = \gamma \cdot 0 + \sum_i \beta_i
# \quad\Rightarrow\quad \frac{\partial}{\partial x_j} \sum_i y_i = 0$$
#
# > A check that differentiates only one simple function of the outputs misses every error that this
# > function does not depend on. Weight the outputs randomly, or check each output separately.
#
# Here a "backward" that always returns 0 passes, and with random weights it fails:

# %%
def zero_backward(dy):
    return 0 * dy


for name, dy in (("sum of the outputs", np.ones(8)), ("random weights", r)):
    measured = complex_gradient(lambda x: dy @ layer_norm(x, np.ones(8), bias)[0], x)
    print(f"{name}: largest error {np.abs(zero_backward(dy) - measured).max():.0e}")

# %% [markdown] minutes=10
# ## Fooled by equal sizes and distinct ids
#
# With a square weight, a forgotten transpose gives an array of the right shape. `check` uses
# several sizes; here are first its problems with different numbers of inputs and outputs, then
# those with equal ones, in which only a comparison of numbers finds the error:

# %%
def linear_backward(dy, x, weight, bias):
    dweight = x.reshape(-1, x.shape[-1]).T @ dy.reshape(-1, dy.shape[-1])
    return dy @ weight, dweight, dy.sum(axis=(0, 1))                  # should be weight.T


for level in ("other widths", "as many inputs as outputs"):
    print(check("linear_backward", linear_backward, seed=0, levels=[level]), "\n")

# %% [markdown]
# > Test with sizes that are all different, and with repeated ids. An error that shows only in a
# > special case is found only by a test that contains this case.
#
# The same holds for ids. As long as no token occurs twice, `dweight[ids] += dy` is right. When one
# does, NumPy reads all old values first and writes all new ones afterwards, so one of them wins:

# %%
def embedding_backward(dy, ids, weight):
    dweight = np.zeros_like(weight)
    dweight[ids] += dy
    return dweight


check("embedding_backward", embedding_backward, seed=0)

# %% [markdown]
# **Exercise 8.1** (5 minutes). In grouped attention H query heads share G heads of keys, several
# each: `y = np.repeat(x, n_heads // G, axis=1)`, with x: (B, G, S, D) and y: (B, H, S, D), H =
# `n_heads`. Each head of x is used several times. Write its gradient.
# `hint("repeat_kv_heads_backward")` helps; after a pass, `solution("repeat_kv_heads_backward")`
# shows ours.

# %%
def repeat_kv_heads_backward(dy, x, n_heads):
    """dy (B, H, S, D). Return dx (B, G, S, D)."""
    ...


check("repeat_kv_heads_backward", repeat_kv_heads_backward, seed=0)

# %% [markdown] minutes=15
# ## Fooled by a loose tolerance
#
# RMSNorm divides by the root mean square; a small $\epsilon$ protects against a division by 0:
#
# $$y = \gamma\, r\, x, \qquad r = \left( \langle x^2 \rangle + \epsilon \right)^{-1/2},
# \qquad x, y, \gamma: (C,)$$
#
# A backward that forgets $\epsilon = 10^{-5}$ has a relative error of about $\epsilon / (2 \langle
# x^2 \rangle)$. Finite differences in float32 cannot see that. A tolerance of $10^{-2}$ also
# accepts, at width 768, a variance divided by C - 1 instead of C. Such errors are tiny for most
# inputs, but not for all: here, the entries of the second vector are a tenth of those of the first.
#
# > With the complex step in float64, the tolerance can be $10^{-12}$. Then a small error in the
# > formula is as visible as a large one.

# %%
class NearlyRMSNorm(Layer):
    """RMSNorm, but its backward forgets epsilon."""

    def __init__(self, width):
        self.weight = Parameter(np.ones(width))

    def forward(self, x):
        r = ((x * x).mean(axis=-1, keepdims=True) + 1e-5) ** -0.5
        return self.weight.data * x * r, (x, r)

    def backward(self, dy, saved):
        x, _ = saved
        r = (x * x).mean(axis=-1, keepdims=True) ** -0.5              # no epsilon: wrong
        x_hat, g = x * r, self.weight.data * dy
        self.weight.grad += (dy * x_hat).sum(axis=tuple(range(x.ndim - 1)))
        return r * (g - x_hat * (g * x_hat).mean(axis=-1, keepdims=True))


vectors = rng.standard_normal((2, 4)) * [[1], [0.1]]
print(gradcheck(NearlyRMSNorm(4), [vectors]))
print("epsilon / (2 mean square), each vector:", 1e-5 / 2 / (vectors ** 2).mean(axis=1))

# %% [markdown]
# `gradcheck` applies the complex step to every output, input and parameter of a layer: it compares
# the full matrix of derivatives, not one weighted sum. It reports the worst entry of each array,
# with the value found and the reference. It is in the small vector: the weight has the predicted
# error, and x, which enters r as well, three times as much.
#
# **Exercise 8.2** (10 minutes). Some code has epsilon outside the root: $\hat{x} = x / (\rho +
# \epsilon)$ with $\rho = \sqrt{\langle x^2 \rangle}$ and $y = \gamma \hat{x}$. Derive its gradient
# on two paths, directly and through $\rho$; use $\partial \rho / \partial x_j = x_j / (C \rho)$. It
# returns dx and dweight. `hint("rms_norm_outside_backward")` helps; after a pass,
# `solution("rms_norm_outside_backward")` shows ours.

# %%
def rms_norm_outside_backward(dy, x, weight, epsilon=1e-5):
    """dy, x (..., C), any axes before the last; weight (C,). Return dx, dweight."""
    ...


check("rms_norm_outside_backward", rms_norm_outside_backward, seed=0)

# %% [markdown] minutes=5
# ## Fooled by state between calls
#
# Some layers store their input on themselves and use it in the backward. That works as long as
# forward and backward alternate. But models use a layer twice before its first backward: tied
# weights, one encoder for two sentences, the time steps of an RNN.
#
# > What the backward needs must be returned by the forward, not kept on the layer. Test two
# > forwards followed by two backwards.

# %%
class StatefulLinear(Linear):
    def forward(self, x):
        self.x = x                                                    # overwritten by the next call
        return super().forward(x)

    def backward(self, dy, saved):
        return super().backward(dy, super().forward(self.x)[1])


print(gradcheck(StatefulLinear(3, 2, rng, dtype=np.float64), [rng.standard_normal((2, 3))]))

# %% [markdown]
# `gradcheck` compares the layer before and after a second forward, so it even names what changed.
# In this library nothing of a call stays in the layer. The graph shows LayerNorm: what the forward
# saves, in blue, is an argument of the backward, in orange, which is read upwards.

# %% tags=["hide-input"]
from numformer.layers import LayerNorm
from numformer.plots import computation_graph

computation_graph(LayerNorm(8), np.ones((1, 5, 8), np.float32), backward=True).figure

# %% [markdown] minutes=5
# ## What the complex step cannot see
#
# The derivation assumed that f can be computed for complex numbers by the same formula. The
# functions `abs`, `np.var` (which squares absolute values), `float` and `.real` drop the imaginary
# part, and the derivative appears to be 0:

# %%
for name, rms in (("np.abs(x) ** 2", lambda x: np.sqrt((np.abs(x) ** 2).mean() + 0j)),
                  ("x * x", lambda x: np.sqrt((x * x).mean()))):
    print(f"{name:14}: complex step of the root mean square", complex_gradient(rms, x[:3]).round(3))

# %% [markdown]
# > The complex step needs a forward that treats complex numbers like real ones. Where it cannot,
# > compare with finite differences, too.
#
# A derivative of exactly 0 is a typical sign. `gradcheck` does both, so it notices such functions.
# At a kink, such as ReLU at exactly 0, there is no derivative: left and right slopes differ, and
# each method gives its own answer. Random inputs avoid such points.
#
# **Think.** A language model's ids cannot be moved by ih. How would you check its embeddings and
# everything after them?
#
# <details><summary>Answer</summary>
#
# Differentiate with respect to the parameters instead: the table of embeddings is an array of
# floats. gradcheck does this for every parameter of a layer or a model.
#
# </details>

# %% [markdown]
# ## Summary
#
# | way to be fooled | remedy |
# |---|---|
# | the loss falls | compare derivatives |
# | float32, a finite difference, a loose tolerance | float64, the complex step, $10^{-12}$ |
# | only the sum of the outputs | random weights, or each output |
# | equal sizes, distinct ids | different sizes, repeated ids |
# | forward and backward alternate | two forwards, then two backwards |
# | `abs`, `np.var`, `.real` in the forward | finite differences as a second opinion |
#
# To remember: the central difference has the error $h^2 f''' / 6 + \epsilon f / h$; the complex
# step, $f' = \mathrm{Im}\, f(x + ih) / h$, has neither part.
#
# More practice: `numformer exercises 25 26 27 29 30 36`. The last measures the picture of step
# sizes; in the others you look for planted errors.

# %% [markdown]
# ## Further reading
#
# - Squire and Trapp (1998), "Using Complex Variables to Estimate Derivatives of Real Functions",
#   eq. 2; the function f above is theirs.
# - Martins, Sturdza and Alonso (2003), "The complex-step derivative approximation".
# - The code: `numformer/verify/gradcheck.py` and `step_sizes.py`; `numformer audit` checks every
#   layer and model of the library in this way.
