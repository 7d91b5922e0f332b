"""The pages of the map of the lecture notes have what the table has, and their links lead on."""

import re
import sys
from pathlib import Path

import pytest

from numformer.teaching.deck import DECKS
from numformer.teaching.deck.commands import commands_of
from numformer.teaching.deck.targets import misprint

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """{name: text} of all pages, written twice."""
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        from deck_pages import write_pages
    finally:
        del sys.path[0]
    folder = tmp_path_factory.mktemp("docs") / "decks"
    write_pages(folder)
    at = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    write_pages(folder)
    assert at == {path: path.stat().st_mtime_ns for path in folder.iterdir()}, "written again"
    return {path.stem: path.read_text(encoding="utf-8") for path in at}


@pytest.mark.parametrize("letter", DECKS)
def test_a_row_has_its_part_with_all_that_is_known_of_it(pages, letter):
    parts = re.split(r"^\(deck-\w-line-(\d+)\)=$", pages[f"deck_{letter}"], flags=re.MULTILINE)
    found = dict(zip(map(int, parts[1::2]), parts[2::2]))
    assert list(found) == [row.lines[0] for row in DECKS[letter].rows]
    for row in DECKS[letter].rows:
        part = found[row.lines[0]]
        told = part.replace("\\", "")
        assert all(name in told for name in (row.title, *row.code, *row.formula, row.note))
        assert all(f"`{line}`" in part for line in commands_of(row))
        assert all(name in told for name in row.picture)
        for kind, _, which in (name.partition(":") for name in row.run):
            if kind == "notebook":
                assert f"notebooks/{which:0>2}_" in told
            elif kind == "exercise":
                assert re.search(rf"(exercise: |, )`{which:0>2}_", told)
            elif kind == "exam":
                assert f"[{which}]" in told
        for slip in row.slips:
            assert slip.text in part and misprint(slip.place)[0][2] in part


@pytest.mark.parametrize("letter", DECKS)
def test_headings_are_those_of_the_slides_in_page_order(pages, letter):
    headings = re.findall(r"^## (\d+)(?:-\d+)?: (.*)", pages[f"deck_{letter}"], re.MULTILINE)
    numbers = [int(number) for number, _ in headings]
    assert numbers == sorted(numbers) and numbers[0] == 1
    told = "\n".join(heading for _, heading in headings).replace("\\", "")
    assert all(slide.heading in told for slide in DECKS[letter].slides)


def test_links_lead_to_files_and_places(pages):
    places = set(re.findall(r"^\((deck-\w-line-\d+)\)=$", "\n".join(pages.values()),
                            re.MULTILINE))
    for name, text in pages.items():
        for link in re.findall(r"\]\(([^)]+)\)|```\{image\} (\S+)", text):
            link = "".join(link)
            if link.startswith("#"):
                assert link[1:] in places
            elif link.startswith("../../"):
                assert (ROOT / link.removeprefix("../../")).is_file()
            else:
                assert link.removesuffix(".md") in pages, (name, link)


def test_every_lesson_and_layer_leads_to_its_slides(pages):
    text = pages["README"]
    for deck in DECKS.values():
        for row in deck.rows:
            for name in row.run:
                if name.startswith("notebook:"):
                    line, = re.findall(rf"^\| \[{name[9:]}\. .*", text, re.MULTILINE)
                    assert f"[{row.place}](#" in line
            for name in row.code:
                if name.startswith("layers."):
                    layer = ".".join(name.split(".")[:2])
                    line, = re.findall(rf"^\| {{py:obj}}`{layer} <.*", text, re.MULTILINE)
                    assert f"[{row.place}](#" in line


def test_every_experiment_and_picture_leads_back_to_its_slides(pages):
    told = pages["README"].replace("\\", "")
    for deck in DECKS.values():
        for row in deck.rows:
            for name in (*row.picture, *row.run):
                kind, _, which = name.partition(":")
                if kind == "experiment" or not which:
                    line, = re.findall(rf"^\| .*`?{re.escape(which or kind)}[\]` <].*", told,
                                       re.MULTILINE)
                    assert f"[{row.place}](#" in line
