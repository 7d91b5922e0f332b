"""Explain the figure: rotary positions.

The scores of one query and one key at all positions, and the rotation of their coordinates.
Look at the picture (`draw().figure.savefig("picture.png")` writes it) and write your answers into
`answers`. Do not round numbers.

- "same": positions (m, n) other than (M, N), with the same score as a query at M and a key at N; a
  pair of int in 0 .. 15
- "spread": scores of the same distance differ slightly; is that "rounding" or "real"?
- "slowest": the angle, in radians, by which the slowest pair of coordinates rotates per position
"""
# goal: see that scores depend only on the distance
# needs: rotary
# lessons: 3
# ideas: only the distance matters; rounding errors; the slowest frequency
# points: 2
# answers: the questions above
# BEGIN HINTS
# 1. Follow the diagonals of the map of scores. What do the pairs (m, n) on one diagonal have
#    in common?
# 2. A score depends on m - n alone, up to the rounding of floating-point numbers. Pair i of
#    coordinates rotates by 10000^(-2i/D) per position, i = 0, 1, ..., D/2 - 1.
# 3. "same": for example (M + 1, N + 1). "slowest": 10000.0 ** (-(D - 2) / D). "spread":
#    compare its size, in the picture, with 1e-16.
# END HINTS

import numpy as np

from numformer.plots import rotary_proof

D = 16  # VARIANT 8 16 32
M = 9  # VARIANT 7 8 9 10
N = 4  # VARIANT 3 4 5


def draw():
    """Scores of one query and one key, at 16 x 16 positions."""
    q, k = np.random.default_rng(0).standard_normal((2, D))
    return rotary_proof(q, k, positions=16)


def answers():
    """{"same": (int, int), "spread": str, "slowest": float}"""
    # BEGIN SOLUTION
    return {"same": (M + 1, N + 1), "spread": "rounding", "slowest": 10000.0 ** (-(D - 2) / D)}
    # END SOLUTION


# BEGIN TEACHER
def accepts(given):
    """Any other pair of the same distance is right for "same"."""
    m, n = given["same"]
    return {"same": m - n == M - N and (m, n) != (M, N) and min(m, n) >= 0 and max(m, n) < 16}
# END TEACHER
