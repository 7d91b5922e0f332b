# %% [markdown]
# # 11. Encoder-decoder: alignment and translation
#
# **Question.** How can a model that writes a sentence word by word find, at each step, the part of
# the source sentence that it needs, even where the two word orders differ?
#
# **You will learn** to
#
# - explain why a single vector between encoder and decoder is a bottleneck;
# - derive and implement the gradient of Bahdanau's attention;
# - explain the three attentions of the Transformer of 2017, and derive the gradient that reaches
#   the encoder;
# - measure what attention changes on a small translation task;
# - implement beam search.
#
# **You need** lessons 1, 2 and 4: recurrent networks, attention, masks; the chain rule for sums.
#
# **Time.** 2 x 45 minutes; the cells run in about 40 seconds.

# %% tags=["setup"]
# %matplotlib inline
import numpy as np

from numformer import check, hint, solution
from numformer.analysis.attention_views import Reading, attention_views
from numformer.data import (
    CharacterTokenizer, PairStream, WordTokenizer, date_pairs, english, french)
from numformer.functional import attention, attention_backward
from numformer.generation import beam_search, greedy_search
from numformer.models import EncoderDecoder, EncoderDecoderConfig, Seq2Seq, Seq2SeqConfig
from numformer.plots import alignment_map, mask_panels
from numformer.training import Trainer, TrainingConfig

SPECIAL = ("[PAD]", "[BOS]", "[EOS]")

# %% [markdown] minutes=10
# ## One vector for a whole sentence
#
# A translator reads a sentence and then writes another one. The sentences have different lengths
# and often a different order. Our smallest example: a date as people write it, and the same date in
# the ISO form. For each character that we write, which characters of the source do we need? The
# picture is made by hand; dark cells mark the characters that we look at.

# %%
source, target = "23.05.2027", "2027-05-23"
needed = np.zeros((len(target), len(source)))
for row, columns in enumerate([6, 7, 8, 9, (2, 5), 3, 4, (2, 5), 0, 1]):
    needed[row, columns] = 1 / np.size(columns)
# %% tags=["hide-input"]
alignment_map(needed, list(source), list(target), title="What each character needs").figure

# %% [markdown]
# Such a table is an *alignment*. It leaves the diagonal where the order changes: the year comes
# last in the source and first in the target.
#
# An *encoder-decoder* is a model for pairs of sequences. The encoder reads the source
# $x_1 \dots x_S$; the decoder writes the target $y_1 \dots y_T$, one token at a time, each given
# the source and the tokens before it:
#
# $$p(y \mid x) = \prod_{t=1}^{T} p(y_t \mid y_1 \dots y_{t-1},\; x)$$
#
# In the first neural translators both halves were recurrent networks (lesson 1). The encoder's
# state after the last source token, $h_S$, initialised the decoder. So everything that the decoder
# knew of the source was one vector, of the same size for five words as for fifty.
#
# > Without attention, the whole source passes through one vector of fixed size: the bottleneck of
# > sequence-to-sequence models.

# %% [markdown] minutes=15
# ## Attention: a new average at each step
#
# The encoder produces a state $h_j$ for each source token, and the bottleneck discards all but the
# last. Bahdanau, Cho and Bengio (2015) keep them all. Before it writes token $t$, the decoder
# compares its own state $s_{t-1}$ with each encoder state and computes a *context vector* $c_t$, a
# weighted average of them:
#
# $$z_{tj} = v^\top \tanh(W s_{t-1} + U h_j), \qquad
# p_{tj} = \frac{e^{z_{tj}}}{\sum_{k=1}^{S} e^{z_{tk}}}, \qquad c_t = \sum_{j=1}^{S} p_{tj}\, h_j$$
#
# Write $q_t = W s_{t-1}$, the *query*: what the decoder looks for. Write $k_j = U h_j$, the *key*:
# what position j offers. The learned matrices W and U give both a common width A. The values, which
# are averaged, are the encoder states themselves. For a batch of B pairs:
#
# | | shape | |
# |---|---|---|
# | queries q, keys k | (B, T, A), (B, S, A) | projected states |
# | W, U | (A, width of s), (A, C) | learned |
# | v | (A,) | learned, shared by all pairs of positions |
# | scores z, weights p | (B, T, S) | each row of p sums to 1 |
# | context c | (B, T, C) | C is the width of the encoder states |
#
# These scores are called *additive*: query and key are added, not multiplied. The decoder reads the
# context vector together with its last token, then updates its state. With attention, the path from
# any source token to any target token has one step instead of up to S + T.
#
# > Attention replaces the one vector by a new weighted average of all encoder states before each
# > output token; the weights are computed from the decoder's state.

