# %% [markdown]
# # 10. Training a character model, and looking inside
#
# **Question.** A model with random weights and a text: what is needed to turn them into a model
# that writes, and what does it then compute inside?
#
# **You will learn** to
#
# - explain how one text gives a training target for every position;
# - derive and implement the gradient of the output head with its loss, and the steps of AdamW;
# - measure what the optimizer contributes, and what warm-up, schedule and clipping change together;
# - implement sampling with a temperature;
# - explain a prediction by what each part of the model writes into the residual stream.
#
# **You need** lessons 1 to 7: attention, positions, norms, the block, backpropagation.
#
# **Time.** 2 x 45 minutes; the cells run in about 40 seconds.

# %% tags=["setup"]
# %matplotlib inline
import numpy as np
from matplotlib.figure import Figure

from numformer import check, hint, solution
from numformer.analysis import logit_contributions, logit_lens
from numformer.analysis.attention_views import Reading, attention_views
from numformer.data import BlockStream, CharacterTokenizer, consecutive_blocks, load_corpus
from numformer.functional import adam_step, softmax
from numformer.generation import generate
from numformer.models import Decoder, DecoderConfig
from numformer.plots import (
    attention_grid, contribution_bars, learning_rate_curve, lens_map, loss_curve)
from numformer.training import Trainer, TrainingConfig
from numformer.verify import gradcheck

corpus = load_corpus()
tokenizer = CharacterTokenizer.of(corpus.text)
text, held_out = (tokenizer.encode(part) for part in corpus.split())
vocabulary = [tokenizer.decode([i]) for i in range(len(tokenizer))]

# %% [markdown] minutes=10
# ## Every position of a text is a target
#
# A language model predicts the next token; here tokens are characters. The picture shows a few
# characters of a training block. Below each input is its target: the character that follows.

# %%
T = 64
stream = BlockStream(text, T, batch_size=16, seed=0)
batch = stream.batch(0)                                               # inputs, targets: (B, T)
# %% tags=["hide-input"]
ax = Figure(figsize=(8, 1.3), layout="constrained").add_subplot()
for y, ids in ((1, batch.inputs), (0, batch.targets)):
    for t, token in enumerate(ids[0, :24]):
        ax.text(t, y, vocabulary[token].replace("\n", "\\n").replace(" ", "_"), fontsize=15,
                ha="center", va="center", family="monospace", color=("#c8500a", "#1257a8")[y])
ax.set(xlim=(-1, 24), ylim=(-0.6, 1.6), yticks=(0, 1), yticklabels=("target", "input"), xticks=())
ax.figure

# %% [markdown]
# > A text of T + 1 tokens holds T exercises at once. With the causal mask, one forward pass answers
# > all of them, and none can look at its answer.
#
# The corpus is the documentation of Python. Its first nine tenths are for training, the last tenth
# is held out. A batch has B blocks of T characters from random positions. With x: (B, T + 1) for
# the ids of a batch, the loss is the mean *cross-entropy*
#
# $$L = -\frac{1}{B T} \sum_{b, t} \log p(x_{b, t+1} \mid x_{b, 1}, \dots, x_{b, t})$$
#
# in nats (natural logarithm). Divided by $\log 2$ it is bits per character. A model that knows
# nothing guesses uniformly among V characters and has the loss $\log V$. The exponential of the
# loss is called *perplexity*: the number of equally likely characters with the same loss.

# %% [markdown] minutes=15
# ## From ids to logits, and back
#
# A decoder looks up a vector for each id, passes it through a stack of L blocks of the same
# structure, normalizes it and compares it with a vector for each character:
#
# $$x_0 = E[\mathrm{ids}], \qquad x_l = \mathrm{block}_l(x_{l-1}), \qquad
# h = \mathrm{norm}(x_L), \qquad z = h\, W^\top$$
#
# $$\mathrm{ids}: (B, T) \quad E, W: (V, C) \quad x_l, h: (B, T, C) \quad z: (B, T, V)$$
#
# The vectors between the blocks are also called *latent vectors*. The last product is the *output
# head*; its scores z are called *logits*, and $p = \mathrm{softmax}(z)$. Many models, and ours, use
# the same table for E and W: it is
# *tied*.

