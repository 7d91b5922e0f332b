"""Looking inside: what is watched, the logit lens and its sum, accounts, tiles, and the pictures of them."""

import numpy as np
import pytest

from numformer import plots
from numformer.functional import CAUSAL, AttentionPattern, attention_weights, softmax, tiled_attention_steps
from numformer.layers import FeedForward, Linear, MultiHeadAttention
from numformer.models import (
    GPT2, LLAMA, TRANSFORMER_2017, Bert, BertConfig, Decoder, DecoderConfig, EncoderDecoder, EncoderDecoderConfig, RecurrentLanguageModel,
    RecurrentLanguageModelConfig, Seq2Seq, Seq2SeqConfig, account, dead_units, gradient_by_block, gradient_by_distance, hidden_activations,
    logit_contributions, logit_lens, residual_stream, watch)
from numformer.plots.views import Reading, attention_views

SIZES = dict(vocab_size=7, context_length=12, n_layers=3, n_heads=2, d_model=8)
IDS = np.array([[1, 2, 3, 4, 5, 6]])


def decoder(**switches):
    return Decoder(DecoderConfig(**{**SIZES, "dtype": "float64", "init_std": 0.5, **switches}), np.random.default_rng(0))


def test_watching_changes_nothing_and_ends():
    model = decoder()
    before = model(IDS)
    with pytest.raises(RuntimeError), watch(model, (Linear, FeedForward)) as seen:
        assert np.array_equal(model(IDS), before)
        raise RuntimeError
    assert len(seen) == 3 * (4 + 2 + 1) and {type(each.layer) for each in seen} == {Linear, FeedForward}
    assert not any("forward" in vars(layer) for _, layer in model.named_layers())
    model(IDS)
    assert len(seen) == 21, "what runs later is not written down"
    name, layer, (x,), _, y, saved = next(each for each in seen if each.name == "blocks.1.feedforward")
    assert np.array_equal(layer(x), y) and layer.backward(np.ones_like(y), saved).shape == x.shape


@pytest.mark.parametrize("norm_first", [True, False])
def test_residual_stream(norm_first):
    model = decoder(norm_first=norm_first)
    stream = residual_stream(model, IDS)["blocks"]
    assert np.array_equal(model.head(model.norm(stream[-1])), model(IDS)) and len(stream) == 4
    for block, x, y in zip(model.blocks, stream, stream[1:]):
        assert np.array_equal(block(x, CAUSAL), y)
    ax = plots.residual_norms({"blocks": stream})
    np.testing.assert_allclose(ax.lines[0].get_ydata(), [np.median(np.linalg.norm(x, axis=-1)) for x in stream])
    config = EncoderDecoderConfig(**{**SIZES, "n_layers": 2})
    both = residual_stream(EncoderDecoder(config, np.random.default_rng(0)), IDS, np.array([6]), IDS)
    assert {name: len(found) for name, found in both.items()} == {"encoder.blocks": 3, "blocks": 3}


def test_logit_lens_ends_with_what_the_model_says():
    model = decoder()
    lens = logit_lens(model, IDS)
    stream = residual_stream(model, IDS)["blocks"]
    assert lens.shape == (4, 1, 6, 7) and np.array_equal(lens[-1], model(IDS))
    assert np.array_equal(lens[0], model.head(model.norm(stream[0])))
    ax = plots.lens_map(lens[:, 0], list("abcdefg"), list("bcdefg"))
    np.testing.assert_allclose(ax.images[0].get_array(), softmax(lens[:, 0])[0].max(axis=-1))
    assert [text.get_text() for text in ax.texts] == ["abcdefg"[k] for k in lens[:, 0].argmax(axis=-1).ravel()]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["embedding", "1", "2", "3"]


@pytest.mark.parametrize("switches", [{}, dict(bias=False), dict(norm="rms_norm", feedforward="swiglu", positions="rotary"),
                                      dict(tied=False, n_experts=4, experts_per_token=2), dict(norm="rms_norm", epsilon=0.1)], ids=str)
