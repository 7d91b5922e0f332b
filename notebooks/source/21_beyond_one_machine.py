# %% [markdown]
# # 21. Beyond one machine
#
# **Question.** A class has ten laptops, a laboratory four servers, a company ten thousand GPUs. How
# can one training use them all? What does each machine hold, what must they send each other, and
# does the result stay the same?
#
# **You will learn** to
#
# - derive the gradient of a batch from those of its parts, and fix the order of their sum;
# - derive how many bytes a sum over machines needs, and compare a ring with a tree;
# - say what each machine holds when the state of the optimizer is shared out;
# - cut a feed-forward network by columns and rows, and derive its two sums;
# - derive the idle time of a pipeline.
#
# **You need** lessons 6 (feed-forward), 7 (gradient of a product) and 10 (a training step).
#
# **Time.** 2 x 45 minutes; the cells run in about 15 seconds. No second machine is needed.

# %% tags=["setup"]
# %matplotlib inline
import numpy as np

from numformer import check, hint, solution
from numformer.analysis import (
    all_reduce_seconds, bubble_share, bytes_of_step, most_held, pipeline_schedule, step_seconds)
from numformer.functional import gelu
from numformer.models import Decoder, DecoderConfig
from numformer.plots import pipeline_picture, rank_scaling
from numformer.training.parallel import fold, roots

rng = np.random.default_rng(0)

# %% [markdown] minutes=15
# ## One gradient from many machines
#
# In **data parallelism** every machine has all weights, $\theta$, and a part of the batch, a
# *shard*. In MPI, the Message Passing Interface, every process of such a program has a number, its
# **rank**; the process itself is also called a rank. The loss L is the mean of the losses $\ell_i$
# of all n targets of a batch. Let shard k hold $n_k$ of them, with the mean loss $L_k$ and its
# gradient $g_k = \partial L_k / \partial \theta$. Then
#
# $$\begin{aligned}
# L &= \frac1n \sum_{i=1}^{n} \ell_i
#    = \frac1n \sum_k \sum_{i \in \text{shard } k} \ell_i
#    = \sum_k \frac{n_k}{n}\, L_k && \text{sort the targets by shards} \\
# g &= \frac{\partial L}{\partial \theta} = \sum_k \frac{n_k}{n}\, g_k
#   && \text{differentiation is linear}
# \end{aligned}$$
#
# The weights are $n_k / n$ and not one over the number of shards: with padding, shards have
# different numbers of targets. A loss with several parts, such as BERT's masked tokens and next
# sentences, has such a weight for each part. Only what is computed *across* examples differs, such
# as the statistics of BatchNorm, which see one shard.

# %%
config = DecoderConfig(vocab_size=30, context_length=16, n_layers=2, n_heads=2, d_model=32,
                       dtype="float64")
model = Decoder(config, rng)
ids = rng.integers(0, 30, (10, 17))                                   # 10 examples


def gradient(rows):
    """The gradient of the mean loss of some examples, one vector (P,), and their targets."""
    model.zero_grad()
    _, saved = model.loss((ids[rows, :-1], ids[rows, 1:]))
    model.loss_backward(saved)
    return np.concatenate([p.grad.ravel() for p in model.parameters()]), 16 * len(rows)


whole, n = gradient(np.arange(10))
shards = [gradient(rows) for rows in np.split(np.arange(10), [1, 4, 6])]        # 1, 3, 2, 4
parts = [n_k / n * g_k for g_k, n_k in shards]
print(f"{len(whole):,} parameters; largest difference {abs(sum(parts) - whole).max():.0e}, "
      f"of gradients up to {abs(whole).max():.2f}")

# %% [markdown]
# > The gradient of a batch is the sum of its shards' gradients, each weighted by its share of the
# > targets. Data parallelism computes exactly what one machine would.

