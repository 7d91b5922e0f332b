"""Pictures of the lecture notes: waves, masks, permutations, recurrent networks, sizes by year."""

import numpy as np
import pytest

from plot_examples import texts
from numformer import plots
from numformer.analysis import attention_steps, lstm_gates, model_sizes
from numformer.functional import sinusoidal_positions
from numformer.layers import LSTM, RNN, MultiHeadAttention
from numformer.models import RecurrentLanguageModel, RecurrentLanguageModelConfig
from numformer.plots.training.slips import KINDS


def test_waves_are_the_coordinates_of_sinusoidal_positions():
    figure = plots.position_waves(width=8, pairs=(0, 3), positions=(1, 5), last=10)
    by_position, by_coordinate = figure.axes[:2], figure.axes[2:]
    table = sinusoidal_positions(np.arange(11), 8)
    for ax, i in zip(by_position, (0, 3)):
        for line, coordinate in zip(ax.lines, (2 * i, 2 * i + 1)):
            np.testing.assert_allclose(line.get_ydata()[::20], table[:, coordinate], atol=1e-12)
    for ax, position in zip(by_coordinate, (1, 5)):
        drawn = {x: y for line in ax.lines for x, y in line.get_xydata()}
        np.testing.assert_allclose([drawn[c] for c in range(8)], table[position], atol=1e-12)
    assert len({line.get_linestyle() for line in by_position[0].lines}) == 2


@pytest.mark.parametrize("options, message", [
    (dict(width=8, pairs=(4,), positions=(1,)), "width=8 has the pairs 0 to 3"),
    (dict(pairs=(0, 1), positions=(1,)), "2 pairs and 1 positions"),
    (dict(pairs=(), positions=()), "at least one")])
def test_waves_that_cannot_be_drawn_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        plots.position_waves(**options)


def test_mask_panels_show_each_mask_and_divide_inputs_from_outputs():
    masks = {"one": np.tri(3, dtype=bool), "two": np.ones((4, 4), bool)}
    tokens = {"one": list("abc"), "two": list("abcd")}
    one, two = plots.mask_panels(masks, tokens, {"two": 3}).axes
    assert np.array_equal(one.images[0].get_array(), masks["one"])
    assert [label.get_text() for label in two.get_xticklabels()] == list("abcd")
    assert not one.lines and [line.get_ydata()[0] for line in two.lines[:1]] == [2.5]
    with pytest.raises(ValueError, match="a label for each of T=2"):
        plots.mask_panels({"one": np.ones((3, 3), bool)}, {"one": list("ab")})
    with pytest.raises(ValueError, match="nothing to draw"):
        plots.mask_panels({}, {})


def permuted_rows(rng, order):
    layer = MultiHeadAttention(4, 1, rng, bias=False, dtype=np.float64)
    x, positions = rng.standard_normal((3, 4)), sinusoidal_positions(np.arange(3), 4)
    return [attention_steps(layer, each) for each in (
        x, x[order], x + positions, x[order] + positions)]


def test_permutation_panels_show_that_outputs_are_permuted_but_with_positions(rng):
    order = [2, 0, 1]
    rows = permuted_rows(rng, order)
    panels = np.array(plots.permutation_panels(rows, list("abc"), order).axes).reshape(3, 5)
    first, second = ([ax.images[0].get_array() for ax in row] for row in panels[:2])
    for k in (0, 1, 4):
        np.testing.assert_allclose(second[k], first[k][order], atol=1e-12)
    for k in (2, 3):
        np.testing.assert_allclose(second[k], first[k][order][:, order], atol=1e-12)
    off = [float(ax.get_title().split()[-1]) for ax in panels[1:, 4]]
    assert off[0] < 1e-14 and off[1] > 0.01
    assert [label.get_text() for label in panels[1, 0].get_yticklabels()] == list("cab")
    assert first[1].shape == (3, 12)                                  # queries, keys and values
    assert len({ax.images[0].get_clim() for ax in panels[:, 2]}) == 1


def test_a_wrong_permutation_is_refused(rng):
    rows = permuted_rows(rng, [2, 0, 1])
    with pytest.raises(ValueError, match="each of 0 to 2 once"):
        plots.permutation_panels(rows, list("abc"), [0, 0, 1])
    with pytest.raises(ValueError, match="2 rows came"):
        plots.permutation_panels(rows[:2], list("abc"), [2, 0, 1])