def test_contributions_add_up_to_the_logit(switches):
    model = decoder(**switches)
    for _, parameter in model.named_parameters():                     # gains and shifts that matter
        if parameter.data.ndim == 1:
            parameter.data += np.random.default_rng(1).standard_normal(parameter.data.shape) / 2
    for token, place in ((3, -1), (0, 2)):
        parts = logit_contributions(model, IDS, token, place)
        assert abs(sum(parts.values()) - model(IDS)[0, place, token]) < 1e-12
        assert list(parts)[:3] == ["embedding", "attention 1", "feed-forward 1"] and ("shift" in parts) == (
            switches.get("norm") != "rms_norm" and switches.get("bias", True))
        assert len(parts) == 7 + ("shift" in parts) and min(map(abs, parts.values())) > 0
    ax = plots.contribution_bars(parts, "a")
    assert [bar.get_width() for bar in ax.patches] == [*parts.values(), sum(parts.values())]
    assert [text.get_text() for text in ax.texts] == [f"{value:+.2f}" for value in (*parts.values(), sum(parts.values()))]


def test_hidden_activations_are_what_goes_out():
    model = decoder(feedforward="relu")
    found = hidden_activations(model, IDS)
    assert list(found) == [f"blocks.{k}.feedforward" for k in range(3)]
    assert all(a.shape == (1, 6, 32) and a.min() == 0 for a in found.values())
    dead = {name: dead_units(a) for name, a in found.items()}
    for name, a in found.items():
        assert dead[name] == (a == 0).all(axis=(0, 1)).mean()
    ax = plots.activation_histograms(found, dead)
    assert all(abs(line.get_ydata().sum() - 1) < 1e-12 for line in ax.lines) and "% dead" in ax.lines[0].get_label()
    bars = plots.dead_unit_bars(dead)
    np.testing.assert_allclose([bar.get_width() for bar in bars.patches], [100 * part for part in dead.values()])
    gated = hidden_activations(decoder(feedforward="swiglu", d_hidden=24), IDS)
    assert gated["blocks.2.feedforward"].shape == (1, 6, 24) and dead_units(np.zeros((2, 3))) == 1.0


def test_gradients_of_blocks():
    model = decoder()
    batch = IDS[:, :-1], IDS[:, 1:]
    lengths = gradient_by_block(model, batch)["blocks"]
    assert all(not parameter.grad.any() for parameter in model.parameters()), "the model's own gradients stay as they are"
    _, saved = model.loss(batch)
    model.loss_backward(saved)
    for length, block in zip(lengths, model.blocks):
        assert abs(length - np.linalg.norm(np.concatenate([p.grad.ravel() for p in block.parameters()]))) < 1e-12


def test_experts_are_left_out_of_hidden_activations():
    with pytest.raises(ValueError, match="no feed-forward that every token passes"):
        hidden_activations(decoder(n_experts=2), IDS)


def test_padding_is_hatched_in_every_view(rng):
    model, ids, lengths = EncoderDecoder(EncoderDecoderConfig(**SIZES, init_std=0.5), rng), np.array([[3, 4, 5, 0, 0]]), np.array([3])
    reading = Reading((ids, lengths, ids[:, :2]), list("abcde"), ["[BEGIN]", "x", "y"])
    encoder, _, cross = attention_views(model, reading)
    for view in (encoder, cross):
        assert not any(mask[:, 3:].any() or not mask[:, :3].all() for mask in view.masks)
        assert all((weights[..., 3:] == 0).all() for weights in view.weights)
    (cross,) = attention_views(Seq2Seq(Seq2SeqConfig(vocab_size=7, d_model=4, d_hidden=6), rng), reading)
    assert cross.masks[0].tolist() == 2 * [[True, True, True, False, False]] and (cross.weights[0][..., 3:] == 0).all()


@pytest.mark.parametrize("reading, words", [
    (Reading((IDS,), list("abc")), "3 labels came for 6 queries"), (Reading((np.repeat(IDS, 2, 0),), list("abcdef")), "but 2 came")])
def test_a_reading_that_does_not_fit(reading, words):
    with pytest.raises(ValueError, match=words):
        attention_views(decoder(), reading)


def test_weights_that_are_no_numbers():
    model = decoder()
    model.blocks[0].attention.query.weight.data[0, 0] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        attention_views(model, Reading((IDS,), list("abcdef")))


def test_how_far_back_a_scaled_embedding_feels():
    """The same vectors, once as scale times rows, once as the rows themselves."""
    inputs, targets = IDS[:, :-1], IDS[:, 1:]
    scaled, plain = decoder(embedding_scale=True, tied=False), decoder(tied=False)
    plain.load_state_dict(scaled.state_dict())
    plain.embedding.weight.data *= scaled.embedding.scale
    np.testing.assert_allclose(gradient_by_distance(scaled, inputs, targets), gradient_by_distance(plain, inputs, targets), rtol=1e-12)
    with pytest.raises(ValueError, match="places=0"):
        gradient_by_distance(plain, inputs, targets, places=0)


