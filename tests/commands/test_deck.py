"""numformer deck: the decks, the rows of one, the row of a line, and one line for every mistake."""

import pytest

from command import call, last_json
from numformer.teaching.deck import DECKS
from numformer.teaching.deck.targets import page


def test_without_words_it_lists_the_decks(capsys):
    status, out, _ = call(capsys, "deck", "--json")
    assert status == 0 and list(last_json(out)["decks"]) == list("ABCDE")
    lines = out.splitlines()[:-1]
    assert len(lines) == 5 and all(deck.title in line for deck, line
                                   in zip(DECKS.values(), lines))


def test_a_deck_lists_its_rows(capsys):
    status, out, _ = call(capsys, "deck", "b", "--json")
    assert status == 0
    lines = [row.lines[0] for row in DECKS["B"].rows]
    assert [row["line"] for row in last_json(out)["rows"]] == lines
    assert len(out.splitlines()) == len(DECKS["B"].rows) + 1


def test_a_line_has_formula_code_page_picture_run_and_tests(capsys):
    status, out, _ = call(capsys, "deck", "B", 131, "--json")
    found = last_json(out)
    assert status == 0 and found["lines"] == [129, 136] and found["run"][1] == "preset:llama"
    assert out.startswith("B 129 to 136: Rotary positions")
    for part in ("f_q(x, m) . f_k(y, n) = g(x, y, m - n)",
                 "numformer/functional/positions/rotary.py",
                 "figures/rotary_proof.png", "numformer train --preset llama", "notebook 3",
                 "exercise 33", "test_positions"):
        assert part in out


def test_a_misprint_is_shown_with_what_is_right(capsys):
    _, out, _ = call(capsys, "deck", "D", 340)
    words = " ".join(out.split())
    assert "the deck `sin` for even and for odd coordinates" in words
    assert "right cosine for the odd ones" in words


def test_a_row_without_code_says_why(capsys):
    _, out, _ = call(capsys, "deck", "C", 231)
    assert out.startswith("C 231: ") and "no code" in out and "films of roads" in out


@pytest.mark.parametrize("deck, row", [(deck, row) for deck in DECKS.values() for row in deck.rows],
                         ids=lambda value: getattr(value, "letter", getattr(value, "title", "")))
def test_every_row_prints(deck, row, capsys):
    status, out, _ = call(capsys, "deck", deck.letter, row.lines[0])
    assert status == 0 and row.title in out
    for name in row.code:
        assert page(name) in out


@pytest.mark.parametrize("words, message", [
    (["X"], "there is no deck X; choose from A, B, C, D, E."),
    (["BB"], "there is no deck BB"), ([""], "there is no deck"),
    (["B", "0"], "0 must be a line of deck B, from 1 to 620."),
    (["B", "621"], "621 must be a line of deck B"), (["B", "-3"], "-3"),
    (["B", "1.5"], "1.5 must be a line"), (["B", "²"], "must be a line"),
    (["B", "x\x1b[2J"], "must be a line"), (["B", "9" * 5000], "must be a line")])
def test_wrong_words_are_one_line(capsys, words, message):
    status, out, errors = call(capsys, "deck", *words)
    assert status == 2 and not out and message in " ".join(errors.split())
    assert errors.startswith("numformer") and "\x1b" not in errors
    assert len(errors.strip().splitlines()) == 1 or errors.startswith("numformer deck: ")
