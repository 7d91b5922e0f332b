# %% [markdown]
# # 17. What a matrix product costs
#
# **Question.** One core of a laptop multiplies matrices at tens of billions of operations a second.
# The same core adds two arrays at a small fraction of that rate, although an addition is simpler.
# Why? And what must a kernel do to reach the machine's limit?
#
# **You will learn** to
#
# - count the operations and the bytes of a layer, forward and backward;
# - predict with the roofline model whether arithmetic or memory limits it;
# - derive why blocks save memory traffic, and how large they should be;
# - explain why generating one token at a time is slow, and why fused kernels and attention in tiles
#   are fast.
#
# **You need** lessons 2 (attention), 6 (feed-forward) and 9 (attention in tiles).
#
# **Time.** 2 x 45 minutes; the cells run in about 20 seconds.

# %% tags=["setup"]
# %matplotlib inline
import time

import numpy as np
from matplotlib.figure import Figure

from numformer import backend, check, hint, solution
from numformer.functional import attention, gelu

rng = np.random.default_rng(0)


def seconds(function, *arguments, repeat=7):
    """The median time of a call, in seconds of one core."""
    function(*arguments)                                              # warm-up
    times = []
    for _ in range(repeat):
        started = time.process_time()
        function(*arguments)
        times.append(time.process_time() - started)
    return float(np.median(times))


def matrix(*shape):
    return rng.standard_normal(shape).astype(np.float32)


# %% [markdown] minutes=10
# ## Counting operations and bytes
#
# Let $X$ have the shape $(M, K)$ and $W$ the shape $(K, N)$. Each of the $M N$ numbers of $Y = X W$
# is a sum of $K$ products. We count a multiplication and an addition as two floating-point
# operations (FLOPs):
#
# $$\text{FLOPs} = 2 M N K, \qquad \text{bytes} \ge 4\,(M K + K N + M N)$$
#
# The bytes are those of float32, if each matrix moves between memory and processor only once. Their
# quotient is the **arithmetic intensity**, in FLOPs per byte. For square matrices,
#
# $$I = \frac{2 N^3}{4 \cdot 3 N^2} = \frac{N}{6}$$
#
# It grows with $N$: each number that is loaded takes part in $N$ products. The sum $a + b$ of two
# arrays reads two numbers, writes one, and computes one operation: $I = 1 / 12$, whatever the size.
#
# > Arithmetic intensity is the number of operations per byte moved. A product of large matrices has
# > a high intensity; everything pointwise has a low one.
#
# | operation | shape | FLOPs | bytes | intensity |
# |---|---|---|---|---|
# | product | 1024 x 1024 by 1024 x 1024 | 2.1 G | 12.6 M | 171 |
# | vector times matrix | 1 x 1024 by 1024 x 1024 | 2.1 M | 4.2 M | 0.5 |
# | sum of two arrays | 1024 x 1024 | 1.0 M | 12.6 M | 0.083 |

# %% [markdown] minutes=15
# ## The roofline of this machine
#
# A processor has two limits: a peak rate of arithmetic $\pi$, in FLOP/s, and a bandwidth $\beta$ of
# its memory, in bytes/s. A *kernel*, a compiled function for one operation of a model, with $n$
# operations and intensity $I$ moves $n / I$ bytes. It can finish no sooner than the slower of the
# two:
#
# $$t \ge \max\!\Big(\frac{n}{\pi},\; \frac{n}{I \beta}\Big) \qquad\Longrightarrow\qquad
# \text{rate} = \frac{n}{t} \le \min(\pi,\; I \beta)$$
#
# This bound is the **roofline** (Williams, Waterman and Patterson, 2009). The two limits meet at
# the intensity $I^* = \pi / \beta$. Below it a kernel is *memory-bound*, above it *compute-bound*.
#
# > A kernel is limited by memory if its intensity is below the ratio of peak arithmetic to memory
# > bandwidth, and by arithmetic if it is above.
#
# **Think.** A core computes 100 GFLOP/s and reads 10 GB/s. From which N on can a product of two N x
# N matrices be compute-bound?
#
# <details><summary>Answer</summary>
#
# The limits meet at $I^* = 100 / 10 = 10$ FLOPs per byte, and $N / 6 \ge 10$ from N = 60 on. That
# holds if each matrix moves between memory and processor only once.
#
# </details>
#
# We measure both limits on the machine that runs this page: the peak by a large product, the
# bandwidth by adding two arrays that are too large for the *caches*, the small fast memories
# between the processor and its main memory.

