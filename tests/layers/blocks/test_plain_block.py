"""Blocks without skip connections, and which blocks are the identity where branches add zero."""

import numpy as np
import pytest

from numformer.functional import CAUSAL
from numformer.layers import (
    FeedForward, Identity, LayerNorm, MixtureOfExperts, MultiHeadAttention, ParallelBlock,
    PlainBlock, ResidualBranch, SelfAttentionBranch, TransformerBlock)
from numformer.models import Decoder, DecoderConfig
from numformer.recipes import recipe_of

WIDE = dict(dtype=np.float64)
CONFIG = dict(vocab_size=9, context_length=8, n_layers=2, n_heads=2, d_model=8, dtype="float64")


def branches(rng, order, zero=False):
    parts = MultiHeadAttention(8, 2, rng, **WIDE), FeedForward(8, 16, "gelu", rng, **WIDE)
    for part in parts if zero else ():
        part.output.weight.data[:] = 0
    return dict(attention=SelfAttentionBranch(LayerNorm(8, **WIDE), parts[0], order),
                feedforward=ResidualBranch(LayerNorm(8, **WIDE), parts[1], order))


@pytest.mark.parametrize("order", ["pre", "post"])
def test_a_block_is_a_plain_block_and_the_sums(order, rng):
    """One branch each: y - x of pre-norm; of post-norm, the norm of the branch alone."""
    (branch,) = (value for name, value in branches(rng, order).items() if name == "feedforward")
    x, plain = rng.standard_normal((2, 3, 8)), PlainBlock(feedforward=branch)
    if order == "pre":
        expected = TransformerBlock(feedforward=branch)(x) - x
    else:
        expected = branch.norm(branch.sublayer(x))
    np.testing.assert_allclose(plain(x), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("order", ["pre", "post"])
def test_steps_of_a_plain_block_equal_its_forward(order, rng):
    block, x, cache, parts = PlainBlock(**branches(rng, order)), rng.standard_normal(
        (1, 5, 8)), None, []
    for part in (x[:, :2], x[:, 2:3], x[:, 3:]):
        y, cache = block.step(part, cache)
        parts.append(y)
    np.testing.assert_allclose(np.concatenate(parts, axis=1), block(x, pattern=CAUSAL), rtol=1e-10)


@pytest.mark.parametrize("kind", [TransformerBlock, ParallelBlock])
def test_a_pre_norm_block_of_zero_branches_is_the_identity(kind, rng):
    block = kind(**branches(rng, "pre", zero=True))
    x, dy = rng.standard_normal((2, 2, 3, 8))
    y, saved = block.forward(x)
    np.testing.assert_array_equal(y, x)
    np.testing.assert_array_equal(block.backward(dy, saved), dy)


def test_a_post_norm_block_of_zero_branches_is_not(rng):
    block = TransformerBlock(**branches(rng, "post", zero=True))
    x, dy = rng.standard_normal((2, 2, 3, 8))
    dx = block.backward(dy, block.forward(x)[1])
    assert np.abs(dx - dy).max() > 0.1
    np.testing.assert_allclose(dx.sum(axis=-1), 0, atol=1e-12)        # what the norm took out


def test_a_plain_block_of_zero_branches_passes_no_gradient(rng):
    block = PlainBlock(**branches(rng, "pre", zero=True))
    x, dy = rng.standard_normal((2, 2, 3, 8))
    assert not block.backward(dy, block.forward(x)[1]).any()


def test_an_auxiliary_loss_counts_only_where_its_gradient_is_given(rng):
    experts = MixtureOfExperts(8, 6, 4, 2, "gelu", rng, dtype=np.float64, balance_weight=1.0)
    block = PlainBlock(feedforward=ResidualBranch(LayerNorm(8, **WIDE), experts))
    x, dy = rng.standard_normal((2, 2, 3, 8))
    _, saved = block.forward(x)
    without, none, one = (block.backward(dy, saved, *given) for given in ((), (0.0,), (1.0,)))
    np.testing.assert_array_equal(without, none)
    assert np.abs(one - none).max() > 1e-3


@pytest.mark.parametrize("settings", [dict(skip_connections=False), dict(norms=False),
                                      dict(skip_connections=False, norms=False)])
def test_a_recipe_leaves_out_sums_and_norms_and_keeps_the_other_weights(settings, rng):
    config = DecoderConfig(**CONFIG)
    model = recipe_of("Decoder", settings).model("Decoder", config, np.random.default_rng(3))
    full = Decoder(config, np.random.default_rng(3)).state_dict()
    plain = not settings.get("skip_connections", True)
    assert all(type(block) is (PlainBlock if plain else TransformerBlock) for block in model.blocks)
    own = model.state_dict()
    assert all(np.array_equal(own[name], full[name]) for name in own)
    missing = set(full) - set(own)
    assert bool(missing) == ("norms" in settings) and all("norm" in name for name in missing)
    assert (type(model.norm) is Identity) == ("norms" in settings)
    ids = rng.integers(0, 9, (2, 6))
    logits, _ = model.step(ids)
    np.testing.assert_allclose(logits, model(ids), rtol=1e-9)


def test_a_parallel_block_keeps_its_sum():
    config = DecoderConfig(**CONFIG, parallel_residual=True)
    with pytest.raises(ValueError, match="skip_connections=False is for sublayers in sequence"):
        recipe_of("Decoder", dict(skip_connections=False)).model("Decoder", config, None)
