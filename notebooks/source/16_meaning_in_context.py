# %% [markdown]
# # 16. Meaning in context, and learning in context
#
# **Question.** The word *bank* has one row in the embedding matrix. How does a model know which
# bank is meant? And a prompt with examples of a task makes a language model better at that task,
# although no weight changes. What is it that learns?
#
# **You will learn** to
#
# - derive how the vector of a token depends on the tokens around it, and check the derivative;
# - measure whether vectors separate the senses of a word;
# - measure how accuracy grows with the examples in a prompt;
# - prove that one layer of linear attention takes a step of gradient descent on such examples.
#
# **You need** lesson 2 (attention, the Jacobian of softmax), lesson 8 (the complex step) and
# lesson 12 (BERT). Lesson 19 opens the heads that find an earlier example.
#
# **Time.** 2 x 45 minutes; the cells run in about 40 seconds.

# %% tags=["setup"]
# %matplotlib inline
import numpy as np

from numformer import check, hint, solution
from numformer.experiments.in_context.few_shot import SHOTS, matching_accuracy, shot_accuracy
from numformer.experiments.meaning.word_senses import accuracy_by_word, occurrences, without_frames
from numformer.experiments.meaning.world_bert import FIRST, hidden_states, pretrained, tales_of
from numformer.experiments.training import trained, trainer_of
from numformer.functional import softmax
from numformer.plots import accuracy_bars, accuracy_by_shots
from numformer.plots.meaning import labelled_maps

# %% [markdown] minutes=15
# ## One word, one row; one word, many vectors
#
# We train a small BERT on tales from a made-up world, in which the sense of every ambiguous word is
# known, because the program that writes the tales chose it. The cell prints two occurrences of
# *bank* with the words around them.
#
# A lookup $W[\mathrm{id}]$ gives the same row for both. The vectors after a block can differ. The
# picture shows each occurrence of *bank* and *watch* as a point: in the upper row its embedding, in
# the lower row its vector after the third and last block. Most of the difference between vectors
# comes from the words just before and after an occurrence (the cell prints how much), so we
# subtract from each vector the mean of all occurrences with the same two neighbours.
#
# > A static embedding has one vector for each word. A contextual vector is computed for each
# > occurrence, from all tokens that it can attend to.

# %%
bert = pretrained(1, steps=250)
told = tales_of(800)                                                  # tales that it has not read
tale, token, words, senses = occurrences(told)
for sense in ("river", "money"):
    n = np.flatnonzero((words == "bank") & (senses == sense))[0]
    print(f"{sense}:", " ".join(told[tale[n]].words[max(token[n] - 8, 0) : token[n] + 9]))
states = [layer[tale, token + FIRST] for layer in
          hidden_states(bert.model, bert.rows([each.words for each in told]))]
frames = np.array([" ".join(told[n].words[max(t - 1, 0) : t + 2]) for n, t in zip(tale, token)])
maps = {(word, name): (without_frames(states[layer], frames)[words == word], senses[words == word])
        for layer, name in ((0, "embedding"), (3, "after block 3")) for word in ("bank", "watch")}
for word in ("bank", "watch"):
    x, left = states[3][words == word], maps[word, "after block 3"][0]          # (n, C) each
    print(f"{word}, block 3: {1 - left.var(axis=0).sum() / x.var(axis=0).sum():.0%} of the "
          "variance is that of the neighbours' means")
# %% tags=["hide-input"]
labelled_maps(maps, 2, "Occurrences by sense, without the effect of the two neighbours").figure

# %% [markdown]
# In the upper row all points of a word coincide: there is nothing to separate. In the lower row
# they spread. The two senses of *watch* tend to different regions; those of *bank* overlap. How far
# can we trust what we see? Only the two directions of largest variance are drawn, of 96. We will
# measure instead, after we know where the spread comes from.

