"""A ring all-reduce: N ranks add their vectors, and each sends to the next rank only.

reduce-scatter: held[r + 1][k] <- held[r + 1][k] + held[r][k]   with the part k that rank r sends

all-gather: held[r + 1][k] <- held[r][k]

Every rank cuts its vector into N parts. In each round, all ranks send one part at the same time,
rank r to rank r + 1, and the last one to rank 0. In the first round rank r sends its part r; in
each later round the part that it has just received. In rounds 0 to N - 2 the receiver adds what
comes to its own part of that number; in rounds N - 1 to 2 N - 3, when sums go around, it replaces
its own. Return what all ranks hold after some of the rounds. Patarasuk and Yuan (2009), "Bandwidth
Optimal All-Reduce Algorithms for Clusters of Workstations".
"""
# goal: add vectors over machines with as few bytes as possible
# needs: nothing
# lessons: 21
# ideas: which part a rank sends in round t; sums in the first half, copies of sums in the second
# points: 3
# parts: all or nothing
# returns: held
# BEGIN HINTS
# 1. Follow one part with N = 3: rank 0 sends part 0 to rank 1 in round 0. Who sends it in round 1?
#    So which part does rank r send in round t?
# 2. Rank r sends part (r - t) mod N in round t, in both halves (% is never negative here). A rank
#    receives another part than it sends, so the ranks can take turns within a round.
# 3. For each r of a round, with k = (r - t) % N, held[(r + 1) % N, k] gets held[r, k]: += in rounds
#    before N - 1, = in the others. Do not write into parts: begin with a copy.
# END HINTS

import numpy as np


def ring_all_reduce(parts, rounds):
    """parts (N, N, K), of rank and part; rounds, an integer from 0 to 2 N - 2: to what the ranks
    hold after so many rounds (N, N, K)."""
    # BEGIN SOLUTION
    N, held = len(parts), parts.copy()
    rank = np.arange(N)
    for t in range(rounds):
        part = (rank - t) % N
        sent = held[rank, part]
        if t < N - 1:
            sent = sent + held[(rank + 1) % N, part]
        held[(rank + 1) % N, part] = sent
    return held
    # END SOLUTION


# BEGIN TEACHER
def problems(rng):
    """Arguments, by what is special about them."""
    def arguments(N, K, rounds):
        return rng.normal(size=(N, N, K)), rounds

    return {"one round": arguments(3, 2, 1),
            "two rounds": arguments(4, 2, 2),
            "the end of the reduce-scatter": arguments(4, 3, 3),
            "the first round of the all-gather": arguments(4, 2, 4),
            "all rounds": arguments(5, 2, 8),
            "all rounds of two ranks": arguments(2, 3, 2),
            "no round": arguments(3, 1, 0),
            "one rank": arguments(1, 4, 0)}


def mistakes():
    """Likely wrong functions, by what is wrong in them."""
    def wrong(mistake):
        def ring_all_reduce(parts, rounds):
            N, held = len(parts), parts.copy()
            rank, step = np.arange(N), -1 if mistake == "other way" else 1
            for t in range(rounds):
                part = {"next part": rank + t, "same part": rank, "one on": rank - t + 1,
                        "again": rank - t % (N - 1 or 1)}.get(mistake, rank - t) % N
                sent, to = held[rank, part], (rank + step) % N
                adds = {"adds on": True, "one round more": t < N, "one round less": t < N - 2,
                        "never adds": False}.get(mistake, t < N - 1)
                sent = sent + held[to, part] if adds else sent
                held[to, part] = sent
            return held / N if mistake == "mean" else held
        return ring_all_reduce

    return {words: wrong(mistake) for words, mistake in (
        ("sums are added once more when they go around: in the second half they replace",
         "adds on"),
        ("nothing is added, in no round", "never adds"),
        ("one round too many adds: there are N - 1 of them", "one round more"),
        ("one round too few adds: there are N - 1 of them", "one round less"),
        ("a rank sends the next part in each round, but must send what it has just received",
         "next part"),
        ("a rank sends its own part in each round, but must send what it has just received",
         "same part"),
        ("each rank begins one part too late: in the first round rank r sends part r", "one on"),
        ("the second half begins with the parts of the first again, but goes on with those that "
         "have just been received", "again"),
        ("parts go to the rank before, but must go to the next one", "other way"),
        ("the sums are divided by the number of ranks", "mean"))}
# END TEACHER
