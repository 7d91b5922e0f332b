"""Attention in tiles: what a few more keys change, without the weights of those before.

s_j = q . k_j / sqrt(D),   m = max_j s_j,   l = sum_j exp(s_j - m),   o = sum_j exp(s_j - m) v_j / l

The sums run over the keys that a query has met so far, so o is its output if there were no more.
Now comes a tile of J keys and values. Compute m, l and o over the earlier keys and these, from m, l
and o so far and from the tile alone. Before the first tile m is -Inf, and l and o are 0. Scores of
1000 are allowed. Lesson 9 and `tiled_attention_steps` keep l o in place of o, and divide once at
the end; here o is kept. Dao et al. (2022), "FlashAttention", algorithm 1.
"""
# goal: update a softmax and its average when more scores arrive
# needs: scaled_dot_product_attention
# lessons: 9
# ideas: sums relative to another maximum; undo the division by the old sum
# points: 3
# parts: all or nothing
# returns: m, l, o
# BEGIN HINTS
# 1. Every sum over all keys is a sum over the earlier keys plus one over the tile. Write both
#    relative to the new maximum: what is exp(s - new m) of an earlier key, from exp(s - m)?
# 2. The earlier part of the new l is exp(m - new m) l. The earlier part of the sum of
#    exp(s - new m) v is that times o, because o was divided by l.
# 3. With before = l * np.exp(m - new_m) and p = np.exp(s - new_m), new_l is before plus the row
#    sums of p, and new_o is (before * o + p @ v) / new_l.
# END HINTS

import numpy as np


def tile_step(q, k, v, m, l, o):
    """q (I, D); k (J, D) and v (J, D_V) of the tile; m and l (I, 1), o (I, D_V) so far: to new m,
    l, o."""
    # BEGIN SOLUTION
    s = q @ k.T / q.shape[1] ** 0.5
    new_m = np.maximum(m, s.max(axis=1, keepdims=True))
    p = np.exp(s - new_m)
    before = l * np.exp(m - new_m)
    new_l = before + p.sum(axis=1, keepdims=True)
    return new_m, new_l, (before * o + p @ v) / new_l
    # END SOLUTION


# BEGIN TEACHER
def problems(rng):
    """Arguments, by what is special about them."""
    def arguments(I, J, earlier, D=4, D_V=4, size=1, tile=1):
        q, k, v = size * rng.normal(size=(I, D)), *(
            rng.normal(size=(earlier + J, width)) for width in (D, D_V))
        k[earlier:] *= tile
        m, l, o = np.full((I, 1), -np.inf), np.zeros((I, 1)), np.zeros((I, D_V))
        if earlier:
            m, l, o = tile_step(q, k[:earlier], v[:earlier], m, l, o)
        return q, k[earlier:], v[earlier:], m, l, o

    return {"the first tile": arguments(3, 4, 0),
            "a later tile": arguments(4, 3, 6),
            "a tile that never has the largest score": arguments(3, 2, 8, tile=0.01),
            "a tile that has all large scores": arguments(3, 2, 5, tile=20),
            "one key": arguments(2, 1, 3),
            "values of another width": arguments(2, 5, 3, D=3, D_V=6),
            "scores near 1000": arguments(3, 4, 4, size=1000)}


def mistakes():
    """Likely wrong functions, by what is wrong in them."""
    def wrong(mistake):
        def step(q, k, v, m, l, o):
            s = q @ k.T / (1 if mistake == "no root" else q.shape[1] ** 0.5)
            new_m = np.maximum(m, s.max(axis=1, keepdims=True))
            new_m = s.max(axis=1, keepdims=True) if mistake == "m of the tile" else new_m
            p = np.exp(s - (m if mistake == "old m" else new_m))
            factor = {"not rescaled": 1, "inverted": np.exp(new_m - m)}.get(
                mistake, np.exp(m - new_m))
            before = l * (1 if mistake == "l not rescaled" else factor)
            new_l = before + p.sum(axis=1, keepdims=True)
            kept = {"o without l": factor, "o not rescaled": l, "l not rescaled": l * factor}.get(
                mistake, before)
            sums = kept * o + p @ v
            return new_m, new_l, sums if mistake == "not divided" else sums / new_l
        return step

    return {words: wrong(mistake) for words, mistake in (
        ("o so far is not multiplied by l: it was divided by it, so the sum of the values was l o",
         "o without l"),
        ("o so far lacks the factor exp(m - new m): it is a sum relative to the old maximum",
         "o not rescaled"),
        ("l so far lacks the factor exp(m - new m): it is a sum relative to the old maximum",
         "l not rescaled"),
        ("l and o so far lack the factor exp(m - new m): they are relative to the old maximum",
         "not rescaled"),
        ("the factor of l and o so far is exp(new m - m), but must be exp(m - new m)", "inverted"),
        ("the weights of the tile are exp(s - m) with the old m, but must have the new one",
         "old m"),
        ("m is the maximum of the tile alone: the earlier keys have a maximum, too",
         "m of the tile"),
        ("o is not divided by the new l", "not divided"),
        ("the scores are not divided by sqrt(D)", "no root"))}
# END TEACHER
