"""Diagrams show every box, arrow and variable, on light and dark ground and on slides."""

import numpy as np
import pytest
from matplotlib.patches import Circle, FancyBboxPatch

from marks import every, quick_among
from plot_examples import texts
from numformer.analysis import architecture
from numformer.layers import LayerNorm, MultiHeadAttention, RotaryPositions
from numformer.models import (
    PUBLISHED, DecoderConfig, NGramLanguageModelConfig, RecurrentLanguageModelConfig,
    SentenceBertConfig, Seq2SeqConfig)
from numformer.plots import architecture_diagram, computation_graph, dark, slides
from numformer.plots.diagrams.computation import WIDEST
from numformer.plots.diagrams.ink import DARK, LIGHT, wrapped
from numformer.plots.diagrams.layers import ranked
from numformer.plots.style import smallest_text
from numformer.verify.registry import ESTIMATORS, LAYERS

ONE_OF_EACH = {type(case.layer()).__name__: case for case in reversed(LAYERS + ESTIMATORS)}
SMALL = dict(vocab_size=11, context_length=8, n_layers=3, n_heads=2, d_model=8)
EXAMPLES = {
    **{name: PUBLISHED[name] for name in ("transformer-base", "bert-base", "gpt2", "t5-small",
                                          "vit-base", "mixtral-8x7b", "clip-base-32", "swin-t",
                                          "lenet-5")},
    "parallel": DecoderConfig(**SMALL, parallel_residual=True),
    "sandwich": DecoderConfig(**SMALL, sandwich_norm=True, positions="alibi"),
    "n-grams": NGramLanguageModelConfig(vocab_size=5, context_length=4),
    "lstm": RecurrentLanguageModelConfig(vocab_size=5, context_length=4, n_layers=2, d_model=4),
    "sentence-bert": SentenceBertConfig(**SMALL),
    "seq2seq": Seq2SeqConfig(vocab_size=5, d_model=4, d_hidden=6),
}
X = np.ones((1, 5, 8), np.float32)


def attention():
    return MultiHeadAttention(8, 2, np.random.default_rng(0))


def sums(ax):
    return [patch for patch in ax.patches if isinstance(patch, Circle)]


def check_texts(ax):
    """Every text is inside the axes, and over no other."""
    ax.figure.canvas.draw()
    area = ax.get_window_extent()
    boxes = [text.get_window_extent() for text in ax.texts if text.get_text()]
    for k, box in enumerate(boxes):
        assert area.x0 <= box.x0 and box.x1 <= area.x1 and area.y0 <= box.y0 and box.y1 <= area.y1
        found = [other for other in boxes[:k] if box.shrunk(0.97, 0.8).overlaps(
            other.shrunk(0.97, 0.8))]
        assert not found, ax.texts[k].get_text()


# Other tests draw these large ones, too
@pytest.mark.parametrize("name", quick_among(EXAMPLES, ["gpt2"]))
def test_a_diagram_has_every_box_with_name_shape_and_page(name):
    ax, found = architecture_diagram(EXAMPLES[name], title=name), architecture(EXAMPLES[name])
    assert ax.get_title() == f"{name}: {found.parameters:,} parameters"
    written = texts(ax)
    for box, _ in found.boxes():
        assert box.page in written and set(box.name.split()) <= set(" ".join(written).split())
    shapes = {f"({', '.join(f'{size:,}' if type(size) is int else size for size in box.shape)})"
              for box, _ in found.boxes()}
    assert all(any(shape in text for text in written) for shape in shapes)
    check_texts(ax)


@pytest.mark.slow
@pytest.mark.parametrize("name, branches", [
    ("gpt2", 2), ("transformer-base", 5), ("bert-base", 2), ("t5-small", 5), ("parallel", 1),
    ("lstm", 0)])
def test_there_is_a_sum_for_every_residual_connection(name, branches):
    config = EXAMPLES[name]
    forward, backward = (architecture_diagram(config, backward=both) for both in (False, True))
    assert len(sums(forward)) == branches
    assert len(sums(backward)) == 2 * branches, "gradients are added where the input forks"
    repeated = texts(forward).count(f"× {config.n_layers}")
    assert repeated == len(architecture(config).columns)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gpt2", "t5-small", "clip-base-32", "seq2seq", "parallel"])
def test_the_backward_has_equations_and_arrows_in_orange(name):
    ax = architecture_diagram(EXAMPLES[name], backward=True)
    orange = [text.get_text() for text in ax.texts if text.get_color() == LIGHT.orange]
    assert any("dx = " in text for text in orange)
    lines = [line for line in ax.lines if line.get_color() == LIGHT.orange]
    forward = architecture_diagram(EXAMPLES[name])
    assert len(lines) > 5 and not any(line.get_color() == LIGHT.orange for line in forward.lines)
    check_texts(ax)


