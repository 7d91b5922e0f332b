"""`numformer import` of encoders and image models, and these runs in the other verbs."""

import json
from dataclasses import replace

import numpy as np
import pytest

from command import call, last_json
from marks import slow_among
from numformer.data import BytePairTokenizer, WordPieceTokenizer
from numformer.data.corpora import library
from numformer.data.tokenizers.published import published
from numformer.interop import load, save
from numformer.models import (
    Bert, BertConfig, SentenceBert, SentenceBertConfig, VisionTransformer, VisionTransformerConfig)
from numformer.models.bert.model import MODERNBERT
from numformer.recipes.library import bert as bert_page
from numformer.runs import load_run

TEXT = "return the number of items in a list, or raise an error if there are none. " * 9
WORDS = published(WordPieceTokenizer.of(TEXT, 60))
PIECES = published(BytePairTokenizer.of(
    TEXT, 40, ("<s>", "<pad>", "</s>", "<unk>", "<mask>"), split="gpt2", order="gpt2"))
SIZES = dict(context_length=48, n_layers=2, n_heads=2, d_model=8, d_hidden=12)
PADDED = dict(SIZES, vocab_size=len(WORDS) + 3)
IMAGES = dict(image_size=8, patch_size=4, channels=3, n_classes=7, n_layers=2, n_heads=2,
              d_model=8)
MODELS = {                                            # kind, config, tokenizer, family
    "bert": (Bert, BertConfig(**PADDED), WORDS, "bert"),
    "roberta": (Bert, BertConfig(**SIZES, vocab_size=len(PIECES), segments=1,
                                 next_sentence=False), PIECES, "roberta"),
    "modernbert": (Bert, BertConfig(**{**MODERNBERT, **PADDED, "sliding_window": 5}), WORDS,
                   "modernbert"),
    "minilm": (SentenceBert, SentenceBertConfig(**PADDED, normalize=True, pooler=True,
                                                max_length=40), WORDS, "bert"),
    "vit": (VisionTransformer, VisionTransformerConfig(**IMAGES), None, "vit"),
    "deit": (VisionTransformer, VisionTransformerConfig(**IMAGES, n_class_tokens=2), None, "deit"),
}
OF_TEXTS = ["bert", "roberta", "modernbert", "minilm"]
OF_IMAGES = ["vit", "deit"]


@pytest.fixture(scope="module", autouse=True)
def small_library():
    """A quarter of the library, and one pair of passages for each cut."""
    all_of_it = library._sections
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bert_page, "ROUNDS", 1)
        patch.setattr(library, "_sections", lambda root: all_of_it(root)[::4])
        yield


@pytest.fixture(scope="module")
def imported(tmp_path_factory):
    """(published folder, folder of the run), each made once."""
    from numformer.cli import main

    folder, rng = tmp_path_factory.mktemp("imported"), np.random.default_rng(0)
    np.save(folder / "image.npy", rng.standard_normal((8, 8, 3)))

    def made(name):
        run = folder / f"run-{name}"
        if not run.exists():
            kind, config, tokenizer, family = MODELS[name]
            save(kind(config, rng), tokenizer, folder / name, family)
            assert main(["import", str(folder / name), "--out", str(run)]) == 0
        return folder / name, run
    return made


@pytest.mark.parametrize("name", MODELS)
def test_weights_come_and_go(name, imported, capsys, tmp_path):
    source, run = imported(name)
    theirs, _ = load(source)
    model, tokenizer, facts, _ = load_run(run)
    assert model.config == theirs.config and facts["from"] == str(source)
    for (part, a), b in zip(model.named_parameters(), theirs.parameters(), strict=True):
        np.testing.assert_array_equal(a.data, b.data, err_msg=part)
    family, out = MODELS[name][3], tmp_path / "out"
    assert call(capsys, "export", run, "--out", out, "--family", family)[0] == 0
    for path in source.rglob("*.*"):
        written = out / path.relative_to(source)
        if path.name == "tokenizer.json":             # in another order
            assert json.loads(written.read_text()) == json.loads(path.read_text())
        elif path.is_file():
            assert written.read_bytes() == path.read_bytes()
    status, said, _ = call(capsys, "count", run, "--json")
    assert status == 0
    assert last_json(said)["parameters"] == sum(p.data.size for p in theirs.parameters())


@pytest.mark.slow
@pytest.mark.parametrize("name", OF_TEXTS)
def test_runs_of_texts_in_the_other_verbs(name, imported, capsys, tmp_path):
    _, run = imported(name)
    for argv in (["sample"], ["explore"], ["explore", "--text", "a list"], ["eval"],
                 *(["plot", kind] for kind in ("attention", "heads", "rollout", "residual",
                                               "positions", "activations", "flow"))):
        verb, *rest = argv
        first = rest[:1] if verb == "plot" else []
        status, said, err = call(capsys, verb, *first, run, *rest[len(first):])
        assert status == 0 and said, err
    status, _, err = call(capsys, "plot", "lens", run)
    assert status == 2 and err.count("\n") == 1 and "as a Decoder has" in err


