"""Activation functions and their derivatives, as curves."""

from functools import partial

import numpy as np
import pytest

from numformer import plots
from numformer.commands.shared.deck_pictures import DECK
from numformer.functional import relu, relu_backward, sigmoid, swish, swish_backward


def test_curves_are_the_functions_and_their_derivatives():
    pairs = {"ReLU": (relu, relu_backward), "Swish": (partial(swish, beta=2.0), swish_backward)}
    values, slopes = plots.activation_curves(pairs, last=3.0).axes
    x, gate = values.lines[1].get_xdata(), sigmoid(2 * values.lines[1].get_xdata())[0]
    assert (x[0], x[-1]) == (-3, 3)
    np.testing.assert_array_equal(values.lines[0].get_ydata(), np.maximum(x, 0))
    np.testing.assert_array_equal(slopes.lines[0].get_ydata(), x > 0)
    np.testing.assert_allclose(values.lines[1].get_ydata(), x * gate)
    np.testing.assert_allclose(slopes.lines[1].get_ydata(), gate + 2 * x * gate * (1 - gate))
    for first, second in zip(values.lines, slopes.lines):
        assert first.get_linestyle() == second.get_linestyle()
    assert values.lines[0].get_linestyle() != values.lines[1].get_linestyle()


def test_the_picture_of_the_decks_goes_from_half_of_x_to_nearly_relu():
    figure = DECK["swish"](None)
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    curves = {name: line.get_ydata() for name, line in zip(names, figure.axes[0].lines)}
    x = figure.axes[0].lines[0].get_xdata()
    np.testing.assert_array_equal(curves["ReLU"], np.maximum(x, 0))
    np.testing.assert_array_equal(curves["Swish, beta = 0"], x / 2)
    gaps = [abs(y - curves["ReLU"]).max() for name, y in curves.items() if name != "ReLU"]
    assert len(gaps) == 5 and gaps == sorted(gaps, reverse=True) and gaps[-1] < 0.06


def test_no_function_and_no_range_are_errors():
    with pytest.raises(ValueError, match="pairs is empty"):
        plots.activation_curves({})
    for last in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="last must be a number above 0"):
            plots.activation_curves({"ReLU": (relu, relu_backward)}, last=last)
