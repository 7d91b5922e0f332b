"""Every verb on the run of a language model whose tokens are byte pairs or words."""

import math
import shutil

import numpy as np
import pytest

from command import SMALL, call, last_json
from marks import every, slow_among
from numformer.cli import main
from numformer.data import BytePairTokenizer, WordTokenizer, load_corpus
from numformer.recipes import TextTask, first_prompt
from numformer.runs import load_run

# characters of one to four bytes, most of which are rare, so that tokens cut them
TEXT = "the quick brown föx jumps over the läzy dog 狗, and\nthe dog sleeps on 🐶.\n" * 40
KINDS = {"byte pairs": lambda text: BytePairTokenizer.of(text, 40),
         "words": lambda text: WordTokenizer.of(text, 12)}
PICTURES = ["attention", "grid", "heads", "rollout", "query", "positions", "loss", "training",
            "flow", "residual", "activations", "lens", "contributions", "costs"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    (folder / "text.txt").write_text(TEXT, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        for kind, tokenizer_of in KINDS.items():
            patch.setattr(TextTask, "tokenizer", lambda self, data: tokenizer_of(data.text))
            assert main(["train", "--data", str(folder / "text.txt"), "--out", str(folder / kind),
                         "--steps", "12", "--eval-every", "6", "--save-every", "0", *SMALL]) == 0
    return folder


@pytest.fixture
def run(runs):
    return runs / "byte pairs"


@pytest.mark.parametrize("other", every(2, [True, False]), ids=["another text", "its own text"])
def test_bits_per_character_count_the_characters_of_the_text(capsys, runs, run, other):
    """Nats of all counted tokens, by the characters that they are: all but the first token's."""
    text, flags = TEXT, []
    if other:
        text, path = "a 狗 and a föx, and\n" * 60, runs / "other.txt"
        path.write_text(text, encoding="utf-8")
        flags = ["--data", path]
    status, out, _ = call(capsys, "eval", run, "--json", *flags)
    result, tokenizer = last_json(out), load_run(run)[1]
    held_out = text[int(0.9 * len(text)):]
    first, *counted = tokenizer.encode(held_out).tolist()
    characters = len(held_out) - len(tokenizer.decode([first]))
    bits = result["val_loss"] * len(counted) / math.log(2) / characters
    assert status == 0 and result["tokens"] == len(counted) < characters == result["characters"]
    assert result["bits_per_character"] == pytest.approx(bits, rel=1e-12)
    assert (f"nats per token, {bits:.4f} bits per character, on {len(counted)} tokens of "
            f"{characters} characters\n") in out


def test_words_have_no_bits_per_character(capsys, runs):
    """They leave out what unknown words spell."""
    status, out, _ = call(capsys, "eval", runs / "words", "--json")
    assert status == 0 and "bits" not in out and "nats per token" in out


@pytest.mark.parametrize("kind", KINDS)
def test_sample_without_a_prompt(capsys, runs, kind):
    status, out, _ = call(capsys, "sample", runs / kind, "--tokens", 40, "--json")
    result = last_json(out)
    assert status == 0 and result["tokens"] == 40 and result["text"].startswith("\n")
    assert call(capsys, "sample", runs / kind, "--tokens", 40)[1] == result["text"] + "\n"


def test_a_generated_character_of_several_tokens_is_shown_whole(capsys, run, monkeypatch):
    tokenizer = load_run(run)[1]
    ids = tokenizer.encode("🐶ß🦀 dog").tolist()
    assert any(tokenizer.decode([token]) == "\ufffd" for token in ids)
    monkeypatch.setattr("numformer.commands.sample.generate", lambda *arguments: iter(ids))
    flags = ["--prompt", "the ", "--tokens", len(ids)]
    assert call(capsys, "sample", run, *flags)[1] == "the 🐶ß🦀 dog\n"
    assert last_json(call(capsys, "sample", run, *flags, "--json")[1])["text"] == "the 🐶ß🦀 dog"


def test_generated_words_have_spaces_between_them(capsys, runs, monkeypatch):
    tokenizer = load_run(runs / "words")[1]
    ids = tokenizer.encode("the dog, and\nthe dog").tolist()
    monkeypatch.setattr("numformer.commands.sample.generate", lambda *arguments: iter(ids))
    out = call(capsys, "sample", runs / "words", "--prompt", "dog", "--tokens", len(ids))[1]
    assert out == "dog the dog, and\nthe dog\n"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", [None, "the dog, the 狗"])
def test_readings_have_a_label_for_every_token(runs, kind, text):
    model, tokenizer, _, task = load_run(runs / kind)
    reading = task.reading(model, tokenizer, text)
    (ids,), = reading.inputs
    assert len(reading.read) == len(ids) <= model.config.context_length
    assert reading.read == [tokenizer.decode([token]) for token in ids]


@pytest.mark.parametrize("kind", slow_among(KINDS, ["words"]))
@pytest.mark.parametrize("picture", every(4, PICTURES))
def test_plot(capsys, runs, kind, picture, tmp_path):
    status, _, err = call(capsys, "plot", picture, runs / kind, "--out", tmp_path / "p.svg")
    assert status == 0, err


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", [[], ["--text", "the läzy dog 狗, and the dog"]], ids=len)
def test_explore(capsys, runs, kind, text, tmp_path):
    status, out, err = call(capsys, "explore", runs / kind, *text, "--out", tmp_path / "e.html")
    assert status == 0 and "wrote" in out, err


@pytest.mark.slow
def test_train_says_nats_per_token_and_goes_on(capsys, run, tmp_path):
    shutil.copytree(run, tmp_path / "r")
    status, out, err = call(capsys, "train", "--resume", "--out", tmp_path / "r", "--steps", 18)
    result = last_json(call(capsys, "eval", tmp_path / "r", "--json")[1])
    assert status == 0 and f"validation loss {result['val_loss']:.4f} nats per token" in out
    assert f" ({result['bits_per_character']:.3f} bits/character), " in err
    assert call(capsys, "count", tmp_path / "r")[0] == 0


def test_compare_is_for_characters(capsys, run):
    status, out, err = call(capsys, "compare", run, "--seconds", 0)
    assert status == 2 and not out and "with a loss in nats per token" in err


def test_texts_that_do_not_fit_are_counted_in_tokens(capsys, runs, run):
    (runs / "short.txt").write_text("the dog")
    status, _, err = call(capsys, "eval", run, "--data", runs / "short.txt")
    assert status == 1 and "tokens is too short" in err and err.count("\n") == 1
    status, _, err = call(capsys, "plot", "attention", run, "--text", TEXT[:300])
    assert status == 2 and "tokens does not fit a model that reads 1 to 16" in err
    model, tokenizer, _, task = load_run(run)
    with pytest.raises(Exception, match="are . tokens, but a block of context_length=16"):
        task.stream(load_corpus(runs / "short.txt"), tokenizer, model.config, None)


def test_the_first_prompt_is_a_newline_or_the_first_token_of_text():
    assert first_prompt(BytePairTokenizer([], special=("[PAD]",))) == "\n"
    assert first_prompt(WordTokenizer(["dog", "\n"])) == "\n"
    assert first_prompt(WordTokenizer(["dog", "the"], special=("[UNK]",))) == "dog"
    assert first_prompt(WordTokenizer(["dog", "the"], special=())) == "dog"


def test_the_loss_of_characters_is_as_it_was(capsys, runs, tmp_path):
    assert main(["train", "--data", str(runs / "text.txt"), "--out", str(tmp_path / "r"),
                 "--steps", "2", *SMALL]) == 0
    capsys.readouterr()
    status, out, _ = call(capsys, "eval", tmp_path / "r", "--json")
    result = last_json(out)
    assert status == 0 and result["characters"] == result["tokens"]
    assert result["bits_per_character"] == result["val_loss"] / np.log(2)
