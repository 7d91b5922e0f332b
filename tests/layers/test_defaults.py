"""Initial weights and defaults of layers, and bad options."""

import numpy as np
import pytest

from numformer import functional as F
from numformer.layers import (
    ALiBi, BatchNorm, CausalConvolution, ClassPooler, Convolution2D, Dropout, Embedding,
    GatedConvolution, GatedFeedForward, LearnedPositions, Linear, LMHead, LowRankAttention,
    MultiHeadAttention, NGramEmbedding, PatchMerging, ResidualBranch, RotaryPositions,
    SinusoidalPositions, WindowAttention)
from numformer.parameter import Parameter


@pytest.mark.parametrize("build, name, std", [
    (lambda rng: Linear(400, 300, rng), "weight", 400 ** -0.5),
    (lambda rng: Embedding(500, 200, rng), "weight", 0.02),
    (lambda rng: LearnedPositions(500, 200, rng), "weight", 0.02),
    (lambda rng: ClassPooler(300, rng).linear, "weight", 0.02),        # as all matrices of BERT
    (lambda rng: CausalConvolution(100, 300, 4, rng), "weight", 400 ** -0.5),
    (lambda rng: Convolution2D(100, 300, 2, rng), "weight", 400 ** -0.5),
    (lambda rng: LowRankAttention(4, 2, 400, 300, rng), "key_projection", 400 ** -0.5),
    (lambda rng: LowRankAttention(4, 2, 400, 300, rng), "value_projection", 400 ** -0.5),
    (lambda rng: WindowAttention(400, 200, 10, rng).attention.positions, "weight", 0.02)])
def test_initial_weights_have_the_documented_deviation(build, name, std, rng):
    weight = getattr(build(rng), name).data
    assert weight.dtype == np.float32
    assert abs(weight.std() / std - 1) < 0.02
    assert abs(weight.mean()) < 0.02 * std


def test_initial_biases_are_zero(rng):
    assert (Linear(4, 3, rng).bias.data == 0).all() and Linear(4, 3, rng).bias.data.shape == (3,)
    assert GatedFeedForward(4, 6, "silu", rng).hidden.bias is not None
    for layer in (BatchNorm(4), CausalConvolution(3, 4, 2, rng), Convolution2D(3, 4, 2, rng),
                  WindowAttention(4, 2, 2, rng).attention.query):
        assert (layer.bias.data == 0).all() and layer.bias.data.shape == (4,)


def test_merging_normalizes_with_the_usual_epsilon(rng):
    assert PatchMerging(4, rng).norm.epsilon == 1e-5


def test_convolutions_are_not_dilated(rng):
    assert CausalConvolution(3, 4, 5, rng).reach == 4
    assert GatedConvolution(4, 5, rng).convolution.reach == 4


def test_positions_start_at_zero_with_base_10000(rng):
    x = rng.standard_normal((1, 2, 5, 8))
    assert np.array_equal(RotaryPositions(8)(x), F.rotary(x, *F.rotary_angles(0, 5, 8))[0])
    assert np.array_equal(RotaryPositions(8).encode(x)[0], RotaryPositions(8)(x))
    angle = 3 * 10000.0 ** -0.25
    assert F.rotary_angles(0, 5, 8)[0][3, 1] == np.cos(angle)
    assert np.array_equal(SinusoidalPositions(8)(x[0]),
                          x[0] + F.sinusoidal_positions(np.arange(5), 8))


