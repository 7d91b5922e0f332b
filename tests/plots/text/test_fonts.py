"""Every text has a font with its letters: the user's, another one, or marks with a key."""

import numpy as np
import pytest
from matplotlib import rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.font_manager import fontManager
from matplotlib.figure import Figure

from made_fonts import fonts_of_matplotlib, made_font
from numformer import plots
from numformer.plots.text import labels
from numformer.plots.text.grid import cells_of, column_width, columns_of
from numformer.plots.text.labels import MARKS, code_points, label
from numformer.plots.tokens import label_ticks
from numformer.plots.training.film import Film, film_frame

HAN, RARE = "\u4e2d\u6587", "\u3402"


@pytest.fixture(autouse=True)
def own_fonts():
    with fonts_of_matplotlib():
        yield


def ticks(ax):
    return [text.get_text() for text in ax.get_xticklabels()]


def keys(picture):
    return picture.figure.get_supxlabel()


def drawn(tokens, **options):
    return plots.attention_map(np.eye(len(tokens)), tokens, **options)


def test_a_letter_that_no_font_has_is_one_mark_with_a_key():
    ax = drawn(["\u4e2d", "a\u6587", "\u4e2d\u4e2d"])
    assert ticks(ax) == ["□", "a▤", "□□"]
    assert keys(ax) == "No font here has   □ U+4E2D   ▤ U+6587"
    assert keys(drawn(["a", " ", "\n"])) == "", "nothing is missing"


def test_a_font_that_is_set_later_counts(tmp_path):
    assert ticks(drawn(["\u4e2d"])) == ["□"]
    ascii_too = "".join(map(chr, range(32, 127))) + HAN
    fontManager.addfont(made_font(tmp_path / "han.ttf", "Made Han", ascii_too))
    for family in (["DejaVu Sans", "Made Han"], ["Made Han", "DejaVu Sans"], "Made Han"):
        with rc_context({"font.family": family}):
            assert ticks(drawn(["\u4e2d", "a"])) == ["\u4e2d", "a"], family
            drawn(["\u4e2d", "a"], title="\u6587").figure.draw_without_rendering()
            assert label("\u4e2d").width == 1 and columns_of("\u4e2da") == 3
    with rc_context({"font.family": ["No Such Font", "Made Han"]}):
        assert label(HAN).text == HAN


def test_a_font_that_is_installed_but_not_set_is_found(tmp_path):
    fontManager.addfont(made_font(tmp_path / "han.ttf", "Made Han: a-b", "\u4e2d"))
    shown = label("\u4e2da\u6587")
    assert shown.text == "\u4e2da□" and shown.font == {"family": ["sans-serif", "Made Han: a-b"]}
    bold = label("\u4e2d", family="monospace", weight="bold")
    assert bold.font == {"family": ["monospace", "Made Han: a-b"], "weight": "bold"}
    ax = drawn(["\u4e2d", "\u6587"], title="\u4e2d")
    assert (ticks(ax), ax.get_title()) == (["\u4e2d", "□"], "\u4e2d")
    ax.figure.draw_without_rendering()


def test_a_font_without_common_signs_gets_them_from_another():
    with rc_context({"font.family": "cmss10"}):
        ax = drawn(["_", "<", "\u2423", "\u4e2d"], title="a_b <\u4e2d>")
        assert ticks(ax) == ["_", "<", "\u2423", "□"]
        ax.figure.draw_without_rendering()


def test_a_font_that_cannot_be_read_has_no_letters(tmp_path):
    made = made_font(tmp_path / "han.ttf", "Made Han", HAN)
    fontManager.addfont(made)
    made.write_bytes(b"no font")
    labels.fonts_of.__globals__["_charmap"].cache_clear()
    assert label("\u4e2d").text == "□"


def test_bold_texts_ask_the_bold_font():
    only_regular = next(chr(code) for code in range(0x2190, 0x2C00) if (
        label(chr(code)).text == chr(code) != label(chr(code), weight="bold").text))
    film = Film("A model", "nats", [1], [(1, 2.0)], [], "a", ["b"], points=np.ones((1, 1, 2)),
                tokens=[only_regular], classes=["letters"])
    figure = film_frame(film, 0)                                      # its tokens are bold
    assert [text.get_text() for text in figure.axes[-1].texts] == ["□"]
    assert f"No font here has   □ {code_points(only_regular)}" in {
        text.get_text() for text in figure.texts}
    figure.draw_without_rendering()


