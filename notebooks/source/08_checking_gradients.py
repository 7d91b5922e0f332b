# %% [markdown]
# # 8. Gradient checking, and how to fool it
#
# Time: about 5 seconds on 2 cores.
#
# **Goals.** Check a gradient by differences and by the complex step; know what each of them misses; see five wrong gradients that pass
# a careless check.
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
# ## Differences
#
# $$f'(x) \approx \frac{f(x + h) - f(x - h)}{2h}$$
#
# Two errors work against each other: a large h cuts the curve short ($h^2 f'''/6$), a small one subtracts nearly equal numbers and
# loses digits ($\epsilon |f| / h$). At best some ten digits are left.
#
# ## The complex step
#
# $$f(x + ih) = f(x) + i h f'(x) - \tfrac{h^2}{2} f''(x) - \dots \qquad\Rightarrow\qquad f'(x) = \mathrm{Im}\, f(x + ih) / h$$
#
# Nothing is subtracted. h may be $10^{-30}$, and the derivative is as good as f itself.

# %%
f, df = lambda x: np.exp(x) / np.sqrt(np.sin(x) ** 3 + np.cos(x) ** 3), 4.053427893898621      # Squire and Trapp's example, at 1.5
for h in (1e-2, 1e-5, 1e-8, 1e-12):
    difference, complex_step = (f(1.5 + h) - f(1.5 - h)) / (2 * h), f(1.5 + 1j * h).imag / h
    print(f"h = {h:.0e}: error of the difference {abs(difference - df):.0e}, of the complex step {abs(complex_step - df):.0e}")

# %%
layer = LayerNorm(4, dtype=np.float64)
step_error_curve(step_errors(layer, [np.random.default_rng(0).standard_normal((2, 4))]), title="LayerNorm").figure

# %% [markdown]
# ## How to fool a check, one: look at a sum
#
# "The loss falls, so the gradient must be right": a softmax backward without its sum still makes many losses fall. And a check that only
# looks at $\sum_j \bar{x}_j$ of a LayerNorm sees 0 whatever you do:

# %%
rng = np.random.default_rng(0)
x, gain, shift = rng.standard_normal((3, 8)), rng.standard_normal(8), rng.standard_normal(8)


def total(x):
    return layer_norm(x, np.ones(8), shift)[0].sum()


print("x:", x.shape, "; derivative of the sum of a LayerNorm's output:", (total(x + 1e-6) - total(x - 1e-6)) / 2e-6)

# %% [markdown]
# Weigh the outputs by random numbers, or better, look at every output by itself, as `gradcheck` does.
#
# ## Two: all sizes alike
#
# With a square weight the transpose that you forgot does not show in the shapes. `numformer.check` compares numbers, and has other sizes
# as well. Here are those alone in which inputs and outputs differ in number, and those alone in which they do not:

# %%
def linear_backward(dy, x, weight, bias):
    return dy @ weight, x.reshape(-1, x.shape[-1]).T @ dy.reshape(-1, dy.shape[-1]), dy.sum(axis=(0, 1))       # weight.T forgotten


for level in ("other widths", "as many inputs as outputs"):
    print(check("linear_backward", linear_backward, seed=0, levels=[level]), "\n")

# %% [markdown]
# ## Three: no id twice

# %%
def embedding_backward(dy, ids, weight):
    dweight = np.zeros_like(weight)
    dweight[ids] += dy                                                # of an id that comes twice, one gradient is lost
    return dweight


check("embedding_backward", embedding_backward, seed=0)

# %% [markdown]
# ## Four: a loose tolerance
#
# float32 and differences give three or four digits; a tolerance of 1e-2 lets a missing epsilon pass, and with 768 coordinates or heads of
# width 64 also a variance over N - 1 and an attention scale of $1/\sqrt{D+1}$. In float64 with the complex step there is no reason to
# allow more than 1e-12:

# %%
class NearlyRMSNorm(Layer):
    """RMSNorm, but its backward forgets epsilon."""

    def __init__(self, width):
        self.gain = Parameter(np.ones(width))

    def forward(self, x):
        r = ((x * x).mean(axis=-1, keepdims=True) + 1e-5) ** -0.5
        return self.gain.data * x * r, (x, r)

    def backward(self, dy, saved):
        x, _ = saved
        r = (x * x).mean(axis=-1, keepdims=True) ** -0.5              # here
        x_hat, g = x * r, self.gain.data * dy
        self.gain.grad += (dy * x_hat).sum(axis=tuple(range(x.ndim - 1)))
        return r * (g - x_hat * (g * x_hat).mean(axis=-1, keepdims=True))


report = gradcheck(NearlyRMSNorm(4), [rng.standard_normal((2, 4))])
print(report)

# %% [markdown]
# ## Five: state between calls
#
# A layer that remembers its last input on `self` passes every check that runs forward and backward in turns, and fails when it is used
# twice before it runs backward (tied weights, a siamese network). `gradcheck` does that, too:

# %%
class Forgetful(Linear):
    def forward(self, x):
        self.x = x
        return super().forward(x)

    def backward(self, dy, saved):
        return super().backward(dy, super().forward(self.x)[1])


print(gradcheck(Forgetful(3, 2, rng, dtype=np.float64), [rng.standard_normal((2, 3))]))

# %% [markdown]
# ## What the complex step cannot see
#
# `abs`, `np.var` (which takes $|z|^2$), `float()` and `.real` lose the imaginary part: the derivative comes out as 0. `gradcheck`
# compares with differences to notice that. And a kink (ReLU at exactly 0) has no derivative at all.
#
# ## Exercises
#
# 1. Why does `softmax(z) * dp` make a loss fall, although it is wrong? (Which direction does it miss?)
# 2. Find a point where your own function is right and its derivative by differences is not.
# 3. Exercise `36`; then the bugs, `25` to `30`.
