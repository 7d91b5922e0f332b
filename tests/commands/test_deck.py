"""numformer deck: decks, slides, searches, lessons, layers, and one line for every mistake."""

import re
import shlex
from pathlib import Path

import pytest

from command import call, last_json
from numformer.teaching.deck import DECKS
from numformer.teaching.deck.targets import misprint, page
from numformer.teaching.exercise import exercises_of_lesson

ROWS = [row for deck in DECKS.values() for row in deck.rows]
PAGES = [Path(__file__).parents[2] / name for name in (
    "README.md", "notebooks/README.md", "notebooks/TEACHING.md")]


def titles(out):
    return [row["title"] for row in last_json(out)["rows"]]


def test_without_words_it_lists_the_decks_by_title(capsys):
    status, out, _ = call(capsys, "deck", "--json")
    assert status == 0 and list(last_json(out)["decks"]) == list("ABCDE")
    for line, deck in zip(out.splitlines(), DECKS.values()):
        assert line.startswith(deck.letter) and deck.title in line
        assert f"{len(deck.slides)} slides" in line


@pytest.mark.parametrize("letter", DECKS)
def test_a_deck_lists_its_slides_in_page_order(capsys, letter):
    deck = DECKS[letter]
    status, out, _ = call(capsys, "deck", letter.lower(), "--json")
    assert status == 0 and titles(out) == [row.title for row in deck.rows]
    listed, _, sums = out.rpartition("\n{")[0].partition("\n\n")
    numbers = [int(number) for number in re.findall(r"^  (\d+)", listed, re.MULTILINE)]
    assert numbers == sorted(numbers) and numbers[0] == 1
    for row in deck.rows:
        assert f"\n            {row.title}\n" in f"{listed}\n"
        assert all(slide.heading in listed for slide in row.slides)
    lessons = {name for row in deck.rows for name in row.run if name.startswith("notebook:")}
    words = " ".join(sums.split("exercises")[0].removeprefix("lessons").split()).split(", ")
    assert {f"notebook:{word}" for word in words} == lessons


def test_a_slide_has_formula_code_page_picture_run_and_tests(capsys):
    status, out, _ = call(capsys, "deck", "B", 13, "--json")
    assert status == 0 and out.startswith("B 13  Rotary Positional Encodings (RoPE)")
    assert len(titles(out)) == 2
    for part in ("sum(f(x, 5) * f(y, 2)) = sum(f(x, 8) * f(y, 5))",
                 "numformer/functional/positions/rotary.py",
                 "figures/rotary_proof.png", "numformer train --preset llama", "lesson 3",
                 "33_figure_rotary", "exam        3b", "test_positions"):
        assert part in out


def test_a_line_of_the_text_finds_its_slide(capsys):
    status, out, _ = call(capsys, "deck", "B", "--line", 131, "--json")
    row, = last_json(out)["rows"]
    assert status == 0 and row["lines"] == [129, 136] and row["run"][1] == "preset:llama"
    assert [slide["number"] for slide in row["slides"]] == [13]


def test_the_slide_on_swiglu_of_deck_a(capsys):
    status, out, _ = call(capsys, "deck", "A", "swiglu", "--json")
    assert status == 0 and "SwiGLU" in titles(out) and out.startswith("A 22  SwiGLU MLP\n")


def test_slides_of_a_lecture_and_what_they_lead_to(capsys):
    status, out, _ = call(capsys, "deck", "C", "31-56", "--json")
    rows = [row for row in DECKS["C"].rows
            if any(31 <= slide.number <= 56 for slide in row.slides)]
    assert status == 0 and titles(out) == [row.title for row in rows]
    sums = re.split(r"^(\w+)  +", out.rpartition("\n{")[0].partition("\n\n")[2],
                    flags=re.MULTILINE)
    found = {label: " ".join(names.split()).split(", ")
             for label, names in zip(sums[1::2], sums[2::2])}
    assert {f"exercise:{int(name.partition('_')[0])}" for name in found["exercises"]} == {
        name for row in rows for name in row.run if name.startswith("exercise:")}
    assert found["exam"][0] == "1b" and {"1c", "3c", "5c"} < {*found["exam"]}
    for label, kind in (("lessons", "notebook:"), ("experiments", "experiment:"),
                        ("presets", "preset:"), ("exam", "exam:")):
        assert {kind + name for name in found[label]} == {
            name for row in rows for name in row.run if name.startswith(kind)}
    assert found["misprints"] == list(dict.fromkeys(row.place for row in rows if row.slips))
    assert {f"figures/{name}" for name in found["figures"]} == {
        name.partition(".")[0] for row in rows for name in row.picture
        if name.startswith("figures/")}


def test_slides_of_one_heading_are_shown_whole(capsys):
    status, out, _ = call(capsys, "deck", "C", "14-16")
    assert status == 0 and out.startswith("C 14-15  Multi-Head Self-Attention\n\n")
    assert "\nC 16  Multi-Head Self-Attention\n\n" in out and "lessons   " not in out


