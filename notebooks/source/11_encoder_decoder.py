# %% [markdown]
# # 11. Encoder-decoder: alignment and translation
#
# Time: about 50 seconds on 2 cores.
#
# **Goals.** See why one vector is too narrow for a sentence; Bahdanau's attention; the Transformer of 2017 with its three attentions;
# beam search.
#
# **Before.** Notebooks 2 to 5.

# %%
# %matplotlib inline
import numpy as np

from numformer import check
from numformer.datasets import date_pairs, english, french
from numformer.generation import beam_search, write_greedily
from numformer.models import EncoderDecoder, EncoderDecoderConfig, Seq2Seq, Seq2SeqConfig
from numformer.plots import alignment_map, attention_map
from numformer.plots.views import Reading, attention_views
from numformer.tokenizers import CharacterTokenizer, WordTokenizer
from numformer.training import PairStream, Trainer, TrainingConfig, consecutive_pairs

SPECIAL = ("[PAD]", "[BEGIN]", "[END]")

# %% [markdown]
# ## Bahdanau: look back while writing
#
# A recurrent network reads a date as people write it, another writes it as ISO. Without attention all that was read has to pass through
# one vector; with it, the writer takes a new average of everything that was read before each character:
#
# $$e_{tj} = v^\top \tanh(W s_{t-1} + U h_j), \qquad p_t = \mathrm{softmax}(e_t), \qquad c_t = \sum_j p_{tj} h_j$$

# %%
pairs, held_out = date_pairs(6000, seed=0), date_pairs(200, seed=0, held_out=True)
tokenizer = CharacterTokenizer.of("".join(map("".join, pairs + held_out)), special=SPECIAL)
ids = tuple(tokenizer.special_id(name) for name in SPECIAL)
print(pairs[0], pairs[1])


def encoded(pairs, tokenizer):
    return [(tokenizer.encode(source), tokenizer.encode(target)) for source, target in pairs]


def exact(model, pairs, tokenizer, longest):
    sources, targets = zip(*pairs)
    written = write_greedily(model, [tokenizer.encode(source) for source in sources], *ids, longest=longest)
    return np.mean([tokenizer.decode(answer) == target for answer, target in zip(written, targets)])


training = TrainingConfig(steps=700, batch_size=128, learning_rate=6e-3, min_learning_rate=0.0, warmup_steps=40, weight_decay=0.0)
models = {}
for attention in ("none", "additive"):
    config = Seq2SeqConfig(vocab_size=len(tokenizer), d_model=32, d_hidden=64, attention=attention)
    models[attention] = Seq2Seq(config, np.random.default_rng(0))
    trainer = Trainer(models[attention], PairStream(encoded(pairs, tokenizer), 128, 0, *ids),
                      consecutive_pairs(encoded(held_out, tokenizer), 100, *ids), training)
    for step in range(training.steps):
        trainer.train_step()
    print(f"attention {attention!r}: loss {trainer.evaluate():.3f}, exactly right {exact(models[attention], held_out, tokenizer, 16):.1%}")

# %%
source = max((source for source, _ in held_out), key=len)
(answer,) = write_greedily(models["additive"], [tokenizer.encode(source)], *ids, longest=16)
reading = Reading((tokenizer.encode(source)[None], np.array([len(source)]), np.array([[ids[1], *answer]])), list(source),
                  ["[BEGIN]", *tokenizer.decode(answer), "[END]"])
(cross,) = attention_views(models["additive"], reading)
alignment_map(cross.weights[0][0], cross.keys, cross.queries).figure

# %% [markdown]
# To write the year it looks at the year. Nobody told it where.
#
# ## The Transformer of 2017
#
# No recurrence: an encoder reads with self-attention, a decoder writes with causal self-attention and cross-attention to what was read.
# Scores are products of queries and keys now, as in notebook 2; the average that follows is the same. The task: numbers in English words
# to French ones, where "ninety" becomes four twenties and ten.

# %%
rng = np.random.default_rng(0)
numbers = rng.choice(100_000, 4000, replace=False)
pairs = [(english(int(n)), french(int(n))) for n in numbers[:3800]]
held_out = [(english(int(n)), french(int(n))) for n in numbers[3800:]]
print(pairs[0])
words = WordTokenizer.of(" ".join(" ".join(pair) for pair in pairs), special=SPECIAL)
config = EncoderDecoderConfig(vocab_size=len(words), context_length=48, n_layers=2, n_heads=4, d_model=64, init_std=0.08,
                              label_smoothing=0.1)
model = EncoderDecoder(config, np.random.default_rng(0))
training = TrainingConfig(steps=500, batch_size=64, learning_rate=4e-3, min_learning_rate=0.0, warmup_steps=100, schedule="inverse_sqrt",
                          optimizer="adam", beta2=0.98, eval_every=250)
trainer = Trainer(model, PairStream(encoded(pairs, words), 64, 0, *ids), consecutive_pairs(encoded(held_out, words), 100, *ids), training)
for step in range(training.steps):
    trainer.train_step()
print(f"loss {trainer.evaluate():.3f} nats a token, exactly right {exact(model, held_out, words, 40):.1%}")

# %% [markdown]
# Beam search keeps several beginnings and follows the likeliest:

# %%
source = english(4_276)
(answer,) = beam_search(model, [words.encode(source)], *ids, 4, 40, 0.6)
print(f"{source!r} -> {words.decode(answer)!r}; the truth: {french(4_276)!r}")

# %%
inputs = (words.encode(source)[None], np.array([len(words.encode(source))]), np.array([[ids[1], *answer]]))
reading = Reading(inputs, [words.decode([i]) for i in inputs[0][0]], ["[BEGIN]", *(words.decode([i]) for i in answer), "[END]"])
encoder, decoder, cross = attention_views(model, reading)
alignment_map(cross.weights[-1].mean(axis=0), cross.keys, cross.queries, title="From English to French").figure

# %%
attention_map(decoder.weights[0].mean(axis=0), decoder.keys, decoder.masks[0], title="The decoder's own, causal").figure

# %% [markdown]
# ## Is the gradient right?
#
# Bahdanau's scores:

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
# 2. Which of the three attentions needs padding masks, and which a causal one?
# 3. Replace `"additive"` by `"dot"`. What must hold of the widths?
