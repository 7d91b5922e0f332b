"""Attention with a cache: new tokens attend to all earlier ones, whose keys and values are kept.

keys <- keys, then k,   values <- values, then v

o_t = sum_s softmax(q_t . keys_s / sqrt(D))_s values_s,   over the keys up to that of token t

A decoder calls this once with all tokens of the prompt, when the cache is still empty, and then
once for each token that it writes. Together the calls compute what causal attention computes for
the whole text at once. (In the library a `KeyValueCache` keeps keys and values.) Scores of 1000 are
allowed. Shazeer (2019), "Fast Transformer Decoding: One Write-Head is All You Need", section 2.4.
"""
# goal: compute causal attention a few tokens at a time, and nothing twice
# needs: scaled_dot_product_attention
# lessons: 15
# ideas: append before attending; a mask that counts the positions of the cache
# points: 3
# parts: all or nothing
# returns: o, keys, values
# BEGIN HINTS
# 1. A new token attends to itself, too: first append, then attend. Along which axis are the tokens
#    of k?
# 2. There are S tokens in the cache and T new ones. New token t has the position S + t in the text:
#    it attends to the keys 0 to S + t. With S = 0 that is the causal mask.
# 3. np.tri(T, S + T, S, dtype=bool) is the mask. Scores where it is False become -np.inf before the
#    softmax: np.where(mask, scores, -np.inf).
# END HINTS

import numpy as np


def cached_attention(q, k, v, keys, values):
    """q, k, v (H, T, D) of new tokens, keys, values (H, S, D) of earlier ones: to o (H, T, D) and
    the keys and values (H, S + T, D) for the next call."""
    # BEGIN SOLUTION
    T, S = q.shape[1], keys.shape[1]
    keys = np.concatenate([keys, k], axis=1)
    values = np.concatenate([values, v], axis=1)
    scores = q @ keys.swapaxes(1, 2) / q.shape[2] ** 0.5
    scores = np.where(np.tri(T, S + T, S, dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=2, keepdims=True))
    return weights @ values / weights.sum(axis=2, keepdims=True), keys, values
    # END SOLUTION


# BEGIN TEACHER
def problems(rng):
    """Arguments, by what is special about them."""
    def arguments(H, T, S, D, size=1):
        new, old = rng.normal(size=(3, H, T, D)), rng.normal(size=(2, H, S, D))
        return (size * new[0], *new[1:], *old)

    return {"one new token": arguments(2, 1, 5, 4),
            "several tokens and an empty cache": arguments(2, 4, 0, 3),
            "several tokens and a cache": arguments(3, 3, 4, 2),
            "the first token of all": arguments(1, 1, 0, 4),
            "more new tokens than old ones": arguments(1, 5, 2, 3),
            "scores near 1000": arguments(2, 3, 3, 4, size=1000)}


def mistakes():
    """Likely wrong functions, by what is wrong in them."""
    def wrong(mistake):
        def cached_attention(q, k, v, keys, values):
            T, S, D = q.shape[1], keys.shape[1], q.shape[2]
            parts = [(keys, k), (values, v)]
            if mistake == "new first":
                parts = [(new, old) for old, new in parts]
            keys, values = (np.concatenate(pair, axis=1) for pair in parts)
            seen = {"from 0": np.tri(T, S + T), "strict": np.tri(T, S + T, S - 1),
                    "one more": np.tri(T, S + T, S + 1), "no mask": np.ones((T, S + T)),
                    "old only": np.arange(S + T) < S,
                    }.get(mistake, np.tri(T, S + T, S)).astype(bool)
            scores = q @ keys.swapaxes(1, 2) / {"no scale": 1, "D": D}.get(mistake, D ** 0.5)
            with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
                scores = np.where(seen, scores, 0 if mistake == "zeros" else -np.inf)
                most = 0 if mistake == "no maximum" else scores.max(axis=2, keepdims=True)
                p = np.exp(scores - most)
                p = p if mistake == "no sum" else p / p.sum(axis=2, keepdims=True)
                o = p @ values
            first = S if mistake == "returns new" else 0
            return o, keys[:, first:], values[:, first:]
        return cached_attention

    return {words: wrong(mistake) for words, mistake in (
        ("the mask begins at the first key, as if there were no earlier ones: the new token t is "
         "at position S + t", "from 0"),
        ("a token does not see its own key, but must", "strict"),
        ("a token sees the key of the next one", "one more"),
        ("new tokens see later new tokens: the mask is missing", "no mask"),
        ("only the keys of the cache are seen, and not those of the new tokens", "old only"),
        ("masked scores are 0, and keep a weight: they must be -Inf", "zeros"),
        ("the new keys and values are put before the earlier ones, but come after them",
         "new first"),
        ("only the new keys and values are returned, but the next call needs all of them",
         "returns new"),
        ("the scores are not divided by the square root of D", "no scale"),
        ("the scores are divided by D, and not by its square root", "D"),
        ("the largest score is not subtracted before exp: it overflows at scores near 1000",
         "no maximum"),
        ("the weights are not divided by their sum", "no sum"))}
# END TEACHER
