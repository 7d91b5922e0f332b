"""Sentences with pronouns: what they mean follows from the adjective, or from the gender."""

import hashlib

import pytest

from numformer.data import reference, references
from numformer.data.corpora import pronouns as page

SHA256 = "4f1ab175a02a4610cd359b45cd4d4ede46c3d1068d856bbdc4af7c04152d717b"


def test_the_bytes_are_the_same_everywhere():
    text = repr([references(300), references(100, seed=3, held_out=True)])
    assert hashlib.sha256(text.encode()).hexdigest() == SHA256


def test_it_means_what_the_adjective_fits():
    for each in references(400):
        words = each.english.split()
        meant, other = (words[each.nouns[k]] for k in (each.meant, 1 - each.meant))
        assert words[each.pronoun] in ("it", "she", "he") and words[each.pronoun - 1] == "because"
        if words[each.pronoun] == "it":
            assert (meant in page.PLACES) == (words[-1] in page.OF_PLACES)
            assert (other in page.PLACES) != (words[-1] in page.OF_PLACES)
        else:
            assert meant in (page.WOMEN if words[each.pronoun] == "she" else page.MEN)
            assert other in (page.MEN if words[each.pronoun] == "she" else page.WOMEN)


def test_french_names_what_is_meant():
    for each in references(400):
        noun = each.english.split()[each.nouns[each.meant]]
        _, _, reason = each.french.partition(" parce ")
        if " it " in each.english:
            assert reason.startswith("qu'il " if noun in page._MASCULINE else "qu'elle ")
        else:
            assert reason.startswith(f"que {noun} ")


@pytest.mark.parametrize("one, other", [("tired", "wide"), ("old", "cold")])
def test_exchanging_the_adjective_exchanges_what_it_means(one, other):
    told = [reference("street", "stopped", "dog", "it", each) for each in (one, other)]
    assert [each.meant for each in told] == [1, 0]
    assert [each.french.split()[-4] for each in told] == ["qu'il", "qu'elle"]


def test_exchanging_the_pronoun_exchanges_who_is_meant_and_nothing_else():
    she, he = (reference("rosa", "helped", "max", each, "slow") for each in ("she", "he"))
    assert she.english.replace(" she ", " he ") == he.english and she.nouns == he.nouns
    assert (she.meant, he.meant) == (0, 1)
    assert she.french == "rosa a aidé max parce que rosa était trop lente"
    assert he.french == "rosa a aidé max parce que max était trop lent"


def test_no_two_nouns_with_an_adjective_are_in_both_parts():
    def keys(told):
        return {(*sorted(each.english.split()[at] for at in each.nouns), each.english.split()[-1])
                for each in told}

    training, held_out = keys(references(3000)), keys(references(300, held_out=True))
    assert held_out and not training & held_out
    assert references(5, seed=1) == references(9, seed=1)[:5] != references(5)


@pytest.mark.parametrize("words", [
    ("animal", "crossed", "street", "she", "tired"), ("tom", "called", "clara", "it", "tired"),
    ("tom", "called", "max", "he", "tired"), ("dog", "crossed", "path", "it", "tired"),
    ("dog", "stopped", "street", "it", "tired"), ("tom", "called", "clara", "he", "wide"),
    ("dog", "crossed", "street", "it", "blue"), ("cat", "crossed", "street", "it", "tired"),
    ("dog", "crossed", "goat", "it", "tired"), ("street", "crossed", "path", "it", "wide")])
def test_what_is_no_sentence_is_an_error(words):
    with pytest.raises(ValueError, match="make no sentence of this page"):
        reference(*words)


@pytest.mark.parametrize("arguments, words", [
    (dict(count=0), "count"), (dict(count=1, seed=-1), "seed"),
    (dict(count=1, held_out=2), "held_out")])
def test_what_is_out_of_range_is_named(arguments, words):
    with pytest.raises((ValueError, TypeError), match=f"references: {words}"):
        references(**arguments)
