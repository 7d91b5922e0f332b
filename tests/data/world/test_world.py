"""The small world: the same bytes everywhere, labels that fit the words, and disjoint parts."""

import hashlib
import json
from collections import Counter

import pytest

from numformer.data import WORLD, load_corpus, tale, tales, world_text, world_tokens
from numformer.data.world import ENTITIES, SENSES, TAGS, joined
from numformer.data.world.scenes import SCENES
from numformer.data.world.words import LEXICON

TALES = tales(1000)
HELD_OUT = tales(300, held_out=True)
SHA256 = "a40e737fd4c5a8f3347bc1b44351267a70cc469b424cfbd63e77402de6bfcf62"
SHA256_OF_LABELS = "b650ae967d6b15f5b9c0c3869f735baf75d9b99d4abb9f3ab5f2fc2aae86bf50"


def test_the_text_is_the_same_on_every_python():
    assert hashlib.sha256(world_text(1000).encode()).hexdigest() == SHA256


@pytest.mark.slow
def test_so_are_all_labels_questions_and_claims():
    told = tales(1000) + tales(300, held_out=True)
    assert hashlib.sha256(json.dumps(told).encode()).hexdigest() == SHA256_OF_LABELS


@pytest.mark.parametrize("options", [{}, dict(seed=2), dict(held_out=True),
                                     dict(summaries=False), dict(summaries=True)])
def test_tokens_and_text_are_those_of_the_tales(options):
    """By default of seed 0, of the training part, and each with its summary."""
    summaries = options.get("summaries", True)
    told = tales(3, options.get("seed", 0), options.get("held_out", False))
    rows = [each.words + each.summary * summaries for each in told]
    assert world_tokens(3, **options) == [word for row in rows for word in row]
    assert world_text(3, **options) == "\n\n".join(map(joined, rows))
    assert world_text(3, **options).count(told[0].text) == 1


@pytest.mark.slow
def test_tales_differ_and_the_vocabulary_is_small():
    assert len({told.words for told in TALES}) >= 999
    words = set(world_tokens(3000))
    assert 250 <= len(words) <= 400 and words > set(world_tokens(300, held_out=True))


@pytest.mark.parametrize("told", TALES[:60] + HELD_OUT[:20], ids=lambda told: told.plot)
def test_labels_fit_the_words(told):
    size = len(told.words)
    columns = told.tags, told.entities, told.senses, told.referents, told.heads
    assert all(len(column) == size for column in columns)
    assert set(told.tags) <= set(TAGS) and set(told.entities) <= set(ENTITIES)
    for t, (label, before) in enumerate(zip(told.entities, ("O", *told.entities))):
        assert label[0] != "I" or before[2:] == label[2:]             # I- continues an entity
        assert (label[2:] == "NUMBER") == (told.tags[t] == "NUM")
    for t, (word, sense, tag) in enumerate(zip(told.words, told.senses, told.tags)):
        if sense:
            assert sense.startswith(word + ".") and SENSES[word][sense.split(".")[1]][0] == tag
        antecedent, head = told.referents[t], told.heads[t]
        if antecedent >= 0:
            assert tag in ("PRON", "DET") and antecedent < t
            plural = told.words[antecedent].endswith("s") and told.tags[antecedent] == "NOUN"
            if word == "they" and told.entities[antecedent].endswith("PERSON"):
                assert "PERSON" in " ".join(told.entities[antecedent + 1 : t])        # two people
            else:
                assert (word in ("they", "them")) == plural
            if word in ("he", "she", "him", "his", "her"):
                assert told.entities[antecedent].endswith("PERSON")
        if head >= 0:
            first = max(start for start, _ in told.sentences if start <= t)
            assert first <= head < t and told.tags[head] == "NOUN"
            assert (word in ("were", "are", "have", "lie")) == told.words[head].endswith("s")
    assert told.sentences[0][0] == 0 and told.sentences[-1][1] == size
    assert all(end == start for (_, end), (start, _) in zip(told.sentences, told.sentences[1:]))
    assert 4 <= len(told.sentences) <= 8 and told.summary[-1] == "."