# %%
with backend.one_blas_thread():
    a, b = matrix(1024, 1024), matrix(1024, 1024)
    peak = 2 * 1024 ** 3 / seconds(np.matmul, a, b)
    x, y, out = matrix(16_000_000), matrix(16_000_000), matrix(16_000_000)
    bandwidth = 12 * x.size / seconds(lambda: np.add(x, y, out=out))
print(f"peak {peak / 1e9:.0f} GFLOP/s, bandwidth {bandwidth / 1e9:.1f} GB/s, "
      f"they meet at {peak / bandwidth:.0f} FLOPs per byte")

# %% [markdown]
# Now we measure products $(M, 4096)$ by $(4096, 2048)$ for several $M$. The prediction: for
# $M = 1$, a vector times a matrix, the rate is near $\beta / 2$ if the matrix comes from memory;
# it rises with $M$ until the arithmetic limits it. (The matrix has 34 MB. A processor whose last
# cache is as large keeps it there, and can beat the bound of its *memory*.)

# %%
points, (K, N) = [], (4096, 2048)
right = matrix(K, N)
with backend.one_blas_thread():
    for M in (1, 4, 16, 64, 256):
        left = matrix(M, K)
        flops, moved = 2 * M * K * N, 4 * (M * K + K * N + M * N)
        points.append((flops / moved, flops / seconds(np.matmul, left, right, repeat=5)))
intensity, rate = np.array(points).T
# %% tags=["hide-input"]
ax = Figure(figsize=(7, 4.2), layout="constrained").add_subplot()
line = np.geomspace(0.05, 500, 50)
ax.loglog(line, np.minimum(peak, line * bandwidth) / 1e9, color="#1b1f24", label="roofline")
ax.loglog(intensity, rate / 1e9, "o", color="#c8500a", label="M = 1, 4, 16, 64, 256")
ax.set_xlabel("FLOPs per byte", fontsize=12)
ax.set_ylabel("GFLOP/s, one core", fontsize=12)
ax.set_title("Products (M, 4096) by (4096, 2048)", fontsize=13)
ax.legend(fontsize=12)
ax.figure

# %% [markdown]
# The first point explains why text generation is slow. A model that generates one token at a time
# multiplies vectors by matrices: every weight is read from memory, used for one multiplication and
# one addition, and dropped. Eight texts that are generated together use each weight eight times for
# one reading, so the bound rises eightfold, up to the peak. Compare the points of M = 4 and 16 with
# the line: a library need not reach the bound for so few rows. And weights of 8 bits in place of
# 32 move a quarter of the bytes.

# %% [markdown] minutes=20
# ## Blocks: how to move fewer bytes
#
# The bound assumes that each matrix moves once. A plain program does not achieve that. Take
# $Y = X W$ of square matrices, with three loops:
#
# ```python
# for i in range(N):
#     for j in range(N):
#         for k in range(N):
#             y[i, j] += x[i, k] * w[k, j]
# ```
#
# For each $i$, the whole of $W$ is read. If $W$ does not fit into the cache, it comes from memory
# $N$ times: about $N^3$ numbers move for $2 N^3$ operations. That is the intensity of a vector
# product, one half. The program is memory-bound however fast the processor is.
#
# Now cut all matrices into blocks of $b$ by $b$. A block of $Y$ is a sum over blocks,
#
# $$Y_{IJ} = \sum_{K=1}^{N/b} X_{IK} W_{KJ}, \qquad (b, b) = (b, b)(b, b)$$
#
# Each of the $(N / b)^3$ block products loads two blocks of $b^2$ numbers. So the traffic is
#
# $$\Big(\frac{N}{b}\Big)^3 \cdot 2 b^2 = \frac{2 N^3}{b} \text{ numbers}, \qquad
# I = \frac{2 N^3}{4 \cdot 2 N^3 / b} = \frac{b}{4}$$
#
# The larger the block, the better, as long as three blocks fit into the cache of $S$ numbers:
# $3 b^2 \le S$, so $b \le \sqrt{S / 3}$. With 32 KB, as in many first-level caches, $S = 8192$ and
# $b \approx 52$. The second-level cache is slower and larger: our code below keeps one block of W
# with b = 256 in it, 256 KB. Hong and Kung (1981) proved that no order of the same operations moves
# less than a constant times
# $N^3 / \sqrt{S}$ numbers.
#
# > Each number of a $b$ by $b$ block that stays in the cache is used $b$ times per load.
# > With blocks that are large enough, memory no longer limits the loop.
#
# Real libraries cut twice more: into panels for the larger caches, and into tiles of a few vectors
# that stay in *registers*, where the processor keeps the numbers it computes with (Goto and van de
# Geijn, 2008). We compare loop orders and blocks in compiled loops, and leave it to the compiler to
# find *vector instructions*, each of which computes several numbers at once.

