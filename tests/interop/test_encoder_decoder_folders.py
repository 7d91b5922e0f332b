"""`numformer import` of T5 and BART, and the imported runs in the other verbs."""

import json

import numpy as np
import pytest

from command import call, last_json
from numformer.commands.shared.runs import load_run
from numformer.data import BytePairTokenizer, UnigramTokenizer
from numformer.data.tokenizers.published import load_tokenizer, published
from numformer.generation import greedy_search
from numformer.interop import load, save
from numformer.models import BART, T5, EncoderDecoder, EncoderDecoderConfig

TEXT = "sort: qfns add: 512+6 reverse: the quick brown fox french: cinq cent cinquante " * 3
SIZES = dict(context_length=90, n_layers=2, n_heads=2, d_model=16, n_encoder_layers=1)
IDS = ("pad_token_id", "decoder_start_token_id", "eos_token_id")


def processor(tokenizer, before, after):
    """The post_processor that puts these special tokens around a text."""
    parts = [dict(SpecialToken=dict(id=name, type_id=0)) for name in (*before, *after)]
    text = [dict(Sequence=dict(id=which, type_id=0)) for which in "AB"]
    single = [*parts[:len(before)], text[0], *parts[len(before):]]
    return dict(type="TemplateProcessing", single=single, pair=[*single, text[1]], special_tokens={
        name: dict(id=name, ids=[tokenizer.special_id(name)], tokens=[name])
        for name in (*before, *after)})


def of_t5():
    """(options, tokenizer, its template, ids): padding is BOS, and the vocabulary is padded."""
    tokenizer = UnigramTokenizer.of(TEXT, 60)
    return dict(T5, n_buckets=8, feedforward="geglu_tanh", tied=False, embedding_scale=False,
                vocab_size=len(tokenizer) + 4), tokenizer, ([], ["</s>"]), (0, 0, 1)


def of_bart():
    """EOS is BOS; as in BART for summaries, the model has no place for the mask."""
    tokenizer = BytePairTokenizer.of(TEXT, 20, ("<s>", "<pad>", "</s>", "<mask>"), split="gpt2",
                                     order="gpt2")
    options = dict(BART, vocab_size=len(tokenizer) - 1)
    pad, end = (tokenizer.special_id(name) for name in ("<pad>", "</s>"))
    return options, tokenizer, (["<s>"], ["</s>"]), (pad, end, end)


