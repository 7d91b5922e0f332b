# %% [markdown]
# # 23. From rewards
#
# **Question.** A model that imitates is as good as what it imitates, where it can follow at all. A
# rule can tell right answers from wrong ones, but a rule has no gradient. How does a model learn
# from a number?
#
# **You will learn** to
#
# - derive the gradient of an expected reward, without a derivative of the reward;
# - compute what a baseline and a group do to the mean and the variance of its estimate;
# - derive ratio and clip, which let one sample serve several steps;
# - train a model that finds out by itself that steps pay;
# - say which divergence an estimate of the distance from a reference makes smaller.
#
# **You need** lessons 7 (gradients), 8 (the complex step), 10 (training, sampling) and 22
# (`minimal.py`).
#
# **Time.** 2 x 45 minutes; the cells run in about 50 seconds.
# %% tags=["setup"]
# %matplotlib inline
from inspect import getsource
from itertools import product

import numpy as np

from numformer import check, hint, minimal, minimal_grpo, solution
from numformer.functional import kl_estimate, kl_estimate_backward
from numformer.plots.axes import new_axes

rng = np.random.default_rng(0)


def show(*functions):
    print("\n\n".join(getsource(function).rstrip() for function in functions))


def complex_step(f, x):
    """The gradient of a number: lesson 8."""
    return np.array([f(x + 1e-30j * axis).imag / 1e-30 for axis in np.eye(len(x))])
# %% [markdown] minutes=20
# ## The gradient of an expected reward
# A **policy** is the distribution from which answers are sampled. Here an answer y is one of V
# tokens, sampled with $p_y = \mathrm{softmax}(z)_y$, and it earns the **reward** $R_y$, whatever
# rule says so. We want the expected reward J to grow, so we need its gradient:
#
# $$\begin{aligned}
# J &= \sum_y p_y R_y && z, R: (V,) \\
# \frac{\partial J}{\partial z_j} &= \sum_y R_y \frac{\partial p_y}{\partial z_j}
#   && \text{R does not depend on z} \\
# &= \sum_y p_y\, R_y \frac{\partial \log p_y}{\partial z_j}
#   && \frac{\partial \log p}{\partial z} = \frac{1}{p} \frac{\partial p}{\partial z}
# \end{aligned}$$
#
# The last line looks like the second, but it is a mean: of $R_y\, \partial \log p_y / \partial z$
# over answers that are sampled with the probabilities $p_y$. So we need not list all answers, of
# which a text of 9 tokens has $V^9$; some samples estimate the mean. The vector $s_y = \partial
# \log p_y / \partial z$ is called the **score**, and this rewriting the score-function trick. For a
# softmax, $s_{yj} = [j = y] - p_j$: a one at the sampled token, minus the prediction.
# %%
V = 6
z, R = rng.standard_normal(V), np.array([0.0, 0, 1, 0, 1, 0])         # (V,) each
p = minimal.softmax(z)
s = np.eye(V) - p                                                     # (V, V): row y is s_y
exact = (p * R) @ s                                                   # the mean, by enumeration
error = abs(exact - complex_step(lambda z: (minimal.softmax(z) * R).sum(), z)).max()
print(f"expected reward {p @ R:.3f}; enumeration against the complex step: {error:.0e}")
for n in (10, 1000, 100_000):
    y = rng.choice(V, n, p=p)                                         # (n,): sampled answers
    error = (R[y][:, None] * s[y]).mean(axis=0) - exact               # (V,)
    print(f"{n:6} samples: error {np.linalg.norm(error) / np.linalg.norm(exact):.1%}")
# %% [markdown]
# The gradient does not ask why an answer earned its reward. A step makes sampled answers more
# likely, each by its reward. With R = 1 for a teacher's answers and no others it is the gradient of
# cross-entropy: imitation is the special case in which somebody else sampled.
#
# > The gradient of an expected reward is the mean, over sampled answers, of the reward times the
# > gradient of the log-probability. The rule that rewards needs no derivative.
#
# **Think.** The model never samples the one right answer. What does it learn from rewards?
#
# <details><summary>Answer</summary>
#
# Nothing: all sampled answers earn 0. Rewards make likelier what is sampled; they invent nothing.
#
# </details>
#
# **Exercise 23.1** (10 minutes). Write the score as a backward: from the gradient `dlog_probs` of
# the log-probabilities of given tokens to that of the logits. Stuck?
# `hint("token_log_probs_backward")`. After a pass, `solution("token_log_probs_backward")`.
# %%
def token_log_probs_backward(dlog_probs, logits, tokens):
    """logits (B, T, V); tokens and dlog_probs (B, T). Return dlogits."""
    ...


