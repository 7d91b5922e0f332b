"""Letters, signs for invisible ones, and the order in which a line is read."""

import pytest

from numformer.plots.text.letters import letters, signs, visual, visual_order
from numformer.plots.tokens import plain, visible

FAMILY, FLAG, THUMB = "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\U0001f1e9\U0001f1ea", \
    "\U0001f44d\U0001f3fd"
WALES = "\U0001f3f4" + "".join(chr(0xE0000 + ord(letter)) for letter in "gbwls") + "\U000e007f"


@pytest.mark.parametrize("text, expected", [
    ("ab", ["a", "b"]), ("e\u0301a", ["e\u0301", "a"]), (FAMILY + "a", [FAMILY, "a"]),
    (FLAG + FLAG, [FLAG, FLAG]), (THUMB, [THUMB]), (WALES, [WALES]), ("1\ufe0f\u20e3", None),
    ("\u0928\u092e\u0938\u094d\u0924\u0947", ["\u0928", "\u092e", "\u0938\u094d\u0924\u0947"]),
    ("\u1112\u1161\u11ab", ["\u1112\u1161\u11ab"]), ("\uac00\u11a8", None),
    ("\u200d\u0301", ["\u200d", "\u0301"]), ("a\u200b", ["a", "\u200b"]),
    ("\u06cc\u200c\u062e", ["\u06cc\u200c", "\u062e"]), ("a\u200d", ["a", "\u200d"])])
def test_a_letter_is_a_base_with_what_belongs_to_it(text, expected):
    assert letters(text) == ([text] if expected is None else expected)
    assert "".join(letters(text)) == text


@pytest.mark.parametrize("token, shown", [
    ("$a$", r"\$a\$"), ("", "∅"), ("\u202e", "U+202E"), ("\u200b", "U+200B"), ("\u00a0", "U+00A0"),
    ("\r\0", "U+000DU+0000"), ("\ud800", "U+D800"), ("é", "é"), ("\ufffd", "\ufffd"),
    ("\u093f", "\u25cc\u093f"), (FAMILY, FAMILY), (" \n\t", "␣⏎⇥"), ("\\_^%#<&", "\\_^%#<&"),
    ("a" * 300, "a" * 11 + "…" + "a" * 10 + " (300)"),
    (FAMILY * 50, FAMILY * 11 + "…" + FAMILY * 11 + " (50)")])
def test_a_token_shows_all_its_letters_or_how_many_they_are(token, shown):
    assert visible(token) == shown
    assert signs(token) == (shown.replace(r"\$", "$") if len(letters(token)) < 28 else token)


@pytest.mark.parametrize("name, words", [
    ("run_1", "run_1"), ("_hidden", " _hidden"), ("a$b$", r"a\$b\$"), ("", "∅"),
    ("two\nlines", "two\nlines"), ("a\x1b\t", "aU+001B⇥"), (7, "7"),
    ("b" * 99, "b" * 21 + "…" + "b" * 21 + " (99)")])
def test_a_name_is_plain_words(name, words):
    assert plain(name) == words and len(words) <= 60


# capitals are Hebrew letters, as in the annex of Unicode
@pytest.mark.parametrize("logical, shown", [
    ("abc", "abc"), ("ABC", "CBA"), ("abc DEF ghi", "abc FED ghi"), ("ABC def GHI", "IHG def CBA"),
    ("abc DE FG", "abc GF ED"), ("DE 12 FG", "GF 12 ED"), ("x DE 12", "x 12 ED"), ("1 a", "1 a"),
    ("AB 1", "1 BA"), ("a (BC) d", "a (CB) d"), ("A (B) C", "C (B) A")])
def test_lines_are_in_the_order_in_which_they_are_read(logical, shown):
    def hebrew(text):
        return "".join(chr(0x5D0 + ord(letter) - 65) if letter.isupper() else letter
                       for letter in text)

    assert visual(hebrew(logical)) == hebrew(shown)
    assert sorted(visual_order(list(hebrew(logical)))) == [*range(len(logical))]


def test_marks_stay_with_their_letters_when_a_line_is_reversed():
    assert visual("\u05d1\u05bc\u05e8") == "\u05e8\u05d1\u05bc"
    assert visual_order(list("\u05d0a"), right_to_left=False) == [0, 1]
    assert visual_order(list("\u05d0a"), right_to_left=True) == [1, 0]
