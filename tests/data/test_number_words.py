"""Number words: against a table written by hand, a reader of its own, and every number once."""

import numpy as np
import pytest

from numformer.data.corpora import numbers as page
from numformer.data import (
    english, french, held_out_numbers, number_pairs, number_text, number_tokens, number_vocabulary)

BELOW_100 = """zéro un deux trois quatre cinq six sept huit neuf
dix onze douze treize quatorze quinze seize dix-sept dix-huit dix-neuf
vingt vingt_et_un vingt-deux vingt-trois vingt-quatre vingt-cinq vingt-six vingt-sept
vingt-huit vingt-neuf
trente trente_et_un trente-deux trente-trois trente-quatre trente-cinq trente-six
trente-sept trente-huit trente-neuf
quarante quarante_et_un quarante-deux quarante-trois quarante-quatre quarante-cinq
quarante-six quarante-sept quarante-huit quarante-neuf
cinquante cinquante_et_un cinquante-deux cinquante-trois cinquante-quatre cinquante-cinq
cinquante-six cinquante-sept cinquante-huit
cinquante-neuf
soixante soixante_et_un soixante-deux soixante-trois soixante-quatre soixante-cinq
soixante-six soixante-sept soixante-huit soixante-neuf
soixante-dix soixante_et_onze soixante-douze soixante-treize soixante-quatorze
soixante-quinze soixante-seize soixante-dix-sept
soixante-dix-huit soixante-dix-neuf
quatre-vingts quatre-vingt-un quatre-vingt-deux quatre-vingt-trois quatre-vingt-quatre
quatre-vingt-cinq quatre-vingt-six
quatre-vingt-sept quatre-vingt-huit quatre-vingt-neuf
quatre-vingt-dix quatre-vingt-onze quatre-vingt-douze quatre-vingt-treize
quatre-vingt-quatorze quatre-vingt-quinze quatre-vingt-seize
quatre-vingt-dix-sept quatre-vingt-dix-huit quatre-vingt-dix-neuf""".replace("\n", " ").split(" ")
BELOW_100 = [words.replace("_", " ") for words in BELOW_100]

LONGER = {
    100: ("one hundred", "cent"), 101: ("one hundred and one", "cent un"),
    180: ("one hundred and eighty", "cent quatre-vingts"),
    200: ("two hundred", "deux cents"), 201: ("two hundred and one", "deux cent un"),
    1000: ("one thousand", "mille"), 1001: ("one thousand and one", "mille un"),
    1100: ("one thousand one hundred", "mille cent"),
    2000: ("two thousand", "deux mille"),
    1980: ("one thousand nine hundred and eighty", "mille neuf cent quatre-vingts"),
    21_000: ("twenty-one thousand", "vingt et un mille"),
    71_071: ("seventy-one thousand and seventy-one", "soixante et onze mille soixante et onze"),
    80_000: ("eighty thousand", "quatre-vingt mille"),
    80_080: ("eighty thousand and eighty", "quatre-vingt mille quatre-vingts"),
    100_000: ("one hundred thousand", "cent mille"),
    200_000: ("two hundred thousand", "deux cent mille"),
    200_200: ("two hundred thousand two hundred", "deux cent mille deux cents"),
    280_000: ("two hundred and eighty thousand", "deux cent quatre-vingt mille"),
    999_999: ("nine hundred and ninety-nine thousand nine hundred and ninety-nine",
              "neuf cent quatre-vingt-dix-neuf mille neuf cent quatre-vingt-dix-neuf"),
}

ENGLISH = {word: value for value, word in enumerate(
    ("zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
     "fifteen sixteen seventeen eighteen nineteen").split())}
ENGLISH |= {word: 10 * k for k, word in enumerate(
    "twenty thirty forty fifty sixty seventy eighty ninety".split(), start=2)}
FRENCH = dict(zip(BELOW_100[:17], range(17))) | {"vingt": 20, "vingts": 20, "trente": 30,
                                                 "quarante": 40, "cinquante": 50, "soixante": 60}


def read(text, values, hundreds, thousand):
    """The value of number words: hundred and thousand multiply, so does four before twenty."""
    total = part = 0
    for word in text.replace("-", " ").split():
        if word == thousand:
            total, part = (part or 1) * 1000, 0
        elif word in hundreds:
            part = 100 * (part or 1)
        elif word.startswith("vingt") and part % 100 == 4:
            part += 76
        elif word not in ("and", "et"):
            part += values[word]
    return total + part


def test_french_below_a_hundred_is_the_table():
    assert len(BELOW_100) == 100 and [french(n) for n in range(100)] == BELOW_100


