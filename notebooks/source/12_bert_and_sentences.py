# %% [markdown]
# # 12. BERT, and sentence embeddings
#
# Time: about 40 seconds on 2 cores.
#
# **Goals.** Mask tokens and predict them from both sides; know what the class token and the
# segments are for; compute sentence embeddings with one encoder that is called twice, and fine-tune
# it.
#
# **Before.** Notebooks 4, 5 and 10.

# %%
# %matplotlib inline
import numpy as np

from numformer import check
from numformer.analysis.attention_views import Reading, attention_views
from numformer.data import (
    BytePairTokenizer, MaskedStream, PassageStream, Triplets, library_text, mask_tokens,
    passage_rows, topic_passages, topic_triplets)
from numformer.functional import cosine_similarity
from numformer.models import (
    Bert, BertConfig, SentenceBert, SentenceBertConfig, load_pretrained_backbone)
from numformer.plots import attention_grid, loss_curve
from numformer.training import Trainer, TrainingConfig

# %% [markdown]
# ## Byte pairs
#
# There are too many words, and characters carry too little meaning. Byte-pair encoding starts with
# bytes and repeatedly merges the pair that occurs next to each other most often:

# %%
SPECIAL = ("[PAD]", "[CLS]", "[SEP]", "[MASK]")
text = library_text().text[:400_000]
tokenizer = BytePairTokenizer.of(text, 600, special=SPECIAL)
ids = tokenizer.encode("Return the number of arguments of a function.")
print([tokenizer.decode([i]) for i in ids])

# %% [markdown]
# ## Masked language modelling
#
# Mask some of the tokens and predict them from both sides; the attention needs no causal mask. BERT
# masks 15%. Wettig et al. (2023), "Should You Mask 15% in Masked Language Modeling?", found 40%
# better for models of the size of BERT-large; larger models favour higher rates. Here it is
# 30%: twice as many predictions per step. (We did not tune it.) Of the chosen tokens, 80% become
# [MASK], 10% a random token, and 10% stay unchanged: downstream inputs contain no [MASK], so the
# model must not depend on it. A text is enclosed in [CLS] and [SEP]; classifiers read the output at
# the class token. BERT also learned to predict whether two texts follow each other; an embedding
# for each of the two texts, its *segment*, is added to the tokens. This model has one text and
# needs no segments.

# %%
mask_id = tokenizer.special_id("[MASK]")
row = np.array([[tokenizer.special_id("[CLS]"), *ids, tokenizer.special_id("[SEP]")]])
masking = dict(special=range(4), vocab_size=len(tokenizer), mask_id=mask_id)
inputs, targets = mask_tokens(row, rng=np.random.default_rng(3), rate=0.3, **masking)
print("".join(tokenizer.decode([i]) for i in inputs[0]))
print((targets != -100).sum(), "tokens to predict; only these count in the loss")

# %%
T, text_ids = 48, tokenizer.encode(text)
layout = [tokenizer.special_id(name) for name in SPECIAL[:3]]         # [PAD], [CLS], [SEP]
passages = [(text_ids[k:k + T - 2],) for k in range(0, len(text_ids) - T, T - 2)]
rows = passage_rows(passages, T, *layout)
config = BertConfig(vocab_size=len(tokenizer), context_length=T, n_layers=2, n_heads=4, d_model=96,
                    positions="rotary", segments=0, next_sentence=False, init_std=0.05)
model = Bert(config, np.random.default_rng(0))
stream = MaskedStream(rows, seed=0, dynamic=True, batch_size=32, rate=0.3, **masking)
training = TrainingConfig(steps=900, batch_size=32, optimizer="muon", learning_rate=0.01,
                          min_learning_rate=0.0, warmup_steps=30, schedule="linear", momentum=0.95,
                          muon_ratio=3.0, weight_decay=0.0)
trainer, metrics = Trainer(model, stream, [], training), []
for step in range(training.steps):
    metrics.append(trainer.train_step())
loss_curve(metrics, title="Loss of the masked tokens").figure

