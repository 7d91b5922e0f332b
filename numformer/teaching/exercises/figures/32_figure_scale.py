"""Explain the figure: why scores are divided by sqrt(D).

The entries of a query and of the keys are standard normal. Their inner products have a standard
deviation of sqrt(D), with D = `WIDTH`.
Look at the picture (`draw().figure.savefig("picture.png")` writes it) and write your answers into
`answers`. Do not round numbers.

- "plain": the largest weight where scores are q . k
- "scaled": the largest weight where scores are divided by sqrt(D)
- "gradient": in which of the two does more gradient reach the scores, "plain" or "scaled"? (The
  derivative of a weight with respect to its own score is p (1 - p): compare the largest.)
"""
# goal: see a softmax saturate
# needs: softmax_backward
# lessons: 2, 13
# ideas: the size of an inner product; the scale; the slope of a saturated softmax
# points: 2
# answers: the questions above
# BEGIN HINTS
# 1. numbers() returns the query and the keys. Compute both rows of weights from them, and
#    compare with the two pictures.
# 2. The plain scores are k @ q, the scaled ones are divided by np.sqrt(WIDTH).
#    F.softmax(scores)[0] gives the weights. p (1 - p) is largest at p = 1/2 and 0 at p = 1.
# 3. "plain": F.softmax(k @ q)[0].max(); "scaled": the same of k @ q / np.sqrt(WIDTH).
#    "gradient": the one in which (p * (1 - p)).max() is larger.
# END HINTS

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
    """Scores and weights of the query; `draw(1.0)` is without the scale."""
    return query_detail(*numbers(), scale=scale)


def answers():
    """{"plain": float, "scaled": float, "gradient": str}"""
    # BEGIN SOLUTION
    q, k = numbers()
    plain, scaled = F.softmax(k @ q)[0], F.softmax(k @ q / np.sqrt(WIDTH))[0]
    passes = {"plain": (plain * (1 - plain)).max(), "scaled": (scaled * (1 - scaled)).max()}
    return {"plain": float(plain.max()), "scaled": float(scaled.max()),
            "gradient": max(passes, key=passes.get)}
    # END SOLUTION
