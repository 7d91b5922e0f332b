"""The ladder of attention: every rung gives the numbers of the one below it.

minimal -> core -> the composed function -> tiles in NumPy -> the compiled kernel. More cases of the
last three: `test_tiled_attention.py` and the tests of the kernels.
"""

import numpy as np
import pytest

from numformer import functional as F
from numformer import minimal
from numformer.functional import CAUSAL, EVERYWHERE, AttentionPattern

PATTERNS = {"everywhere": EVERYWHERE, "causal": CAUSAL, "window": AttentionPattern(window=(3, 1)),
            "lengths": AttentionPattern(causal=True, lengths=[9, 0]),
            "mask": AttentionPattern(mask=np.random.default_rng(0).random((2, 4, 7, 9)) < 0.5)}


def arrays(rng, T=7, S=9, H=4, G=4, D=5, D_V=5):
    """q, k, v and the gradient of o."""
    shapes = (2, H, T, D), (2, G, S, D), (2, G, S, D_V), (2, H, T, D_V)
    return [rng.standard_normal(shape) for shape in shapes]


def close(found, wanted, tolerance=1e-12):
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance)


def composed(q, k, v, do, pattern=EVERYWHERE, **options):
    o, saved = F.scaled_dot_product_attention(q, k, v, pattern, **options)
    return o, *F.scaled_dot_product_attention_backward(do, saved)


def test_the_core_equals_minimal(rng):
    T, H, D = 6, minimal.HEADS, 5
    qkv, dy = rng.standard_normal((2, T, 3 * H * D)), rng.standard_normal((2, T, H * D))

    def split(x):
        return x.reshape(2, T, -1, D).swapaxes(1, 2)     # (B, T, H D) to (B, H, T, D)

    def merge(x):
        return x.swapaxes(1, 2).reshape(2, T, -1)

    y, saved_minimal = minimal.attention(qkv)
    dqkv = minimal.attention_backward(dy, saved_minimal)
    q, k, v = (split(x) for x in np.split(qkv, 3, axis=-1))
    o, saved = F.attention(q, k, v, np.tri(T, dtype=bool))
    gradients = F.attention_backward(split(dy), saved)
    close([merge(o), np.concatenate([merge(x) for x in gradients], axis=-1)], [y, dqkv], 1e-13)


@pytest.mark.parametrize("pattern", PATTERNS.values(), ids=PATTERNS)
def test_the_composed_function_without_options_is_the_core(pattern, rng):
    """The output to the bit; the gradients up to rounding, for the scale is applied earlier."""
    q, k, v, do = arrays(rng)
    o, saved = F.attention(q, k, v, pattern.dense(7, 9))
    found, *gradients = composed(q, k, v, do, pattern)
    assert np.array_equal(found, o)
    close(gradients, F.attention_backward(do, saved), 1e-14)


def test_no_mask_is_a_mask_that_allows_everything(rng):
    q, k, v, _ = arrays(rng)
    everywhere = F.attention(q, k, v, np.ones((7, 9), bool))[0]
    assert np.array_equal(F.attention(q, k, v)[0], everywhere)


def test_grouped_heads_are_heads_repeated(rng):
    q, k, v, do = arrays(rng, G=2)
    (k_all, saved_k), (v_all, saved_v) = F.repeat_kv_heads(k, 4), F.repeat_kv_heads(v, 4)
    o, dq, dk, dv = composed(q, k_all, v_all, do, CAUSAL)
    wanted = o, dq, *map(F.repeat_kv_heads_backward, (dk, dv), (saved_k, saved_v))
    close(composed(q, k, v, do, CAUSAL), wanted, 0)


def test_a_scale_is_a_longer_query(rng):
    q, k, v, do = arrays(rng)
    o, dq, dk, dv = composed(0.3 * 5 ** 0.5 * q, k, v, do, CAUSAL)
    close(composed(q, k, v, do, CAUSAL, scale=0.3), (o, 0.3 * 5 ** 0.5 * dq, dk, dv))