# %% [markdown] minutes=20
# ## How a vector depends on its neighbours
#
# Take one head without output projection. The query is at position $t$; the inputs are
# $x_1, \dots, x_T$, each of shape $(C,)$, and $W_Q, W_K, W_V$ have shape $(C, D)$:
#
# $$z_j = \frac{(x_t W_Q) \cdot (x_j W_K)}{\sqrt{D}}, \qquad p = \mathrm{softmax}(z), \qquad
# y_t = \sum_j p_j\, v_j, \quad v_j = x_j W_V$$
#
# What happens to $y_t$ when a neighbour $x_i$, $i \neq t$, changes a little? It occurs in two
# places: in its value $v_i$, and in its score $z_i$. We differentiate both.
#
# *Through the value.* Only the term $j = i$ contains $v_i$, with the factor $p_i$:
# $\partial y_t / \partial v_i = p_i I$, and $v_i = x_i W_V$, so this part of the Jacobian is
# $p_i W_V^\top$, shape $(D, C)$.
#
# *Through the score.* From lesson 2, $\partial p_j / \partial z_i = p_j (\delta_{ij} - p_i)$. So
#
# $$\frac{\partial y_t}{\partial z_i} = \sum_j p_j (\delta_{ij} - p_i)\, v_j
# = p_i v_i - p_i \sum_j p_j v_j = p_i (v_i - y_t)$$
#
# and $z_i$ depends on $x_i$ by $\partial z_i / \partial x_i = W_K q_t / \sqrt{D}$, with
# $q_t = x_t W_Q$. The sum of both paths is
#
# $$\frac{\partial y_t}{\partial x_i} = p_i\, W_V^\top
# + \frac{p_i}{\sqrt{D}} (v_i - y_t) (W_K q_t)^\top \qquad (D, C)$$
#
# Both terms have the factor $p_i$. A token that gets no attention has no influence, and a small
# change of it does not alter that.
#
# > A neighbour changes a vector in two ways: what it contributes, $p_i W_V^\top$, and how much it
# > is attended to, $p_i (v_i - y_t)(W_K q_t)^\top / \sqrt{D}$. Both are proportional to its weight.

# %%
rng = np.random.default_rng(0)
T, C, D, t, i = 5, 6, 4, 4, 1
x = rng.standard_normal((T, C))                                       # (T, C)
w_q, w_k, w_v = rng.standard_normal((3, C, D))                        # (C, D) each


def head(x):
    """The output of one head at position t, (D,), and its weights (T,)."""
    p, _ = softmax((x @ w_k) @ (x[t] @ w_q) / np.sqrt(D))
    return p @ (x @ w_v), p


y, p = head(x)
dy_dx = p[i] * w_v.T + p[i] / np.sqrt(D) * np.outer(x[i] @ w_v - y, w_k @ (x[t] @ w_q))
by_complex_step = np.empty((D, C))
for c in range(C):
    z = x.astype(complex)
    z[i, c] += 1e-30j
    by_complex_step[:, c] = head(z)[0].imag / 1e-30
print(f"largest difference {abs(dy_dx - by_complex_step).max():.1e}, "
      f"of values up to {abs(dy_dx).max():.2f}")

# %% [markdown]
# **Exercise 16.1** (10 minutes). The scores without the division by $\sqrt{D}$ are
# $z = q k^\top$, with $q$ of shape $(\dots, T, D)$ and $k$ of shape $(\dots, S, D)$. Given the
# gradient `dscores` of $z$, shape $(\dots, T, S)$, write those of $q$ and $k$.
# `hint("dot_scores_backward")` helps; after a pass, `solution("dot_scores_backward")` shows ours.

# %%
def dot_scores_backward(dscores, q, k):
    """Return dq (..., T, D) and dk (..., S, D)."""
    ...


check("dot_scores_backward", dot_scores_backward, seed=0)

# %% [markdown]
# The picture of the second block shows where this happens in our small BERT: the attention weights
# compare tokens, and the weighted sum of the values mixes them. Every other box treats each token
# alone.

# %% tags=["hide-input"]
from numformer.plots import architecture_diagram

architecture_diagram(bert.model, block=2, title="A small BERT").figure

