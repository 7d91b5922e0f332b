# %% [markdown]
# # 19. Circuits: which heads do the work?
#
# **Question.** A small decoder continues `hFcAbAh` with `F`. The letters are paired anew in every
# text, so no table inside the model can hold the answer. Which parts of the model look it up, and
# how can we prove that it is these parts and no others?
#
# **You will learn** to
#
# - read an attention map for a mechanism, and turn what you see into a score;
# - derive why a lookup by content needs two attention layers;
# - test a claim about a mechanism by ablation, with a control;
# - derive the gradient of a head's gate, and find out how well it predicts an ablation.
#
# **You need** lessons 2 and 4 (attention, heads), lesson 7 (gradients of a product), and lesson 10
# (a trained language model).
#
# **Time.** 2 x 45 minutes; the cells run in about 20 seconds.

# %% tags=["setup"]
# %matplotlib inline
import numpy as np
from scipy.stats import spearmanr

from numformer import check, hint, solution
from numformer.analysis import ablate_heads, attention_by_layer, head_scores
from numformer.data import Batch, recall_batch, recall_examples, recall_ids, recall_text
from numformer.experiments.training import trained, trainer_of
from numformer.plots import accuracy_bars, attention_grid, attention_map

# %% [markdown] minutes=10
# ## A task that no fixed table can solve
#
# A text of this task is a sequence of pairs: a small letter from a to h, the **key**, and a capital
# letter from A to H, its **value**. Each text has a mapping of its own, in which two keys may share
# a value. When a key appears again, its value must follow.
#
# | text | what must follow | why |
# |---|---|---|
# | `hFcAbAh` | `F` | `h` was followed by `F` |
# | `hBcAbFh` | `B` | the same keys with another mapping |
# | `hFcAbAc` | `A` | the same mapping with another question |
#
# The mapping is new in every text, so weights, which are fixed when training ends, cannot store the
# answers. They can only store a *procedure*: find the earlier copy of the current key, and copy
# what came after it.
#
# > In-context learning is the use of information that is only in the prompt: the weights hold a
# > procedure, and the prompt holds the data.
#
# We train a decoder with two layers of two heads each, 32 dimensions wide, on fresh random texts.
# It reads characters and knows nothing of keys and values.

# %%
trainer, task, tokenizer = trainer_of("recall", seed=1, steps=1500)
model = trained(trainer).model
measured = task.measure(model, tokenizer, task.load(None))
print({name: round(share, 3) for name, share in measured.items()})
# %% tags=["hide-input"]
accuracy_bars({"the model": measured["recall"],
               "most frequent value so far": measured["most_frequent_value"],
               "the last value": measured["last_value"]},
              title="Held-out texts: accuracy at keys that came before", chance=1 / 8).figure

# %% [markdown]
# Answers that ignore the keys, such as the most frequent value so far, are right in 41% of cases.
# The model is right almost always. Where is its procedure?

# %% [markdown] minutes=10
# ## What do the heads attend to?
#
# Rows are queries, columns keys; colours follow the square root of the weight.

# %%
keys, values = recall_examples(1, 7, np.random.default_rng(4), keys=3)
ids, text = recall_ids(keys, values), recall_text(keys[0], values[0])
weights = list(attention_by_layer(model, ids).values())               # each (1, H, T, T)
print(text)
causal = np.tri(ids.shape[1], dtype=bool)
# %% tags=["hide-input"]
attention_grid([layer[0] for layer in weights], causal, title="All four heads, one text").figure

# %% tags=["hide-input"]
attention_map(weights[1][0, 0], list(text), causal, title="Layer 2, head 1").figure

# %% [markdown]
# One head of layer 1 has a dark line just below the diagonal: each character attends to the one
# before it. The heads of layer 2 look different. Follow a row that belongs to a small letter which
# came before: the weight is on the capital letter that followed the earlier copy.
#
# > One head attends to the previous token. Heads of the next layer attend to the token that came
# > after an earlier copy of the current one. These are called *induction heads*.
#
# Pictures of one text only suggest a hypothesis. The next step is to measure.