check("token_log_probs_backward", token_log_probs_backward, seed=0, levels=["plain"])
# %% [markdown] minutes=15
# ## Baselines and groups
# Probabilities sum to 1, so the scores have the mean 0: $\sum_y p_y s_y = \sum_y \partial p_y /
# \partial z = \partial 1 / \partial z = 0$. A number m, a **baseline**, can be subtracted from all
# rewards; the mean stays, and the variance of one sample is, summed over coordinates,
#
# $$\sum_y p_y \left( R_y - m \right)^2 |s_y|^2 - \Big| \frac{\partial J}{\partial z} \Big|^2$$
#
# With m = 0 right answers are pushed up and wrong ones left alone. With m = J wrong ones are pushed
# down as well. We expect a smaller variance, and can compute it for every m.
# %%
def variance(m):
    return p @ ((R - m) ** 2 * (s * s).sum(axis=1)) - exact @ exact


best = (p * R) @ (s * s).sum(axis=1) / (p @ (s * s).sum(axis=1))      # where its derivative is 0
for name, m in {"none": 0.0, "J": p @ R, "the best": best}.items():
    print(f"baseline {name:8} {m:.3f}: variance {variance(m):.4f}")
# %% tags=["hide-input"]
ax, m = new_axes((7, 2.8)), np.linspace(-0.5, 1.5, 100)
ax.plot(m, [variance(each) for each in m])
for name, each, marker in (("m = 0", 0.0, "o"), ("m = J", p @ R, "s"), ("best", best, "^")):
    ax.plot(each, variance(each), marker, label=name)
ax.set(xlabel="baseline m", ylabel="variance of one sample")
ax.legend()
ax.figure
# %% [markdown]
# J is not known, and other questions have another J. GRPO samples a **group** of G answers to each
# question, and takes the mean of their rewards: no second model estimates J. Does it matter that an
# answer is in its own baseline? Of $m = \frac1G \sum_k R_k$, all terms but one are independent of
# answer i, and with $k = i$
#
# $$\text{mean of } (R_i - m)\, s_i = \frac{\partial J}{\partial z} - \frac{1}{G}
#   \frac{\partial J}{\partial z} = \Big( 1 - \frac1G \Big) \frac{\partial J}{\partial z}$$
#
# The direction stays, the length shrinks. By enumeration of all $6^2$ groups of G = 2:
# %%
mean = sum(p[a] * p[b] * ((R[a] - R[b]) / 2 * s[a] + (R[b] - R[a]) / 2 * s[b]) / 2
           for a, b in product(range(V), repeat=2))
print("mean over groups, divided by the gradient:", (mean / exact).round(6))
show(minimal_grpo.group_advantages)
# %% [markdown]
# What is left of the reward is the **advantage** A. GRPO also divides by the standard deviation of
# the group. That is no baseline: it changes how much each question counts. A question with one
# right answer of eight has a small deviation, and counts more than without the division.
#
# > A baseline changes the variance and not the mean. The mean of a group is a baseline that costs
# > nothing but samples.
#
# **Think.** After some rounds, all answers to most questions are right. What do they cost, and what
# do they teach?
#
# <details><summary>Answer</summary>
#
# They cost as much sampling as before, and teach nothing: A is 0 in the whole group. DAPO samples
# on until enough groups differ.
#
# </details>
# %% [markdown] minutes=25
# ## The ratio and the clip
# Sampling is the larger part of the work, so we want several steps of AdamW for the same answers.
# But after the first step, the policy p is no longer the q that sampled. The mean over q needs a
# correction, the **ratio** r:
#
# $$\sum_y p_y R_y = \sum_y q_y\, r_y R_y, \qquad r_y = \frac{p_y}{q_y} = e^{\ell_y -
#   \ell^{\text{old}}_y}, \qquad \frac{\partial r}{\partial \ell} = r$$
#
# with $\ell = \log p$ and $\ell^{\text{old}} = \log q$. At the first step r = 1, and the gradient
# is A times the score. Later, a few samples with a large r can decide the step, which then follows
# noise. PPO limits what one sample can do, and GRPO does the same:
#
# $$L = -\frac{1}{n} \sum \min\big( r A,\; \mathrm{clip}(r, 1 - c, 1 + c)\, A \big)$$
#
# The sum is over all n tokens of answers, each with its own r and the A of its answer. Where is the
# minimum flat?
# %% tags=["hide-input"]
ax, r = new_axes((7, 2.8)), np.linspace(0, 2, 200)
for A, style in ((1, "-"), (-1, "--")):
    ax.plot(r, np.minimum(r * A, np.clip(r, 0.8, 1.2) * A), style, label=f"A = {A}")
