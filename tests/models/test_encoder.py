"""The encoder: order, padding, patterns, and its config."""

import numpy as np
import pytest

from numformer.functional import CAUSAL, AttentionPattern
from numformer.analysis import attention_by_layer
from numformer.models import Decoder, DecoderConfig, Encoder, EncoderConfig
from numformer.verify.gradcheck import gradcheck

SIZES = dict(n_layers=2, n_heads=2, d_model=16, dtype="float64")
STYLES = {
    "2017": dict(norm_first=False, feedforward="relu"), "pre-norm": dict(),
    "rotary": dict(positions="rotary", feedforward="geglu"),
    "alibi": dict(positions="alibi", norm="rms_norm", bias=False)}


def encoder(rng, **options):
    model = Encoder(EncoderConfig(**{**SIZES, **options}), rng)
    for parameter in model.parameters():
        parameter.data += 0.3 * rng.standard_normal(parameter.data.shape)
    return model


@pytest.mark.parametrize("style", STYLES)
def test_without_positions_the_output_is_permuted_with_the_input(style, rng):
    model = encoder(rng, **STYLES[style])
    x, order = rng.standard_normal((2, 6, 16)), rng.permutation(6)
    same = np.allclose(model(x[:, order]), model(x)[:, order], rtol=1e-10, atol=1e-12)
    assert same == (model.config.positions == "none")
    reversed_, y = model(x[:, ::-1], CAUSAL), model(x, CAUSAL)
    assert not np.allclose(reversed_, y[:, ::-1], rtol=1e-3), "a causal mask has an order too"


@pytest.mark.parametrize("style", STYLES)
def test_padding_does_not_change_the_other_vectors(style, rng):
    model, x = encoder(rng, **STYLES[style]), rng.standard_normal((2, 6, 16))
    pattern = AttentionPattern(lengths=[4, 6])
    y, saved = model.forward(x, pattern)
    other = x.copy()
    other[0, 4:] = 1e6 * rng.standard_normal((2, 16))
    assert np.array_equal(model(other, pattern)[0, :4], y[0, :4])
    dy = rng.standard_normal(y.shape)
    dy[0, 4:] = 0
    assert (model.backward(dy, saved)[0, 4:] == 0).all()
    if model.config.positions == "none":
        np.testing.assert_allclose(model(x[:1, :4]), y[:1, :4], rtol=1e-11, atol=1e-12)


def test_local_blocks_attend_within_their_windows(rng):
    """Two blocks with two positions on each side reach four; one global block among them reaches
    all.
    """
    options, x = dict(positions="rotary", sliding_window=3), rng.standard_normal((1, 9, 16))
    model, other = encoder(rng, **options), x.copy()
    other[0, 0, 0] += 1  # of all coordinates alike a LayerNorm would see nothing
    assert (model(other) != model(x)).any(axis=-1)[0].tolist() == 5 * [True] + 4 * [False]
    narrow = AttentionPattern(window=(1, 1))
    assert (model(other, narrow) != model(x, narrow)).any(axis=-1)[0].sum() == 3
    model = encoder(rng, **options, layer_types="sliding_attention,full_attention")
    assert (model(other) != model(x)).any(axis=-1).all()


def test_attention_weights_are_those_of_the_blocks(rng):
    model, pattern = encoder(rng, positions="alibi"), AttentionPattern(lengths=[5, 3])
    x = rng.standard_normal((2, 5, 16))
    weights = [*attention_by_layer(model, x, pattern).values()]
    assert len(weights) == 2 and all(w.shape == (2, 2, 5, 5) for w in weights)
    for w in weights:
        np.testing.assert_allclose(w.sum(axis=-1), 1, rtol=1e-12)
    assert all((w[1, :, :, 3:] == 0).all() for w in weights)
    second = model.blocks[0](x, pattern=pattern)
    block = model.blocks[1]
    _, saved = block.attention.forward(block.norm1(second), pattern=pattern)
    np.testing.assert_allclose(weights[1], block.attention.attention_weights(saved), rtol=1e-12)


def test_a_causal_encoder_equals_the_blocks_of_a_decoder(rng):
    """The same blocks from the same options, with the patterns of BERT and of GPT."""
    shared = dict(SIZES, feedforward="swiglu", positions="rotary", query_key_norm=True)
    decoder = Decoder(DecoderConfig(vocab_size=7, context_length=6, **shared), rng)
    model = Encoder(EncoderConfig(**shared), rng)
    state = decoder.state_dict()
    model.load_state_dict({name: state[name] for name in model.state_dict()})
    ids = rng.integers(0, 7, (2, 6))
    assert np.array_equal(decoder(ids), decoder.head(model(decoder.embedding(ids), CAUSAL)))


def test_dropout_needs_a_generator(rng):
    model, x = encoder(rng, dropout=0.5), rng.standard_normal((1, 4, 16))
    assert np.array_equal(model(x), model(x))
    one, same, other = (model(x, rng=np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert np.array_equal(one, same) and not np.array_equal(one, other)


@pytest.mark.parametrize("pattern", [None, "everywhere", [CAUSAL, CAUSAL]])
def test_what_is_no_pattern_is_refused(pattern, rng):
    model, x = encoder(rng), rng.standard_normal((1, 4, 16))
    with pytest.raises(TypeError, match="must be an AttentionPattern, but is"):
        model(x, pattern)


def test_its_config():
    with pytest.raises(ValueError, match="EncoderConfig: positions='learned'"):
        EncoderConfig(**SIZES, positions="learned")
    with pytest.raises(ValueError, match="EncoderConfig: n_layers=0"):
        EncoderConfig(**{**SIZES, "n_layers": 0})
    config = EncoderConfig(**SIZES, feedforward="swiglu")
    assert EncoderConfig.from_dict(config.as_dict()) == config and config.hidden_width == 48
    with pytest.raises(ValueError,
                       match="EncoderConfig: .*missing: .'d_model', 'n_heads', 'n_layers'"):
        EncoderConfig.from_dict({})
    shapes = Encoder(EncoderConfig(n_layers=12, n_heads=12, d_model=768), None)
    size = sum(parameter.data.size for parameter in shapes.parameters())
    assert size == 12 * (12 * 768**2 + 13 * 768) + 2 * 768


def test_the_gradient_through_local_and_global_layers(rng):
    model = encoder(rng, d_model=4, d_hidden=5, sliding_window=2,
                    layer_types="full_attention,sliding_attention")
    report = gradcheck(model, [rng.standard_normal((1, 3, 4))], {"pattern": CAUSAL})
    assert report.ok, str(report)
