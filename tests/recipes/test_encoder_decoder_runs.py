"""Presets of encoder-decoders from the command line, and the measures of their tasks."""

from collections import Counter

import numpy as np
import pytest

from command import call, content, last_json
from numformer.data import library_sections
from numformer.models import EncoderDecoder, EncoderDecoderConfig
from numformer.recipes import PRESETS, TASKS
from numformer.recipes.text_to_text import bart, documents, t5, tales, translate
from numformer.data import CharacterTokenizer
from numformer.data import NoiseStream, PairStream
from numformer.training import TrainingConfig

NAMES = ("translate", "t5", "t5-spans", "bart", "summarize")
SMALL = ["--n-layers", 1, "--n-heads", 2, "--d-model", 16, "--batch-size", 8, "--warmup-steps", 2,
         "--eval-blocks", 5, "--threads", 1]
STEPS = ["--steps", 6, "--eval-every", 3, "--save-every", 3]


@pytest.fixture(autouse=True, scope="module")
def few_examples():
    """The tasks as they are, with few examples of each."""
    with pytest.MonkeyPatch.context() as patch:
        sections = {held_out: library_sections(held_out)[:40] for held_out in (False, True)}
        patch.setattr(translate, "TRAINING_PAIRS", 1000)
        patch.setattr(translate, "held_out_numbers",
                      lambda whole=translate.held_out_numbers: whole()[::100])
        patch.setattr(t5, "TRAINING_PAIRS", 400)
        patch.setattr(t5, "HELD_OUT", 5)
        patch.setattr(documents, "library_sections", sections.get)
        patch.setattr(documents, "MERGES", 50)
        patch.setattr(bart, "MEASURED", 4)
        patch.setattr(tales, "TRAINING_TALES", 300)
        patch.setattr(tales, "HELD_OUT", 12)
        for task in ("translate", "instructions", "denoise", "spans", "summarize"):
            patch.setattr(type(TASKS[task]), "longest", 8)
        pages = [page for page in (translate._pairs, t5._pairs, documents._documents, tales._pairs)]
        for page in pages:
            page.cache_clear()
        yield
        for page in pages:
            page.cache_clear()


@pytest.fixture(scope="module", params=NAMES)
def run_of_preset(request, few_examples, tmp_path_factory):
    from numformer.cli import main

    out = tmp_path_factory.mktemp("runs") / request.param
    assert main([str(word) for word in ("train", "--preset", request.param, "--out", out, *STEPS,
                                        *SMALL)]) == 0
    return request.param, out


def test_a_preset_trains_and_resumes_byte_for_byte(capsys, run_of_preset, tmp_path):
    name, run = run_of_preset
    out = tmp_path / name
    assert call(capsys, "train", "--preset", name, "--out", out, "--stop-at", 4, *STEPS,
                *SMALL)[0] == 0
    status, said, _ = call(capsys, "train", "--out", out, "--resume", "--json")
    assert status == 0 and last_json(said)["steps"] == 6
    assert np.isfinite(last_json(said)["val_loss"])
    assert content(out) == content(run)
    assert ("alignment.png" in content(run)) == (name in ("translate", "summarize"))


MEASURES = {"translate": {"exact", "exact_greedily"}, "t5": {"exact", "reverse", "sort", "add",
                                                             "french"},
            "t5-spans": {"span_accuracy", "n_gram_accuracy"},
            "bart": {f"{name}_{noise}" for name in ("restored", "copied") for noise in bart.NOISES},
            "summarize": {"exact", "rouge_l", "rouge_l_of_the_first_sentence",
                          "rouge_l_of_the_best_sentence"}}


def test_a_run_is_measured(capsys, run_of_preset):
    name, run = run_of_preset
    status, said, _ = call(capsys, "eval", run, "--json")
    found = last_json(said)
    assert status == 0 and found.keys() == {"val_loss", "tokens"} | MEASURES[name]
    assert all(0 <= found[measure] <= 1 for measure in MEASURES[name])
    assert 1 < found["val_loss"] < 30
    assert "nats per token" in said
    assert {"bart": "restored masked: ", "t5-spans": "span accuracy: "}.get(name, "exact: ") in said


PROMPTS = {"translate": "ninety-seven", "t5": "reverse: abc", "bart": "The [MASK] of a list.",
           "t5-spans": "The <0> of a <1>.", "summarize": "summarize: tom had a ball."}
UNKNOWN = {"translate": "douzaine", "t5": "REVERSE", "summarize": "xylophone"}


def test_a_run_answers(capsys, run_of_preset):
    name, run = run_of_preset
    status, said, _ = call(capsys, "sample", run, "--prompt", PROMPTS[name], "--json")
    assert status == 0 and last_json(said).keys() == {"text", "tokens", "seconds"}
    first, again, other = (call(capsys, "sample", run, "--seed", seed)[1] for seed in (0, 0, 1))
    assert first == again != other and "->" in first
    if name in UNKNOWN:
        status, _, err = call(capsys, "sample", run, "--prompt", UNKNOWN[name])
        assert status == 2 and "--prompt: " in err and len(err.splitlines()) == 1
    assert call(capsys, "sample", run, "--prompt", "")[0] == 2


def test_a_run_is_counted(capsys, run_of_preset):
    name, run = run_of_preset
    status, said, _ = call(capsys, "count", run, "--json")
    model = EncoderDecoder(EncoderDecoderConfig(vocab_size=50, **PRESETS[name].model),
                           np.random.default_rng(0))
    assert status == 0
    assert (last_json(said)["parameters"]
            < sum(parameter.data.size for parameter in model.parameters()))


@pytest.mark.parametrize("name", NAMES)
def test_bad_prompts_are_refused(name, capsys, text, tmp_path):
    for argv, words in ((["--data", text], "makes its own examples"),
                        (["--ngrams", 3], "--ngrams is not an option of EncoderDecoder"),
                        (["--positions", "polar"], "positions='polar' is unknown"),
                        (["--schedule", "step"], "inverse_sqrt")):
        status, _, err = call(capsys, "train", "--preset", name, "--out", tmp_path / "r", *SMALL,
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
