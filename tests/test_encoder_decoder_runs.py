"""Runs of encoder-decoders: every preset trains, resumes, is measured and answers; its task's own measures and pictures."""

from collections import Counter

import numpy as np
import pytest

from command import call, content, last_json
from numformer.datasets import library_sections
from numformer.models import EncoderDecoder, EncoderDecoderConfig
from numformer.plots import alignment_map
from numformer.tasks import PRESETS, TASKS, denoise, documents, instructions, translate
from numformer.tasks.denoise import likeness
from numformer.tokenizers import CharacterTokenizer
from numformer.training import NoiseStream, PairStream, TrainingConfig, learning_rate

NAMES = ("translate", "t5", "t5-spans", "bart")
SMALL = ["--n-layers", 1, "--n-heads", 2, "--d-model", 16, "--batch-size", 8, "--warmup-steps", 2, "--eval-blocks", 5, "--threads", 1]
STEPS = ["--steps", 6, "--eval-every", 3, "--save-every", 3]


@pytest.fixture(autouse=True, scope="module")
def few_examples():
    """The tasks as they are, with few examples of each."""
    with pytest.MonkeyPatch.context() as patch:
        sections = {held_out: library_sections(held_out)[:40] for held_out in (False, True)}
        patch.setattr(translate, "TRAINING_PAIRS", 1000)
        patch.setattr(translate, "held_out_numbers", lambda whole=translate.held_out_numbers: whole()[::100])
        patch.setattr(instructions, "TRAINING_PAIRS", 400)
        patch.setattr(instructions, "HELD_OUT", 5)
        patch.setattr(documents, "library_sections", sections.get)
        patch.setattr(documents, "MERGES", 50)
        patch.setattr(denoise, "MEASURED", 4)
        for task in ("translate", "instructions", "denoise", "spans"):
            patch.setattr(type(TASKS[task]), "longest", 8)
        pages = [page for page in (translate._pairs, instructions._pairs, documents._documents)]
        for page in pages:
            page.cache_clear()
        yield
        for page in pages:
            page.cache_clear()


@pytest.fixture(scope="module", params=NAMES)
def run_of_preset(request, few_examples, tmp_path_factory):
    from numformer.cli import main

    out = tmp_path_factory.mktemp("runs") / request.param
    assert main([str(word) for word in ("train", "--preset", request.param, "--out", out, *STEPS, *SMALL)]) == 0
    return request.param, out


def test_a_preset_trains_and_resumes_byte_for_byte(capsys, run_of_preset, tmp_path):
    name, run = run_of_preset
    out = tmp_path / name
    assert call(capsys, "train", "--preset", name, "--out", out, "--stop-at", 4, *STEPS, *SMALL)[0] == 0
    status, said, _ = call(capsys, "train", "--out", out, "--resume", "--json")
    assert status == 0 and last_json(said)["steps"] == 6 and np.isfinite(last_json(said)["val_loss"])
    assert content(out) == content(run)
    assert ("alignment.png" in content(run)) == (name == "translate")


MEASURES = {"translate": {"exact", "exact_greedily"}, "t5": {"exact", "reverse", "sort", "add", "french"},
            "t5-spans": {"span_accuracy", "n_gram_accuracy"},
            "bart": {f"{name}_{noise}" for name in ("restored", "copied") for noise in denoise.NOISES}}


def test_a_run_is_measured(capsys, run_of_preset):
    name, run = run_of_preset
    status, said, _ = call(capsys, "eval", run, "--json")
    found = last_json(said)
    assert status == 0 and found.keys() == {"val_loss", "tokens"} | MEASURES[name]
    assert all(0 <= found[measure] <= 1 for measure in MEASURES[name]) and 1 < found["val_loss"] < 30
    assert "nats a token" in said and {"bart": "restored masked: ", "t5-spans": "span accuracy: "}.get(name, "exact: ") in said


PROMPTS = {"translate": "ninety-seven", "t5": "reverse: abc", "bart": "The [MASK] of a list.",
           "t5-spans": "The <0> of a <1>."}
