"""The lessons keep the table of symbols: letters of shapes, the bar, the norms."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "notebooks"
LESSONS = {int(path.name[:2]): path.read_text() for path in sorted((ROOT / "source").glob("*.py"))}
TABLE = (ROOT / "README.md").read_text().split("## Symbols\n")[1].split("\n## ")[0]
SHAPE = re.compile(r"""(?x) (?: :\ | :\\;\ | \#\ | shape\ | \\to\ | →\ | &&\ ) \$? \(
    ( (?: [A-Za-z0-9.\\]+ [^(),]{0,14} , \ ? )+ [A-Za-z0-9] [^()]{0,16} | [A-Z], ) \)""")


def letters_of(text):
    return set(re.findall(r"(?<![A-Za-z_])([A-Z])(?![A-Za-z])", text))


def letters_of_shapes(source):
    """The capital letters in shapes such as "x: (B, T, C)" and "# (B, T, C)"."""
    return set().union(*(letters_of(shape) for shape in SHAPE.findall(source)))


def letters_of_the_table(lesson):
    common = re.findall(r"(?m)^\| ([A-Z](?:, [A-Z])*) \|", TABLE)
    own = re.findall(rf"(?m)^\| {lesson} \| (.*) \|$", TABLE)
    return set().union(*map(letters_of, common + own))


@pytest.mark.parametrize("lesson", LESSONS)
def test_letters_of_shapes_are_in_the_table(lesson):
    assert letters_of_shapes(LESSONS[lesson]) <= letters_of_the_table(lesson)


def test_letters_are_found_and_needed():
    assert letters_of_shapes("x: (B, T, C)\na = b  # (N, K * L)\n(A, Q)") == set("BTCNKL")
    assert letters_of_shapes(LESSONS[4]) >= set("BTHDC")
    for lesson, source in LESSONS.items():
        own = letters_of("".join(re.findall(rf"(?m)^\| {lesson} \| (.*) \|$", TABLE)))
        assert all(re.search(rf"\b{letter}\b", source) for letter in own), lesson


@pytest.mark.parametrize("lesson", LESSONS)
def test_a_lesson_with_bars_says_what_they_are(lesson):
    assert r"\bar{" not in LESSONS[lesson] or re.search(
        r"\\bar\{[^}]*\}\S* = \\partial L / \\partial", LESSONS[lesson])


def test_norms_have_one_formula():
    found = [match for source in LESSONS.values()
             for match in re.findall(r"r = (.{0,60}?)\^\{-1/2\}", re.sub(r"\s+#?\s*", " ", source))]
    assert len(found) >= 6
    for inside in found:
        assert inside == "u" or re.fullmatch(
            r"\\?(left)?\s?\(\s?\\langle [xc]\^2 \\rangle \+ \\epsilon\s?(\\right)?\s?\)",
            inside), inside
    assert not any(r"\varepsilon" in source for source in LESSONS.values())
