"""Recurrent layers: causality, states, padding, directions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from marks import every
from numformer import functional as F
from numformer.layers import GRU, LSTM, RNN, Bidirectional, CausalConvolution, Linear

KINDS = {
    "rnn": RNN, "lstm": LSTM, "gru": GRU,
    "whole lstm": lambda *a, **o: LSTM(*a, whole_state=True, **o),
    "gru of the paper": lambda *a, **o: GRU(*a, reset_after=False, **o)}
CAUSAL = {
    **KINDS,
    "convolution": lambda c, f, rng, **o: CausalConvolution(c, f, 3, rng, dilation=2, **o)}


def made(kind, rng, d_in=3, d_out=4, **options):
    layer = CAUSAL[kind](d_in, d_out, rng, dtype=np.float64, **options)
    for parameter in layer.parameters():
        parameter.data += 0.3 * rng.standard_normal(parameter.data.shape)
    return layer


def gradients_of(layer):
    gradients = [parameter.grad.copy() for parameter in layer.parameters()]
    for parameter in layer.parameters():
        parameter.zero_grad()
    return gradients


def same(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("kind", KINDS)
def test_a_layer_equals_its_cell_step_by_step(kind, rng):
    layer, x = made(kind, rng), rng.standard_normal((2, 4, 3))
    cell = {"rnn": F.rnn_cell, "lstm": F.lstm_cell,
            "gru": F.gru_cell}[kind.split()[-1] if "lstm" in kind else kind.split()[0]]
    state, outputs = np.zeros((2, layer.state_width)), []
    options = {}
    if isinstance(layer, GRU):
        if layer.reset_after:
            options["recurrent_bias"] = layer.recurrent_bias.data
        else:
            cell = F.gru_cell_reset_before
    for t in range(4):
        state, _ = cell(x[:, t], state, layer.input.weight.data, layer.recurrent_weight.data,
                        layer.input.bias.data, **options)
        outputs.append(state if kind == "whole lstm" else state[:, :4])
    same(layer(x), np.stack(outputs, axis=1))


@pytest.mark.parametrize("kind", every(3, CAUSAL))
@given(st.integers(1, 3), st.lists(st.integers(1, 4), min_size=1, max_size=5),
       st.integers(0, 2**32 - 1))
def test_steps_of_any_size_equal_the_forward(kind, B, parts, seed):
    rng = np.random.default_rng(seed)
    layer, x = made(kind, rng), rng.standard_normal((B, sum(parts), 3))
    outputs, state, stop = [], None, 0
    for part in parts:
        start, stop = stop, stop + part
        before = None if state is None else state.copy()
        y, after = layer.step(x[:, start:stop], state)
        assert state is None or np.array_equal(state, before)
        outputs.append(y)
        state = after
    same(np.concatenate(outputs, axis=1), layer(x))


# an LSTM's final cell is no output: see the next test
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "lstm"])
def test_two_halves_connected_by_the_state_equal_the_whole(kind, rng):
    """Forward, and backward through the state between them."""
    layer = made(kind, rng)
    x = rng.standard_normal((2, 7, 3))
    first = rng.standard_normal((2, 8 if "lstm" in kind else 4))
    y, saved = layer.forward(x, first)
    dy = rng.standard_normal(y.shape)
    dx, dfirst = layer.backward(dy, saved)
    whole = gradients_of(layer)
    y1, saved1 = layer.forward(x[:, :3], first)
    y2, saved2 = layer.forward(x[:, 3:], y1[:, -1])
    same(np.concatenate([y1, y2], axis=1), y)
    dx2, dstate = layer.backward(dy[:, 3:], saved2)
    dy1 = dy[:, :3].copy()
    dy1[:, -1] += dstate
    dx1, dstate = layer.backward(dy1, saved1)
    same(np.concatenate([dx1, dx2], axis=1), dx)
    same(dstate, dfirst)
    for found, expected in zip(gradients_of(layer), whole):
        same(found, expected)


def test_the_first_half_of_an_lstms_whole_state_is_its_output(rng):
    """Gradients of that half alone are those of the plain LSTM."""
    plain, whole = made("lstm", rng), made("whole lstm", rng)
    whole.load_state_dict(plain.state_dict())
    x, dy = rng.standard_normal((2, 5, 3)), rng.standard_normal((2, 5, 4))
    (y, saved) = plain.forward(x, lengths=[5, 2])
    (states, saved_whole) = whole.forward(x, lengths=[5, 2])
    same(states[..., :4], y)
    same(states[:, -1], plain.step(x, lengths=[5, 2])[1])
    same(whole.backward(np.concatenate([dy, 0 * dy], axis=2), saved_whole),
         plain.backward(dy, saved))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_padded_batch_equals_each_sequence_alone(kind, reverse, rng):
    layer, lengths, T = made(kind, rng, reverse=reverse), [5, 3, 0, 1], 5
    x, first = rng.standard_normal((4, T, 3)), rng.standard_normal((4, layer.state_width))
    for b, n in enumerate(lengths):
        # never read, not even by the backward
        x[b, n:] = np.nan
    y, saved = layer.forward(x, first, lengths)
    dy = rng.standard_normal(y.shape)
    dx, dfirst = layer.backward(dy, saved)
    together = gradients_of(layer)
    width = y.shape[2]
    for b, n in enumerate(lengths):
        kept = first[b:b + 1]
        if n:
            alone, saved = layer.forward(x[b:b + 1, :n], kept)
            same(y[b, :n], alone[0])
            assert (y[b, n:] == (kept[0, :width] if reverse else y[b, n - 1])).all()
            dalone = dy[b:b + 1, :n].copy()
            if not reverse:
                dalone[:, -1] += dy[b, n:].sum(axis=0)
            dx_alone, dfirst_alone = layer.backward(dalone, saved)
            same(dx[b, :n], dx_alone[0])
            dfirst_alone[:, :width] += dy[b, n:].sum(axis=0) * reverse
            same(dfirst[b], dfirst_alone[0])
        else:
            assert (y[b] == kept[0, :width]).all()
            same(dfirst[b, :width], dy[b].sum(axis=0))
        assert (dx[b, n:] == 0).all()
    for found, expected in zip(together, gradients_of(layer)):
        same(found, expected)


@pytest.mark.parametrize("kind", KINDS)
def test_steps_after_prompts_of_unequal_length_equal_each_alone(kind, rng):
    """A padded batch of prompts, then one more position for all."""
    layer, x, lengths = made(kind, rng), rng.standard_normal((3, 6, 3)), [4, 1, 3]
    y, state = layer.step(x[:, :4], lengths=lengths)
    last, _ = layer.step(x[:, 4:5], state)
    for b, n in enumerate(lengths):
        alone = layer(np.concatenate([x[b:b + 1, :n], x[b:b + 1, 4:5]], axis=1))
        same(y[b, -1], alone[0, -2])
        same(last[b, 0], alone[0, -1])


@pytest.mark.parametrize("kind", CAUSAL)
def test_outputs_do_not_depend_on_later_positions(kind, rng):
    layer, x = made(kind, rng), rng.standard_normal((2, 8, 3))
    y, other = layer(x), x.copy()
    other[:, 5] += 1
    changed = (layer(other) != y).any(axis=(0, 2))
    expected = np.isin(np.arange(8), [5, 7]) if kind == "convolution" else np.arange(8) >= 5
    # but on all earlier ones in reach
    assert np.array_equal(changed, expected)


def test_a_reverse_layer_equals_a_layer_on_the_reversed_sequence(rng):
    for kind in KINDS:
        ahead, back = made(kind, rng), made(kind, rng, reverse=True)
        back.load_state_dict(ahead.state_dict())
        x = rng.standard_normal((2, 5, 3))
        same(back(x), ahead(x[:, ::-1])[:, ::-1])
        with pytest.raises(ValueError, match="layer with reverse=True starts at the last position"):
            back.step(x)


def test_bidirectional_concatenates_both_directions(rng):
    front, back = made("gru", rng), made("lstm", rng, d_out=2, reverse=True)
    layer, x, lengths = Bidirectional(front, back), rng.standard_normal((2, 5, 3)), [3, 5]
    y = layer(x, lengths)
    same(y, np.concatenate([front(x, lengths=lengths), back(x, lengths=lengths)], axis=2))
    same(y[0, :3], layer(x[:1, :3])[0])
    same(y[0, -1, :4], y[0, 2, :4])
    assert (y[0, 3:, 4:] == 0).all()
    for wrong, error in (((front, front), ValueError), ((back, back), ValueError),
                         ((front, Linear(3, 4, rng)), TypeError)):
        with pytest.raises(error, match="Bidirectional: "):
            Bidirectional(*wrong)


def test_initial_weights_have_the_documented_deviations(rng):
    for layer, blocks in ((RNN(50, 80, rng), 1), (LSTM(50, 80, rng), 4), (GRU(50, 80, rng), 3)):
        assert abs(layer.input.weight.data.std() * 50 ** 0.5 - 1) < 0.05
        squares = np.split(layer.recurrent_weight.data, blocks, axis=1)
        for square in squares:
            np.testing.assert_allclose(square.T @ square, np.eye(80), atol=2e-6)
        assert layer.recurrent_weight.data.dtype == np.float32
        assert not any(np.allclose(a, b) for k, a in enumerate(squares) for b in squares[:k])
        bias = np.zeros(blocks * 80)
        if blocks == 4:
            bias[80:160] = 1                                          # the forget gate
        assert np.array_equal(layer.input.bias.data, bias)
    assert (GRU(2, 3, rng).recurrent_bias.data == 0).all()
    assert GRU(2, 3, rng, reset_after=False).recurrent_bias is None
    weight = CausalConvolution(20, 30, 5, rng).weight.data
    assert abs(weight.std() * 100 ** 0.5 - 1) < 0.05


def test_layers_without_a_generator_have_shapes_but_no_memory():
    """Models of any size are counted without their numbers."""
    for kind, gates in ((RNN, 1), (LSTM, 4), (GRU, 3)):
        layer = kind(10, 10**5, None)
        assert layer.recurrent_weight.data.shape == (10**5, gates * 10**5)
        assert layer.recurrent_weight.data.strides == (0, 0)


def test_bad_sizes_and_inputs_are_named(rng):
    for kind in (RNN, LSTM, GRU):
        for sizes in ((0, 3), (3, 0), (2.5, 3)):
            with pytest.raises(ValueError, match=f"{kind.__name__}: d_"):
                kind(*sizes, rng)
        with pytest.raises(TypeError, match="Generator"):
            kind(2, 3, 0)
        with pytest.raises(ValueError, match="x is empty"):
            kind(2, 3, rng).step(np.zeros((0, 4, 2), np.float32))
        with pytest.raises(TypeError, match="float64"):
            kind(2, 3, rng)(np.zeros((1, 4, 2)))
    for sizes in (dict(d_in=0), dict(d_out=0), dict(width=0), dict(dilation=0), dict(dilation=1.5)):
        with pytest.raises(ValueError, match="CausalConvolution: "):
            CausalConvolution(**{**dict(d_in=2, d_out=3, width=2, rng=rng), **sizes})
    x, state, W, U, b = (rng.standard_normal(shape)
                         for shape in ((2, 3), (2, 4), (3, 12), (4, 12), 12))
    for arguments, words in (((x[:, :2], state, W, U, b), "x must have shape (B, C) with C=3"),
                             ((x, state[:1], W, U, b),
                              "state must have shape (B, F) with B=2, F=4"),
                             ((x, state, W[:, :4], U, b),
                              "input_weight must have shape (C, 3F) with 3F=12"),
                             ((x, state, W, U[:, :4], b),
                              "recurrent_weight must have shape (F, 3F) with F=4, 3F=12"),
                             ((x, state, W, U, b[:3]), "bias must have shape (3F,) with 3F=12"),
                             ((x, state, W, U, b, b),
                              "recurrent_bias must have shape (F,) with F=4")):
        with pytest.raises(ValueError) as caught:
            F.gru_cell(*arguments)
        assert str(caught.value).startswith("gru_cell: ") and words in str(caught.value)
    with pytest.raises(ValueError,
                       match=r"lstm_cell: state must have shape \(B, 2F\) with B=2, 2F=6"):
        F.lstm_cell(x, state, W, U[:3], b)
    with pytest.raises(ValueError, match="must hold something"):
        F.causal_convolution(np.zeros((1, 2, 3)), np.zeros((0, 3, 2)))


def test_gradients_reach_100_steps_back_in_an_lstm_and_not_in_an_rnn(rng):
    """The purpose of the forget gate."""
    x = rng.standard_normal((1, 100, 4))
    norms = {}
    for layer in (RNN(4, 8, rng, dtype=np.float64),
                  LSTM(4, 8, rng, whole_state=True, dtype=np.float64)):
        if isinstance(layer, LSTM):
            layer.input.bias.data[8:16] = 6                           # forget almost nothing
        y, saved = layer.forward(x)
        dy = np.zeros_like(y)
        dy[0, -1] = 1
        norms[type(layer)] = np.linalg.norm(layer.backward(dy, saved)[0, 0])
    assert norms[RNN] < 1e-6 < 1e-2 < norms[LSTM]
