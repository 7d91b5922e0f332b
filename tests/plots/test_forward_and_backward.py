"""The plot of attention's forward and backward shows the package's code and its numbers."""

import inspect

import numpy as np
import pytest

from numformer import plots
from numformer.functional.attention.core import attention, attention_backward
from numformer.functional.softmax import softmax, softmax_backward
from numformer.plots.attention.forward_backward import complex_step_error

MASK = np.tri(5, dtype=bool)


def shown_code(ax):
    return [text.get_text() for text in ax.texts if text.get_text()
            and not text.get_text().startswith("$")]


def test_shown_code_is_that_of_the_package(rng):
    figure = plots.forward_and_backward(*rng.standard_normal((4, 5, 3)), MASK, list("abcde"))
    forward, backward = (shown_code(ax) for ax in figure.axes[0:3:2])
    assert forward[0].startswith("scores =") and forward[-1].startswith("o =")
    assert backward[0].startswith("#") and backward[-1].startswith("dk =")
    for lines, function in ((forward, attention), (backward, attention_backward)):
        source = inspect.getsource(function)
        assert all(f"    {line}" in source for line in lines)


def test_maps_are_weights_and_score_gradients(rng):
    q, k, v, do = rng.standard_normal((4, 5, 3))
    figure = plots.forward_and_backward(q, k, v, do, MASK)
    weights, gradient = (ax.images[0].get_array() for ax in figure.axes[1:4:2])
    p, saved = softmax(q @ k.T / 3 ** 0.5, mask=MASK)
    np.testing.assert_allclose(weights.filled(0), p, rtol=1e-12)
    np.testing.assert_allclose(gradient.filled(0), softmax_backward(do @ v.T, saved), atol=1e-15)
    assert np.array_equal(weights.mask, ~MASK)


@pytest.mark.parametrize("size, ends", [(1.7, ["-2", "+2"]), (0.034, ["-0.03", "+0.03"]),
                                        (17, ["-20", "+20"]), (2.2e-5, ["-2e-05", "+2e-05"])])
def test_the_ends_of_the_gradient_scale_are_plain_numbers(size, ends, rng):
    q, k, v, do = rng.standard_normal((4, 5, 3))
    p, saved = softmax(q @ k.T / 3 ** 0.5, mask=MASK)
    do *= size / np.abs(softmax_backward(do @ v.T, saved)).max()
    bar = plots.forward_and_backward(q, k, v, do, MASK).axes[3].child_axes[0]
    assert [label.get_text() for label in bar.get_xticklabels()] == ends


def test_shown_error_is_measured_with_the_complex_step(rng, monkeypatch):
    arrays = rng.standard_normal((4, 1, 1, 5, 3))
    error = complex_step_error(*arrays, MASK)
    assert 0 < error < 1e-14
    figure = plots.forward_and_backward(*arrays[:, 0, 0], MASK)
    assert figure.get_supxlabel().endswith(f"{error:.0e}")
    wrong = lambda do, saved: tuple(1.001 * dx for dx in attention_backward(do, saved))
    monkeypatch.setattr("numformer.plots.attention.forward_backward.attention_backward", wrong)
    assert complex_step_error(*arrays, MASK) > 1e-4


@pytest.mark.parametrize("options, words", [
    (dict(mask=np.ones((2, 2), bool)), "mask has shape (2, 2)"),
    (dict(tokens=["a"]), "1 labels for S=5"), (dict(v=np.ones((4, 3))), "S=5"),
    (dict(do=np.ones((5, 2))), "D=3")])
def test_bad_arguments_raise_an_error_that_names_them(options, words):
    arrays = dict.fromkeys(("q", "k", "v", "do"), np.ones((5, 3)))
    with pytest.raises(ValueError) as caught:
        plots.forward_and_backward(**{**arrays, **options})
    assert words in str(caught.value)