def test_gradients_of_blocks_by_stack(rng):
    model, ids = EncoderDecoder(EncoderDecoderConfig(**SIZES), rng), np.array([[3, 4, 5]])
    found = gradient_by_block(model, (ids, np.array([3]), ids, ids))
    assert {name: len(lengths) for name, lengths in found.items()} == {"encoder.blocks": 3, "blocks": 3}
    assert all((lengths > 0).all() for lengths in found.values())


@pytest.mark.parametrize("switches", [
    GPT2, LLAMA, TRANSFORMER_2017, dict(bias=False), dict(n_kv_heads=1, positions="alibi"), dict(n_heads=8, positions="alibi"),
    dict(tied=False, feedforward="relu"),
    dict(feedforward="geglu", norm="rms_norm"), dict(norm_first=False, positions="sinusoidal", feedforward="relu_squared"),
    dict(positions="none", feedforward="silu", dtype="float64"),
    dict(query_key_norm=True, n_kv_heads=2, bias=False)], ids=lambda switches: str(len(str(switches))))
def test_an_account_is_what_happens(switches):
    sizes = dict(vocab_size=11, context_length=24, n_layers=2, n_heads=4, d_model=16, dropout=0.0)
    config = DecoderConfig(**{**sizes, **switches, **dict.fromkeys(("dropout",), 0.0)})
    for length in (None, 7):
        rows = account(config, length)
        assert {row["quantity"] for row in rows} == {"parameters", "flops", "activations", "kv_cache"}
        for row in rows:
            assert row["predicted"] == pytest.approx(row["measured"], rel=1e-12), row


def test_tiles_in_pictures(rng):
    q, k, v = rng.standard_normal((3, 1, 1, 6, 2))
    steps = list(tiled_attention_steps(q, k, v, CAUSAL, tile=2))
    ax = plots.tile_order(steps)
    order = np.ma.filled(ax.images[0].get_array(), np.nan)
    assert order[0, 0] == 1 and order[5, 5] == 6 and np.isnan(order[0, 2]) and np.isnan(order[3, 5])
    rescaled = [sum(0 < alpha < 1 for alpha in step.alpha[0, 0, :, 0]) for step in steps if not step.skipped]
    assert [text.get_text().split("rescaled: ")[-1].strip() for text in ax.texts] == [
        str(count) if count else str(number) for number, count in enumerate(rescaled, 1)]
    figure = plots.tile_frame(steps, 4)                               # queries 2 and 3, keys 2 and 3
    left, right = figure.axes
    state = left.images[0].get_array()
    assert state[2, 2] == 2 and state[2, 0] == 1 and state[0, 2] == 0 and state[4, 0] == 0
    words = [text.get_text() for text in right.texts]
    step = steps[4]
    assert words[:6] == ["query", "m", "α", "l", "acc 0", "acc 1"] and words[6] == "2"
    assert words[7:12] == [f"{value:.3g}" for value in (step.m[0, 0, 0, 0], step.alpha[0, 0, 0, 0], step.l[0, 0, 0, 0], *step.acc[0, 0, 0])]
    assert len(plots.tile_frames(steps, (0, 3)).subfigs) == 2
    with pytest.raises(ValueError, match="number=9"):
        plots.tile_frame(steps, 9)
    with pytest.raises(ValueError, match="no step is chosen"):
        plots.tile_frames(steps, ())


def test_a_film_of_tiles(rng, tmp_path):
    from PIL import Image

    steps = list(tiled_attention_steps(*rng.standard_normal((3, 1, 1, 4, 2)), CAUSAL, tile=2))
    plots.tile_animation(steps).save(tmp_path / "film.gif", writer="pillow", dpi=40)
    with Image.open(tmp_path / "film.gif") as film:
        assert film.n_frames == len(steps) == 4 and film.is_animated


