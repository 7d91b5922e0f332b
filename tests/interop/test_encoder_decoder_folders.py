"""`numformer import` of T5 and BART, and the imported runs in the other verbs."""

import json

import numpy as np
import pytest

from command import call, last_json
from numformer.data import BytePairTokenizer, UnigramTokenizer
from numformer.data.tokenizers.published import load_tokenizer, published
from numformer.generation import greedy_search
from numformer.interop import load, save
from numformer.models import BART, T5, EncoderDecoder, EncoderDecoderConfig
from numformer.runs import load_run
from test_folders import change, facts_of, refused, rewrite, same_arrays

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


@pytest.mark.slow
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


@pytest.mark.slow
def test_pairs_are_framed_once(imported):
    _, tokenizer, _, task = load_run(imported)
    (source, target), = task.encoded([("sort: qfns", "fnqs")], tokenizer)
    eos = task.special_ids(tokenizer)[-1]
    assert source[-1] == eos and eos not in source[:-1] and eos not in target
    named = tokenizer.decode(source)                  # with the names of the special tokens
    assert np.array_equal(task.source_ids(tokenizer, named), source)
    assert task.text_of(tokenizer, source) == "sort: qfns"
    assert task.text_of(tokenizer, target) == "fnqs"


@pytest.mark.slow
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


@pytest.mark.slow
def test_what_has_no_meaning_is_one_line(imported, capsys):
    for words, *argv in (
            ("makes its own examples", "eval", imported, "--data", "x.txt"),
            ("is for decoders", "sample", imported, "--weights", "int8"),
            ("its model is a EncoderDecoder", "train", "--preset", "gpt", "--from", imported),
            ("name='[MASK]' is unknown", "train", "--preset", "bart", "--from", imported),
            ("has no steps of training", "plot", "training", imported),
            ("no final norm and LM head", "plot", "lens", imported),
            ("was imported", "train", "--resume", "--out", imported, "--steps", 5)):
        status, _, err = call(capsys, *argv)
        assert status in (1, 2) and err.count("\n") == 1 and words in err, err


def test_fine_tuning_and_evaluation(imported, capsys, monkeypatch):
    """The pairs of the presets are few here. Training goes on with the same special tokens."""
    from numformer.recipes.text_to_text import t5

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
    assert call(capsys, "import", folder, "--out", "run")[0] == 0


@pytest.mark.parametrize("text", ["[]", "{", "3", '{"eos_token_id": "</s>"}',
                                  '{"eos_token_id": [' + "1, " * 10**5 + "1]}"])
def test_a_generation_config_that_is_none(folder, capsys, text):
    (folder / "generation_config.json").write_text(text)
    status, _, err = call(capsys, "import", folder, "--out", "run")
    assert status == 2 and err.count("\n") == 1 and len(err) < 600, err
    assert "generation_config.json is no config" in err or "eos_token_id is" in err


def small(rng, folder, options, family=None, **more):
    """A folder of a small model; returns it and the model."""
    sizes = dict(vocab_size=9, context_length=8, n_layers=2, n_heads=2, d_model=8, d_hidden=12)
    model = EncoderDecoder(EncoderDecoderConfig(**{**options, **sizes, **more}), rng)
    save(model, None, folder, family)
    return folder, model


@pytest.mark.parametrize("family, keys, words", [
    ("t5", {"feed_forward_proj": "gated-relu"}, "'feed_forward_proj' = 'gated-relu' must be"),
    ("t5", {"dense_act_fn": "silu"}, "'dense_act_fn' = 'silu' must be relu"),
    ("t5", {"num_decoder_layers": 3}, "missing: decoder.block.2"),
    ("t5", {"num_decoder_layers": 2 * 10**5}, "n_layers=200000 must be a whole"),
    ("t5", {"num_layers": 2 * 10**5}, "n_encoder_layers=200000 must be"),
    ("t5", {"num_layers": 1}, "unexpected: encoder.block.1"),
    ("t5", {"d_kv": 3}, "has shape"), ("t5", {"d_kv": 0}, "'d_kv' = 0 must be null or a whole"),
    ("t5", {"tie_word_embeddings": 3}, "'tie_word_embeddings' = 3 must be true"),
    ("bart", {"normalize_before": True}, "'normalize_before' = True must be False"),
    ("bart", {"normalize_embedding": False}, "'normalize_embedding' = False must be True"),
    ("bart", {"extra_pos_embeddings": 0}, "'extra_pos_embeddings' = 0 must be 2"),
    ("bart", {"decoder_attention_heads": 4}, "'decoder_attention_heads' = 4 must be 2"),
    ("bart", {"decoder_ffn_dim": 4}, "'decoder_ffn_dim' = 4 must be 12"),
    ("bart", {"decoder_layers": 1}, "unexpected: model.decoder.layers.1"),
    ("bart", {"tie_word_embeddings": False}, "'tie_word_embeddings' = False must be True"),
    ("mbart", {"add_final_layer_norm": False}, "'add_final_layer_norm' = False must be True")])