# %%
from numba import njit                                                # noqa: E402


@njit
def rows_by_columns(x, w, y):                                         # i, j, k
    for i in range(x.shape[0]):
        for j in range(w.shape[1]):
            for k in range(x.shape[1]):
                y[i, j] += x[i, k] * w[k, j]


@njit
def rows_by_rows(x, w, y):                                            # i, k, j: memory in order
    for i in range(x.shape[0]):
        for k in range(x.shape[1]):
            for j in range(w.shape[1]):
                y[i, j] += x[i, k] * w[k, j]


# %%
@njit
def in_blocks(x, w, y, b=256):
    """Blocks of w, copied so that they are dense; four rows of x for each reading of a block."""
    sums = np.zeros((4, b), y.dtype)
    for k0 in range(0, x.shape[1], b):
        for j0 in range(0, w.shape[1], b):
            block = w[k0:k0 + b, j0:j0 + b].copy()                    # (b, b)
            for i in range(0, x.shape[0], 4):
                sums[:] = 0
                for k in range(b):
                    x0, x1 = x[i, k0 + k], x[i + 1, k0 + k]
                    x2, x3 = x[i + 2, k0 + k], x[i + 3, k0 + k]
                    for j in range(b):
                        sums[0, j] += x0 * block[k, j]
                        sums[1, j] += x1 * block[k, j]
                        sums[2, j] += x2 * block[k, j]
                        sums[3, j] += x3 * block[k, j]
                for row in range(4):
                    for j in range(b):
                        y[i + row, j0 + j] += sums[row, j]


# %%
N = 768                                                               # three blocks of 256
x, w, flops = matrix(N, N), matrix(N, N), 2 * N ** 3
for name, product in (("rows by columns", rows_by_columns), ("rows by rows", rows_by_rows),
                      ("in blocks", in_blocks)):
    result = np.zeros((N, N), np.float32)
    product(x, w, result)                                             # compiles
    assert np.allclose(result, x @ w, atol=1e-2)
    taken = seconds(product, x, w, result, repeat=1)
    print(f"{name:>16}: {flops / taken / 1e9:6.1f} GFLOP/s")
with backend.one_blas_thread():
    print(f"{'the library':>16}: {flops / seconds(np.matmul, x, w) / 1e9:6.1f} GFLOP/s")

# %% [markdown]
# All four compute the same sums. The first jumps through $W$ by columns: each number that it needs
# is in another *cache line*, the 64 bytes that move together. The second reads memory in order, so
# the compiler can use vector instructions. The third reads each block from the second-level cache,
# and uses each number of it for four rows. (Here W has only 2.4 MB. Where the last cache holds it,
# memory does not limit the second loop either, and blocks gain little.) The library goes further:
# its sums stay in registers.

# %% [markdown] minutes=10
# ## The backward costs twice the forward
#
# Let $\bar{Y} = \partial L / \partial Y$ be the gradient of the loss with respect to $Y = X W + b$,
# shape $(M, N)$. One entry of $Y$ is
#
# $$Y_{mn} = \sum_k X_{mk} W_{kn} + b_n$$
#
# $X_{mk}$ occurs in row $m$, in all columns $n$, with the factor $W_{kn}$; $W_{kn}$ occurs in
# column $n$, in all rows $m$, with the factor $X_{mk}$. The chain rule sums over these uses:
#
# $$\bar{X}_{mk} = \sum_n \bar{Y}_{mn} W_{kn}, \qquad \bar{W}_{kn} = \sum_m X_{mk} \bar{Y}_{mn},
# \qquad \bar{b}_n = \sum_m \bar{Y}_{mn}$$
#
# $$\bar{X} = \bar{Y} W^\top \; (M, K), \qquad \bar{W} = X^\top \bar{Y} \; (K, N)$$
#
# Each is a product of $2 M N K$ operations. So a layer with $P = K N$ weights costs $2 P$ FLOPs a
# token forward and $4 P$ backward: training costs about $6 P$ FLOPs a token, the rule of Kaplan et
# al. (2020, section 2.1), which leaves out the scores of attention.
#
# > The backward of a matrix product is two matrix products of the same size. Training costs about
# > six operations per weight and token.

