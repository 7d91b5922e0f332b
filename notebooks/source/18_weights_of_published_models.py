# %% [markdown]
# # 18. Opening the weights of published models
#
# **Question.** A published model is a folder with a few files. How do the numbers in it become the
# layers that you have derived, and what must be right for the outputs to agree?
#
# **You will learn** to
#
# - read a file of weights byte by byte, and compute with its arrays;
# - derive what one matrix for queries, keys and values does, forward and backward;
# - derive the permutation between the two layouts of rotary positions;
# - derive and measure the rounding errors of bfloat16 and of 8-bit integers;
# - measure what one wrong convention costs;
# - count the parameters of a published model exactly, and train it further.
#
# **You need** lessons 2 to 6 (attention, positions, heads, norms) and 10 (training). Lesson 15 has
# the approximate counts and the KV cache.
#
# **Time.** 2 x 45 minutes; the cells run in about 40 seconds.

# %% tags=["setup"]
# %matplotlib inline
import argparse
import inspect
import json
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from numformer import backend, check, hint, solution
from numformer.analysis import count
from numformer.data import BlockStream, BytePairTokenizer, load_corpus
from numformer.functional import (
    CAUSAL, cross_entropy, gelu, gelu_tanh, layer_norm, round_weight, scaled_dot_product_attention,
    scaled_dot_product_attention_backward, to_bfloat16)
from numformer.interop import load, save
from numformer.models import CONFIGS, GPT2, LLAMA, Decoder, DecoderConfig
from numformer.training import Trainer, TrainingConfig
from numformer.verify import gradcheck

# %% [markdown] minutes=15
# ## What is in the folder
#
# If you have the folder of a GPT-2, write its path into the first line of the next cell, and the
# cells of this lesson read it. Without one we make a folder of the same form: a small GPT-2,
# trained for a few seconds on Python's documentation. (`numformer export RUN --out FOLDER` does
# this with a run of the command line.)

# %%
FOLDER = None                             # or your own, such as "models/gpt2"

corpus = load_corpus()
tokenizer = BytePairTokenizer.of(corpus.text[:100_000], n_merges=128, split="gpt2")
text, held_out = (np.array(tokenizer.encode(part)) for part in corpus.split())
T = 48


