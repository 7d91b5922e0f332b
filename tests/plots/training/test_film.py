"""Frames of a film: texts, marker, map and points are those of their state; bad films."""

from contextlib import nullcontext

import numpy as np
import pytest
from matplotlib.colors import to_hex

from numformer.explorer.replay import replay_page
from numformer.plots.axes import dark, slides
from numformer.plots.text.lines import wrapped
from numformer.plots.training.film import Film, film_frame

RNG = np.random.default_rng(0)
WEIGHTS = np.tril(RNG.random((3, 4, 4)))
FILM = Film(
    "A model", "nats per token", [0, 2, 9], [(step, 3.0 - 0.2 * step) for step in range(9)],
    [(5, 2.5), (9, 1.5)], "ab", ["cde", "f\ng", "$x$ " * 300], WEIGHTS / WEIGHTS.sum(2)[..., None],
    np.tril(np.ones((4, 4), bool)), list("ab b"), list("ab b"), "layer 1, head 2",
    RNG.standard_normal((3, 3, 2)), ["a", "b", "7"], ["vowels", "consonants", "digits"])


def texts(figure):
    return [text.get_text() for text in figure.texts]


@pytest.mark.parametrize("style", [nullcontext, slides])
@pytest.mark.parametrize("number", range(3))
def test_a_frame_shows_its_state(number, style):
    with style():
        figure = film_frame(FILM, number)
    attention, loss, points = figure.axes
    assert texts(figure)[:3] == ["A model", f"step {FILM.steps[number]} of 9", "What it writes"]
    shown = attention.images[0].get_array()
    assert np.ma.getmaskarray(shown).tolist() == (~FILM.mask).tolist()
    assert np.array_equal(shown.filled(0), np.where(FILM.mask, FILM.attention[number], 0))
    assert [tuple(text.get_position()) for text in points.texts] == [
        tuple(point) for point in FILM.points[number]]
    marker = loss.lines[-1]
    step = min(FILM.steps[number], 8)
    assert marker.get_xdata()[0] == step and loss.texts[0].get_text() == f"{3 - 0.2 * step:.2f}"
    validations = [line for line in loss.lines if line.get_label() == "validation"][0]
    assert [*validations.get_xdata()] == [at for at, _ in FILM.validations
                                          if at <= FILM.steps[number]]
    least = 18 if style is slides else 12
    sizes = [text.get_size() for ax in figure.axes for text in
             (*ax.texts, *ax.get_xticklabels(), *ax.get_yticklabels(), ax.xaxis.label)
             if text.get_text()]
    assert min(sizes + [text.get_size() for text in figure.texts]) >= least


def test_the_sample_continues_the_prompt_and_ends_in_its_panel():
    figure = film_frame(FILM, 1)
    assert texts(figure)[3:7] == ["ab", "f", "", "g"]
    colours = [to_hex(text.get_color()) for text in figure.texts[3:5]]
    assert colours[0] != colours[1] == "#1b1f24"
    assert len(film_frame(FILM, 2).texts) < 40


def test_panels_that_have_nothing_to_show_are_left_out():
    few = Film(*FILM[:7])
    assert len(film_frame(few, 0).axes) == 1
    assert len(film_frame(FILM._replace(points=None, tokens=(), classes=()), 0).axes) == 2


def test_dark_frames_have_light_text():
    with dark():
        figure = film_frame(FILM, 0)
    assert max(figure.get_facecolor()[:3]) < 0.15
    assert min(figure.texts[0].get_color()) and to_hex(figure.texts[0].get_color()) == "#e8e6e0"


def test_a_frame_may_replace_another():
    first = film_frame(FILM, 0)
    second = film_frame(FILM, 1, ax=first.axes[0])
    assert second is first and len(second.axes) == 3


@pytest.mark.parametrize("change, words", [
    ({"steps": []}, "no states or no losses"), ({"losses": []}, "no states or no losses"),
    ({"samples": ["a"]}, "film.samples has size 1, but must have 3"),
    ({"queries": ["a"]}, "film.attention has size"), ({"mask": None}, "film.mask has size"),
    ({"tokens": ["a"]}, "film.points has size"), ({"classes": ["vowels"]}, "film.classes has"),
    ({"classes": ["vowels", "runes", "digits"]}, "film.classes holds 'runes'")])
def test_films_that_do_not_fit_are_refused(change, words):
    for owner, function in (("film_frame", lambda film: film_frame(film, 0)),
                            ("replay_page", replay_page)):
        with pytest.raises(ValueError, match=words) as error:
            function(FILM._replace(**change))
        assert str(error.value).startswith(f"{owner}: ")


@pytest.mark.parametrize("number", [-1, 3, 0.5])
def test_there_is_no_frame_of_another_number(number):
    with pytest.raises((ValueError, TypeError), match="number="):
        film_frame(FILM, number)


def test_lines_are_broken_at_white_space_where_there_is_some():
    assert wrapped("one two  three", 8) == ["one two", "three"]
    assert wrapped("abcdefgh", 3) == ["abc", "def", "gh"] and wrapped("", 3) == [""]
    assert wrapped("a\tb", 9) == ["a\u00b7b"] and wrapped("  indented", 4) == ["  in", "dent", "ed"]
    assert all(len(line) <= 7 for line in wrapped("the quick brown fox " * 9, 7, kept=3))