# %%
config = DecoderConfig(vocab_size=len(tokenizer), context_length=T, n_layers=3, n_heads=4,
                       d_model=96, norm="rms_norm", feedforward="swiglu", positions="rotary",
                       bias=False, init_std=0.08)
model = Decoder(config, np.random.default_rng(0))
print(f"{sum(p.data.size for p in model.parameters()):,} parameters; loss before training "
      f"{model.loss(batch)[0]:.2f}, of a uniform guess {np.log(len(tokenizer)):.2f} nats")

# %% [markdown]
# > Training pushes the vector of each position towards the output vector of its target, and away
# > from those of all other characters, in proportion to their probabilities.
#
# **The gradient of head and loss.** Number the positions n = 1 ... N with the targets $y_n$.
# $\bar{x} = \partial L / \partial x$ is the gradient of the loss with respect to x, named `dx` in
# code.
#
# $$L = \frac{1}{N} \sum_n \Big( \log \sum_v e^{z_{nv}} - z_{n y_n} \Big)
# \qquad \text{(} - \log \text{ of a softmax)}$$
#
# $$\bar{z}_{nv} = \frac{1}{N} \big( p_{nv} - \delta_{v y_n} \big)
# \qquad \text{(derivative of the logarithm; } \delta \text{ is 1 at the target, else 0)}$$
#
# $$\bar{h}_n = \sum_v \bar{z}_{nv} W_v
# \qquad \text{(} h_n \text{ is in all V logits of its position)}$$
#
# $$\bar{W}_v = \sum_n \bar{z}_{nv}\, h_n \qquad \text{(} W_v \text{ is used at all N positions)}$$
#
# In the lookup $x_0 = E[\mathrm{ids}]$, a row of E is used wherever its character occurs, so its
# gradient is the sum of $\bar{x}_0$ over these positions. A tied table is used twice, as E and as
# W, and both gradients add.

# %%
def linear_cross_entropy_backward(dloss, x, weight, targets):
    V, C = weight.shape
    p, _ = softmax(x @ weight.T)                                      # (..., V)
    dz = dloss * (p - np.eye(V)[targets]) / targets.size
    dx = dz @ weight                                                  # (..., C)
    dweight = dz.reshape(-1, V).T @ x.reshape(-1, C)                  # (V, C)
    return dx, dweight


check("linear_cross_entropy_backward", linear_cross_entropy_backward, seed=0, levels=["plain"])

# %% [markdown]
# **Exercise 10.1** (5 minutes). Label smoothing adds the cross-entropy with the *uniform*
# distribution, $L = -\frac{1}{N V} \sum_{n, v} \log p_{nv}$, so that a model is never rewarded for
# full certainty. What replaces the target in $\bar{z}$? Logits: (..., V).
# `hint("uniform_cross_entropy_backward")` helps; after a pass,
# `solution("uniform_cross_entropy_backward")` shows ours.

# %%
def uniform_cross_entropy_backward(dloss, logits):
    """logits (..., V), any axes before the last. Return dlogits."""
    ...


check("uniform_cross_entropy_backward", uniform_cross_entropy_backward, seed=0)

# %% [markdown]
# The whole model is checked like a layer, by the complex step (lesson 8). Ids cannot be
# differentiated, so only parameters are:

# %%
class Logits:
    """The logits of a small decoder, as a layer for `gradcheck`."""

    def __init__(self):
        config = DecoderConfig(vocab_size=4, context_length=4, n_layers=1, n_heads=1, d_model=2,
                               dtype="float64", init_std=0.5)
        self.model = Decoder(config, np.random.default_rng(0))
        self.named_parameters = self.model.named_parameters
        self.forward, self.backward = self.model.forward, self.model.backward


report = gradcheck(Logits(), [np.array([[0, 2, 1]])])
print(report.ok, f"worst relative error {report.worst.error:.0e} in {len(report.rows)} tensors")

