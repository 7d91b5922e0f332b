"""The second witness for published tokenizers: `tokenizers` reads the same tokenizer.json.

It normalizes text by older tables of Unicode than Python has. With a normalizer the hostile texts
hold only characters that have not changed since Unicode 3.2; all of these are compared.
"""

import json

import pytest

from odd_texts import ODD, prose, texts
from numformer.data import (
    BytePairTokenizer, PublishedTokenizer, UnigramTokenizer, WordPieceTokenizer, load_tokenizer,
    save_tokenizer)
from numformer.data.tokenizers.byte_merges import CHARACTER_OF
from numformer.data.tokenizers.published import published
from numformer.data.tokenizers.splitting import REGEX_OF

tokenizers = pytest.importorskip("tokenizers")
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers  # noqa: E402

PROSE = prose()


def byte_pairs(split, normalizer=None, space=False):
    theirs = tokenizers.Tokenizer(models.BPE())
    bytes_alone = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    theirs.pre_tokenizer = (
        pre_tokenizers.ByteLevel(add_prefix_space=space) if split == "gpt2" else
        pre_tokenizers.Sequence([pre_tokenizers.Split(tokenizers.Regex(REGEX_OF[split]),
                                                      "isolated"), bytes_alone]))
    theirs.decoder = decoders.ByteLevel()
    if normalizer:
        theirs.normalizer = normalizer
    return theirs, trainers.BpeTrainer(
        vocab_size=2000, special_tokens=["<|end|>"], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet())


def wordpiece(lowercase):
    theirs = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
    theirs.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    theirs.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    theirs.decoder = decoders.WordPiece()
    return theirs, trainers.WordPieceTrainer(
        vocab_size=2000, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"],
        show_progress=False)


def unigram(before=(), normalizer=None, scheme="always"):
    theirs = tokenizers.Tokenizer(models.Unigram())
    meta = pre_tokenizers.Metaspace(prepend_scheme=scheme)
    theirs.pre_tokenizer = pre_tokenizers.Sequence([*before, meta])
    theirs.decoder = decoders.Metaspace(prepend_scheme=scheme)
    if normalizer:
        theirs.normalizer = normalizer
    return theirs, trainers.UnigramTrainer(
        vocab_size=1500, special_tokens=["<pad>", "</s>", "<unk>"], unk_token="<unk>",
        show_progress=False)


ALBERT = normalizers.Sequence([
    normalizers.Replace("``", '"'), normalizers.Replace("''", '"'), normalizers.NFKD(),
    normalizers.StripAccents(), normalizers.Lowercase(),
    normalizers.Replace(tokenizers.Regex(" {2,}"), " "), normalizers.Strip()])
SPACES = [pre_tokenizers.WhitespaceSplit()]
KINDS = {
    "gpt2": lambda: byte_pairs("gpt2"),
    "roberta": lambda: byte_pairs("gpt2", space=True),
    "llama3": lambda: byte_pairs("llama3"),
    "qwen2": lambda: byte_pairs("qwen2", normalizers.NFC()),
    "bert": lambda: wordpiece(True),
    "bert-cased": lambda: wordpiece(False),
    "t5": lambda: unigram(SPACES),
    "albert": lambda: unigram(SPACES, ALBERT),
    "spaces": lambda: unigram(scheme="never"),
}


@pytest.fixture(params=KINDS, scope="module")
def both(request):
    theirs, trainer = KINDS[request.param]()
    theirs.train_from_iterator([PROSE[:200_000], 3 * "".join(ODD)], trainer)
    facts = json.loads(theirs.to_str())
    if facts["model"]["type"] == "Unigram":     # their reader rounds numbers of 17 digits by an ulp
        facts["model"]["vocab"] = [[token, round(score, 9)]
                                   for token, score in facts["model"]["vocab"]]
        theirs = tokenizers.Tokenizer.from_str(json.dumps(facts))
    return theirs, PublishedTokenizer(json.loads(theirs.to_str()))


def same(theirs, ours, text):
    ids = ours.encode(text)
    assert ids.tolist() == theirs.encode(text, add_special_tokens=False).ids, ascii(text[:60])
    assert ours.decode(ids) == theirs.decode(ids.tolist(), skip_special_tokens=False)