UNKNOWN = {"translate": "douzaine", "t5": "REVERSE"}


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
    model = EncoderDecoder(EncoderDecoderConfig(vocab_size=50, **PRESETS[name].model), np.random.default_rng(0))
    assert status == 0 and last_json(said)["parameters"] < sum(parameter.data.size for parameter in model.parameters())


@pytest.mark.parametrize("name", NAMES)
def test_bad_requests(name, capsys, text, tmp_path):
    for argv, words in ((["--data", text], "makes its own examples"), (["--ngrams", 3], "--ngrams is no setting of EncoderDecoder"),
                        (["--positions", "shaw"], "positions='shaw' is unknown"), (["--schedule", "step"], "inverse_sqrt")):
        status, _, err = call(capsys, "train", "--preset", name, "--out", tmp_path / "r", *SMALL, *argv)
        assert status in (1, 2) and words in err and not (tmp_path / "r").exists()


def test_published_sizes_are_counted(capsys):
    status, said, _ = call(capsys, "count", "transformer-big", "--json")
    assert status == 0 and last_json(said)["parameters"] == 214_245_376 and "214.25 M" in said


def test_the_rate_of_2017():
    """Equation 3, for a width of 512 and 4000 steps of warm-up: from there on to the digit; before it, our rise takes a step more."""
    peak, warmup = (512 * 4000) ** -0.5, 4000
    for step in (4000, 4001, 10_000, 99_999):
        found = learning_rate("inverse_sqrt", step - 1, 100_000, peak, warmup=warmup - 1)
        assert abs(found / (512**-0.5 * min(step**-0.5, step * warmup**-1.5)) - 1) < 1e-12
    assert learning_rate("inverse_sqrt", 99, 100_000, peak, warmup=warmup - 1) == peak * 100 / 4000
    assert learning_rate("inverse_sqrt", 10**9, 10, 1.0, floor=0.3, warmup=5) == 0.3


def test_training_and_held_out_numbers_are_apart():
    material = TASKS["translate"].load(None)
    assert not {source for source, _ in material.training} & {source for source, _ in material.held_out}
    tokenizer = TASKS["translate"].tokenizer(material)
    for source, target in material.training + material.held_out:
        assert tokenizer.decode(tokenizer.encode(source)) == source and tokenizer.decode(tokenizer.encode(target)) == target


class Knows:
    """A model that writes what a function makes of the text that it read."""

    def __init__(self, tokenizer, answer):
        self.tokenizer, self.answer = tokenizer, answer

    def begin(self, inputs, lengths):
        end = self.tokenizer.special_id("[END]")
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
def test_documents(name):
    task = TASKS[name]
    material = task.load(None)
    tokenizer = task.tokenizer(material)
    pairs = task.noised(material.held_out, tokenizer)
    assert all(np.array_equal(one, other) for one, other in zip(pairs[3], task.noised(material.held_out[:4], tokenizer)[3]))
    assert isinstance(task.stream(material, tokenizer, None, TrainingConfig(steps=1)), NoiseStream)
    assert not {sentence for document in material.held_out for sentence in document} & {
        sentence for document in material.training for sentence in document}
    assert len(material.training) > 1.3 * len(material.held_out) and max(len("".join(document)) for document in material.training) <= 240
    assert sum(one[1] == other[0] for one, other in zip(material.training, material.training[1:])) > len(material.training) / 2


def test_restoring_is_measured_against_copying(monkeypatch):
    task = TASKS["denoise"]
    monkeypatch.setattr(type(task), "longest", 400)
    material = task.load(None)
    tokenizer = task.tokenizer(material)
    (mask,), known = task.mark_ids(tokenizer), {}
    for number, document in enumerate(material.held_out[:4]):
        sentences = [tokenizer.encode(sentence) for sentence in document]
        for noise in denoise.NOISES.values():
            known[noise(sentences, mask, np.random.default_rng(number)).tobytes()] = np.concatenate(sentences)
    perfect = task.measure(Knows(tokenizer, lambda ids: known[ids.tobytes()]), tokenizer, material)
    copies = task.measure(Knows(tokenizer, lambda ids: ids[ids != mask]), tokenizer, material)
    for noise in denoise.NOISES:
        assert perfect[f"restored_{noise}"] == 1.0
        assert copies[f"restored_{noise}"] == copies[f"copied_{noise}"] == perfect[f"copied_{noise}"]
    assert 0.2 < perfect["copied_permuted"] < 0.99 and all(abs(perfect[f"copied_{noise}"] - 0.7) < 0.02 for noise in ("masked", "infilled"))


