"""Every picture of tokens and names draws texts of all scripts: whole, inside, and in its font."""

import numpy as np
import pytest
from matplotlib.text import Text

from made_fonts import fonts_of_matplotlib
from numformer import plots
from numformer.plots.meaning import attention_on_words, head_scores, labelled_maps, values_by_class
from numformer.plots.text.labels import MARKS
from numformer.plots.training.film import Film, film_frame

# Japanese, Korean, Hebrew, Arabic, Hindi, emoji, invisible characters, and signs of formulas
TOKENS = ["\u65e5", "\u672c\u8a9e", "\ud55c\uad6d", "\u05e9\u05dc\u05d5\u05dd",
          " \u0639\u0631\u0628", "\u0928\u092e\u0938\u094d\u0924\u0947", "\u093f", "\U0001f602",
          "\U0001f44d\U0001f3fd", "\U0001f1e9\U0001f1ea", "\0", "\r\n", "\u200b", "\u202e",
          "\ud800", "$x_1$", "\\frac{", "<b>&", "%#^~", "a" * 300, ""]
NAMES = ["_\u65e5\u672c $a$ $b$", "\u05e9\u05dc\u05d5\u05dd {", "run\x1b[2J" + "b" * 200]
N = len(TOKENS)


@pytest.fixture(autouse=True)
def own_fonts():
    with fonts_of_matplotlib():
        yield


def film(rng):
    weights = rng.dirichlet(np.ones(9), (2, 9))
    text = "".join(token for token in TOKENS if len(token) < 99)
    return film_frame(Film("A model", "nats", [0, 5], [(1, 2.0), (4, 1.5)], [(5, 1.0)], text[:9],
                           [text, text], weights, np.tri(9, dtype=bool), TOKENS[:9], TOKENS[:9],
                           "layer 1", rng.standard_normal((2, 9, 2)), TOKENS[11:20],
                           ["letters"] * 9), 1)


def named(values):
    return dict(zip(NAMES, values))


