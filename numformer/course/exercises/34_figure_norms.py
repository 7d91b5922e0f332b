"""Explain the figure: the norm before, or after.

Deep decoders before their first step, a mean of eight draws; how long is the gradient of each block?
Look at the picture (`draw().figure.savefig("picture.png")` writes it), and answer in `answers`. Give the numbers as they are, not rounded.

- "falls": with which of the two does the gradient fall more steeply from the first block to the last, "before" or "after"?
- "times": in the last block, how many times as long is the gradient with the norm after each sum as with the norm before each branch?
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
    """The length of every block's gradient, mean of the draws; at first a branch is half as strong as the stream that it is added to."""
    choices = {**TRANSFORMER_2017, "norm_first": norm_first, "init_std": 32 ** -0.5, "dtype": "float64"}
    config = DecoderConfig(**choices, vocab_size=20, context_length=16, n_layers=LAYERS, n_heads=2, d_model=32)
    found = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        model = Decoder(config, rng)
        for block in model.blocks:
            block.attention.output.weight.data *= (2 * LAYERS) ** 0.5 / 2
            block.feedforward.output.weight.data *= (2 * LAYERS) ** 0.5 / 4
        ids = rng.integers(0, 20, (4, 17))
        found.append(gradient_by_block(model, (ids[:, :-1], ids[:, 1:]))["blocks"])
    return np.mean(found, axis=0)


def draw():
    return gradient_flow({"before": lengths(True), "after": lengths(False)})


def answers():
    """{"falls": str, "times": float, "careful": str}"""
    # BEGIN SOLUTION
    before, after = lengths(True), lengths(False)
    falls = "before" if before[-1] / before[0] < after[-1] / after[0] else "after"
    return {"falls": falls, "times": float(after[-1] / before[-1]), "careful": "after"}
    # END SOLUTION
