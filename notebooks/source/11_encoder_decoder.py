# %% [markdown]
# # 11. Encoder-decoder: alignment and translation
#
# Time: about 50 seconds on 2 cores.
#
# **Goals.** Bahdanau's attention, and what it changes when the source no longer has to pass through
# one vector; the Transformer of 2017 with its three attentions; beam search.
#
# **Before.** Notebooks 2 to 5.

# %%
# %matplotlib inline
import numpy as np

from numformer import check
from numformer.analysis.attention_views import Reading, attention_views
from numformer.data import (
    CharacterTokenizer, PairStream, WordTokenizer, consecutive_pairs, date_pairs, english, french)
from numformer.generation import beam_search, greedy_search
from numformer.models import EncoderDecoder, EncoderDecoderConfig, Seq2Seq, Seq2SeqConfig
from numformer.plots import alignment_map, attention_map
from numformer.training import Trainer, TrainingConfig

SPECIAL = ("[PAD]", "[BOS]", "[EOS]")

# %% [markdown]
# ## Bahdanau: attend to the source at every step
#
# A recurrent encoder reads a date as people write it, a recurrent decoder generates its ISO form.
# Without attention, the whole source has to pass through one vector of fixed size. With attention,
# the decoder computes a new average of all encoder states before each character:
#
# $$e_{tj} = v^\top \tanh(W s_{t-1} + U h_j), \qquad p_t = \mathrm{softmax}(e_t), \qquad
# c_t = \sum_j p_{tj} h_j$$

# %%
pairs, held_out = date_pairs(6000, seed=0), date_pairs(200, seed=0, held_out=True)
tokenizer = CharacterTokenizer.of("".join(map("".join, pairs + held_out)), special=SPECIAL)
ids = tuple(tokenizer.special_id(name) for name in SPECIAL)
print(pairs[0], pairs[1])


def encoded(pairs, tokenizer):
    return [(tokenizer.encode(source), tokenizer.encode(target)) for source, target in pairs]


def exact(model, pairs, tokenizer, max_tokens):
    """Whether each answer is exactly right (N,)."""
    sources = [tokenizer.encode(source) for source, _ in pairs]
    answers = greedy_search(model, sources, *ids, max_tokens=max_tokens)
    return np.array([tokenizer.decode(answer) == target
                     for answer, (_, target) in zip(answers, pairs)])


training = TrainingConfig(steps=700, batch_size=128, learning_rate=6e-3, min_learning_rate=0.0,
                          warmup_steps=40, weight_decay=0.0)
models, lengths = {}, np.array([len(source) for source, _ in held_out])
for attention in ("none", "additive"):
    config = Seq2SeqConfig(vocab_size=len(tokenizer), d_model=32, d_hidden=64, attention=attention)
    models[attention] = model = Seq2Seq(config, np.random.default_rng(0))
    trainer = Trainer(model, PairStream(encoded(pairs, tokenizer), 128, 0, *ids),
                      consecutive_pairs(encoded(held_out, tokenizer), 100, *ids), training)
    for step in range(training.steps):
        trainer.train_step()
    right = exact(model, held_out, tokenizer, 16)
    by_length = ", ".join(f"{least} to {below - 1}: {right[chosen].mean():.1%}"
                          for least, below in ((8, 12), (12, 20), (20, 40))
                          if (chosen := (lengths >= least) & (lengths < below)).any())
    print(f"attention {attention!r}: loss {trainer.evaluate():.3f}, exactly right "
          f"{right.mean():.1%}; by characters of the source {by_length}")

# %% [markdown]
# With attention the model learns the task in these few steps; without it, it does not, for dates of
# any length. This does **not** show that the vector is too narrow for a date. It shows slow
# optimisation: the recipe's model without attention, which has the same sizes, gets 97.4% of its
# held-out dates right after 6000 steps, long and short ones alike
# (`numformer train --preset seq2seq-no-attention --steps 6000 --out RUN`, then
# `numformer eval RUN`). Bahdanau et al. (2015, figure 2) found that a fixed vector limits the
# translation of long sentences; dates are too short to show it.

