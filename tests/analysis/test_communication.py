"""What communication costs: formulas at their limits, and simulations that count."""

import numpy as np
import pytest

from numformer.analysis import all_reduce_seconds, bytes_of_step, step_seconds
from numformer.analysis.parallel.communication import SUMS


@pytest.mark.parametrize("kind", SUMS)
def test_one_rank_sends_nothing(kind):
    assert all_reduce_seconds(kind, 1, 1e9, 1e-3, 1e6) == 0
    assert bytes_of_step(10**6, 1) == 0 and step_seconds(0.5, 1, 1e9, 1e-3, 1e6) == 0.5


@pytest.mark.parametrize("N", [2, 4, 8, 64])
def test_halving_has_the_latency_of_a_tree_and_the_bytes_of_a_ring(N):
    only_latency = {kind: all_reduce_seconds(kind, N, 0, 1.0, 1.0) for kind in SUMS}
    only_bytes = {kind: all_reduce_seconds(kind, N, 1.0, 0.0, 1.0) for kind in SUMS}
    assert only_latency["halving"] == only_latency["tree"] == 2 * np.log2(N)
    assert only_latency["ring"] == 2 * (N - 1)
    assert only_bytes["halving"] == pytest.approx(only_bytes["ring"]) == 2 * (N - 1) / N
    assert only_bytes["tree"] == 2 * np.log2(N)


@pytest.mark.parametrize("N", [2, 3, 5, 8])
def test_a_ring_takes_as_long_as_its_messages(N):
    """Simulated: each of 2 (N - 1) rounds lasts as long as one message of a part."""
    clock, parts = 0.0, np.array_split(np.arange(N * 100), N)
    for _ in range(2 * (N - 1)):
        clock += 1e-3 + parts[0].nbytes / 1e6
    assert all_reduce_seconds("ring", N, N * 100 * 8, 1e-3, 1e6) == pytest.approx(clock)


def test_bytes_stay_below_twice_the_gradient():
    sent = [bytes_of_step(1000, N) for N in range(1, 200)]
    assert sent == sorted(sent) and sent[-1] < 8000 < bytes_of_step(1000, 8, subtrees=2)


@pytest.mark.parametrize("call, words", [
    (lambda: all_reduce_seconds("star", 2, 1, 0, 1), "kind='star'"),
    (lambda: all_reduce_seconds("ring", 0, 1, 0, 1), "ranks=0"),
    (lambda: all_reduce_seconds("ring", 2, -1, 0, 1), "size=-1"),
    (lambda: all_reduce_seconds("ring", 2, 1, 0, 0), "bandwidth=0"),
    (lambda: bytes_of_step(1, 1.5), "ranks=1.5"), (lambda: step_seconds(0, 2, 1, 0, 1), "alone=0")])
def test_bad_input_is_refused(call, words):
    with pytest.raises((ValueError, TypeError), match=words):
        call()