CURVES = named([[2.0, 1.0], [2.0, 1.5], [1.8, 1.4]])
PICTURES = {
    "tokens_by_loss": lambda rng: plots.tokens_by_loss(TOKENS, rng.random(N - 1)),
    "temperature": lambda rng: plots.temperature_panels(
        np.linspace(2, 0, N), TOKENS, [1.0], shown=N, title="".join(
            map(plots.tokens.visible, TOKENS[:9]))),
    "attention_map": lambda rng: plots.attention_map(np.tri(N), TOKENS, title=TOKENS[3]),
    "attention_heads": lambda rng: plots.attention_heads(
        [rng.dirichlet(np.ones(7), (2, 7))], [(0, 0), (0, 1)], TOKENS[:7]),
    "alignment_map": lambda rng: plots.alignment_map(np.eye(N), TOKENS, TOKENS),
    "query_detail": lambda rng: plots.query_detail(rng.random(4), rng.random((N, 4)), TOKENS),
    "forward_and_backward": lambda rng: plots.forward_and_backward(
        *rng.standard_normal((4, 7, 4)), tokens=TOKENS[:7]),
    "lens_map": lambda rng: plots.lens_map(rng.standard_normal((2, N, N)), TOKENS, TOKENS),
    "contribution_bars": lambda rng: plots.contribution_bars(named([1.0, -1.0, 2.0]), TOKENS[-2]),
    "embedding_map": lambda rng: plots.embedding_map(rng.random((N, 3)), TOKENS, NAMES * (N // 3)),
    "lstm_gate_maps": lambda rng: plots.lstm_gate_maps(
        dict.fromkeys(("input", "forget", "output", "cell"), rng.random((9, 2))), TOKENS[:9]),
    "mask_panels": lambda rng: plots.mask_panels(
        dict.fromkeys(NAMES[:2], np.eye(N, dtype=bool)), dict.fromkeys(NAMES[:2], TOKENS)),
    "attention_on_words": lambda rng: attention_on_words(TOKENS, rng.random(N), 3, [4]),
    "film": film,
    "heads_by_pattern": lambda rng: plots.heads_by_pattern(
        named(rng.random((3, 1, 2))), [rng.dirichlet(np.ones(7), (2, 7))], TOKENS[:7]),
    "losses_by_tokens": lambda rng: plots.losses_by_tokens(
        {name: [*enumerate(curve)] for name, curve in CURVES.items()}),
    "losses_by_step": lambda rng: plots.losses_by_step(CURVES),
    "gradient_flow": lambda rng: plots.gradient_flow(CURVES),
    "gradient_reach_curves": lambda rng: plots.gradient_reach_curves(CURVES),
    "breakdown_bars": lambda rng: plots.breakdown_bars({"a": named([1.0, 2.0, 3.0])}),
    "accuracy_bars": lambda rng: plots.accuracy_bars(named([0.1, 0.2, 0.3])),
    "head_scores": lambda rng: head_scores(rng.random((3, 3)), NAMES, NAMES, NAMES[1]),
    "values_by_class": lambda rng: values_by_class(
        named(rng.random((3, 2, 5))), NAMES[:2], "values", NAMES[1]),
    "labelled_maps": lambda rng: labelled_maps(
        {(NAMES[0], NAMES[1]): (rng.random((3, 4)), np.array(NAMES))}, 1, NAMES[1],
        {(NAMES[0], NAMES[1]): TOKENS[:3]}),
    "image_grid": lambda rng: plots.image_grid(rng.random((3, 4, 2, 2)), NAMES),
}


def texts_of(figure, monkeypatch):
    """{text: its extent} of all texts that are drawn."""
    found, draw = {}, Text.draw

    def recorded(text, renderer):
        if text.get_visible() and text.get_text().strip():
            found[text] = text.get_window_extent(renderer)
        return draw(text, renderer)

    with monkeypatch.context() as patch:
        patch.setattr(Text, "draw", recorded)
        figure.draw_without_rendering()
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", PICTURES)
def test_texts_are_drawn_inside_the_picture_and_in_fonts_that_have_them(name, monkeypatch):
    figure = PICTURES[name](np.random.default_rng(0)).figure           # a missing glyph warns
    texts = texts_of(figure, monkeypatch)
    right, top = figure.bbox.width + 3, figure.bbox.height + 3
    outside = [text.get_text() for text, box in texts.items() if not (
        box.x0 > -3 and box.y0 > -3 and box.x1 < right and box.y1 < top)]
    assert not outside
    words = "".join(text.get_text() for text in texts)
    assert not set(words) & set("\0\r\u200b\u202e\ud800\x1b"), "not obeyed, but shown"
    assert "No font here has" in words and "U+65E5" in words


def test_each_letter_is_inside_its_cell():
    ax = plots.tokens_by_loss(TOKENS[:10] * 2, np.ones(19))
    ax.figure.draw_without_rendering()
    grounds = [path.get_extents() for path in ax.collections[0].get_paths()]
    for text in ax.texts:
        box = text.get_window_extent().transformed(ax.transData.inverted())
        x, y = text.get_position()
        inside = [each for each in grounds if each.x0 <= x <= each.x1 and each.y0 < y < each.y1]
        assert len(inside) == 1 or x < 1, "one ground, but for the first token"
        assert all(each.x0 - 0.2 < box.x0 and box.x1 < each.x1 + 0.2 for each in inside), (
            text.get_text())


def test_hebrew_lines_run_from_right_to_left():
    ax = plots.tokens_by_loss(["\u05d0\u05d1", " ", "\u05d2", "1", "2", "\n", "a", "b"], np.ones(7))
    rows = {}
    for text in ax.texts:
        x, y = text.get_position()
        rows.setdefault(y, []).append((x, text.get_text()))
    first, second = (sorted(row) for row in rows.values())
    assert "".join(letter for _, letter in first) == "⏎12\u05d2␣\u05d1\u05d0"
    assert "".join(letter for _, letter in second) == "ab" and second[0][0] == 0.5
    assert first[-1][0] == ax.get_xlim()[1] - 1, "the line begins at the right"
    ends = [path.get_extents().intervalx.tolist() for path in ax.collections[0].get_paths()]
    assert len(ends) == 7 and all(high - low == 1 for low, high in ends)


def test_cells_of_a_lens_are_as_wide_as_its_tokens():
    figure = plots.lens_map(np.random.default_rng(0).standard_normal((2, N, N)), TOKENS, TOKENS)
    figure.draw_without_rendering()
    for panel in figure.axes[:-1]:
        (left, _), (right, _) = panel.transData.transform([(0, 0), (1, 0)])
        assert all(text.get_window_extent().width < right - left for text in panel.texts)


def test_a_film_has_the_same_marks_in_every_state():
    rng, figures = np.random.default_rng(0), []
    states = ["a \u65e5", "a \u672c", "a \u65e5\u672c"]
    made = Film("A model", "nats", [0, 1, 2], [(1, 2.0)], [], "a", states, points=rng.random(
        (3, 2, 2)), tokens=["\u672c", "\u8a9e"], classes=["letters"] * 2)
    for number in range(3):
        figures.append({text.get_text() for text in film_frame(made, number).texts})
        key = "No font here has   {} U+65E5   {} U+672C   {} U+8A9E".format(*MARKS)
        assert key in figures[-1]
    written = ["".join(words for words in each if "U+" not in words) for each in figures]
    assert ["□" in each for each in written] == [True, False, True]


def test_a_curve_with_an_underscore_in_front_is_in_its_legend():
    ax = plots.losses_by_step({"_a": [1.0, 2.0], "b": [1.0, 2.0]})
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [" _a: 2.000", "b: 2.000"]