# %% [markdown] minutes=15
# ## Do the vectors know the sense?
#
# A vector knows the sense of its word if a simple rule can read it from the vector. The simplest
# has no parameters: find the *nearest other* occurrence of the same word, by the cosine, and take
# its sense. With unit vectors $u_n = x_n / \lVert x_n \rVert$ and senses $s_n$, the accuracy over
# the $N$ occurrences of a word is as follows, where $[\cdot]$ is 1 if true, else 0:
#
# $$a = \frac{1}{N} \sum_{n=1}^{N} \big[\, s_{m(n)} = s_n \,\big], \qquad
# m(n) = \operatorname*{arg\,max}_{m \neq n} \; u_m \cdot u_n$$
#
# Every occurrence is held out once while the others are the examples: *leave one out*. Where
# several are equally near, their most frequent sense counts. The vectors are used as they are,
# without the subtraction of the picture. We average over all occurrences of ten words with two to
# four senses. We expect the embedding to do no better than always naming the most frequent sense of
# the word, the majority.
#
# > Before you call a representation meaningful, name the rule that reads it and the baseline that
# > it must beat.

# %%
majority = np.mean([max(np.unique(senses[words == word], return_counts=True)[1])
                    / (words == word).sum() for word in words])
right = [accuracy_by_word(x, words, senses) for x in states]          # (N,) of 0 and 1 each
for word in ("bank", "watch"):
    print(f"{word}: embedding {right[0][words == word].mean():.2f}, "
          f"after block 3 {right[3][words == word].mean():.2f}")
bars = {("embedding" if n == 0 else f"after block {n}"): each.mean()
        for n, each in enumerate(right)}
print(f"all words: majority {majority:.3f};",
      ", ".join(f"{name} {share:.3f}" for name, share in bars.items()))
# %% tags=["hide-input"]
accuracy_bars(bars, title="Senses read from the nearest other occurrence", chance=majority,
              chance_label="majority").figure

# %% [markdown]
# All embeddings of a word are equal, so all others are equally near and the rule names their most
# frequent sense: the embedding is exactly at the majority (the line). After the second block the
# rule is right far more often, but not for every word: *watch* gains much, *bank* does not, as the
# picture suggested. This was one seed and 250 steps. With the preset's full training, the
# best layer reaches 0.778, 0.809 and 0.774 for seeds 1 to 3, the embedding 0.514 (`numformer
# reproduce word-senses`; measured on one half of the occurrences, the layer chosen on the other).
#
# **Think.** A position is added to each token's embedding. Could the positions alone separate two
# occurrences of a word?
#
# <details><summary>Answer</summary>
#
# Yes: two occurrences of one word then have different vectors. But their difference says where they
# are, not what they mean, unless senses prefer certain positions. (Our BERT adds no positions: it
# rotates queries and keys, as the picture of its block shows.)
#
# </details>

# %% [markdown] minutes=20
# ## Learning from examples in the prompt
#
# Brown et al. (2020) put a few examples of a task before a question, and the accuracy of GPT-3 grew
# with their number. This is *few-shot* prompting; without examples it is *zero-shot*. We measure it
# where everything is under control: prompts such as `hFcAbAh`, in which each small letter (the key)
# is followed by a capital letter (its value). Each prompt gives its four keys random values, out of
# eight. So the answer to the last key can come only from the prompt.
#
# What is the best that can be expected? With 0 examples, one of eight: 0.125. With $n$ examples,
# each of whose keys is one of four at random, the last key occurs among them with probability
# $1 - (3/4)^n$, and otherwise one has to guess:
#
# $$a(n) = 1 - \left(\tfrac{3}{4}\right)^n + \tfrac{1}{8} \left(\tfrac{3}{4}\right)^n
# = 1 - \tfrac{7}{8} \left(\tfrac{3}{4}\right)^n$$
#
# For $n = 1, 4, 16$ this is 0.344, 0.723 and 0.991. Does a trained decoder of two layers reach it?
#
# > In few-shot prompting, the weights hold how to use examples, and the prompt holds the examples.
#
# **Think.** How much of a(4) = 0.723 is guessed?
#
# <details><summary>Answer</summary>
#
# The last key is among four examples with the probability $1 - (3/4)^4 = 0.684$. Of the other 0.316
# an eighth, 0.040, is guessed right.
#
# </details>

