"""The lessons keep the tables of symbols: letters of shapes, Greek letters, the bar, the norms."""

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


GREEK = set("""alpha beta gamma delta epsilon zeta eta theta kappa lambda mu nu xi pi rho sigma tau
    phi varphi chi psi omega ell Gamma Delta Theta Lambda Xi Pi Sigma Phi Psi Omega""".split())
NUMBERS = {"pi"}                                      # 3.14, where no row says otherwise


def greek_of(text):
    """The Greek letters in the formulas of a text."""
    formulas = re.findall(r"\$\$.*?\$\$|\$[^$]+\$", text, re.DOTALL)
    return GREEK & set(re.findall(r"\\([A-Za-z]+)", " ".join(formulas)))


def row_of(lesson):
    """What the table says of the symbols of one lesson."""
    return "".join(re.findall(rf"(?m)^\| lesson {lesson} \| (.*) \|$", TABLE))


def common():
    return greek_of(re.sub(r"(?m)^\| lesson .*$", "", TABLE))


@pytest.mark.parametrize("lesson", LESSONS)
def test_greek_letters_are_in_the_table(lesson):
    used = greek_of(LESSONS[lesson])
    assert used <= common() | greek_of(row_of(lesson)) | NUMBERS
    assert greek_of(row_of(lesson)) <= used


OTHER = re.compile(r"\\delta_(?!\{)|\\delta_\{\w\}|\\theta_")   # delta of one index, theta with any


@pytest.mark.parametrize("lesson", LESSONS)
def test_delta_has_two_indices_and_theta_none(lesson):
    assert not OTHER.search(LESSONS[lesson])


def test_a_letter_that_no_table_has_is_found():
    assert greek_of("a $\\kappa$, $$\n\\xi_h$$ and \\psi") == {"kappa", "xi"}
    assert {"gamma", "theta", "delta"} <= common() and not {"rho", "ell"} & common()
    assert greek_of(row_of(19)) == {"xi"}
    assert OTHER.search(r"\delta_i") and OTHER.search(r"\theta_i") and OTHER.search(r"\delta_{i}")
    assert not OTHER.search(r"\delta_{ij} \theta \delta_{v y_n}")


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
