"""Captured intermediates: residual stream, hidden units, gradients by block; and bad arguments."""

import numpy as np
import pytest

from inspected_decoder import IDS, SIZES, decoder
from numformer import plots
from numformer.analysis import (
    capture, dead_units, gradient_norm_by_block, gradient_reach, hidden_activations,
    logit_contributions, logit_lens, model_costs, residual_stream)
from numformer.analysis.attention_views import Reading, attention_views
from numformer.functional import CAUSAL
from numformer.layers import FeedForward, LayerNorm
from numformer.models import (
    DecoderConfig, EncoderDecoder, EncoderDecoderConfig, RecurrentLanguageModel,
    RecurrentLanguageModelConfig)


def test_capture_changes_nothing_and_ends_with_its_block():
    model = decoder()
    before = model(IDS)
    with pytest.raises(RuntimeError), capture(model, (LayerNorm, FeedForward)) as seen:
        assert np.array_equal(model(IDS), before)
        raise RuntimeError
    assert len(seen) == 3 * (2 + 1) + 1
    assert {type(each.layer) for each in seen} == {LayerNorm, FeedForward}
    assert not any("forward" in vars(layer) for _, layer in model.named_layers())
    model(IDS)
    assert len(seen) == 10, "later calls are not recorded"
    name, layer, (x,), _, y, saved = next(each for each in seen
                                          if each.name == "blocks.1.feedforward")
    assert np.array_equal(layer(x), y) and layer.backward(np.ones_like(y), saved).shape == x.shape


@pytest.mark.parametrize("norm_first", [True, False])
def test_residual_stream_holds_the_input_of_each_block_and_of_the_head(norm_first):
    model = decoder(norm_first=norm_first)
    stream = residual_stream(model, IDS)["blocks"]
    assert np.array_equal(model.head(model.norm(stream[-1])), model(IDS)) and len(stream) == 4
    for block, x, y in zip(model.blocks, stream, stream[1:]):
        assert np.array_equal(block(x, pattern=CAUSAL), y)
    ax = plots.residual_norms({"blocks": stream})
    np.testing.assert_allclose(ax.lines[0].get_ydata(),
                               [np.median(np.linalg.norm(x, axis=-1)) for x in stream])
    config = EncoderDecoderConfig(**{**SIZES, "n_layers": 2})
    both = residual_stream(EncoderDecoder(config, np.random.default_rng(0)), IDS, np.array([6]),
                           IDS)
    assert {name: len(found) for name, found in both.items()} == {"encoder.blocks": 3, "blocks": 3}


def test_hidden_activations_are_inputs_of_the_output_projection():
    model = decoder(feedforward="relu")
    found = hidden_activations(model, IDS)
    assert list(found) == [f"blocks.{k}.feedforward" for k in range(3)]
    assert all(a.shape == (1, 6, 32) and a.min() == 0 for a in found.values())
    dead = {name: dead_units(a) for name, a in found.items()}
    for name, a in found.items():
        assert dead[name] == (a == 0).all(axis=(0, 1)).mean()
    ax = plots.activation_histograms(found, dead)
    assert all(abs(np.nansum(line.get_ydata()) - 1) < 1e-12 for line in ax.lines), "0 is a gap"
    assert all(("% dead" in line.get_label()) == (part > 0)
               for line, part in zip(ax.lines, dead.values()))
    bars = plots.dead_unit_bars({"a": 0.25, "b": 0.0, "c": 0.5})
    assert [bar.get_width() for bar in bars.patches] == [25, 50], "b has none"
    assert [label.get_text() for label in bars.get_yticklabels()] == ["a", "c"]
    gated = hidden_activations(decoder(feedforward="swiglu", d_hidden=24), IDS)
    assert gated["blocks.2.feedforward"].shape == (1, 6, 24) and dead_units(np.zeros((2, 3))) == 1.0


