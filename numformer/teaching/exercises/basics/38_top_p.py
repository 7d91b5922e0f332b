"""Top-p sampling: choose among the most likely tokens alone.

The set that may be chosen holds the most likely tokens, as few as have a sum of probabilities of
limit or more. The others get a probability of 0, and the sum is 1 again. Holtzman et al. (2020),
"The Curious Case of Neural Text Degeneration", section 3.1.
"""
# goal: cut off the tail of a distribution, and keep it a distribution
# needs: softmax
# lessons: 10, 22
# ideas: an order by probability; the token that crosses the limit belongs to the set; a sum of 1
# points: 3
# parts: all or nothing
# returns: p
# BEGIN HINTS
# 1. Sort the tokens by probability, the largest first, and add them up. Where does the sum reach
#    the limit?
# 2. A token is in the set if the sum of those before it is still below the limit: so the one that
#    crosses it is in, and the first always is.
# 3. order = np.argsort(-p); before = np.cumsum(p[order]) - p[order]. Set p[order[before >= limit]]
#    to 0 in a copy, and divide by what is left.
# END HINTS

import numpy as np


def top_p(p, limit):
    """p (V,), probabilities; limit, a number above 0 and below 1: to new probabilities (V,)."""
    # BEGIN SOLUTION
    order = np.argsort(-p)
    before = np.cumsum(p[order]) - p[order]
    kept = p.copy()
    kept[order[before >= limit]] = 0
    return kept / kept.sum()
    # END SOLUTION


# BEGIN TEACHER
def problems(rng):
    """Arguments, by what is special about them."""
    def probabilities(*weights):
        return rng.permutation(np.array(weights) / np.sum(weights))

    return {"plain": (rng.dirichlet(np.ones(7)), 0.7),
            "one token is enough": (probabilities(0.9, 0.06, 0.04), 0.5),
            "all tokens are needed": (probabilities(0.5, 0.3, 0.2), 0.95),
            "a token of probability 0": (probabilities(0.6, 0.4, 0.0, 0.0), 0.7),
            "one token": (np.ones(1), 0.9),
            "many tokens": (rng.dirichlet(np.ones(50)), 0.9)}


def mistakes():
    """Likely wrong functions, by what is wrong in them."""
    def wrong(crosses=lambda before, p, limit: before >= limit, first=-1, divided=True,
              in_order=False):
        def top_p(p, limit):
            order = np.argsort(first * p)
            kept = p[order]
            kept[crosses(np.cumsum(kept) - kept, kept, limit)] = 0
            if not in_order:
                kept[order] = kept.copy()
            return kept / kept.sum() if divided else kept
        return top_p

    return {"the token that crosses the limit is left out, but belongs to the set":
            wrong(lambda before, p, limit: before + p > limit),
            "one token too many is kept: the set ends with the one that crosses the limit":
            wrong(lambda before, p, limit: before - np.append(0, p[:-1]) >= limit),
            "what is left does not sum to 1: divide by its sum": wrong(divided=False),
            "the tokens are ordered from the least likely on: the most likely come first":
            wrong(first=1),
            "the probabilities are returned in the order of their size, not of the tokens":
            wrong(in_order=True)}
# END TEACHER
