"""Squares that underflow to 0 are no error in analyses and pictures, and change no share."""

import numpy as np
import pytest

from numformer import plots
from numformer.analysis.capture import dead_units
from numformer.analysis.gradient_reach import gradient_norm_by_block, gradient_reach
from numformer.analysis.landscape.directions import filter_normalized_direction, path_directions
from numformer.backend import using
from numformer.models import Decoder, DecoderConfig

SMALL, LARGE = 1e-200, 1e200


@pytest.fixture(autouse=True)
def all_errors_raise():
    with np.errstate(all="raise"):
        yield


@pytest.fixture
def vectors():
    return np.random.default_rng(0).standard_normal((4, 5))


def small_decoder():
    """One whose gradients are so small that their squares are 0."""
    config = DecoderConfig(vocab_size=5, context_length=4, n_layers=1, n_heads=1, d_model=4,
                           dtype="float64")
    model = Decoder(config, np.random.default_rng(0))
    model.norm.weight.data *= SMALL
    return model


@pytest.mark.parametrize("scale", [SMALL, LARGE])
def test_an_embedding_map_is_that_of_the_scaled_vectors(scale, vectors):
    ax, expected = (plots.embedding_map(vectors * by, list("abcd")) for by in (scale, 1))
    assert ax.get_xlabel() == expected.get_xlabel()
    offsets = ax.collections[0].get_offsets()
    assert np.ptp(offsets) > 0.1 and np.isfinite(offsets).all()


def test_positions_have_the_same_cosines_at_any_scale(vectors):
    found = [plots.learned_positions(vectors * scale).axes[1].images[0].get_array()
             for scale in (1, SMALL, LARGE)]
    np.testing.assert_allclose(found[1:], [found[0]] * 2)


def test_norms_of_small_vectors_and_gradients_are_no_error(vectors):
    plots.residual_norms({"a": [vectors * SMALL, vectors]})
    assert dead_units(vectors * SMALL) == 0
    model, ids = small_decoder(), np.array([[1, 2, 3, 4]])
    with using("numpy"):
        assert np.isfinite(gradient_norm_by_block(model, (ids, ids))["blocks"]).all()
        assert np.isfinite(gradient_reach(model, ids, ids, 1)).all()
    filter_normalized_direction(model, np.random.default_rng(0))
    assert np.isfinite(path_directions(
        [{"w": x} for x in (vectors * SMALL, vectors[::-1] * SMALL, vectors * 0)])[1]).all()
