"""Counts in prose are what the package has, and measured figures name the command beside them."""

import configparser
import inspect
import json
import re
from collections import Counter

import pytest

from numformer import models
from numformer.commands.figures import RUNS
from numformer.experiments import EXPERIMENTS
from numformer.experiments.attention.slips import RIGHT, SLIPS
from numformer.recipes import PRESETS
from numformer.teaching import all_exercises
from numformer.teaching.deck import DECKS
from prose import (
    ROOT, counts, decimals_in_tables, figures_of, numbers, pages, paragraphs, printed, reproduced,
    sections, unwritten)

PAGES = pages()
LESSONS = len(list((ROOT / "notebooks" / "source").glob("*.py")))
QUESTIONS = len(re.findall(r"(?m)^\*\*\d+[a-z]\*\* \(", PAGES["notebooks/EXAM.md"]))
# noun: how many there are
COUNTS = {
    "lessons": LESSONS, "questions": QUESTIONS, "decks": len(DECKS), "presets": len(PRESETS),
    "experiments": len(EXPERIMENTS), "exercises": len(all_exercises()),
    "misprints": len(SLIPS.keys() - {RIGHT}), "hints": 3, "small models": len(RUNS),
}
# What counts only some of them: where, and which
PARTS = {
    ("figures/README.md", "two experiments"): "scaling-law and slips, which draw pictures",
    ("notebooks/17_what_a_matrix_product_costs.ipynb", "two questions"): "of the lesson itself",
    ("notebooks/21_beyond_one_machine.ipynb", "six presets"): "those that ranks were tried with",
}
COMMAND = re.compile(r"numformer [a-z]+|python -m \w+|python [\w/]+\.py|pytest|tests/\w+|OUTPUT")
# Sections whose tables hold no measured figures
GIVEN = {("numformer/CONVENTIONS.md", "### Experts"): "coefficients of papers"}

# Numbers next to a command of `reproduce` that are no results of it
OTHERS = {
    "numformer/CONVENTIONS.md": (2.46, 0.75),                   # of the two runs named there
    "notebooks/06_feed_forward_and_experts.ipynb": (0.01, 0.04),     # a setting, and its product
    "notebooks/16_meaning_in_context.ipynb": (0.016,),          # sqrt(p (1 - p) / 1000)
}
RESULTS = "numformer/recipes/RESULTS.md"
NOTEBOOKS = [page for page in PAGES if page.endswith(".ipynb")]
# Numbers of a lesson that no cell prints and no command measures: settings, examples, arithmetic
REASONED = {
    "01": (4.671, 3.341, 2.47, 1.993, 1.822, 1.77,       # the table of n-grams; held below
           0.99),                                        # a gate that a question supposes
    "08": (0.02,),                                       # differences of what is printed
    "09": (0.13,), "13": (0.15,), "16": (0.016, 0.316),        # formulas
    "11": (23.05, 2027.05, 0.35, 0.21),                  # dates, and a made-up example
    "15": (0.016, 2.291, 2.266, 3.333, 2.282, 2.232, 2.299, 2.014, 1.925, 1.942),  # by its `run`
    "17": (0.083, 0.26, 0.79), "18": (0.044715, 1.003, 0.003, 5.95), "21": (1.82,),    # arithmetic
}


def wrong_counts(page, text, noun, number):
    return [phrase for phrase, found in counts(text, noun)
            if found != number and (page, phrase.lower()) not in PARTS]


@pytest.mark.parametrize("noun", COUNTS)
def test_counts_are_those_of_the_package(noun):
    assert {page: wrong for page, text in PAGES.items()
            if (wrong := wrong_counts(page, text, noun, COUNTS[noun]))} == {}


def test_the_pages_count_something():
    found = {noun: sum(len(counts(text, noun)) for text in PAGES.values()) for noun in COUNTS}
    assert found["lessons"] >= 5 and found["decks"] >= 4 and found["hints"] >= 3
    assert found["questions"] >= 1 <= found["small models"] and found["misprints"] >= 1


def test_a_wrong_count_is_found():
    text = "Twenty lessons, and 21 lessons; the two lessons of a week; lesson 20."
    assert wrong_counts("README.md", text, "lessons", 21) == ["Twenty lessons", "two lessons"]
    assert wrong_counts("figures/README.md", "of two experiments", "experiments", 22) == []


def test_parts_are_still_counted():
    for page, phrase in PARTS:
        assert phrase in PAGES[page].lower(), (page, phrase)


def test_there_are_two_or_three_exam_questions_for_each_lesson():
    asked = Counter(re.findall(r"(?m)^\*\*(\d+)[a-z]\*\* \(", PAGES["notebooks/EXAM.md"]))
    assert "two or three for each lesson" in PAGES["notebooks/EXAM.md"]
    assert len(asked) == LESSONS and set(asked.values()) == {2, 3}


def test_versions_are_those_of_the_package():
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    oldest, = re.findall(r"Python (3\.\d+) or newer", PAGES["README.md"])
    assert setup["options"]["python_requires"] == f">={oldest}"
    version = setup["metadata"]["version"]
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
    assert re.findall(r"(?m)^## (\d\S*)", PAGES["CHANGELOG.md"])[0] == version


def unnamed(page, text):
    """Sections with a table of measured figures, and no command that measures them."""
    headings = [section.split("\n")[0] for section in sections(text)
                if len(decimals_in_tables(section)) >= 3 and not COMMAND.search(section)]
    return [heading for heading in headings if (page, heading) not in GIVEN]


def test_tables_of_figures_name_their_command():
    assert {page: found for page, text in PAGES.items() if (found := unnamed(page, text))} == {}
    assert sum(bool(decimals_in_tables(text)) for text in PAGES.values()) >= 8