# %% [markdown] minutes=10
# ## Two scores that find such heads
#
# Let $p$ be the attention weights of one head, shape $(T, T)$, for tokens $x_1, \dots, x_T$. How
# much does the head attend to the previous token? We average the weights just below the diagonal:
#
# $$s_{\mathrm{prev}} = \frac{1}{T - 1} \sum_{t=2}^{T} p_{t, t-1}$$
#
# How much does it attend to what followed earlier copies of its token? For a query $t$, the earlier
# copies are the positions $j < t$ with $x_j = x_t$, and the tokens of interest are at $j + 1$:
#
# $$s_{\mathrm{ind}} = \frac{1}{|Q|} \sum_{t \in Q} \;\sum_{j < t,\; x_j = x_t} p_{t, j+1}$$
#
# Here $Q$ contains the positions whose token came before. Olsson et al. (2022) call this score
# *prefix matching*. Both scores are between 0 and 1, because the weights of a row sum to one.
#
# > A score turns a pattern in a picture into a number between 0 and 1 that can be averaged over
# > many texts and compared between heads.

# %%
def induction_score(p, x):
    """p (T, T), x (T,): mean weight on the tokens after earlier copies of each token."""
    found = []
    for t in range(len(x)):
        earlier = [j for j in range(t) if x[j] == x[t]]
        if earlier:
            found.append(sum(p[t, j + 1] for j in earlier))
    return np.mean(found)


inputs, _ = recall_batch(*recall_examples(64, 16, np.random.default_rng(5)))
p = list(attention_by_layer(model, inputs).values())                  # each (B, H, T, T)
by_hand = induction_score(p[1][0, 0], inputs[0])
at_keys = np.zeros(inputs.shape, bool)
at_keys[:, ::2] = True                                                # queries: only the keys
induction, previous = head_scores(model, inputs, at_keys)             # (layers, H)
print(f"one head, one text, all tokens: {by_hand:.2f}")
for (layer, head), score in np.ndenumerate(induction):
    print(f"layer {layer + 1}, head {head + 1}: previous token {previous[layer, head]:.2f}, "
          f"induction {score:.2f}")

# %% [markdown]
# The score by hand is of one text, with capital letters as queries, too, where nothing is to be
# looked up. Measured at the keys of 64 texts, the two kinds of heads separate cleanly: one head of
# layer 1 has a high previous-token score, and both heads of layer 2 have high induction scores.
#
# Is this an accident of one seed? The preset trains 6,000 steps; after that, the best induction
# score is 1.000, 0.986 and 0.991 for seeds 1, 2 and 3 (`numformer reproduce induction-heads`).
# Seed 1 has formed its heads after our 1,500 steps; with seeds 2 and 3 recall is then still 39%.

# %% [markdown]
# A block of our model. The circles with a plus are the residual stream: the heads of a layer add to
# it, and those of the next layer read it.

# %% tags=["hide-input"]
from numformer.plots import architecture_diagram

architecture_diagram(model, block=1, title="The model").figure

# %% [markdown] minutes=20
# ## Why one layer is not enough
#
# The query at position $t$ can only ask for something that a key vector at position $j + 1$
# contains. In a single layer, that vector is computed from the capital letter there alone; it
# contains nothing about the small letter before it. Let $x_t$ be the vector at position $t$, a row
# of shape $(1, C)$, and leave out norms, positions and the factor $1 / \sqrt D$. The score of one
# head is
#
# $$z_{t, j+1} = (x_t W_Q) (x_{j+1} W_K)^\top = x_t W_Q W_K^\top x_{j+1}^\top$$
#
# The small letter $x_j$ does not occur in it. So a one-layer head cannot prefer the value after a
# matching key over any other value. With two layers, a previous-token head in layer 1, with
# $p_{j+1, j} \approx 1$, adds a copy of the token before to the residual stream:
#
# $$x'_{j+1} = x_{j+1} + \sum_i p_{j+1, i}\, x_i W_V W_O \approx x_{j+1} + x_j W_V W_O$$
#
# Now the score of a head in layer 2, with matrices $W'_Q$ and $W'_K$, has a term that compares
# $x_t$ with $x_j$:
#
# $$z'_{t, j+1} = x_t W'_Q W'^\top_K \big( x_{j+1} + x_j W_V W_O \big)^\top
# = \dots + x_t \underbrace{W'_Q W'^\top_K W_O^\top W_V^\top}_{(C,\, C)} x_j^\top$$
#
# Training can make this $(C, C)$ matrix large for equal letters. Elhage et al. (2021) call this
# *K-composition*: the output of one head becomes part of the keys of another.
#
# > A lookup by content needs two layers: the first writes into each position which token came
# > before it, and the second searches for that mark.
#
# This explanation makes two predictions. First, one layer fails. That was measured: with 16 example
# pairs in the prompt, decoders with one layer reach 0.378, 0.339 and 0.361, those with two layers
# 0.994, 0.993 and 0.993 (seeds 1 to 3; `numformer reproduce few-shot`). Second, without the
# previous-token head of layer 1 the heads of layer 2 lose their marks: their induction scores must
# collapse.

