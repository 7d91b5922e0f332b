"""Diagrams of models show every box and arrow; their growth shows every year."""

import numpy as np
import pytest
from matplotlib.patches import Circle

from plot_examples import texts
from numformer.analysis import architecture
from numformer.models import CONFIGS, VISION_CONFIGS, DecoderConfig
from numformer.plots import architecture_diagram, dark

NAMES = ["transformer-base", "bert-base", "gpt2", "t5-small", "vit-base"]


def arrows(ax, label):
    return [text for text in ax.texts if text.get_label() == label]


def sums(ax):
    return [patch for patch in ax.patches if isinstance(patch, Circle)]


@pytest.mark.parametrize("name, branches, memories", [*zip(NAMES, (5, 2, 2, 5, 2),
                                                                  (1, 0, 0, 1, 0))])
def test_a_diagram_has_a_sum_and_a_residual_arrow_for_every_branch(name, branches, memories):
    config = (CONFIGS | VISION_CONFIGS)[name]
    ax = architecture_diagram(config, title=name)
    assert len(sums(ax)) == len(arrows(ax, "residual")) == branches
    assert len(arrows(ax, "memory")) == memories
    assert ax.get_title() == f"{name}: {architecture(config).parameters:,} parameters"
    assert texts(ax).count(f"x {config.n_layers}") == len(architecture(config).columns)


def test_boxes_name_layers_with_sizes_and_parameters_from_bottom_to_top():
    ax = architecture_diagram(CONFIGS["gpt2"])
    boxes = [text for text in ax.texts if "\n" in text.get_text()]
    assert [text.get_text().split("\n") for text in boxes][:4] == [
        ["Token embedding", "50,257 x 768 · 38.6 M"],
        ["+ Learned positions", "1,024 x 768 · 786 k"],
        ["LayerNorm", "1.54 k"], ["Masked self-attention", "12 heads of 64 · 2.36 M"]]
    heights = [text.get_position()[1] for text in boxes]
    assert heights == sorted(heights)


@pytest.mark.parametrize("name", [*NAMES, "mixtral-8x7b"])
def test_nothing_is_drawn_outside_the_axes_or_over_another_text(name):
    ax = architecture_diagram((CONFIGS | VISION_CONFIGS)[name])
    ax.figure.canvas.draw()
    area = ax.get_window_extent()
    boxes = [text.get_window_extent() for text in ax.texts if text.get_text()]
    for k, box in enumerate(boxes):
        assert area.x0 <= box.x0 and box.x1 <= area.x1 and area.y0 <= box.y0 and box.y1 <= area.y1
        assert not any(box.overlaps(other) for other in boxes[:k])


def test_parallel_branches_are_next_to_each_other_with_one_sum():
    config = DecoderConfig(vocab_size=11, context_length=8, n_layers=3, n_heads=2, d_model=8,
                           parallel_residual=True)
    with dark():
        ax = architecture_diagram(config)
    assert len(sums(ax)) == len(arrows(ax, "residual")) == 1
    at = {text.get_text().split("\n")[0]: text.get_position() for text in ax.texts}
    assert np.isclose(at["Masked self-attention"][1], at["Feed-forward"][1])
    assert at["Masked self-attention"][0] < at["Feed-forward"][0]
