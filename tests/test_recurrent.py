"""What recurrent layers and causal convolution promise: time goes one way, a state is all that is handed on, padding is not seen."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numformer import functional as F
from numformer.layers import GRU, LSTM, RNN, Bidirectional, CausalConvolution, Linear

KINDS = {
    "rnn": RNN, "lstm": LSTM, "gru": GRU, "whole lstm": lambda *a, **o: LSTM(*a, whole_state=True, **o),
    "gru of the paper": lambda *a, **o: GRU(*a, reset_after=False, **o)}
CAUSAL = {**KINDS, "convolution": lambda c, f, rng, **o: CausalConvolution(c, f, 3, rng, dilation=2, **o)}


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
def test_a_layer_is_its_cell_step_by_step(kind, rng):
    layer, x = made(kind, rng), rng.standard_normal((2, 4, 3))
    cell = {"rnn": F.rnn_cell, "lstm": F.lstm_cell, "gru": F.gru_cell}[kind.split()[-1] if "lstm" in kind else kind.split()[0]]
    state, outputs = np.zeros((2, layer.state_width)), []
    options = {}
    if isinstance(layer, GRU):
        options = dict(reset_after=layer.reset_after)
        if layer.reset_after:
            options["recurrent_bias"] = layer.recurrent_bias.data
    for t in range(4):
        state, _ = cell(x[:, t], state, layer.input.weight.data, layer.recurrent_weight.data, layer.input.bias.data, **options)
        outputs.append(state if kind == "whole lstm" else state[:, :4])
    same(layer(x), np.stack(outputs, axis=1))


@pytest.mark.parametrize("kind", CAUSAL)
@given(st.integers(1, 3), st.lists(st.integers(1, 4), min_size=1, max_size=5), st.integers(0, 2**32 - 1))
def test_steps_of_any_size_are_the_whole(kind, B, parts, seed):
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


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "lstm"])      # whose final memory is no output: see the next test
def test_two_halves_with_the_state_handed_on_are_the_whole(kind, rng):
    """Forward, and backward through the state that was handed on."""
    layer, x, first = made(kind, rng), rng.standard_normal((2, 7, 3)), rng.standard_normal((2, 8 if "lstm" in kind else 4))
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


def test_the_whole_state_of_an_lstm(rng):
    """The same parameters with and without it: outputs in the first half, and their gradients alone give the same."""
    plain, whole = made("lstm", rng), made("whole lstm", rng)
    whole.load_state_dict(plain.state_dict())
    x, dy = rng.standard_normal((2, 5, 3)), rng.standard_normal((2, 5, 4))
    (y, saved), (states, saved_whole) = plain.forward(x, lengths=[5, 2]), whole.forward(x, lengths=[5, 2])
    same(states[..., :4], y)
    same(states[:, -1], plain.step(x, lengths=[5, 2])[1])
    same(whole.backward(np.concatenate([dy, 0 * dy], axis=2), saved_whole), plain.backward(dy, saved))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_padded_batch_is_each_sequence_alone(kind, reverse, rng):
    layer, lengths, T = made(kind, rng, reverse=reverse), [5, 3, 0, 1], 5
    x, first = rng.standard_normal((4, T, 3)), rng.standard_normal((4, layer.state_width))
    for b, n in enumerate(lengths):
        x[b, n:] = np.nan                                             # never looked at, not even in the gradients
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
def test_steps_of_prompts_of_unequal_length(kind, rng):
    """A padded batch of prompts, then one position more for all: as if each had been alone."""
    layer, x, lengths = made(kind, rng), rng.standard_normal((3, 6, 3)), [4, 1, 3]
    y, state = layer.step(x[:, :4], lengths=lengths)
    last, _ = layer.step(x[:, 4:5], state)
    for b, n in enumerate(lengths):
        alone = layer(np.concatenate([x[b:b + 1, :n], x[b:b + 1, 4:5]], axis=1))
        same(y[b, -1], alone[0, -2])
        same(last[b, 0], alone[0, -1])


@pytest.mark.parametrize("kind", CAUSAL)
def test_nothing_is_seen_of_later_positions(kind, rng):
    layer, x = made(kind, rng), rng.standard_normal((2, 8, 3))
    y, other = layer(x), x.copy()
    other[:, 5] += 1
    changed = (layer(other) != y).any(axis=(0, 2))
    expected = np.isin(np.arange(8), [5, 7]) if kind == "convolution" else np.arange(8) >= 5
    assert np.array_equal(changed, expected)                          # and all that may be seen is


def test_a_reverse_layer_is_the_sequence_turned(rng):
    for kind in KINDS:
        ahead, back = made(kind, rng), made(kind, rng, reverse=True)
        back.load_state_dict(ahead.state_dict())
        x = rng.standard_normal((2, 5, 3))
        same(back(x), ahead(x[:, ::-1])[:, ::-1])
        with pytest.raises(ValueError, match="reverse layer begins at the end"):
            back.step(x)


def test_bidirectional(rng):
    front, back = made("gru", rng), made("lstm", rng, d_out=2, reverse=True)
    layer, x, lengths = Bidirectional(front, back), rng.standard_normal((2, 5, 3)), [3, 5]
    y = layer(x, lengths)
    same(y, np.concatenate([front(x, lengths=lengths), back(x, lengths=lengths)], axis=2))
    same(y[0, :3], layer(x[:1, :3])[0])
    same(y[0, -1, :4], y[0, 2, :4])
    assert (y[0, 3:, 4:] == 0).all()
    for wrong, error in (((front, front), ValueError), ((back, back), ValueError), ((front, Linear(3, 4, rng)), TypeError)):
        with pytest.raises(error, match="Bidirectional: "):
            Bidirectional(*wrong)


@given(st.integers(1, 4), st.integers(1, 3), st.integers(1, 7), st.integers(0, 2**32 - 1))
def test_convolution_by_its_definition(K, dilation, T, seed):
    rng = np.random.default_rng(seed)
    x, weight, bias = rng.standard_normal((2, T, 3)), rng.standard_normal((K, 3, 2)), rng.standard_normal(2)
    expected = np.tile(bias, (2, T, 1))
    for t in range(T):
        for k in range(K):
            if t - (K - 1 - k) * dilation >= 0:
                expected[:, t] += x[:, t - (K - 1 - k) * dilation] @ weight[k]
    same(F.causal_convolution(x, weight, bias, dilation)[0], expected)


def test_convolutions_state(rng):
    layer = CausalConvolution(3, 2, 3, rng, dilation=2)
    x = rng.standard_normal((2, 7, 3)).astype(np.float32)
    assert layer.reach == 4
    _, state = layer.step(x)
    assert np.array_equal(state, x[:, -4:]) and not np.shares_memory(state, x)
    _, state = layer.step(x[:, :3])
    assert np.array_equal(state, np.concatenate([np.zeros((2, 1, 3), np.float32), x[:, :3]], axis=1))
    with pytest.raises(ValueError, match="state must have shape"):
        layer.step(x, state[:, 1:])
    with pytest.raises(ValueError, match="x is empty"):
        layer.step(x[:, :0])
    one = CausalConvolution(3, 2, 1, rng)                             # a window of one position remembers nothing
    y, state = one.step(x)
    assert state.shape == (2, 0, 3) and np.array_equal(y, one(x))


def test_first_weights(rng):
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
    assert (GRU(2, 3, rng).recurrent_bias.data == 0).all() and GRU(2, 3, rng, reset_after=False).recurrent_bias is None
    weight = CausalConvolution(20, 30, 5, rng).weight.data
    assert abs(weight.std() * 100 ** 0.5 - 1) < 0.05


def test_shapes_alone():
    """Models of any size are counted without their numbers."""
    for kind, gates in ((RNN, 1), (LSTM, 4), (GRU, 3)):
        layer = kind(10, 10**5, None)
        assert layer.recurrent_weight.data.shape == (10**5, gates * 10**5) and layer.recurrent_weight.data.strides == (0, 0)


def test_what_they_refuse(rng):
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
    x, state, W, U, b = (rng.standard_normal(shape) for shape in ((2, 3), (2, 4), (3, 12), (4, 12), 12))
    for arguments, words in (((x[:, :2], state, W, U, b), "x must have shape (B, C) with C=3"),
                             ((x, state[:1], W, U, b), "state must have shape (B, F) with B=2, F=4"),
                             ((x, state, W[:, :4], U, b), "input_weight must have shape (C, 3F) with 3F=12"),
                             ((x, state, W, U[:, :4], b), "recurrent_weight must have shape (F, 3F) with F=4, 3F=12"),
                             ((x, state, W, U, b[:3]), "bias must have shape (3F,) with 3F=12"),
                             ((x, state, W, U, b, b), "recurrent_bias must have shape (F,) with F=4"),
                             ((x, state, W, U, b, b[:4], False), "recurrent_bias needs reset_after=True")):
        with pytest.raises(ValueError) as caught:
            F.gru_cell(*arguments)
        assert str(caught.value).startswith("gru_cell: ") and words in str(caught.value)
    with pytest.raises(ValueError, match=r"lstm_cell: state must have shape \(B, 2F\) with B=2, 2F=6"):
        F.lstm_cell(x, state, W, U[:3], b)
    with pytest.raises(ValueError, match="must hold something"):
        F.causal_convolution(np.zeros((1, 2, 3)), np.zeros((0, 3, 2)))


@pytest.mark.parametrize("cell, gates, parts", [(F.rnn_cell, 1, 1), (F.lstm_cell, 4, 2), (F.gru_cell, 3, 1)])
def test_without_a_bias(cell, gates, parts, rng):
    arrays = [rng.standard_normal(shape) for shape in ((2, 3), (2, 4 * parts), (3, 4 * gates), (4, 4 * gates))]
    y, saved = cell(*arrays)
    same(y, cell(*arrays, np.zeros(4 * gates))[0])
    backward = getattr(F, f"{cell.__name__}_backward")
    *gradients, dbias = backward(np.ones_like(y), saved)
    assert dbias is None and [g.shape for g in gradients] == [x.shape for x in arrays]
    y, saved = F.causal_convolution(np.ones((1, 2, 3)), np.ones((2, 3, 4)))
    assert F.causal_convolution_backward(y, saved)[2] is None


def test_gates_do_what_they_are_named_for():
    """Closed and open to the last bit, by biases of +-1000: blocks stand in the order that is told."""
    x, state = np.zeros((1, 1)), np.array([[0.3, 0.7]])

    def lstm(i, f, o, g):
        return F.lstm_cell(x, state, np.zeros((1, 4)), np.zeros((1, 4)), np.array([i, f, o, g], float))[0][0]

    assert np.array_equal(lstm(-1000, 1000, -1000, 5), [0, 0.7])      # keep, and show nothing
    assert np.array_equal(lstm(1000, -1000, -1000, 1000), [0, 1])     # overwrite
    assert np.array_equal(lstm(-1000, 1000, 1000, 5), [np.tanh(0.7), 0.7])

    def gru(r, z, n, **options):
        recurrent_weight = np.array([[0.0, 0.0, 1.0]])
        return F.gru_cell(x, state[:, :1], np.zeros((1, 3)), recurrent_weight, np.array([r, z, n], float), **options)[0][0, 0]

    for options in (dict(), dict(reset_after=False)):
        assert gru(0.0, 1000, 5.0, **options) == 0.3                  # keep
        assert gru(-1000, -1000, 0.5, **options) == np.tanh(0.5)      # forget what was, and move all the way
        assert gru(1000, -1000, 0.5, **options) == np.tanh(0.8)


def test_a_memory_lets_a_gradient_through_where_a_plain_cell_loses_it(rng):
    """What the forget gate is for: 100 steps back, the plain cell's gradient is gone, the memory's is not."""
    x = rng.standard_normal((1, 100, 4))
    norms = {}
    for layer in (RNN(4, 8, rng, dtype=np.float64), LSTM(4, 8, rng, whole_state=True, dtype=np.float64)):
        if isinstance(layer, LSTM):
            layer.input.bias.data[8:16] = 6                           # forget almost nothing
        y, saved = layer.forward(x)
        dy = np.zeros_like(y)
        dy[0, -1] = 1
        norms[type(layer)] = np.linalg.norm(layer.backward(dy, saved)[0, 0])
    assert norms[RNN] < 1e-6 < 1e-2 < norms[LSTM]