# %% [markdown]
# GPT-2 has this structure at a larger size. Equal blocks are drawn once, with their number, and
# the head is tied: its weight is the embedding's.

# %% tags=["hide-input"]
from numformer.models import CONFIGS
from numformer.plots import architecture_diagram

architecture_diagram(CONFIGS["gpt2"], title="GPT-2").figure

# %% [markdown] minutes=15
# ## From a gradient to a step: AdamW
#
# The simplest step is *gradient descent*, $\theta \leftarrow \theta - \eta\, \bar{\theta}$, with
# the learning rate $\eta$. Its weakness is a valley that is steep in one direction and flat in
# another. The picture shows it and Adam, which we derive below, in such a valley: 40 steps from the
# left towards the minimum at 0.

# %%
curvature, start, paths = np.array([1.0, 50.0]), np.array([-4.0, 1.2]), {}
x, paths["gradient descent"] = start, [start]
for _ in range(40):
    x = x - 0.035 * curvature * x
    paths["gradient descent"].append(x)
x, m, v, paths["Adam"] = start.copy(), np.zeros(2), np.zeros(2), [start]
for t in range(1, 41):
    adam_step(x, curvature * x, m, v, 0.2, t, beta2=0.99)
    paths["Adam"].append(x.copy())
# %% tags=["hide-input"]
ax = Figure(figsize=(7, 3.2), layout="constrained").add_subplot()
a, b = np.meshgrid(np.linspace(-4.5, 1.5, 80), np.linspace(-1.5, 1.5, 80))
ax.contour(a, b, a * a + 50 * b * b, 12, colors="lightgray")
for (name, path), style in zip(paths.items(), ("o-", "s--")):
    ax.plot(*np.transpose(path), style, markersize=4, label=name)
ax.set(xlabel="flat direction", ylabel="steep direction")
ax.legend(loc="lower right")
ax.figure

# %% [markdown]
# > Adam divides each parameter's mean gradient by the typical size of its gradients, so that flat
# > and steep directions advance at similar speed.
#
# It keeps two running means for every parameter, of the gradient g and of its square:
#
# $$m_t = \beta_1 m_{t-1} + (1 - \beta_1)\, g_t, \qquad
# v_t = \beta_2 v_{t-1} + (1 - \beta_2)\, g_t^2, \qquad m_0 = v_0 = 0$$
#
# Starting at 0 makes them too small at first. By how much? Unroll the first recurrence:
#
# $$m_t = (1 - \beta_1) \sum_{i=1}^{t} \beta_1^{t-i} g_i
# \qquad \text{(insert } m_{t-1}, m_{t-2}, \dots \text{)}$$
#
# $$m_t = (1 - \beta_1) \frac{1 - \beta_1^t}{1 - \beta_1}\, g = (1 - \beta_1^t)\, g
# \qquad \text{(if all } g_i = g \text{: geometric series)}$$
#
# So a division by $1 - \beta_1^t$ corrects m, and in the same way $1 - \beta_2^t$ corrects v. AdamW
# also shrinks the weights a little, with the rate $\lambda$ (*weight decay*); a small $\epsilon$
# prevents a division by 0:
#
# $$\theta \leftarrow (1 - \eta \lambda)\, \theta -
# \eta\, \frac{m_t / (1 - \beta_1^t)}{\sqrt{v_t / (1 - \beta_2^t)} + \epsilon}$$
#
# In the first step the fraction is $g / |g| = \pm 1$ (without $\epsilon$): every parameter moves by
# $\eta$, whatever the size of its gradient. The picture shows a price, too: the running mean
# carries Adam past the minimum.

# %%
def adamw(theta, g, m, v, t, eta, beta1=0.9, beta2=0.999, epsilon=1e-8, decay=0.1):
    m = beta1 * m + (1 - beta1) * g
    v = beta2 * v + (1 - beta2) * g * g
    step = (m / (1 - beta1 ** t)) / (np.sqrt(v / (1 - beta2 ** t)) + epsilon)
    return (1 - eta * decay) * theta - eta * step, m, v


