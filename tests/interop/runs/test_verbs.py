"""`numformer import` and `export`, and an imported run in the other verbs. No witness is needed."""

import json

import numpy as np
import pytest

from command import call, last_json
from numformer.data import BytePairTokenizer
from numformer.interop import folder as folders
from numformer.interop import load, save
from numformer.models import Bert, BertConfig, Decoder, DecoderConfig
from numformer.runs import load_checkpoint, load_run

TEXT = "the quick brown fox jumps over the lazy dog, and\nthe dog sleeps on.\n" * 60
TOKENIZER = BytePairTokenizer.of(TEXT, 30)
SIZES = dict(context_length=16, n_layers=2, n_heads=2, d_model=8)


@pytest.fixture(autouse=True)
def tokenizers(monkeypatch):
    """tokenizer.json holds what our own tokenizers write."""
    def of(folder):
        path = folder / "tokenizer.json"
        return TOKENIZER if path.exists() else None

    def write(tokenizer, folder):
        (folder / "tokenizer.json").write_text(json.dumps(tokenizer.to_json()))

    monkeypatch.setattr(folders, "_tokenizer", of)
    monkeypatch.setattr(folders, "_save_tokenizer", write)


@pytest.fixture
def folder(rng, tmp_path, monkeypatch):
    """A GPT-2 whose vocabulary is filled up."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_text(TEXT)
    model = Decoder(DecoderConfig(vocab_size=len(TOKENIZER) + 2, **SIZES), rng)
    save(model, TOKENIZER, tmp_path / "published")
    return tmp_path / "published"


@pytest.fixture
def imported(folder, capsys):
    status, out, _ = call(capsys, "import", folder, "--out", "run", "--json")
    assert status == 0 and "numformer sample run" in out
    result = last_json(out)
    assert result == {"run": "run", "tokens": len(TOKENIZER),
                      "parameters": sum(p.data.size for p in load(folder)[0].parameters())}
    return folder.parent / "run"


def test_an_imported_run_has_the_weights_of_the_folder(imported, folder):
    model, tokenizer, facts, _ = load_run(imported)
    for (name, a), b in zip(model.named_parameters(), load(folder)[0].parameters(), strict=True):
        np.testing.assert_array_equal(a.data, b.data, err_msg=name)
    assert tokenizer.to_json() == TOKENIZER.to_json() and facts["from"] == str(folder)
    assert facts["progress"]["step"] == 0


@pytest.mark.parametrize("argv", [
    ["sample", "--tokens", "5", "--prompt", "the"], ["sample", "--tokens", "5"],
    ["eval", "--data", "text.txt"], ["count"], ["explore", "--text", "the dog"]],
    ids=lambda argv: " ".join(argv[:2]))
def test_an_imported_run_in_the_other_verbs(imported, capsys, argv):
    verb, *rest = argv
    status, out, err = call(capsys, verb, imported, *rest)
    assert status == 0 and out, err


@pytest.mark.slow
def test_pictures_of_an_imported_run(imported, capsys):
    for kind in ("attention", "lens", "positions"):
        status, _, err = call(capsys, "plot", kind, imported, "--out", f"{kind}.png")
        assert status == 0, err
    status, _, err = call(capsys, "plot", "training", imported)
    assert status != 0 and err.count("\n") == 1


@pytest.mark.slow
def test_fine_tuning_goes_on_from_an_imported_run(imported, capsys):
    """The loss begins where the imported model's is, and the model is the imported one's size."""
    tune = ["train", "--from", imported, "--data", "text.txt", "--steps", 3, "--eval-every", 0,
            "--batch-size", 4, "--warmup-steps", 0, "--learning-rate", 1e-12,
            "--min-learning-rate", 1e-12, "--weight-decay", 0]
    assert call(capsys, *tune, "--out", "tuned")[0] == 0
    before, after = load_run(imported)[0], load_run("tuned")[0]
    assert after.config.vocab_size == len(TOKENIZER) + 2
    for (name, a), b in zip(before.named_parameters(), after.parameters(), strict=True):
        np.testing.assert_allclose(a.data, b.data, atol=1e-9, err_msg=name)
    assert load_checkpoint("tuned/checkpoint.safetensors")[1]["from"] == str(imported)

    # a shorter context takes the first positions
    status, _, err = call(capsys, *tune, "--out", "short", "--context-length", 8)
    assert status == 0, err
    short = load_run("short")[0]
    np.testing.assert_allclose(short.positions.weight.data, before.positions.weight.data[:8],
                               atol=1e-9)
    status, _, err = call(capsys, *tune, "--out", "other", "--n-layers", 3)
    assert status == 2 and "Leave out the options that change its shape" in err


@pytest.mark.parametrize("preset, kind", [("lstm", "RecurrentLanguageModel"),
                                          ("seq2seq", "Seq2Seq"), ("ngram", "NGramLanguageModel")])
def test_from_needs_a_run_of_the_same_kind(imported, capsys, preset, kind):
    status, _, err = call(capsys, "train", "--preset", preset, "--from", imported, "--out", "new")
    assert status == 2 and err.count("\n") == 1
    assert f"its model is a Decoder, but {preset} trains {kind}" in err


def test_there_and_back_to_the_byte(imported, folder, capsys):
    assert call(capsys, "export", imported, "--out", "back")[0] == 0
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        assert (folder.parent / "back" / name).read_bytes() == (folder / name).read_bytes()
    status, out, _ = call(capsys, "export", imported, "--out", "bare", "--no-tokenizer", "--json")
    assert status == 0 and last_json(out) == {"folder": "bare", "family": "gpt2"}
    assert {path.name for path in (folder.parent / "bare").iterdir()} == {
        "config.json", "model.safetensors"}


def refused(capsys, words, *argv):
    status, _, err = call(capsys, *argv)
    assert status in (1, 2) and err.count("\n") == 1 and words in err, err


def test_what_cannot_be_imported_is_one_line(folder, capsys, rng, tmp_path):
    refused(capsys, "there is no folder nowhere", "import", "nowhere")
    refused(capsys, "there is no folder text.txt", "import", "text.txt")
    refused(capsys, "has no config.json", "import", ".")
    (folder / "tokenizer.json").unlink()
    refused(capsys, "has no tokenizer.json that can be read", "import", folder, "--out", "run")
    bert = Bert(BertConfig(vocab_size=len(TOKENIZER), **SIZES), rng)
    save(bert, TOKENIZER, tmp_path / "bert")
    refused(capsys, "must have the special tokens [PAD]", "import", tmp_path / "bert", "--out",
            "run")
    small = Decoder(DecoderConfig(vocab_size=9, **SIZES), rng)
    save(small, TOKENIZER, tmp_path / "small")
    refused(capsys, "ids, but its model vocab_size=9", "import", tmp_path / "small", "--out",
            "run")
    assert not (tmp_path / "run").exists()


def test_what_cannot_be_exported_is_one_line(imported, folder, capsys):
    refused(capsys, "has a config.json already", "export", imported, "--out", folder)
    refused(capsys, "openai-gpt is the nearest", "export", imported, "--out", "x", "--family",
            "openai-gpt")
    refused(capsys, "there is no nowhere", "export", "nowhere", "--out", "x")
    refused(capsys, "--out", "export", imported)


def test_an_imported_run_is_not_written_over_nor_resumed(imported, folder, capsys):
    refused(capsys, "contains a run already", "import", folder, "--out", "run")
    refused(capsys, "run", "train", "--resume", "--out", "run", "--steps", "5")