# %% [markdown] minutes=15
# ## Why the order of the sum is fixed
#
# "Exactly" was a statement about real numbers. Floating-point addition rounds, so it is not
# associative: $(a + b) + c$ and $a + (b + c)$ can differ in the last bit. If the order of the sum
# depends on which message arrives first, two runs of one program differ, and a fault cannot be
# found by running it again. If it depends on the number of ranks, a run on 4 ranks cannot be
# compared with one on 2.
#
# So we fix a binary tree over the *shards*, whose number belongs to the run, not to the machines.
# Let $g_{[a, c)}$ be the sum over the shards $a, \dots, c - 1$. It begins with single shards, and
# b - a is the largest power of two below c - a:
#
# $$g_{[a, a + 1)} = \frac{n_a}{n}\, g_a, \qquad g_{[a, c)} = g_{[a, b)} + g_{[b, c)}$$
#
# A rank with neighbouring shards can add the subtrees that it holds completely, and send only
# those. Of 8 shards, a rank with the last five sends $g_{[3, 4)}$ and $g_{[4, 8)}$. We
# expect: any way to share out the shards gives the same bits; another order does not.

# %%
eight = [(10.0 ** rng.integers(-3, 3) * rng.standard_normal(1000)).astype(np.float32)
         for _ in range(8)]                                           # 8 shards of 1,000 numbers


def on_ranks(n_ranks):
    """Every rank adds the subtrees of its shards, then their owner adds those."""
    sent = {}
    for rank in range(n_ranks):
        first, last = 8 * rank // n_ranks, 8 * (rank + 1) // n_ranks
        own = {(k, k + 1): eight[k].copy() for k in range(first, last)}
        sent |= {root: fold(own, *root) for root in roots(8, first, last)}
    return fold(sent, 0, 8), len(sent)


alone, _ = on_ranks(1)
for n_ranks in (2, 3, 4, 5, 8):
    total, messages = on_ranks(n_ranks)
    print(f"{n_ranks} ranks, {messages} subtrees: same bits {np.array_equal(total, alone)}")
one_by_one = sum(eight[1:], eight[0])
print(f"one after the other: {(one_by_one != alone).mean():.0%} of the numbers have other bits")

# %% [markdown]
# **What came out.** As expected. `mpirun -n N numformer train` works in this way: after 60 steps
# the checkpoint and the metrics of six presets are the same files, to the byte, for 1, 2, 3 and 4
# ranks and without MPI. `tests/parallel/test_rank_runs.py` repeats this with a small model.
#
# > Fix the order of a sum by the data, not by the machines. Then any number of machines gives the
# > same bits, and a run can be repeated, compared and resumed on others.

# %% [markdown] minutes=20
# ## Which bytes travel
#
# How can N ranks add vectors of M bytes so that all get the sum, an *all-reduce*? If all send
# theirs to one rank, it receives $(N - 1) M$ bytes, and the others wait. Better: cut the vectors
# into N parts, and make rank r the **owner** of part r.
#
# 1. *Reduce-scatter*: every rank sends each part to its owner, and the owner adds. A rank sends
#    N - 1 parts of M / N bytes.
# 2. *All-gather*: every owner sends its sum to the N - 1 others, as many bytes again.
#
# $$\text{bytes sent by a rank} = 2\, (N - 1)\, \frac{M}{N} = 2\, \frac{N - 1}{N}\, M < 2 M$$
#
# In a **ring** (Patarasuk and Yuan 2009) a rank sends to the next rank only, one part in each
# round. For N - 1 rounds the parts go around and are added up; for N - 1 more rounds the sums go
# around. A binary tree adds whole vectors in pairs up to its root, and sends the sum back: $2
# \lceil \log_2 N \rceil$ rounds. Let a message take $\alpha$ seconds, the latency, and $1 / B$ for
# each byte, with the bandwidth B (not the batch) in bytes a second:
#
# $$t_{\text{ring}} = 2 (N - 1) \Big( \alpha + \frac{M}{N B} \Big), \qquad
# t_{\text{tree}} = 2 \lceil \log_2 N \rceil \Big( \alpha + \frac{M}{B} \Big)$$
#
# A third algorithm, recursive halving and doubling, has the tree's latency and the ring's bytes, if
# N is a power of two (Thakur et al. 2005). The code below sends parts directly to their owners, and
# counts; to write the ring is an exercise.

