"""The order in which shards are added: the same for every way to share them out."""

from itertools import pairwise

import numpy as np
import pytest

from numformer.training.parallel import fold, roots


def shards(n):
    rng = np.random.default_rng(n)
    return [rng.standard_normal(50).astype(np.float32) * 10.0 ** rng.integers(-3, 4)
            for _ in range(n)]


@pytest.mark.parametrize("n", range(1, 14))
def test_subtrees_partition_any_range(n):
    for first in range(n):
        for last in range(first + 1, n + 1):
            found = roots(n, first, last)
            assert [start for start, _ in found] + [last] == [first] + [stop for _, stop in found]


@pytest.mark.parametrize("n", range(1, 14))
def test_any_sharing_out_gives_the_same_bits(n):
    whole = fold({(k, k + 1): x.copy() for k, x in enumerate(shards(n))}, 0, n)
    np.testing.assert_allclose(whole, np.sum(shards(n), axis=0), rtol=1e-4, atol=1e-3)
    for ranks in range(1, n + 1):
        ends, sent, arrays = [n * rank // ranks for rank in range(ranks + 1)], {}, shards(n)
        for first, last in pairwise(ends):
            own = {(k, k + 1): arrays[k] for k in range(first, last)}
            sent |= {root: fold(own, *root) for root in roots(n, first, last)}
        assert np.array_equal(fold(sent, 0, n), whole)


def test_another_order_gives_other_bits():
    parts = shards(6)
    tree = fold({(k, k + 1): x.copy() for k, x in enumerate(parts)}, 0, 6)
    assert not np.array_equal(tree, sum(parts[1:], parts[0]))


def test_nothing_has_no_subtrees():
    assert roots(4, 2, 2) == []