# %% [markdown] minutes=15
# ## The gradient of additive scores
#
# A bar denotes the gradient of the loss L: $\bar{z} = \partial L / \partial z$ has the shape of z,
# and code names it `dz`. The loss sends back $\bar{c}$ (B, T, C). Through the average, a product of
# weights and states, and through the softmax (lesson 2) it becomes
#
# $$\bar{p}_{tj} = \bar{c}_t \cdot h_j, \qquad \bar{h}_j = \sum_{t=1}^{T} p_{tj}\, \bar{c}_t,
# \qquad \bar{z}_{tj} = p_{tj} \left( \bar{p}_{tj} - \sum_{k=1}^{S} p_{tk}\, \bar{p}_{tk} \right)$$
#
# What remains is the score. We split it into three steps and name every intermediate:
#
# $$u_{tj} = q_t + k_j, \qquad a_{tj} = \tanh(u_{tj}), \qquad z_{tj} = v \cdot a_{tj}$$
#
# with u and a of shape (B, T, S, A). Backwards, from the last step to the first:
#
# 1. $z_{tj} = v \cdot a_{tj}$ is a product, so each factor receives the other one times
#    $\bar{z}_{tj}$. The vector v is used for every pair (t, j) of every example, and the gradients
#    of all uses add:
#
# $$\bar{a}_{tj} = \bar{z}_{tj}\, v, \qquad \bar{v} = \sum_{b,t,j} \bar{z}_{tj}\, a_{tj}$$
#
# 2. $a = \tanh(u)$ acts on each number alone (chain rule, $\tanh' = 1 - \tanh^2$):
#
# $$\bar{u}_{tj} = \bar{a}_{tj} \odot (1 - a_{tj}^2)$$
#
# 3. $u_{tj} = q_t + k_j$: a sum passes the gradient on unchanged. A query is used once for every
#    key, a key once for every query, so the gradients of these uses add:
#
# $$\bar{q}_t = \sum_{j=1}^{S} \bar{u}_{tj}, \qquad \bar{k}_j = \sum_{t=1}^{T} \bar{u}_{tj}$$
#
# > An array that was broadcast in the forward is summed over the same axes in the backward.
#
# Each step is one line of code; a comment quotes the line that is differentiated:

# %%
def additive_scores_backward(dz, q, k, v):
    a = np.tanh(q[:, :, None] + k[:, None])                           # (B, T, S, A)
    # z = a @ v
    da = dz[..., None] * v                                            # (B, T, S, A)
    dv = (dz[..., None] * a).sum(axis=(0, 1, 2))                      # (A,)
    # a = tanh(u)
    du = da * (1 - a * a)
    # u = q[:, :, None] + k[:, None]
    return du.sum(axis=2), du.sum(axis=1), dv


check("additive_scores_backward", additive_scores_backward, seed=0)

# %% [markdown]
# **Exercise 11.1** (10 minutes). Luong et al. (2015) score with a matrix W of shape (C, K) between
# query (B, T, C) and key (B, S, K): $z_{tj} = q_t^\top W k_j$. Derive the three gradients in two
# steps, first through $z = u\, k^\top$, then through $u = q\, W$. `hint("general_scores_backward")`
# helps; after a pass, `solution("general_scores_backward")` shows ours.

# %%
def general_scores_backward(dz, q, k, weight):
    """dz (B, T, S). Return dq, dk, dweight."""
    ...


