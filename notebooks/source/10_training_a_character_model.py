# %% [markdown]
# # 10. Training a character model
#
# Time: about 20 seconds on 2 cores.
#
# **Goals.** Put a decoder, batches, an optimizer and a schedule together; read a training run; sample; look inside.
#
# **Before.** Notebooks 1 to 6.

# %%
# %matplotlib inline
import numpy as np

from numformer.datasets import load_corpus
from numformer.functional import softmax
from numformer.generation import generate
from numformer.models import Decoder, DecoderConfig, logit_contributions, logit_lens
from numformer.plots import attention_grid, contribution_bars, gradient_norm_curve, learning_rate_curve, lens_map, loss_curve
from numformer.plots.views import Reading, attention_views
from numformer.tokenizers import CharacterTokenizer
from numformer.training import BlockStream, Trainer, TrainingConfig, consecutive_blocks
from numformer.verify import gradcheck

# %% [markdown]
# ## Data
#
# Blocks of T characters; the target of each character is the next one, and the loss is the mean surprise:
#
# $$L = -\frac{1}{B T} \sum_{b, t} \log p(x_{b, t+1} \mid x_{b, 1} \dots x_{b, t})$$

# %%
corpus = load_corpus()
tokenizer = CharacterTokenizer.of(corpus.text)
text, held_out = (tokenizer.encode(part) for part in corpus.split())
T = 64
stream, validation = BlockStream(text, T, batch_size=16, seed=0), consecutive_blocks(held_out, T, blocks=300)
batch = stream.batch(0)
print(batch.inputs.shape, batch.targets.shape)                        # (B, T), (B, T)
print(repr(tokenizer.decode(batch.inputs[0][:30])), "->", repr(tokenizer.decode(batch.targets[0][:30])))

# %% [markdown]
# ## Model
#
# Three pre-norm blocks with RMSNorm, rotary positions and SwiGLU.

# %%
config = DecoderConfig(vocab_size=len(tokenizer), context_length=T, n_layers=3, n_heads=4, d_model=96, norm="rms_norm",
                       feedforward="swiglu", positions="rotary", bias=False, init_std=0.08)
model = Decoder(config, np.random.default_rng(0))
print(f"{sum(p.data.size for p in model.parameters()):,} parameters; an untrained model costs {model.loss(batch)[0]:.2f} nats, guessing "
      f"{np.log(len(tokenizer)):.2f}")

# %% [markdown]
# ## One step by hand
#
# A forward keeps what the backward needs; the backward adds up gradients; a step goes against them.

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
# AdamW, a warm-up, a cosine, clipping, and a batch cut into two shards for two threads: the same loop with better manners.

# %%
training = TrainingConfig(steps=350, batch_size=16, learning_rate=4e-3, min_learning_rate=2e-4, warmup_steps=30, eval_every=70)
trainer, metrics = Trainer(model, stream, validation, training), []
for step in range(training.steps):
    metrics.append(trainer.train_step())
    if trainer.step % training.eval_every == 0:
        metrics.append({"step": trainer.step, "val_loss": trainer.evaluate()})
        print(f"step {trainer.step}: validation loss {trainer.val_loss:.3f} nats, {trainer.val_loss / np.log(2):.3f} bits a character")

# %%
loss_curve(metrics).figure

# %%
learning_rate_curve(metrics).figure

# %%
gradient_norm_curve(metrics).figure

# %% [markdown]
# ## Sampling
#
# Divide the logits by a temperature: below 1 the likely gets likelier.

# %%
for temperature in (0.3, 0.8, 1.2):
    prompt = tokenizer.encode("The ")
    written = generate(model, prompt, 120, np.random.default_rng(0), temperature=temperature)
    print(f"--- {temperature}\nThe {tokenizer.decode(list(written))}")

# %% [markdown]
# ## Looking inside

# %%
words = "the value of an expr"
ids = tokenizer.encode(words)[None]
view, = attention_views(model, Reading((ids,), list(words)))
attention_grid(view.weights, view.masks, title="All heads").figure

# %% [markdown]
# What would the model say after each block? (The logit lens: the last norm and the head, too early.)

# %%
vocabulary = [tokenizer.decode([i]) for i in range(len(tokenizer))]
lens = logit_lens(model, ids)
lens_map(lens[:, 0], vocabulary, list(words)).figure

# %% [markdown]
# And who spoke for its answer? The residual stream is a sum, so the logit falls apart into what every part wrote:

# %%
token = int(model(ids)[0, -1].argmax())
parts = logit_contributions(model, ids, token)
print(f"sum {sum(parts.values()):.4f}, logit {model(ids)[0, -1, token]:.4f}, probability {softmax(model(ids)[0, -1])[0][token]:.3f}")
contribution_bars(parts, vocabulary[token]).figure

# %% [markdown]
# ## Is the gradient right?
#
# A model is a layer like any other:

# %%
class Logits:
    """A small decoder as `gradcheck` wants it: ids are no numbers to differentiate, so its parameters alone are."""

    def __init__(self):
        self.model = Decoder(DecoderConfig(vocab_size=4, context_length=4, n_layers=1, n_heads=1, d_model=2, dtype="float64", init_std=0.5),
                             np.random.default_rng(0))
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
# 1. Train without the warm-up, with ten times the learning rate, and with post-norm (`norm_first=False`). What breaks first?
# 2. Which head looks at the previous character? Find it with `attention_distance`.
# 3. `numformer train --preset nanogpt-cpu`, and `numformer explore` on the run.
