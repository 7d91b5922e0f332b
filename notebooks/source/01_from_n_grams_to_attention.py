# %% [markdown]
# # 1. From n-grams and recurrent networks to attention
#
# Time: about 20 seconds on 2 cores.
#
# **Goals.** Know what a language model is; count one; see what it forgets; see why a recurrent network forgets too, and what attention
# does instead.
#
# **Before.** Probability, matrix products; no neural networks yet.

# %%
# %matplotlib inline
import numpy as np

from numformer.datasets import load_corpus
from numformer.models import (
    Decoder, DecoderConfig, KneserNey, RecurrentLanguageModel, RecurrentLanguageModelConfig, gradient_by_distance)
from numformer.plots import gradients_by_distance, losses_by_tokens
from numformer.tokenizers import CharacterTokenizer
from numformer.training import BlockStream, Trainer, TrainingConfig, consecutive_blocks

# %% [markdown]
# ## Idea: predict what comes next
#
# A language model gives every possible next character a probability. The better it knows the language, the less it is surprised:
#
# $$\text{loss} = -\frac{1}{T} \sum_t \log p(x_t \mid x_1 \dots x_{t-1})$$
#
# in nats; divided by $\log 2$, in bits a character. Our text is the documentation that comes with Python.

# %%
corpus = load_corpus()
tokenizer = CharacterTokenizer.of(corpus.text)
text, held_out = (tokenizer.encode(part) for part in corpus.split())
V = len(tokenizer)
print(f"{len(text):,} characters to learn from, {len(held_out):,} held out, {V} different ones; guessing costs {np.log2(V):.2f} bits")

# %% [markdown]
# ## Counting: the Markov assumption
#
# An n-gram model believes that only the last n - 1 characters matter, and looks in the text what came after them. Long histories were
# rarely seen, so Kneser and Ney take a little from every count and give it to the shorter histories.

# %%
for n in range(1, 7):
    model = KneserNey.fit(text, n, V)
    print(f"n = {n}: {model.bits_per_character(held_out):.3f} bits a character, {len(model.codes[-1]):,} n-grams")

# %%
model = KneserNey.fit(text, 6, V)
rng, ids = np.random.default_rng(0), list(tokenizer.encode("The "))
for _ in range(200):
    ids.append(rng.choice(V, p=model.distribution(np.array(ids[-5:]))))
print(tokenizer.decode(ids))

# %% [markdown]
# It writes words, but no sentence: six characters back the world ends. A table with longer histories is not the cure; most of them
# would never have been seen.
#
# ## Recurrent networks: a state that remembers
#
# $$h_t = \tanh(x_t W + h_{t-1} U + b)$$
#
# The state may hold anything that was read, however long ago. But training has to find out *what* to hold, and the gradient of a loss
# by what was read k steps earlier is a product of k Jacobians,
#
# $$\frac{\partial h_t}{\partial h_{t-k}} = \prod_{i} \mathrm{diag}(1 - h_i^2)\, U^\top$$
#
# which shrinks (or explodes) with k. Attention reaches back in one step.

# %%
T, config = 64, TrainingConfig(steps=300, batch_size=16, learning_rate=5e-3, min_learning_rate=5e-4, warmup_steps=10, eval_every=60)
models = {
    "RNN": RecurrentLanguageModel(RecurrentLanguageModelConfig(vocab_size=V, context_length=T, cell="rnn", n_layers=1, d_model=160),
                                  np.random.default_rng(0)),
    "LSTM": RecurrentLanguageModel(RecurrentLanguageModelConfig(vocab_size=V, context_length=T, cell="lstm", n_layers=1, d_model=96),
                                   np.random.default_rng(0)),
    "attention": Decoder(DecoderConfig(vocab_size=V, context_length=T, n_layers=2, n_heads=4, d_model=64, norm="rms_norm",
                                       feedforward="swiglu", positions="rotary", bias=False, init_std=0.08), np.random.default_rng(0)),
}
validation, curves = consecutive_blocks(held_out, T, blocks=200), {}
for name, model in models.items():
    trainer = Trainer(model, BlockStream(text, T, config.batch_size, seed=0), validation, config)
    curve = [(0, trainer.evaluate())]
    for step in range(config.steps):
        trainer.train_step()
        if trainer.step % config.eval_every == 0:
            curve.append((trainer.tokens, trainer.evaluate()))
    curves[name] = curve
    print(f"{name}: {sum(p.data.size for p in model.parameters()):,} parameters, loss {curve[-1][1]:.3f} nats")

# %%
losses_by_tokens(curves).figure

# %% [markdown]
# After these few steps the counts of six characters are still ahead of all three: counting learns at once. The networks go on learning;
# what they reach in minutes stands in `numformer/tasks/RESULTS.md`.
#
# How far back does each of them feel? The length of the gradient of one prediction by the vectors of earlier characters:

# %%
batch = validation[0]
print(batch.inputs.shape, model.loss(batch)[0])                       # (B, T) ids, of which each predicts the next: one loss
profiles = {name: gradient_by_distance(model, batch.inputs[:8], batch.targets[:8]) for name, model in models.items()}
gradients_by_distance(profiles).figure

# %% [markdown]
# On a logarithmic axis a straight line is a constant factor a step. The RNN's gradient falls by many powers of ten within 32 characters:
# nothing so far back can be learned. Attention's falls a hundredfold within the first dozen, and then no further: a character at distance
# 30 counts as much as one at distance 15.
#
# ## Is the gradient right?
#
# Every gradient of this course can be checked. Here is one step of the RNN:

# %%
from numformer import check


def rnn_cell_backward(dh, x, state, input_weight, recurrent_weight, bias):
    h = np.tanh(x @ input_weight + state @ recurrent_weight + bias)
    da = dh * (1 - h * h)                                             # h = tanh(a)
    return da @ input_weight.T, da @ recurrent_weight.T, x.T @ da, state.T @ da, da.sum(axis=0)


check("rnn_cell_backward", rnn_cell_backward, seed=0)

# %% [markdown]
# ## Exercises
#
# 1. Why is the n-gram model with n = 6 hardly better than that with n = 5 on held-out text? What would a larger text change?
# 2. Forget `(1 - h * h)` in `rnn_cell_backward`. What does `check` say?
# 3. Exercises `21_rnn_cell` and `22_rnn_cell_backward` (`numformer exercises 21 22`).
