r"""What communication costs: seconds and bytes of sums over N ranks, and of a training step.

A message of M bytes takes :math:`\alpha + M / B` seconds, with a latency α and a bandwidth B.
"""

from math import ceil, log2

from numformer.checks import check_choice, check_number, check_whole

SUMS = ("ring", "tree", "halving")


def all_reduce_seconds(kind, ranks, size, latency, bandwidth):
    r"""Time to add a vector of M bytes over N ranks, so that each has the sum.

    .. math::

        \text{ring: } 2 (N - 1) \left( \alpha + \frac{M}{N B} \right), \qquad
        \text{tree: } 2 \lceil \log_2 N \rceil \left( \alpha + \frac{M}{B} \right), \qquad
        \text{halving: } 2 \lceil \log_2 N \rceil\, \alpha + 2\, \frac{N - 1}{N}\, \frac{M}{B}

    In a ring, N parts of the vector go around, once while they are added and once as sums. A
    binary tree adds whole vectors up to its root, and sends the sum back. Recursive halving
    exchanges halves, quarters, ... with ever nearer ranks, and doubles them again: the latency of a
    tree with the bytes of a ring, where N is a power of 2.

    Parameters
    ----------
    kind : "ring", "tree" or "halving"
    ranks : int
        N.
    size : float
        M, bytes.
    latency, bandwidth : float
        α, seconds, and B, bytes a second.

    Returns
    -------
    float
        Seconds. The additions themselves are not counted.

    Raises
    ------
    ValueError, TypeError
        If the kind is unknown, or a number out of range.

    References
    ----------
    Patarasuk and Yuan (2009), "Bandwidth Optimal All-Reduce Algorithms for Clusters of
    Workstations"; Thakur, Rabenseifner and Gropp (2005), "Optimization of Collective Communication
    Operations in MPICH", sections 3 and 4.

    Examples
    --------
    100 MB over a gigabit a second, on 8 machines:

    >>> [round(all_reduce_seconds(kind, 8, 100e6, 50e-6, 125e6), 2) for kind in SUMS]
    [1.4, 4.8, 1.4]

    A hundred bytes:

    >>> [round(1e6 * all_reduce_seconds(kind, 8, 100, 50e-6, 125e6)) for kind in SUMS]
    [701, 305, 301]
    """
    owner = "all_reduce_seconds"
    check_choice(owner, "kind", kind, SUMS)
    check_whole(owner, "ranks", ranks)
    check_number(owner, "size", size, least=0)
    check_number(owner, "latency", latency, least=0)
    check_number(owner, "bandwidth", bandwidth, above=0)
    N, rounds = ranks, ceil(log2(ranks))
    if kind == "ring":
        return 2 * (N - 1) * (latency + size / (N * bandwidth))
    if kind == "tree":
        return 2 * rounds * (latency + size / bandwidth)
    return 2 * rounds * latency + 2 * (N - 1) / N * size / bandwidth


def bytes_of_step(parameters, ranks, subtrees=1, itemsize=4):
    r"""Bytes that a rank sends in a step of data-parallel training with a sharded optimizer.

    .. math:: (r + 1)\, b\, P\, \frac{N - 1}{N}

    its gradients to their owners, in r subtrees, and the parameters that it owns to all others.

    Examples
    --------
    >>> bytes_of_step(1_000_000, 1), bytes_of_step(1_000_000, 4)
    (0.0, 6000000.0)
    """
    check_whole("bytes_of_step", "parameters", parameters, least=0)
    check_whole("bytes_of_step", "ranks", ranks)
    return (subtrees + 1) * itemsize * parameters * (ranks - 1) / ranks


def step_seconds(alone, ranks, size, latency, bandwidth):
    r"""Time of a step on N ranks, if nothing of the communication is hidden by the backward.

    .. math:: \frac{t_1}{N} + 2 (N - 1) \left( \alpha + \frac{M}{N B} \right)

    Parameters
    ----------
    alone : float
        t_1: seconds of the step on one rank.
    ranks, size, latency, bandwidth
        As in `all_reduce_seconds`; M is the number of bytes of all gradients.

    Examples
    --------
    >>> round(step_seconds(0.1, 4, 1e6, 1e-5, 1e9), 4)
    0.0266
    """
    check_number("step_seconds", "alone", alone, above=0)
    return alone / ranks + all_reduce_seconds("ring", ranks, size, latency, bandwidth)