def trained(design, seed, steps=400, rate=8e-3, model=None, text=text):
    sizes = dict(vocab_size=len(tokenizer), context_length=T, n_layers=2, n_heads=4, d_model=48,
                 init_std=0.08)
    if model is None:
        model = Decoder(DecoderConfig(**{**design, **sizes}), np.random.default_rng(seed))
    trainer = Trainer(model, BlockStream(text, T, 16, seed=seed), [], TrainingConfig(
        steps=steps, batch_size=16, learning_rate=rate, min_learning_rate=rate / 10,
        warmup_steps=steps // 10))
    for _ in range(steps):
        trainer.train_step()
    return model


def published(model):
    folder = Path(tempfile.mkdtemp())
    save(model, tokenizer, folder)
    return folder

# %%
made = published(trained(GPT2, seed=1))
folder = Path(FOLDER) if FOLDER else made
for file in sorted(folder.iterdir()):
    print(f"{file.stat().st_size:>12,} bytes  {file.name}")
config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
H, C = config["n_head"], config["n_embd"]
for key in ("model_type", "n_layer", "n_head", "n_embd", "n_positions", "vocab_size",
            "activation_function", "layer_norm_epsilon"):
    print(f"{key:>24}: {config[key]}")

# %% [markdown]
# `config.json` has the sizes and a few choices. `tokenizer.json` has the vocabulary and the merges
# that turn text into ids. `model.safetensors` has the weights: eight bytes give the length n of a
# header, the least significant byte first. The header is JSON: for each array its name, its dtype,
# its shape, and where its bytes begin and end. After it come the bare numbers, row by row. A large
# model has several such files and an index.

# %%
def header_of(folder):
    """(entries by name, the byte at which the arrays begin)"""
    with open(folder / "model.safetensors", "rb") as file:
        n = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(n))
    header.pop("__metadata__", None)                                  # notes, such as a format
    return header, 8 + n


header, first = header_of(folder)
for name in list(header)[:3]:
    print(name, header[name])

# %% [markdown]
# Where are the bytes of this file? Above, all arrays in their order (light blue: `wpe`); below,
# those of block 0.

# %%
kinds = {"wte": "#1257a8", "wpe": "#5b9bd5", "attn": "#c8500a", "mlp": "#9a7b1f", "": "#5a6470"}
# %% tags=["hide-input"]
figure = Figure(figsize=(8, 3.6), layout="constrained")
for ax, part in zip(figure.subplots(2, 1), ("", "h.0.")):
    shown = {name: entry["data_offsets"] for name, entry in header.items() if part in name}
    start, stop = min(b for b, _ in shown.values()), max(e for _, e in shown.values())
    for name, (begin, end) in shown.items():
        kind = next(kind for kind in kinds if kind in name)
        ax.broken_barh([((begin - start) / 1000, (end - begin) / 1000)], (0, 1),
                       facecolor=kinds[kind], edgecolor="white", linewidth=0.8)
        if end - begin > 0.08 * (stop - start):
            label = name.split(part)[1].removesuffix(".weight").replace(".", "\n") if part else kind
            ax.text((begin + end) / 2000 - start / 1000, 0.5, label, color="white", ha="center",
                    va="center", fontsize=12)
    ax.set(xlim=(0, (stop - start) / 1000), ylim=(0, 1), yticks=[])
    ax.set_title("block 0" if part else "all arrays", fontsize=13, loc="left")
    ax.set_xlabel("kB", fontsize=12)
    ax.tick_params(labelsize=12)
ax.figure

# %% [markdown]
# With $b_i$ bytes per number and axes of length $s_{i1}, s_{i2}, \dots$ for array i, the size of
# the file must be
#
# $$8 + n + \sum_i b_i \prod_j s_{ij} \text{ bytes}$$
#
# If so, we have understood the format, and read the arrays as float32. NumPy has no bfloat16; a
# later section explains the line that widens it.

# %%
BYTES = {"F32": "<f4", "F16": "<f2", "BF16": "<u2"}                   # < is least significant first


def read(folder):
    """{name: array} in float32, without prefixes, constant masks and copies."""
    header, first = header_of(folder)
    raw, arrays = np.memmap(folder / "model.safetensors", np.uint8, "r"), {}
    for name, entry in header.items():
        begin, end = (first + offset for offset in entry["data_offsets"])
        x = raw[begin:end].view(BYTES[entry["dtype"]]).reshape(entry["shape"])
        if entry["dtype"] == "BF16":
            x = (x.astype(np.uint32) << 16).view(np.float32)
        if not name.endswith((".attn.bias", ".attn.masked_bias", "lm_head.weight")):
            arrays[name.removeprefix("transformer.")] = np.array(x, np.float32)
    return arrays


size = first + sum(np.dtype(BYTES[entry["dtype"]]).itemsize * int(np.prod(entry["shape"]))
                   for entry in header.values())
print(f"predicted {size:,} bytes, found {(folder / 'model.safetensors').stat().st_size:,}")
arrays = read(folder)

# %% [markdown]
# > A file of weights holds names, shapes and numbers, and no formula. How the numbers are used is
# > convention: it is in the paper, in the published code, or in one line of `config.json`.

# %% [markdown] minutes=20
# ## From arrays to logits
#
# Each block n has twelve arrays: six names, each with a weight and a bias. Before all names the
# prefix `transformer.` may be written.
#
# | name in the file | shape of the weight | what it is |
# |---|---|---|
# | `wte`, `wpe` (no bias) | (V, C), (T, C) | embeddings of tokens and of positions |
# | `h.n.ln_1`, `h.n.ln_2` | (C,) | LayerNorms before the two branches |
# | `h.n.attn.c_attn` | (C, 3C) | queries, keys and values in one matrix |
# | `h.n.attn.c_proj` | (C, C) | output of attention |
# | `h.n.mlp.c_fc`, `h.n.mlp.c_proj` | (C, 4C), (4C, C) | feed-forward network |
# | `ln_f` | (C,) | the last LayerNorm |
#
# Three things may surprise you. First, GPT-2 stores a matrix as (in, out), for $y = x W + b$; its
# code calls this layer `Conv1D`. PyTorch's linear layer, and so most other models, stores
# (out, in), for $y = x W^\top + b$. Second, the file has no matrix for the head: it is *tied* to
# the embedding, $\text{logits} = x\, W_{te}^\top$. Third, `c_attn` has three projections side by
# side:
#
# $$A = [A_q \;\; A_k \;\; A_v], \qquad
# y = x A + b = [x A_q + b_q \;\; x A_k + b_k \;\; x A_v + b_v] = [q \;\; k \;\; v]$$
#
# x is (T, C), A is (C, 3C), and y is (T, 3C). In q, head h has the columns hD to (h + 1)D - 1. For
# the backward, a bar denotes the gradient of the loss, $\bar{q} = \partial L / \partial q$:
#
# 1. Every entry of y is one entry of q, k or v, so $\bar{y} = [\bar{q} \;\; \bar{k} \;\; \bar{v}]$,
#    shape (T, 3C).
# 2. $y = x A + b$ is a product (lesson 7):
#    $\bar{A} = x^\top \bar{y} = [x^\top \bar{q} \;\; x^\top \bar{k} \;\; x^\top \bar{v}]$, (C, 3C),
#    and $\bar{b} = \sum_t \bar{y}_t$, (3C,).
# 3. x is used in three products, whose gradients add:
#    $\bar{x} = \bar{y} A^\top = \bar{q} A_q^\top + \bar{k} A_k^\top + \bar{v} A_v^\top$, (T, C).
#
# So one matrix learns exactly as three would. The gradient of attention itself is that of lesson 2.

# %%
def split(y, H):                                                      # (..., T, H D)
    return y.reshape(*y.shape[:-1], H, -1).swapaxes(-2, -3)           # (..., H, T, D)


def join(o):
    return o.swapaxes(-2, -3).reshape(*o.shape[:-3], o.shape[-2], -1)


def attention(x, A, b, H=2):
    q, k, v = (split(part, H) for part in np.split(x @ A + b, 3, axis=-1))
    return join(scaled_dot_product_attention(q, k, v, CAUSAL)[0])     # (..., T, C)


def attention_backward(do, x, A, b, H=2):
    q, k, v = (split(part, H) for part in np.split(x @ A + b, 3, axis=-1))
    _, saved = scaled_dot_product_attention(q, k, v, CAUSAL)
    dqkv = scaled_dot_product_attention_backward(split(do, H), saved)[:3]
    dy = np.concatenate([join(each) for each in dqkv], axis=-1)       # (B, T, 3 C)
    # y = x A + b
    return dy @ A.T, np.einsum("btc,btd->cd", x, dy), dy.sum(axis=(0, 1))


rng = np.random.default_rng(0)
print(gradcheck((attention, attention_backward),
                [rng.standard_normal(shape) for shape in ((2, 3, 4), (4, 12), (12,))]))

# %% [markdown]
# Now the whole model. Compare each line with the table.

# %%
def logits_of(a, ids, H, activation=gelu_tanh, epsilon=config["layer_norm_epsilon"]):
    def norm(x, name):
        return layer_norm(x, a[f"{name}.weight"], a[f"{name}.bias"], epsilon)[0]

    def linear(x, name):
        return x @ a[f"{name}.weight"] + a[f"{name}.bias"]

    x, n = a["wte.weight"][ids] + a["wpe.weight"][:ids.shape[-1]], 0  # (B, T, C)
    while f"h.{n}.ln_1.weight" in a:
        h = f"h.{n}"
        y = norm(x, f"{h}.ln_1")
        y = attention(y, a[f"{h}.attn.c_attn.weight"], a[f"{h}.attn.c_attn.bias"], H)
        x = x + linear(y, f"{h}.attn.c_proj")
        y = linear(norm(x, f"{h}.ln_2"), f"{h}.mlp.c_fc")             # (B, T, 4 C)
        x = x + linear(activation(y)[0], f"{h}.mlp.c_proj")
        n += 1
    return norm(x, "ln_f") @ a["wte.weight"].T                        # (B, T, V)


model, own = load(folder)                 # the library's reader, for comparison
prompt = own.encode("The function returns a list of all") if own else range(12)
ids = np.array([prompt])
ours, reference = logits_of(arrays, ids, H), model(ids)
print(f"logits {ours.shape}, standard deviation {ours.std():.3f}")
for name, logits in {"by hand": ours, "exact GELU": logits_of(arrays, ids, H, gelu),
                     "epsilon 1e-12": logits_of(arrays, ids, H, epsilon=1e-12)}.items():
    print(f"{name:>14}: differs from the library by at most {abs(logits - reference).max():.1e}")

# %% [markdown]
# By hand we get the library's logits but for the rounding of float32. The last two lines change one
# convention each. GPT-2 approximates GELU, $x\, \Phi(x)$ with the normal distribution function, by
#
# $$y = \tfrac12\, x\, (1 + \tanh u), \qquad u = \sqrt{2 / \pi}\, (x + 0.044715\, x^3)$$
#
# and LayerNorm adds $\epsilon$ = 1e-5 to the variance. The wrong choices change the logits far
# more than rounding does.
#
# > Compare logits with a reference: a slightly wrong formula raises no error, and its outputs look
# > plausible.
#
# **Exercise 18.1** (10 minutes). To train GPT-2 further you need the gradient of this
# approximation. Derive it by the product rule and the chain rule; the derivative of tanh u is
# $1 - \tanh^2 u$. `hint("gelu_tanh_backward")` helps; after a pass,
# `solution("gelu_tanh_backward")` shows ours.

# %%
def gelu_tanh_backward(dy, x):
    """dy and x have the same shape, with any number of axes. Return dx."""
    ...


check("gelu_tanh_backward", gelu_tanh_backward, seed=0)

# %% [markdown]
# The architecture: each box needs its part of the file.

# %% tags=["hide-input"]
from numformer.plots import architecture_diagram

architecture_diagram(CONFIGS["gpt2"], title="GPT-2").figure

# %% [markdown] minutes=20
# ## Conventions that no shape shows
#
# A matrix that is read as (out, in) instead of (in, out) is noticed where its sides differ. With
# shape (C, C), as in attention, it is not. Nor does a shape show which matrix of a gated network
# (lesson 6) is the gate, nor most of the choices in this table. It describes folders for the
# transformers library:
#
# | | GPT-2 | LLaMA, Mistral | Gemma | GPT-NeoX |
# |---|---|---|---|---|
# | matrices | (in, out) | (out, in) | (out, in) | (out, in) |
# | q, k, v | one matrix, [q k v] | three | three | one matrix, head by head |
# | positions | learned | rotary, half-split | the same | half-split, part of D |
# | key-value heads | H | G: query head h uses h // (H / G) | the same | H |
# | norm | LayerNorm | RMSNorm, weight w | RMSNorm, weight 1 + w | LayerNorm |
# | feed-forward | GELU (tanh) | SwiGLU | GEGLU (tanh) | GELU |
# | head | tied | its own | tied | its own |
#
# Rotary positions are the most interesting case. They rotate pairs of coordinates (lesson 3). The
# paper pairs neighbours, 2i with 2i + 1 (*interleaved*), and so does LLaMA's first code. The files
# for the transformers library pair i with i + D/2 (*half-split*). Equal colours are one pair:

# %% tags=["hide-input"]
D, ax = 8, Figure(figsize=(7, 2.8), layout="constrained").add_subplot()
order = np.concatenate([np.arange(0, D, 2), np.arange(1, D, 2)])      # half-split <- interleaved
colours = ["#1257a8", "#c8500a", "#5a6470", "#5b9bd5"]
for new, old in enumerate(order):
    colour = colours[old // 2]
    ax.plot([old, new], [0.87, 0.13], color=colour, linewidth=2)
    for x, y in ((old, 1), (new, 0)):
        ax.text(x, y, f"$x_{old}$", ha="center", va="center", color="white", fontsize=14,
                bbox=dict(boxstyle="circle,pad=0.3", facecolor=colour, edgecolor="none"))
ax.set(xlim=(-0.7, D - 0.3), ylim=(-0.25, 1.25), xticks=[])
ax.set_yticks([1, 0], ["interleaved", "half-split"], fontsize=12)
ax.tick_params(length=0)
ax.spines[:].set_visible(False)
ax.figure

# %% [markdown]
# The lines are a permutation P, shape (D, D): $(P x)_i = x_{2i}$ and $(P x)_{i + D/2} = x_{2i +
# 1}$. Let $R_t$ rotate interleaved pairs and $\tilde{R}_t$ half-split ones, both by the angles
# $\varphi_i$ of position t, with $c = \cos \varphi_i$, $s = \sin \varphi_i$.
#
# 1. Entry 2i of $R_t x$ is $c\, x_{2i} - s\, x_{2i+1}$. P moves it to position i.
# 2. Entry i of $\tilde{R}_t P x$ is $c\, (P x)_i - s\, (P x)_{i + D/2}$, which is
#    $c\, x_{2i} - s\, x_{2i+1}$: the same number. Entry i + D/2 is $s\, x_{2i} + c\, x_{2i+1}$,
#    which is entry 2i + 1 of $R_t x$, and P moves that to position i + D/2. So
#
# $$\tilde{R}_t\, P = P\, R_t$$
#
# 3. A permutation is orthogonal, $P^\top P = I$. With q and k of positions t and s,
#
# $$(\tilde{R}_t P q)^\top (\tilde{R}_s P k) = (P R_t q)^\top (P R_s k)
# = (R_t q)^\top P^\top P\, (R_s k) = (R_t q)^\top (R_s k)$$
#
# The scores are unchanged if both q and k are permuted. Values and the output are not rotated, and
# stay. And $q = x W_q$ is permuted once and for all by permuting, in each head, the columns of
# $W_q$ (the rows, if it is stored as (out, in)). In code, $R_t = P^\top \tilde{R}_t P$:

# %%
def rotary(x, cosine, sine, layout="half"):
    D = x.shape[-1]
    if layout == "interleaved":
        order = np.concatenate([np.arange(0, D, 2), np.arange(1, D, 2)])
        y = rotary(x[..., order], cosine, sine)                       # half-split of P x
        return y[..., np.argsort(order)]                              # P^T
    a, b = x[..., :D // 2], x[..., D // 2:]
    return np.concatenate([a * cosine - b * sine, a * sine + b * cosine], axis=-1)


check("rotary", rotary, seed=0)

# %% [markdown]
# Does it hold for a whole model? We train a small LLaMA with four query heads and two key-value
# heads, in the half-split layout. With its columns permuted back it must run interleaved:

# %%
def with_state(model, state, **options):
    """The same model with other arrays, and other options of its config."""
    new = Decoder(replace(model.config, **options), np.random.default_rng(0))
    new.load_state_dict(state)
    return new


llama = trained({**LLAMA, "n_kv_heads": 2}, seed=1)
D, state = llama.config.head_width, llama.state_dict()
back = np.argsort(np.concatenate([np.arange(0, D, 2), np.arange(1, D, 2)]))
permuted = {name: w.reshape(len(w), -1, D)[:, :, back].reshape(w.shape)
            if name.endswith(("query.weight", "key.weight")) else w for name, w in state.items()}
some = held_out[None, :T]
for name, each in (("not permuted", state), ("permuted", permuted)):
    other = with_state(llama, each, rotary_layout="interleaved")
    print(f"{name:>12}: logits differ by at most {abs(other(some) - llama(some)).max():.1e}")

# %% [markdown]
# > The two layouts of rotary positions differ by a permutation of each head's coordinates. Permute
# > the projections of queries and keys, and every score stays the same.
#
# **Exercise 18.2** (10 minutes). Gemma stores $w = \gamma - 1$, so its RMSNorm is
# $y = (1 + w) \odot r x$, with $r = (\langle x^2 \rangle + \epsilon)^{-1/2}$ and the mean
# $\langle \cdot \rangle$ over coordinates (lesson 15). What is $\bar{w}$, and where does w enter
# $\bar{x}$? ($\epsilon$ = 1e-5) `hint("rms_norm_backward")` helps; after a pass,
# `solution("rms_norm_backward")` shows ours.

# %%
def stored_norm_backward(dy, x, w):
    """dy, x (..., C), any axes before the last; w (C,). Return dx, dw."""
    ...


check("rms_norm_backward", lambda dy, x, weight: stored_norm_backward(dy, x, weight - 1),
      seed=0)

# %% [markdown] minutes=15
# ## Numbers of fewer bits
#
# Many published weights are **bfloat16**: the upper 16 of the 32 bits of a float32, that is its
# sign, its 8 bits of exponent and the first 7 of its 23 bits of fraction. So widening is exact: 16
# zero bits are appended. What does rounding to it lose? Here is the relative error of the numbers
# from 1 to 4, cut off, and rounded to the nearest:

# %%
def rounded(x):
    bits = x.view(np.uint32)
    last = (bits >> 16) & 1                                           # of the bits that are kept
    return ((bits + 0x7FFF + last) & 0xFFFF0000).view(np.float32)     # a tie goes to the even one


x = np.linspace(1, 4, 6000, dtype=np.float32)
cut = (x.view(np.uint32) & 0xFFFF0000).view(np.float32)
# %% tags=["hide-input"]
ax = Figure(figsize=(7, 3.4), layout="constrained").add_subplot()
for name, y, colour in (("cut off", cut, "#a9b8cc"), ("to the nearest", rounded(x), "#1257a8")):
    ax.plot(x, abs(y - x) / x, color=colour, linewidth=0.8, label=name)
ax.axhline(2 ** -8, color="#c8500a", linestyle="--", label="1/256")
ax.set_xlabel("x", fontsize=12)
ax.set_ylabel("relative error", fontsize=12)
ax.tick_params(labelsize=12)
ax.legend(fontsize=12)
ax.figure

# %% [markdown]
# 1. Write $x = \pm 2^e (1 + f)$ with $0 \le f < 1$. Seven bits of f are kept, so neighbours are
#    $2^e \cdot 2^{-7} = 2^{e-7}$ apart.
# 2. The nearest one is at most half of that away: $|\hat{x} - x| \le 2^{e-8}$.
# 3. $|x| \ge 2^e$, so the relative error is
#
# $$\frac{|\hat{x} - x|}{|x|} \le \frac{2^{e-8}}{2^e} = 2^{-8}$$
#
# An **8-bit integer** has 255 values, -127 to 127, and no exponent. It needs a scale. Take one for
# each output f, $s_f = \max_c |W_{cf}| / 127$, and store $Q_{cf} = \mathrm{round}(W_{cf} / s_f)$.
# With the errors $e_{cf} = s_f Q_{cf} - W_{cf}$, $|e_{cf}| \le s_f / 2$, an output
# $y_f = \sum_c x_c W_{cf}$ changes by
#
# $$|\hat{y}_f - y_f| = \Big| \sum_c x_c\, e_{cf} \Big| \le \tfrac12\, s_f \sum_c |x_c|$$
#
# That is the worst case. If the errors are independent and uniform on $[-s_f/2, s_f/2]$, each has
# the variance $\frac{1}{s_f} \int_{-s_f/2}^{s_f/2} u^2\, du = s_f^2 / 12$. Variances add, so the
# typical error is their root, $s_f \|x\| / \sqrt{12}$.

# %%
W = arrays["h.0.mlp.c_fc.weight"]                                     # (C, 4 C)
relative = abs(rounded(W) - W)[W != 0] / abs(W)[W != 0]
same = np.array_equal(rounded(W).view(np.uint32) >> 16, to_bfloat16(W))
print(f"bfloat16: largest relative error {relative.max():.6f}, bound {2 ** -8:.6f}; as the "
      f"library's: {same}")
scale = abs(W).max(axis=0) / 127                                      # (4 C,)
Q = np.rint(W / scale).astype(np.int8)
x = rng.standard_normal((200, C)).astype(np.float32)
error = abs(x @ (scale * Q) - x @ W)                                  # (200, 4 C)
worst = scale / 2 * abs(x).sum(axis=1, keepdims=True)
typical = scale * np.linalg.norm(x, axis=1, keepdims=True) / 12 ** 0.5
print(f"int8: largest share of the bound {(error / worst).max():.3f}; root mean square of the "
      f"error over the typical one {np.sqrt(((error / typical) ** 2).mean()):.3f}")

# %% [markdown]
# The bounds hold, and errors of sums are as large as those of independent terms: a ratio near 1.
#
# > bfloat16 keeps the range of float32 and rounds each number by at most 1/256 of itself. int8
# > rounds by at most half a scale; the errors of a sum mostly cancel.
#
# **Think.** Why can Gemma's $w = \gamma - 1$ be stored more precisely than $\gamma$ = 1.003?
#
# <details><summary>Answer</summary>
#
# In bfloat16 the neighbours of 1 are 1/128 above and 1/256 below, so 1.003 is rounded to 1. The
# number 0.003 has an exponent of its own, and is rounded by at most 1/256 of 0.003.
#
# </details>

# %% [markdown] minutes=10
# ## Experiment: one wrong convention
#
# We train three models of each design, with three seeds, read each with one mistake, and measure
# the loss on 60 held-out texts of 48 tokens.
#
# **Expected.** Exact GELU, another epsilon, and fewer bits change each number a little: we expect
# less than 0.01 nats. Mistakes that mix up coordinates should destroy what attention has learned.
# The last mistake forgets the 1 that Gemma's norms add, so every branch is multiplied by numbers
# near 0: it should cost most.

# %%
def changed(a, endings, change):
    return {name: change(w) if name.endswith(endings) else w for name, w in a.items()}


def misread_gpt2(a, H=4, C=48):
    swapped = np.r_[C:2 * C, :C, 2 * C:3 * C]                         # columns: k, q, v
    by_head = np.arange(3 * C).reshape(H, 3, -1).swapaxes(0, 1).ravel()
    joint = ("c_attn.weight", "c_attn.bias")
    matrices = ("c_attn.weight", "c_proj.weight", "c_fc.weight")
    return {
        "right": (a, {}),
        "GELU exact": (a, dict(activation=gelu)),
        "epsilon 1e-12": (a, dict(epsilon=1e-12)),
        "matrices in bfloat16": (changed(a, matrices, rounded), {}),
        "matrices in int8": (changed(a, matrices, lambda w: round_weight(w, "int8")), {}),
        "positions one too late": (changed(a, "wpe.weight", lambda w: np.roll(w, -1, axis=0)), {}),
        "q and k exchanged": (changed(a, joint, lambda w: w[..., swapped]), {}),
        "c_attn head by head": (changed(a, joint, lambda w: w[..., by_head]), {}),
        "attention's c_proj transposed": (changed(a, "attn.c_proj.weight", np.transpose), {}),
    }

# %%
def misread_llama(a, H=4, G=2, C=48):
    turns = np.arange(C).reshape(G, H // G, -1).swapaxes(0, 1).ravel()
    mixed = changed(changed(a, "query.weight", lambda w: w[:, turns]),
                    "attention.output.weight", lambda w: w[turns])
    other = {"gate": "hidden", "hidden": "gate"}
    gates = {".".join(other.get(part, part) for part in name.split(".")): w
             for name, w in a.items()}
    norms = ("norm1.weight", "norm2.weight", "norm.weight")
    return {
        "right": (a, {}),
        "rotary base 500,000": (a, dict(rotary_base=5e5)),
        "rotary layout interleaved": (a, dict(rotary_layout="interleaved")),
        "key-value heads h mod G": (mixed, {}),
        "gate and up exchanged": (gates, {}),
        "norms without the 1": (changed(a, norms, lambda w: w - 1), {}),
    }

# %%
rows = held_out[:60 * (T + 1)].reshape(60, T + 1)
losses, folders = {}, [made]
for seed in (1, 2, 3):
    if seed > 1:
        folders.append(published(trained(GPT2, seed)))
        llama = trained({**LLAMA, "n_kv_heads": 2}, seed)
    for name, (a, options) in misread_gpt2(read(folders[-1])).items():
        with backend.one_blas_thread():                               # for many small products
            logits = logits_of(a, rows[:, :-1], 4, **{"epsilon": 1e-5, **options})
        losses.setdefault("GPT-2 " + name, []).append(cross_entropy(logits, rows[:, 1:])[0])
    for name, (a, options) in misread_llama(llama.state_dict()).items():
        logits = with_state(llama, a, **options)(rows[:, :-1])
        losses.setdefault("LLaMA " + name, []).append(cross_entropy(logits, rows[:, 1:])[0])
for name, values in losses.items():
    print(f"{name:>36}:", *(f"{value:.4f}" for value in values))

# %%
costs = {}
for name, values in losses.items():
    design, mistake = name.split(" ", 1)
    if mistake != "right":
        costs[name] = np.abs(np.subtract(values, losses[design + " right"]))            # (3,)
# %% tags=["hide-input"]
ax, names = Figure(figsize=(8, 5), layout="constrained").add_subplot(), list(costs)
for y, name in enumerate(reversed(names)):
    for x, marker in zip(np.maximum(costs[name], 1e-6), "os^"):
        ax.plot(x, y, marker, color="#1257a8" if "GPT" in name else "#c8500a")
for marker, seed in zip("os^", (1, 2, 3)):
    ax.plot([], [], "k" + marker, label=f"seed {seed}")
ax.set_xscale("log")
ax.set_yticks(range(len(names)), names[::-1], fontsize=12)
ax.set_xlabel("size of the change of the loss, nats per token", fontsize=12)
ax.tick_params(labelsize=12)
ax.grid(axis="x", alpha=0.3)
ax.legend(fontsize=12, loc="lower left")
ax.figure

# %% [markdown]
# **What came out.** Exact GELU, another epsilon and fewer bits change the loss by at most about
# 0.001 nats with every seed, as expected. Mistakes that mix up coordinates or heads cost from 0.3
# to 1.4 nats, and norms without their 1 about 2.5. Two mistakes cost less than we thought.
# Learned positions that are one too late keep all distances between tokens, and cost at most about
# 0.01 nats; another rotary base costs about 0.1. All but the last are far below guessing, which
# costs $\ln 384$ = 5.95 nats. A loss that is 0.3 too high looks like a shorter training, not like a
# mistake in reading.
#
# > A wrong convention raises no error. It gives a loss that is too high, often by little, and only
# > a comparison of logits with a reference shows it.

# %% [markdown] minutes=5
# ## Counting exactly
#
# Lesson 15 has the approximation $12 L C^2 + V C$. The table of names above gives the exact number.
# A block of GPT-2 has
#
# 1. two norms with weight and bias, $4 C$;
# 2. `c_attn`, $3 C^2 + 3 C$, and `c_proj`, $C^2 + C$;
# 3. `c_fc`, $4 C^2 + 4 C$, and `c_proj`, $4 C^2 + C$.
#
# The sum is $12 C^2 + 13 C$. With two tables and the last norm, the head being tied,
#
# $$\text{parameters} = V C + T C + L\, (12 C^2 + 13 C) + 2 C$$
#
# For GPT-2, V = 50,257, T = 1,024, L = 12 and C = 768: 38,597,376 + 786,432 + 85,054,464 + 1,536 =
# 124,439,808.

# %%
def gpt2_parameters(V, T, L, C):
    return V * C + T * C + L * (12 * C ** 2 + 13 * C) + 2 * C


predicted = gpt2_parameters(*(config[key] for key in ("vocab_size", "n_positions", "n_layer",
                                                      "n_embd")))
print(f"this file: {sum(w.size for w in arrays.values()):,}, by the formula {predicted:,}")
print(f"{'':10} {'parameters':>14} {'float32':>9} {'bfloat16':>9} {'int8':>9} {'KV cache':>9}")
for name in ("gpt2", "gpt2-xl", "llama-7b", "llama2-70b"):
    costs, T_max = count(CONFIGS[name]), CONFIGS[name].context_length  # numformer count NAME
    n, cache = costs["parameters"], T_max * costs["kv_bytes_per_token"] / 2       # bfloat16
    print(f"{name:10} {n:14,}", *(f"{size / 1e9:6.2f} GB" for size in (4 * n, 2 * n, n, cache)))

# %% [markdown]
# The cache is that of one text of full length, in bfloat16 (lesson 15).
#
# > A config determines the number of parameters exactly. A count that differs, even by little, is a
# > wrong config.
#
# **Think.** LLaMA's design has no biases, RMSNorms, a gated network of width F, G key-value heads
# of width D, and a head of its own. What is its formula? Compare it with the last line: V = 32,000,
# L = 80, C = 8,192, F = 28,672, G = 8, D = 128.
#
# <details><summary>Answer</summary>
#
# 2 V C + L (2 C² + 2 C G D + 3 C F + 2 C) + C: two tables; per block queries and output, keys and
# values, three matrices, two norms; the last norm. That is 524,288,000 + 80 x 855,654,400 + 8,192 =
# 68,976,648,192.
#
# </details>

# %% [markdown] minutes=5
# ## Training further
#
# Loaded arrays can take the place of random initial values: that is *fine-tuning*. Tokenizer and
# sizes must be those of the file, and steps are usually smaller than in training from new weights.
# On the command line:
#
# ```console
# numformer import models/gpt2 --out runs/gpt2
# numformer train --from runs/gpt2 --data notes.txt --learning-rate 1e-4 --out runs/notes
# numformer export runs/notes --out models/notes
# ```
#
# Here our three models of Python's documentation continue with Python code. We expect 40 steps from
# loaded weights to reach a lower loss than 40 steps from new ones.

# %%
code = np.array(tokenizer.encode(inspect.getsource(argparse)))
cut = len(code) * 9 // 10
test = code[cut:cut + 40 * (T + 1)].reshape(-1, T + 1)
for seed, each in zip((1, 2, 3), folders):
    loaded, _ = load(each)
    found = [loaded.loss((test[:, :-1], test[:, 1:]))[0]]
    trained(GPT2, seed, steps=40, rate=2e-3, model=loaded, text=code[:cut])
    new = trained(GPT2, seed, steps=40, text=code[:cut])
    found += [model.loss((test[:, :-1], test[:, 1:]))[0] for model in (loaded, new)]
    print(f"seed {seed}: loaded {found[0]:.3f}, after 40 steps {found[1]:.3f}; "
          f"40 steps from new weights {found[2]:.3f}")

# %% [markdown]
# **What came out.** As expected, with every seed, by more than 0.5 nats. Before these steps the
# loss of the loaded weights is high: code has other statistics than documentation.
#
# > Fine-tuning is training that starts from loaded weights: same tokenizer, same sizes, smaller
# > steps.

# %% [markdown]
# ## Summary
#
# - A safetensors file: 8 bytes of length, a header in JSON, bare numbers. It holds no formula.
# - `c_attn` is $[A_q \; A_k \; A_v]$, and its gradient is the three gradients side by side. GPT-2
#   stores (in, out), most others (out, in); a tied head is not in the file.
# - $\tilde{R}_t P = P R_t$: the two layouts of rotary positions differ by a permutation of the
#   columns of $W_q$ and $W_k$ in each head.
# - bfloat16 rounds by at most $2^{-8}$ of a number; int8 by at most $s_f / 2$, and a sum typically
#   by $s_f \|x\| / \sqrt{12}$.
# - Wrong conventions raise no error. Compare logits.
# - GPT-2 has $V C + T C + L (12 C^2 + 13 C) + 2 C$ parameters.
#
# More practice: `numformer exercises 11 18` (RMSNorm, rotations).

# %% [markdown]
# ## Further reading
#
# - A. Radford et al. (2019), "Language Models are Unsupervised Multitask Learners": section 2.3.
# - The format of the file: <https://github.com/huggingface/safetensors>.
# - J. Su et al. (2021), "RoFormer: Enhanced Transformer with Rotary Position Embedding": equation
#   34 pairs neighbours.
# - The repository huggingface/transformers: issue 25199 on the two layouts of rotary positions,
#   pull request 40796 on Gemma's norms.
# - D. Kalamkar et al. (2019), "A Study of BFLOAT16 for Deep Learning Training": section 3.
# - B. Jacob et al. (2018), "Quantization and Training of Neural Networks for Efficient
#   Integer-Arithmetic-Only Inference": section 2.1.
# - Code: `numformer/interop/` (one table of names for each family), `numformer/CONVENTIONS.md`,
#   `numformer/functional/quantization.py`.