def test_modifiers_act_on_the_scores_in_their_order(rng):
    """Soft cap, then ALiBi, then the bias by distance: what changes is the softmax's argument."""
    q, k, v, do = arrays(rng)
    options = dict(softcap=0.8, slopes=F.alibi_slopes(4), bias=rng.standard_normal((4, 15)))
    found = composed(q, k, v, do, CAUSAL, **options)

    scores, saved_cap = F.soft_cap(q @ k.mT / 5 ** 0.5, 0.8)
    scores, saved_alibi = F.alibi(scores, options["slopes"])
    scores, saved_bias = F.add_by_distance(scores, options["bias"])
    p, saved_softmax = F.softmax(scores, mask=CAUSAL.dense(7, 9))
    dscores, dbias = F.add_by_distance_backward(F.softmax_backward(do @ v.mT, saved_softmax),
                                                saved_bias)
    dscores = F.soft_cap_backward(F.alibi_backward(dscores, saved_alibi), saved_cap) / 5 ** 0.5
    close(found, (p @ v, dscores @ k, dscores.mT @ q, p.mT @ do, dbias))
    close([F.attention_weights(q, k, CAUSAL, **options)], [p])


def test_dropout_acts_on_the_weights(rng):
    q, k, v, do = arrays(rng)
    p = F.attention_weights(q, k, CAUSAL)
    weights, saved = F.drop_weights(p, 0.4, seed=5)
    o, _, _, dv = composed(q, k, v, do, CAUSAL, dropout=0.4, seed=5)
    close((o, dv), (weights @ v, weights.mT @ do))
    assert (F.drop_weights_backward(np.ones_like(p), saved) == np.where(
        F.attention_dropout_mask(5, p.shape, 0.4), 1 / 0.6, 0)).all()


@pytest.mark.parametrize("pattern", PATTERNS.values(), ids=PATTERNS)
def test_tiles_in_numpy_equal_the_core(pattern, rng):
    q, k, v, do = arrays(rng)
    o, saved = F.attention(q, k, v, pattern.dense(7, 9))
    tiled, saved_tiled = F.tiled_attention(q, k, v, pattern, tile=4)
    close((tiled, *F.tiled_attention_backward(do, saved_tiled)),
          (o, *F.attention_backward(do, saved)))


@pytest.mark.parametrize("D_V", [3, 8])
def test_values_of_another_width_on_every_rung(D_V, rng):
    """The equations do not change: v joins behind the softmax."""
    q, k, v, do = arrays(rng, D_V=D_V)
    assert do.shape == (2, 4, 7, D_V)
    wanted = columns(q, k, v, do)
    o, saved = F.attention(q, k, v, CAUSAL.dense(7, 9))
    close((o, *F.attention_backward(do, saved)), wanted)
    close(composed(q, k, v, do, CAUSAL), wanted)
    o, saved = F.tiled_attention(q, k, v, CAUSAL, tile=4)
    close((o, *F.tiled_attention_backward(do, saved)), wanted)
    pytest.importorskip("numba")
    from numformer.kernels.attention import flash
    o, saved = flash.scaled_dot_product_attention(q, k, v, CAUSAL)
    close((o, *flash.scaled_dot_product_attention_backward(do, saved)), wanted)


def columns(q, k, v, do):
    """Causal attention with one column of the values at a time, and the sum of its gradients."""
    outputs, sums, dv = [], [0, 0], []
    for column in range(v.shape[-1]):
        alone = np.zeros(k.shape), np.zeros(q.shape)               # the column, and zeros: width D
        alone[0][..., :1], alone[1][..., :1] = (x[..., column:column + 1] for x in (v, do))
        o, dq, dk, dv_alone = composed(q, k, *alone, CAUSAL)
        outputs, dv = [*outputs, o[..., :1]], [*dv, dv_alone[..., :1]]
        sums = [sums[0] + dq, sums[1] + dk]
    return np.concatenate(outputs, -1), *sums, np.concatenate(dv, -1)


@pytest.mark.parametrize("T, S", [(1, 1), (63, 65), (64, 64), (100, 130), (131, 131)])
@pytest.mark.parametrize("rules", [dict(), dict(causal=True), dict(window=(20, 5)),
                                   dict(causal=True, lengths=[61, 0])], ids=str)
def test_the_kernel_equals_tiles_in_numpy(T, S, rules, rng):
    pytest.importorskip("numba")
    from numformer.kernels.attention import flash
    if "lengths" in rules:
        rules = dict(rules, lengths=np.minimum(rules["lengths"], S))
    q, k, v, do = arrays(rng, T, S, G=2)
    tiled, saved_tiled = F.tiled_attention(q, k, v, AttentionPattern(**rules), tile=64)
    o, saved = flash.scaled_dot_product_attention(q, k, v, AttentionPattern(**rules))
    close((o, *flash.scaled_dot_product_attention_backward(do, saved)),
          (tiled, *F.tiled_attention_backward(do, saved_tiled)))
    m, l = (x[..., 0] for x in saved_tiled[4:6])
    close([flash.log_sum_exp(saved)], [m + np.log(np.where(l == 0, 1, l))])
