"""Explain the figure: a causal window.

Attention with a causal window: a query attends to itself and to some tokens before it.
Look at the picture (`draw().figure.savefig("picture.png")` writes it) and write your answers into
`answers`. Do not round numbers.

- "allowed": how many cells of the map are not hatched?
- "first": the first key that the last query may attend to, counted from 0
- "layers": how many layers are needed, at least, for the last token to depend on token 0?
"""
# goal: read a mask, and see how layers widen a window
# needs: scaled_dot_product_attention
# lessons: 4
# ideas: reading a mask; the first rows of a window; layers widen a window
# points: 2
# answers: the questions above
# BEGIN HINTS
# 1. Count the cells row by row: how many keys may one query attend to?
# 2. A query attends to itself and to BEFORE earlier tokens; the first queries have fewer. One
#    layer reaches back BEFORE tokens, two layers twice as far.
# 3. "allowed": rows of 1, 2, ..., BEFORE cells, then BEFORE + 1 in each other row. "first":
#    the last position minus BEFORE. "layers": (T - 1) / BEFORE, rounded up.
# END HINTS

import numpy as np

from numformer import AttentionPattern
from numformer.plots import attention_map

T = 12  # VARIANT 10 12 14 16
BEFORE = 3  # VARIANT 2 3 4


def draw():
    """Equal weights over all keys that each query may attend to."""
    mask = AttentionPattern(causal=True, window=(BEFORE, 0)).dense(T, T)
    return attention_map(mask / mask.sum(axis=1, keepdims=True), [str(t) for t in range(T)], mask)


def answers():
    """{"allowed": int, "first": int, "layers": int}"""
    # BEGIN SOLUTION
    mask = AttentionPattern(causal=True, window=(BEFORE, 0)).dense(T, T)
    return {"allowed": int(mask.sum()), "first": T - 1 - BEFORE,
            "layers": int(np.ceil((T - 1) / BEFORE))}
    # END SOLUTION