def test_views_of_a_decoder():
    model = decoder(positions="alibi", n_kv_heads=1)
    (view,) = attention_views(model, Reading((IDS,), list("abcdef")))
    assert (view.name, view.queries, view.keys) == ("self", list("abcdef"), list("abcdef"))
    for layer, expected in enumerate(model.attention_weights(IDS)):
        assert np.array_equal(view.weights[layer], expected[0]) and np.array_equal(view.masks[layer], np.tri(6, dtype=bool))
        scores = view.q[layer] @ view.k[layer].mT * view.scales[layer] + view.biases[layer]
        np.testing.assert_allclose(softmax(scores, mask=view.masks[layer])[0], expected[0], rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("switches", [dict(), dict(positions="t5", scaled_scores=False)], ids=["2017", "T5"])
def test_views_of_an_encoder_decoder(switches):
    config = EncoderDecoderConfig(**{**SIZES, "dtype": "float64", "init_std": 0.5, **switches})
    model, inputs = EncoderDecoder(config, np.random.default_rng(0)), (IDS, np.array([6]), IDS[:, :3])
    views = attention_views(model, Reading(inputs, list("abcdef"), ["[", "x", "y", "]"]))
    assert [view.name for view in views] == ["encoder", "decoder", "cross"]
    for view, weights in zip(views, model.attention_weights(*inputs)):
        for layer, expected in enumerate(weights):
            assert np.array_equal(view.weights[layer], expected[0])
            bias = 0 if view.biases[layer] is None else view.biases[layer]
            scores = view.q[layer] @ view.k[layer].mT * view.scales[layer] + bias
            np.testing.assert_allclose(softmax(scores, mask=view.masks[layer])[0], expected[0], rtol=1e-12, atol=1e-15)
    encoder, own, cross = views
    assert encoder.queries == cross.keys == list("abcdef") and own.keys == ["[", "x", "y"] and cross.queries == ["x", "y", "]"]


def test_views_of_local_layers():
    model = Bert(BertConfig(**SIZES, window=1, global_every=2), np.random.default_rng(0))
    (view,) = attention_views(model, Reading((IDS,), list("abcdef")))
    local = AttentionPattern(window=(1, 1)).dense(6, 6)
    assert [np.array_equal(mask, local) for mask in view.masks] == [False, True, False]


def test_queries_and_keys_meet_in_the_weights(rng):
    layer = MultiHeadAttention(8, 2, rng, query_key_norm=True, dtype=np.float64)
    x, context = rng.standard_normal((1, 3, 8)), rng.standard_normal((1, 5, 8))
    q, k = layer.queries_and_keys(x, context)
    assert q.shape == (1, 2, 3, 4) and k.shape == (1, 2, 5, 4)
    assert np.array_equal(attention_weights(q, k), layer.weights(x, context))


@pytest.mark.parametrize("look, words", [
    (lambda: residual_stream(rnn(), IDS), "no Transformer blocks"), (lambda: hidden_activations(rnn(), IDS), "no feed-forward"),
    (lambda: logit_lens(rnn(), IDS), "give a Decoder"), (lambda: gradient_by_block(rnn(), (IDS, IDS)), "no Transformer blocks"),
    (lambda: attention_views(rnn(), Reading((IDS,), list("abcdef"))), "no attention to look at"),
    (lambda: logit_contributions(decoder(norm_first=False), IDS, 1), "pre-norm"), (lambda: logit_contributions(decoder(), IDS, 7), "token"),
    (lambda: logit_contributions(decoder(), np.repeat(IDS, 2, 0), 1), "(1, T)"),
    (lambda: logit_contributions(decoder(), IDS, 1, 6), "place=6"),
    (lambda: logit_contributions(decoder(), IDS, 1, -7), "place=-7"),
    (lambda: account(DecoderConfig(**SIZES, n_experts=2)), "n_experts=2"), (lambda: account(DecoderConfig(**SIZES), 0), "length=0"),
    (lambda: account(DecoderConfig(**SIZES, dropout=0.5)), "dropout=0.5"),
    (lambda: account(DecoderConfig(vocab_size=50000, context_length=8, n_layers=12, n_heads=8, d_model=2048)), "too large")])
def test_what_cannot_be_looked_at(look, words):
    with pytest.raises(ValueError) as caught:
        look()
    assert words in str(caught.value)


def test_an_account_of_another_model():
    with pytest.raises(TypeError, match="DecoderConfig"):
        account(BertConfig(**SIZES))


def rnn():
    return RecurrentLanguageModel(RecurrentLanguageModelConfig(vocab_size=7, context_length=8, n_layers=1, d_model=4),
                                  np.random.default_rng(0))