ax.axvline(1, color="0.6", linewidth=1)
ax.set(xlabel="ratio r", ylabel="objective of a token")
ax.legend()
ax.figure
# %%
show(minimal_grpo.policy_loss, minimal_grpo.policy_loss_backward)
# %% [markdown]
# A good answer is flat above 1 + c alone, a bad one below 1 - c alone. On the other side the slope
# stays: where a good answer has become *less* likely, the way back is open. So the clip is no bound
# of r. It only ends the reason to go on.
#
# > r is the derivative of itself, so a token that is not clipped has the gradient -r A, and one
# > that is clipped 0. The sign of A decides on which side it is clipped.
#
# **Exercise 23.2** (15 minutes). Write the backward without looking at the one above. `counts` is
# True for the tokens of answers. `hint("policy_loss_backward")` helps; then
# `solution("policy_loss_backward")`.
# %%
def policy_loss_backward(dloss, log_probs, old_log_probs, advantages, counts):
    """log_probs, old_log_probs, counts (B, T); advantages (B,). Clip at 0.8 and 1.2.
    Return dlog_probs."""
    ...


check("policy_loss_backward", policy_loss_backward, seed=0, levels=["plain"])
# %% [markdown] minutes=15
# ## A model that finds out
# `numformer/minimal_grpo.py` is all this on one page. It trains the GPT of lesson 22 to add six
# digits modulo 5. A teacher answers `340201?` at once, `=0`, in 70% of the texts, else with running
# sums, `322440=0`. The rule rewards the right digit after `=`, and does not look at the sums.
# %%
show(minimal_grpo.reward, minimal_grpo.learn_from_rewards)
# %% [markdown]
# First it imitates. If it cannot add six digits at once, it guesses one of 5, and the best imitator
# has $0.3 + 0.7 \cdot 0.2 = 0.44$ of its samples right, fewer if it takes the likeliest characters,
# which answer at once. What do we expect of rewards? Answers with steps are above the mean of their
# groups, and become likelier.
# %%
minimal.WIDTH, minimal_grpo.ROUNDS, rng = 64, 6, np.random.default_rng(0)
questions = rng.permutation(["".join(digits) + "?" for digits in product("01234", repeat=6)])
held_out, questions = questions[:500], questions[500:]
model = minimal.initial_parameters(rng, len(minimal_grpo.CHARACTERS))
minimal_grpo.imitate(model, questions, rng)
print(minimal_grpo.measure(model, held_out))
minimal_grpo.show(model, held_out[:3])
# %%
minimal_grpo.learn_from_rewards(model, questions, held_out, rng)
minimal_grpo.show(model, held_out[:3])
# %% [markdown]
# It came out as expected, in a few rounds, and no rule asked for steps. The reason is not
# mysterious: the model could do the steps, seldom did, and rewards made frequent what pays. That is
# also the limit: what is never sampled is never rewarded.
#
# > Imitation copies how often the teacher does what. Reward changes how often, towards what earns.
#
# **Think.** Suppose the rule only looked whether the right digit is *somewhere* after `=`. Which
# answers would earn most?
#
# <details><summary>Answer</summary>
#
# Those that write all five digits after `=`: they are right without any sum. Such reward hacking is
# the rule's fault, as the model maximizes what is measured.
#
# </details>
# %% [markdown] minutes=15
# ## How far from the beginning?
# Long training on rewards can leave everything that imitation had taught. A penalty for the
# distance from a **reference**, the model q at the beginning, holds it: the Kullback-Leibler
# divergence $\mathrm{KL}(p, q) = \sum_y p_y \log (p_y / q_y)$. It is a mean over samples of p as
# well, so it is estimated at the sampled tokens. With $d = \log (q_y / p_y)$, three estimates are
# in use: k1 is $-d$, k2 is $d^2 / 2$, and k3 is $e^d - d - 1$, which is never negative.
#
# As numbers, k1 and k3 have the mean KL(p, q), since $\sum_y p_y e^d = \sum_y q_y = 1$. Put into a
# loss, what counts is their gradient, and backpropagation does not know that the samples came from
# p. For k3, with $\partial d / \partial z = -s_y$:
#
# $$\begin{aligned}
# \sum_y p_y \frac{\partial k_3}{\partial z} &= \sum_y p_y \left( 1 - e^d \right) s_y
#   = -\sum_y q_y s_y && \textstyle\sum_y p_y s_y = 0, \; p_y e^d = q_y \\
# &= \frac{\partial}{\partial z} \sum_y q_y \log \frac{q_y}{p_y}
#   = \frac{\partial}{\partial z} \mathrm{KL}(q, p) && \text{the other divergence}
# \end{aligned}$$
# %%
q = minimal.softmax(z + rng.standard_normal(V))


