"""What the claims about a tale say: who and what they name, and what numbers follow."""

from collections import Counter

import pytest

from numformer.data import tale, tales
from numformer.data.world.plots import CONTRADICTION, ENTAILMENT, NEUTRAL
from numformer.data.world.telling import NUMBERS
from numformer.data.world.words import LEXICON

CLAIMS = {"count": (3, 3, 3), "transfer": (3, 3, 3), "hide": (3, 2, 3), "lose": (2, 2, 2)}


def test_every_plot_has_its_claims():
    for told in tales(200):
        labels = Counter(claim.label for claim in told.claims)
        assert tuple(map(labels.get, (ENTAILMENT, CONTRADICTION, NEUTRAL))) == CLAIMS[told.plot]
        assert len({(claim.premise, claim.hypothesis) for claim in told.claims}) == len(told.claims)


def names(words):
    """Words of people, places and things, without the forms of verbs and the smaller words."""
    return {word for word in words if LEXICON.get(word, ("PROPN", ""))[0] in ("PROPN", "NOUN")}


def test_what_a_premise_entails_names_only_what_is_in_it():
    """A neutral hypothesis names a thing that its premise does not have."""
    for told in tales(200):
        for claim in told.claims:
            premise = names(told.words[slice(*claim.premise)])
            if claim.label == ENTAILMENT:
                assert names(claim.hypothesis) <= premise, claim
            elif claim.label == NEUTRAL:
                assert names(claim.hypothesis) - premise, claim
            n = sum(claim.premise[0] <= start < claim.premise[1] for start, _ in told.sentences)
            assert n in (2, 3)


def test_claims_about_a_number_are_right_or_wrong_by_it():
    seen = Counter()
    for told in tales(200):
        if told.plot != "count":
            continue
        first, given, last = (NUMBERS.index(question.answer[0]) for question in told.questions[:3])
        assert 5 <= first <= 12 and 2 <= given <= 4 and 3 <= last - first + given + 1 <= 6
        assert NUMBERS[last] in told.summary
        for claim in told.claims:
            for word in set(claim.hypothesis) & set(NUMBERS):
                left = first if claim.hypothesis[-2] == "first" else first - given
                wrong = first + 1 if claim.hypothesis[-2] == "first" else first
                right = wrong if claim.label == CONTRADICTION else left
                assert NUMBERS.index(word) == right
                seen[claim.label, claim.hypothesis[0] == "then"] += 1
    assert len(seen) == 6 and min(seen.values()) >= 20


def test_who_has_the_thing_now():
    """Of the first two sentences it is b, of all three d, who may be a again."""
    back = Counter()
    for told in tales(200):
        if told.plot != "transfer":
            continue
        first, second, last = (question.answer for question in told.questions[:3])
        now = [claim for claim in told.claims if "now" in claim.hypothesis]
        owners = {label: [claim.hypothesis[:claim.hypothesis.index("has")] for claim in now
                          if claim.label == label] for label in (ENTAILMENT, CONTRADICTION)}
        assert owners == {ENTAILMENT: [second, last], CONTRADICTION: [first, second]}
        back[last == first] += 1
    assert min(back[True], back[False]) >= 10


@pytest.mark.parametrize("held_out", [False, True])
def test_a_tale_is_that_of_its_seed(held_out):
    assert [tale(n, held_out) for n in range(5)] == tales(5, held_out=held_out)
    assert tales(2, seed=3, held_out=held_out)[1] == tale(3 * 2**32 + 1, held_out)