# %%
def show(name, scores):
    print(f"{name:>28}: induction scores of layer 2:", scores[1].round(2))


show("the whole model", induction)
best = int(previous[0].argmax())                                      # the previous-token head
for head in range(2):
    with ablate_heads(model, [(0, head)]):
        name = "previous-token head" if head == best else "the other head"
        show(f"without {name}", head_scores(model, inputs, at_keys)[0])

# %% [markdown]
# Without the previous-token head the scores of layer 2 fall far below their value in the whole
# model. Without the other head of layer 1 they change less. The two layers form one mechanism, a
# **circuit**.
#
# **Exercise 19.1** (10 minutes). The mark is written by the matrices $W_V$ and $W_O$, and training
# has to find them. Write the gradient of a linear layer $y = x W + b$, with $x$ of shape
# $(\dots, N)$ and $W$ of shape $(N, M)$: it sums over all positions at which $W$ is used.
# `hint("linear_backward")` helps; after a pass, `solution("linear_backward")` shows ours.

# %%
def linear_backward(dy, x, weight, bias):
    """dy (..., M), x (..., N), any axes before the last; bias (M,). Return dx, dweight, dbias."""
    ...


check("linear_backward", linear_backward, seed=0)

# %% [markdown] minutes=15
# ## Ablation: what depends on a head?
#
# High scores show what a head *attends to*, not that the answer *depends* on it. So we remove the
# head and measure again. The output of multi-head attention is a sum
# over heads. With the heads' outputs $o_h$, shape $(T, D)$, side by side, and $W_O$ cut into rows
# $W_O^{(h)}$, shape $(D, C)$,
#
# $$y = [o_1, \dots, o_H]\, W_O = \sum_{h=1}^{H} o_h W_O^{(h)}$$
#
# So a head is removed exactly by setting the rows $W_O^{(h)}$ to zero.
#
# > Ablation is an experiment: remove one part, keep everything else, and measure what is lost. It
# > needs a control: remove another part of the same size.
#
# What do we expect? If the circuit is right, removing the previous-token head must destroy the
# recall, and removing its neighbour in layer 1 must not. The two heads of layer 2 share the
# work, so removing either may do little.

# %%
held_out, bars = task.load(None), {}
bars["all heads"] = measured["recall"]
for layer, head in np.ndindex(2, 2):
    with ablate_heads(model, [(layer, head)]):
        accuracy = task.measure(model, tokenizer, held_out)["recall"]
    bars[f"without head {head + 1} of layer {layer + 1}"] = accuracy
with ablate_heads(model, [(1, 0), (1, 1)]):
    bars["without both heads of layer 2"] = task.measure(model, tokenizer, held_out)["recall"]
print(*(f"{share:.3f} {name}" for name, share in bars.items()), sep="\n")
# %% tags=["hide-input"]
accuracy_bars(bars, title="Recall after ablation", chance=1 / 8).figure

# %% [markdown]
# As predicted; the best answer that ignores the keys has 0.41. After the full training of 6,000
# steps, recall without the head of highest induction score is 0.414, 0.200 and 0.128 for seeds 1 to
# 3, and without the other head of the same layer at least 0.987 (`numformer reproduce
# induction-heads`): one head then does the work of our two.
#
# **Think.** Why can accuracy fall below 0.41?
#
# <details><summary>Answer</summary>
#
# An ablated model is not a model that ignores keys sensibly. The layers above receive vectors that
# they never met in training, and their output need not be a good guess. This is the main weakness
# of setting a part to zero; replacing its output by the mean over many texts is a milder test.
#
# </details>