@pytest.mark.parametrize("largest, dead", [(0.0021, 0.5), (0.0022, 0.0)])
def test_dead_units_stay_below_a_thousandth_of_the_root_mean_square(largest, dead):
    """That of 0, 0, 3 and 3 is 2.12."""
    assert dead_units(np.array([[-largest, 3.0], [0.0, 3.0]])) == dead


def test_gradient_norms_by_block_are_those_of_backward():
    model = decoder()
    batch = IDS[:, :-1], IDS[:, 1:]
    norms = gradient_norm_by_block(model, batch)["blocks"]
    for parameter in model.parameters():
        assert not parameter.grad.any(), "the model's own gradients stay as they are"
    _, saved = model.loss(batch)
    model.loss_backward(saved)
    for norm, block in zip(norms, model.blocks):
        gradient = np.concatenate([parameter.grad.ravel() for parameter in block.parameters()])
        assert abs(norm - np.linalg.norm(gradient)) < 1e-12


def test_hidden_activations_of_a_mixture_of_experts_are_an_error():
    with pytest.raises(ValueError, match="no feed-forward that every token passes"):
        hidden_activations(decoder(n_experts=2), IDS)


def test_gradient_reach_of_a_scaled_embedding_is_that_of_its_vectors():
    """The same vectors, once as scale times rows, once as the rows themselves."""
    inputs, targets = IDS[:, :-1], IDS[:, 1:]
    scaled, plain = decoder(embedding_scale=True, tied=False), decoder(tied=False)
    plain.load_state_dict(scaled.state_dict())
    plain.embedding.weight.data *= scaled.embedding.scale
    np.testing.assert_allclose(gradient_reach(scaled, inputs, targets),
                               gradient_reach(plain, inputs, targets), rtol=1e-12)
    with pytest.raises(ValueError, match="n_positions=0"):
        gradient_reach(plain, inputs, targets, n_positions=0)


def test_gradient_norms_are_grouped_by_stack(rng):
    model, ids = EncoderDecoder(EncoderDecoderConfig(**SIZES), rng), np.array([[3, 4, 5]])
    found = gradient_norm_by_block(model, (ids, np.array([3]), ids, ids))
    assert {name: len(norms) for name, norms in found.items()} == {"encoder.blocks": 3, "blocks": 3}
    assert all((norms > 0).all() for norms in found.values())


@pytest.mark.parametrize("inspect, words", [
    (lambda: residual_stream(rnn(), IDS), "no Transformer blocks"),
    (lambda: hidden_activations(rnn(), IDS), "no feed-forward"),
    (lambda: logit_lens(rnn(), IDS), "give a Decoder"),
    (lambda: gradient_norm_by_block(rnn(), (IDS, IDS)), "no Transformer blocks"),
    (lambda: attention_views(rnn(), Reading((IDS,), list("abcdef"))), "has no attention"),
    (lambda: logit_contributions(decoder(norm_first=False), IDS, 1), "pre-norm"),
    (lambda: logit_contributions(decoder(), IDS, 7), "token"),
    (lambda: logit_contributions(decoder(), np.repeat(IDS, 2, 0), 1), "(1, T)"),
    (lambda: logit_contributions(decoder(), IDS, 1, 6), "position=6"),
    (lambda: logit_contributions(decoder(), IDS, 1, -7), "position=-7"),
    (lambda: model_costs(DecoderConfig(**SIZES, n_experts=2)), "n_experts=2"),
    (lambda: model_costs(DecoderConfig(**SIZES), 0), "length=0"),
    (lambda: model_costs(DecoderConfig(**SIZES, dropout=0.5)), "dropout=0.5"),
    (lambda: model_costs(DecoderConfig(vocab_size=50000, context_length=8, n_layers=12,
                                       n_heads=8, d_model=2048)), "too large")])
def test_what_a_model_does_not_have_is_an_error(inspect, words):
    with pytest.raises(ValueError) as caught:
        inspect()
    assert words in str(caught.value)


def rnn():
    config = RecurrentLanguageModelConfig(vocab_size=7, context_length=8, n_layers=1, d_model=4)
    return RecurrentLanguageModel(config, np.random.default_rng(0))
