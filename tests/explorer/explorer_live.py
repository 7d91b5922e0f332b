"""Decoders for live pages, and what NumPy computes of them: the oracle of the page's script."""

import numpy as np

from numformer.analysis.attention_views import Reading
from numformer.analysis.capture import residual_stream
from numformer.data import CharacterTokenizer
from numformer.explorer import explore
from numformer.models import Decoder, DecoderConfig

LETTERS = "abcdefghi"
TEXT = "abcabcfghia"
SIZES = dict(vocab_size=len(LETTERS), context_length=16, n_layers=2, n_heads=4, d_model=16,
             init_std=0.5)
OPTIONS = {                                           # what presets use, and most other options
    "gpt": dict(),
    "llama": dict(norm="rms_norm", feedforward="swiglu", positions="rotary", query_key_norm=True,
                  bias=False, n_kv_heads=2, tied=False, lm_head_bias=True),
    "2017": dict(norm_first=False, embedding_norm=True, positions="sinusoidal",
                 embedding_scale=True, feedforward="relu"),
    "t5, experts, sandwich": dict(positions="t5", n_experts=3, sandwich_norm=True,
                                  feedforward="gelu"),
    "alibi, parallel, windows": dict(parallel_residual=True, positions="alibi", sliding_window=3,
                                     layer_types="sliding_attention,full_attention",
                                     feedforward="geglu", logit_softcap=5.0),
    "gemma, one expert": dict(
        positions="rotary", rotary_layout="interleaved", d_rotary=2, norm="rms_norm",
        unit_offset=True, n_experts=4, experts_per_token=1, gates_over="all",
        feedforward="relu_squared", scaled_scores=False, sliding_window=4, local_rotary_base=100.0),
    "no positions, wide heads": dict(positions="none", feedforward="quick_gelu", d_head=6),
}


def live_decoder(name="gpt", **sizes):
    """A decoder with random weights, rounded to 16 bits as the page stores them."""
    model = Decoder(DecoderConfig(**{**SIZES, **OPTIONS[name], **sizes}), np.random.default_rng(0))
    rng = np.random.default_rng(1)
    for _, parameter in model.named_parameters():
        if parameter.data.ndim == 1:                  # norms and biases start at 1 and 0
            parameter.data += rng.normal(size=parameter.data.shape, scale=0.3).astype(np.float32)
        parameter.data[...] = parameter.data.astype(np.float16)
    return model


def live_page(model, text=TEXT, **options):
    tokenizer = CharacterTokenizer(LETTERS)
    reading = Reading((tokenizer.encode(text)[None],), list(text))
    return explore(model, reading, "Live", tokenizer=tokenizer, **options)


class Oracle:
    """A forward and a backward of -log p(target) at a position, with the outputs of heads scaled.

    Attributes
    ----------
    logits : ndarray, shape (T, V)
    p : list of ndarray, shape (H, T, T)
        Attention weights of each layer.
    lens : ndarray, shape (L + 1, T, V)
    dlogits : ndarray, shape (V,)
    attention : list of dict
        dscores (H, T, T), dq (H, T, D), dk and dv (G, T, D) of each layer.
    gradients : dict of str to ndarray
        Of each parameter.
    """

    def __init__(self, model, ids, position, target, scales):
        replica, ids = model.replica(), np.array(ids)[None]
        calls = [scale_heads(block.attention, scale)
                 for block, scale in zip(replica.blocks, scales)]
        logits, saved = replica.forward(ids)
        self.logits = logits[0]
        self.lens = np.stack([replica.head(replica.norm(x))[0]
                              for x in residual_stream(replica, ids)["blocks"]])
        z = self.logits[position].astype(np.float64)
        self.dlogits = np.exp(z - z.max()) / np.exp(z - z.max()).sum()
        self.dlogits[target] -= 1
        dlogits = np.zeros_like(logits)
        dlogits[0, position] = self.dlogits
        for block, call in zip(replica.blocks, calls):
            call["weights"] = block.attention.positions.weights(
                call["q"], call["k"], call["pattern"], block.attention.scale)[0]
        replica.backward(dlogits, saved)
        self.p = [call["weights"] for call in calls]
        self.attention = [gradients_of(call) for call in calls]
        self.gradients = {name: each.grad for name, each in replica.named_parameters()}