check("general_scores_backward", general_scores_backward, seed=0)

# %% [markdown] minutes=15
# ## Experiment: is attention needed for dates?
#
# We train Bahdanau's model to translate dates written in digits, "23.05.2027" or "2027.05.23", both
# to "2027-05-23". The decoder is a GRU (a recurrent network with gates), the encoder a
# bidirectional one, which reads the source from both ends; both are small.
#
# **Expected.** With attention, each output character can be copied from its position in the source.
# Without attention the last encoder states must hold the whole date, and the decoder must extract
# one digit after the other. That is possible in principle, as a date is little information, but it
# should be learned more slowly. We compare both after the same number of steps with three seeds.

# %% tags=["setup"]
def in_digits(pairs):
    return [(source, target) for source, target in pairs
            if len(source) == 10 and source.count(".") == 2 and source[-1].isdigit()]


def encoded(pairs, tokenizer):
    return [(tokenizer.encode(source), tokenizer.encode(target)) for source, target in pairs]


def exact(model, pairs, tokenizer, max_tokens):
    """The fraction of sources whose whole translation is right."""
    sources = [tokenizer.encode(source) for source, _ in pairs]
    answers = greedy_search(model, sources, *ids, max_tokens=max_tokens)
    return np.mean([tokenizer.decode(answer) == target
                    for answer, (_, target) in zip(answers, pairs)])


dates = in_digits(date_pairs(20000, seed=0))
held_out = in_digits(date_pairs(1500, seed=0, held_out=True))
characters = CharacterTokenizer.of("".join(map("".join, dates + held_out)), special=SPECIAL)
ids = tuple(characters.special_id(name) for name in SPECIAL)

# %%
def date_model(attention, seed, steps=200):
    config = Seq2SeqConfig(vocab_size=len(characters), d_model=32, d_hidden=48,
                           attention=attention)
    model = Seq2Seq(config, np.random.default_rng(seed))
    stream = PairStream(encoded(dates, characters), 64, seed, *ids)
    training = TrainingConfig(steps=steps, batch_size=64, optimizer="muon", learning_rate=0.015,
                              min_learning_rate=0.0, warmup_steps=15, schedule="linear",
                              momentum=0.95, muon_ratio=2.0, weight_decay=0.0)
    trainer = Trainer(model, stream, [], training)
    for step in range(steps):
        trainer.train_step()
    return model


for attention_of in ("none", "additive"):
    models = [date_model(attention_of, seed) for seed in (1, 2, 3)]
    right = [exact(model, held_out, characters, 12) for model in models]
    print(f"attention {attention_of!r}: exactly right with seeds 1, 2, 3:",
          ", ".join(f"{each:.1%}" for each in right))

# %% [markdown]
# **What came out.** As expected, with each seed. With attention the models translate all held-out
# dates; without it they translate at most one in a hundred.

# %%
def alignment(model, source):
    """The answer's characters, and the weights of each on the source (T, S)."""
    answer, = greedy_search(model, [characters.encode(source)], *ids, max_tokens=12)
    inputs = characters.encode(source)[None], np.array([len(source)]), np.array([[ids[1], *answer]])
    target = [*characters.decode(answer), "[EOS]"]
    view, = attention_views(model, Reading(inputs, list(source), ["[BOS]", *target]))
    return target, view.weights[0][0]


digits = [0, 1, 2, 3, 5, 6, 8, 9]                                     # of an answer
for seed, model in enumerate(models, start=1):
    found = [alignment(model, source)[1].argmax(axis=1)[digits]       # where each reads most
             == ([6, 7, 8, 9, 3, 4, 0, 1] if source[2] == "." else digits)
             for source, _ in held_out[:50]]
    print(f"seed {seed}: {np.mean(found):.0%} of the digits of 50 dates read most at their place")
source = "23.05.2027"
target, weights = alignment(models[0], source)
# %% tags=["hide-input"]
alignment_map(weights, list(source), target, title="Learned alignment").figure

