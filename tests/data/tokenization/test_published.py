"""Published tokenizers: added tokens, templates, files; what is unknown is refused in one line."""

import json
import pickle

import numpy as np
import pytest

from numformer.data import (
    BytePairTokenizer, CharacterTokenizer, PublishedTokenizer, UnigramTokenizer,
    WordPieceTokenizer, WordTokenizer, load_tokenizer, save_tokenizer, tokenizer_from_json)
from numformer.data.tokenizers.published import published

TEXT = "the cat sat on the mat; the cats sat, the mats lay. " * 3
OWN = {
    "BPE": BytePairTokenizer.of(TEXT, 10, ("<end>", "<x>"), split="gpt2", order="gpt2"),
    "WordPiece": WordPieceTokenizer.of(TEXT, 40),
    "Unigram": UnigramTokenizer.of(TEXT, 40),
}


def description(kind="BPE", **changes):
    return json.loads(json.dumps(published(OWN[kind]).description)) | changes


def added(name, number, **options):
    return dict(dict(id=number, content=name, single_word=False, lstrip=False, rstrip=False,
                     normalized=False, special=True), **options)


# ---- added tokens and templates ------------------------------------------------------------------


ADDED = [added("<end>", 266), added("<x>", 267), added("<a>", 268, lstrip=True),
         added("<ab>", 269, rstrip=True, special=False), added("Éa", 270, normalized=True),
         added("<a><b>", 271), added("  ", 272, special=False)]
TEXTS = ["<a>", "a <a> b", "a  \n<a><ab> \t b<ab>", "<a><b><a>", "\u00c9a E\u0301a \u00e9a", "<a",
         "x<x>x", " <ab>   <a> ", "   ", "a   b", "<x><x> <x>", "<ab>    <a>", "\u3000<a>"]


def test_added_tokens_are_found_in_texts():
    n = len(OWN["BPE"])
    assert n == 268
    ours = PublishedTokenizer(description(added_tokens=ADDED, normalizer={"type": "NFC"}))
    assert ours.special == ("<end>", "<x>", "<a>", "Éa", "<a><b>") and len(ours) == n + 5
    assert ours.encode("\u00c9aE\u0301a").tolist() == [270, 270]
    assert ours.encode(" \n<a><a><b>  <ab> \n<x>").tolist() == [268, 271, 272, 269, 267]
    assert ours.decode([267, 270, 268]) == "<x>\ufffda<a>", "É is a byte of GPT-2's"
    assert ours.special_id("<a>") == 268
    assert ours.encode_with(["<x>"], "a<x>").tolist() == ours.encode("a<x>").tolist()


def test_the_witness_finds_the_same_added_tokens():
    tokenizers = pytest.importorskip("tokenizers")
    for normalizer in (None, {"type": "NFC"}, {"type": "Lowercase"}):
        facts = description(added_tokens=ADDED, normalizer=normalizer)
        theirs, ours = tokenizers.Tokenizer.from_str(json.dumps(facts)), PublishedTokenizer(facts)
        for text in TEXTS:
            ids = ours.encode(text).tolist()
            assert ids == theirs.encode(text).ids, ascii(text)
            assert ours.decode(ids) == theirs.decode(ids, skip_special_tokens=False)


def special(name, segment=0):
    return {"SpecialToken": {"id": name, "type_id": segment}}


def sequence(name, segment=0):
    return {"Sequence": {"id": name, "type_id": segment}}


ENDS = {"<end>": {"id": "<end>", "ids": [266], "tokens": ["<end>"]},
        "two": {"id": "two", "ids": [267, 266], "tokens": ["<x>", "<end>"]}}
TEMPLATE = {"type": "TemplateProcessing", "single": [special("two"), sequence("A", 3)],
            "pair": [sequence("B"), special("<end>", 2), sequence("A", 1)], "special_tokens": ENDS}
PAIRS = dict(sep=["<end>", 266], cls=["<x>", 267])
PROCESSORS = [
    None, {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False}, TEMPLATE,
    {"type": "BertProcessing", **PAIRS},
    {"type": "RobertaProcessing", **PAIRS, "trim_offsets": True, "add_prefix_space": False},
    {"type": "Sequence", "processors": [{"type": "ByteLevel", "add_prefix_space": True,
                                         "trim_offsets": False, "use_regex": True}, TEMPLATE]}]


