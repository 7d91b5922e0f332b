"""Presets of encoder-decoders from the command line, and the measures of their tasks."""

from collections import Counter

import numpy as np
import pytest

from command import call, last_json
from numformer.recipes import TASKS
from numformer.recipes.text_to_text import bart
from numformer.data import CharacterTokenizer
from numformer.data import NoiseStream, PairStream
from numformer.training import TrainingConfig

NAMES = ("translate", "t5", "t5-spans", "bart", "summarize")
pytestmark = pytest.mark.usefixtures("few_examples")


@pytest.mark.parametrize("name", NAMES)
def test_bad_settings_are_refused(name, capsys, tmp_path):
    for argv, words in ((["--positions", "polar"], "positions='polar' is unknown"),
                        (["--schedule", "step"], "inverse_sqrt")):
        status, _, err = call(capsys, "train", "--preset", name, "--out", tmp_path / "r",
                              *argv)
        assert status in (1, 2) and words in err and not (tmp_path / "r").exists()


def test_published_sizes_are_counted(capsys):
    status, said, _ = call(capsys, "count", "transformer-big", "--json")
    assert status == 0 and last_json(said)["parameters"] == 214_245_376 and "214.25 M" in said


def test_training_and_held_out_numbers_are_disjoint():
    material = TASKS["translate"].load(None)
    assert (not {source for source, _ in material.training}
            & {source for source, _ in material.held_out})
    tokenizer = TASKS["translate"].tokenizer(material)
    for source, target in material.training + material.held_out:
        assert tokenizer.decode(tokenizer.encode(source)) == source
        assert tokenizer.decode(tokenizer.encode(target)) == target


class Knows:
    """A model that writes what a function makes of the text that it read."""

    def __init__(self, tokenizer, answer):
        self.tokenizer, self.answer = tokenizer, answer

    def begin(self, inputs, lengths):
        end = self.tokenizer.special_id("[EOS]")
        return [[*self.answer(row[:n]), end, end] for row, n in zip(inputs, lengths)], 0

    def step(self, ids, cache):
        answers, t = cache
        logits = np.zeros((len(answers), 1, len(self.tokenizer)))
        for row, answer in zip(logits, answers):
            row[0, answer[min(t, len(answer) - 1)]] = 1
        return logits, (answers, t + 1)


def test_instructions_are_measured_by_task(monkeypatch):
    task = TASKS["instructions"]
    monkeypatch.setattr(type(task), "longest", 72)
    material = task.load(None)
    tokenizer, known = task.tokenizer(material), dict(material.held_out)

    def answer(ids):
        source = tokenizer.decode(ids)
        return tokenizer.encode(known[source] if source.startswith(("sort", "french")) else "no")

    assert task.measure(Knows(tokenizer, answer), tokenizer, material) == {
        "exact": 0.5, "reverse": 0.0, "sort": 1.0, "add": 0.0, "french": 1.0}
    assert isinstance(task.stream(material, tokenizer, None, TrainingConfig(steps=1)), PairStream)


@pytest.mark.parametrize("name", ["denoise", "spans"])
def test_documents_are_two_sentences_and_held_out_ones_disjoint(name):
    task = TASKS[name]
    material = task.load(None)
    tokenizer = task.tokenizer(material)
    pairs = task.noised(material.held_out, tokenizer)
    assert all(np.array_equal(one, other)
               for one, other in zip(pairs[3], task.noised(material.held_out[:4], tokenizer)[3]))
    assert isinstance(task.stream(material, tokenizer, None, TrainingConfig(steps=1)), NoiseStream)
    assert not {sentence for document in material.held_out for sentence in document} & {
        sentence for document in material.training for sentence in document}
    assert len(material.training) > 1.3 * len(material.held_out)
    assert max(len("".join(document)) for document in material.training) <= 240
    overlaps = [one[1] == other[0] for one, other in zip(material.training, material.training[1:])]
    assert sum(overlaps) > len(material.training) / 2