def test_monospaced_texts_ask_the_monospaced_font():
    assert [cell.shown for cell in cells_of("\u05d0")] == ["\u05d0"], "not in DejaVu Sans Mono"
    assert label("\u05d0", family="monospace").font == {"family": ["monospace", "DejaVu Sans"]}
    wide, = cells_of("\U0001f602")                                    # DejaVu Sans has it
    assert wide.columns == 2 and wide.shown == "\U0001f602"


def test_further_letters_than_there_are_marks_share_the_last_one():
    letters = [chr(0x4E00 + k) for k in range(len(MARKS) + 3)]
    ax = plots.tokens_by_loss(letters, np.ones(len(letters) - 1))
    shown = [text.get_text() for text in ax.texts]
    assert shown == [*MARKS, *MARKS[-1] * 3] and keys(ax).endswith("■ 4 more")


def test_two_pictures_in_a_figure_share_their_marks():
    figure = Figure(figsize=(8, 4))
    left, right = figure.subplots(1, 2)
    drawn(["\u4e2d", "a"], ax=left)
    drawn(["\u6587", "\u4e2d"], ax=right, title=r"$x^2$ \u4e2d".encode().decode("unicode_escape"))
    assert (ticks(left), ticks(right)) == (["□", "a"], ["▤", "□"])
    assert figure.get_supxlabel() == "No font here has   □ U+4E2D   ▤ U+6587"
    assert figure.subplotpars.bottom > 0.11


def test_matplotlib_before_raqm_gets_hebrew_in_visual_order(monkeypatch):
    for orders in (True, False):
        monkeypatch.setattr(labels, "_orders_texts", lambda orders=orders: orders)
        expected = "\u05d0\u05d1" if orders else "\u05d1\u05d0"
        ax = drawn(["\u05d0\u05d1"], title="\u05d0\u05d1")
        assert (ticks(ax), ax.get_title()) == ([expected], expected)
        plots.attention_map(np.eye(1), ax=ax, title=None)
    assert ax.get_title() == expected or not ax.get_title(), "not reversed again"


def test_the_same_picture_has_the_same_marks_each_time():
    first, again = (drawn(["\u6587", RARE]) for _ in range(2))
    assert ticks(first) == ticks(again) == ["□", "▤"]
    assert first.figure.get_size_inches()[1] > drawn(["a"]).figure.get_size_inches()[1]


def ink_beyond(shown, font, ems, **options):
    """Whether a text that is drawn at the left end of a picture has ink beyond a width."""
    figure = Figure(figsize=(2, 0.5), dpi=72, layout="none")
    figure.text(0, 0.4, shown, fontsize=20, **font, **options)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return bool((np.asarray(canvas.buffer_rgba())[:, round(20 * ems) + 2:, :3] < 255).any())


# Yoruba, Vietnamese in both forms, Russian with a stress, Sanskrit in Latin letters, Ewe
@pytest.mark.parametrize("letter", ["\u1eb9\u0301", "e\u0323\u0301", "\u1ebf", "e\u0302\u0301",
                                    "\u0436\u0301", "r\u0323\u0304\u0301", "\u025b\u0303"])
def test_marks_are_drawn_over_their_own_letter_in_a_grid(letter):
    cell, = cells_of(letter)
    assert not ink_beyond(cell.shown, cell.font, cell.columns * column_width())
    assert cell.columns == (2 if letter[0] == "\u0436" else 1), "it is a wide one"
    assert ink_beyond("\u1eb9\u0301", {"family": "monospace"}, column_width()), "not checked"
    word = label(f"k{letter}", family="monospace")
    assert not ink_beyond(word.text, word.font, word.width)


def test_ticks_of_one_axis_keep_the_font_of_marks_in_front():
    with rc_context({"font.family": "monospace"}):
        ax = Figure().add_subplot()
        label_ticks(ax.xaxis, ["\U0001f602", "\u1eb9\u0301", "e\u0301"])
        assert label("\U0001f602").font["family"][0] == "monospace"
    assert [text.get_fontfamily()[0] for text in ax.get_xticklabels()] == ["DejaVu Sans"] * 3
    assert ticks(ax)[2] == "\u00e9", "composed"