@pytest.mark.parametrize("processor", PROCESSORS)
def test_templates_frame_one_text_or_two(processor):
    facts = description(post_processor=processor)
    ours = PublishedTokenizer(facts)
    first, second = ours.encode("the cat"), ours.encode("a mat")
    framed = [ours.frame(first), ours.frame(first, second), ours.frame(first[:0])]
    if processor is TEMPLATE:
        assert framed[0][0].tolist() == [267, 266, *first]
        assert framed[1][1].tolist() == [0] * len(second) + [2] + [1] * len(first)
    assert all(ids.shape == segments.shape and ids.dtype == np.int64 for ids, segments in framed)
    tokenizers = pytest.importorskip("tokenizers")
    theirs = tokenizers.Tokenizer.from_str(json.dumps(facts))
    for (ids, segments), wanted in zip(framed, (
            theirs.encode("the cat"), theirs.encode("the cat", "a mat"), theirs.encode(""))):
        assert ids.tolist() == wanted.ids
        if processor is None or processor["type"] != "Sequence" or len(ids) != len(first):
            assert segments.tolist() == wanted.type_ids


# ---- byte pairs of characters --------------------------------------------------------------------


def characters(*tokens, merges=(), suffix=None, **steps):
    """A tokenizer of these tokens as LLaMA has them, or with a suffix as GPT-1."""
    ids = {token: i for i, token in enumerate(
        ["<unk>", *(f"<0x{byte:02X}>" for byte in range(0 if suffix else 256)), *tokens])}
    spaces = {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}
    strip = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
    model = dict(type="BPE", unk_token="<unk>", byte_fallback=not suffix, fuse_unk=True,
                 end_of_word_suffix=suffix, vocab=ids, merges=list(merges))
    steps = dict(
        normalizer=None, post_processor=None, pre_tokenizer={
            "type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": False},
        decoder={"type": "Sequence", "decoders": [
            spaces, {"type": "ByteFallback"}, {"type": "Fuse"}, strip]}) | steps
    return PublishedTokenizer(description(added_tokens=[added("<unk>", 0)], model=model) | steps)


def test_unknown_characters_are_bytes():
    ours = characters("▁", "a", "▁a", "b", merges=["▁ a"])
    ids = ours.encode("a é<unk>a")
    assert [ours.tokens[i] for i in ids] == ["▁a", "▁", "<0xC3>", "<0xA9>", "<unk>", "a"]
    assert ours.decode(ids) == "a é<unk>a" and ours.n_characters(ids) is None
    assert ours.decode(ids[:3]) == "a \ufffd"
    assert list(ours.decode_stream(ids)) == ["a", " ", "", "", "é<unk>", "a", ""]
    assert "".join(ours.decode_stream(ids[1:], ids[:1])) == " é<unk>a"


def test_long_texts_are_cut_where_no_merge_joins_them():
    ours = characters("▁", "a", "b", "▁a", "ab", "▁ab", "▁▁", "ba",
                      merges=["▁ a", "▁a b", "▁ ▁", "a b", "b a"])
    for n in (3, 300):                                # of 21 characters, and of 2100
        assert [ours.tokens[i] for i in ours.encode("ab ba  " * n)] == [
            *["▁ab", "▁", "ba", "▁"] * (n - 1), "▁ab", "▁", "ba", "▁▁"]


def test_words_end_with_a_suffix():
    ours = characters("t", "o", "o</w>", "to</w>", "b", "e</w>", suffix="</w>", decoder={
        "type": "BPEDecoder", "suffix": "</w>"}, pre_tokenizer={"type": "BertPreTokenizer"},
        merges=["t o</w>"])
    ids = ours.encode("to be tt")
    assert [ours.tokens[i] for i in ids] == ["to</w>", "b", "e</w>", "t", "<unk>"]
    assert ours.decode(ids) == "to be t<unk>"
    assert "".join(ours.decode_stream(ids)) == ours.decode(ids)


# ---- files ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", OWN)
def test_a_folder_and_a_run_give_the_tokenizer_back(kind, tmp_path):
    tokenizer = published(OWN[kind])
    save_tokenizer(OWN[kind], tmp_path)
    for again in (load_tokenizer(tmp_path), pickle.loads(pickle.dumps(tokenizer)),
                  tokenizer_from_json(json.loads(json.dumps(tokenizer.to_json())))):
        assert again.to_json() == tokenizer.to_json() and len(again) == len(OWN[kind])
        assert again.encode(TEXT).tolist() == OWN[kind].encode(TEXT).tolist()
    assert repr(tokenizer) == f"PublishedTokenizer({kind}, {len(tokenizer)} ids)"


