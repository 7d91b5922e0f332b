"""Formulas of the lessons as MathML: what each command becomes, and what is refused."""

import doctest
import re
from xml.etree import ElementTree

import pytest

pytest.importorskip("nbconvert")

from web import formulas, lesson                                      # noqa: E402
from web.formulas import mathml                                       # noqa: E402


def inner(source):
    return re.fullmatch(r"<math[^>]*>(.*)</math>", mathml(source))[1]


@pytest.mark.parametrize("source, expected", [
    ("x_i^2", "<msubsup><mi>x</mi><mi>i</mi><mn>2</mn></msubsup>"),
    ("x_{ij}", "<msub><mi>x</mi><mrow><mi>i</mi><mi>j</mi></mrow></msub>"),
    (r"\frac12", "<mfrac><mn>1</mn><mn>2</mn></mfrac>"),
    (r"\frac n2", "<mfrac><mi>n</mi><mn>2</mn></mfrac>"),
    ("1.5", "<mn>1.5</mn>"), ("x^12", "<msup><mi>x</mi><mn>1</mn></msup><mn>2</mn>"),
    (r"\sqrt D", "<msqrt><mi>D</mi></msqrt>"),
    (r"\sqrt[3]{x}", "<mroot><mi>x</mi><mn>3</mn></mroot>"),
    (r"\bar{x}", '<mover accent="true"><mi>x</mi><mo stretchy="false">¯</mo></mover>'),
    (r"\mathrm{E}", '<mi mathvariant="normal">E</mi>'), (r"\mathrm{softmax}", "<mi>softmax</mi>"),
    (r"\Delta", '<mi mathvariant="normal">Δ</mi>'), (r"\lambda", "<mi>λ</mi>"),
    (r"\text{if } x", "<mtext>if\xa0</mtext><mi>x</mi>"),
    ("f'", "<msup><mi>f</mi><mo>′</mo></msup>"),
    (r"\sum_i a", "<munder><mo>∑</mo><mi>i</mi></munder><mi>a</mi>"),
    (r"\textstyle\sum_i", '<mstyle displaystyle="false"><munder><mo>∑</mo><mi>i</mi></munder>'
                          "</mstyle>"),
    ("-x", '<mo form="prefix">−</mo><mi>x</mi>'), ("y - x", "<mi>y</mi><mo>−</mo><mi>x</mi>"),
    ("y = -x", '<mi>y</mi><mo>=</mo><mo form="prefix">−</mo><mi>x</mi>'),
    ("(y) - x", '<mo stretchy="false">(</mo><mi>y</mi><mo stretchy="false">)</mo><mo>−</mo>'
                "<mi>x</mi>"),
    ("a < b", "<mi>a</mi><mo>&lt;</mo><mi>b</mi>"),
    (r"\operatorname*{arg\,max}_m", "<munder><mi>arg max</mi><mi>m</mi></munder>"),
    (r"\left( x \right]", '<mrow><mo form="prefix" stretchy="true">(</mo><mi>x</mi>'
                          '<mo form="postfix" stretchy="true">]</mo></mrow>'),
    (r"\left. x \right|", '<mrow><mi>x</mi><mo form="postfix" stretchy="true">|</mo></mrow>'),
    (r"\log p", '<mi>log</mi><mspace width="0.17em"/><mi>p</mi>'),
    (r"a \log(p)", '<mi>a</mi><mspace width="0.17em"/><mi>log</mi><mo stretchy="false">(</mo>'
                   '<mi>p</mi><mo stretchy="false">)</mo>'),
    (r"\begin{aligned} a &= b \\ &= c \end{aligned}",
     '<mtable class="aligned" displaystyle="true"><mtr><mtd><mi>a</mi></mtd><mtd><mo>=</mo>'
     "<mi>b</mi></mtd></mtr><mtr><mtd></mtd><mtd><mo>=</mo><mi>c</mi></mtd></mtr></mtable>"),
])
def test_a_formula_becomes(source, expected):
    assert inner(source) == expected


def test_the_source_is_there_for_who_cannot_see_the_formula():
    made = mathml('a < "b"\n  + c', block=True)
    assert made.startswith('<math display="block" alttext="a &lt; &quot;b&quot; + c">')


@pytest.mark.parametrize("source, words", [
    (r"\unknown x", r"\unknown in the formula"), ("{x", "} is missing"), ("x}", "no partner"),
    (r"\left( x", r"\right is missing"), (r"\left x \right)", "x is no bracket"),
    (r"\begin{array} x \end{array}", "the environment array"), ("x^", "something is missing"),
    (r"\begin{aligned} x", "something is missing"), ("a & b", "& has no place")])
def test_what_is_not_known_is_refused(source, words):
    with pytest.raises(ValueError) as error:
        mathml(source)
    assert words in str(error.value)


def test_every_formula_on_the_pages_is_whole(read_only):
    count = 0
    for page in sorted(read_only.glob("[0-9]*.html")):
        for formula in re.findall(r"<math.*?</math>", page.read_text("utf-8"), re.DOTALL):
            tree = ElementTree.fromstring(formula)
            shown = "".join(tree.itertext())
            assert shown.strip() and "\\" not in shown and "$" not in shown, formula
            sizes = {"msub": 2, "msup": 2, "msubsup": 3, "mfrac": 2, "munder": 2, "mover": 2,
                     "munderover": 3, "mroot": 2}
            for element in tree.iter():
                assert len(element) == sizes.get(element.tag, len(element)), formula
            count += 1
    assert count > 1000


def test_examples():
    for module in (formulas, lesson):
        assert doctest.testmod(module).failed == 0 < doctest.testmod(module).attempted