def test_one_megabyte_has_the_same_ids(both):
    same(*both, PROSE)


def test_hostile_texts_have_the_same_ids(both):
    for text in texts(old=both[0].normalizer is not None):
        same(*both, text)


def test_every_id_decodes_alike(both):
    theirs, ours = both
    assert len(ours) == theirs.get_vocab_size()
    for ids in ([i] for i in range(len(ours))):
        assert ours.decode(ids) == theirs.decode(ids, skip_special_tokens=False)
    mixed = [i * 7919 % len(ours) for i in range(3000)]
    assert ours.decode(mixed) == theirs.decode(mixed, skip_special_tokens=False)


def test_what_is_saved_loads_there_and_here(both, tmp_path):
    """Its reader of JSON rounds scores of more than 15 digits another way, which may break ties."""
    facts = json.loads(both[0].to_str())
    if facts["model"]["type"] == "Unigram":
        facts["model"]["vocab"] = [[token, round(score, 9)]
                                   for token, score in facts["model"]["vocab"]]
    save_tokenizer(PublishedTokenizer(facts), tmp_path)
    first = (tmp_path / "tokenizer.json").read_bytes()
    same(tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json")),
         load_tokenizer(tmp_path), PROSE[:20_000])
    save_tokenizer(load_tokenizer(tmp_path), tmp_path)
    assert (tmp_path / "tokenizer.json").read_bytes() == first


def test_a_vocabulary_without_some_bytes():
    """SmolLM's lacks tokens of 21 bytes, and has no unknown token: they are left out of the ids."""
    absent = {4, 6, 19, 20, 22, 29, 192, 193, 241, 242, *range(245, 256)}
    facts = published(BytePairTokenizer.of(PROSE[:20_000], 200, ("<end>",), split="gpt2",
                                           order="gpt2")).description
    model, gone = facts["model"], {CHARACTER_OF[byte] for byte in absent}
    names = [name for name in model["vocab"] if name not in gone]
    model = dict(model, vocab={name: i for i, name in enumerate(names)})
    facts = dict(facts, model=model, added_tokens=[
        token | {"id": model["vocab"][token["content"]]} for token in facts["added_tokens"]])
    theirs, ours = tokenizers.Tokenizer.from_str(json.dumps(facts)), PublishedTokenizer(facts)
    assert len(absent) == 21 and ours.encode("\x04\x1d").tolist() == []
    for text in ["a\x04b \U000fffff!", *ODD]:
        same(theirs, ours, text)
    assert ours.n_characters(ours.encode("abc")) is None, "texts do not come back"


# ---- ours, trained here --------------------------------------------------------------------------


OWN = {
    **{split: lambda split=split: BytePairTokenizer.of(PROSE[:50_000], 500, ("<|end|>", "<x>"),
                                                       split=split, order="gpt2")
       for split in REGEX_OF},
    "bytes": lambda: BytePairTokenizer.of(PROSE[:50_000], 500, ("<|end|>",), split="gpt2"),
    "wordpiece": lambda: WordPieceTokenizer.of(PROSE[:50_000], 400),
    "cased": lambda: WordPieceTokenizer.of(PROSE[:50_000], 400, lowercase=False),
    "unigram": lambda: UnigramTokenizer.of(PROSE[:50_000], 500),
}


@pytest.mark.parametrize("kind", OWN)
def test_a_tokenizer_trained_here_has_the_same_ids_there(kind, tmp_path):
    own = OWN[kind]()
    save_tokenizer(own, tmp_path)
    theirs = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    ours = published(own)
    assert len(own) == len(ours) == theirs.get_vocab_size()
    assert [ours.special_id(name) for name in own.special] == list(
        map(theirs.token_to_id, own.special))
    same(theirs, ours, PROSE[:100_000])
    for text in ["".join(part for part in ODD if part not in own.special), "a b", " a", ""]:
        if kind in ("wordpiece", "cased"):
            text = "".join(filter(str.isascii, text))
        same(theirs, ours, text)
        assert own.encode(text).tolist() == ours.encode(text).tolist()
        assert own.decode(own.encode(text)) == ours.decode(own.encode(text))