# %% [markdown]
# Each row is one step of the decoder, labelled with the character that it writes. Compare the
# digits with the alignment that we drew by hand. Nothing in the training data marks which
# characters belong together. The alignment follows from the loss alone.
#
# > With attention the model learns in 200 steps what it does not learn in as many without; the
# > alignment is not supervised.
#
# This experiment is about the speed of learning, not about capacity. With all written forms and
# 1,500 steps, the preset `seq2seq` translates 100% of its held-out dates with each of three seeds
# and `seq2seq-no-attention` 1.2%, 6.2% and 4.0% (`numformer reproduce seq2seq
# seq2seq-no-attention`); but after 6,000 steps the latter reaches 97.4% in one run, more on long
# dates than on short ones. Bahdanau et al. (2015, figure 2) found the limit of the fixed vector on
# long sentences; these dates do not show it.

# %% [markdown] minutes=20
# ## The Transformer: three attentions
#
# A recurrent network computes its states one after the other. The Transformer of 2017 has no
# recurrence: it keeps attention, and lets each position attend to others also within one sequence.
# An encoder-decoder then has three attentions. The picture shows all of them at once for a source
# of three tokens and a target of three. Rows are queries, columns are keys; a filled cell means
# that the query may attend to the key.

# %%
S, T = 3, 3
mask = np.zeros((S + T, S + T), bool)
mask[:S, :S] = True                       # encoder: self-attention, everywhere
mask[S:, S:] = np.tri(T, dtype=bool)      # decoder: causal self-attention
mask[S:, :S] = True                       # decoder: cross-attention to the encoder's output
tokens = ["forty", "two", "[EOS]", "[BOS]", "quarante", "deux"]
# %% tags=["hide-input"]
mask_panels({"encoder-decoder": mask}, {"encoder-decoder": tokens}, {"encoder-decoder": S}).figure

# %% [markdown]
# - *Encoder self-attention* (top left): the source is known, so each token attends to all.
# - *Causal self-attention* (bottom right): target token t may not attend to later ones, since it
#   has to predict them. In training the whole target is given, shifted by one position, and all
#   T predictions are computed at once (*teacher forcing*).
# - *Cross-attention* (bottom left): queries come from the decoder's vectors X of shape (T, C), keys
#   and values from the encoder's output M, the *memory*, of shape (S, C). For one head, with
#   weights of shape (C, D):
#
# $$Q = X W_Q, \qquad K = M W_K, \qquad V = M W_V, \qquad
# Y = \mathrm{softmax}\!\left( \frac{Q K^\top}{\sqrt D} \right) V$$
#
# Positions are added to the embeddings of both halves, and padding is masked wherever it would be a
# key. The encoder never attends to the target (top right), so its output is computed once per
# source, however many tokens are generated.
#
# What does the decoder send back to the encoder? Lesson 2 gives $\bar{K}$ (S, D) and $\bar{V}$
# (S, D) for one head. M is used twice in each of the L decoder layers, for keys and for values (in
# each head, if there are several), so the gradients of all uses add:
#
# $$\bar{M} = \sum_{l=1}^{L} \left( \bar{K}_l W_{K,l}^\top + \bar{V}_l W_{V,l}^\top \right)
# \qquad (S, C)$$
#
# We check the two terms of one layer by the complex step, f'(x) = Im f(x + ih) / h (lesson 8):

# %%
def memory_gradient(dy, x, memory, wq, wk, wv):
    y, saved = attention(x @ wq, memory @ wk, memory @ wv)
    dq, dk, dv = attention_backward(dy, saved)
    return dk @ wk.T + dv @ wv.T          # K = M wk and V = M wv: M is used twice


rng, h = np.random.default_rng(0), 1e-30
x, memory, dy = (rng.standard_normal((1, 1, n, 8)) for n in (4, 5, 4))
wq, wk, wv = rng.standard_normal((3, 8, 8))
found, expected = memory_gradient(dy, x, memory, wq, wk, wv), np.empty(memory.shape)
for index in np.ndindex(memory.shape):
    z = memory.astype(complex)
    z[index] += 1j * h
    expected[index] = (attention(x @ wq, z @ wk, z @ wv)[0] * dy).sum().imag / h
