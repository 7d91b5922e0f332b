"""The README is short, in the order that a newcomer needs, and what it names is there."""

import re
import shlex
from pathlib import Path

import pytest

from numformer.cli import VERBS
from numformer.teaching.deck import DECKS

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
LINKS = re.findall(r"\]\(([^)]+)\)", README)
COMMANDS = re.findall(r"\bnumformer ([a-z][^\n`#&]*)", "".join(re.findall(
    r"```console\n.*?```|`numformer [^`\n]+`", README, re.DOTALL)))


def test_it_is_at_most_8_kilobytes():
    assert len(README.encode()) <= 8000


def test_the_first_screen_says_what_is_implemented_and_where_its_map_is():
    first = README.partition("![")[0]
    assert f"{['four', 'five', 'six'][len(DECKS) - 4]} decks of lecture notes" in first
    assert "numformer deck" in first


def test_the_order():
    places = [README.index(words) for words in (
        "decks of lecture notes", "replay.gif", "explorer.html", "pip install -e .", "explorer.png",
        "## Learn", "## Teach", "## Check", "## The map", "## Not of the notes", "MPI", "MKL")]
    assert places == sorted(places)


@pytest.mark.parametrize("link", LINKS)
def test_a_link_leads_to_a_file_or_a_heading(link):
    path, _, anchor = link.partition("#")
    page = ROOT / path if path else ROOT / "README.md"
    assert page.is_file()
    headings = [re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in
                re.findall("^#+ (.*)", page.read_text("utf-8"), re.MULTILINE)] if anchor else ()
    assert not anchor or anchor in headings


def test_commands_are_verbs():
    assert len(COMMANDS) > 10
    assert {shlex.split(command)[0] for command in COMMANDS} <= VERBS.keys()