# %%
def linear_backward(dy, x, weight, bias=None):
    # y = x @ weight + bias
    dx = dy @ weight.T                                                # (..., K)
    dweight = x.reshape(-1, x.shape[-1]).T @ dy.reshape(-1, dy.shape[-1])
    dbias = dy.reshape(-1, dy.shape[-1]).sum(axis=0)
    return (dx, dweight) if bias is None else (dx, dweight, dbias)


check("linear_backward", linear_backward, seed=0)

# %% [markdown]
# The graph of the library's feed-forward layer shows what the backward needs of the forward: blue
# variables are kept in memory, and all of them have to be read again.

# %% tags=["hide-input"]
from numformer.layers import FeedForward
from numformer.plots import computation_graph

computation_graph(FeedForward(8, 32, "gelu", np.random.default_rng(0)),
                  np.ones((1, 5, 8), np.float32)).figure

# %% [markdown] minutes=25
# ## Fusing: what is not written need not be read
#
# A Transformer also contains much that is pointwise: activations, norms, residual sums, dropout.
# Their intensity is low, so their time is the time of their memory traffic. GELU, written in NumPy,
# is a chain of array operations:
#
# $$\mathrm{gelu}(x) = x \cdot \tfrac{1}{2} \Big(1 + \mathrm{erf}\big(x / \sqrt{2}\big)\Big)$$
#
# Each of about five operations reads an array and writes an array: some 40 bytes a number. A
# **fused** loop reads $x$ once, computes all steps in registers, and writes once: 8 bytes. We
# predict a factor of five from the traffic, and more, because the compiled loop computes erf for
# several numbers at a time.
#
# > Fusing pointwise steps into one loop removes the traffic of the intermediate arrays. Their
# > arithmetic stays the same.

# %%
x = matrix(768, 512)
backend.use("numpy")
plain = seconds(backend.gelu, x)
backend.use("numba")
with backend.threads(1):
    fused = seconds(backend.gelu, x)
print(f"GELU of 768 x 512 numbers: {1e3 * plain:.2f} ms in NumPy, {1e3 * fused:.2f} ms fused, "
      f"{plain / fused:.0f} times as fast; largest difference "
      f"{np.abs(backend.gelu(x)[0] - gelu(x.astype(np.float64))[0]).max():.0e}")

# %% [markdown]
# Attention is the largest such chain. Written out, it stores the scores and the weights, two
# matrices of $T^2$ numbers for each head, and reads them again. For $T = 1024$ and $D = 64$ these
# are 2 million numbers; q, k, v and the output together are 0.26 million. Attention in tiles
# (lesson 9) fuses the two products and the softmax: a tile of scores is computed, used and
# forgotten in the cache. Dao et al. (2022, theorem 2) count the traffic of both:
#
# $$\text{written out: } \Theta(T D + T^2), \qquad \text{in tiles: } \Theta\big(T^2 D^2 / S\big)$$
#
# with $S$ numbers of fast memory. For $D^2 < S$, which holds for $D = 64$ and a cache of 32 KB or
# more, tiles move less. The operations are the same, or a few more.

# %%
heads, D = 4, 64
for T in (256, 512, 1024, 2048):
    q, k, v = matrix(1, heads, T, D), matrix(1, heads, T, D), matrix(1, heads, T, D)
    with backend.threads(1), backend.one_blas_thread():
        written = seconds(attention, q, k, v, repeat=3)
        tiles = seconds(backend.scaled_dot_product_attention, q, k, v, repeat=3)
    print(f"T = {T:4d}: written out {1e3 * written:7.1f} ms, in tiles {1e3 * tiles:6.1f} ms, "
          f"ratio {written / tiles:.1f}")

# %% [markdown]
# **Exercise 17.1** (15 minutes). The feed-forward layer is two products with an activation between
# them. Write the backward of the activation alone, for the ReLU: how many bytes does it move for
# each number, and where could it be fused? `hint("relu_backward")` helps; after a pass,
# `solution("relu_backward")` shows ours.
#
# <details><summary>Answer to the two questions</summary>
# It reads dy and x and writes dx: 12 bytes for each number, for one comparison. It can be fused
# into the product that computes dy, which then multiplies by the mask before it writes.
# </details>

