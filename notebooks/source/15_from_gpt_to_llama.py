# %% [markdown]
# # 15. From GPT to LLaMA, and counting
#
# Time: about 50 seconds on 2 cores.
#
# **Goals.** Name the four choices that lead from 2017 to LLaMA; compare them on equal terms; count
# parameters, operations and memory of any model; know what a KV cache saves.
#
# **Before.** Notebooks 5, 6 and 10.

# %%
# %matplotlib inline
import time

import numpy as np

from numformer import check
from numformer.analysis import count, model_costs
from numformer.data import BlockStream, CharacterTokenizer, consecutive_blocks, load_corpus
from numformer.generation import generate
from numformer.models import CONFIGS, GPT2, LLAMA, TRANSFORMER_2017, Decoder, DecoderConfig
from numformer.plots import cost_bars, losses_by_tokens
from numformer.training import Trainer, TrainingConfig

# %% [markdown]
# ## Four options
#
# | | 2017 | GPT-2 | LLaMA |
# |---|---|---|---|
# | norm | LayerNorm after the addition | LayerNorm before the branch | RMSNorm before the branch |
# | positions | sinusoids, added | learned, added | rotary, in every block |
# | feed-forward | ReLU | GELU | SwiGLU |
# | biases | in the feed-forward (here: everywhere) | everywhere | nowhere |
#
# Here they are options of one decoder, so they can be compared at the same width, on the same text,
# for the same number of steps. The same learning rate would not be fair: post-norm needs a smaller
# one than pre-norm (Xiong et al. 2020). So each model is trained with three learning rates, and we
# choose among them on one half of the held-out text and report the other half.

# %%
corpus = load_corpus()
tokenizer = CharacterTokenizer.of(corpus.text)
text, held_out = (tokenizer.encode(part) for part in corpus.split())
T, V, curves = 64, len(tokenizer), {}
middle = len(held_out) // 2
for_choosing = consecutive_blocks(held_out[:middle], T, blocks=100)
for_reporting = consecutive_blocks(held_out[middle:], T, blocks=100)


def run(choices, learning_rate):
    """(loss for choosing, curve for reporting, trained model)."""
    sizes = dict(vocab_size=V, context_length=T, n_layers=3, n_heads=4, d_model=64, init_std=0.08,
                 tied=True)
    model = Decoder(DecoderConfig(**{**choices, **sizes}), np.random.default_rng(0))
    training = TrainingConfig(steps=180, batch_size=16, learning_rate=learning_rate,
                              min_learning_rate=learning_rate / 10, warmup_steps=20)
    trainer = Trainer(model, BlockStream(text, T, 16, seed=0), for_reporting, training)
    curve = [(0, trainer.evaluate())]
    for step in range(training.steps):
        trainer.train_step()
        if trainer.step % 60 == 0:
            curve.append((trainer.n_targets, trainer.evaluate()))
    trainer.validation = for_choosing
    return trainer.evaluate(), curve, model


for name, choices in (("2017", TRANSFORMER_2017), ("GPT-2", GPT2), ("LLaMA", LLAMA)):
    runs = {rate: run(choices, rate) for rate in (1e-3, 3e-3, 6e-3)}
    best = min(runs, key=lambda rate: runs[rate][0])
    _, curves[name], model = runs[best]
    n_parameters = sum(parameter.data.size for parameter in model.parameters())
    losses = ", ".join(f"{rate:g}: {curve[-1][1]:.3f}" for rate, (_, curve, _) in runs.items())
    print(f"{name}: {n_parameters:,} parameters; loss by learning rate {losses}; chosen {best:g}")

# %%
losses_by_tokens(curves).figure

# %% [markdown]
# One seed and a short run are little evidence about a long one; `numformer/recipes/RESULTS.md` has
# three seeds and more steps.
#
# ## Counting
#
# Per block, with width C, hidden width F, heads of width D and G key-value heads:
#
# $$\text{parameters} = \underbrace{2C^2 + 2CGD}_{\text{attention}}
# + \underbrace{3CF}_{\text{gated feed-forward}}$$
#
# A forward pass costs two operations per parameter and token, plus $2C(T+1)$ per layer and token
# for scores and averages in causal attention over T tokens. A training step costs as much as three
# forward passes. Formula and measurement are compared for the last model:

# %%
cost_bars(model_costs(model.config)).figure

# %% [markdown]
# The published models, counted without allocating them:

# %%
for name in ("gpt2", "gpt3", "llama-7b", "llama2-70b", "mixtral-8x7b"):
    costs = count(CONFIGS[name])
    print(f"{name:14} {costs['parameters'] / 1e9:7.2f} G parameters, "
          f"{costs['flops_per_token'] / 1e9:8.2f} GFLOPs per token, "
          f"KV cache {costs['kv_bytes_per_token'] / 1024:7.1f} KiB per token in float32")

# %% [markdown]
# ## The KV cache
#
# To generate one more token, only its own query, key and value are new; all earlier keys and values
# can be kept. With the cache a token costs one pass through the weights and one pass over the
# cached keys; without a cache the whole prefix is recomputed:

# %%
prompt = tokenizer.encode("The ")
list(generate(model, prompt, 5, np.random.default_rng(0)))            # warm up
print(model(prompt[None]).shape)                                      # (B, T, V)
started = time.perf_counter()
list(generate(model, prompt, 60, np.random.default_rng(0)))
with_cache, started = time.perf_counter() - started, time.perf_counter()
ids = list(prompt)
for _ in range(60):
    ids.append(int(model(np.array([ids]))[0, -1].argmax()))
without_cache = time.perf_counter() - started
print(f"60 characters: {1000 * with_cache:.0f} ms with a cache, "
      f"{1000 * without_cache:.0f} ms without")

# %% [markdown]
# ## Is the gradient right?

# %%
def rms_norm_backward(dy, x, weight):
    r = ((x * x).mean(axis=-1, keepdims=True) + 1e-5) ** -0.5
    x_hat, g, rows = x * r, weight * dy, tuple(range(x.ndim - 1))
    dx = r * (g - x_hat * (g * x_hat).mean(axis=-1, keepdims=True))
    return dx, (dy * x_hat).sum(axis=rows)


check("rms_norm_backward", rms_norm_backward, seed=0)

# %% [markdown]
# ## Exercises
#
# 1. Change one option at a time from 2017 to LLaMA. Which one matters most here?
# 2. From which context length on does attention cost more than the feed-forward, for LLaMA-7B?
# 3. How much memory does the KV cache of `llama2-70b` take for 4096 tokens, and how much would it
#    take with 64 key-value heads?
