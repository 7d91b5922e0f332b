"""The poster: all of the model and its equations, within the sheet, and no text on another."""

from collections import Counter

import pytest
from matplotlib.mathtext import MathTextParser

from marks import quick_among
from overlaps import faults
from numformer.analysis import architecture
from numformer.commands.count import PUBLISHED
from numformer.plots import poster
from numformer.plots.diagrams.poster import SHEET, equations_of

NAMES = ("transformer-base", "gpt2", "llama-7b", "bert-base", "t5-small", "mixtral-8x7b")


@pytest.mark.parametrize("name", quick_among(NAMES, ["gpt2"]))
def test_a_poster_has_the_model_its_last_block_and_equations_without_overlap(name, monkeypatch):
    config = PUBLISHED[name]
    figure = poster(config, name)
    assert tuple(figure.get_size_inches()) == SHEET
    texts = [text.get_text() for ax in figure.axes for text in ax.texts]
    blocks = sum(getattr(part, "repeat", 0) for column in architecture(config).columns
                 for part in column.parts)
    pages = Counter(box.page for found in (architecture(config), architecture(config, blocks))
                    for box, _ in found.boxes())
    assert pages and {page: texts.count(page) for page in pages} == pages
    lines = [line for _, *both in equations_of(config) for formulas in both for line in formulas]
    assert len(lines) > 20 and {f"${line}$" for line in lines} <= {*texts}
    assert not [*faults(figure.axes[0], monkeypatch)]


def test_equations_of_all_published_models_can_be_written():
    parser, lines = MathTextParser("path"), {
        line for config in PUBLISHED.values() for _, *both in equations_of(config)
        for formulas in both for line in formulas}
    assert len(lines) > 30
    for line in lines:
        parser.parse(f"${line}$")


def test_equations_follow_from_the_config():
    names = [name for name, *_ in equations_of(PUBLISHED["llama-7b"])]
    assert {"rotary", "rms_norm", "gated_linear_unit"} <= {*names}
    assert not {"layer_norm", "sinusoidal_positions", "relu"} & {*names}


def test_the_block_may_be_chosen_and_must_be_there():
    words = [text.get_text() for ax in poster(PUBLISHED["transformer-base"], "x", 1).axes
             for text in ax.texts]
    assert "of the memory" not in words                               # an encoder's block
    with pytest.raises(ValueError, match="12 blocks"):
        poster(PUBLISHED["gpt2"], "x", 13)
