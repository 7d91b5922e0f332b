"""What the experiments on costs measure: paths, memory, operations, and losses by position."""

import numpy as np
import pytest

from numformer.experiments.costs.layer_costs import (
    WindowAttention, WrittenOutAttention, fitted_slope, layer_costs)
from numformer.experiments.costs.length_extrapolation import before, loss_by_position
from numformer.experiments.costs.operations_to_loss import operations_to
from numformer.experiments.costs.three_ways import (
    attentions, convolutions, dilated_convolutions, path, recurrent_path)
from numformer.data import Batch
from numformer.functional import CAUSAL
from numformer.layers import MultiHeadAttention
from numformer.models import Decoder, DecoderConfig


@pytest.mark.parametrize("N", [2, 3, 16, 33])
def test_paths_are_those_of_the_formulas(N, rng):
    assert recurrent_path(N, rng) == N - 1
    assert path(convolutions(rng), N) == -(-(N - 1) // 2)             # K - 1 = 2 per layer
    assert path(dilated_convolutions(rng), N) == np.ceil(np.log2((N - 1) / 2 + 1))
    assert path(attentions(rng), N) == 1


@pytest.mark.parametrize("kind, pattern", [
    (WrittenOutAttention, CAUSAL), (WindowAttention, CAUSAL.local((63, 0)))])
def test_the_measured_layers_are_multi_head_attention(kind, pattern, rng):
    layer, dense = kind(6, 2, rng, dtype=np.float64), MultiHeadAttention(6, 2, rng,
                                                                        dtype=np.float64)
    dense.load_state_dict(layer.state_dict())
    x, dy = rng.standard_normal((2, 1, 80, 6))
    (y, saved), (expected, saved_dense) = (
        layer.forward(x, pattern=CAUSAL), dense.forward(x, pattern=pattern))
    np.testing.assert_allclose(y, expected, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(layer.backward(dy, saved), dense.backward(dy, saved_dense),
                               rtol=1e-8, atol=1e-10)


def test_memory_of_written_out_weights_grows_with_the_square(rng):
    layer = WrittenOutAttention(8, 1, rng)
    peaks = [layer_costs(layer, N, 8, pattern=CAUSAL)[1] for N in (256, 512)]
    assert 3.5 < peaks[1] / peaks[0] < 4.2
    assert peaks[1] > 3 * 512 * 512 * 4, "scores, weights and a gradient are held"


def test_slopes_are_fitted_to_the_longer_lengths():
    assert fitted_slope({64: 1.0, 512: 1.0, 1024: 4.0, 2048: 16.0}) == pytest.approx(2)


def test_operations_are_interpolated_on_a_logarithmic_scale():
    assert operations_to([(1e3, 3.0), (1e5, 1.0)], 2.0) == pytest.approx(1e4)


def test_losses_by_position_have_the_loss_as_their_mean(rng):
    config = DecoderConfig(vocab_size=5, context_length=8, n_layers=1, n_heads=1, d_model=4)
    model, ids = Decoder(config, rng), rng.integers(0, 5, (6, 9))
    batches = [Batch(inputs=part[:, :-1], targets=part[:, 1:]) for part in (ids[:2], ids[2:])]
    losses = loss_by_position(model, batches)
    assert losses.shape == (8,)
    assert losses.mean() == pytest.approx(model.loss((ids[:, :-1], ids[:, 1:]))[0], rel=1e-5)
    assert before(np.arange(256.0), 2) == 111.5                       # positions 96 to 127