def test_answers_are_spans_and_premises_whole_sentences():
    kinds = Counter()
    for told in TALES:
        for question in told.questions:
            start, end = question.span
            assert told.words[start:end] == question.answer
            assert told.entities[start] == f"B-{question.kind}"
            assert end == len(told.words) or told.entities[end][0] != "I"
            kinds[question.words[0]] += 1
        for claim in told.claims:
            starts, ends = zip(*told.sentences)
            assert claim.premise[0] in starts and claim.premise[1] in ends
            assert claim.hypothesis[-1] == "."
    assert set(kinds) == {"who", "what", "where", "how"} and min(kinds.values()) > 300


def test_a_count_follows_from_the_numbers_of_its_tale():
    numbers = ("zero one two three four five six seven eight nine ten eleven twelve thirteen "
               "fourteen fifteen").split()
    counted = [told for told in TALES if told.plot == "count"]
    assert len(counted) > 100
    for told in counted:
        before, given, after = (numbers.index(told.questions[n].answer[0]) for n in range(3))
        between = told.words[told.questions[1].span[1] : told.questions[2].span[0]]
        found = [word for word, tag in zip(told.words[told.questions[1].span[1] :], told.tags[
            told.questions[1].span[1] :]) if tag == "NUM"][:1]
        assert found[0] in between and after == before - given + numbers.index(found[0])


def test_every_label_of_a_premise_has_similar_hypotheses():
    """No label has words of its own; so the hypothesis alone must tell little."""
    labels = {}
    for told in TALES:
        for claim in told.claims:
            shape = " ".join(word for word in claim.hypothesis if LEXICON.get(word, "-")[0]
                             in ("VERB", "AUX", "ADP"))
            labels.setdefault(shape, Counter())[claim.label] += 1
    assert all(len(counts) >= 2 for counts in labels.values()), labels


@pytest.mark.slow
def test_held_out_tales_have_pairs_of_their_own():
    assert not {told.words for told in TALES} & {told.words for told in HELD_OUT}

    def pairs(told):
        """The first person with the main thing, which every question for a thing asks."""
        thing = next(each.answer[-1] for each in told.questions if each.kind == "THING"
                     and each.words[0] == "what")
        start = told.entities.index("B-PERSON")
        end = next(t for t in range(start + 1, 99) if told.entities[t] != "I-PERSON")
        return told.words[start:end], thing

    assert not set(map(pairs, tales(2000))) & set(map(pairs, HELD_OUT))


def test_an_ambiguous_word_has_every_sense_after_the_same_word():
    """The word before and the word after do not tell the sense."""
    tellable = Counter()
    for scene in SCENES:
        if len(scene.clues) > 1:
            for frame in scene.frames:
                assert "@" in frame
            tellable[scene.word] += 1
    assert len(tellable) >= 7
    seen = {}
    for told in TALES:
        for t, sense in enumerate(told.senses):
            if sense:
                around = told.words[t - 1], told.words[t], told.words[t + 1]
                seen.setdefault(around, set()).add(sense)
    assert sum(len(senses) > 1 for senses in seen.values()) >= 15


@pytest.mark.slow
def test_seeds_and_corpus():
    assert tale(3) == tale(3) and tale(3) != tale(4) and tales(2, seed=1) != tales(2)
    assert joined(tale(3).words) == tale(3).text
    corpus = load_corpus(WORLD)
    assert corpus.name == "world" and 500_000 < len(corpus) < 3_000_000
    training, held_out = corpus.split()
    assert HELD_OUT[299].text in held_out and HELD_OUT[20].text not in training


@pytest.mark.parametrize("call, message", [
    (lambda: tale(-1), "seed=-1"), (lambda: tale(1.5), "seed=1.5"), (lambda: tales(0), "count=0"),
    (lambda: tales(2**33), "at most"), (lambda: tale(1, held_out="no"), "held_out='no'"),
    (lambda: tales(3, seed=-2), "seed=-2")])
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