print(f"largest error: {np.abs(found - expected).max():.0e}")

# %% [markdown]
# > The decoder writes with three attentions: of source to source, of target to earlier target, and
# > of target to source. Only the last connects the two halves, forward and backward.
#
# **Exercise 11.2** (5 minutes). Derive the gradient of the scores
# $z_{tj} = q_t \cdot k_j / \sqrt D$ with respect to q (B, T, D) and k (B, S, D). Which axis of
# $\bar{z}$ is summed for each? `hint("scaled_dot_scores_backward")` helps; after a pass,
# `solution("scaled_dot_scores_backward")` shows ours.

# %%
def scaled_dot_scores_backward(dz, q, k):
    """dz (B, T, S). Return dq, dk."""
    ...


check("scaled_dot_scores_backward", scaled_dot_scores_backward, seed=0)

# %% [markdown]
# As an example we translate numbers below 10,000 from English words into French ones, where
# "ninety" becomes "quatre-vingt-dix": four twenties and ten.

# %%
numbers = np.random.default_rng(0).permutation(10_000)
pairs = [(english(int(n)), french(int(n))) for n in numbers]
words = WordTokenizer.of(" ".join(" ".join(pair) for pair in pairs), special=SPECIAL)
ids = tuple(words.special_id(name) for name in SPECIAL)
config = EncoderDecoderConfig(vocab_size=len(words), context_length=32, n_layers=2, n_heads=4,
                              d_model=48, init_std=0.08)
model = EncoderDecoder(config, np.random.default_rng(1))
training = TrainingConfig(steps=250, batch_size=64, learning_rate=5e-3, min_learning_rate=0.0,
                          warmup_steps=60, schedule="inverse_sqrt", optimizer="adam", beta2=0.98)
trainer = Trainer(model, PairStream(encoded(pairs[200:], words), 64, 0, *ids), [], training)
for step in range(training.steps):
    trainer.train_step()
print(f"seed 1: {exact(model, pairs[:200], words, 32):.1%} of 200 held-out numbers exactly right")

# %%
for source, target in pairs[:200]:                                    # the first one that is right
    source_ids = words.encode(source)                                 # (S,)
    answer, = beam_search(model, [source_ids], *ids, 4, 32, 0.6)
    if "ninety" in source and words.decode(answer) == target:
        break
inputs = (source_ids[None], np.array([len(source_ids)]), np.array([[ids[1], *answer]]))
reading = Reading(inputs, [words.decode([i]) for i in source_ids],
                  ["[BOS]", *(words.decode([i]) for i in answer), "[EOS]"])
cross = attention_views(model, reading)[-1]
for word, row in zip(cross.queries, cross.weights[-1].mean(axis=0)):
    print(f"{word} reads most from {cross.keys[row.argmax()]} ({row.max():.2f})")
# %% tags=["hide-input"]
alignment_map(cross.weights[-1].mean(axis=0), cross.keys, cross.queries,
              title="Cross-attention: mean of the heads of the last layer").figure

# %% [markdown]
# A word need not be read at its own position: the encoder has mixed its positions, so its output at
# one word can hold information about others. This is one short run, and one number that it has
# right. The preset `translate` translates numbers below 100,000 and has 100%, 99.6% and 99.9% of
# 1,000 held-out numbers right with seeds 1, 2, 3 (`numformer reproduce translate`).

# %% [markdown]
# The base model of Vaswani et al. (2017), drawn from its layers: the encoder's output is read by
# the cross-attention of every block of the decoder.

# %% tags=["hide-input"]
from numformer.models import CONFIGS
from numformer.plots import architecture_diagram

architecture_diagram(CONFIGS["transformer-base"], title="The Transformer").figure