@pytest.mark.parametrize("cell, n_layers", [("rnn", 1), ("lstm", 2)])
def test_an_unrolled_network_has_a_box_for_every_step_and_the_sizes_of_its_layers(cell, n_layers):
    config = RecurrentLanguageModelConfig(vocab_size=11, context_length=4, n_layers=n_layers,
                                          d_model=6, cell=cell)
    ax = plots.unrolled_rnn(RecurrentLanguageModel(config, rng=None), length=3)
    drawn = texts(ax)
    assert [text for text in drawn if text.startswith("$x")] == [
        "$x_{t-1}$\n(6,)", "$x_{t}$\n(6,)", "$x_{t+1}$\n(6,)"]
    assert sum(text.startswith("$h") for text in drawn) == 3 * n_layers
    assert drawn.count("$y_{t}$\n(11,)") == 1
    columns = {"rnn": 6, "lstm": 24}[cell]
    assert drawn.count(f"W 6 x {columns}") == drawn.count(f"U\n6 x {columns}") == n_layers
    arrows = [text.get_label() for text in ax.texts if not text.get_text()]
    assert arrows.count("time") == 4 * n_layers and arrows.count("up") == 3 * (n_layers + 1)
    each = {"rnn": 6 * 6 * 2 + 6, "lstm": 4 * (6 * 6 * 2 + 6)}[cell]
    assert f"{n_layers * each:,} parameters" in ax.get_title()


def test_what_is_no_recurrent_model_is_refused(rng):
    with pytest.raises(TypeError, match="no recurrent layers"):
        plots.unrolled_rnn(LSTM(3, 4, rng))


def test_gate_maps_show_the_units_whose_forget_gate_varies_most(rng):
    x = rng.standard_normal((1, 5, 3))
    gates = {name: gate[0] for name, gate in lstm_gates(LSTM(3, 4, rng, dtype=np.float64),
                                                        x).items()}
    axes = plots.lstm_gate_maps(gates, list("abcde"), units=2).axes[:4]
    chosen = [int(label.get_text()) for label in axes[0].get_yticklabels()]
    assert set(chosen) == set(np.argsort(gates["forget"].std(axis=0))[-2:])
    for ax, name in zip(axes, ("input", "forget", "output", "cell")):
        np.testing.assert_array_equal(ax.images[0].get_array(), gates[name][:, chosen].T)
    assert axes[1].images[0].get_clim() == (0, 1) and axes[3].images[0].get_clim()[0] < 0
    with pytest.raises(ValueError, match="2 labels for T=5"):
        plots.lstm_gate_maps(gates, list("ab"))


def test_growth_shows_every_model_on_a_logarithmic_axis():
    sizes = model_sizes()
    ax = plots.model_growth(sizes, {"gpt3": "above"})
    drawn = {tuple(point) for line in ax.lines for point in line.get_xydata()}
    assert drawn == {(size.year, size.parameters) for size in sizes} and ax.get_yscale() == "log"
    assert texts(ax) == ["gpt3"] and len(ax.get_legend().get_texts()) == 3
    with pytest.raises(ValueError, match="family of gpt3 is 'bird'"):
        plots.model_growth([sizes[0], sizes[-1]._replace(name="gpt3", family="bird")])
    with pytest.raises(ValueError, match="nothing to draw"):
        plots.model_growth([])


def test_costs_of_misprints_are_sorted_and_marked_by_the_test_that_notices():
    slips = [dict(name=f"slip_{kind}", deck="A", val_loss=1.0, generating=value, notice=kind)
             for kind, value in zip(KINDS, (3.0, 2.0, 4.0, 2.5))]
    ax = plots.slip_costs(dict(val_loss=2.0, generating=2.0), slips)
    assert [label.get_text() for label in ax.get_yticklabels()] == [
        "slip gradients (A)", "slip none (A)", "slip shapes (A)", "slip reference (A)"]
    assert [text for text in texts(ax)] == ["+0.00", "+0.50", "+1.00", "+2.00"]
    pairs = [line.get_xdata() for line in ax.lines if len(line.get_xdata()) == 2][1:]
    assert [tuple(pair) for pair in pairs] == [(1.0, 2.0), (1.0, 2.5), (1.0, 3.0), (1.0, 4.0)]
    with pytest.raises(ValueError, match="must be shapes, gradients"):
        plots.slip_costs(slips[0], [dict(slips[0], notice="luck")])
    with pytest.raises(ValueError, match="nothing to draw"):
        plots.slip_costs(slips[0], [])


def test_the_cell_of_an_lstm_has_its_gates_and_the_sizes_of_its_weights(rng):
    ax = plots.lstm_cell_diagram(LSTM(5, 3, rng))
    drawn = texts(ax)
    for box in (r"forget: $\sigma$", r"input: $\sigma$", "new: tanh", r"output: $\sigma$", "tanh"):
        assert drawn.count(box) == 1
    assert drawn.count("×") == 3 and drawn.count("+") == 1
    assert {"$c_{t-1}$", "$h_{t-1}$", "$x_t$", "$c_t$", "$h_t$"} <= set(drawn)
    assert any("W 5 x 12, U 3 x 12" in text for text in drawn)
    assert "108 parameters" in ax.get_title()                         # 5 * 12 + 3 * 12 + 12
    arrows = [text.get_label() for text in ax.texts if not text.get_text()]
    assert arrows.count("memory") == 3 and arrows.count("inputs") == 4
    with pytest.raises(TypeError, match="must be an LSTM"):
        plots.lstm_cell_diagram(RNN(5, 3, rng))
