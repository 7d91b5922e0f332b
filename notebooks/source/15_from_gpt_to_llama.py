# %% [markdown]
# # 15. From GPT to LLaMA, and counting
#
# Time: about 20 seconds on 2 cores.
#
# **Goals.** Name the four choices that lead from 2017 to LLaMA; see them win on equal terms; count parameters, operations and memory of
# any model; know what a KV cache saves.
#
# **Before.** Notebooks 5, 6 and 10.

# %%
# %matplotlib inline
import time

import numpy as np

from numformer import check
from numformer.datasets import load_corpus
from numformer.generation import generate
from numformer.models import CONFIGS, GPT2, LLAMA, TRANSFORMER_2017, Decoder, DecoderConfig, account, count
from numformer.plots import account_bars, losses_by_tokens
from numformer.tokenizers import CharacterTokenizer
from numformer.training import BlockStream, Trainer, TrainingConfig, consecutive_blocks

# %% [markdown]
# ## Four switches
#
# | | 2017 | GPT-2 | LLaMA |
# |---|---|---|---|
# | norm | LayerNorm, after the sum | LayerNorm, before the branch | RMSNorm, before the branch |
# | positions | sinusoids, added | learned, added | rotated in every block |
# | feed-forward | ReLU | GELU | SwiGLU |
# | biases | in the feed-forward (here: everywhere) | everywhere | nowhere |
#
# They are switches of one decoder here, so they can be compared on equal terms: the same width, the same text, the same steps.

# %%
corpus = load_corpus()
tokenizer = CharacterTokenizer.of(corpus.text)
text, held_out = (tokenizer.encode(part) for part in corpus.split())
T, V, curves = 64, len(tokenizer), {}
training = TrainingConfig(steps=180, batch_size=16, learning_rate=3e-3, min_learning_rate=3e-4, warmup_steps=20)
validation = consecutive_blocks(held_out, T, blocks=200)
for name, choices in (("2017", TRANSFORMER_2017), ("GPT-2", GPT2), ("LLaMA", LLAMA)):
    sizes = dict(vocab_size=V, context_length=T, n_layers=3, n_heads=4, d_model=64, init_std=0.08, tied=True)
    model = Decoder(DecoderConfig(**{**choices, **sizes}), np.random.default_rng(0))
    trainer = Trainer(model, BlockStream(text, T, 16, seed=0), validation, training)
    curves[name] = [(0, trainer.evaluate())]
    for step in range(training.steps):
        trainer.train_step()
        if trainer.step % 60 == 0:
            curves[name].append((trainer.tokens, trainer.evaluate()))
    print(f"{name}: {sum(p.data.size for p in model.parameters()):,} parameters, loss {curves[name][-1][1]:.3f}")

# %%
losses_by_tokens(curves).figure

# %% [markdown]
# A short run says little about a long one; what three seeds and more steps say stands in `numformer/tasks/RESULTS.md`.
#
# ## Counting
#
# Per block, with width C, hidden width F, heads of width D and G key-value heads:
#
# $$\text{parameters} = \underbrace{2C^2 + 2CGD}_{\text{attention}} + \underbrace{3CF}_{\text{gated feed-forward}}$$
#
# A forward pass costs two operations for each of them, and $2C(T+1)$ a layer for scores and averages of a causal text of T tokens; a
# training step costs three forwards. Formula beside measurement, for the last model:

# %%
account_bars(account(model.config)).figure

# %% [markdown]
# The published ones, without allocating them:

# %%
for name in ("gpt2", "gpt3", "llama-7b", "llama2-70b", "mixtral-8x7b"):
    costs = count(CONFIGS[name])
    print(f"{name:14} {costs['parameters'] / 1e9:7.2f} G parameters, {costs['flops_per_token'] / 1e9:8.2f} GFLOPs a token, "
          f"KV cache {costs['kv_bytes_per_token'] / 1024:7.1f} KiB a token in float32")

# %% [markdown]
# ## The KV cache
#
# To write one more token, only its own query is new; all older keys and values can be kept. With the cache a token costs one pass through
# the weights, and a look at every key that is kept; without it all that was written is computed again:

# %%
prompt = tokenizer.encode("The ")
rng = np.random.default_rng(0)
list(generate(model, prompt, 5, rng))                                 # warm up
print(model(prompt[None]).shape)                                      # (B, T, V): of which the last is drawn from
started = time.perf_counter()
list(generate(model, prompt, 60, np.random.default_rng(0)))
with_cache, started = time.perf_counter() - started, time.perf_counter()
ids = list(prompt)
for _ in range(60):
    ids.append(int(model(np.array([ids]))[0, -1].argmax()))
print(f"60 characters: {1000 * with_cache:.0f} ms with a cache, {1000 * (time.perf_counter() - started):.0f} ms without")

# %% [markdown]
# ## Is the gradient right?

# %%
def rms_norm_backward(dy, x, gain):
    r = ((x * x).mean(axis=-1, keepdims=True) + 1e-5) ** -0.5
    x_hat, g = x * r, gain * dy
    return r * (g - x_hat * (g * x_hat).mean(axis=-1, keepdims=True)), (dy * x_hat).sum(axis=tuple(range(x.ndim - 1)))


check("rms_norm_backward", rms_norm_backward, seed=0)

# %% [markdown]
# ## Exercises
#
# 1. Take one switch at a time from 2017 to LLaMA. Which one matters most here?
# 2. From which length on does attention cost more than the feed-forward, for LLaMA-7B?
# 3. How much does the KV cache of `llama2-70b` take for 4096 tokens, and how much would it with 64 key-value heads?