def test_words_search_all_decks_and_name_what_else_says_them(capsys):
    status, out, _ = call(capsys, "deck", "layer", "norm", "--json")
    assert status == 0 and {row["deck"] for row in last_json(out)["rows"]} == set("ABCDE")
    assert call(capsys, "deck", "layer norm", "--json")[1] == out, "quoted or not"
    assert out.startswith("A 12 ") and "\nAlso named on " in out and "\nlessons  " in out


@pytest.mark.parametrize("words, place", [
    ("vanishing gradients", "C 33"), ("positional encoding", "C 41"), ("bank", "B 15-16"),
    ("multihead", "E 24"), ("self-attention layer", "A 6"), ("GPT-3", "E 76"), ("[CLS]", "E 68"),
    ("permutation", "E 13"), ("pre-norm", "A 20"), ("MLM", "B 56")])
def test_words_that_a_lecturer_types(capsys, words, place):
    status, out, _ = call(capsys, "deck", words, "--json")
    assert status == 0 and place in {row["place"] for row in last_json(out)["rows"]}


def test_the_words_of_a_slide_are_shown(capsys):
    status, out, _ = call(capsys, "deck", "hardmaru")
    assert status == 0 and out.startswith("C 20  What's next?") and "on it       hardmaru" in out


def test_words_that_are_on_no_slide_find_what_says_them(capsys):
    status, out, _ = call(capsys, "deck", "rotary_backward", "--json")
    assert status == 0 and all("functional.rotary_backward" in row["code"]
                               for row in last_json(out)["rows"])


@pytest.mark.parametrize("lesson", [7, 16])
def test_the_exercises_of_a_lesson_are_those_that_it_lists(capsys, lesson):
    _, out, _ = call(capsys, "deck", "--lesson", lesson)
    sums = out.partition("\nlessons  ")[2].partition("experiments")[0]
    listed = re.findall(r"\b(\d\d_\w+)", sums)
    assert listed == [exercise.name for exercise in exercises_of_lesson(lesson)]


@pytest.mark.parametrize("lesson", [1, 4, 20])
def test_a_lesson(capsys, lesson):
    status, out, _ = call(capsys, "deck", "--lesson", lesson, "--json")
    wanted = [row.title for row in ROWS if f"notebook:{lesson}" in row.run]
    assert status == 0 and titles(out) == wanted and len(wanted) > 3
    status, out, _ = call(capsys, "deck", "C", "--lesson", lesson, "--json")
    assert status == 0 and titles(out) == [
        row.title for row in DECKS["C"].rows if f"notebook:{lesson}" in row.run]


@pytest.mark.parametrize("words, place", [
    ("self-attention", "A 6"), ("KV cache", "D 50-52"), ("W_O", "A 8"), ("tokenization", "B 8")])
def test_the_best_row_comes_first(capsys, words, place):
    status, out, _ = call(capsys, "deck", words, "--json")
    assert status == 0 and out.startswith(f"{place} ")
    assert last_json(out)["rows"][0]["place"] == place


def test_words_on_some_slides(capsys):
    status, out, _ = call(capsys, "deck", "C", "31-56", "norm", "--json")
    places = [row["place"] for row in last_json(out)["rows"]]
    assert status == 0 and places[0] == "C 49" and {"C 52", "C 54-55", "C 56"} <= {*places}
    assert all(31 <= int(place[2:4]) <= 56 for place in places)
    status, out, _ = call(capsys, "deck", "E", "104", "languages")       # no slides: deck E has 77
    assert status == 0 and out.startswith("E 71 ")
    status, out, errors = call(capsys, "deck", "B", "1-3", "rotary")     # not on these slides
    assert status == 2 and not out and "no row of B 1-3 names rotary." in errors


def test_capitals_of_a_layer_make_no_difference(capsys):
    for name in ("layernorm", "LAYERNORM"):
        assert call(capsys, "deck", "--layer", name) == call(capsys, "deck", "--layer", "LayerNorm")


def test_fine_tuning_is_printed_with_what_it_begins_with(capsys):
    _, out, _ = call(capsys, "deck", "E", 66)
    assert ("numformer train --preset bert --out runs/bert\n" in out
            and "numformer train --preset few-topics --from runs/bert\n" in out)
    _, out, _ = call(capsys, "deck", "E", "58-70")
    assert "few-topics (from bert)" in " ".join(out.split())


def test_a_layer_and_its_methods(capsys):
    status, out, _ = call(capsys, "deck", "--layer", "MultiHeadAttention", "--json")
    assert status == 0 and titles(out) == [
        row.title for row in ROWS if "layers.MultiHeadAttention" in row.code]


def test_a_misprint_is_shown_with_what_is_right(capsys):
    _, out, _ = call(capsys, "deck", "D", "--line", 340)
    words = " ".join(out.split())
    assert "the deck `sin` for even and for odd coordinates" in words
    assert "right cosine for the odd ones" in words


