"""A step of beam search: of all continuations of B unfinished answers, the B most likely.

score(beam, then token) = score(beam) + log_p(token after beam)

B answers, the beams, are kept at each step. A score is the sum of the logarithms of the
probabilities of an answer's tokens. A beam that has ended is complete: it is continued by nothing,
and competes as it is, with the score that it has. It counts as a continuation by the token END.

New beams are described by three arrays, of which the first entry is the most likely: the index of
the beam that is continued, the token, and the new score. `numformer.generation.beam_search` calls a
model at each step, and compares the complete answers at the end.
"""
# goal: search for a likely sequence further than one token ahead
# needs: nothing
# lessons: 11
# ideas: one ranking for all beams; a flat index is a beam and a token; an ended beam comes once
# points: 3
# parts: all or nothing
# returns: beams, tokens, scores
# BEGIN HINTS
# 1. The B best continuations may all be of one beam. So there is one ranking of B x V sums, not one
#    of V numbers for each beam.
# 2. An ended beam has a single continuation. Set its row of sums to -Inf, and then the entry END of
#    that row to its score, without the log-probability of END.
# 3. order = np.argsort(-sums, axis=None)[:B] are indices into the flat array: order // V is the
#    beam and order % V the token.
# END HINTS

import numpy as np

END = 0


def next_beams(scores, log_p, ended):
    """scores (B,); log_p (B, V), of the tokens after each beam; ended (B,), True or False: to
    beams (B,), tokens (B,), both of integers, and their scores (B,)."""
    # BEGIN SOLUTION
    B, V = log_p.shape
    sums = scores[:, None] + log_p
    sums[ended] = -np.inf
    sums[ended, END] = scores[ended]
    order = np.argsort(-sums, axis=None)[:B]
    return order // V, order % V, sums.ravel()[order]
    # END SOLUTION


# BEGIN TEACHER
def problems(rng):
    """Arguments, by what is special about them."""
    def arguments(B, V, ended=(), scores=None):
        log_p = np.log(rng.dirichlet(np.ones(V), size=B))
        return (-3 * rng.random(B) if scores is None else np.array(scores), log_p,
                np.isin(np.arange(B), ended))

    return {"plain": arguments(4, 6),
            "one beam, as in greedy search": arguments(1, 5),
            "one beam is far ahead": arguments(3, 8, scores=[-40.0, -1.0, -60.0]),
            "an ended beam stays": arguments(3, 5, [1], [-1.5, -0.5, -2.0]),
            "an ended beam drops out": arguments(3, 9, [0], [-50.0, -1.0, -1.2]),
            "all beams have ended": arguments(3, 4, [0, 1, 2])}


def mistakes():
    """Likely wrong functions, by what is wrong in them."""
    def wrong(mistake):
        def next_beams(scores, log_p, ended):
            B, V = log_p.shape
            sums = {"product": scores[:, None] * log_p, "log_p alone": log_p + 0 * scores[:, None],
                    "probabilities": scores[:, None] + np.exp(log_p),
                    }.get(mistake, scores[:, None] + log_p)
            complete = sums[ended, END] if mistake == "end again" else scores[ended]
            if mistake != "goes on":
                sums[ended] = complete[:, None] if mistake == "V times" else -np.inf
            if mistake not in ("goes on", "drops"):
                sums[ended, END] = complete
            if mistake == "one each":
                token = sums.argmax(axis=1)
                best = sums[np.arange(B), token]
                order = np.argsort(-best)
                return order, token[order], best[order]
            order = np.argsort(sums if mistake == "least" else -sums, axis=None)[:B]
            order = order[::-1] if mistake == "reversed" else order
            beams, tokens = order // V, order % V
            if mistake == "exchanged":
                return tokens, beams, sums.ravel()[order]
            if mistake == "divided by B":
                beams, tokens = order // B, order % B
            return beams, tokens, sums.ravel()[order]
        return next_beams

    return {words: wrong(mistake) for words, mistake in (
        ("each beam gets its own best continuation, but all continuations compete: two of the best "
         "may come from one beam", "one each"),
        ("log_p is multiplied by the scores: the logarithm of a product is a sum", "product"),
        ("the scores of the beams are not added", "log_p alone"),
        ("probabilities are added to scores, which are logarithms", "probabilities"),
        ("a beam that has ended is continued, but is complete", "goes on"),
        ("the score of a beam that has ended gets the log_p of END once more", "end again"),
        ("a beam that has ended is dropped, but competes as it is", "drops"),
        ("a beam that has ended competes once for each token, but only once in all", "V times"),
        ("the least likely are kept", "least"),
        ("the first entry is the least likely of those that are kept", "reversed"),
        ("tokens and beams are exchanged", "exchanged"),
        ("the index in the flat array is divided by the number of beams, but a row has V numbers",
         "divided by B"))}
# END TEACHER
