"""Sentences from templates: when a name becomes a pronoun, and what its labels are."""

from numformer.data.world.cast import Person, Thing
from numformer.data.world.telling import Teller

ANNA, CLARA, TOM = (Person((name,), gender) for name, gender in (
    ("anna", "f"), ("clara", "f"), ("tom", "m")))


def told(*templates):
    teller = Teller()
    for template in templates:
        teller.tell(template, a=ANNA, b=TOM, c=CLARA, x=Thing("keys", "red", True))
    return teller


def test_a_person_is_told_again_by_name_if_another_could_be_meant():
    """The sentence before decides: it must have her, and no other woman."""
    for before, again in (("{a} met {b} .", "she"), ("{a} met {c} .", "anna"),
                          ("{c} met {b} .", "anna")):
        teller = told("{a} and {b} and {c} went .", before, "{a.again} went .")
        assert teller.words[-3] == again
        assert teller.tags[-3] == ("PRON" if again == "she" else "PROPN")


def test_two_people_as_a_pronoun_are_people_of_the_sentence():
    teller = told("{a} met {b} .", "{c} saw {a+b.him} .", "{a.again} went .")
    assert " ".join(teller.words) == "anna met tom . clara saw them . anna went ."
    assert teller.referents[6] == 0 and teller.sentences == [(0, 4), (4, 8), (8, 11)]
    teller = told("{a} met {b} .", "then {a+b} went .", "{a.again} went .")
    assert " ".join(teller.words) == "anna met tom . then they went . she went ."


def test_an_adjective_is_only_told_with_the_article_of_something_new():
    teller = told("{a} saw {x.a} and {x.the} {were:x} big .", "{x.it} {were:x} old .")
    assert " ".join(teller.words[2:]) == (
        "some red keys and the keys were big . they were old .")
    assert teller.entities[3:5] == ["B-THING", "I-THING"] and teller.tags[3:5] == ["ADJ", "NOUN"]
    assert teller.heads[8] == 7 and teller.referents[11] == 7