# %%
model = trained(trainer_of("recall", seed=1, steps=1500)[0]).model
few = [shot_accuracy(model, shots) for shots in SHOTS]
for shots, accuracy in zip(SHOTS, few):
    print(f"examples {shots:2}: accuracy {accuracy:.3f}, a(n) {1 - 7 / 8 * 0.75 ** shots:.3f}")
# %% tags=["hide-input"]
accuracy_by_shots(SHOTS, {"2 layers, 1,500 steps": few},
                  [matching_accuracy(shots) for shots in SHOTS]).figure

# %% [markdown]
# The curve follows the formula, up to the noise of 1,000 prompts for each point (the standard error
# is at most 0.016). The grey line applies the rule to the same prompts. (With seeds 2 and 3, 1,500
# steps are too few: lesson 19.) After the preset's full
# training, seeds 1 to 3 reach 0.994, 0.993 and 0.993 with 16 examples; decoders with one layer
# 0.378, 0.339 and 0.361 (`numformer reproduce few-shot`). Lesson 19 derives why one layer is not
# enough.
#
# The examples must also be right. In prompts of 12 examples that contain the answer, such a model
# is right in all cases (1.000). With half of the values replaced by random ones, it falls to 0.59;
# without keys, to 0.34 (`numformer reproduce prompts`). Min et al. (2022) found the opposite for
# language models of natural text on classification: random labels cost little. Ours must read the
# mapping from its prompt; theirs could know the task from training.

# %% [markdown] minutes=20
# ## One layer is one step of gradient descent
#
# How can fixed weights *learn*? Here is a case that can be solved on paper (von Oswald et al.
# 2023). The prompt holds $N$ examples $(x_j, y_j)$ of an unknown linear function $y = w \cdot x$,
# with $x_j, w$ of shape $(D,)$, and a question $x_q$. Start from $w_0 = 0$ and take one step of
# size $\eta$ on the mean squared error:
#
# $$L(w) = \frac{1}{2N} \sum_j (w \cdot x_j - y_j)^2, \qquad
# \frac{\partial L}{\partial w} = \frac{1}{N} \sum_j (w \cdot x_j - y_j)\, x_j$$
#
# $$w_1 = w_0 - \eta\, \frac{\partial L}{\partial w}\Big|_{w_0 = 0}
# = \frac{\eta}{N} \sum_j y_j\, x_j, \qquad
# w_1 \cdot x_q = \sum_j \underbrace{(x_q \cdot x_j)}_{\text{score}}\;
# \underbrace{\tfrac{\eta}{N}\, y_j}_{\text{value}}$$
#
# The last sum is attention: the query is $x_q$, the keys are $x_j$, the values $\eta y_j / N$, and
# the scores are used as they are, without a softmax. It is exact, not an analogy.
#
# A second step starts from $w_1$. With the errors that are left, $r_j = y_j - w_1 \cdot x_j$, the
# gradient there is $-\frac{1}{N} \sum_j r_j x_j$. So the step adds
# $\frac{\eta}{N} \sum_j r_j\, x_j$: the same sum with $r_j$ in place of $y_j$. To compute the
# errors, we need predictions at the examples themselves: the same attention with queries $x_j$. So
# we begin with $r^{(0)}_j = y_j$ and $\hat{y}^{(0)} = 0$; each layer subtracts its output from the
# $r$ of every example and adds it to the answer:
#
# $$r^{(\ell + 1)}_j = r^{(\ell)}_j - \frac{\eta}{N} \sum_i (x_j \cdot x_i)\, r^{(\ell)}_i, \qquad
# \hat{y}^{(\ell + 1)} = \hat{y}^{(\ell)} + \frac{\eta}{N} \sum_i (x_q \cdot x_i)\, r^{(\ell)}_i$$
#
# > A layer of linear attention with a residual connection takes one step of gradient descent on the
# > examples of its prompt. The weights of the layer stay as they are; what learns is the residual
# > stream.

