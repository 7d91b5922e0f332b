"""Encoders without a head, and folders of sentence-transformers: what transformers computes, and
the pooling that is written out here, a SentenceBert does."""

import json
import shutil

import numpy as np
import pytest

from numformer.data import WordPieceTokenizer
from numformer.data.tokenizers.published import published, save_tokenizer
from numformer.interop import load, save
from numformer.models import Bert, SentenceBert
from numformer.recipes import TASKS
from witness import (
    VOCABULARY, close, folder_of, goes_back, gradients_agree, in_double, quiet, random_model, torch,
    transformers as t)

__all__ = ["in_double"]
pytestmark = [quiet, pytest.mark.usefixtures("in_double")]
SIZES = dict(num_hidden_layers=2, num_attention_heads=2, hidden_size=8, intermediate_size=12)
TEXT = dict(SIZES, vocab_size=VOCABULARY, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
NO_IDS = dict.fromkeys(f"{name}_token_id" for name in ("bos", "eos", "cls", "sep"))


def without_pooler(config):
    return t.BertModel(config, add_pooling_layer=False)


CASES = {
    "minilm": lambda: (t.BertModel, t.BertConfig(**TEXT, max_position_embeddings=10)),
    "tinybert": lambda: (without_pooler, t.BertConfig(
        **{**TEXT, "hidden_size": 12, "num_attention_heads": 3}, max_position_embeddings=10,
        hidden_act="relu", layer_norm_eps=1e-3)),
    "roberta": lambda: (t.RobertaModel, t.RobertaConfig(
        **TEXT, max_position_embeddings=12, type_vocab_size=1)),
    "xlm-roberta": lambda: (t.XLMRobertaModel, t.XLMRobertaConfig(
        **TEXT, max_position_embeddings=12, type_vocab_size=1)),
    "distilbert": lambda: (t.DistilBertModel, t.DistilBertConfig(
        vocab_size=VOCABULARY, n_layers=2, n_heads=2, dim=8, hidden_dim=12, dropout=0.0,
        attention_dropout=0.0, max_position_embeddings=10)),
    "t5": lambda: (t.T5EncoderModel, t.T5Config(
        vocab_size=VOCABULARY, d_model=8, d_kv=3, d_ff=12, num_layers=2, num_heads=2,
        relative_attention_num_buckets=8, dropout_rate=0.0, feed_forward_proj="gated-gelu")),
    "mt5": lambda: (t.MT5EncoderModel, t.MT5Config(
        vocab_size=VOCABULARY, d_model=8, d_kv=4, d_ff=12, num_layers=3, num_heads=2,
        dropout_rate=0.0, layer_norm_epsilon=1e-3)),
    "modernbert": lambda: (t.ModernBertModel, t.ModernBertConfig(
        **dict(SIZES, num_hidden_layers=4), vocab_size=VOCABULARY, max_position_embeddings=10,
        local_attention=4, pad_token_id=0, **NO_IDS)),
}
POOLINGS = {"minilm": ("mean", True), "tinybert": ("cls", False), "roberta": ("max", True),
            "xlm-roberta": ("mean", True),
            "distilbert": ("max", False), "modernbert": ("cls", True), "t5": ("mean", True),
            "mt5": ("max", False)}


def write(path, value):
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(value))