def test_the_older_files_of_gpt2(tmp_path):
    own = BytePairTokenizer.of(TEXT, 20, ("<|endoftext|>",), split="gpt2", order="gpt2")
    model = published(own).description["model"]
    (tmp_path / "vocab.json").write_text(json.dumps(model["vocab"]))
    (tmp_path / "merges.txt").write_text("#version: 0.2\n" + "\n".join(
        map(" ".join, model["merges"])) + "\n", encoding="utf-8")
    assert load_tokenizer(tmp_path).to_json() == published(own).to_json()
    (tmp_path / "merges.txt").write_text("#version: 0.2\nt h\nth e</w>\n")
    with pytest.raises(ValueError, match="vocab.json: its merges end words with '</w>'"):
        load_tokenizer(tmp_path)
    (tmp_path / "vocab.json").write_text('{"a": 0}')
    with pytest.raises(ValueError, match="vocab.json: it has no '<.endoftext.>'"):
        load_tokenizer(tmp_path)
    (tmp_path / "merges.txt").unlink()
    (tmp_path / "vocab.json").write_text(json.dumps(model["vocab"]))
    with pytest.raises(FileNotFoundError, match="merges.txt"):
        load_tokenizer(tmp_path)


@pytest.mark.parametrize("lowercase", [None, True, False])
def test_the_older_files_of_bert(tmp_path, lowercase):
    own = WordPieceTokenizer.of(TEXT, 40, lowercase=lowercase is not False)
    (tmp_path / "vocab.txt").write_text("\n".join([*own.special, *own.tokens]) + "\n")
    if lowercase is not None:
        (tmp_path / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": lowercase}))
    ours = load_tokenizer(tmp_path)
    assert ours.to_json() == published(own).to_json()
    assert ours.encode("The [MASK]").tolist() == [*own.encode("The"), own.special_id("[MASK]")]
    assert ours.frame([7])[0].tolist() == [2, 7, 3]
    for text, words in (("a\na\n[UNK]", "twice"), ("a\n", "no '.UNK.'")):
        (tmp_path / "vocab.txt").write_text(text)
        with pytest.raises(ValueError, match=f"vocab.txt: it holds .*{words}"):
            load_tokenizer(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": 1}')
    (tmp_path / "vocab.txt").write_text("[UNK]")
    with pytest.raises(ValueError, match="do_lower_case"):
        load_tokenizer(tmp_path)


def test_a_folder_without_a_tokenizer(tmp_path):
    with pytest.raises(FileNotFoundError, match="holds no tokenizer: neither tokenizer.json"):
        load_tokenizer(tmp_path)


@pytest.mark.parametrize("tokenizer, words", [
    (CharacterTokenizer("ab"), "CharacterTokenizer has no"), (WordTokenizer(["a"]), "WordToken"),
    (BytePairTokenizer([]), "split='ascii' has no published form"), ("text", "str has no"),
    (BytePairTokenizer([(97, 97), (97, 256), (256, 97)], split="gpt2"), "the same bytes")])
def test_what_has_no_published_form_is_refused(tokenizer, words, tmp_path):
    with pytest.raises(ValueError, match=words):
        save_tokenizer(tokenizer, tmp_path)
    assert list(tmp_path.iterdir()) == []


# ---- texts that come one token at a time ---------------------------------------------------------


@pytest.mark.parametrize("kind", OWN)
def test_streams_join_to_the_text(kind):
    ours = published(OWN[kind])
    ids = ours.encode("the cats sat, für漢 the mat")
    assert "".join(ours.decode_stream(ids)) == ours.decode(ids)
    assert (ours.decode(ids[:3]) + "".join(ours.decode_stream(ids[3:], ids[:3]))
            == ours.decode(ids))


def test_characters_are_counted_where_texts_come_back():
    text = "the für漢 <end>cat"
    ours = published(OWN["BPE"])
    assert ours.n_characters(ours.encode(text)) == len(text) - len("<end>")
    assert published(OWN["WordPiece"]).n_characters([5]) is None
    assert PublishedTokenizer(description(normalizer={"type": "NFC"})).n_characters([5]) is None
    assert ours.decode(ours.encode("\ud800")) == "\ud800"