def test_hidden_tokens_are_counted_where_the_noise_hid_them():
    task = TASKS["spans"]
    material = task.load(None)
    tokenizer = task.tokenizer(material)
    marks, documents = task.mark_ids(tokenizer), material.held_out[:20]
    for number, (document, (source, target)) in enumerate(zip(documents, task.noised(documents, tokenizer))):
        ids = np.concatenate([tokenizer.encode(sentence) for sentence in document])
        places = task.hidden_places(len(ids), number)
        assert ids[places].tolist() == target[~np.isin(target, marks)].tolist()
        assert np.delete(ids, places).tolist() == source[~np.isin(source, marks)].tolist()


def test_a_model_is_asked_for_hidden_tokens_alone():
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
            said = np.where(np.isin(batch.targets, special) != self.knows, batch.targets, special[0])
            return np.eye(len(tokenizer))[said]

    right, wrong = (task.measure(Sure(knows), tokenizer, material) for knows in (True, False))
    assert (right["span_accuracy"], wrong["span_accuracy"]) == (1.0, 0.0)
    assert 0 < right["n_gram_accuracy"] == wrong["n_gram_accuracy"] < 1


def test_one_noise_in_three_each():
    task = TASKS["denoise"]
    material = task.load(None)
    tokenizer = task.tokenizer(material)
    (mask,), counts = task.mark_ids(tokenizer), Counter()
    for source, target in task.noised(material.training * 3, tokenizer):
        masks = (source == mask).sum()
        counts["permuted" if not masks else "masked" if len(source) == len(target) else "infilled"] += 1
        if not masks:
            assert sorted(source) == sorted(target)
            counts["other order"] += not np.array_equal(source, target)
        else:
            assert (source != mask).sum() == len(target) - round(0.3 * len(target))
    n = len(material.training) * 3
    assert all(abs(counts[noise] / n - 1 / 3) < 5 * (2 / 9 / n) ** 0.5 for noise in denoise.NOISES)
    assert abs(counts["other order"] / counts["permuted"] - 0.5) < 5 * 0.5 * counts["permuted"] ** -0.5


def test_likeness_is_the_edit_distance(rng):
    for _ in range(50):
        one, other = rng.integers(0, 3, rng.integers(0, 8)), rng.integers(0, 3, rng.integers(1, 8))
        edits = np.zeros((len(one) + 1, len(other) + 1), int)
        edits[:, 0], edits[0] = np.arange(len(one) + 1), np.arange(len(other) + 1)
        for i in range(len(one)):
            for j in range(len(other)):
                edits[i + 1, j + 1] = min(edits[i, j + 1] + 1, edits[i + 1, j] + 1, edits[i, j] + (one[i] != other[j]))
        assert likeness(one, other) == 1 - edits[-1, -1] / max(len(one), len(other))


def test_alignment_map():
    axes = alignment_map(np.array([[0.9, 0.1, 0.0], [0.0, 0.2, 0.8]]), ["a", " ", "b"], ["B", "A"])
    assert [label.get_text() for label in axes.get_xticklabels()] == ["a", "␣", "b"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["B", "A"] and axes.images[0].get_array().shape == (2, 3)
    assert alignment_map(np.ones((1, 1)), ["a"], ["b"], ax=axes) is axes
    for read, written in ((["a"], ["B", "A"]), (["a", "b", "c"], ["B"])):
        with pytest.raises(ValueError, match="labels, but weights of shape"):
            alignment_map(np.ones((2, 3)), read, written)
    with pytest.raises(ValueError, match="(T, S)"):
        alignment_map(np.ones(3), ["a"], ["b"])


def test_characters_of_the_instructions():
    material = TASKS["instructions"].load(None)
    assert isinstance(TASKS["instructions"].tokenizer(material), CharacterTokenizer)