def modules(folder, pooling="mean", normalize=True, width=8, first=""):
    """Make a folder of transformers one of sentence-transformers, as its library does."""
    kinds = [("Transformer", first), ("Pooling", "1_Pooling"), ("Normalize", "2_Normalize")]
    write(folder / "modules.json", [
        {"idx": n, "name": str(n), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for n, (kind, path) in enumerate(kinds[:2 + normalize])])
    write(folder / "1_Pooling" / "config.json", {
        "word_embedding_dimension": width,
        **{f"pooling_mode_{name}": name.startswith(pooling)
           for name in ("cls_token", "mean_tokens", "max_tokens")},
        "pooling_mode_mean_sqrt_len_tokens": False})
    write(folder / "sentence_bert_config.json", {"max_seq_length": 7, "do_lower_case": False})
    write(folder / "config_sentence_transformers.json", {"__version__": {
        "sentence_transformers": "2.0.0", "transformers": "4.6.1", "pytorch": "1.8.1"}})
    return folder


def pair(case, tmp_path, **options):
    theirs = random_model(*CASES[case]())
    pooling, normalize = POOLINGS[case]
    options = {"pooling": pooling, "normalize": normalize, "width": theirs.config.hidden_size,
               **options}
    ours, tokenizer = load(modules(folder_of(theirs, tmp_path / "theirs"), **options))
    assert isinstance(ours, SentenceBert) and tokenizer is None
    return theirs, ours


def pooled(theirs, ids, real, pooling, normalize):
    """The vectors of texts by transformers, pooled and normalized here."""
    mask = torch.tensor(real)
    x = theirs(torch.tensor(ids), attention_mask=mask.long()).last_hidden_state
    if pooling == "cls":
        y = x[:, 0]
    elif pooling == "max":
        y = x.masked_fill(~mask[..., None], -1e9).max(dim=1).values
    else:
        y = (x * mask[..., None]).sum(dim=1) / mask.sum(dim=1, keepdim=True)
    return torch.nn.functional.normalize(y, p=2, dim=1) if normalize else y


def batch(rng, theirs, side="right"):
    """(ids, lengths, which of them are tokens)"""
    ids, lengths = rng.integers(2, VOCABULARY, (3, 8)), np.array([8, 5, 7])
    first = (8 - lengths if side == "left" else 0 * lengths)[:, None]
    real = (np.arange(8) >= first) & (np.arange(8) < first + lengths[:, None])
    ids[~real] = theirs.config.pad_token_id
    return ids, lengths, real


@pytest.mark.parametrize("case", CASES)
def test_vectors_and_every_gradient(case, rng, tmp_path):
    theirs, ours = pair(case, tmp_path)
    assert (ours.pooler is not None) == (case in ("minilm", "roberta", "xlm-roberta"))
    ids, lengths, real = batch(rng, theirs)
    expected = pooled(theirs, ids, real, *POOLINGS[case])
    found, saved = ours.forward(ids, lengths)
    close(found, expected, 1e-10)
    goes_back(theirs, ours, tmp_path, dict(input_ids=torch.tensor(ids[:1])))
    weights = rng.standard_normal(found.shape)
    (expected * torch.tensor(weights)).sum().backward()
    ours.backward(weights, saved)
    gradients_agree(ours, theirs, tmp_path / "gradients")


@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
@pytest.mark.parametrize("normalize", [True, False])
def test_poolings(pooling, normalize, rng, tmp_path):
    theirs, ours = pair("minilm", tmp_path, pooling=pooling, normalize=normalize)
    ids, lengths, real = batch(rng, theirs)
    close(ours(ids, lengths), pooled(theirs, ids, real, pooling, normalize), 1e-10)


@pytest.mark.parametrize("case", CASES)
def test_padding_on_the_left(case, rng, tmp_path):
    """Padding has positions of its own, in all but RoBERTa, which counts tokens."""
    theirs, ours = pair(case, tmp_path)
    ids, lengths, real = batch(rng, theirs, "left")
    with torch.no_grad():
        expected = theirs(torch.tensor(ids), attention_mask=torch.tensor(real.astype(int)))[0]
    for row, expected_row, length in zip(ids, expected.numpy(), lengths):
        if case.endswith("roberta"):
            found = ours.backbone(row[None, 8 - length:])[0]
        else:
            mask = np.broadcast_to(np.arange(8) >= 8 - length, (8, 8))
            found = ours.backbone(row[None], mask=mask)[0, 8 - length:]
        close(found, expected_row[8 - length:], 1e-10)


def test_texts_become_the_same_vectors(tmp_path):
    """From the text to the vector: special tokens, and texts that are cut to max_seq_length."""
    texts = ["a list of items", "the list", "return the list of the items, or an error of the list"]
    words = published(WordPieceTokenizer.of(" ".join(texts) * 9, 50))
    theirs = random_model(t.BertModel, t.BertConfig(
        **{**TEXT, "vocab_size": len(words)}, max_position_embeddings=10))
    folder = modules(folder_of(theirs, tmp_path / "theirs"))
    save_tokenizer(words, folder)
    ours, tokenizer = load(folder)
    rows = TASKS["passages"].single_rows(tokenizer, ours.config, texts)
    its = t.PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"),
                                    pad_token="[PAD]")
    given = its(texts, padding=True, truncation=True, max_length=7)
    np.testing.assert_array_equal(rows.ids, given["input_ids"])
    real = np.array(given["attention_mask"]) > 0
    assert rows.lengths.max() == 7 and not real.all()
    close(ours(rows.ids, rows.lengths), pooled(theirs, rows.ids, real, "mean", True), 1e-10)


