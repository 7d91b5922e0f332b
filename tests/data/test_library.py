"""Sentences and passages from the standard library's own documentation."""

import re
from collections import Counter

import numpy as np
import pytest

from numformer.data import (
    Corpus, DataError, library_sections, library_text, load_corpus, next_sentence_pairs,
    repeated_passages, topic_passages, topic_triplets)
from numformer.data.corpora import library as page
from numformer.data.corpora import passages as passages_page


@pytest.fixture(scope="module")
def place():
    """The position of each sentence: (number of its section, number within the section)."""
    return {sentence: (s, i) for s, section in enumerate(library_sections())
            for i, sentence in enumerate(section.sentences)}


def first_and_last(passage, place):
    """The positions of the first and the last sentence of a passage of consecutive ones."""
    words, places = passage, []
    while words:
        ends = [*(space.start() for space in re.finditer(" ", words)), len(words)]
        sentence = max((words[:end] for end in ends if words[:end] in place), key=len)
        places.append(place[sentence])
        words = words[len(sentence) + 1:]
    assert places == [(places[0][0], places[0][1] + k) for k in range(len(places))]
    return places[0], places[-1]


@pytest.mark.slow
def test_the_library_is_a_megabyte_of_plain_sentences():
    corpus = library_text()
    assert len(corpus.text) > 500_000 and corpus.text.isascii() and len(corpus.sha256) == 64
    sentences = [sentence for section in library_sections() for sentence in section.sentences]
    assert len(sentences) == len(set(sentences)) > 5000
    assert all(20 <= len(sentence) <= 300 and sentence == " ".join(sentence.split())
               for sentence in sentences)
    assert all(re.match("""["'(`*]?[A-Z]""", sentence) for sentence in sentences)
    assert all(re.search("""[.!?:]["')`*]*$""", sentence) for sentence in sentences)
    assert not [sentence for sentence in sentences if ">>>" in sentence or "::" in sentence]
    assert sum(character.isalpha() or character in " \n"
               for character in corpus.text) > 0.93 * len(corpus.text)
    assert ({"language", "email", "logging", "asyncio"}
            <= {section.topic for section in library_sections()})
    assert (not {"test", "pydoc_data", "numpy", "site-packages"}
            & {section.topic for section in library_sections()})


@pytest.mark.slow                       # reads a thousand files again
def test_the_text_is_that_of_the_sections_and_always_the_same():
    text = library_text().text
    assert ([tuple(block.split("\n")) for block in text.split("\n\n")]
            == [section.sentences for section in library_sections()])
    page._sections.cache_clear()
    assert library_text().text == text and library_text(True).sha256 != library_text(False).sha256


