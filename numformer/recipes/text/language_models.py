"""Kinds of language models, compared on the same text: n-grams, RNN, LSTM, CNN and decoders.

All but the n-grams have about 0.8 M parameters (of a mixture of experts, those active for a token)
and see the same blocks in the same order. They differ in their kind, and in the learning rate that
suits it.
"""

from dataclasses import fields

from numformer.recipes.text.characters import TEXT, TextTask
from numformer.recipes.preset import Claim, Preset
from numformer.training import CountingTrainer, TrainingConfig


class NGramTask(TextTask):
    """Count n-grams, longer ones with every step: see `CountingTrainer`."""

    name = "ngrams"
    unused = frozenset(field.name for field in fields(TrainingConfig)) - {
        "steps", "seed", "eval_every", "eval_blocks", "save_every", "patience"}

    def trainer(self, model, stream, validation, training):
        return CountingTrainer(model, stream, validation, training)

    def measure(self, model, tokenizer, dataset):
        """The length n of its n-grams."""
        return {"n": model.n}


_TRAINING = dict(optimizer="muon", muon_ratio=3.0, momentum=0.95, weight_decay=0.0,
                 schedule="linear", min_learning_rate=0.0, warmup_steps=20, steps=1200,
                 batch_size=16, eval_every=300, save_every=300)
_BLOCKS = dict(n_layers=4, n_heads=4, d_model=128, init_std=0.1)
_LLAMA = dict(_BLOCKS, norm="rms_norm", feedforward="swiglu", positions="rotary", bias=False,
              epsilon=1e-6)


def _compared(learning_rate, kind="Decoder", ahead_of=(), **model):
    return Preset(dict(context_length=128, **model), dict(_TRAINING, learning_rate=learning_rate),
                  TEXT, kind, claims=(Claim(ahead_of=ahead_of),))


PRESETS = {
    # No gradient: step n counts n-grams, and its validation shows how well they predict
    "ngram": Preset(
        dict(context_length=128), dict(steps=7, eval_every=1, save_every=0),
        NGramTask(), "NGramLanguageModel", claims=(Claim("bits_per_character", 1.76),)),
    "rnn": _compared(0.002, "RecurrentLanguageModel", cell="rnn", n_layers=2, d_model=436),
    "lstm": _compared(0.012, "RecurrentLanguageModel", ("rnn",), cell="lstm", n_layers=2,
                      d_model=220),
    "cnn": _compared(0.006, "ConvolutionLanguageModel", n_layers=8, d_model=128),
    # The decoder of Vaswani et al. (2017), without the encoder
    "decoder-2017": _compared(0.003, ahead_of=("lstm",), **_BLOCKS, norm_first=False,
                              feedforward="relu", positions="sinusoidal", embedding_scale=True),
    # GPT-2: pre-norm, GELU, learned positions
    "gpt": _compared(0.012, ahead_of=("lstm",), **_BLOCKS),
    # LLaMA: RMSNorm, SwiGLU, rotary positions, no biases
    "llama": _compared(0.012, ahead_of=("lstm", "decoder-2017"), **_LLAMA),
    # Mixtral: eight experts of half the width, two of them active for a token
    "moe": _compared(0.012, ahead_of=("lstm",), **_LLAMA, d_hidden=176, n_experts=8,
                     experts_per_token=2),
}