def test_without_modules_it_is_the_mean(rng, tmp_path):
    theirs = random_model(*CASES["minilm"]())
    ours, _ = load(folder_of(theirs, tmp_path / "theirs"))
    ids, lengths, real = batch(rng, theirs)
    assert ours.config.max_length is None
    close(ours(ids, lengths), pooled(theirs, ids, real, "mean", False), 1e-10)


def files(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes()
            for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("normalize", [True, False])
def test_a_folder_is_written_as_it_was(normalize, tmp_path):
    _, ours = pair("minilm", tmp_path, normalize=normalize)
    save(ours, None, tmp_path / "out")
    again, _ = load(tmp_path / "out")
    assert again.config == ours.config and ours.config.max_length == 7
    save(again, None, tmp_path / "again")
    out = files(tmp_path / "out")
    assert out == files(tmp_path / "again") and len(out) == 6
    assert (tmp_path / "out" / "2_Normalize").is_dir() == normalize
    theirs = files(tmp_path / "theirs")
    for name in ("modules.json", "sentence_bert_config.json"):
        assert json.loads(out[name]) == json.loads(theirs[name])
    written = json.loads(out["1_Pooling/config.json"])
    assert written.items() >= json.loads(theirs["1_Pooling/config.json"]).items()
    assert written.pop("include_prompt") and sum(written.values()) == 8 + 1


def test_a_model_with_a_head_in_such_a_folder(rng, tmp_path):
    """The head has no part in the vectors; the names have a prefix."""
    theirs = random_model(t.BertForPreTraining, t.BertConfig(**TEXT, max_position_embeddings=10))
    folder = folder_of(theirs, tmp_path / "theirs")
    assert isinstance(load(folder)[0], Bert)
    ours, _ = load(modules(folder))
    ids, lengths, real = batch(rng, theirs)
    close(ours(ids, lengths), pooled(theirs.bert, ids, real, "mean", True), 1e-10)


def test_folders_of_the_first_versions(tmp_path):
    """The encoder in a folder of its own, and one key for the pooling in those of the last."""
    theirs, ours = pair("minilm", tmp_path)
    folder = tmp_path / "old"
    (folder / "0_Transformer").mkdir(parents=True)
    modules(folder, first="0_Transformer")
    for name in ("config.json", "model.safetensors", "sentence_bert_config.json"):
        shutil.copy(tmp_path / "theirs" / name, folder / "0_Transformer")
    write(folder / "1_Pooling" / "config.json", {"embedding_dimension": 8, "pooling_mode": "mean"})
    old, _ = load(folder)
    assert old.config == ours.config
    for a, b in zip(old.parameters(), ours.parameters(), strict=True):
        np.testing.assert_array_equal(a.data, b.data)


@pytest.mark.parametrize("architectures", [None, [], ["BertForPreTraining"]])
def test_tinybert(architectures, tmp_path):
    """Its files have keys of their own, and maps for distillation."""
    from safetensors.numpy import load_file, save_file

    theirs = random_model(t.BertForPreTraining, t.BertConfig(
        **{**TEXT, "hidden_size": 12, "num_attention_heads": 3}, max_position_embeddings=10))
    folder = folder_of(theirs, tmp_path / "theirs")
    facts = json.loads((folder / "config.json").read_text()) | {
        "cell": {}, "emb_size": 12, "structure": [], "pre_trained": "", "training": "",
        "architectures": architectures}
    write(folder / "config.json", facts)
    tensors = load_file(folder / "model.safetensors")
    tensors |= {"fit_denses.0.weight": np.ones((3, 3)), "fit_denses.0.bias": np.ones(3)}
    save_file(tensors, folder / "model.safetensors")
    ours, _ = load(folder)
    assert isinstance(ours, Bert) and ours.config.next_sentence and ours.config.d_model == 12
    bare = {name: x for name, x in tensors.items() if not name.startswith("cls.")}
    save_file(bare, folder / "model.safetensors")
    if architectures:
        with pytest.raises(ValueError, match="missing: cls.predictions"):
            load(folder)
    else:
        assert isinstance(load(folder)[0], SentenceBert)


DENSE = {"idx": 3, "name": "3", "path": "2_Dense", "type": "sentence_transformers.models.Dense"}
FIRST = {"type": "sentence_transformers.models.Transformer", "path": ""}
POOL = {"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"}
POOLED = {"word_embedding_dimension": 8, "pooling_mode_mean_tokens": True}


@pytest.mark.parametrize("name, value, words", [
    ("modules.json", [FIRST, POOL, DENSE], "the module 'Dense' is none of a SentenceBert"),
    ("modules.json", [POOL, FIRST], "are Pooling, Transformer, but must be Transformer, Pooling"),
    ("modules.json", [FIRST], "are Transformer, but must be"), ("modules.json", {}, "hold a list"),
    ("modules.json", [FIRST, {**POOL, "path": "../other"}], "the path of a folder of its own"),
    ("modules.json", [FIRST, {**POOL, "path": ".."}], "the path of a folder of its own"),
    ("modules.json", [FIRST, "Pooling"], "'Pooling' must have a type"),
    ("modules.json", [FIRST, {**POOL, "path": "3_Pooling"}], "3_Pooling.* is missing; copy the wh"),
    ("1_Pooling/config.json", {**POOLED, "pooling_mode_cls_token": True}, "poolings are cls, mean"),
    ("1_Pooling/config.json", {"word_embedding_dimension": 8}, "poolings are none, but"),
    ("1_Pooling/config.json", {"word_embedding_dimension": 8, "pooling_mode": "lasttoken"},
     "poolings are lasttoken, but must be one of cls, mean and max"),
    ("1_Pooling/config.json", {"word_embedding_dimension": 8, "pooling_mode": ["mean"]}, "must be"),
    ("1_Pooling/config.json", {**POOLED, "word_embedding_dimension": 9}, "is 8, but its pooling"),
    ("1_Pooling/config.json", {"pooling_mode": "mean"}, "word_embedding_dimension = None must be"),
    ("1_Pooling/config.json", {**POOLED, "surprise": 1}, "key 'surprise' = 1 is not known"),
    ("sentence_bert_config.json", {"max_seq_length": 0}, "'max_seq_length' = 0 must be null or"),
    ("sentence_bert_config.json", {"max_seq_length": 11}, "max_length=11 must be at most"),
    ("sentence_bert_config.json", {"do_lower_case": True}, "'do_lower_case' = True must be False"),
    ("config_sentence_transformers.json", {"default_prompt_name": "query"}, "'query' must be null"),
])
def test_what_a_sentence_bert_has_not_is_refused_by_name(name, value, words, tmp_path):
    folder = modules(folder_of(random_model(*CASES["minilm"]()), tmp_path / "theirs"))
    write(folder / name, value)
    with pytest.raises(ValueError, match=words) as found:
        load(folder)
    assert "\n" not in str(found.value)


def test_a_decoder_is_no_encoder_of_sentences(tmp_path):
    theirs = random_model(t.GPT2LMHeadModel, t.GPT2Config(
        vocab_size=VOCABULARY, n_positions=20, n_embd=8, n_layer=1, n_head=2))
    folder = folder_of(theirs, tmp_path / "theirs")
    with pytest.raises(ValueError, match="model_type 'gpt2' is no encoder of a SentenceBert"):
        load(modules(folder))