# %%
def all_reduce(vectors):
    """Sums for all N ranks, by owners, and the numbers that each rank has sent (N,)."""
    N = len(vectors)
    parts = [np.split(vector, N) for vector in vectors]               # [rank][part]
    sums, sent = [parts[owner][owner].copy() for owner in range(N)], np.zeros(N, int)
    for rank, owner in np.ndindex(N, N):
        if rank != owner:
            sums[owner] += parts[rank][owner]                         # reduce-scatter
            sent[rank] += parts[rank][owner].size
            sent[owner] += sums[owner].size                           # all-gather, to this rank
    return [np.concatenate(sums) for _ in range(N)], sent


vectors = list(rng.standard_normal((6, 1200)))
sums, sent = all_reduce(vectors)
print("all have the sum:", all(np.allclose(each, sum(vectors)) for each in sums))
print(f"sent by the ranks: {sent} numbers; 2 (N - 1) / N M = {2 * 5 / 6 * 1200:.0f}")
for size, name in ((100, "100 bytes"), (100e6, "100 MB")):
    times = {kind: 1e3 * all_reduce_seconds(kind, 64, size, 50e-6, 125e6)       # 1 Gbit/s
             for kind in ("ring", "tree", "halving")}
    print(f"{name} on 64 machines, ms:", ", ".join(f"{k} {t:,.1f}" for k, t in times.items()))

# %% [markdown]
# **What came out.** Short messages want a tree (0.6 ms against 6.3), long ones a ring (1.6 s
# against 9.6). After the reduce-scatter, the owner of a part has all that is needed to *update*
# these parameters. So the optimizer runs there, and the all-gather sends parameters instead of
# sums. Nobody else needs the moments of this part. This is the first stage of **ZeRO** (Rajbhandari
# et al. 2020). With P parameters in float32, Adam's two moments are 8 P bytes:
#
# | each rank holds | bytes |
# |---|---|
# | parameters | $4 P$ |
# | gradients | $4 P$ |
# | moments, without and with ZeRO | $8 P$ and $8 P / N$ |
#
# This is the least. For the fixed order of its sums, numformer has $4 P$ bytes of gradients for
# each shard of a rank, and about $4 P$ for the subtrees that a rank receives as an owner.
#
# > In a sum over N ranks, each sends less than twice its vector, for any N. Owners of parts add,
# > update their parameters, and send these: the same bytes, with 1/N of the optimizer's memory.
#
# **Think.** Rounding differs from sum to sum. Why do the parameters of the ranks not drift apart?
#
# <details><summary>Answer</summary>
#
# Every parameter is updated by its owner alone, and the others receive its bits. If each rank
# updated all of them with a sum of its own, made in another order, their weights would drift apart.
#
# </details>

# %% [markdown] minutes=10
# ## Measured, and beyond
#
# A step on N ranks takes 1/N of the computation, plus the sum over M = 4 P bytes. If the sum does
# not overlap with the computation,
#
# $$t_N = \frac{t_1}{N} + 2 (N - 1) \Big( \alpha + \frac{4 P}{N B} \Big)$$
#
# The gradients of the last block are finished first, while the backward goes on through the
# others: a rank sends each block's gradients as soon as the backward has left it, so part of the
# time is hidden. The points below were measured on two cores of one machine (AMD EPYC; a float32
# matrix product reaches 98 GFLOP/s a core) with a decoder of 4 blocks, C = 128 and P = 804,096, and
# 12 sequences of 64 tokens a step (`python -m numformer.benchmarks.ranks`). There a message takes
# 1.1 microseconds + bytes / 3.4 GB/s. The lines are the formula, with this link and with two
# networks whose $\alpha$ and B we assume.

# %%
P, alone = 804_096, 0.0571                                               # seconds on one rank
measured = {1: (0.0571, 0.0), 2: (0.0313, 3.216e6)}                          # seconds, bytes
links = {"one machine": (1.1e-6, 3.4e9), "10 Gbit/s": (20e-6, 1.25e9),
         "1 Gbit/s": (50e-6, 0.125e9)}
N = (1, 2, 4, 8, 16, 32)
# %% tags=["hide-input"]
rank_scaling({name: {n: step_seconds(alone, n, 4 * P, *link) for n in N}
              for name, link in links.items()},
             {n: bytes_of_step(P, n) for n in N}, measured).figure

