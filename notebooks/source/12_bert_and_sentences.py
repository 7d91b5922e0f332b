# %% [markdown]
# # 12. BERT, and vectors for sentences
#
# Time: about 40 seconds on 2 cores.
#
# **Goals.** Mask tokens and guess them from both sides; know what the class token and segments are for; make sentence vectors with
# one encoder called twice, and tune them.
#
# **Before.** Notebooks 4, 5 and 10.

# %%
# %matplotlib inline
import numpy as np

from numformer import check
from numformer.datasets import library_text
from numformer.functional import cosine_similarity
from numformer.models import Bert, BertConfig, SentenceBert, SentenceBertConfig, take_over_trunk
from numformer.plots import attention_grid, loss_curve
from numformer.plots.views import Reading, attention_views
from numformer.tokenizers import BytePairTokenizer
from numformer.training import BertStream, Trainer, TrainingConfig, mask_tokens, passage_rows

# %% [markdown]
# ## Byte pairs
#
# Words are too many, characters too small. Begin with bytes, and merge again and again the pair that stands most often side by side:

# %%
SPECIAL = ("[PAD]", "[CLS]", "[SEP]", "[MASK]")
text = library_text().text[:400_000]
tokenizer = BytePairTokenizer.of(text, 600, special=SPECIAL)
ids = tokenizer.encode("Return the number of arguments of a function.")
print([tokenizer.decode([i]) for i in ids])

# %% [markdown]
# ## Masked language modelling
#
# Hide some of the tokens and guess them from both sides, so no mask over the attention is needed. BERT hides 15%; small models learn
# faster from 30%, as here. Of the hidden ones 80% become [MASK], 10% a random token and 10% stay: at test time there is no [MASK], and
# the model must not rely on it. A text stands between [CLS] and [SEP]; what the class token has seen is what a classifier reads. BERT
# also learned whether two texts follow each other, with a vector added for the first and another for the second, its *segments*; this
# model has one text and needs none.

# %%
rng = np.random.default_rng(0)
row = np.array([[tokenizer.special_id("[CLS]"), *ids, tokenizer.special_id("[SEP]")]])
masks = dict(special=range(4), vocab_size=len(tokenizer), mask_id=tokenizer.special_id("[MASK]"))
inputs, targets = mask_tokens(row, rng=np.random.default_rng(3), rate=0.3, **masks)
print("".join(tokenizer.decode([i]) for i in inputs[0]))
print((targets != -100).sum(), "to be guessed; the loss looks at these alone")

# %%
T, all_ids, layout = 48, tokenizer.encode(text), [tokenizer.special_id(name) for name in SPECIAL[:3]]
rows = passage_rows([(all_ids[k:k + T - 2],) for k in range(0, len(all_ids) - T, T - 2)], T, *layout)
config = BertConfig(vocab_size=len(tokenizer), context_length=T, n_layers=2, n_heads=4, d_model=96, positions="rotary", segments=0,
                    next_sentence=False, dynamic_masks=True, mask_rate=0.3, init_std=0.05)
model = Bert(config, np.random.default_rng(0))
stream = BertStream(rows, seed=0, dynamic=True, batch_size=32, rate=0.3, **masks)
training = TrainingConfig(steps=900, batch_size=32, optimizer="muon", learning_rate=0.01, min_learning_rate=0.0, warmup_steps=30,
                          schedule="linear", momentum=0.95, muon_ratio=3.0, weight_decay=0.0)
trainer, metrics = Trainer(model, stream, [], training), []
for step in range(training.steps):
    metrics.append(trainer.train_step())
loss_curve(metrics, title="Loss of the hidden tokens").figure

# %%
text_row = tokenizer.encode_with(SPECIAL, "Return the[MASK] of the list.")      # a token begins with its space
row = np.array([[tokenizer.special_id("[CLS]"), *text_row, tokenizer.special_id("[SEP]")]])
place = int(np.flatnonzero(row[0] == tokenizer.special_id("[MASK]"))[0])
logits = model.masked_logits(row)[0, place]                           # of (B, T, V)
print("guesses:", [tokenizer.decode([i]) for i in np.argsort(-logits)[:8]])

# %% [markdown]
# Everyone looks at everyone, before and behind:

# %%
(view,) = attention_views(model, Reading((row,), [tokenizer.decode([i]) for i in row[0]]))
attention_grid(view.weights, title="BERT's heads").figure

# %% [markdown]
# ## Sentence vectors
#
# Average the vectors of a text's tokens, and compare texts by the cosine. To train it, run **one** encoder on anchors and on texts of
# the same matter, two calls with two `saved`, whose backwards add up in the same weights. Among all texts of the batch, an anchor's own
# shall be most like it:
#
# $$L = -\log \frac{e^{\sigma \cos(a_i, p_i)}}{\sum_j e^{\sigma \cos(a_i, p_j)}}$$

# %%
shared = ("vocab_size", "context_length", "n_layers", "n_heads", "d_model", "positions", "segments", "init_std")
sentences = SentenceBert(SentenceBertConfig(**{name: getattr(config, name) for name in shared}, objective="in_batch"),
                         np.random.default_rng(1))
take_over_trunk(sentences, model)                                     # begin with what BERT has learned


def vectors(texts):
    rows = passage_rows([(tokenizer.encode(each),) for each in texts], T, *layout)
    return sentences(rows.ids, rows.lengths)


texts = ["Return the length of the list.", "Return the size of the list.", "Open a socket and connect to the server.", "Close the socket."]
print(cosine_similarity(vectors(texts), vectors(texts))[0].round(2))

# %%
rows = passage_rows([(tokenizer.encode(each),) for each in texts], T, *layout)
pick = lambda *numbers: (rows.ids[list(numbers)], rows.lengths[list(numbers)])
batch = (*pick(0, 2), *pick(1, 3), *pick(2, 0), np.array([0, 1]))       # anchors, positives, negatives, topics
for step in range(20):
    sentences.zero_grad()
    loss, saved = sentences.loss(batch)
    if step == 0:
        print(f"loss {loss:.3f} before")
    sentences.loss_backward(saved)
    for parameter in sentences.parameters():
        parameter.data -= 0.02 * parameter.grad
print(f"loss {loss:.3f} after {step} steps")
print(cosine_similarity(vectors(texts), vectors(texts))[0].round(2))

# %% [markdown]
# ## Is the gradient right?

# %%
def mean_pooling_backward(dy, x):
    return np.repeat(dy[:, None] / x.shape[1], x.shape[1], axis=1)    # every place has an equal part


check("mean_pooling_backward", mean_pooling_backward, seed=0)

# %% [markdown]
# ## Exercises
#
# 1. Why must a BERT not be asked to guess *every* token of its input?
# 2. What would next-sentence prediction add, and why did RoBERTa leave it out?
# 3. `numformer train --preset bert`, then `--preset topics --from` that run. Exercise `24`.
