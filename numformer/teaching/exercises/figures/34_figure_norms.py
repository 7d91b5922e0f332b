"""Explain the figure: normalization before the branch, or after the sum.

The norm of the gradient of each block in deep decoders before training; a mean of eight models.
Look at the picture (`draw().figure.savefig("picture.png")` writes it) and write your answers into
`answers`. Do not round numbers.

- "falls": with which of the two does the gradient decrease more from the first block to the last,
  "before" or "after"?
- "times": in the last block, how many times larger is the gradient norm with normalization after
  each sum than with normalization before each branch?
- "careful": which of the two needs a warm-up of the learning rate, "before" or "after"?
"""
# goal: know why the Transformer of 2017 needs its warm-up
# needs: layer_norm_backward
# lessons: 5, 15
# ideas: where a norm is placed; a ratio of gradients; why a warm-up
# points: 2
# answers: the questions above
# BEGIN HINTS
# 1. gradient_norms(True) is the curve "before" and gradient_norms(False) the curve "after":
#    one number per block, the first block first.
# 2. For "falls", compare the last number of each curve, divided by its first. "times"
#    compares the last numbers of both curves.
# 3. "times": gradient_norms(False)[-1] / gradient_norms(True)[-1]. "careful": the one whose
#    last blocks get the larger gradients in the first steps.
# END HINTS

import numpy as np

from numformer.analysis import gradient_norm_by_block
from numformer.models import TRANSFORMER_2017, Decoder, DecoderConfig
from numformer.plots import gradient_flow

LAYERS = 16  # VARIANT 16 20 24


def gradient_norms(norm_first):
    """The gradient norm of every block; each branch has half the scale of the residual stream."""
    options = {**TRANSFORMER_2017, "norm_first": norm_first, "init_std": 32 ** -0.5}
    config = DecoderConfig(**options, dtype="float64", vocab_size=20, context_length=16,
                           n_layers=LAYERS, n_heads=2, d_model=32)
    found = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        model = Decoder(config, rng)
        for block in model.blocks:
            block.attention.output.weight.data *= (2 * LAYERS) ** 0.5 / 2
            block.feedforward.output.weight.data *= (2 * LAYERS) ** 0.5 / 4
        ids = rng.integers(0, 20, (4, 17))
        found.append(gradient_norm_by_block(model, (ids[:, :-1], ids[:, 1:]))["blocks"])
    return np.mean(found, axis=0)


def draw():
    return gradient_flow({"before": gradient_norms(True), "after": gradient_norms(False)})


def answers():
    """{"falls": str, "times": float, "careful": str}"""
    # BEGIN SOLUTION
    before, after = gradient_norms(True), gradient_norms(False)
    falls = "before" if before[-1] / before[0] < after[-1] / after[0] else "after"
    return {"falls": falls, "times": float(after[-1] / before[-1]), "careful": "after"}
    # END SOLUTION