# %% [markdown] minutes=10
# ## The gradient of a gate
#
# An ablation costs one evaluation for each head. A large model has thousands. Can one backward pass
# predict them all? Multiply each head's output by a gate $\xi_h$, which is 1 in the real model and
# 0 in the ablated one:
#
# $$y = \sum_h \xi_h\, o_h W_O^{(h)}$$
#
# Write $\bar{\xi}_h = \partial L / \partial \xi_h$ for the gradient of the loss with respect to the
# gate. The gate and the rows $W_O^{(h)}$ occur only as the product $M_h = \xi_h W_O^{(h)}$, shape
# $(D, C)$. The chain rule, once for each factor, gives
#
# $$\bar{\xi}_h = \sum_{d,c} \bar{M}_{h,dc} \frac{\partial M_{h,dc}}{\partial \xi_h}
# = \sum_{d,c} \bar{M}_{h,dc}\, W^{(h)}_{O,dc}, \qquad
# \bar{W}_O^{(h)} = \xi_h \bar{M}_h = \bar{M}_h \;\text{ at } \xi_h = 1$$
#
# $$\bar{\xi}_h = \sum_{d, c} \bar{W}^{(h)}_{O,dc}\; W^{(h)}_{O,dc}$$
#
# So an ordinary backward pass gives the gradient of every gate: multiply the projection by its
# gradient, entry by entry, and add up each head's rows.
#
# > The gradient of a head's gate is the inner product of its output projection with that
# > projection's gradient. One backward pass gives it for every head of the model.
#
# Michel, Levy and Neubig (2019, section 4.1) prune heads by its size, averaged over texts.
# First we check the formula on a layer in float64, with the complex step of lesson 8.

# %%
def gate_gradients(projection, n_heads):
    """d loss / d gate of every head (H,), after a backward pass."""
    product = projection.data * projection.grad                       # (H * D, C)
    return product.reshape(n_heads, -1).sum(axis=1)


rng = np.random.default_rng(0)
o, w = rng.standard_normal((2, 5, 3)), rng.standard_normal((2, 3, 4))      # (H, T, D), (H, D, C)
dy = rng.standard_normal((5, 4))                                      # (T, C)
dw = np.stack([o[h].T @ dy for h in range(2)])                        # of y = sum_h o[h] @ w[h]
for h in range(2):
    xi = np.ones(2, complex)
    xi[h] += 1e-30j
    y = sum(xi[k] * o[k] @ w[k] for k in range(2))                    # (T, C)
    print(f"head {h + 1}: {(w[h] * dw[h]).sum():.15f} {(y * dy).sum().imag / 1e-30:.15f}")

# %% [markdown] minutes=5
# ## Does a gradient predict an ablation?
#
# We try three predictions on 64 texts: (1) the gradient at the real model, $-\bar{\xi}_h$ at $\xi =
# 1$; (2) its size in each text, averaged; (3) its mean along the line from $\xi = 1$ to $\xi = 0$,
# at five points, all gates at once. For one gate alone the third is exact in the limit:
#
# $$L(\xi_h = 0) - L(\xi_h = 1) = -\int_0^1 \bar{\xi}_h\, d\xi_h$$
#
# With all gates at once it is *integrated gradients* (Sundararajan et al., 2017): five backward
# passes for any number of heads.

# %%
def at_gates(xi, inputs, targets):
    """The loss, and d loss / d gate of every head (layers, H), with all gates at xi."""
    projections = [block.attention.output.weight for block in model.blocks]
    kept = [weight.data.copy() for weight in projections]
    for parameter in model.parameters():
        parameter.grad[:] = 0
    for weight in projections:
        weight.data *= xi
    loss, saved = model.loss(Batch(inputs=inputs, targets=targets))
    model.loss_backward(saved)
    found = np.array([gate_gradients(weight, 2) for weight in projections]) / xi
    for weight, data in zip(projections, kept):
        weight.data[:] = data
    return loss, found


