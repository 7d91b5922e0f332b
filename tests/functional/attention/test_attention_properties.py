"""Properties of attention: permutations, distances, the variance of scores, and what masks hide."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numformer import functional as F
from numformer.functional import CAUSAL, EVERYWHERE, AttentionPattern
from numformer.layers import (
    ALiBi, ConcatenatedPositions, FeedForward, LayerNorm, LearnedPositions, MultiHeadAttention,
    NoPositions, RelativePositionBias, ResidualBranch, RotaryPositions, ScoreAttention,
    SelfAttentionBranch, ShawPositions, SinusoidalPositions, TransformerBlock)

C, H, D = 8, 2, 4
WIDE = dict(std=1.0, dtype=np.float64)
IN_ATTENTION = {                                         # schemes that act within attention
    "rotary": lambda rng: RotaryPositions(D),
    "rotary, interleaved": lambda rng: RotaryPositions(D, 50.0, "interleaved"),
    "alibi": lambda rng: ALiBi(H), "T5": lambda rng: RelativePositionBias(H, rng, 8, 12, **WIDE),
    "T5, causal": lambda rng: RelativePositionBias(H, rng, 8, 12, False, **WIDE),
    "Shaw": lambda rng: ShawPositions(D, 3, rng, **WIDE)}
BEFORE_ATTENTION = {                                     # schemes that change the embeddings
    "sinusoidal": lambda rng: SinusoidalPositions(C),
    "learned": lambda rng: LearnedPositions(20, C, rng, **WIDE),
    "concatenated": lambda rng: ConcatenatedPositions(SinusoidalPositions(C))}


def attention(rng, name=None, width=C, **options):
    positions = IN_ATTENTION[name](rng) if name else None
    return MultiHeadAttention(width, width // D, rng, positions=positions, dtype=np.float64,
                              **options)


def block_of(order, attention, rng):
    norms = [LayerNorm(C, dtype=np.float64) for _ in range(2)]
    feedforward = FeedForward(C, 12, "gelu", rng, dtype=np.float64)
    return TransformerBlock(attention=SelfAttentionBranch(norms[0], attention, order),
                            feedforward=ResidualBranch(norms[1], feedforward, order))


def same(found, wanted):
    return np.allclose(found, wanted, rtol=1e-10, atol=1e-12)


# ---- Permutations --------------------------------------------------------------------------------


@given(st.permutations(range(7)), st.integers(0, 100))
def test_without_positions_and_masks_attention_is_permutation_equivariant(order, seed):
    """Permute the tokens, and the outputs are permuted in the same way."""
    rng = np.random.default_rng(seed)
    layer, x = attention(rng, query_key_norm=True), rng.standard_normal((2, 7, C))
    assert same(layer(x[:, order]), layer(x)[:, order])
    block = block_of("pre", layer, rng)
    assert same(block(x[:, order]), block(x)[:, order])


@given(st.permutations(range(5)))
def test_every_array_of_self_attention_is_permuted_with_its_inputs(order):
    """Queries, keys, values and outputs in rows; scores and weights in rows and columns."""
    rng = np.random.default_rng(0)
    x, (W_q, W_k, W_v) = rng.standard_normal((2, 5, C)), rng.standard_normal((3, C, C))

    def arrays(x):
        (q, k, v), _ = F.head_projections(x, W_q, None, W_k, None, W_v, None, None, None, C)
        scores, _ = F.scaled_dot_scores(q[:, 0], k[:, 0])
        weights, _ = F.softmax(scores)
        return (q, k, v, F.attention(q, k, v)[0]), (scores, weights)

    (in_rows, in_both), (moved_rows, moved_both) = arrays(x), arrays(x[:, order])
    assert all(same(moved, a[..., order, :]) for moved, a in zip(moved_rows, in_rows))
    assert all(same(moved, a[..., order, :][..., order]) for moved, a in zip(moved_both, in_both))


@given(st.permutations(range(6)), st.sampled_from(["additive", "dot", "general", "scaled_dot"]))
def test_the_order_of_a_context_does_not_matter(order, score):
    rng = np.random.default_rng(0)
    layer = ScoreAttention(score, C, C, rng, dtype=np.float64)
    x, context = rng.standard_normal((2, 3, C)), rng.standard_normal((2, 6, C))
    assert same(layer(x, context[:, order]), layer(x, context))


ORDER = [3, 0, 6, 1, 5, 2, 4]


@pytest.mark.parametrize("pattern", [CAUSAL, AttentionPattern(window=(1, 1))],
                         ids=["causal", "window"])
def test_a_mask_gives_tokens_an_order(pattern, rng):
    layer, x = attention(rng), rng.standard_normal((1, 7, C))
    assert not same(layer(x[:, ORDER], pattern=pattern), layer(x, pattern=pattern)[:, ORDER])


@pytest.mark.parametrize("name", IN_ATTENTION)
def test_positions_in_attention_give_tokens_an_order(name, rng):
    layer, x = attention(rng, name), rng.standard_normal((1, 7, C))
    assert not same(layer(x[:, ORDER]), layer(x)[:, ORDER])


@pytest.mark.parametrize("name", BEFORE_ATTENTION)
def test_positions_before_attention_give_tokens_an_order(name, rng):
    positions, x = BEFORE_ATTENTION[name](rng), rng.standard_normal((1, 7, C))
    layer = attention(rng, width=positions(x).shape[-1])
    assert not same(layer(positions(x[:, ORDER])), layer(positions(x))[:, ORDER])


@pytest.mark.parametrize("name", BEFORE_ATTENTION)
def test_equal_tokens_have_equal_outputs_until_positions_are_added(name, rng):
    """A big dog and a big cat: the second token and the sixth."""
    positions, x = BEFORE_ATTENTION[name](rng), rng.standard_normal((1, 7, C))
    x[:, 5] = x[:, 1]
    y = MultiHeadAttention(C, H, rng, positions=NoPositions(), dtype=np.float64)(x)
    assert same(y[:, 1], y[:, 5]) and not same(y[:, 1], y[:, 2])
    encoded = positions(x)
    y = attention(rng, width=encoded.shape[-1])(encoded)
    assert not same(encoded[:, 1], encoded[:, 5]) and not same(y[:, 1], y[:, 5])


# ---- Distances -----------------------------------------------------------------------------------


@given(st.integers(0, 300), st.integers(0, 300), st.integers(1, 300),
       st.sampled_from(["half", "interleaved"]), st.integers(0, 100))
def test_rotary_scores_depend_on_distance_alone(m, n, offset, layout, seed):
    q, k = np.random.default_rng(seed).standard_normal((2, 1, 6))

    def at(x, position):
        return F.rotary(x, *F.rotary_angles(position, position + 1, 6), layout)[0]

    def score(m, n):
        return (at(q, m) * at(k, n)).sum()

    assert abs(score(m + offset, n + offset) - score(m, n)) < 1e-11
    assert m == n or abs(score(m, n) - score(n, m)) > 0  # and on its sign


@pytest.mark.parametrize("name", IN_ATTENTION)
def test_scores_of_identical_tokens_depend_on_distance_alone(name, rng):
    """They form a Toeplitz matrix: differences of scores are constant along diagonals."""
    layer = attention(rng, name)
    x = np.repeat(rng.standard_normal((1, 1, C)), 8, axis=1)
    p = layer.attention_weights(layer.forward(x)[1])
    difference = np.log(p[..., 1:] / p[..., :-1])        # of scores: (1, H, 8, 7)
    assert same(difference[:, :, 1:, 1:], difference[:, :, :-1, :-1])
    assert np.ptp(difference) > 1e-3


@pytest.mark.parametrize("name", IN_ATTENTION)
@pytest.mark.parametrize("causal", [False, True])
def test_positions_in_attention_are_translation_equivariant(name, causal, rng):
    """Where the window holds the same tokens, the output is the same, wherever in the text."""
    layer, x = attention(rng, name), rng.standard_normal((1, 14, C))
    pattern = AttentionPattern(causal=causal, window=(3, 2))
    moved = layer(np.roll(x, 2, axis=1), pattern=pattern)
    assert same(moved[:, 5:12], layer(x, pattern=pattern)[:, 3:10])


@pytest.mark.parametrize("name", BEFORE_ATTENTION)
def test_absolute_positions_are_not_translation_equivariant(name, rng):
    positions, x = BEFORE_ATTENTION[name](rng), rng.standard_normal((1, 14, C))
    layer, pattern = attention(rng, width=positions(x).shape[-1]), AttentionPattern(window=(3, 2))
    moved = layer(positions(np.roll(x, 2, axis=1)), pattern=pattern)
    assert not same(moved[:, 5:12], layer(positions(x), pattern=pattern)[:, 3:10])


# ---- Sizes of scores -----------------------------------------------------------------------------


@pytest.mark.parametrize("width", [1, 4, 16, 64, 256])
def test_the_variance_of_products_grows_with_the_width(width, rng):
    q, k = rng.standard_normal((2, 40_000, 1, width))
    assert abs(F.dot_scores(q, k)[0].var() / width - 1) < 0.05
    assert abs(F.scaled_dot_scores(q, k)[0].var() - 1) < 0.05


def test_unscaled_scores_make_the_gradients_of_queries_uneven(rng):
    """Most shrink, as the softmax is saturated; a few are large, and with them those of weights."""
    q, k, v, do = rng.standard_normal((4, 1, 1, 300, 256))
    k, v = k[:, :, :16], v[:, :, :16]
    norms, of_weights = [], []
    for scale in (1.0, None):
        _, saved = F.scaled_dot_product_attention(q, k, v, scale=scale)
        dq = F.scaled_dot_product_attention_backward(do, saved)[0]
        norms.append(np.linalg.norm(dq, axis=-1))
        of_weights.append(np.linalg.norm(q.swapaxes(-1, -2) @ dq))
    plain, scaled = norms
    assert np.median(plain) < np.median(scaled) / 3 and plain.mean() > 3 * scaled.mean()
    assert of_weights[0] > 5 * of_weights[1]


# ---- Masks ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["pre", "post"])
@pytest.mark.parametrize("name", [None, *IN_ATTENTION])
def test_padding_never_changes_the_output_of_real_tokens(name, order, rng):
    """However much there is of it, and whatever it holds; and its gradient is 0."""
    lengths = np.array([6, 3])
    block = block_of(order, attention(rng, name), rng)
    x, pattern = rng.standard_normal((2, 6, C)), AttentionPattern(lengths=lengths)
    real = np.arange(6) < lengths[:, None]
    y, saved = block.forward(x, pattern=pattern)
    for b, length in enumerate(lengths):
        assert same(y[b, :length], block(x[b:b + 1, :length])[0])    # alone, without padding
    for padding in (100 * rng.standard_normal(x.shape), np.zeros_like(x), np.full_like(x, np.nan)):
        other = np.where(real[..., None], x, padding)
        assert same(block(other, pattern=pattern)[real], y[real])
        more = block(np.concatenate([other, padding], axis=1), pattern=pattern)
        assert same(more[:, :6][real], y[real])
    dx = block.backward(np.where(real[..., None], rng.standard_normal(x.shape), 0), saved)
    assert not dx[~real].any() and dx[real].all()


def masks():
    """What a token may attend to in five families of models; only the mask differs."""
    prefix = np.tri(6, dtype=bool)
    prefix[:, :3] = True
    return {"BERT": EVERYWHERE, "GPT": CAUSAL, "prefix": AttentionPattern(mask=prefix),
            "local": AttentionPattern(window=(1, 1)), "local GPT": CAUSAL.local((2, 0))}


@pytest.mark.parametrize("name", [None, *IN_ATTENTION])
def test_a_token_changes_exactly_the_outputs_that_may_attend_to_it(name, rng):
    """With the masks of BERT, GPT and others in the same layer."""
    layer, x = attention(rng, name), rng.standard_normal((1, 6, C))
    for pattern in masks().values():
        sees = pattern.dense(6, 6)
        y = layer(x, pattern=pattern)
        for j in range(6):
            other = x.copy()
            other[0, j] += rng.standard_normal(C)
            changed = (np.abs(layer(other, pattern=pattern) - y) > 1e-9).any(axis=2)[0]
            assert np.array_equal(changed, sees[:, j])
        weights = layer.attention_weights(layer.forward(x, pattern=pattern)[1])[0]
        np.testing.assert_array_equal(weights > 0, np.broadcast_to(sees, (H, 6, 6)))
    assert same(layer(x, pattern=CAUSAL)[:, -1], layer(x)[:, -1])    # the last attends to all
    assert not same(layer(x, pattern=CAUSAL)[:, :-1], layer(x)[:, :-1])


def test_attention_is_global_and_feed_forward_and_norm_are_local(rng):
    """One token changes: all outputs of attention do, and one output of the others."""
    x = rng.standard_normal((1, 6, C))
    layers = [(attention(rng), np.ones((6, 6), bool)),
              (FeedForward(C, 12, "relu", rng, dtype=np.float64), np.eye(6, dtype=bool)),
              (LayerNorm(C, dtype=np.float64), np.eye(6, dtype=bool))]
    for layer, reached in layers:
        for j in range(6):
            other = x.copy()
            other[0, j] += rng.standard_normal(C)
            changed = (np.abs(layer(other) - layer(x)) > 1e-9).any(axis=2)[0]
            assert np.array_equal(changed, reached[:, j])