rng = np.random.default_rng(0)
theta, m, v = rng.standard_normal(5), 0, 0
expected, mean, square = theta.copy(), np.zeros(5), np.zeros(5)
for t in range(1, 11):
    g = rng.standard_normal(5)
    theta, m, v = adamw(theta, g, m, v, t, eta=0.1)
    adam_step(expected, g, mean, square, 0.1, t, weight_decay=0.1)    # the library's, in place
print(f"largest difference after ten steps {np.abs(theta - expected).max():.0e}")

# %% [markdown] minutes=20
# ## Experiment: the optimizer, and what accompanies it
#
# Three techniques accompany the optimizer. A *warm-up* raises the learning rate from 0, because the
# first running means rest on few gradients. A *schedule* lowers it at the end, so that the weights
# settle. *Clipping* bounds the norm of the gradient. With the peak $\eta_p$, the lowest rate
# $\eta_f$, step s = 0, 1, ... of S steps, the first w of them for the warm-up, and the largest norm
# c:
#
# $$\eta_s = \eta_p \frac{s + 1}{w + 1} \quad (s < w), \qquad \eta_s = \eta_f + \tfrac12
# (\eta_p - \eta_f) \Big( 1 + \cos \pi \frac{s - w}{S - w} \Big) \quad (s \ge w)$$
#
# $$g \leftarrow g \cdot \min\Big( 1, \frac{c}{\lVert g \rVert} \Big)$$
#
# **We expect** that AdamW beats gradient descent clearly, since characters are frequent or rare and
# their gradients large or small, and that the three techniques reduce the loss further. A small
# model, 100 steps, three seeds, and several learning rates: each design has one that suits it. For
# gradient descent we tried 0.1, 0.3, 0.5 and 1.0, then momentum 0.9 with 0.1 and 0.3, then the
# three techniques with 1.0 and 2.0: nothing is better than 0.3 alone by more than seeds differ.

# %%
def held_out_loss(seed, **options):
    small = DecoderConfig(vocab_size=len(tokenizer), context_length=32, n_layers=2, n_heads=2,
                          d_model=48, norm="rms_norm", feedforward="swiglu", positions="rotary",
                          bias=False, init_std=0.08)
    settings = TrainingConfig(steps=100, batch_size=16, shards=1, seed=seed, **options)
    trainer = Trainer(Decoder(small, np.random.default_rng(seed)),
                      BlockStream(text, 32, batch_size=16, seed=seed),
                      consecutive_blocks(held_out, 32, blocks=100), settings)
    for _ in range(100):
        trainer.train_step()
    return round(trainer.evaluate(), 2)


plain = {"schedule": "constant", "warmup_steps": 0, "clip_norm": 0.0}
three = {"warmup_steps": 20, "min_learning_rate": 2e-4, "clip_norm": 1.0}
for name, rates, options in (
        ("gradient descent", (0.3,), {**plain, "optimizer": "sgd", "momentum": 0.0}),
        ("AdamW", (4e-3, 8e-3, 16e-3), plain),
        ("AdamW, all three", (4e-3, 8e-3, 16e-3), three)):
    for rate in rates:
        print(f"{name:16}, rate {rate:5}: loss on held-out text, seeds 1, 2, 3:",
              [held_out_loss(seed, learning_rate=rate, **options) for seed in (1, 2, 3)])

# %% [markdown]
# > In this short training AdamW is ahead of gradient descent with every seed. Warm-up, schedule and
# > clipping allow a larger learning rate; they do not lower the best loss.
#
# **What came out.** The first expectation holds with every seed at the rates 0.004 and 0.008. The
# second fails: had we compared at 0.008 alone, the three techniques would have won. But AdamW
# without them prefers 0.004, and then the two are about equal. What the techniques change is how
# much too large a rate costs. This does not show whether the same holds after many more steps.
#
# Now the model of this lesson, 200 steps with all three. The curve of the learning rate shows the
# warm-up and the cosine; the loss falls fast, then slowly.

# %%
training = TrainingConfig(steps=200, batch_size=16, learning_rate=4e-3, min_learning_rate=2e-4,
                          warmup_steps=20)