def test_a_table_without_a_command_is_found():
    table = "## Speed\n\n| ours | 1.25 | 1.31 | 1.27 |\n"
    assert unnamed("README.md", f"# Title\n\nnumformer bench\n\n{table}") == ["## Speed"]
    assert unnamed("README.md", f"{table}\nwith `numformer bench train`\n") == []


def strangers(page, text):
    """Numbers beside `numformer reproduce NAME` that the results of NAME do not have."""
    return [number for paragraph in paragraphs(text) if (names := reproduced(paragraph))
            for number in unwritten(paragraph, figures_of(PAGES[RESULTS], names))
            if number not in OTHERS.get(page, ())]


def test_results_that_a_page_quotes_are_those_of_the_page_of_results():
    others = {page: text for page, text in PAGES.items() if page != RESULTS}
    assert {page: wrong for page, text in others.items()
            if (wrong := strangers(page, text))} == {}
    quoted = [number for text in others.values() for paragraph in paragraphs(text)
              if reproduced(paragraph) for number, decimals in numbers(paragraph) if decimals >= 2]
    assert len(quoted) > 60


def test_a_result_that_nobody_measured_is_found():
    text = "LLaMA has 1.176, and not 1.186 (`numformer reproduce llama`).\n\nElsewhere 1.999."
    assert strangers("README.md", text) == [1.186]


def underived(page):
    """Numbers in a lesson's text that neither its cells print nor its commands reach."""
    parts = [re.sub(r"\$[^$]*\$|`[^`]*`", "", part) for part in paragraphs(PAGES[page])
             if "<details>" not in part]
    named = set().union(*map(reproduced, paragraphs(PAGES[page])))
    figures = [number for number, _ in numbers(re.sub(r"e[+-]\d+", "", printed(page)))]
    return [number for part in parts
            for number in unwritten(part, figures + figures_of(PAGES[RESULTS], named))]


@pytest.mark.parametrize("page", NOTEBOOKS)
def test_numbers_of_a_lesson_are_printed_or_measured(page):
    assert set(underived(page)) - set(REASONED.get(page.split("/")[1][:2], ())) == set()


def test_numbers_of_lessons_are_compared_with_something():
    assert sum(decimals >= 2 for page in NOTEBOOKS for part in paragraphs(PAGES[page])
               for _, decimals in numbers(part)) > 150
    for lesson, reasoned in REASONED.items():
        page = next(page for page in NOTEBOOKS if page.startswith(f"notebooks/{lesson}"))
        assert set(reasoned) <= {number for part in paragraphs(PAGES[page])
                                 for number, _ in numbers(re.sub(r"\$[^$]*\$|`[^`]*`", "", part))}


def test_the_n_grams_of_lesson_1_are_those_of_the_results():
    row, = re.findall(r"\| bits per character, held out ((?:\| [\d.]+ )+)\|",
                      PAGES["notebooks/01_from_n_grams_to_attention.ipynb"])
    assert f"\n{row}|" in PAGES[RESULTS]


def test_figures_of_the_conventions_name_their_command():
    """A row that says what was measured here says how."""
    rows = [line for line in PAGES["numformer/CONVENTIONS.md"].split("\n") if line.startswith("|")]
    ours = [row for row in rows if re.search(r"\b(Here|In our)\b[^|]*\d", row)]
    assert len(ours) >= 4 and [row for row in ours if not re.search(
        "`numformer [a-z]+|`breakdown`", row)] == []


def test_how_right_check_is_adds_up():
    page = PAGES["numformer/teaching/HOW_RIGHT.md"]
    samples = re.findall(r"(?m)^\| `\w+`: [^|]*\| (\d+) \| 0 \| (\d+) \|", page)
    right, wrong = (sum(map(int, column)) for column in zip(*samples))
    assert len(samples) == 8 and f"all {wrong} wrong functions but one are refused" in page
    assert f"all {right} right ones pass" in page
    rows = re.findall(r"right (\d+), vague (\d+), nothing (\d+), false (\d+)", page)
    told, *others = (sum(map(int, column)) for column in zip(*rows))
    answered = told + sum(others)
    assert (f"{answered} of the last six samples that were judged, the cause was told rightly "
            f"for {told / answered:.0%}, and wrongly for {others[-1]}") in " ".join(page.split())
    judged = json.loads((ROOT / "tests/teaching/judged_causes.json").read_text())
    named = sum("" not in causes for causes in judged.values())
    assert f"On {len(judged)} wrong functions" in page and f"named for {named} (" in page


def test_the_description_names_every_kind_of_model():
    """Each folder of `models` in the map, in words: vision_transformer is "Vision Transformer"."""
    words = re.sub(r"[\s-]", "", PAGES["docs/DESCRIPTION.md"].lower())
    classes = {name.split(".")[1] for deck in DECKS.values() for row in deck.rows
               for name in row.code if name.startswith("models.")}
    folders = {known.__module__.split(".")[2] for name in classes
               if inspect.isclass(known := getattr(models, name))}
    assert len(folders) > 10 and [name for name in folders
                                  if name.replace("_", "") not in words] == []


def test_the_description_says_how_to_install():
    """No index has the package: it is installed from its folder."""
    assert "    pip install .\n" in PAGES["docs/DESCRIPTION.md"]
    assert "pip install numformer" not in PAGES["docs/DESCRIPTION.md"]


def test_what_count_knows_is_what_the_page_of_changes_says():
    known = {name.rsplit("-", 1)[0] for name in models.CONFIGS}
    assert {"t5-v1_1", "flan-t5", "mt5", "bart", "mbart"} <= known
    assert ("BART and mBART are published families, too, whose sizes `numformer count` knows"
            in PAGES["CHANGELOG.md"])