def scale_heads(attention, scale):
    """Multiply the output of each head by a number; record what goes in and comes back."""
    positions, call, factor = attention.positions, {}, np.array(scale)[:, None, None]
    attend, attend_backward = positions.attend, positions.attend_backward

    class Scaled(type(positions)):
        def attend(self, q, k, v, pattern, *options, **named):
            call.update(q=q, k=k, v=v, pattern=pattern)
            o, saved = attend(q, k, v, pattern, *options, **named)
            return o * factor.astype(o.dtype), saved

        def attend_backward(self, do, saved):
            call["do"] = do * factor.astype(do.dtype)
            call["gradients"] = attend_backward(call["do"], saved)
            return call["gradients"]

    scaled = Scaled.__new__(Scaled)
    scaled.__dict__.update(positions.__dict__)
    attention.positions = scaled
    return call


def gradients_of(call):
    """dscores from the definition: p (dp - sum of p dp), dp = do v'."""
    p, v, do = call["weights"], call["v"][0], call["do"][0]
    dp = do @ np.repeat(v, len(do) // len(v), axis=0).mT
    dscores = p * (dp - (p * dp).sum(axis=-1, keepdims=True))
    return dict(zip(("dq", "dk", "dv"), (each[0] for each in call["gradients"])), dscores=dscores)


# What the page computes, as lists: after `numformerPage.scale` and a text
NUMBERS = """
const [text, scales, position, target] = arguments, page = numformerPage;
page.readText(text.slice(0, 5));
scales.forEach((row, l) => row.forEach((s, h) => page.scale(l, h, s)));
for (let n = 6; n <= text.length; n++) page.readText(text.slice(0, n));
const { heads: H, capacity: N, vocabulary: V } = page.model.config, T = page.run.T;
const b = page.backward(position, target), list = (x) => Array.from(x);
const square = (x, n) => [...Array(H).keys()].map((h) => [...Array(n).keys()].map(
    (i) => list(x.subarray((h * N + i) * N, (h * N + i) * N + n))));
return {
  logits: list(page.run.logits.subarray(0, T * V)), probabilities: page.probabilities(T - 1),
  p: page.run.blocks.map((block) => square(block.attention.p, T)), lens: page.lens().map(list),
  dlogits: list(b.dlogits), loss: b.loss,
  gradients: Object.fromEntries(Object.entries(b.gradients).map(([name, g]) => [name, list(g)])),
  attention: b.attention.map((each) => ({ dscores: square(each.dscores, position + 1),
      dq: list(each.dq), dk: list(each.dk), dv: list(each.dv) })),
};
"""


def check_numbers(found, oracle, position, atol=1e-4):
    """Everything that a page computed, compared with NumPy."""
    close = lambda got, expected: np.testing.assert_allclose(
        np.reshape(got, np.shape(expected)), expected, rtol=1e-4, atol=atol)
    T = position + 1
    close(found["logits"], oracle.logits)
    close(found["lens"], oracle.lens)
    close(found["p"], np.stack(oracle.p))
    close(found["dlogits"], oracle.dlogits)
    z = oracle.logits[-1].astype(np.float64)
    close(found["probabilities"], np.exp(z - z.max()) / np.exp(z - z.max()).sum())
    for got, expected in zip(found["attention"], oracle.attention, strict=True):
        close(got["dscores"], expected["dscores"][:, :T, :T])
        for name in ("dq", "dk", "dv"):
            rows = expected[name][:, :T].transpose(1, 0, 2)           # (T, heads, D)
            close(got[name], rows)
            assert not expected[name][:, T:].any(), "later positions have no gradient"
    missing = set(oracle.gradients) - set(found["gradients"])
    assert all(not oracle.gradients[name].any() for name in missing)
    for name, got in found["gradients"].items():
        close(got, oracle.gradients[name])