trainer, metrics = Trainer(model, stream, consecutive_blocks(held_out, T, blocks=200), training), []
for step in range(training.steps):
    metrics.append(trainer.train_step())
    if trainer.step % 50 == 0:
        metrics.append({"step": trainer.step, "val_loss": trainer.evaluate()})
        print(f"step {trainer.step}: held-out loss {trainer.val_loss:.3f} nats, "
              f"{trainer.val_loss / np.log(2):.3f} bits per character")
# %% tags=["hide-input"]
learning_rate_curve(metrics).figure

# %% tags=["hide-input"]
loss_curve(metrics).figure

# %% [markdown] minutes=10
# ## Sampling: choosing the next token
#
# A forward pass does not output a token. It outputs logits, and choosing a token is a step of its
# own. The picture shows the most likely characters after "the " at three temperatures.

# %%
logits = model(tokenizer.encode("the ")[None])[0, -1]              # (V,)
top = np.argsort(-logits)[:8]
# %% tags=["hide-input"]
ax = Figure(figsize=(7, 3), layout="constrained").add_subplot()
for offset, temperature in zip((-0.27, 0, 0.27), (0.5, 1.0, 2.0)):
    p, _ = softmax(logits / np.float32(temperature))
    ax.bar(np.arange(8) + offset, p[top], 0.27, label=f"temperature {temperature}")
ax.set_xticks(range(8), [repr(vocabulary[i]) for i in top])
ax.set(ylabel="probability")
ax.legend()
ax.figure

# %% [markdown]
# $$p = \mathrm{softmax}(z / \tau), \qquad \frac{p_i}{p_j} = e^{(z_i - z_j) / \tau},
# \qquad z, p: (V,)$$
#
# > The temperature $\tau$ changes the ratios of probabilities: below 1 the distribution becomes
# > sharper, above 1 flatter, towards 0 only the most likely token remains.
#
# **Think.** At $\tau = 1$ one character is four times as likely as another. What is the ratio at
# $\tau = \tfrac12$, and at $\tau = 2$?
#
# <details><summary>Answer</summary>
#
# 16 and 2. The logarithm of the ratio, $(z_i - z_j) / \tau$, is doubled or halved, so the ratio is
# squared, or its root is taken.
#
# </details>
#
# The sampled token is appended to the text, and the model runs again: *autoregressive* generation.
# With a cache of keys and values only the new token has to be computed.

# %%
for temperature in (0.3, 0.8, 1.2):
    ids = generate(model, tokenizer.encode("The "), 100, np.random.default_rng(0),
                   temperature=temperature)
    print(f"{temperature}: {'The ' + tokenizer.decode(list(ids))!r}")

# %% [markdown]
# **Exercise 10.2** (5 minutes). Gemma 2 bounds its logits before the softmax: $y = c \tanh(x / c)$
# with a cap c. Small logits pass, large ones approach c. Write the gradient; use $\tanh' = 1 -
# \tanh^2$. `hint("soft_cap_backward")` helps; after a pass, `solution("soft_cap_backward")` shows
# ours.

# %%
def soft_cap_backward(dy, x, cap):
    """dy and x have the same shape, with any number of axes. Return dx."""
    ...


check("soft_cap_backward", soft_cap_backward, seed=0)

# %% [markdown] minutes=15
# ## Looking inside: the residual stream is a sum
#
# Where does each head look? The grid shows the attention weights of every head for one text, a row
# of maps for each block. (Colours follow the square root of the weight.) In this text nearly all
# heads put most of their weight on the three positions right before the query, as the cell prints;
# the first head of block 1 is broad.

# %%
words = "the value of an expr"
ids = tokenizer.encode(words)[None]
view, = attention_views(model, Reading((ids,), list(words)))
near = np.arange(len(words))[:, None] - np.arange(len(words))         # t - s
for layer, weights in enumerate(view.weights, 1):                     # (H, T, T) each
    share = (weights * ((near >= 1) & (near <= 3))).sum(axis=(1, 2)) / len(words)
    print(f"block {layer}, weight on the three positions before, by head:", share.round(2))
