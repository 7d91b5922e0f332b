"""The alignment map shows the weights of each output token over the source."""

import numpy as np
import pytest

from numformer.plots import alignment_map


def test_alignment_map_shows_weights_with_labels_of_both_texts():
    axes = alignment_map(np.array([[0.9, 0.1, 0.0], [0.0, 0.2, 0.8]]), ["a", " ", "b"], ["B", "A"])
    assert [label.get_text() for label in axes.get_xticklabels()] == ["a", "␣", "b"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["B", "A"]
    assert axes.images[0].get_array().shape == (2, 3)
    assert axes.images[0].colorbar.ax.get_ylabel() == "weight"
    named = alignment_map(np.ones((1, 1)), ["a"], ["b"], scale="share")
    assert named.images[0].colorbar.ax.get_ylabel() == "share"
    without = alignment_map(np.ones((1, 1)), ["a"], ["b"], scale="")
    assert without.images[0].colorbar is None and without.figure.axes == [without]
    assert alignment_map(np.ones((1, 1)), ["a"], ["b"], ax=axes) is axes
    for source, output in ((["a"], ["B", "A"]), (["a", "b", "c"], ["B"])):
        with pytest.raises(ValueError, match="labels, but weights of shape"):
            alignment_map(np.ones((2, 3)), source, output)
    with pytest.raises(ValueError, match="(T, S)"):
        alignment_map(np.ones(3), ["a"], ["b"])