x, y = recall_batch(*recall_examples(64, 16, np.random.default_rng(7)))    # both (B, T)
whole, at_one = at_gates(1, x, y)
in_each = [at_gates(1, x[b:b + 1], y[b:b + 1])[1] for b in range(len(x))]
along = [at_gates(xi, x, y)[1] for xi in (0.9, 0.7, 0.5, 0.3, 0.1)]
cost = np.zeros((2, 2))
for layer, head in np.ndindex(2, 2):
    with ablate_heads(model, [(layer, head)]):
        cost[layer, head] = model.loss(Batch(inputs=x, targets=y))[0] - whole
print(f"measured, by layer and head: {cost.ravel().round(3)}")
for name, predicted in (("at the real model", -at_one),
                        ("its size in each text", np.abs(in_each).mean(axis=0)),
                        ("mean along the line", -np.mean(along, axis=0))):
    rank = spearmanr(predicted.ravel(), cost.ravel()).statistic
    print(f"{name:>21}: {predicted.ravel().round(3)}, rank correlation {rank:.1f}")

# %% [markdown]
# The first is a thousand times too small; only the third has the order of the costs, also in a
# model with seed 3 and 3,000 steps. (A random order of four heads is right once in 24.) A model
# that has solved its task is near a minimum: first derivatives are small there.
#
# > A gradient is the cost of a *small* change, and an ablation is none. Here, gradients averaged on
# > the way to it rank the heads by cost.
#
# **Exercise 19.2** (10 minutes, at home). Tokens repeat in these texts, so a row of the embedding
# is used many times. Write the gradient of the lookup $y = W[\mathrm{ids}]$, where ids has any
# shape. Which rule of lesson 7 applies to a row that is used twice? `hint("embedding_backward")`
# helps; after a pass, `solution("embedding_backward")` shows ours.

# %%
def embedding_backward(dy, ids, weight):
    """dy (..., C), ids (...) with any number of axes. Return dweight (V, C)."""
    ...


check("embedding_backward", embedding_backward, seed=0)

# %% [markdown] minutes=10
# ## How far does the evidence reach?
#
# We have four kinds of evidence, each stronger than the one before: a picture, a score over many
# texts, a derivation that predicts what must fail, and ablations with a control. The claim that
# they support is about this model and this task.
#
# > A circuit is a claim about causes. A map of attention can suggest it; only an intervention can
# > support it.
#
# Olsson et al. (2022) report that in language models such heads form in a short phase of training,
# in which the use of earlier context improves sharply, with direct evidence for small models and
# correlational evidence for large ones. When you read such a study, ask: what was removed, what was
# the control, and on which inputs was it measured?
#
# **Think.** A head has the induction score 0.9, but ablating it changes nothing. Give two
# explanations.
#
# <details><summary>Answer</summary>
#
# Another head does the same work, so the sum still contains it (removing both would show that). Or
# the head's output is not read: its rows of the output projection are small, or point in directions
# that no later layer and no output logit depends on.
#
# </details>

# %% [markdown]
# ## Summary
#
# - In associative recall the mapping is new in every text, so weights can hold only a procedure.
# - A previous-token head writes a mark into each position; an induction head searches for the mark.
#   Scores between 0 and 1 find both kinds.
# - In one layer the score $x_t W_Q W_K^\top x_{j+1}^\top$ does not contain $x_j$; the output of a
#   layer-1 head adds it to the keys of layer 2 (K-composition).
# - $y = \sum_h o_h W_O^{(h)}$: zero rows of $W_O$ remove a head exactly.
# - $\bar{\xi}_h = \langle \bar{W}_O^{(h)}, W_O^{(h)} \rangle$: one backward pass gives the gradient
#   of every gate; in our model, its mean along the line to an ablation has the order of the costs.
#
# More practice: `numformer exercises 47`.

# %% [markdown]
# ## Further reading
#
# - Elhage et al. (2021), *A Mathematical Framework for Transformer Circuits*: composition of heads.
# - Olsson et al. (2022), *In-context Learning and Induction Heads*.
# - Michel, Levy and Neubig (2019), *Are Sixteen Heads Really Better than One?*
# - Sundararajan, Taly and Yan (2017), *Axiomatic Attribution for Deep Networks*: integrated
#   gradients.
# - The code: `numformer/analysis/induction.py`, `numformer/experiments/in_context/`.