def test_a_correction_of_several_lines_is_printed_once(capsys):
    for words in (["C", 26], ["C", 34], ["C", 6], ["C", "--line", 263]):
        _, out, _ = call(capsys, "deck", *words)
        told = " ".join(out.split())
        rows = [row for row in DECKS["C"].rows if row.title in out]
        slips = [slip for row in rows for slip in row.slips]
        assert len(slips) > 1 and all(f"line {slip.line} " in told for slip in slips)
        for place in {slip.place for slip in slips}:
            (_, _, correction), = misprint(place)
            assert told.count(correction) == 1
    _, out, _ = call(capsys, "deck", "C", "34-35")
    assert out.count("right ") <= 1                   # a list has no corrections


def test_names_and_pages_do_not_run_together(capsys):
    for row in ROWS:
        for name in row.code:
            if len(name) >= 35:
                _, out, _ = call(capsys, "deck", row.deck, "--line", row.lines[0])
                assert f" {name} numformer/" in out
                break


def test_a_picture_has_the_command_that_draws_it(capsys):
    _, out, _ = call(capsys, "deck", "C", 54)
    assert re.search(r"plots\.norm_cube +numformer experiment batch-norm\n", out)
    _, out, _ = call(capsys, "deck", "C", 64)
    assert re.search(r"figures/masks\.png +numformer figures masks\n", out)


def test_a_row_without_code_says_why(capsys):
    _, out, _ = call(capsys, "deck", "C", "lanes")
    assert "Shapes of lanes" in out and "no code" in out and "films of roads" in out


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.deck}{row.lines[0]}")
def test_every_row_prints(row, capsys):
    status, out, _ = call(capsys, "deck", row.deck, "--line", row.lines[0])
    assert status == 0 and row.title in out
    for name in row.code:
        assert page(name) in out


@pytest.mark.parametrize("line", sorted({line.split("#")[0].strip() for path in PAGES
                                         for line in re.findall("numformer deck [^\n`]+",
                                                                path.read_text("utf-8"))}))
def test_what_pages_tell_to_type_finds_something(capsys, line):
    status, out, _ = call(capsys, *shlex.split(line.replace("WORDS", "rotary"))[1:], "--json")
    assert status == 0 and list(last_json(out)) in (["rows"], ["decks"])


def test_words_that_begin_with_a_number_are_searched_for(capsys):
    status, out, _ = call(capsys, "deck", "6", "matmuls", "--json")
    assert status == 0 and last_json(out)["rows"][0]["place"] == "A 16"


@pytest.mark.parametrize("words, message", [
    (["X"], "there is no deck X; choose from A, B, C, D, E."),
    (["6"], "there is no deck 6"), (["3", "5"], "there is no deck 3"),
    (["rottary"], "no row of the map names rottary (did you mean rotary?)"),
    ([""], "no row of the map names"),
    (["B", "0"], "0 must be a slide of deck B, from 1 to 65, or some, such as 3-5; a line of its "
                 "text is --line N."),
    (["B", "9-8"], "9-8 must be a slide of deck B"),
    (["C", "5", "6"], "5 6 must be a slide of deck C"),
    (["C", "23-"], "23- must be a slide of deck C"),
    (["C", "31-99"], "31-99 must be a slide of deck C, from 1 to 70"),
    (["C", "71-80"], "71-80 must be a slide of deck C"), (["C", "5,6"], "5,6 must be a slide"),
    (["C", "31\u201356"], "31\u201356 must be a slide of deck C"),
    (["31-56"], "31-56 is of no deck; write numformer deck C 31-56, with one of A, B, C, D, E."),
    (["B", "66"], "66 must be a slide of deck B"),
    (["B", "1.5 quux"], "no row of the map names 1.5 quux"),
    (["B", "²"], "no row of the map names ²"), (["x\x1b[2J"], "no row of the map names x"),
    (["B", "9" * 5000], "must be a slide of deck B"),
    (["--line", "3"], "write numformer deck B --line 3"),
    (["B", "--line", "0"], "--line 0 must be a line of deck B, from 1 to 620."),
    (["B", "--line", "621"], "--line 621 must be a line of deck B"),
    (["--lesson", "99"], "--lesson 99 is on no slide; choose from 0, 1, 2"),
    (["--lesson", "21"], "--lesson 21 is on no slide"),
    (["B", "1", "--lesson", "20"], "no slide is of all that"),
    (["--layer", "LayerNrom"], "--layer LayerNrom is on no slide (did you mean LayerNorm?)")])
def test_wrong_words_are_one_line(capsys, words, message):
    status, out, errors = call(capsys, "deck", *words)
    assert status == 2 and not out and message in " ".join(errors.split())
    assert errors.startswith("numformer") and "\x1b" not in errors
    assert len(errors.strip().splitlines()) == 1 or errors.startswith("numformer deck: ")