# %% tags=["hide-input"]
attention_grid(view.weights, view.masks, title="All heads").figure

# %% [markdown]
# > Each attention and each feed-forward network reads from the residual stream and adds to it. So
# > the final vector, and every logit, is a sum of contributions.
#
# The *residual stream* of a position is its vector x, which the blocks change step by step. With
# $a_l$ and $f_l$ for what the attention and the feed-forward network of block l add, each (B, T,
# C):
#
# $$x_L = x_0 + \sum_{l=1}^{L} (a_l + f_l)$$
#
# $$z_v = \mathrm{norm}(x_L) \cdot W_v = r\, (\gamma \odot W_v) \cdot x_L
# = r\, (\gamma \odot W_v) \cdot x_0 + \sum_l r\, (\gamma \odot W_v) \cdot (a_l + f_l)$$
#
# The last norm is an RMSNorm, which multiplies by one number r and the weight $\gamma$; with r held
# fixed it is linear, and the sum splits. What if we stop early? The *logit lens* applies norm and
# head to each $x_l$: what would the model predict after block l? In the lowest row nothing has been
# computed yet, and with a tied table each character predicts itself.

# %%
lens = logit_lens(model, ids)
# %% tags=["hide-input"]
lens_map(lens[:, 0], vocabulary, list(words)).figure

# %% [markdown]
# And which parts produced the last prediction? One bar for each term of the sum:

# %%
logits = model(ids)[0, -1]                                            # (V,)
token = int(logits.argmax())
contributions = logit_contributions(model, ids, token)
print(f"sum of the bars {sum(contributions.values()):.4f}, logit {logits[token]:.4f}, "
      f"probability {softmax(logits)[0][token]:.2f}")
# %% tags=["hide-input"]
contribution_bars(contributions, vocabulary[token]).figure

# %% [markdown]
# These pictures describe one model and one text. They suggest what a part does; to show it, remove
# the part and measure the loss.
#
# **Think.** The loss of the first batch before training is near $\log V$, but a little above it.
# Why not exactly, and why not below?
#
# <details><summary>Answer</summary>
#
# Random weights give random logits, so the predictions are not uniform but differ from it in a way
# that has nothing to do with the text. Noise in the logits raises the mean of the log-sum-exp, and
# on average it does not raise the logit of the target.
#
# </details>

# %% [markdown] minutes=5
# ## Summary
#
# - One text gives a target at every position; the loss is the mean of $-\log p$ of the true next
#   tokens, in nats.
# - Head and loss: $\bar{z} = (p - \text{target}) / N$, $\bar{h} = \bar{z} W$, $\bar{W} =
#   \bar{z}^\top h$. A tied table adds the gradients of both uses.
# - AdamW divides a running mean of gradients by the root of a running mean of their squares, both
#   corrected by $1 - \beta^t$.
# - Sampling: $\mathrm{softmax}(z / \tau)$, choose, append, repeat.
# - The residual stream is a sum, so a logit splits into one contribution for each part.
#
# More practice: `numformer exercises 07 08 10 14 28 30 38`. Then train a larger model, `numformer
# train --preset nanogpt-cpu --out RUN`, and open `numformer explore RUN`.

# %% [markdown]
# ## Further reading
#
# - Radford et al. (2019), "Language Models are Unsupervised Multitask Learners": GPT-2.
# - Kingma and Ba (2015), "Adam: A Method for Stochastic Optimization", algorithm 1; Loshchilov and
#   Hutter (2019), "Decoupled Weight Decay Regularization", algorithm 2.
# - Pascanu, Mikolov and Bengio (2013), "On the Difficulty of Training Recurrent Neural Networks",
#   algorithm 1: clipping.
# - Elhage et al. (2021), "A Mathematical Framework for Transformer Circuits": the residual stream.
# - The code: `numformer/models/decoder/model.py`, `numformer/training/trainer.py`,
#   `numformer/functional/adam.py`, `numformer/generation/sampling.py`; all of it on one page:
#   `numformer/minimal.py`, which lesson 22 reads line by line.