# %%
def by_gradient_descent(x, y, question, step, steps):
    """Predictions (steps,) of a linear model that is trained on x (N, D), y (N,)."""
    w, found = np.zeros(x.shape[1]), []
    for _ in range(steps):
        w = w - step * (x @ w - y) @ x / len(x)                       # (D,)
        found.append(question @ w)
    return np.array(found)


def by_attention(x, y, question, step, layers):
    """The same from layers of linear attention: no w, no gradient."""
    tokens, r, answer, found = np.vstack([x, question]), y, 0.0, []
    for _ in range(layers):
        out = (tokens @ x.T) @ (step / len(x) * r)                    # (N + 1,): q k' v
        r, answer = r - out[:-1], answer + out[-1]
        found.append(answer)
    return np.array(found)


errors = []
for seed in (1, 2, 3):
    rng = np.random.default_rng(seed)
    x, w, question = rng.standard_normal((20, 5)), rng.standard_normal(5), rng.standard_normal(5)
    one, other = (by(x, x @ w, question, 0.5, 32) for by in (by_gradient_descent, by_attention))
    errors.append(abs(one - question @ w))
    print(f"seed {seed}: the two differ by at most {abs(one - other).max():.1e}; error after "
          + ", ".join(f"{n}: {errors[-1][n - 1]:.4f}" for n in (1, 4, 16, 32)))

# %% [markdown]
# Both programs give the same numbers, up to rounding, for every number of layers, and the error
# falls with depth. Does a *trained* Transformer do this? Von Oswald et al. found that linear
# attention trained on such tasks comes close to this construction. For language models it remains a
# hypothesis: their attention has a softmax, and their tasks are not linear.
#
# **Exercise 16.2** (10 minutes). Linear attention without its score matrix costs time linear in the
# length (Katharopoulos et al. 2020). With features $\phi(x) = x + 1$ for $x > 0$ and $e^x$
# otherwise,
#
# $$o_i = \frac{\phi(q_i)^\top \sum_j \phi(k_j)\, v_j^\top}{\phi(q_i)^\top \sum_j \phi(k_j)}$$
#
# Write it for $q$ of shape $(B, H, T, D)$, $k$ of shape $(B, H, S, D)$ and $v$ of shape
# $(B, H, S, D_V)$. If `causal`, T = S and the sums run over $j \le i$. A query whose denominator is
# 0 gets 0. `hint("linear_attention")` helps; after a pass, `solution("linear_attention")` shows
# ours.

# %%
def linear_attention(q, k, v, causal=False):
    """Return o (B, H, T, D_V)."""
    ...


check("linear_attention", linear_attention, seed=0)

# %% [markdown]
# ## Summary
#
# - An embedding has one row per word; after attention, each occurrence has a vector of its own.
# - $\partial y_t / \partial x_i = p_i W_V^\top + p_i (v_i - y_t)(W_K q_t)^\top / \sqrt{D}$:
#   through the value and through the score, both in proportion to the weight.
# - Leave-one-out accuracy of the nearest occurrence measures whether vectors tell senses apart; the
#   majority is the baseline.
# - Few-shot accuracy in associative recall follows $1 - \tfrac78 (\tfrac34)^n$, the rule of
#   matching, if the decoder has two layers.
# - One step of gradient descent from zero is one layer of attention without a softmax, exactly.

# %% [markdown]
# ## Further reading
#
# - Peters et al. (2018), *Deep Contextualized Word Representations*: ELMo.
# - Brown et al. (2020), *Language Models are Few-Shot Learners*.
# - Min et al. (2022), *Rethinking the Role of Demonstrations: What Makes In-Context Learning Work?*
# - Von Oswald et al. (2023), *Transformers Learn In-Context by Gradient Descent*.
# - Katharopoulos et al. (2020), *Transformers are RNNs*: linear attention.
# - The code: `numformer/experiments/meaning/`, `numformer/experiments/in_context/`.