@pytest.mark.parametrize("number", LONGER)
def test_longer_numbers_by_hand(number):
    assert (english(number), french(number)) == LONGER[number]


def test_hundreds_and_thousands_are_made_of_the_table():
    for number in range(100, 1000):
        hundreds, rest = divmod(number, 100)
        front = "cent" if hundreds == 1 else f"{BELOW_100[hundreds]} cent"
        assert french(number) == (f"{front} {BELOW_100[rest]}" if rest
                                  else front + "s" * (hundreds > 1))
    for thousands in range(2, 1000):
        front = french(thousands)
        front = front[:-1] if front.endswith(("cents", "vingts")) else front
        assert french(1000 * thousands) == f"{front} mille"
        assert french(1000 * thousands + 80) == f"{front} mille quatre-vingts"
        assert english(1000 * thousands + 7) == f"{english(thousands)} thousand and seven"


@pytest.mark.slow
def test_words_can_be_read_back():
    pieces = {language: set() for language in ("english", "french")}
    for number in [*range(10_000), *range(10_000, 10**6, 61)]:
        en, fr = english(number), french(number)
        assert read(en, ENGLISH, {"hundred"}, "thousand") == number, en
        assert read(fr, FRENCH, {"cent", "cents"}, "mille") == number, fr
        pieces["english"].update(number_tokens(en))
        pieces["french"].update(number_tokens(fr))
    for language, found in pieces.items():
        assert tuple(sorted(found)) == number_vocabulary(language)


@pytest.mark.slow
@pytest.mark.parametrize("write", [english, french])
def test_different_numbers_have_different_words(write):
    assert len({write(number) for number in range(10**6)}) == 10**6


def test_tokens_round_trip():
    for number in [*range(0, 10**6, 997), *range(1100)]:
        for text in (english(number), french(number)):
            assert number_text(number_tokens(text)) == text


@pytest.mark.slow
def test_training_and_held_out_numbers_are_disjoint():
    held_out, training = held_out_numbers(), number_pairs(30_000, seed=0)
    values = [read(en, ENGLISH, {"hundred"}, "thousand") for en, _ in training]
    kept = {read(en, ENGLISH, {"hundred"}, "thousand") for en, _ in held_out}
    assert len(kept) == len(held_out) == 1000 and len(set(values)) == 30_000
    assert not kept & set(values)
    assert min(kept) >= 100 and set(range(1000)) - kept <= set(values)
    assert all(read(fr, FRENCH, {"cent", "cents"}, "mille") == value
               for (_, fr), value in zip(training, values))
    assert training == number_pairs(30_000, seed=0) != number_pairs(30_000, seed=1)
    # all numbers alike
    assert 0.85 < sum(value >= 100_000 for value in kept) / 1000 < 0.95


def test_every_other_number_can_be_in_a_training_pair(monkeypatch):
    """Here of 0 .. 1999, without ten of them."""
    held_out = np.arange(5, 2000, 200)
    monkeypatch.setattr(page, "LARGEST", 1999)
    monkeypatch.setattr(page, "_held_out", lambda: held_out)
    pairs = number_pairs(1990, seed=0)
    assert sorted(read(en, ENGLISH, {"hundred"}, "thousand") for en, _ in pairs) == sorted(
        set(range(2000)) - set(held_out.tolist()))


def test_every_number_from_100_on_can_be_held_out(monkeypatch):
    monkeypatch.setattr(page, "LARGEST", 1099)
    assert page._held_out.__wrapped__().tolist() == list(range(100, 1100))


@pytest.mark.slow
def test_there_are_at_most_900000_pairs(monkeypatch):
    monkeypatch.setattr(page, "english", str)
    monkeypatch.setattr(page, "french", str)
    assert len(set(number_pairs(900_000, seed=0))) == 900_000


@pytest.mark.parametrize("number", [-1, 10**6, 1.0, True, "7", None])
@pytest.mark.parametrize("write", [english, french])
def test_numbers_out_of_range_are_refused(write, number):
    with pytest.raises(ValueError, match="whole number in 0 .. 999999"):
        write(number)


@pytest.mark.parametrize("call, words", [
    (lambda: number_pairs(999, 0), "n=999"), (lambda: number_pairs(900_001, 0), "at most 900,000"),
    (lambda: number_pairs(1000, -1), "seed"), (lambda: number_tokens("Vingt"), "lower-case"),
    (lambda: number_tokens("two  three"), "one space"), (lambda: number_tokens(""), "words"),
    (lambda: number_vocabulary("latin"), "choose from 'english', 'french'")])
def test_bad_arguments_are_named(call, words):
    with pytest.raises(ValueError, match=words):
        call()