@pytest.mark.parametrize("name, mask", [("bert", "[MASK]"), ("modernbert", "[MASK]"),
                                        ("roberta", "<mask>")])
def test_masked_words_are_filled_in(name, mask, imported, capsys):
    _, run = imported(name)
    model, tokenizer, _, task = load_run(run)
    status, said, _ = call(capsys, "sample", run, "--prompt", f"the {mask} of", "--json")
    result = last_json(said)
    ids = task.row(tokenizer, model.config, f"the {mask} of")
    known = tokenizer.special_id(mask)
    guess = model.masked_logits(ids)[0][(ids[0] == known)].argmax()
    filled = np.where(ids[0] == known, guess, ids[0])[1:-1]
    assert status == 0 and result["tokens"] == 1
    assert result["text"].replace("[", "", 1)[::-1].replace("]", "", 1)[::-1] == tokenizer.decode(
        filled)


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["bert", "topics", "sbert"])
@pytest.mark.parametrize("name", slow_among(["bert", "roberta", "minilm"], ["roberta"]))
def test_training_begins_with_an_imported_run(name, preset, imported, capsys, tmp_path):
    """With all of a model of the same kind, else with its backbone; at first nothing changes."""
    _, run = imported(name)
    out = tmp_path / "new"
    status, _, err = call(
        capsys, "train", "--preset", preset, "--from", run, "--out", out, "--steps", 1,
        "--batch-size", 4, "--eval-every", 0, "--warmup-steps", 0, "--learning-rate", 0,
        "--min-learning-rate", 0)
    assert status == 0, err
    old, new = load_run(run)[0], load_run(out)[0]
    same = type(old) is type(new)
    before, after = (replace(model.config, dropout=0.0) for model in (old, new))
    assert not same or before == after
    parts = (old, new) if same else (old.backbone, new.backbone)
    for (part, a), b in zip(parts[0].named_parameters(), parts[1].parameters(), strict=True):
        np.testing.assert_array_equal(a.data, b.data, err_msg=part)
    if name == "minilm" and preset == "topics":
        np.testing.assert_array_equal(new.pooler.linear.weight.data, old.pooler.linear.weight.data)


@pytest.mark.slow
@pytest.mark.parametrize("name", OF_IMAGES)
def test_runs_of_images_read_files(name, imported, capsys, tmp_path):
    source, run = imported(name)
    capsys.readouterr()                                               # what `import` said
    image = source.parent / "image.npy"
    status, said, _ = call(capsys, "sample", run, "--prompt", image)
    logits = load(source)[0](np.load(image)[None].astype(np.float32))[0]
    likely = np.exp(logits).max() / np.exp(logits).sum()
    assert status == 0 and said.startswith(f"class {logits.argmax()}: {likely:.3f}, class ")
    for argv in (["explore"], ["plot", "attention"], ["plot", "patches"], ["plot", "heads"]):
        status, _, err = call(capsys, *argv, run, "--text", image)
        assert status == 0, err
    assert call(capsys, "plot", "positions", run)[0] == 0


@pytest.mark.parametrize("name", OF_IMAGES)
def test_what_needs_other_images_is_one_line(name, imported, capsys, tmp_path):
    source, run = imported(name)
    np.save(tmp_path / "small.npy", np.zeros((4, 4, 3)))
    np.save(tmp_path / "nan.npy", np.full((8, 8, 3), np.nan))
    np.save(tmp_path / "objects.npy", np.array([{}]), allow_pickle=True)
    (tmp_path / "text.npy").write_text("no image")
    with open(tmp_path / "huge.npy", "wb") as file:
        np.lib.format.write_array_header_1_0(
            file, {"descr": "<f8", "fortran_order": False, "shape": (2**62, 8, 3)})
    argv = [(["sample", run], "give one with --prompt FILE.npy"),
            (["explore", run], "give one with --text FILE.npy"),
            (["plot", "attention", run], "give one with --text FILE.npy"),
            (["eval", run], "has no images to be measured on"),
            (["train", "--preset", "vit", "--from", run, "--out", tmp_path / "new"], "channels=3"),
            (["import", source, "--out", run], "contains a run already")]
    for file, words in (("small", "of shape (8, 8, 3)"), ("nan", "finite numbers"),
                        ("objects", "is no .npy file"), ("text", "is no .npy file"),
                        ("huge", "is no .npy file"), ("missing", "is no .npy file")):
        argv.append((["sample", run, "--prompt", tmp_path / f"{file}.npy"], words))
    for words, expected in argv:
        status, _, err = call(capsys, *words)
        assert status in (1, 2) and err.count("\n") == 1 and expected in err, err
