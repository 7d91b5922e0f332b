"""Explain the figure: the norm before, or after.

A deep decoder before its first step; how long is the gradient of each block?
Look at the picture (`draw().figure.savefig("picture.png")` writes it), and answer in `answers`. Give the numbers as they are, not rounded.

- "grows": with the norm after each sum, is the gradient longer in the "first" or in the "last" block?
- "ratio": the length in the last block, divided by that in the first, with the norm after each sum
- "careful": which of the two needs small first steps, "before" or "after"?
"""
# goal: know why 2017's Transformer needs its warm-up
# needs: layer_norm_backward
# minutes: 15
# points: 2
# answers: the questions above

import numpy as np

from numformer.models import TRANSFORMER_2017, Decoder, DecoderConfig, gradient_by_block
from numformer.plots import gradient_flow

LAYERS = 16  # VARIANT 16 20 24


def lengths(norm_first):
    """The length of every block's gradient, with weights as they were drawn in 2017."""
    choices = {**TRANSFORMER_2017, "norm_first": norm_first, "init_std": 32 ** -0.5}
    config = DecoderConfig(**choices, vocab_size=20, context_length=32, n_layers=LAYERS, n_heads=2, d_model=32)
    model = Decoder(config, np.random.default_rng(0))
    for block in model.blocks:
        block.attention.output.weight.data *= np.float32((2 * LAYERS) ** 0.5)
        block.feedforward.output.weight.data *= np.float32((2 * LAYERS) ** 0.5 / 2)
    ids = np.random.default_rng(0).integers(0, 20, (8, 33))
    return gradient_by_block(model, (ids[:, :-1], ids[:, 1:]))["blocks"]


def draw():
    return gradient_flow({"before": lengths(True), "after": lengths(False)})


def answers():
    """{"grows": str, "ratio": float, "careful": str}"""
    # BEGIN SOLUTION
    after = lengths(False)
    return {"grows": "last" if after[-1] > after[0] else "first", "ratio": float(after[-1] / after[0]), "careful": "after"}
    # END SOLUTION