def kl(p, q):
    return (p * np.log(p / q)).sum()


gradients = {"KL(p, q)": complex_step(lambda z: kl(minimal.softmax(z), q), z),
             "KL(q, p)": complex_step(lambda z: kl(q, minimal.softmax(z)), z), "0": np.zeros(V)}
print(f"KL(p, q) = {kl(p, q):.4f}, KL(q, p) = {kl(q, p):.4f}")
for estimator in ("k1", "k2", "k3", "k3 corrected"):
    k, saved = kl_estimate(np.log(p), np.log(q), np.log(p), estimator)        # (V,): at each token
    gradient = kl_estimate_backward(p, saved) @ s
    name = min(gradients, key=lambda name: abs(gradient - gradients[name]).max())
    print(f"{estimator:12}: mean {p @ k:.4f}; mean gradient that of {name:8}, "
          f"error {abs(gradient - gradients[name]).max():.0e}")
# %% [markdown]
# k1 in a loss does nothing on average. k2 is another number, but has the gradient that one wants.
# The corrected k3 multiplies by the ratio r, whose value is 1 but whose derivative is not: it tells
# the gradient that the samples depend on p. `minimal_grpo.py` has no penalty: its few rounds do not
# lead far, and there is nothing to keep but the task.
#
# > A good estimate of a number need not have the gradient of the number, if the samples depend on
# > what is differentiated.
#
# **Exercise 23.3** (10 minutes, at home). Write the backward of k3. (`hint("kl_estimate_backward")`
# and `solution("kl_estimate_backward")` are about all four.)
# %%
def kl_estimate_backward(dk, log_probs, reference_log_probs, old_log_probs):
    """All arrays have the shape (B, T). Return dlog_probs."""
    ...


check("kl_estimate_backward", kl_estimate_backward, seed=0, levels=["k3"])
# %% [markdown]
# ## Summary
# - Score function: the gradient of an expected reward is the mean of $R\, \partial \log p$.
# - A baseline lowers the variance; the mean of a group shortens the mean gradient by 1 - 1 / G.
# - $\partial r = r\, \partial \ell$; the minimum clips good answers above, bad ones below.
# - Imitation and reward are functions of $\ell$ alone: `minimal_grpo.log_probs_backward` and the
#   backward of the model do the rest for both.
# - k3 in a loss has the gradient of KL(q, p).
# - The page runs as `python -m numformer.minimal_grpo SEED`. Change it: one update, no clip, a
#   group of 2, rewards without division, a rule with a gap. What changes?
# %% [markdown]
# ## Further reading
# - Williams (1992), "Simple Statistical Gradient-Following Algorithms for Connectionist
#   Reinforcement Learning": REINFORCE and its baseline.
# - Schulman et al. (2017), "Proximal Policy Optimization Algorithms": the clip.
# - Shao et al. (2024), "DeepSeekMath": GRPO; Yu et al. (2025), "DAPO"; Liu et al. (2025),
#   "Understanding R1-Zero-Like Training": what the two normalizations do.
# - Schulman (2020), "Approximating KL Divergence": k1, k2 and k3.
# - Code: `numformer/minimal_grpo.py`; `numformer/functional/losses/policy.py` has all options.
