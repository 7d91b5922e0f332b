# %% [markdown]
# # 13. T5: everything is text to text
#
# Time: about 20 seconds on 2 cores.
#
# **Goals.** See span corruption; train one model for several tasks, each named by a prefix of the
# text; know T5's relative position biases and its unscaled scores.
#
# **Before.** Notebooks 3 and 11.

# %%
# %matplotlib inline
import numpy as np

from numformer import check
from numformer.analysis import count
from numformer.analysis.attention_views import Reading, attention_views
from numformer.data import CharacterTokenizer, PairStream, consecutive_pairs, corrupt_spans
from numformer.generation import greedy_search
from numformer.models import ENCODER_DECODERS, EncoderDecoder, EncoderDecoderConfig
from numformer.plots import alignment_map, position_biases
from numformer.training import Trainer, TrainingConfig

# %% [markdown]
# ## Span corruption
#
# Replace spans of the text by sentinels; the target lists the tokens that each sentinel replaced.
# The encoder reads all remaining tokens, and the decoder generates only the short target.

# %%
words = np.array("thank you for inviting me to your party last week".split())
source, target = corrupt_spans(np.arange(len(words)), [101, 102, 103], np.random.default_rng(1),
                               rate=0.4, mean_span=2)


def shown(ids):
    return " ".join(f"<{i - 101}>" if i > 100 else str(words[i]) for i in ids)


print(shown(source), "  ->  ", shown(target))

# %% [markdown]
# ## Text to text
#
# After pre-training, every task is a text with an instruction as its prefix. Our tasks are small:
# "reverse:" and "sort:" a few letters, in one model.

# %%
rng, SPECIAL = np.random.default_rng(0), ("[PAD]", "[BOS]", "[EOS]")


def pair():
    letters = "".join(rng.choice(list("abcdefgh"), rng.integers(2, 7)))
    if rng.random() < 0.5:
        return f"reverse: {letters}", letters[::-1]
    return f"sort: {letters}", "".join(sorted(letters))


def encoded(pairs):
    return [(tokenizer.encode(source), tokenizer.encode(target)) for source, target in pairs]


everything = list(dict.fromkeys(pair() for _ in range(9000)))
pairs, held_out = everything[300:], everything[:300]
tokenizer = CharacterTokenizer.of("".join(map("".join, everything)), special=SPECIAL)
ids = tuple(tokenizer.special_id(name) for name in SPECIAL)
config = EncoderDecoderConfig(vocab_size=len(tokenizer), context_length=32, n_layers=2, n_heads=8,
                              d_model=64, norm="rms_norm", norm_first=True, positions="t5",
                              scaled_scores=False, bias=False, feedforward="relu", init_std=0.08)
model = EncoderDecoder(config, np.random.default_rng(0))
training = TrainingConfig(steps=420, batch_size=96, optimizer="muon", learning_rate=0.006,
                          min_learning_rate=0.0, warmup_steps=30, schedule="linear", momentum=0.95,
                          muon_ratio=2.0, weight_decay=0.0)
trainer = Trainer(model, PairStream(encoded(pairs), 96, 0, *ids, 1),
                  consecutive_pairs(encoded(held_out), 100, *ids), training)
for step in range(training.steps):
    trainer.train_step()
answers = greedy_search(model, [source for source, _ in encoded(held_out)], *ids, max_tokens=12)
right = np.array([tokenizer.decode(answer) == target
                  for answer, (_, target) in zip(answers, held_out)])
for task in ("reverse", "sort"):
    chosen = np.array([source.startswith(task) for source, _ in held_out])
    print(f"{task}: {right[chosen].mean():.1%} of {chosen.sum()} held-out prompts exactly right")

# %%
def cross_attention(source):
    source_ids = tokenizer.encode(source)                             # (S,)
    answer, = greedy_search(model, [source_ids], *ids, max_tokens=12)
    inputs = (source_ids[None], np.array([len(source)]), np.array([[ids[1], *answer]]))
    target = ["[BOS]", *tokenizer.decode(answer), "[EOS]"]
    return attention_views(model, Reading(inputs, list(source), target))[-1]


cross = cross_attention("reverse: bacdhg")
alignment_map(cross.weights[-1].mean(axis=0), cross.keys, cross.queries,
              title="reverse: the other diagonal").figure

# %% [markdown]
# ## Relative position buckets, and unscaled scores
#
# $$z_{ij} = q_i \cdot k_j + \beta_{b(j - i)}$$
#
# T5 adds to each score a learned number for its bucket of distances, shared by all layers. It does
# not divide scores by $\sqrt{D}$ (T5's own code makes the initial query weights smaller by that
# factor instead; this model does not). Here are the learned biases of four heads:

# %%
biases = model.encoder.blocks[0].attention.positions.added_to_scores(20, 20)      # (H, 20, 20)
position_biases(biases[:4], title="The encoder's bias by distance").figure

# %% [markdown]
# The published sizes, counted without building the models:

# %%
for name in ("t5-small", "t5-base", "t5-large"):
    print(f"{name}: {count(ENCODER_DECODERS[name])['parameters'] / 1e6:.0f} M parameters")

# %% [markdown]
# ## Is the gradient right?
#
# One bias is added to many scores, so the gradient with respect to the bias of a distance is the
# sum over its diagonal.

# %%
def add_by_distance_backward(dz, scores, bias):
    T, S = dz.shape[-2:]
    dbias = [dz.diagonal(k - T + 1, -2, -1).sum(axis=-1).reshape(-1, bias.shape[0]).sum(axis=0)
             for k in range(T + S - 1)]
    return dz, np.stack(dbias, axis=1)                                # (..., T, S), (H, T + S - 1)


check("add_by_distance_backward", add_by_distance_backward, seed=0)

# %% [markdown]
# ## Exercises
#
# 1. Why is the decoder's target shorter in span corruption than in BART's denoising?
# 2. What could go wrong with unscaled scores and large initial weights? (Notebook 2.)
# 3. `numformer train --preset t5`, and then `numformer sample RUN --prompt "add: 27+15"`.
