"""Pictures of the table of the decks show what their rows are about, and name them back."""

import inspect
from pathlib import Path

import pytest

from numformer.commands import figures
from numformer.commands.shared import deck_pictures
from numformer.experiments import EXPERIMENTS
from numformer.recipes import PRESETS
from numformer.teaching.deck import DECKS
from numformer.teaching.deck.pictures import PICTURES, how_to_draw, slides_with
from numformer.teaching.deck.targets import find

ROOT = Path(__file__).parents[3]
ROWS = [row for deck in DECKS.values() for row in deck.rows]


def misplaced(row):
    """The pictures of a row that show nothing of its code, or whose experiment it does not run."""
    return [name for name in row.picture
            if not set(PICTURES[name].code) & set(row.code)
            or PICTURES[name].experiments
            and not {f"experiment:{each}" for each in PICTURES[name].experiments} & set(row.run)]


@pytest.mark.parametrize("row", ROWS, ids=[f"{row.deck}{row.lines[0]}" for row in ROWS])
def test_pictures_show_the_code_of_their_rows(row):
    assert misplaced(row) == []


def test_a_picture_of_something_else_is_found():
    relu = DECKS["B"].row_at(483)                  # a histogram of hidden units is no activation
    assert misplaced(relu._replace(picture=("figures/activations.png",)))
    length = DECKS["A"].row_at(240)
    assert misplaced(length._replace(picture=("plots.power_law_panels",), run=()))


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_described_and_is_on_a_slide_or_has_a_reason(name):
    picture = PICTURES[name]
    assert 20 <= len(picture.shows) <= 140 and not picture.shows.endswith(".")
    assert picture.code and all(find(code) is not None for code in picture.code)
    assert bool(slides_with(name)) != bool(picture.reason)
    if name.startswith("plots."):
        assert find(name).__doc__


def test_every_figure_is_described():
    figures = {f"figures/{path.name}" for path in (ROOT / "figures").iterdir()
               if path.suffix in (".png", ".gif")}
    assert figures == {name for name in PICTURES if name.startswith("figures/")}


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_is_on_a_slide(name):
    assert slides_with(f"experiment:{name}")


@pytest.mark.parametrize("name", PICTURES)
def test_what_is_said_to_draw_a_picture_draws_it(name):
    """The experiment, the tasks of the presets, the lesson, or the figure's code names it."""
    function = name.rpartition(".")[2]
    for command in PICTURES[name].commands:
        verb, _, rest = command.removeprefix("numformer ").partition(" ")
        if verb == "experiment":
            where = inspect.getsource(inspect.getmodule(EXPERIMENTS[rest].measure))
            assert function in where or function in inspect.getsource(
                find("plots.norm_comparison"))
        elif verb == "train":
            preset = PRESETS[rest.removeprefix("--preset ")]
            assert function in inspect.getsource(type(preset.task).pictures)
        elif verb == "lesson":
            path, = (ROOT / "notebooks" / "source").glob(f"{rest:0>2}_*.py")
            assert function in path.read_text(encoding="utf-8")
        elif verb == "figures":
            assert rest in {*figures.OF_RUNS, *figures.DRAWN}
            assert name.startswith("figures/") or function in inspect.getsource(deck_pictures)
        else:
            assert command == "numformer explore runs/tiny" and name == "figures/explorer.png"


def test_of_several_commands_a_row_has_its_own():
    assert how_to_draw("plots.patch_attention", ["preset:vqa"]).endswith("vqa")
    assert how_to_draw("plots.patch_attention", ["preset:gpt"]).endswith("vit")
    assert how_to_draw("plots.meaning.labelled_maps", ["experiment:word-neighbours"]).endswith(
        "word-neighbours")