# %%
def relu_backward(dy, x):
    """dy and x have the same shape, with any number of axes. Return dx."""
    ...


check("relu_backward", relu_backward, seed=0)

# %% [markdown] minutes=10
# ## Predict, then measure
#
# A performance model is useful if it predicts. Here is a complete prediction for a small decoder.
# Its blocks have a width $C = 128$, so each has $12 C^2$ weights in matrices: $4 C^2$ in attention
# and $8 C^2$ in a feed-forward of width $4 C$. With 4 blocks, $P = 48 C^2 = 0.79$ million weights.
# A batch of 12 texts of 64 tokens has 768 tokens. The products of one training step need
#
# $$6 P \cdot 768 = 6 \cdot 0.79 \cdot 10^6 \cdot 768 = 3.6 \text{ GFLOP}$$
#
# > Before you optimise, compute the bound. The quotient of bound and measured time says how much
# > there is to gain.

# %%
P, tokens = 48 * 128 ** 2, 12 * 64
print(f"products alone, at the measured peak: {1e3 * 6 * P * tokens / peak:.0f} ms a step")
with backend.one_blas_thread():
    x, w = matrix(tokens, 128), matrix(128, 512)
    shape_rate = 2 * tokens * 128 * 512 / seconds(np.matmul, x, w)
print(f"at the rate of this shape, {shape_rate / 1e9:.0f} GFLOP/s: "
      f"{1e3 * 6 * P * tokens / shape_rate:.0f} ms")

# %% [markdown]
# A step of this model on one core must take longer than this: attention, norms, activations and the
# optimizer come on top. `numformer bench train` measures the step and prints the rate of the
# machine next to it, so you can compute the quotient for your own computer.
#
# **Exercise 17.2** (15 minutes, at home). The softmax and its backward are pointwise but for one
# sum over each row. Write the backward, where x are the scores. Count for a backward that is given
# the weights p: which arrays does it read, which does it write, and what is its intensity?
# `hint("softmax_backward")` helps; after a pass, `solution("softmax_backward")` shows ours.
#
# <details><summary>Answer to the questions</summary>
# It reads p and dp and writes dx, 12 bytes for each number. It computes a product, a term of the
# sum, a difference and a product: 4 FLOPs for 12 bytes, an intensity of 1/3. It is memory-bound.
# </details>

# %%
def softmax_backward(dp, x):
    """dp, x (..., S), any axes before the last; the softmax runs over the last. Return dx."""
    ...


check("softmax_backward", softmax_backward, seed=0)

# %% [markdown]
# **Think.** A model generates one token at a time, and its weights have 8 bits in place of 32. By
# what factor can the rate grow, and what would stop it from growing so much?
#
# <details><summary>Answer</summary>
#
# At most by four, because a vector times a matrix is limited by the bytes of the weights. Less, if
# something else takes part of the time: the key and value caches, which are still float32, the
# conversion of the weights, or the start of each kernel.
#
# </details>

# %% [markdown]
# ## Summary
#
# - A product $(M, K)(K, N)$ costs $2 M N K$ FLOPs; its intensity grows with its size.
# - Roofline: $\text{rate} \le \min(\pi, I \beta)$. Vector products and pointwise steps are limited
#   by memory, large products by arithmetic.
# - Blocks of size $b$ raise the intensity of a loop to $b / 4$; three blocks must fit into the
#   cache.
# - The backward of a product is two products: training costs about $6 P$ FLOPs a token.
# - Fused kernels, attention in tiles among them, move fewer bytes for the same operations.
#
# More practice: `numformer exercises 35`.

# %% [markdown]
# ## Further reading
#
# - Williams, Waterman and Patterson (2009), *Roofline: An Insightful Visual Performance Model for
#   Multicore Architectures*.
# - Hong and Kung (1981), *I/O Complexity: The Red-Blue Pebble Game*.
# - Goto and van de Geijn (2008), *Anatomy of High-Performance Matrix Multiplication*.
# - Kaplan et al. (2020), *Scaling Laws for Neural Language Models*, section 2.1.
# - Dao et al. (2022), *FlashAttention*, theorem 2.
# - The code: `numformer/kernels/`, `numformer/backend/`, `numformer/benchmarks/RESULTS.md`.