# %%
ids = tokenizer.encode_with(SPECIAL, "Return the[MASK] of the list.")     # tokens hold their space
row = np.array([[tokenizer.special_id("[CLS]"), *ids, tokenizer.special_id("[SEP]")]])
position = int(np.flatnonzero(row[0] == mask_id)[0])
logits = model.masked_logits(row)[0, position]                        # (V,)
print("predictions:", [tokenizer.decode([i]) for i in np.argsort(-logits)[:8]])

# %% [markdown]
# Every token attends to every other one, before and after it:

# %%
view, = attention_views(model, Reading((row,), [tokenizer.decode([i]) for i in row[0]]))
attention_grid(view.weights, title="BERT's heads").figure

# %% [markdown]
# ## Sentence embeddings
#
# Average the output vectors of a text's tokens, and compare texts by cosine similarity. For
# training, run **one** encoder on anchors and on other passages about the same topic: two calls
# with two `saved`, whose backwards add up in the same weights. Among all texts of the batch, each
# anchor should be closest to its own positive:
#
# $$L = -\log \frac{e^{\sigma \cos(a_i, p_i)}}{\sum_j e^{\sigma \cos(a_i, p_j)}}$$

# %%
shared = ("vocab_size", "context_length", "n_layers", "n_heads", "d_model", "positions", "segments",
          "init_std")
sentence_config = SentenceBertConfig(**{name: getattr(config, name) for name in shared},
                                     objective="in_batch")
sentences = SentenceBert(sentence_config, np.random.default_rng(1))
load_pretrained_backbone(sentences, model)                            # start from BERT's weights
passages, topic_names = topic_passages(8, characters=100)
held_out, _ = topic_passages(8, characters=100, held_out=True)        # other passages, same topics
print(f"{len(passages)} passages for training, {len(held_out)} held out; "
      f"topics: {', '.join(topic_names)}")


def text_rows(texts):
    return passage_rows([(tokenizer.encode(each)[:T - 2],) for each in texts], T, *layout)


def similarities(texts):
    rows = text_rows(texts)
    embeddings = sentences(rows.ids, rows.lengths)                    # (texts, C)
    return cosine_similarity(embeddings, embeddings)[0]               # (texts, texts)


def recall():
    """How often the nearest other held-out passage is about the same topic."""
    texts, topics = zip(*held_out)
    cosines, topics = similarities(texts), np.array(topics)
    np.fill_diagonal(cosines, -np.inf)                                # not itself
    return (topics[cosines.argmax(axis=1)] == topics).mean()


texts = ["Return the length of the list.", "Return the size of the list.",
         "Open a socket and connect to the server.", "Close the socket."]
print(f"recall at 1, before: {recall():.1%}")
print(similarities(texts).round(2))

# %%
topics, triplets = dict(passages), topic_triplets(passages, seed=0)
anchors, positives, negatives = (text_rows(part) for part in zip(*triplets))
examples = Triplets(anchors, positives, negatives, [topics[anchor] for anchor, _, _ in triplets])
training = TrainingConfig(steps=100, batch_size=32, learning_rate=3e-3, min_learning_rate=0.0,
                          warmup_steps=10, weight_decay=0.0)
trainer = Trainer(sentences, PassageStream(examples, batch_size=32, seed=0), [], training)
for step in range(training.steps):
    metrics = trainer.train_step()
print(f"training loss {metrics['loss']:.3f}; recall at 1, after: {recall():.1%}")
print(similarities(texts).round(2))

# %% [markdown]
# Recall is measured on passages that training has not seen; guessing would be right once in eight.
# The four short texts were not trained on, either. Before training, all their similarities are
# high: nothing in masked language modelling asks for vectors of unrelated texts to be far apart.
# Fine-tuning separates them only in part, because they are about none of the eight topics.

# %% [markdown]
# ## Is the gradient right?

# %%
def mean_pooling_backward(dy, x):
    return np.repeat(dy[:, None] / x.shape[1], x.shape[1], axis=1)    # y = x.mean(axis=1)


check("mean_pooling_backward", mean_pooling_backward, seed=0)

# %% [markdown]
# ## Exercises
#
# 1. Why can BERT not be trained to predict *every* token of its input?
# 2. What would next-sentence prediction add, and why did RoBERTa leave it out?
# 3. `numformer train --preset bert`, then `--preset topics --from` that run. Exercise `24`.
