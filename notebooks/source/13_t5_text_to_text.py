# %% [markdown]
# # 13. T5: everything is text to text
#
# Time: about 20 seconds on 2 cores.
#
# **Goals.** See span corruption; one model that does what the text tells it; relative positions by buckets; unscaled scores.
#
# **Before.** Notebooks 3 and 11.

# %%
# %matplotlib inline
import numpy as np

from numformer import check
from numformer.functional import add_by_distance
from numformer.generation import write_greedily
from numformer.models import ENCODER_DECODERS, EncoderDecoder, EncoderDecoderConfig, count
from numformer.plots import alignment_map, position_biases
from numformer.plots.views import Reading, attention_views
from numformer.tokenizers import CharacterTokenizer
from numformer.training import PairStream, Trainer, TrainingConfig, consecutive_pairs, corrupt_spans

# %% [markdown]
# ## Span corruption
#
# Replace spans by sentinels; the answer says what stood there. The encoder sees all that is left, the decoder writes little.

# %%
words = np.array("thank you for inviting me to your party last week".split())
source, target = corrupt_spans(np.arange(len(words)), [101, 102, 103], np.random.default_rng(1), rate=0.4, mean_span=2)
said = lambda ids: " ".join(f"<{i - 101}>" if i > 100 else str(words[i]) for i in ids)
print(said(source), "  ->  ", said(target))

# %% [markdown]
# ## Text to text
#
# After that, every task is a text with an instruction before it. Ours, small: "reverse:" and "sort:" of a few letters, in one model.

# %%
rng, SPECIAL = np.random.default_rng(0), ("[PAD]", "[BEGIN]", "[END]")


def pair():
    letters = "".join(rng.choice(list("abcdefgh"), rng.integers(2, 7)))
    return (f"reverse: {letters}", letters[::-1]) if rng.random() < 0.5 else (f"sort: {letters}", "".join(sorted(letters)))


everything = list(dict.fromkeys(pair() for _ in range(9000)))
pairs, held_out = everything[300:], everything[:300]
tokenizer = CharacterTokenizer.of("".join(map("".join, everything)), special=SPECIAL)
ids = tuple(tokenizer.special_id(name) for name in SPECIAL)
encoded = lambda pairs: [(tokenizer.encode(source), tokenizer.encode(target)) for source, target in pairs]
config = EncoderDecoderConfig(vocab_size=len(tokenizer), context_length=32, n_layers=2, n_heads=8, d_model=64, norm="rms_norm",
                              norm_first=True, positions="t5", scaled_scores=False, bias=False, feedforward="relu", init_std=0.08)
model = EncoderDecoder(config, np.random.default_rng(0))
training = TrainingConfig(steps=420, batch_size=96, optimizer="muon", learning_rate=0.006, min_learning_rate=0.0, warmup_steps=30,
                          schedule="linear", momentum=0.95, muon_ratio=2.0, weight_decay=0.0)
trainer = Trainer(model, PairStream(encoded(pairs), 96, 0, *ids, 1), consecutive_pairs(encoded(held_out), 100, *ids), training)
for step in range(training.steps):
    trainer.train_step()
answers = write_greedily(model, [source for source, _ in encoded(held_out)], *ids, longest=12)
right = np.array([tokenizer.decode(answer) == target for answer, (_, target) in zip(answers, held_out)])
for task in ("reverse", "sort"):
    chosen = np.array([source.startswith(task) for source, _ in held_out])
    print(f"{task}: {right[chosen].mean():.1%} of {chosen.sum()} held-out prompts exactly right")

# %%
def look(source):
    (answer,) = write_greedily(model, [tokenizer.encode(source)], *ids, longest=12)
    inputs = (tokenizer.encode(source)[None], np.array([len(source)]), np.array([[ids[1], *answer]]))
    views = attention_views(model, Reading(inputs, list(source), ["[BEGIN]", *tokenizer.decode(answer), "[END]"]))
    return views[-1]


cross = look("reverse: bacdhg")
alignment_map(cross.weights[-1].mean(axis=0), cross.keys, cross.queries, title="reverse: the other diagonal").figure

# %% [markdown]
# ## Positions by buckets, and unscaled scores
#
# $$z_{ij} = q_i \cdot k_j + \beta_{b(j - i)}$$
#
# T5 adds a learned number by distance to the scores, the same in all layers, and divides nothing by $\sqrt{D}$ (in T5's own
# code the queries' initial weights are that much smaller instead; here they are not). What it has learned, for four of its heads:

# %%
relative = model.encoder.blocks[0].attention.relative
bias = relative.lookup(20, 20)[0].astype(np.float64)                  # (H, 39)
position_biases(add_by_distance(np.zeros((len(bias), 20, 20)), bias)[0][:4], title="The encoder's bias by distance").figure

# %% [markdown]
# The published sizes, counted without building them:

# %%
for name in ("t5-small", "t5-base", "t5-large"):
    print(f"{name}: {count(ENCODER_DECODERS[name])['parameters'] / 1e6:.0f} M parameters")

# %% [markdown]
# ## Is the gradient right?
#
# A bias serves many cells: every distance collects the gradients of its diagonal.

# %%
def add_by_distance_backward(dz, scores, bias):
    T, S = dz.shape[-2:]
    dbias = np.stack([dz.diagonal(k - T + 1, -2, -1).sum(axis=-1).reshape(-1, bias.shape[0]).sum(axis=0) for k in range(T + S - 1)], axis=1)
    return dz, dbias


check("add_by_distance_backward", add_by_distance_backward, seed=0)

# %% [markdown]
# ## Exercises
#
# 1. Why does the decoder of span corruption see less text than that of BART's denoising?
# 2. What could go wrong with unscaled scores and large initial weights? (Notebook 2.)
# 3. `numformer train --preset t5`, and then `numformer sample RUN --prompt "add: 27+15"`.
