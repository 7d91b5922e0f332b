# %% [markdown]
# # 1. From n-grams and recurrent networks to attention
#
# Time: about 20 seconds on 2 cores.
#
# **Goals.** Know what a language model is; build one by counting; see the limits of a fixed
# history; see why a recurrent network forgets, and what attention does instead.
#
# **Before.** Probability, matrix products; no neural networks yet.

# %%
# %matplotlib inline
import numpy as np

from numformer import check
from numformer.analysis import gradient_reach
from numformer.data import BlockStream, CharacterTokenizer, consecutive_blocks, load_corpus
from numformer.models import (
    Decoder, DecoderConfig, KneserNey, RecurrentLanguageModel, RecurrentLanguageModelConfig)
from numformer.plots import gradient_reach_curves, losses_by_tokens
from numformer.training import Trainer, TrainingConfig

# %% [markdown]
# ## Idea: predict what comes next
#
# A language model assigns a probability to every possible next character. The better the model, the
# higher the probability of the characters that actually follow, and the lower the loss:
#
# $$\text{loss} = -\frac{1}{T} \sum_t \log p(x_t \mid x_1 \dots x_{t-1})$$
#
# in nats; divided by $\log 2$, in bits per character. Our text is the documentation that comes with
# Python.

# %%
corpus = load_corpus()
tokenizer = CharacterTokenizer.of(corpus.text)
text, held_out = (tokenizer.encode(part) for part in corpus.split())
V = len(tokenizer)
print(f"{len(text):,} characters for training, {len(held_out):,} held out, {V} different ones; "
      f"a uniform guess costs {np.log2(V):.2f} bits")

# %% [markdown]
# ## Counting: the Markov assumption
#
# An n-gram model assumes that only the last n - 1 characters matter, and counts what followed them
# in the training text. Long histories are rare, so Kneser and Ney discount every count a little and
# give the probability that this frees to shorter histories.

# %%
n_gram_bits = {}
for n in range(1, 7):
    model = KneserNey.fit(text, n, V)
    n_gram_bits[n] = model.bits_per_character(held_out)
    print(f"n = {n}: {n_gram_bits[n]:.3f} bits per character, {len(model.codes[-1]):,} n-grams")

# %%
model = KneserNey.fit(text, 6, V)
rng, ids = np.random.default_rng(0), list(tokenizer.encode("The "))
for _ in range(200):
    ids.append(rng.choice(V, p=model.distribution(np.array(ids[-5:]))))
print(tokenizer.decode(ids))

# %% [markdown]
# It writes words, but no sentences: the model cannot see beyond the previous five characters. A
# table of longer histories is not the solution, because most of them never occur in the training
# text.
#
# ## Recurrent networks: a state as memory
#
# $$h_t = \tanh(x_t W + h_{t-1} U + b)$$
#
# The state can hold information from any earlier step. But training has to find out *what* to hold,
# and the gradient of a loss with respect to the input k steps earlier contains a product of k
# Jacobians,
#
# $$\frac{\partial h_t}{\partial h_{t-k}} = \prod_{i} \mathrm{diag}(1 - h_i^2)\, U^\top$$
#
# which shrinks (or explodes) exponentially with k. Attention connects any two positions in one
# step.

# %%
T = 64
config = TrainingConfig(steps=300, batch_size=16, learning_rate=5e-3, min_learning_rate=5e-4,
                        warmup_steps=10, eval_every=60)
models = {
    "RNN": RecurrentLanguageModel(
        RecurrentLanguageModelConfig(vocab_size=V, context_length=T, cell="rnn", n_layers=1,
                                     d_model=160), np.random.default_rng(0)),
    "LSTM": RecurrentLanguageModel(
        RecurrentLanguageModelConfig(vocab_size=V, context_length=T, cell="lstm", n_layers=1,
                                     d_model=96), np.random.default_rng(0)),
    "attention": Decoder(
        DecoderConfig(vocab_size=V, context_length=T, n_layers=2, n_heads=4, d_model=64,
                      norm="rms_norm", feedforward="swiglu", positions="rotary", bias=False,
                      init_std=0.08), np.random.default_rng(0)),
}
validation, curves = consecutive_blocks(held_out, T, blocks=200), {}
for name, model in models.items():
    trainer = Trainer(model, BlockStream(text, T, config.batch_size, seed=0), validation, config)
    curve = [(0, trainer.evaluate())]
    for step in range(config.steps):
        trainer.train_step()
        if trainer.step % config.eval_every == 0:
            curve.append((trainer.n_targets, trainer.evaluate()))
    curves[name] = curve
    n_parameters = sum(parameter.data.size for parameter in model.parameters())
    print(f"{name}: {n_parameters:,} parameters, loss {curve[-1][1]:.3f} nats = "
          f"{curve[-1][1] / np.log(2):.3f} bits per character")
curves["6-gram"] = [(len(text), n_gram_bits[6] * np.log(2))]          # nats, like the networks

# %%
losses_by_tokens(curves).figure

# %% [markdown]
# In the same unit, bits per character, the 6-gram model is still ahead of all three networks: it
# has counted the whole text, and they have read a part of it once. The networks go on improving:
# `numformer/recipes/RESULTS.md` lists what they reach in minutes.
#
# How far back does each model look? We plot the norm of the gradient of one prediction with respect
# to the embeddings of earlier characters.

# %%
batch = validation[0]
print(batch.inputs.shape, model.loss(batch)[0])                       # (B, T) ids; the mean loss
profiles = {name: gradient_reach(model, batch.inputs[:8], batch.targets[:8])
            for name, model in models.items()}
gradient_reach_curves(profiles).figure

# %% [markdown]
# On a logarithmic axis a straight line is a constant factor per step. The RNN's gradient falls by
# many powers of ten within 32 characters: it cannot learn dependencies of that length. The gradient
# through attention falls by a factor of about a hundred within the first dozen characters and then
# levels off: a character at distance 30 counts as much as one at distance 15.
#
# ## Is the gradient right?
#
# Every gradient of this course can be checked. Here is one step of the RNN:

# %%
def rnn_cell_backward(dh, x, state, input_weight, recurrent_weight, bias):
    h = np.tanh(x @ input_weight + state @ recurrent_weight + bias)
    da = dh * (1 - h * h)                                             # h = tanh(a)
    dx, dstate = da @ input_weight.T, da @ recurrent_weight.T
    return dx, dstate, x.T @ da, state.T @ da, da.sum(axis=0)


check("rnn_cell_backward", rnn_cell_backward, seed=0)

# %% [markdown]
# ## Exercises
#
# 1. Why is the n-gram model with n = 6 hardly better than that with n = 5 on held-out text? What
#    would a larger text change?
# 2. Leave out `(1 - h * h)` in `rnn_cell_backward`. What does `check` report?
# 3. Exercises `21_rnn_cell` and `22_rnn_cell_backward` (`numformer exercises 21 22`).
