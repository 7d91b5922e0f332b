"""Melodies by rule: the same bytes everywhere, rules that hold, and texts that break each."""

import hashlib

import pytest

from numformer.data import Melody, melodies, melody_rules, melody_text, read_melody
from numformer.data.corpora import melodies as page

SHA256 = "fcdf940e64dc7d72cb61bef3c4057dfacdcdf0a3743605414eb6ac2ad9cd4a60"
KEPT = """X:1
M:3/4
K:G
G2A2B2|c4B2|
A2B2c2|d4c2|
B2c2e2|d4d2|
G2A2B2|A2G4|]
"""


def test_the_bytes_are_the_same_everywhere():
    text = "".join(map(melody_text, [*melodies(300), *melodies(100, seed=3, held_out=True)]))
    assert hashlib.sha256(text.encode()).hexdigest() == SHA256


def test_every_melody_keeps_all_rules_and_is_read_as_it_was_written():
    for melody in melodies(500):
        text = melody_text(melody)
        assert all(melody_rules(text).values()) and read_melody(text) == melody


def test_melodies_vary_in_all_that_they_are_drawn_from():
    found = melodies(500)
    assert {melody.metre for melody in found} == set(page.RHYTHMS)
    assert {melody.key for melody in found} == set(page.KEYS)
    moves = [melody.phrases[1][0][0][0] - melody.phrases[0][0][0][0] for melody in found]
    assert set(moves) == set(page.MOVES) and 0.4 < moves.count(0) / 500 < 0.7
    assert len({melody.phrases[0] for melody in found}) > 480


def test_tables_fill_bars():
    for table in (page.RHYTHMS, page.CLOSES):
        for metre, rhythms in table.items():
            assert {sum(map(int, rhythm)) for rhythm in rhythms} == {page.EIGHTHS[metre]}
    assert {len(rhythm) for rhythms in page.CLOSES.values() for rhythm in rhythms} == {
        *page.CADENCES}


def test_the_third_phrase_ends_on_the_fifth_and_the_last_one_falls_to_the_tonic():
    for melody in melodies(200):
        tonic = page.KEYS.index(melody.key)
        assert melody.phrases[2][-1][-1][0] == tonic + 4
        notes = [note - tonic for note, _ in melody.phrases[3][1]]
        assert notes in [[1, 0], [4, 0], [2, 1, 0], [4, 1, 0]]


def in_c(melody):
    tonic = page.KEYS.index(melody.key)
    return melody.metre, tuple(page._moved(phrase, -tonic) for phrase in melody.phrases)


@pytest.mark.slow
def test_no_held_out_melody_is_among_the_others_in_any_key():
    seen = {in_c(melody) for seed in range(3) for melody in melodies(800, seed)}
    held_out = {in_c(melody) for melody in melodies(300, held_out=True)}
    assert len(held_out) == 300 and not seen & held_out


def test_a_seed_gives_the_same_melodies_and_another_one_others():
    assert melodies(5, seed=1) == melodies(9, seed=1)[:5] != melodies(5)


def test_a_text_that_keeps_the_rules():
    assert melody_rules(KEPT) == dict.fromkeys(page.RULES, True)


@pytest.mark.parametrize("old, new, broken", [
    ("c4B2|", "c4B3|", {"bars", "second_phrase"}),
    ("M:3/4", "M:4/4", {"bars"}),
    ("d4c2|\nB", "d4B2|\nB", {"second_phrase"}),
    ("d4c2|\nB", "d2c4|\nB", {"second_phrase"}),
    ("G2A2B2|A2", "G2A2c2|A2", {"returns"}),
    ("A2G4|]", "A2B4|]", {"tonic"}),
    ("K:G", "K:A", {"tonic"}),
    ("A2G4|]", "A2g4|]", set()),                      # the tonic an octave higher
    ("|\nB2c2e2|d4d2", "", {"form"}),
    ("B2c2e2|d4d2|", "B2c2e2|d4d2|e6|", {"form"}),
    ("|A2G4|]", "|A2|G4|]", {"form", "bars"}),
])
def test_what_breaks_a_rule_breaks_that_one(old, new, broken):
    assert KEPT.count(old) == 1
    rules = melody_rules(KEPT.replace(old, new))
    assert {name for name, kept in rules.items() if not kept} == broken


@pytest.mark.parametrize("text", [
    "", "X:1\n", KEPT[:-2], KEPT + "\n", KEPT.replace("X:1", "X:2"), KEPT.replace("3/4", "5/4"),
    KEPT.replace("K:G", "K:H"), KEPT.replace("c4", "h4"), KEPT.replace("c4", "c0"),
    KEPT.replace("c4", "c44"), KEPT.replace("|\n", "\n"), KEPT.replace("G2A2B2|", "|")])
def test_a_text_that_is_no_melody_keeps_none(text):
    assert read_melody(text) is None and melody_rules(text) == dict.fromkeys(page.RULES, False)


def test_one_phrase_has_no_second():
    rules = melody_rules(melody_text(Melody("6/8", "C", ((((2, 3), (0, 3)),),))))
    assert rules == dict(form=False, bars=True, second_phrase=False, returns=False, tonic=True)


@pytest.mark.parametrize("arguments, message", [
    (dict(count=0), "count=0 must be a whole number"), (dict(count=1, seed=-1), "seed=-1"),
    (dict(count=1, held_out=2), "held_out=2")])
def test_wrong_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        melodies(**arguments)
