"""Normal forms are those of Python, also with 120,000 marks on a letter, which take no time."""

import random
import unicodedata

import pytest

from numformer.data.tokenizers.bert_text import bert_normalize
from numformer.data.tokenizers.normal_forms import normalized
from numformer.data.tokenizers.published.normalizers import read_normalizer
from numformer.plots.text.letters import letters

FORMS = "NFC", "NFD", "NFKC", "NFKD"
# With decompositions of marks (U+0344, U+0F73, U+0F75, U+0F81), what is a mark in NFKD alone
# (U+FF9E), marks of class 0, letters that end in marks, and one of 18 characters in NFKD
ALPHABET = ("a\u0301\u0323\u0344\u0f73\u0f75\u0f81\uff9e\u20dd\u0947\u094d\u1ebf\ud55c\ufdfa\u05b0"
            "\ud800")


@pytest.mark.parametrize("form", FORMS)
def test_forms_of_random_runs_are_those_of_python(form):
    rng = random.Random(0)
    for marks in (ALPHABET[1:8], ALPHABET):
        for _ in range(40):
            text = "".join(rng.choices(ALPHABET, k=3) + rng.choices(marks, k=rng.randrange(90)))
            text += rng.choice(["", "\u0301", "e"])
            assert normalized(form, text) == unicodedata.normalize(form, text), ascii(text)


def test_a_character_that_becomes_marks_becomes_marks_alone():
    for form in ("NFD", "NFKD"):
        for character in map(chr, range(0x10000)):
            first, *others = unicodedata.normalize(form, character)
            assert not others or not unicodedata.combining(first) or all(
                map(unicodedata.combining, others))


# A run of 120,000 takes seconds where its time grows with the square: so long that one is noticed
@pytest.mark.parametrize("form", FORMS)
def test_many_marks_on_one_letter_are_put_in_order(form):
    n = 60_000
    made = normalized(form, "a" + "\u0301\u0323" * n)
    assert made == ("\u1ea1" + "\u0323" * (n - 1) if form[-1] == "C" else "a" + "\u0323" * n) + (
        "\u0301" * n)


def test_normalizers_of_tokenizers_take_many_marks(monkeypatch):
    marks = "\u0301\u0323\u0f73" * 20
    text, sizes, normalize = "A" + marks * 50, [], unicodedata.normalize

    def watched(form, part):
        classes = [*map(unicodedata.combining, part[1:])]
        sizes.append(len(part) if classes != sorted(classes) else 0)
        return normalize(form, part)

    monkeypatch.setattr(unicodedata, "normalize", watched)
    for form in FORMS:
        step, = read_normalizer({"type": form})
        assert len(step(text, 10**6)) > len(text)
    assert bert_normalize(text) == "a" and max(sizes) < 32, "marks come in order"
    assert letters(text + "b") == [text, "b"]
