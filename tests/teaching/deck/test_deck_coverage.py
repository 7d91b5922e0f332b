"""Everything that is public is on a slide of the decks, or on the list of exceptions."""

import re
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

import numformer
from numformer import functional
from numformer.experiments import EXPERIMENTS
from numformer.recipes import PRESETS
from numformer.teaching import deck as table
from numformer.teaching.deck import DECKS

PACKAGE = Path(numformer.__file__).parent
ROWS = [row for deck in DECKS.values() for row in deck.rows]
ON_SLIDES = {name.partition("-from-")[0] for row in ROWS
             for name in (*row.code, *row.picture, *row.run)}
EXCEPTIONS = tomllib.loads(
    Path(table.__file__).with_name("exceptions.toml").read_text(encoding="utf-8"))["exception"]
EXCEPTED = [name for exception in EXCEPTIONS for name in exception["names"]]
COVERED = ("functional", "layers", "models", "generation", "analysis")


def public():
    """The rooms, the public names of those that rows cover, and all that can be run."""
    for room in sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py")):
        if room in COVERED:
            names = set(import_module(f"numformer.{room}").__all__)
            names -= set(functional.ACTIVATIONS)                    # a row has them as a table
            yield from (f"{room}.{name}" for name in sorted(names) if not _belongs(name, names))
        else:
            yield room
    yield from (f"preset:{name}" for name in PRESETS)
    yield from (f"experiment:{name}" for name in EXPERIMENTS)
    lessons = (PACKAGE.parent / "notebooks" / "source").glob("[0-9]*.py")
    exercises = (PACKAGE / "teaching" / "exercises").glob("*/[0-9]*.py")
    yield from (f"notebook:{int(path.name[:2])}" for path in lessons)
    yield from (f"exercise:{int(path.name[:2])}" for path in exercises)
    exam = (PACKAGE.parent / "notebooks" / "EXAM.md").read_text(encoding="utf-8")
    yield from (f"exam:{number}" for number in re.findall(r"(?m)^\*\*(\d+[a-z])\*\* \(", exam))


def _belongs(name, names):
    """Whether a name is the backward of another one, or the config of a model."""
    of = name.removesuffix("_backward").removesuffix("Config")
    return of != name and of in {*names, *functional.ACTIVATIONS}


def missing(names, on_slides, excepted):
    """Names that are neither on a slide, themselves or a method or a backward, nor excepted."""
    whole = {".".join(name.split(".")[:2]).removesuffix("_backward") for name in on_slides}
    return [name for name in names if name not in {*on_slides, *whole, *excepted}]


def test_what_is_public_is_on_a_slide_or_has_a_reason_why_not():
    assert missing(public(), ON_SLIDES, EXCEPTED) == []


def test_activations_are_in_a_row():
    assert "functional.ACTIVATIONS" in ON_SLIDES


def test_a_name_that_is_nowhere_is_found():
    assert missing(["layers.LSTM", "layers.GRU"], {"layers.LSTM.step"}, []) == ["layers.GRU"]


def test_exceptions_exist_and_are_on_no_slide():
    assert sorted(set(EXCEPTED) - set(public())) == []
    assert sorted(set(EXCEPTED) & ON_SLIDES - {"explorer"}) == []
    assert len(EXCEPTED) == len(set(EXCEPTED))


@pytest.mark.parametrize("exception", EXCEPTIONS, ids=lambda exception: exception["names"][0])
def test_an_exception_has_a_reason(exception):
    assert set(exception) == {"reason", "names"} and exception["names"]
    assert len(exception["reason"]) > 20 and not exception["reason"].endswith(".")