def test_restoring_is_measured_against_copying(monkeypatch):
    task = TASKS["denoise"]
    monkeypatch.setattr(type(task), "longest", 400)
    material = task.load(None)
    tokenizer = task.tokenizer(material)
    (mask,), known = task.mark_ids(tokenizer), {}
    for number, document in enumerate(material.held_out[:4]):
        sentences = [tokenizer.encode(sentence) for sentence in document]
        for noise in bart.NOISES.values():
            known[noise(sentences, mask,
                        np.random.default_rng(number)).tobytes()] = np.concatenate(sentences)
    perfect = task.measure(Knows(tokenizer, lambda ids: known[ids.tobytes()]), tokenizer, material)
    copies = task.measure(Knows(tokenizer, lambda ids: ids[ids != mask]), tokenizer, material)
    for noise in bart.NOISES:
        assert perfect[f"restored_{noise}"] == 1.0
        assert (copies[f"restored_{noise}"] == copies[f"copied_{noise}"]
                == perfect[f"copied_{noise}"])
    assert 0.2 < perfect["copied_permuted"] < 0.99
    assert all(abs(perfect[f"copied_{noise}"] - 0.7) < 0.02 for noise in ("masked", "infilled"))


def test_span_accuracy_counts_masked_tokens():
    task = TASKS["spans"]
    material = task.load(None)
    tokenizer = task.tokenizer(material)
    marks, documents = task.mark_ids(tokenizer), material.held_out[:20]
    for number, (document, (source, target)) in enumerate(zip(documents,
                                                              task.noised(documents, tokenizer))):
        ids = np.concatenate([tokenizer.encode(sentence) for sentence in document])
        places = task.masked_positions(len(ids), number)
        assert ids[places].tolist() == target[~np.isin(target, marks)].tolist()
        assert np.delete(ids, places).tolist() == source[~np.isin(source, marks)].tolist()


def test_accuracy_is_over_masked_tokens_alone():
    task = TASKS["spans"]
    material = task.load(None)
    material = type(material)(material.name, material.training, material.held_out[:4])
    tokenizer = task.tokenizer(material)
    (batch,) = task.validation(material, tokenizer, None)
    special = range(len(tokenizer.special))

    class Sure:
        """Right, or wrong, everywhere but at special tokens, where it is the other."""
        config = None

        def __init__(self, knows):
            self.knows = knows

        def __call__(self, inputs, lengths, outputs):
            said = np.where(np.isin(batch.targets, special) != self.knows, batch.targets,
                            special[0])
            return np.eye(len(tokenizer))[said]

    right, wrong = (task.measure(Sure(knows), tokenizer, material) for knows in (True, False))
    assert (right["span_accuracy"], wrong["span_accuracy"]) == (1.0, 0.0)
    assert 0 < right["n_gram_accuracy"] == wrong["n_gram_accuracy"] < 1


def test_the_three_noises_are_equally_frequent():
    task = TASKS["denoise"]
    material = task.load(None)
    tokenizer = task.tokenizer(material)
    (mask,), counts = task.mark_ids(tokenizer), Counter()
    for source, target in task.noised(material.training * 3, tokenizer):
        masks = (source == mask).sum()
        counts["permuted" if not masks else "masked" if len(source) == len(target)
               else "infilled"] += 1
        if not masks:
            assert sorted(source) == sorted(target)
            counts["other order"] += not np.array_equal(source, target)
        else:
            assert (source != mask).sum() == len(target) - round(0.3 * len(target))
    n = len(material.training) * 3
    assert all(abs(counts[noise] / n - 1 / 3) < 5 * (2 / 9 / n) ** 0.5 for noise in bart.NOISES)
    assert abs(counts["other order"] / counts["permuted"]
               - 0.5) < 5 * 0.5 * counts["permuted"] ** -0.5


def test_instructions_are_tokenized_by_characters():
    material = TASKS["instructions"].load(None)
    assert isinstance(TASKS["instructions"].tokenizer(material), CharacterTokenizer)
