"""Explain the figure: attention in tiles.

The tiles of causal attention in the order of computation, and the tiles that are skipped.
Look at the picture (`draw().figure.savefig("picture.png")` writes it) and write your answers into
`answers`. Do not round numbers.

- "seen": how many tiles are computed?
- "skipped": how many tiles are skipped?
- "kept": how many numbers per query are kept from tile to tile (m, l and the accumulator)?
"""
# goal: see that no T x S array is needed
# needs: scaled_dot_product_attention
# lessons: 9, 17
# ideas: tiles above the diagonal; the running maximum and sum; memory independent of T
# points: 2
# answers: the questions above
# BEGIN HINTS
# 1. steps() returns one entry per tile, also for those that are skipped.
# 2. Each entry has an attribute `skipped`, True or False. What is kept per query from tile to
#    tile does not depend on LENGTH.
# 3. "skipped": sum(step.skipped for step in steps()); "seen": the rest of len(steps()).
#    "kept": HEAD_WIDTH numbers of the accumulator, and one each for m and l.
# END HINTS

import numpy as np

from numformer.functional import CAUSAL, tiled_attention_steps
from numformer.plots import tile_order

LENGTH = 12  # VARIANT 12 16 20 24
TILE = 4  # VARIANT 2 3 4
HEAD_WIDTH = 5  # VARIANT 4 5 6


def steps():
    q, k, v = np.random.default_rng(0).standard_normal((3, 1, 1, LENGTH, HEAD_WIDTH))
    return list(tiled_attention_steps(q, k, v, CAUSAL, tile=TILE))


def draw():
    return tile_order(steps())


def answers():
    """{"seen": int, "skipped": int, "kept": int}"""
    # BEGIN SOLUTION
    skipped = sum(step.skipped for step in steps())
    return {"seen": len(steps()) - skipped, "skipped": skipped, "kept": HEAD_WIDTH + 2}
    # END SOLUTION
