"""Explain the figure: why scores are divided by the root of D.

One query of unit normal numbers, and keys likewise: their products have a standard deviation of sqrt(D), D = `WIDTH`.
Look at the picture (`draw().figure.savefig("picture.png")` writes it), and answer in `answers`. Give the numbers as they are, not rounded.

- "plain": the largest weight where scores are q . k
- "scaled": the largest weight where they are divided by sqrt(D)
- "gradient": which of the two softmaxes passes more gradient to its scores, "plain" or "scaled"? (It passes p (1 - p) to the
  score of its own weight: the larger maximum counts.)
"""
# goal: see a softmax saturate
# needs: softmax_backward
# minutes: 15
# points: 2
# answers: the questions above

import numpy as np

from numformer import functional as F
from numformer.plots import query_detail

WIDTH = 64  # VARIANT 48 64 96 128
SEED = 4  # VARIANT 4 12 13 22 23


def numbers():
    """One query (D,) and eight keys (8, D)."""
    rng = np.random.default_rng(SEED)
    return rng.standard_normal(WIDTH), rng.standard_normal((8, WIDTH))


def draw(scale=None):
    """The query in detail; `draw(1.0)` is the plain one."""
    return query_detail(*numbers(), scale=scale)


def answers():
    """{"plain": float, "scaled": float, "gradient": str}"""
    # BEGIN SOLUTION
    q, k = numbers()
    plain, scaled = F.softmax(k @ q)[0], F.softmax(k @ q / np.sqrt(WIDTH))[0]
    passes = {"plain": (plain * (1 - plain)).max(), "scaled": (scaled * (1 - scaled)).max()}
    return {"plain": float(plain.max()), "scaled": float(scaled.max()), "gradient": max(passes, key=passes.get)}
    # END SOLUTION