def test_keys_that_are_refused(rng, tmp_path, family, keys, words):
    options = {"t5": T5, "bart": BART, "mbart": dict(BART, norm_first=True)}[family]
    path, _ = small(rng, tmp_path / "model", dict(options, feedforward="relu"))
    assert facts_of(path)["model_type"] == family
    change(path, **keys)
    refused(path, words)


def test_a_head_of_its_own_where_outputs_are_divided(rng, tmp_path):
    """A copy of the table is one with it; another matrix is refused."""
    path, model = small(rng, tmp_path / "model", dict(T5, feedforward="relu"))
    rewrite(path, lambda t: t.update({"lm_head.weight": t["shared.weight"].copy()}))
    assert same_arrays(load(path)[0], model)
    rewrite(path, lambda t: t.update({"lm_head.weight": t["lm_head.weight"] + 1}))
    refused(path, "lm_head.weight must equal shared.weight")
    change(path, scale_decoder_outputs=False)         # with a head of its own, as transformers says
    ours, _ = load(path)
    assert not ours.config.tied and not ours.config.embedding_scale
    change(path, scale_decoder_outputs=None, tie_word_embeddings=False)   # as published
    refused(path, "'scale_decoder_outputs' = None must be true or false")
    facts = facts_of(path)
    del facts["scale_decoder_outputs"]
    (path / "config.json").write_text(json.dumps(facts))
    assert same_arrays(load(path)[0], ours)


def test_tensors_of_published_files(rng, tmp_path):
    """T5's second table of distances; BART without its head and with numbers of versions."""
    path, model = small(rng, tmp_path / "t5", dict(T5, feedforward="relu"))
    rewrite(path, lambda t: t.update({
        "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight":
            np.ones((32, 2), np.float32)}))
    assert same_arrays(load(path)[0], model)
    path, model = small(rng, tmp_path / "bart", BART)

    def without_head(tensors):
        del tensors["final_logits_bias"]
        for name in list(tensors):
            tensors[name.removeprefix("model.")] = tensors.pop(name)
        for stack in ("encoder", "decoder"):
            tensors[f"{stack}.embed_tokens.weight"] = tensors["shared.weight"].copy()
            tensors[f"{stack}.version"] = np.array([2.0], np.float32)

    rewrite(path, without_head)
    change(path, architectures=["BartModel"], add_bias_logits=False, attention_dropout=0.0)
    assert same_arrays(load(path)[0], model)


@pytest.mark.parametrize("bias, words", [
    (np.ones((1, 9), np.float32), "final_logits_bias must be zero everywhere"),
    (np.zeros((1, 8), np.float32), r"final_logits_bias has shape \(1, 8\), but must have \(1, 9\)"),
    (np.full((1, 9), np.nan, np.float32), "final_logits_bias must be zero everywhere")])
def test_a_bias_of_the_logits_is_refused(rng, tmp_path, bias, words):
    path, _ = small(rng, tmp_path / "model", BART)
    rewrite(path, lambda t: t.update(final_logits_bias=bias))
    refused(path, words)


def test_keys_that_are_options_cannot_be_added(rng, tmp_path):
    model = EncoderDecoder(EncoderDecoderConfig(**{**T5, **SIZES, "vocab_size": 9}), rng)
    with pytest.raises(ValueError, match="'num_heads' cannot be added"):
        save(model, None, tmp_path / "model", more={"num_heads": 1})
    assert not (tmp_path / "model").exists()
