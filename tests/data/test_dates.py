"""Written dates: every text means one date, which a separate parser finds."""

import datetime
import re

import pytest

from numformer.data import date_pairs, written_dates
from numformer.data.corpora.dates import _dates, ordinal

DAYS = [datetime.date(1900, 1, 1) + datetime.timedelta(days=k) for k in range(0, 73_049, 293)] + [
    datetime.date(2031, 3, 3), datetime.date(2000, 2, 29), datetime.date(2031, 4, 3),
    datetime.date(1999, 5, 12)]


def meanings(text):
    """All dates that datetime reads in a text, in any order of day and month."""
    text = text.lower()
    weekday = re.match(r"(mon|tues|wednes|thurs|fri|satur|sun)day,? "
                       r"|(mon|tue|wed|thu|fri|sat|sun),? ", text)
    if weekday:
        text = text[weekday.end():]
    plain = re.sub(r"(\d)(st|nd|rd|th)\b", r"\1", text)
    plain = re.sub(r"[ ,./-]+", " ", re.sub(r"\b(the|of)\b", "", plain)).strip()
    found = set()
    for form in ("%d %B %Y", "%d %b %Y", "%B %d %Y", "%b %d %Y", "%Y %B %d", "%Y %b %d", "%Y %m %d",
                 "%d %m %Y", "%m %d %Y"):
        try:
            found.add(datetime.datetime.strptime(plain, form).date())
        except ValueError:
            pass
    if weekday:
        assert {date.strftime("%a").lower() for date in found} == {weekday.group()[:3]}, text
    return found


@pytest.mark.slow
def test_every_text_means_one_date():
    for date in DAYS:
        forms = written_dates(date)
        words = (14 if date.day < 10 else 12) * (1 if date.month == 5 else 2) * 5 * 3
        assert len(set(forms)) == len(forms) and words + 2 <= len(forms) <= words + 7
        wrong = [text for text in forms[:: 1 if date.year == 2031 else 7] + forms[-7:]
                 if meanings(text) != {date}]
        assert not wrong, (date, wrong)


def test_ambiguous_forms_are_left_out():
    forms = written_dates(datetime.date(2031, 4, 3))
    assert {"3rd of April, 2031", "april 3, 2031", "THU, 03-APR-2031", "2031/04/03",
            "Thursday the 3rd of April 2031"} <= set(forms)
    assert not {"03/04/2031", "04/03/2031", "03/04/31", "Fri 3 April 2031",
                "2031-04-03"} & set(forms)
    assert {"03/25/2031", "25/03/2031"} <= set(written_dates(datetime.date(2031, 3, 25)))
    assert {"03/13/2031", "13/03/2031"} <= set(written_dates(datetime.date(2031, 3, 13)))
    assert not {"03/12/2031", "12/03/2031"} & set(written_dates(datetime.date(2031, 3, 12)))
    # May has no shorter form
    assert len(written_dates(datetime.date(2031, 5, 1))) == 14 * 5 * 3 + 3


@pytest.mark.slow
def test_pairs_are_a_function_of_the_seed_and_are_right():
    pairs = date_pairs(2000, seed=3)
    assert pairs == date_pairs(2000, seed=3) != date_pairs(2000, seed=4)
    assert all(meanings(text) == {datetime.date.fromisoformat(iso)} for text, iso in pairs)
    assert all(text in written_dates(datetime.date.fromisoformat(iso)) for text, iso in pairs[:200])
    years = {iso[:4] for _, iso in pairs}
    assert min(years) < "1905" and max(years) > "2094"
    digits = sum(not re.search("[a-zA-Z]", text) for text, _ in pairs)
    assert 330 < digits < 470
    assert 0.4 < sum(text[:3].lower() in "mon tue wed thu fri sat sun".split()
                     for text, _ in pairs) / 1600 < 0.6


@pytest.mark.slow
def test_held_out_dates_are_in_no_training_pair():
    training, held_out = date_pairs(20_000, seed=0), date_pairs(3000, seed=1, held_out=True)
    assert len({iso for _, iso in held_out}) == 3000
    assert not {iso for _, iso in held_out} & {iso for _, iso in training}
    assert len(_dates(False)) + len(_dates(True)) == 73_049
    assert 0.04 < len(_dates(True)) / 73_049 < 0.06
    everything = date_pairs(len(_dates(True)), seed=2, held_out=True)
    assert sorted(iso for _, iso in everything) == [date.isoformat() for date in _dates(True)]


def test_ordinals_have_their_endings():
    assert ([ordinal(n)[-2:] for n in range(1, 32)]
            == ["st", "nd", "rd", *["th"] * 17, "st", "nd", "rd", *["th"] * 7, "st"])


@pytest.mark.parametrize("date", [datetime.date(1899, 12, 31), datetime.date(2100, 1, 1),
                                  "2031-03-03", None])
def test_dates_out_of_range_are_refused(date):
    with pytest.raises(ValueError, match="1900-01-01 to 2099-12-31"):
        written_dates(date)


@pytest.mark.parametrize("call, words", [
    (lambda: date_pairs(0, 0), "n=0"), (lambda: date_pairs(2.5, 0), "n=2.5"),
    (lambda: date_pairs(5, -1), "seed=-1"),
    (lambda: date_pairs(10_000, 0, held_out=True), "n=10000 is more than the 3674 dates held out")])
def test_bad_arguments_are_named(call, words):
    with pytest.raises(ValueError, match=words):
        call()
