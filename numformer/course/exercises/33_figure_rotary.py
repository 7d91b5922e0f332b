"""Explain the figure: rotary positions.

The scores of one query and one key at all places, and the clocks that turn them.
Look at the picture (`draw().figure.savefig("picture.png")` writes it), and answer in `answers`. Give the numbers as they are, not rounded.

- "same": two places (m, n) with the score of query at M and key at N, other than these; as a pair of int in 0 .. 15
- "spread": the largest difference between scores of one distance, "rounding" or "real"?
- "slowest": the angle, in radians, by which the slowest pair of coordinates turns in one step
"""
# goal: see that scores know distance alone
# needs: rotary
# minutes: 15
# points: 2
# answers: the questions above

import numpy as np

from numformer.plots import rotary_proof

D = 16  # VARIANT 8 16 32
M = 9  # VARIANT 7 8 9 10
N = 4  # VARIANT 3 4 5


def draw():
    """Scores of one query and one key, at 16 x 16 places."""
    q, k = np.random.default_rng(0).standard_normal((2, D))
    return rotary_proof(q, k, positions=16)


def answers():
    """{"same": (int, int), "spread": str, "slowest": float}"""
    # BEGIN SOLUTION
    return {"same": (M + 1, N + 1), "spread": "rounding", "slowest": 10000.0 ** (-(D - 2) / D)}
    # END SOLUTION


# BEGIN TEACHER
def accepts(given):
    """Any other pair of the same distance will do for "same"."""
    m, n = given["same"]
    return {"same": m - n == M - N and (m, n) != (M, N) and min(m, n) >= 0 and max(m, n) < 16}
# END TEACHER
