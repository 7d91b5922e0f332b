"""ALiBi: a penalty on scores, proportional to the distance.

z_hij = scores_hij - slope_h |i + S - T - j|

The last query is aligned with the last key: with T queries and S keys, query i is at position
i + S - T.
"""
# goal: add position information to scores, without parameters
# needs: scaled_dot_product_attention
# lessons: 13
# ideas: a matrix of distances; the last query is aligned with the last key
# points: 2
# checks: alibi

import numpy as np


def alibi(scores, slopes):
    """scores (..., H, T, S), any axes before the heads, slopes (H,) to z, as scores."""
    # BEGIN SOLUTION
    T, S = scores.shape[-2:]
    distance = np.abs(np.arange(T)[:, None] + S - T - np.arange(S))
    return scores - slopes[:, None, None] * distance
    # END SOLUTION
