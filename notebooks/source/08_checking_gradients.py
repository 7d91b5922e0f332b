# %% [markdown]
# # 8. Gradient checking, and how to fool it
#
# Time: about 5 seconds on 2 cores.
#
# **Goals.** Check a gradient by finite differences and by the complex step; know what each of them
# misses; see five wrong gradients that pass a careless check.
#
# **Before.** Notebook 7.

# %%
# %matplotlib inline
import numpy as np

from numformer import Layer, check
from numformer.functional import layer_norm
from numformer.layers import LayerNorm, Linear
from numformer.parameter import Parameter
from numformer.plots import step_error_curve
from numformer.verify import gradcheck, step_errors

# %% [markdown]
# ## Finite differences
#
# $$f'(x) \approx \frac{f(x + h) - f(x - h)}{2h}$$
#
# Two errors compete: a large h has a large truncation error ($h^2 f'''/6$), a small h subtracts
# nearly equal numbers and loses digits ($\epsilon |f| / h$). At best about ten digits are correct.
#
# ## The complex step
#
# $$f(x + ih) = f(x) + i h f'(x) - \tfrac{h^2}{2} f''(x) - \dots \qquad\Rightarrow\qquad
# f'(x) = \mathrm{Im}\, f(x + ih) / h$$
#
# Nothing is subtracted. With h as small as $10^{-30}$, the derivative is as accurate as f itself.

# %%
def f(x):
    return np.exp(x) / np.sqrt(np.sin(x) ** 3 + np.cos(x) ** 3)       # from Squire and Trapp (1998)


df = 4.053427893898621                                                # f'(1.5)
for h in (1e-2, 1e-5, 1e-8, 1e-12):
    difference, complex_step = (f(1.5 + h) - f(1.5 - h)) / (2 * h), f(1.5 + 1j * h).imag / h
    print(f"h = {h:.0e}: error of the difference {abs(difference - df):.0e}, "
          f"of the complex step {abs(complex_step - df):.0e}")

# %%
layer, x = LayerNorm(4, dtype=np.float64), np.random.default_rng(0).standard_normal((2, 4))
step_error_curve(step_errors(layer, [x]), title="LayerNorm").figure

# %% [markdown]
# ## How to fool a check, one: test only a sum
#
# "The loss falls, so the gradient must be right": a softmax backward without its sum still makes
# many losses fall. And a check that differentiates only the sum of a LayerNorm's outputs gets 0,
# whatever the backward does:

# %%
rng = np.random.default_rng(0)
x, weight, bias = rng.standard_normal((3, 8)), rng.standard_normal(8), rng.standard_normal(8)


def total(x):
    return layer_norm(x, np.ones(8), bias)[0].sum()


difference = (total(x + 1e-6) - total(x - 1e-6)) / 2e-6
print("x:", x.shape, "; derivative of the sum of a LayerNorm's output:", difference)

# %% [markdown]
# Weight the outputs randomly, or better, differentiate every output separately, as `gradcheck`
# does.
#
# ## Two: equal sizes
#
# With a square weight a forgotten transpose does not show in the shapes. `numformer.check` compares
# numbers, and uses several sizes. Here it uses first only problems in which the numbers of inputs
# and outputs differ, then only problems in which they are equal:

# %%
def linear_backward(dy, x, weight, bias):
    dweight = x.reshape(-1, x.shape[-1]).T @ dy.reshape(-1, dy.shape[-1])
    return dy @ weight, dweight, dy.sum(axis=(0, 1))                  # should be weight.T


for level in ("other widths", "as many inputs as outputs"):
    print(check("linear_backward", linear_backward, seed=0, levels=[level]), "\n")

# %% [markdown]
# ## Three: no repeated ids

# %%
def embedding_backward(dy, ids, weight):
    dweight = np.zeros_like(weight)
    dweight[ids] += dy                                                # loses repeated ids
    return dweight


check("embedding_backward", embedding_backward, seed=0)

# %% [markdown]
# ## Four: a loose tolerance
#
# Finite differences in float32 give three or four digits. A tolerance of 1e-2 accepts a missing
# epsilon; with 768 coordinates or heads of width 64 it also accepts a variance divided by N - 1 and
# an attention scale of $1/\sqrt{D+1}$. In float64 with the complex step there is no reason to allow
# more than 1e-12:

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


report = gradcheck(NearlyRMSNorm(4), [rng.standard_normal((2, 4))])
print(report)

# %% [markdown]
# ## Five: state between calls
#
# A layer that stores its last input on `self` passes any check that alternates forward and
# backward. It fails when it runs forward twice before its backward (tied weights, a siamese
# network). `gradcheck` tests this, too:

# %%
class StatefulLinear(Linear):
    def forward(self, x):
        self.x = x
        return super().forward(x)

    def backward(self, dy, saved):
        return super().backward(dy, super().forward(self.x)[1])


print(gradcheck(StatefulLinear(3, 2, rng, dtype=np.float64), [rng.standard_normal((2, 3))]))

# %% [markdown]
# ## What the complex step cannot see
#
# `abs`, `np.var` (which uses $|z|^2$), `float()` and `.real` lose the imaginary part, so the
# derivative appears to be 0. `gradcheck` detects this by also comparing with finite differences. At
# a kink (ReLU at exactly 0) there is no derivative at all.
#
# ## Exercises
#
# 1. Why does the wrong gradient `softmax(z) * dp` make a loss fall? (Which direction does it miss?)
# 2. Find a point where your own gradient is right and the finite difference is not.
# 3. Exercise `36`; then the bugs, `25` to `30`.