def test_every_fifth_section_of_a_topic_is_held_out():
    training, held_out = library_sections(False), library_sections(True)
    everything, kept = (Counter(section.topic for section in sections)
                        for sections in (library_sections(), held_out))
    assert sorted(training + held_out) == sorted(library_sections())
    assert all(kept[topic] == count // 5 for topic, count in everything.items())
    assert (not {s for section in training for s in section.sentences}
            & {s for section in held_out for s in section.sentences})
    sizes = [sum(map(len, section.sentences)) for section in library_sections()]
    assert np.median(sizes) > 500 and max(sizes) < 5000


SOURCE = '''"""Speak of mail.

Nobody reads what is written here, e.g. This word. Everybody knows it by heart!

    >>> mail()

Name      Meaning of the name in a table.

::

    Parse the grammar ::= of a thing.

The well-
known name is joined, and \u201cquotes\u201d are made plain.
    A word like ünicode is not plain at all.
"""

class Mail:
    """This class is about the mail."""

    if True:
        def send(self):
            """Send the mail to everybody who wants it."""

            def inner():
                """This one is in a function."""

        async def wait(self):
            """Nobody reads what is written here, e.g. This word."""

def f(x):
    return lambda: """This is no docstring of anything."""
'''


def test_only_english_docstrings_of_a_source_file_are_read(tmp_path, monkeypatch):
    for name, text in [("email/__init__.py", SOURCE), ("email/test/a.py", SOURCE),
                       ("_pyio.py", '"""This is about input and output."""'),
                       ("nonsense.py", SOURCE), ("site-packages/json.py", SOURCE),
                       ("json.py", "what a mess ("), ("os.py", "")]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.setattr(page, "load_corpus", lambda: Corpus("none", "A text of the language."))
    assert page._sections.__wrapped__(tmp_path) == [
        ("language", ("A text of the language.",)),
        ("io", ("This is about input and output.",)),
        ("email", ("Nobody reads what is written here, e.g. This word.",
                   "Everybody knows it by heart!",
                   'The well-known name is joined, and "quotes" are made plain.',
                   "This class is about the mail.",
                   "Send the mail to everybody who wants it.", "This one is in a function."))]
    assert load_corpus().name == "python-docs"


def test_long_files_are_cut_into_sections(tmp_path, monkeypatch):
    paragraphs = [f"Here is the sentence number {'abcdefghijklmnopqrstuvwxyz'[k] * 30} of a file."
                  for k in range(26)]
    (tmp_path / "abc.py").write_text('"""' + "\n\n".join(paragraphs) + '"""', encoding="utf-8")
    monkeypatch.setattr(page, "load_corpus", lambda: Corpus("none", "A text of the language."))
    sections = page._sections.__wrapped__(tmp_path)[1:]
    assert [sentence for section in sections for sentence in section.sentences] == paragraphs
    # of 69 characters each
    assert [len(section.sentences) for section in sections] == [8, 8, 8, 2]


def test_sentences_have_four_words_and_20_to_300_characters():
    assert page._is_english("Here are four words.")
    assert not page._is_english("Here are three-words.")
    for length in (19, 20, 300, 301):
        sentence = ("abc " * 100)[:length - 1] + "."
        assert page._is_english(sentence) == (20 <= len(sentence) <= 300)


@pytest.mark.parametrize("folder", ["", "nowhere"])
def test_missing_sources_are_an_error(folder, tmp_path):
    with pytest.raises(DataError, match="no sources of the standard library in .*; use a Python"):
        page._sections.__wrapped__(tmp_path / folder)


@pytest.mark.parametrize("held_out", [False, True])
def test_half_of_the_second_passages_follow_the_first(held_out, place):
    pairs = next_sentence_pairs(400, seed=0, held_out=held_out)
    sections = {sentence for section in library_sections(held_out)
                for sentence in section.sentences}
    assert sum(follows for *_, follows in pairs) == 200
    assert 60 < sum(follows for *_, follows in pairs[:200]) < 140
    for first, second, follows in pairs:
        (section, _), last = first_and_last(first, place)
        begin, end = first_and_last(second, place)
        assert (begin == (section, last[1] + 1)) == follows == (begin[0] == section)
        assert begin[1] >= 1
        assert first in place or all(len(text) <= 120 or a == b for text, a, b in [
            (first, last, last), (second, begin, end)])
        assert {sentence for sentence in (first, second) if sentence in place} <= sections
    assert (pairs == next_sentence_pairs(400, seed=0, held_out=held_out)
            != next_sentence_pairs(400, seed=1, held_out=held_out))


def test_all_cuts_can_be_used_each_once(monkeypatch):
    """Between two sentences of a section, from the first to the last."""
    sections = [page.Section("email", ("One.", "Two.", "Three.")),
                page.Section("io", ("Four.", "Five.", "Six."))]
    monkeypatch.setattr(passages_page, "library_sections", lambda held_out: sections)
    for seed in range(5):
        pairs = next_sentence_pairs(4, seed)
        assert sorted(first for first, *_ in pairs) == ["Four.", "Four. Five.", "One.", "One. Two."]
    with pytest.raises(ValueError, match="n=6 is more than the 4 positions"):
        next_sentence_pairs(6, 0)


def test_by_default_passages_are_for_training():
    assert (next_sentence_pairs(20, 0) == next_sentence_pairs(20, 0, held_out=False)
            != next_sentence_pairs(20, 0, held_out=True))


def test_a_repetition_has_two_to_four_fifths_of_the_words():
    ten, pairs = "a b c d e f g h i j", []
    for seed in range(20):
        pairs += repeated_passages([(ten, "", True)] * 20, seed)
    assert {len(again.split()) for _, again, _ in pairs} == {4, 5, 6, 7}
    assert {again[0] for _, again, _ in pairs} >= set("abcdef") and any(
        again.endswith("j") for _, again, _ in pairs)
    # At least one word, also of two or of one
    assert {again for seed in range(20)
            for _, again, _ in repeated_passages([("a b", "", True)], seed)} == {"a", "b"}
    assert repeated_passages([("a", "b", True)], 0) == [("a", "a", True)]


def test_repetitions_are_words_of_the_first_passage():
    pairs = next_sentence_pairs(600, seed=0)
    repeated = repeated_passages(pairs, seed=0)
    assert repeated == repeated_passages(pairs, seed=0) != repeated_passages(pairs, seed=1)
    shares, starts = [], Counter()
    for (first, second, follows), (same, again, still) in zip(pairs, repeated):
        assert same == first and still == follows
        if follows:
            assert f" {again} " in f" {first} "
            shares.append(len(again.split()) / len(first.split()))
            starts[first.startswith(again)] += 1
        else:
            assert again == second
    assert max(shares) <= 0.8 and 0.5 < np.mean(shares) < 0.62 and starts[True] < starts[False]
    with pytest.raises(ValueError, match="seed=-1"):
        repeated_passages(pairs, -1)


def test_passages_have_as_many_sentences_as_fit(place):
    for first, second, _ in next_sentence_pairs(200, seed=3, characters=250):
        sections = library_sections()
        for text, step in ((first, -1), (second, 1)):
            (s, a), (_, b) = first_and_last(text, place)
            assert len(text) <= 250 or a == b
            after = (a if step < 0 else b) + step
            if 0 <= after < len(sections[s].sentences):
                assert len(text) + 1 + len(sections[s].sentences[after]) > 250


def test_passages_have_from_half_to_all_of_the_characters(monkeypatch):
    sections = [page.Section(topic, (topic * n,)) for topic in "ab" for n in (49, 50, 100, 101)]
    monkeypatch.setattr(passages_page, "library_sections", lambda held_out: sections)
    found, names = topic_passages(2, characters=100)
    assert names == ("a", "b")
    assert found == [(topic * n, label) for label, topic in enumerate("ab") for n in (50, 100)]


def test_there_are_8_topics_by_default_and_2_at_least():
    assert topic_passages() == topic_passages(8, 200) and len(topic_passages(2)[1]) == 2


@pytest.mark.parametrize("topics, characters", [(8, 200), (12, 120), (20, 200)])
def test_topics_have_equally_many_passages(topics, characters, place):
    (training, names), (held_out, again) = (topic_passages(topics, characters, part)
                                            for part in (False, True))
    assert names == again == tuple(sorted(names)) and len(names) == topics
    for passages, part in ((training, False), (held_out, True)):
        counts = Counter(label for _, label in passages)
        assert set(counts) == set(range(topics)) and len(set(counts.values())) == 1
        assert all(characters / 2 <= len(text) <= characters for text, _ in passages)
        assert len(set(passages)) == len(passages)
        ids = {section.sentences[0]: section for section in library_sections(part)}
        for text, label in passages[::7]:
            section = library_sections()[first_and_last(text, place)[0][0]]
            assert section.topic == names[label] and section == ids[section.sentences[0]]
    assert len(training) > 40 * topics and len(held_out) > 6 * topics
    few, whole = (topic_passages(topics, characters, each=each)[0] for each in (5, 10**6))
    assert Counter(label for _, label in few) == dict.fromkeys(range(topics), 5)
    assert whole == training
    assert len(set(few)) == len(few)
    assert not {text for text, _ in few} & {text for text, _ in held_out}
    assert not {text for text, _ in training} & {text for text, _ in held_out}


def test_a_triplet_has_two_passages_of_one_topic():
    passages, _ = topic_passages(8, 200)
    topic, triplets = dict(passages), topic_triplets(passages, seed=0)
    assert sorted(anchor for anchor, *_ in triplets) == sorted(topic)
    assert all(topic[anchor] == topic[same] != topic[other] and anchor != same
               for anchor, same, other in triplets)
    assert triplets == topic_triplets(passages, seed=0) != topic_triplets(passages, seed=1)
    assert len({same for _, same, _ in triplets}) > len(passages) / 2
    assert len({topic[other] for *_, other in triplets}) == 8


@pytest.mark.parametrize("call, words", [
    (lambda: next_sentence_pairs(3, 0), "n=3 must be even.*use 4"),
    (lambda: next_sentence_pairs(10**6, 0), "positions where a section can be cut"),
    (lambda: next_sentence_pairs(2, -1), "seed=-1"),
    (lambda: next_sentence_pairs(2, 0, characters=0), "characters=0"),
    (lambda: topic_passages(1), "topics=1"), (lambda: topic_passages(8, 0), "characters=0"),
    (lambda: topic_passages(8, each=0), "each=0"),
    (lambda: topic_passages(400),
     "topics=400 is too many for passages of 200 characters; there are"),
    (lambda: topic_triplets([("a", 0), ("b", 0)], 0), "two topics"),
    (lambda: topic_triplets([("a", 0), ("b", 0), ("c", 1)], 0), "two or more"),
    (lambda: topic_triplets([], 0), "two topics")])
def test_bad_arguments_are_named(call, words):
    with pytest.raises(ValueError, match=words):
        call()