# %%
source = max((source for source, _ in held_out), key=len)
source_ids = tokenizer.encode(source)                                 # (S,)
answer, = greedy_search(models["additive"], [source_ids], *ids, max_tokens=16)
inputs = (source_ids[None], np.array([len(source)]), np.array([[ids[1], *answer]]))
reading = Reading(inputs, list(source), ["[BOS]", *tokenizer.decode(answer), "[EOS]"])
cross, = attention_views(models["additive"], reading)
alignment_map(cross.weights[0][0], cross.keys, cross.queries).figure

# %% [markdown]
# When it generates the year, it attends to the year. This alignment was not supervised: it follows
# from the loss alone.
#
# ## The Transformer of 2017
#
# There is no recurrence: the encoder uses self-attention, the decoder causal self-attention and
# cross-attention to the encoder's output. Scores are now products of queries and keys, as in
# notebook 2; the weighted average is the same. The task is to translate numbers from English words
# to French, where "ninety" becomes "quatre-vingt-dix", four twenties and ten.

# %%
rng = np.random.default_rng(0)
numbers = rng.choice(100_000, 4000, replace=False)
pairs = [(english(int(n)), french(int(n))) for n in numbers[:3800]]
held_out = [(english(int(n)), french(int(n))) for n in numbers[3800:]]
print(pairs[0])
words = WordTokenizer.of(" ".join(" ".join(pair) for pair in pairs), special=SPECIAL)
config = EncoderDecoderConfig(vocab_size=len(words), context_length=48, n_layers=2, n_heads=4,
                              d_model=64, init_std=0.08)
model = EncoderDecoder(config, np.random.default_rng(0))
model.label_smoothing = 0.1                                           # in training only
training = TrainingConfig(steps=500, batch_size=64, learning_rate=4e-3, min_learning_rate=0.0,
                          warmup_steps=100, schedule="inverse_sqrt", optimizer="adam", beta2=0.98,
                          eval_every=250)
trainer = Trainer(model, PairStream(encoded(pairs, words), 64, 0, *ids),
                  consecutive_pairs(encoded(held_out, words), 100, *ids), training)
for step in range(training.steps):
    trainer.train_step()
print(f"loss {trainer.evaluate():.3f} nats per token, "
      f"exactly right {exact(model, held_out, words, 40).mean():.1%}")

# %% [markdown]
# Beam search keeps several partial answers, the most likely ones, and extends each:

# %%
source = english(4_276)
source_ids = words.encode(source)                                     # (S,)
answer, = beam_search(model, [source_ids], *ids, 4, 40, 0.6)
print(f"{source!r} -> {words.decode(answer)!r}; the target: {french(4_276)!r}")

# %%
inputs = (source_ids[None], np.array([len(source_ids)]), np.array([[ids[1], *answer]]))
reading = Reading(inputs, [words.decode([i]) for i in source_ids],
                  ["[BOS]", *(words.decode([i]) for i in answer), "[EOS]"])
encoder, decoder, cross = attention_views(model, reading)
alignment_map(cross.weights[-1].mean(axis=0), cross.keys, cross.queries,
              title="From English to French").figure

# %%
attention_map(decoder.weights[0].mean(axis=0), decoder.keys, decoder.masks[0],
              title="The decoder's causal self-attention").figure

# %% [markdown]
# ## Is the gradient right?
#
# This is the gradient of Bahdanau's scores:

# %%
def additive_scores_backward(de, q, k, v):
    """e_ij = v . tanh(q_i + k_j); q (B, T, F), k (B, S, F), v (F,)."""
    t = np.tanh(q[:, :, None] + k[:, None])                           # (B, T, S, F)
    da = de[..., None] * v * (1 - t * t)
    return da.sum(axis=2), da.sum(axis=1), (de[..., None] * t).sum(axis=(0, 1, 2))


check("additive_scores_backward", additive_scores_backward, seed=0)

# %% [markdown]
# ## Exercises
#
# 1. Where does the alignment leave the diagonal, and why there?
# 2. Which of the three attentions need a padding mask, and which a causal one?
# 3. Replace `"additive"` by `"dot"`. Which widths must then be equal?
