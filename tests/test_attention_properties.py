"""What attention is known for, held as properties: symmetries, distances, sizes of scores, and what masks hide."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numformer import functional as F
from numformer.functional import CAUSAL, EVERYWHERE, AttentionPattern
from numformer.layers import (
    ALiBi, ConcatenatedPositions, FeedForward, LayerNorm, LearnedPositions, MultiHeadAttention, PostNormBlock, PreNormBlock,
    RelativePositionBias, RotaryPositions, ScoreAttention, ShawPositions, SinusoidalPositions)

C, H, D = 8, 2, 4
IN_ATTENTION = {                                                      # positions that attention itself is told of
    "rotary": lambda rng: RotaryPositions(D), "rotary, interleaved": lambda rng: RotaryPositions(D, 50.0, "interleaved"),
    "alibi": lambda rng: ALiBi(H), "T5": lambda rng: RelativePositionBias(H, rng, 8, 12, std=1.0, dtype=np.float64),
    "T5, one way": lambda rng: RelativePositionBias(H, rng, 8, 12, False, std=1.0, dtype=np.float64),
    "Shaw": lambda rng: ShawPositions(D, 3, rng, std=1.0, dtype=np.float64)}
BEFORE_ATTENTION = {                                                  # positions that are added, or set beside, before it
    "sinusoidal": lambda rng: SinusoidalPositions(C), "learned": lambda rng: LearnedPositions(20, C, rng, std=1.0, dtype=np.float64),
    "concatenated": lambda rng: ConcatenatedPositions(SinusoidalPositions(C))}


def attention(rng, name=None, width=C, **options):
    positions = IN_ATTENTION[name](rng) if name else None
    return MultiHeadAttention(width, width // D, rng, positions=positions, dtype=np.float64, **options)


def block_of(kind, attention, rng):
    norms = [LayerNorm(C, dtype=np.float64) for _ in range(2)]
    return kind(norms[0], attention, norms[1], FeedForward(C, 12, "gelu", rng, dtype=np.float64))


def same(found, wanted):
    return np.allclose(found, wanted, rtol=1e-10, atol=1e-12)


# ---- Permutations ---------------------------------------------------------------------------------------------------


@given(st.permutations(range(7)), st.integers(0, 100))
def test_without_positions_and_masks_attention_is_of_a_set(order, seed):
    """Exchange the tokens, and the results are exchanged in the same way: self-attention does not know their order."""
    rng = np.random.default_rng(seed)
    layer, x = attention(rng, query_key_norm=True), rng.standard_normal((2, 7, C))
    assert same(layer(x[:, order]), layer(x)[:, order])
    block = block_of(PreNormBlock, layer, rng)
    assert same(block(x[:, order]), block(x)[:, order])


@given(st.permutations(range(6)), st.sampled_from(["additive", "dot", "general", "scaled_dot"]))
def test_the_order_of_a_context_does_not_matter(order, score):
    rng = np.random.default_rng(0)
    layer, x, context = ScoreAttention(score, C, C, rng, dtype=np.float64), rng.standard_normal((2, 3, C)), rng.standard_normal((2, 6, C))
    assert same(layer(x, context[:, order]), layer(x, context))


ORDER = [3, 0, 6, 1, 5, 2, 4]


@pytest.mark.parametrize("pattern", [CAUSAL, AttentionPattern(window=(1, 1))], ids=["causal", "window"])
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


# ---- Distances ------------------------------------------------------------------------------------------------------


@given(st.integers(0, 300), st.integers(0, 300), st.integers(1, 300), st.sampled_from(["half", "interleaved"]), st.integers(0, 100))
def test_rotary_scores_depend_on_distance_alone(m, n, shift, layout, seed):
    q, k = np.random.default_rng(seed).standard_normal((2, 1, 6))

    def score(m, n):
        return (F.rotary(q, *F.rotary_angles(m, m + 1, 6), layout)[0] * F.rotary(k, *F.rotary_angles(n, n + 1, 6), layout)[0]).sum()

    assert abs(score(m + shift, n + shift) - score(m, n)) < 1e-11
    assert m == n or abs(score(m, n) - score(n, m)) > 0               # but on its sign, too


@pytest.mark.parametrize("name", IN_ATTENTION)
def test_tokens_that_are_alike_have_scores_that_differ_by_distance_alone(name, rng):
    """A Toeplitz matrix: the logarithm of two weights in a row, taken along diagonals, does not change."""
    layer = attention(rng, name)
    p = layer.weights(np.repeat(rng.standard_normal((1, 1, C)), 8, axis=1))
    ratio = np.log(p[..., 1:] / p[..., :-1])                          # differences of scores: (1, H, 8, 7)
    assert same(ratio[:, :, 1:, 1:], ratio[:, :, :-1, :-1]) and np.ptp(ratio) > 1e-3


@pytest.mark.parametrize("name", IN_ATTENTION)
@pytest.mark.parametrize("causal", [False, True])
def test_a_text_that_is_moved_gives_results_that_are_moved(name, causal, rng):
    """Where the window holds the same tokens, the result is the same, wherever in the text that is."""
    layer, x = attention(rng, name), rng.standard_normal((1, 14, C))
    pattern = AttentionPattern(causal=causal, window=(3, 2))
    moved = layer(np.roll(x, 2, axis=1), pattern=pattern)
    assert same(moved[:, 5:12], layer(x, pattern=pattern)[:, 3:10])


@pytest.mark.parametrize("name", BEFORE_ATTENTION)
def test_absolute_positions_tell_where_in_the_text_that_is(name, rng):
    positions, x = BEFORE_ATTENTION[name](rng), rng.standard_normal((1, 14, C))
    layer, pattern = attention(rng, width=positions(x).shape[-1]), AttentionPattern(window=(3, 2))
    assert not same(layer(positions(np.roll(x, 2, axis=1)), pattern=pattern)[:, 5:12], layer(positions(x), pattern=pattern)[:, 3:10])


# ---- Sizes of scores ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [1, 4, 16, 64, 256])
def test_the_variance_of_products_grows_with_the_width(width, rng):
    q, k = rng.standard_normal((2, 40_000, 1, width))
    assert abs(F.dot_scores(q, k)[0].var() / width - 1) < 0.05
    assert abs(F.scaled_dot_scores(q, k)[0].var() - 1) < 0.05


def test_unscaled_scores_saturate_the_softmax(rng):
    """So that almost no gradient comes through: that is what the scale is for."""
    q, k = rng.standard_normal((2, 50, 20, 256))
    gradients = []
    for scores, _ in (F.dot_scores(q, k), F.scaled_dot_scores(q, k)):
        p, saved = F.softmax(scores)
        gradients.append(np.abs(F.softmax_backward(rng.standard_normal(p.shape), saved)).mean())
    assert gradients[0] < gradients[1] / 5


# ---- Masks ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [PreNormBlock, PostNormBlock])
@pytest.mark.parametrize("name", [None, *IN_ATTENTION])
def test_padding_never_changes_what_is_real(name, kind, rng):
    """However much there is of it, and whatever it holds; and no gradient goes into it."""
    lengths = np.array([6, 3])
    block = block_of(kind, attention(rng, name), rng)
    x, pattern = rng.standard_normal((2, 6, C)), AttentionPattern(lengths=lengths)
    real = np.arange(6) < lengths[:, None]
    y, saved = block.forward(x, pattern)
    for b, length in enumerate(lengths):
        assert same(y[b, :length], block(x[b:b + 1, :length])[0])     # alone, without padding
    for filling in (100 * rng.standard_normal(x.shape), np.zeros_like(x), np.full_like(x, np.nan)):
        other = np.where(real[..., None], x, filling)
        assert same(block(other, pattern)[real], y[real])
        more = block(np.concatenate([other, filling], axis=1), pattern)
        assert same(more[:, :6][real], y[real])
    dx = block.backward(np.where(real[..., None], rng.standard_normal(x.shape), 0), saved)
    assert not dx[~real].any() and dx[real].all()


def masks():
    """What each of five families of models lets a token see, by the same layer: the mask alone tells them apart."""
    prefix = np.tri(6, dtype=bool)
    prefix[:, :3] = True
    return {"BERT": EVERYWHERE, "GPT": CAUSAL, "prefix": AttentionPattern(mask=prefix), "local": AttentionPattern(window=(1, 1)),
            "local GPT": CAUSAL.local((2, 0))}


@pytest.mark.parametrize("name", [None, *IN_ATTENTION])
def test_masks_of_bert_and_gpt_with_the_same_layer(name, rng):
    """Change one token, and exactly those change who may see it."""
    layer, x = attention(rng, name), rng.standard_normal((1, 6, C))
    for pattern in masks().values():
        sees = pattern.dense(6, 6)
        y = layer(x, pattern=pattern)
        for j in range(6):
            other = x.copy()
            other[0, j] += rng.standard_normal(C)
            changed = (np.abs(layer(other, pattern=pattern) - y) > 1e-9).any(axis=2)[0]
            assert np.array_equal(changed, sees[:, j])
        np.testing.assert_array_equal(layer.weights(x, pattern=pattern)[0] > 0, np.broadcast_to(sees, (H, 6, 6)))
    assert same(layer(x, pattern=CAUSAL)[:, -1], layer(x)[:, -1])     # the last token sees everything either way
    assert not same(layer(x, pattern=CAUSAL)[:, :-1], layer(x)[:, :-1])