def test_counting_has_no_gradient():
    ax = architecture_diagram(EXAMPLES["n-grams"], backward=True)
    assert "no gradient" in texts(ax)
    assert not any(line.get_color() == LIGHT.orange for line in ax.lines)


@pytest.mark.parametrize("name, number", every(9, [
    ("gpt2", 12), ("t5-small", 7), ("mixtral-8x7b", 1), ("parallel", 2), ("swin-t", 2)]))
def test_one_block_is_drawn_with_its_parts(name, number):
    ax = architecture_diagram(EXAMPLES[name], title=name, block=number)
    assert ax.get_title().startswith(f"{name}, block {number}: ")
    assert {"Query projection", "Attention weights"} <= set(texts(ax))
    assert name != "swin-t" or any("windows N = 64" in text.replace("\u00a0", " ")
                                   for text in texts(ax))
    check_texts(ax)


@pytest.mark.slow
@pytest.mark.parametrize("draw", [
    lambda: architecture_diagram(EXAMPLES["gpt2"]),
    lambda: computation_graph(attention(), X, backward=True)])
def test_slides_are_16_to_9_and_dark_ground_has_light_ink(draw):
    with slides():
        assert draw().get_figure().get_size_inches().tolist() == [13.33, 7.5]
    with dark():
        ax = draw()
    colours = {text.get_color() for text in ax.texts}
    assert colours <= set(DARK) and DARK.ink in colours
    ax.figure.canvas.draw()


@pytest.mark.parametrize("name, block", quick_among(
    [*((name, None) for name in ("transformer-base", "bert-base", "gpt2", "t5-small", "vit-base",
                                 "mixtral-8x7b")),
     *((name, 1) for name in ("transformer-base", "gpt2", "mixtral-8x7b", "swin-t"))],
    [("transformer-base", None), ("gpt2", 1)]))
def test_a_diagram_on_a_slide_can_be_read_from_the_last_row(name, block):
    """Names in at least 18 points on a page 13.33 inches wide, and none over another."""
    with slides():
        ax = architecture_diagram(EXAMPLES[name], title=name, block=block)
    assert ax.figure.get_size_inches().tolist() == [13.33, 7.5]
    assert smallest_text(ax.figure) >= 18
    boxes = {word for box, _ in architecture(EXAMPLES[name], block).boxes()
             for word in box.name.split()}
    assert boxes <= set(" ".join(texts(ax)).split())
    check_texts(ax)


def test_given_axes_are_drawn_on_with_smaller_texts():
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4, 4))
    ax = figure.add_subplot()
    assert architecture_diagram(EXAMPLES["gpt2"], ax) is ax
    assert max(text.get_fontsize() for text in ax.texts) < 8
    assert min(text.get_fontsize() for text in architecture_diagram(EXAMPLES["gpt2"]).texts) >= 10


@pytest.mark.slow
@pytest.mark.parametrize("backward", [False, True])
def test_a_graph_of_attention_shows_its_mathematics(backward):
    ax = computation_graph(attention(), X, backward=backward)
    written = [text.replace("\u00a0", " ") for text in texts(ax)]
    assert {"scores", "softmax", "weighted mean", "q kᵀ / √D", "softmax(scores)", "p v"} <= set(
        written)
    assert {"q", "k", "v", "p", "o", "= (1, 2, 5, 5)", "(B, H, T, S)"} <= set(written)
    assert "kept for the backward: x, q, k, v, p, o" in written
    assert ("do" in written) is backward
    assert ax.get_title() == "MultiHeadAttention"
    for name in ("at_once", "check", "saved", "pattern", "seed", "getattr", "None"):
        assert not any(name in text for text in written), name
    check_texts(ax)


def labels_that_do_not_fit(ax):
    """The texts of a graph that are wider or higher than the smallest box around their middle."""
    ax.figure.canvas.draw()
    boxes = [patch.get_window_extent() for patch in ax.patches if isinstance(patch, FancyBboxPatch)]
    area, found = ax.get_window_extent(), []
    for text in ax.texts:
        own = text.get_window_extent()
        x, y = (own.x0 + own.x1) / 2, (own.y0 + own.y1) / 2
        around = [box for box in boxes if box.x0 <= x <= box.x1 and box.y0 <= y <= box.y1]
        box = min(around, key=lambda box: box.width * box.height, default=area)
        if not (box.x0 <= own.x0 and own.x1 <= box.x1 and box.y0 <= own.y0 and own.y1 <= box.y1):
            found.append(text.get_text())
    return found


