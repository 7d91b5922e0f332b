"""Sentences with ambiguous words: the words around them do not tell what they mean."""

import hashlib
from collections import Counter

import pytest

from numformer.data import senses
from numformer.data.corpora import senses as page

SHA256 = "902ab2cef429703aab888673fa1867c1a079e5eff278665b9758a9d22373e008"


def test_the_bytes_are_the_same_everywhere():
    text = repr([senses(300), senses(100, seed=3, held_out=True)])
    assert hashlib.sha256(text.encode()).hexdigest() == SHA256


def test_french_has_the_word_for_what_the_telling_noun_says():
    for each in senses(400):
        words = each.english.split()
        assert words[each.at] == each.word and words[each.at - 1] == "the"
        nouns = page.AMBIGUOUS[each.word][each.sense]
        (noun,) = {*words} & {*nouns}
        assert each.sense in each.french and nouns[noun] in each.french
        others = [sense for sense in page.AMBIGUOUS[each.word] if sense != each.sense]
        assert not any(sense in each.french for sense in others)


def test_the_words_next_to_a_word_are_those_of_both_senses():
    frames = {}
    for each in senses(4000):
        around = each.english.split()[max(each.at - 2, 0) : each.at + 2]
        frames.setdefault(each.sense, Counter())[tuple(around)] += 1
    for both in page.AMBIGUOUS.values():
        one, other = (frames[sense] for sense in both)
        assert set(one) == set(other) and 0.6 < one.total() / other.total() < 1.6


def test_tables_have_two_senses_of_three_nouns_and_no_noun_twice():
    nouns = [noun for both in page.AMBIGUOUS.values() for table in both.values() for noun in table]
    assert len(nouns) == len(set(nouns)) == 36 and not set(nouns) & set(page.AMBIGUOUS)
    assert all(len(both) == 2 and all(len(table) == 3 for table in both.values())
               for both in page.AMBIGUOUS.values())


def test_held_out_sentences_are_others():
    def keys(told):
        return {frozenset(each.english.split()) - {"he", "she"} for each in told}

    assert not keys(senses(3000)) & keys(senses(300, held_out=True))
    assert senses(5, seed=1) == senses(9, seed=1)[:5] != senses(5)


@pytest.mark.parametrize("arguments, words", [
    (dict(count=0), "count"), (dict(count=1, seed=-1), "seed"),
    (dict(count=1, held_out=2), "held_out")])
def test_what_is_out_of_range_is_named(arguments, words):
    with pytest.raises((ValueError, TypeError), match=f"senses: {words}"):
        senses(**arguments)
