"""Statistics of attention weights: by their definitions, head by head."""

import numpy as np
import pytest

from numformer.analysis import attention_distance, attention_entropy, attention_rollout
from numformer.functional import softmax


def weights_of(rng, H, T, S):
    return softmax(2 * rng.standard_normal((H, T, S)))[0]


def test_entropy_is_the_mean_over_the_queries_of_a_head(rng):
    p = weights_of(rng, 3, 4, 5)
    expected = [np.mean([sum(-x * np.log2(x) for x in row) for row in head]) for head in p]
    np.testing.assert_allclose(attention_entropy(p), expected, rtol=1e-12)
    assert attention_entropy(np.eye(3)) == 0 and not np.signbit(attention_entropy(np.eye(3)))


def test_distance_aligns_the_last_query_with_the_last_key(rng):
    p = weights_of(rng, 3, 2, 5)
    expected = [np.mean([sum(abs(i + 3 - j) * head[i, j] for j in range(5)) for i in range(2)])
                for head in p]
    np.testing.assert_allclose(attention_distance(p), expected, rtol=1e-12)


def test_rollout_of_a_single_layer_is_its_mean_with_a_residual(rng):
    p = weights_of(rng, 2, 4, 4).astype(np.float32)
    found = attention_rollout([p], residual=0.25)
    np.testing.assert_allclose(found, 0.25 * np.eye(4) + 0.75 * p.mean(axis=0), rtol=1e-6)
    assert found.dtype == np.float32


@pytest.mark.parametrize("residual", [-0.1, 1.0, 1.5])
def test_the_residual_of_a_rollout_is_below_1(residual, rng):
    with pytest.raises(ValueError, match=f"residual={residual}"):
        attention_rollout([weights_of(rng, 2, 4, 4)], residual)


@pytest.mark.parametrize("layers", [[(2, 3, 4)], [(2, 4, 4), (2, 3, 3)]])
def test_rollout_needs_self_attention_of_one_length(layers, rng):
    with pytest.raises(ValueError, match="not self-attention of one length"):
        attention_rollout([weights_of(rng, *shape) for shape in layers])