# %% [markdown]
# **What came out.** Two ranks are 1.82 times as fast as one, 31.3 ms against 57.1 ms (medians of
# three rounds); the formula of this link gives 29.5 ms, without the additions. (That the point is
# on the line of 10 Gbit/s is chance.) The bytes are those of the formula: the MPI library itself
# (`mpirun --mca pml_monitoring_enable 2`) counts 0.03% more over 40 steps of the preset `tiny`,
# apart from the first weights and the moments for a checkpoint. Over a slow network this model is
# too small: at 1 Gbit/s and N = 4, a rank computes for 14 ms and sends for 39 ms. More examples per
# rank help, since the sum does not grow with the batch. If the sum takes no longer than the
# computation, $t_N \leq 2\, t_1 / N$:
#
# > Data parallelism reaches at least half of the ideal speed while the computation of a step,
# > divided by N, takes longer than sending the gradients once and the parameters once.

# %% [markdown] minutes=20
# ## One layer on several machines
#
# What if a single layer does not fit? Cut the first matrix of a feed-forward network by columns and
# the second by rows (Shoeybi et al. 2019): $W_1 = [A_1 \cdots A_N]$ with $A_r$: (C, F/N), and
# $W_2$ with $B_r$: (F/N, C) below each other.
#
# $$\begin{aligned}
# y &= f(x\, [A_1 \cdots A_N])\, W_2 \\
#   &= [f(x A_1) \cdots f(x A_N)]\, W_2 && f \text{ acts on each column alone} \\
#   &= \textstyle\sum_r f(x A_r)\, B_r && \text{columns times rows; } (T, C)
# \end{aligned}$$
#
# No rank needs a column of another: only the sum is made together. For the backward we write
# $h_r = x A_r$ and $\bar{y} = \partial L / \partial y$. All ranks get $\bar{y}$, and x was used by
# all of them, so its gradients add:
#
# $$\bar{h}_r = \bar{y}\, B_r^\top \odot f'(x A_r) \quad (T, F/N), \qquad
# \bar{B}_r = f(x A_r)^\top\, \bar{y}, \quad \bar{A}_r = x^\top \bar{h}_r, \qquad
# \bar{x} = \textstyle\sum_r \bar{h}_r\, A_r^\top$$
#
# Attention can be cut in the same way, by heads: no head needs another. A block then makes two
# sums of size (B, T, C) forward and two backward. Had we cut $W_1$ by rows instead, the sum would
# have to come before f, since $f(a + b) \neq f(a) + f(b)$.
#
# > **Tensor parallelism** cuts the first matrix by columns and the second by rows: one sum forward,
# > one backward, and every rank holds 1/N of the weights and of the hidden layer.
#
# **Exercise 21.1** (10 minutes). Write the feed-forward network as the sum of two parts, with
# biases $b_1$: (F,) and $b_2$: (C,). Which part gets $b_2$? (F may be odd, or 1: then a part may be
# empty. The check sees only y, not your parts.) `hint("feed_forward")` helps; after a pass,
# `solution("feed_forward")` shows ours.

# %%
ACTIVATIONS = {"gelu": lambda h: gelu(h)[0], "relu": lambda h: np.maximum(h, 0)}


def feed_forward(x, w1, b1, w2, b2, activation="gelu"):
    """x (..., C), any axes before the last; w1 (C, F), w2 (F, C); f is ACTIVATIONS[activation]."""
    ...


check("feed_forward", feed_forward, seed=0)

# %% [markdown]
# **Exercise 21.2** (10 minutes, at home). A large vocabulary is cut as well: each rank has the
# logits of its own words. Write the softmax over the last axis from two parts, and let only maxima
# and sums travel between them, not logits. (The second part may be empty.) `hint("softmax")` helps;
# after a pass, `solution("softmax")` shows ours.

# %%
def softmax(x):
    """x (..., S), any axes before the last, in parts x[..., :k] and x[..., k:], k = S // 2 + 1."""
    ...


check("softmax", softmax, seed=0)