def test_bad_options_are_named(rng):
    for rate in (1, 1.5, -0.1):
        with pytest.raises(ValueError, match="rate="):
            Dropout(rate)
        with pytest.raises(ValueError, match="dropout="):
            ResidualBranch(None, None, "pre", rate)
        with pytest.raises(ValueError, match="dropout="):
            MultiHeadAttention(8, 2, rng, dropout=rate)
    assert Dropout(0.0).rate == ResidualBranch(None, None).dropout == 0
    for bias in (np.zeros(9), Parameter(np.zeros(8)), Parameter(np.zeros((9, 1)))):
        with pytest.raises(TypeError, match=r"LMHead: bias must be a Parameter of shape \(V,\)"):
            LMHead(Parameter(np.zeros((9, 4))), bias)
    for positions in (RotaryPositions(6), ALiBi(3)):
        with pytest.raises(ValueError, match="does not fit n_heads=2"):
            MultiHeadAttention(8, 2, rng, positions=positions)
    assert RotaryPositions(4, base=1.5).base == 1.5
    with pytest.raises(ValueError, match="base=0.5"):
        RotaryPositions(4, base=0.5)
    for weight in (np.ones((2, 3)), Linear(2, 3, rng).bias):
        with pytest.raises((TypeError, ValueError), match="weight"):
            LMHead(weight)


def test_the_first_step_starts_at_position_zero(rng):
    """Attention in steps, the first without a cache, equals attention to the whole sequence."""
    for positions in (RotaryPositions(4), ALiBi(2), None):
        layer = MultiHeadAttention(8, 2, rng, positions=positions, dtype=np.float64)
        x, cache, parts = rng.standard_normal((1, 6, 8)), None, []
        for start, stop in ((0, 3), (3, 4), (4, 6)):
            y, cache = layer.step(x[:, start:stop], cache)
            parts.append(y)
        np.testing.assert_allclose(np.concatenate(parts, axis=1), layer(x, pattern=F.CAUSAL),
                                   rtol=1e-10, atol=1e-12)


def test_sequences_may_start_at_different_positions(rng):
    """Positions before a sequence begins, which are masked, count as 0."""
    x, start = rng.standard_normal((3, 4, 6)), np.array([-2, 0, 3])
    positions = np.array([[0, 0, 0, 1], [0, 1, 2, 3], [3, 4, 5, 6]])
    fixed, learned = SinusoidalPositions(6), LearnedPositions(7, 6, rng, dtype=np.float64)
    y, saved = learned.forward(x, start=start)
    assert np.array_equal(y, x + learned.weight.data[positions])
    for b in range(3):
        np.testing.assert_allclose(fixed(x, start=start)[b],
                                   x[b] + F.sinusoidal_positions(positions[b], 6), rtol=1e-12)
    learned.backward(x, saved)
    wanted = np.zeros((7, 6))
    np.add.at(wanted, positions, x)
    np.testing.assert_allclose(learned.weight.grad, wanted, rtol=1e-12)
    for layer in (fixed, learned):
        assert np.array_equal(layer(x, start=0), layer(x))
        assert not np.array_equal(layer(x, start=2), layer(x))
        with pytest.raises(ValueError, match="start=-1"):
            layer(x, start=-1)
    with pytest.raises(ValueError, match="positions 1 .. 7"):
        learned(x, start=np.array([1, 2, 4]))


def test_the_vector_of_a_token_is_the_sum_of_its_ngrams_vectors(rng):
    layer, ids = NGramEmbedding(5, 3, largest=4, n_rows=50, rng=rng), rng.integers(0, 5, (2, 6))
    rows = [F.ngram_rows(ids, n, 5, len(table.data)) for n, table in enumerate(layer.tables, 2)]
    expected = sum(table.data[row] for table, row in zip(layer.tables, rows))
    np.testing.assert_allclose(layer(ids), expected, rtol=1e-6, atol=1e-8)


def test_the_smallest_tables_of_ngrams(rng):
    layer = NGramEmbedding(1, 1, largest=2, n_rows=1, rng=rng)
    assert layer(np.array([[0, 0]])).shape == (1, 2, 1) and layer.reach == 1
    for bad in (dict(vocab_size=0), dict(d_model=0), dict(largest=1), dict(n_rows=0)):
        with pytest.raises(ValueError, match="NGramEmbedding"):
            NGramEmbedding(**{**dict(vocab_size=3, d_model=2, largest=2, n_rows=5, rng=rng), **bad})
    first = NGramEmbedding(65, 100, largest=2, n_rows=9000, rng=rng).tables[0].data
    assert first.dtype == np.float32 and abs(first.std() / 0.02 - 1) < 0.02
