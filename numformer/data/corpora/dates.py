"""Dates as people write them, and as ISO 8601 does: a small translation for encoder-decoders.

A date is written in words or in digits.

- In words: day, month and year in five orders, the day with or without its ordinal ending, the
  month in full or as its first three letters; sometimes with the day of the week in front. All of
  it is in the usual case, in lower case or in upper case.
- In digits: year first, or year last where only one date is possible. That is so if the day is
  above 12, or if day and month are the same number: "25/03/2031", "03/25/2031" and "03/03/2031",
  but never "04/03/2031".

Years have four digits, since "31" could be 1931 or 2031. So every text means one date.
"""

import datetime
from functools import lru_cache

import numpy as np

from numformer.checks import check_whole
from numformer.data.corpora.split import is_held_out

FIRST_DATE, LAST_DATE = datetime.date(1900, 1, 1), datetime.date(2099, 12, 31)
HELD_OUT_SHARE = 0.05
_MONTHS = ("January February March April May June July August September October November "
           "December").split()
_WEEKDAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
_WORDS = ("{th} of {month}, {year}", "{th} of {month} {year}", "the {th} of {month}, {year}",
          "the {th} of {month} {year}", "{day} {month} {year}", "{day:02} {month} {year}",
          "{th} {month} {year}", "{month} {day}, {year}", "{month} {th}, {year}",
          "{month} {day} {year}", "{month} {th} {year}", "{year} {month} {day}",
          "{day}-{month}-{year}", "{day:02}-{month}-{year}")
_DIGITS = ("{year}/{number:02}/{day:02}", "{year}.{number:02}.{day:02}", "{year}/{number}/{day}")
_DIGITS_YEAR_LAST = ("{day:02}/{number:02}/{year}", "{day:02}.{number:02}.{year}",
                     "{number:02}/{day:02}/{year}", "{number}/{day}/{year}")
_CASES = (str, str.lower, str.upper)


def written_dates(date):
    """All ways in which this module writes a date.

    Parameters
    ----------
    date : datetime.date
        Of the years 1900 to 2099.

    Returns
    -------
    list of str
        Each way once, in a fixed order.

    Raises
    ------
    ValueError
        If it is no date, or its year is out of range.

    Examples
    --------
    >>> forms = written_dates(datetime.date(2031, 3, 3))
    >>> len(forms), forms[0], forms[-1], "MON 3RD OF MAR, 2031" in forms
    (426, '3rd of March, 2031', '3/3/2031', True)
    """
    plain, fronts, digits = _forms(date)
    words = [case(front + text) for text in plain for front in ["", *fronts] for case in _CASES]
    return words + digits


def date_pairs(n, seed, held_out=False):
    """Sample written dates, each with its ISO form.

    Four fifths are written in words, half of these with the day of the week; apart from that, all
    ways to write a date are equally likely.

    Parameters
    ----------
    n : int
        How many.
    seed : int
    held_out : bool
        Sample from the held-out dates, without replacement; training dates are sampled with
        replacement. One date in twenty is held out (`is_held_out` of its ISO form), in all ways to
        write it.

    Returns
    -------
    list of (str, str)

    Raises
    ------
    ValueError
        If `n` is not a whole number, or more than the held-out dates.

    Examples
    --------
    >>> date_pairs(3, seed=0)
    [('2070/02/06', '2070-02-06'), ('2027.05.23', '2027-05-23'), ('29-APR-2002', '2002-04-29')]
    """
    check_whole("date_pairs", "n", n)
    check_whole("date_pairs", "seed", seed, least=0)
    dates = _dates(held_out)
    if held_out and n > len(dates):
        raise ValueError(f"date_pairs: n={n} is more than the {len(dates)} dates held out; "
                         "ask for fewer.")
    rng = np.random.default_rng([seed, int(held_out)])
    chosen = rng.choice(len(dates), size=n, replace=not held_out)
    return [(_write(dates[i], rng), dates[i].isoformat()) for i in chosen]


@lru_cache(maxsize=None)
def _dates(held_out):
    days = (LAST_DATE - FIRST_DATE).days + 1
    dates = (FIRST_DATE + datetime.timedelta(days=day) for day in range(days))
    return [date for date in dates if is_held_out(date.isoformat(), HELD_OUT_SHARE) == held_out]


def _write(date, rng):
    """One of the ways to write a date."""
    plain, fronts, digits = _forms(date)
    if rng.random() < 0.2:
        return _one(digits, rng)
    front = _one(fronts, rng) if rng.random() < 0.5 else ""
    return _one(_CASES, rng)(front + _one(plain, rng))


def _one(choices, rng):
    return choices[rng.integers(len(choices))]


def _forms(date):
    """(forms in words, days of the week to put in front of them, forms in digits)"""
    if not isinstance(date, datetime.date) or not FIRST_DATE.year <= date.year <= LAST_DATE.year:
        raise ValueError(f"written_dates: date={date!r} must be a datetime.date from {FIRST_DATE} "
                         f"to {LAST_DATE}.")
    name, weekday = _MONTHS[date.month - 1], _WEEKDAYS[date.weekday()]
    numbers = {"day": date.day, "th": ordinal(date.day), "number": date.month, "year": date.year}
    plain = [form.format(**numbers, month=month)
             for form in _WORDS for month in dict.fromkeys([name, name[:3]])]
    fronts = [f"{day}{after}" for day in (weekday, weekday[:3]) for after in (", ", " ")]
    unambiguous = date.day > 12 or date.day == date.month
    digits = [form.format(**numbers) for form in _DIGITS + _DIGITS_YEAR_LAST * unambiguous]
    return list(dict.fromkeys(plain)), fronts, list(dict.fromkeys(digits))


def ordinal(number):
    """A number with its ordinal ending.

    Examples
    --------
    >>> [ordinal(n) for n in (1, 2, 3, 4, 11, 12, 13, 21, 22, 23, 31)]
    ['1st', '2nd', '3rd', '4th', '11th', '12th', '13th', '21st', '22nd', '23rd', '31st']
    """
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{'th' if number % 100 in (11, 12, 13) else ending}"