# %% [markdown] minutes=10
# ## A pipeline, and its bubble
#
# The third way is to give each machine some of the *layers*, a **stage**; p is now the number of
# stages. Then stage 2 waits for stage 1, so the batch is cut into m **micro-batches** that follow
# one another. Let a forward and a backward of a micro-batch at one stage take $t_f$ and $t_b$. A
# stage works for $m (t_f + t_b)$. The last stage gets its first input after $(p - 1)\, t_f$, and
# then works without a pause. When it has finished, the last gradient needs $(p - 1)\, t_b$ to the
# first stage. So the time of the step, and the share of it in which a stage is idle, the
# **bubble**, are
#
# $$\begin{aligned}
# t &= (p - 1)\, t_f + m (t_f + t_b) + (p - 1)\, t_b = (m + p - 1)(t_f + t_b) \\
# \text{bubble} &= \frac{t - m (t_f + t_b)}{t} = \frac{p - 1}{m + p - 1}
# \end{aligned}$$
#
# (Narayanan et al. 2021 divide by $m (t_f + t_b)$ instead of t, and get $(p - 1) / m$.) Many
# micro-batches make the bubble small. But if all forwards come first, as in GPipe (Huang et al.
# 2019), every stage keeps the activations of m micro-batches, or computes them again. *One forward,
# one backward* (1F1B) begins each backward as early as possible: the bubble is the same, but the
# first stage keeps at most p micro-batches, and the last stage a single one. In the picture a
# backward takes twice as long as a forward: it has two products for each product of the forward.

# %%
for kind in ("gpipe", "1f1b"):
    schedule = pipeline_schedule(stages=4, micro_batches=8, kind=kind)
    print(f"{kind}: bubble {bubble_share(schedule):.3f}, (p - 1) / (m + p - 1) = {3 / 11:.3f}; "
          f"micro-batches held by each stage: {most_held(schedule)}")
# %% tags=["hide-input"]
pipeline_picture(schedule, title="1F1B, 4 stages, 8 micro-batches").figure

# %% [markdown]
# > A pipeline of p stages with m micro-batches is idle for $(p - 1) / (m + p - 1)$ of its time. The
# > order of forwards and backwards decides how many activations it must keep.
#
# **Think.** Which of the three would you use between machines, and which within one?
#
# <details><summary>Answer</summary>
#
# Tensor parallelism sends activations four times a block, so it needs the fastest links: within a
# machine. A pipeline sends only what passes from stage to stage, data parallelism gradients once a
# step. Narayanan et al. (2021) combine all three in that order.
#
# </details>

# %% [markdown]
# ## Summary
#
# - $g = \sum_k \frac{n_k}{n}\, g_k$: shards give the gradient of the batch; a fixed tree gives the
#   same bits on any number of ranks.
# - An all-reduce sends $2 (N - 1) / N$ times the vector; a ring has the fewest bytes, a tree the
#   fewest rounds.
# - ZeRO-1: owners of parts keep the moments, 1/N each.
# - Tensor parallelism: $y = \sum_r f(x A_r) B_r$, $\bar{x} = \sum_r \bar{h}_r A_r^\top$.
# - Pipelines idle for $(p - 1) / (m + p - 1)$ of the time.
#
# More practice: `numformer exercises 46`, a ring all-reduce round by round.

# %% [markdown]
# ## Further reading
#
# - Thakur, Rabenseifner and Gropp (2005), *Optimization of Collective Communication Operations in
#   MPICH*; Patarasuk and Yuan (2009), *Bandwidth Optimal All-Reduce Algorithms*.
# - Li et al. (2020), *PyTorch Distributed*: buckets of gradients.
# - Rajbhandari et al. (2020), *ZeRO: Memory Optimizations Toward Training Trillion Parameter
#   Models*.
# - Shoeybi et al. (2019), *Megatron-LM*; Narayanan et al. (2021), *Efficient Large-Scale Language
#   Model Training on GPU Clusters Using Megatron-LM*.
# - Huang et al. (2019), *GPipe*.
# - The code: `numformer/training/parallel/`, `numformer/layers/parallel/`.