@pytest.fixture(params=[of_t5, of_bart], ids=["t5", "bart"])
def folder(request, rng, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options, tokenizer, frame, ids = request.param()
    model = EncoderDecoder(EncoderDecoderConfig(**{**options, **SIZES}), rng)
    for parameter in model.parameters():
        parameter.data += 0.3 * rng.standard_normal(parameter.data.shape).astype(np.float32)
    tokenizer = published(tokenizer)
    description = {**tokenizer.description, "post_processor": processor(tokenizer, *frame)}
    save(model, type(tokenizer)(description), "published", more=dict(zip(IDS, ids)))
    return tmp_path / "published"


@pytest.fixture
def imported(folder, capsys):
    status, _, err = call(capsys, "import", folder, "--out", "run", "--json")
    assert status == 0, err
    return folder.parent / "run"


def facts_of(folder):
    return json.loads((folder / "config.json").read_text())


def test_an_answer_is_what_the_model_writes_after_a_framed_source(imported, folder, capsys):
    model, tokenizer = load(folder)
    run, _, facts, task = load_run(imported)
    for (name, a), b in zip(model.named_parameters(), run.parameters(), strict=True):
        np.testing.assert_array_equal(a.data, b.data, err_msg=name)
    source, _ = tokenizer.frame(tokenizer.encode("sort: qfns"))
    padding, bos, eos = (facts_of(folder)[key] for key in IDS)
    ids, = greedy_search(model, [source], padding, bos, eos, max_tokens=12)
    special = {tokenizer.special_id(name) for name in ("<s>", "<pad>", "</s>")
               if name in tokenizer.special}
    expected = tokenizer.decode([i for i in ids if i not in special and i < len(tokenizer)])
    status, out, err = call(capsys, "sample", imported, "--prompt", "sort: qfns", "--tokens", 12)
    assert status == 0 and out == f"{expected}\n" and expected, err
    assert facts["task"] == task.name == "instructions" and facts["progress"]["step"] == 0


def test_pairs_are_framed_once(imported):
    _, tokenizer, _, task = load_run(imported)
    (source, target), = task.encoded([("sort: qfns", "fnqs")], tokenizer)
    eos = task.special_ids(tokenizer)[-1]
    assert source[-1] == eos and eos not in source[:-1] and eos not in target
    named = tokenizer.decode(source)                  # with the names of the special tokens
    assert np.array_equal(task.source_ids(tokenizer, named), source)
    assert task.text_of(tokenizer, source) == "sort: qfns"
    assert task.text_of(tokenizer, target) == "fnqs"


@pytest.mark.parametrize("argv", [
    ["sample", "--tokens", "5"], ["count"], ["explore", "--text", "sort: qfns"],
    ["plot", "attention", "--out", "attention.png"]], ids=lambda argv: argv[0])
def test_an_imported_run_in_the_other_verbs(imported, capsys, monkeypatch, argv):
    monkeypatch.setattr(type(load_run(imported)[3]), "longest", 5)
    verb, *rest = argv
    where = [rest.pop(0), imported] if verb == "plot" else [imported]
    status, out, err = call(capsys, verb, *where, *rest)
    assert status == 0 and out, err
    if verb == "count":
        parameters = sum(p.data.size for p in load_run(imported)[0].parameters())
        assert f"{parameters:,}" in out


def test_what_has_no_meaning_is_one_line(imported, capsys):
    for words, *argv in (
            ("makes its own examples", "eval", imported, "--data", "x.txt"),
            ("is for decoders", "sample", imported, "--weights", "int8"),
            ("its model is a EncoderDecoder", "train", "--preset", "gpt", "--from", imported),
            ("name='[MASK]' is unknown", "train", "--preset", "bart", "--from", imported),
            ("was imported", "train", "--resume", "--out", imported, "--steps", 5)):
        status, _, err = call(capsys, *argv)
        assert status in (1, 2) and err.count("\n") == 1 and words in err, err


def test_fine_tuning_and_evaluation(imported, capsys, monkeypatch):
    """The pairs of the presets are few here. Training goes on with the same special tokens."""
    from numformer.recipes import t5

    pairs = t5.Pairs("few", [("sort: qfns", "fnqs"), ("add: 1+1", "2")] * 8,
                     [("sort: fn", "fn"), ("add: 2+1", "3")])
    monkeypatch.setattr(t5, "_pairs", lambda: pairs)
    status, _, err = call(capsys, "train", "--preset", "t5", "--from", imported, "--steps", 2,
                          "--batch-size", 4, "--shards", 1, "--eval-every", 0, "--out", "tuned",
                          "--warmup-steps", 0)
    assert status == 0, err
    tuned, _, facts, task = load_run("tuned")
    assert task.recipe == load_run(imported)[3].recipe and facts["from"] == str(imported)
    assert any((a.data != b.data).any() for a, b in
               zip(tuned.parameters(), load_run(imported)[0].parameters(), strict=True))
    status, out, err = call(capsys, "eval", "tuned", "--json")
    assert status == 0 and set(last_json(out)) >= {"val_loss", "exact", "sort", "add"}, err


def test_there_and_back(imported, folder, capsys):
    assert call(capsys, "export", imported, "--out", "back")[0] == 0
    for name in ("config.json", "model.safetensors"):
        assert (folder.parent / "back" / name).read_bytes() == (folder / name).read_bytes(), name
    assert load_tokenizer("back").description == load_tokenizer(folder).description


@pytest.mark.parametrize("value", [None, [1, 2], True, 5, 10**9])
def test_ids_that_a_run_cannot_use(folder, capsys, value):
    facts = facts_of(folder)
    (folder / "config.json").write_text(json.dumps({**facts, "decoder_start_token_id": value}))
    status, _, err = call(capsys, "import", folder, "--out", "run")
    assert status in (1, 2) and err.count("\n") == 1 and "decoder_start_token_id" in err, err
    (folder / "generation_config.json").write_text(json.dumps(
        {"decoder_start_token_id": facts["decoder_start_token_id"], "eos_token_id": None}))
    assert (call(capsys, "import", folder, "--out", "run")[0] == 0) == (value != 10**9)


def test_keys_that_are_options_cannot_be_added(rng, tmp_path):
    model = EncoderDecoder(EncoderDecoderConfig(**{**T5, **SIZES, "vocab_size": 9}), rng)
    with pytest.raises(ValueError, match="'num_heads' cannot be added"):
        save(model, None, tmp_path / "model", more={"num_heads": 1})
    assert not (tmp_path / "model").exists()
