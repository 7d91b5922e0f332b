"""Every command line that the table of the decks prints runs as it is printed."""

import contextlib
import io
import re
import shlex

import pytest

from numformer import cli
from numformer.commands import figures
from numformer.commands.count import PUBLISHED
from numformer.experiments import EXPERIMENTS
from numformer.recipes import PRESETS, all_claims
from numformer.teaching.deck import DECKS
from numformer.teaching.deck.commands import commands_of
from numformer.teaching.deck.pictures import how_to_draw

ROWS = [row for deck in DECKS.values() for row in deck.rows]
NAMES = {"experiment": EXPERIMENTS, "count": PUBLISHED,
         "figures": {*figures.OF_RUNS, *figures.DRAWN}}
GIVEN = {"FOLDER"}                                    # of published weights, which a reader has
READS = {"sample": "run", "explore": "run", "compare": "runs", "train": "start"}


def lines_of(row):
    """What a row tells to type: its commands, those of its pictures, and those in its note."""
    pictures = [how_to_draw(name, row.run) for name in row.picture]
    notes = re.findall("`(numformer [^`]+)`", row.note + row.reason)
    return [line for line in [*commands_of(row), *pictures, *notes]
            if not re.fullmatch(r"lesson \d+", line)]


def parsed(line):
    """The arguments of a command line, as its verb's own parser reads them."""
    program, *argv = shlex.split(line)
    assert program == "numformer" and argv[0] in cli.VERBS, line
    with contextlib.redirect_stderr(io.StringIO()) as told:
        try:
            return cli._parser(argv[0]).parse_args(argv)
        except SystemExit:
            pytest.fail(f"{line}: {told.getvalue()}")


def wrong(lines):
    """The lines that name what is not there, or a run that none before them makes."""
    found, made = [], {*GIVEN}
    for line in lines:
        arguments = parsed(line)
        known = {*NAMES.get(arguments.verb, ()), *(made if arguments.verb == "count" else ())}
        named = getattr(arguments, "names" if arguments.verb == "figures" else "name", None)
        named = [named] if isinstance(named, str) else named or []
        reads = getattr(arguments, READS.get(arguments.verb, ""), None) or []
        reads = [reads] if isinstance(reads, str) else reads
        if known and not {*named} <= known or not {*reads} <= made:
            found.append(line)
        if arguments.verb == "train":
            if arguments.preset not in PRESETS:
                found.append(line)
            made.add(arguments.out)
    return found


LINES = {tuple(lines_of(row)): row for row in ROWS}


@pytest.mark.parametrize("row", LINES.values(), ids=lambda row: f"{row.deck}{row.lines[0]}")
def test_every_command_of_a_row_runs_as_printed(row):
    assert wrong(lines_of(row)) == []


@pytest.mark.parametrize("line", [
    "numformer bench", "numformer compare", "numformer explore", "numformer sample",
    "numformer import", "numformer draw", "numformer count", "numformer bench trains",
    "numformer train --presets bert", "numformer look runs/tiny"])
def test_a_command_that_cannot_be_parsed_is_found(line):
    with pytest.raises((pytest.fail.Exception, AssertionError)):
        parsed(line)


@pytest.mark.parametrize("line", [
    "numformer explore runs/tiny", "numformer train --preset few-topics --from runs/bert",
    "numformer experiment none", "numformer count none", "numformer train --preset none",
    "numformer figures none"])
def test_a_command_that_names_nothing_is_found(line):
    assert wrong([line]) == [line]


FINE_TUNED = {name for name, preset in PRESETS.items() if preset.claims_from}


def test_a_preset_that_fine_tunes_begins_with_a_run():
    """A row that trained it from scratch would not show the slide's point."""
    assert {"few-topics", "sbert", "tinybert", "entailment"} <= FINE_TUNED
    claims = all_claims(PRESETS)
    for row in ROWS:
        for line in commands_of(row):
            found = re.fullmatch(r"numformer train --preset (\S+)(.*)", line)
            assert found is None or (found[1] in FINE_TUNED) == (" --from " in found[2]), line
        for name in row.run:
            kind, _, which = name.partition(":")
            assert kind != "preset" or "-from-" not in which or which in claims


def test_what_a_run_begins_with_is_trained_before_it():
    row = ROWS[0]._replace(run=("preset:tinybert-from-few-topics-from-bert", "preset:bert"),
                           picture=())
    assert commands_of(row) == [
        "numformer train --preset bert --out runs/bert",
        "numformer train --preset few-topics --from runs/bert --out runs/few-topics-from-bert",
        "numformer train --preset tinybert --from runs/few-topics-from-bert"]


def test_a_run_that_only_a_picture_reads_is_kept():
    row = ROWS[0]._replace(run=("preset:tiny",), picture=("figures/explorer.png",))
    assert commands_of(row) == ["numformer train --preset tiny --out runs/tiny"]
    assert commands_of(row._replace(picture=())) == ["numformer train --preset tiny"]
