"""A score that finds induction heads, which look up what followed the last time.

score_h = mean over t of p_h[t, j + 1],   where j is the earlier position of the token at t

The text is some tokens twice: x_0 ... x_(L-1), then the same once more, T = 2 L. They are taken as
different tokens, so a token of the second half has one earlier copy, and a token of the first half
has none and does not count. An induction head attends from each token to the one that came after
its earlier copy, which is the token that comes next: its score is near 1. Olsson et al. (2022),
"In-context Learning and Induction Heads", measures heads on such texts.
"""
# goal: turn a pattern of attention into a number
# needs: nothing
# lessons: 19
# ideas: the earlier copy is half a text back; the entries form a diagonal; only some of it counts
# points: 2
# parts: all or nothing
# returns: scores
# BEGIN HINTS
# 1. With L = 3, the text is a b c a b c. Which key do the queries 3, 4 and 5 attend to in an
#    induction head?
# 2. Query t, from L on, and key t - L + 1: that is L entries of each map. Query L - 1, in the first
#    half, is on the same diagonal and does not count.
# 3. p[:, t, t - L + 1] with t = np.arange(L, 2 * L) is (H, L); the mean over its last axis is left.
# END HINTS

import numpy as np


def induction_scores(p):
    """p (H, T, T), weights of queries (rows) and keys, T even: to scores (H,)."""
    # BEGIN SOLUTION
    L = p.shape[1] // 2
    t = np.arange(L, 2 * L)
    return p[:, t, t - L + 1].mean(axis=1)
    # END SOLUTION


# BEGIN TEACHER
def problems(rng):
    """Arguments, by what is special about them."""
    def causal(H, T, sharp=1):
        p = np.tri(T) * np.exp(sharp * rng.normal(size=(H, T, T)))
        return p / p.sum(axis=-1, keepdims=True)

    def head(L, shift):                                   # from t to t - L + shift, or to itself
        keys = np.arange(2 * L) - L + shift
        return np.eye(2 * L)[np.where(keys < 0, np.arange(2 * L), keys)][None]

    return {"plain": (causal(4, 8),),
            "one head": (causal(1, 6),),
            "one token, twice": (causal(3, 2),),
            "a long text and sharp weights": (causal(2, 40, sharp=3),),
            "an induction head": (head(5, 1),),
            "a head that attends to the earlier copy": (head(5, 0),)}


def mistakes():
    """Likely wrong functions, by what is wrong in them."""
    def wrong(mistake):
        def induction_scores(p):
            T = p.shape[1]
            L = T // 2
            t = np.arange({"all": L - 1, "one late": L + 1}.get(mistake, L), T)
            key = {"copy": t - L, "two on": np.minimum(t - L + 2, T - 1), "before": t - 1,
                   "itself": t}.get(mistake, t - L + 1)
            found = p[:, key, t] if mistake == "transposed" else p[:, t, key]
            return {"sum": found.sum(axis=1), "by T": found.sum(axis=1) / T,
                    "heads": np.full(len(p), found.mean()), "largest": found.max(axis=1, initial=0),
                    }.get(mistake, found.mean(axis=1))
        return induction_scores

    return {words: wrong(mistake) for words, mistake in (
        ("the weight on the earlier copy itself is taken, but the key after it counts", "copy"),
        ("the weight two keys after the earlier copy is taken, but the next one counts", "two on"),
        ("the weight on the token just before is taken: j is the earlier copy's position",
         "before"),
        ("the weight on the token itself is taken", "itself"),
        ("queries and keys are exchanged: rows are queries", "transposed"),
        ("a query of the first half counts, but has no earlier copy", "all"),
        ("the first query of the second half is left out, but has an earlier copy", "one late"),
        ("the sum is returned, but the mean is asked for", "sum"),
        ("the sum is divided by T, but only the L queries of the second half count", "by T"),
        ("the mean is over the heads, too", "heads"),
        ("the largest weight is taken, and not the mean", "largest"))}
# END TEACHER