# %% [markdown] minutes=15
# ## Searching for the most probable sentence
#
# The model gives probabilities of next tokens; we want a whole sentence with a high probability.
# *Greedy search* takes the most probable token at each step. That can be a mistake:
#
# | first word | probability | second word | probability given the first | of both |
# |---|---|---|---|---|
# | le | 0.6 | chat | 0.4 | 0.24 |
# | le | 0.6 | chien | 0.35 | 0.21 |
# | la | 0.4 | souris | 0.9 | **0.36** |
#
# Greedy search chooses "le" and can then no longer reach the best answer. *Beam search* keeps the
# most probable partial answers, a fixed number of them, extends each by all tokens and keeps the
# best again:

# %%
FIRST = {"le": 0.6, "la": 0.4}
SECOND = {"le": {"chat": 0.4, "chien": 0.35, "cheval": 0.25}, "la": {"souris": 0.9, "poule": 0.1}}


def best_answer(beams):
    kept = sorted(FIRST, key=FIRST.get, reverse=True)[:beams]
    answers = {(first, second): FIRST[first] * p
               for first in kept for second, p in SECOND[first].items()}
    return max(answers.items(), key=lambda answer: answer[1])


for beams in (1, 2):
    (first, second), p = best_answer(beams)
    print(f"beams: {beams}; {first} {second}, probability {p:.2f}")

# %% [markdown]
# Products of many probabilities underflow, so one adds logarithms. Each further token makes the sum
# smaller, so short answers are favoured. Wu et al. (2016) therefore divide by a power of the number
# of tokens n, with $\alpha$ about 0.6:
#
# $$s(y) = \frac{\log p(y \mid x)}{\mathrm{lp}(n)}, \qquad
# \mathrm{lp}(n) = \left( \frac{5 + n}{6} \right)^{\alpha}$$
#
# > Greedy search is beam search with one beam; more beams can find a more probable sentence, but
# > only an exhaustive search is sure to find the most probable one.
#
# **Think.** Where must the learned alignment of numbers leave the diagonal?
#
# <details><summary>Answer</summary>
#
# Wherever one English word becomes several French ones: "ninety six" becomes "quatre-vingt-seize",
# so one target word depends on two source words.
#
# </details>
#
# **Think.** Why does beam search need the memory only once per source, and not once per beam?
#
# <details><summary>Answer</summary>
#
# The memory depends on the source alone, so all beams share it. Only the decoder's own keys and
# values differ.
#
# </details>

# %% [markdown]
# ## Summary
#
# - An encoder-decoder models $p(y \mid x)$ token by token. With one vector between the halves,
#   the whole source has to fit into it.
# - Bahdanau's attention computes scores $v^\top \tanh(q_t + k_j)$, a softmax over the source, and
#   an average of encoder states for each step of the decoder.
# - Backward, a query sums over all keys, a key over all queries, and v over all pairs.
# - The Transformer has self-attention in the encoder, causal self-attention and cross-attention in
#   the decoder. The encoder's output receives a gradient through keys and values of every layer.
# - Alignments are learned without supervision, because they lower the loss.
# - Beam search keeps several partial answers; a length penalty corrects its bias to short ones.
#
# More practice: `numformer exercises 16 22 25 26 37 42` (attention, a recurrent step, bugs, the
# step of AdamW, a step of beam search).

# %% [markdown]
# ## Further reading
#
# - D. Bahdanau, K. Cho, Y. Bengio (2015), "Neural Machine Translation by Jointly Learning to Align
#   and Translate": section 3 and appendix A.1.2 for the model, figure 3 for alignments.
# - T. Luong, H. Pham, C. Manning (2015), "Effective Approaches to Attention-based Neural Machine
#   Translation": section 3.1 for other scores.
# - A. Vaswani et al. (2017), "Attention Is All You Need": section 3 for the model, 6.1 for beams.
# - Y. Wu et al. (2016), "Google's Neural Machine Translation System": equation 14 for the penalty.
# - Code: `numformer/functional/attention/additive.py` and `scores.py`,
#   `numformer/models/encoder_decoder/model.py`, `numformer/generation/beam_search.py`.