# Of each kind one that is quick to draw; recurrent layers and experts have a loop
@pytest.mark.parametrize("name", quick_among(
    ONE_OF_EACH, ["Convolution2D"]))
def test_no_label_of_a_layer_is_longer_than_its_box(name):
    """As they are drawn, in inches; and no formula is wider than a field may be."""
    case = ONE_OF_EACH[name]
    ax = computation_graph(case.layer(), *case.inputs(), backward=True, **case.options())
    assert labels_that_do_not_fit(ax) == []
    widths = {text.get_text(): text.get_window_extent().width / ax.figure.dpi for text in ax.texts
              if text.get_ha() == "center" and not text.get_text().endswith(".py")}
    allowed = WIDEST * 1.05                           # letters are drawn on whole pixels
    assert not {text for text, width in widths.items() if width > allowed
                and not text.startswith("kept for the backward")}
    check_texts(ax)


def test_a_label_that_is_too_long_is_found():
    ax = computation_graph(LayerNorm(3), np.ones((2, 3), np.float32))
    assert labels_that_do_not_fit(ax) == []
    label = next(text for text in ax.texts if text.get_text() == "x − mean")
    label.set_text("x − mean" * 4)
    assert labels_that_do_not_fit(ax) == [label.get_text()]


def test_a_loop_is_a_named_frame_around_its_steps():
    case = ONE_OF_EACH["RNN"]
    ax = computation_graph(case.layer(), *case.inputs(), **case.options())
    ax.figure.canvas.draw()
    frame, = (patch.get_window_extent() for patch in ax.patches
              if isinstance(patch, FancyBboxPatch) and patch.get_linestyle() != "solid")
    inside = [text.get_text() for text in ax.texts
              if frame.y0 <= text.get_window_extent().y0 <= frame.y1]
    assert any(text.startswith("for each t, state ← ") for text in inside)
    assert "tanh(a[t] + state recurrent_weight)" in " ".join(inside).replace("\u00a0", " ")
    assert "batch_first(states[1:])" not in inside and "time_first(x)" not in inside


@pytest.mark.slow
def test_edges_of_a_graph_are_inside_the_picture():
    """Also those that pass by the outermost fields."""
    ax = computation_graph(RotaryPositions(8), np.ones((1, 2, 5, 8), np.float32))
    ax.figure.canvas.draw()
    area = ax.get_window_extent()
    boxes = [patch.get_window_extent() for patch in ax.patches]
    assert len(boxes) > 8
    assert min(box.x0 for box in boxes) >= area.x0 and max(box.x1 for box in boxes) <= area.x1
    assert any("y[..., a] = x[..., a]" in text.replace("\u00a0", " ") for text in texts(ax))


@pytest.mark.slow
def test_a_graph_of_a_norm_has_the_statements_of_its_function():
    ax = computation_graph(LayerNorm(8), X, title="a norm")
    assert ax.get_title() == "a norm" and any("x − mean" in text for text in texts(ax))
    with pytest.raises(TypeError, match="no layer with a forward"):
        computation_graph("LayerNorm", X)


def test_nodes_of_a_rank_do_not_overlap_and_edges_go_down():
    rng = np.random.default_rng(3)
    widths = list(rng.uniform(0.5, 3.0, 12))
    edges = [(int(rng.integers(0, k)), k) for k in range(1, 12) for _ in range(2)]
    nodes, lines = ranked(widths, edges, gap=0.2)
    for a in range(12):
        for b in range(a):
            if nodes[a].rank == nodes[b].rank:
                assert abs(nodes[a].x - nodes[b].x) > (widths[a] + widths[b]) / 2 + 0.19
    assert all(nodes[start].rank < nodes[end].rank for start, end in edges)
    for (start, end), passed in lines.items():
        assert [place.rank for place in passed] == [*range(nodes[start].rank + 1, nodes[end].rank)]
    assert min(node.x - width / 2 for node, width in zip(nodes, widths)) >= -1e-9


def test_words_are_wrapped_at_a_width_in_inches():
    assert wrapped("", 1.0) == [] and wrapped("a b", 9.0) == ["a b"]
    assert wrapped("softmax attention", 0.9) == ["softmax", "attention"]


def test_lines_end_after_commas_and_are_about_equally_long():
    assert wrapped("32 heads of 128, rotary positions at q and k", 3.6) == [
        "32 heads of 128,", "rotary positions at q and k"]
    assert wrapped("rotary positions at q and k", 2.1) == ["rotary positions", "at q and k"]
