# %% [markdown]
# # 10. Training a character model
#
# Time: about 20 seconds on 2 cores.
#
# **Goals.** Combine a decoder, batches, an optimizer and a schedule; interpret a training run;
# sample; look inside the model.
#
# **Before.** Notebooks 1 to 6.

# %%
# %matplotlib inline
import numpy as np

from numformer.analysis import logit_contributions, logit_lens
from numformer.analysis.attention_views import Reading, attention_views
from numformer.data import BlockStream, CharacterTokenizer, consecutive_blocks, load_corpus
from numformer.functional import softmax
from numformer.generation import generate
from numformer.models import Decoder, DecoderConfig
from numformer.plots import (
    attention_grid, contribution_bars, gradient_norm_curve, learning_rate_curve, lens_map,
    loss_curve)
from numformer.training import Trainer, TrainingConfig
from numformer.verify import gradcheck

# %% [markdown]
# ## Data
#
# The data are blocks of T characters. The target of each character is the next one, and the loss is
# the mean cross-entropy:
#
# $$L = -\frac{1}{B T} \sum_{b, t} \log p(x_{b, t+1} \mid x_{b, 1} \dots x_{b, t})$$

# %%
corpus = load_corpus()
tokenizer = CharacterTokenizer.of(corpus.text)
text, held_out = (tokenizer.encode(part) for part in corpus.split())
T = 64
stream = BlockStream(text, T, batch_size=16, seed=0)
validation = consecutive_blocks(held_out, T, blocks=300)
batch = stream.batch(0)
print(batch.inputs.shape, batch.targets.shape)                        # (B, T), (B, T)
for ids in (batch.inputs, batch.targets):
    print(repr(tokenizer.decode(ids[0][:30])))

# %% [markdown]
# ## Model
#
# The model has three pre-norm blocks with RMSNorm, rotary positions and SwiGLU.

# %%
config = DecoderConfig(vocab_size=len(tokenizer), context_length=T, n_layers=3, n_heads=4,
                       d_model=96, norm="rms_norm", feedforward="swiglu", positions="rotary",
                       bias=False, init_std=0.08)
model = Decoder(config, np.random.default_rng(0))
print(f"{sum(p.data.size for p in model.parameters()):,} parameters; "
      f"the loss of the untrained model is {model.loss(batch)[0]:.2f} nats, "
      f"of a uniform guess {np.log(len(tokenizer)):.2f}")

# %% [markdown]
# ## One step by hand
#
# The forward saves what the backward needs; the backward accumulates gradients; the step moves the
# parameters in the opposite direction.

# %%
probe = Decoder(config, np.random.default_rng(0))
for _ in range(3):
    probe.zero_grad()
    loss, saved = probe.loss(batch)
    probe.loss_backward(saved)
    for parameter in probe.parameters():
        parameter.data -= 0.03 * parameter.grad                       # plain gradient descent
    print(f"{loss:.4f}")

# %% [markdown]
# ## The trainer
#
# The trainer is the same loop, plus the standard stabilisers: AdamW, a warm-up, a cosine schedule
# and gradient clipping. It also splits each batch into two shards for two threads.

# %%
training = TrainingConfig(steps=350, batch_size=16, learning_rate=4e-3, min_learning_rate=2e-4,
                          warmup_steps=30, eval_every=70)
trainer, metrics = Trainer(model, stream, validation, training), []
for step in range(training.steps):
    metrics.append(trainer.train_step())
    if trainer.step % training.eval_every == 0:
        metrics.append({"step": trainer.step, "val_loss": trainer.evaluate()})
        print(f"step {trainer.step}: validation loss {trainer.val_loss:.3f} nats, "
              f"{trainer.val_loss / np.log(2):.3f} bits per character")

# %%
loss_curve(metrics).figure

# %%
learning_rate_curve(metrics).figure

# %%
gradient_norm_curve(metrics).figure

# %% [markdown]
# ## Sampling
#
# Divide the logits by a temperature: temperatures below 1 sharpen the distribution.

# %%
for temperature in (0.3, 0.8, 1.2):
    prompt = tokenizer.encode("The ")
    generated = generate(model, prompt, 120, np.random.default_rng(0), temperature=temperature)
    print(f"--- {temperature}\nThe {tokenizer.decode(list(generated))}")

# %% [markdown]
# ## Looking inside

# %%
words = "the value of an expr"
ids = tokenizer.encode(words)[None]
view, = attention_views(model, Reading((ids,), list(words)))
attention_grid(view.weights, view.masks, title="All heads").figure

# %% [markdown]
# What would the model predict after each block? The logit lens applies the final norm and the
# output head to each intermediate state.

# %%
vocabulary = [tokenizer.decode([i]) for i in range(len(tokenizer))]
lens = logit_lens(model, ids)
lens_map(lens[:, 0], vocabulary, list(words)).figure

# %% [markdown]
# Which components produced this prediction? The residual stream is a sum, so the logit decomposes
# into one contribution per component:

# %%
logits = model(ids)[0, -1]                                            # (V,)
token = int(logits.argmax())
contributions = logit_contributions(model, ids, token)
print(f"sum {sum(contributions.values()):.4f}, logit {logits[token]:.4f}, "
      f"probability {softmax(logits)[0][token]:.3f}")
contribution_bars(contributions, vocabulary[token]).figure

# %% [markdown]
# ## Is the gradient right?
#
# A model is checked like any layer. Ids cannot be differentiated, so only parameters are:

# %%
class Logits:
    """The logits of a small decoder, as a layer for `gradcheck`."""

    def __init__(self):
        config = DecoderConfig(vocab_size=4, context_length=4, n_layers=1, n_heads=1, d_model=2,
                               dtype="float64", init_std=0.5)
        self.model = Decoder(config, np.random.default_rng(0))
        self.named_parameters = self.model.named_parameters

    def forward(self, ids):
        return self.model.forward(ids)

    def backward(self, dy, saved):
        return self.model.backward(dy, saved)


report = gradcheck(Logits(), [np.array([[0, 2, 1]])])
print(report.ok, f"worst {report.worst.error:.0e} of {len(report.rows)} tensors")

# %% [markdown]
# ## Exercises
#
# 1. Train without the warm-up, with ten times the learning rate, and with post-norm
#    (`norm_first=False`). What breaks first?
# 2. Which head attends to the previous character? Find it with `attention_distance`.
# 3. Run `numformer train --preset nanogpt-cpu`, and `numformer explore` on the run.
