"""What a tokenizer.json may not hold is refused in one short line that names it."""

import json
from copy import deepcopy

import pytest

from numformer.data import (
    BytePairTokenizer, PublishedTokenizer, UnigramTokenizer, WordPieceTokenizer, load_tokenizer,
    tokenizer_from_json)
from numformer.data.tokenizers.published import published

TEXT = "the cat sat on the mat " * 3
KINDS = {
    "BPE": BytePairTokenizer.of(TEXT, 10, ("<end>",), split="llama3", order="gpt2"),
    "WordPiece": WordPieceTokenizer.of(TEXT, 30),
    "Unigram": UnigramTokenizer.of(TEXT, 30),
}
STEPS = [{"type": "Replace", "pattern": {"String": "a"}, "content": "b"}, {"type": "NFC"},
         {"type": "Strip", "strip_left": True, "strip_right": False},
         {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True,
          "strip_accents": None, "lowercase": True}, {"type": "Prepend", "prepend": "x"}]
VALUES = (None, True, 7, -1, 1.5, "x", [], {}, [[]], [{}], {"type": []}, "\ud800")


def description(kind="BPE", **changes):
    steps = {"normalizer": {"type": "Sequence", "normalizers": STEPS}}
    return deepcopy(published(KINDS[kind]).description | steps | changes)


def model(kind="BPE", **changes):
    return description(kind, model=description(kind)["model"] | changes)


def split(regex):
    return {"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": False},
        {"type": "ByteLevel", "use_regex": False}]}


def refused(facts):
    """The message, one short line."""
    with pytest.raises(ValueError) as caught:
        PublishedTokenizer(facts)
    message = str(caught.value)
    assert message.startswith("tokenizer.json: ") and len(message) < 300 and "\n" not in message
    return message


def objects(facts, path=()):
    """(path, object or list) of all that a description holds, but for vocabularies."""
    if isinstance(facts, (dict, list)) and (not path or path[-1] not in ("vocab", "merges")):
        yield path, facts
        for key in (facts if isinstance(facts, dict) else range(len(facts))):
            yield from objects(facts[key], (*path, key))


def at(facts, path):
    for key in path:
        facts = facts[key]
    return facts


@pytest.mark.parametrize("kind", KINDS)
def test_an_unknown_field_of_any_object_is_refused(kind):
    for path, found in objects(description(kind)):
        if isinstance(found, dict) and path[-1:] != ("special_tokens",):
            facts = description(kind)
            at(facts, path)["colour"] = None
            assert "unknown field 'colour'" in refused(facts)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_any_other_value_is_refused_or_is_a_tokenizer(kind):
    """No error but ValueError, whatever a field holds; a field that is missing, too."""
    for path, found in objects(description(kind)):
        for key in (found if isinstance(found, dict) else range(len(found))):
            for value in (None, True, 7, -1, 1.5, "x", [], {}, [[]], [{}], {"type": []}, "\ud800"):
                facts = description(kind)
                at(facts, path)[key] = value
                try:
                    PublishedTokenizer(facts).encode("the cat <end> für 漢")
                except ValueError as error:
                    assert len(str(error)) < 300 and "\n" not in str(error), error
            facts = description(kind)
            del at(facts, path)[key]
            try:
                PublishedTokenizer(facts).encode("the cat")
            except ValueError as error:
                assert len(str(error)) < 300 and "\n" not in str(error), error


@pytest.mark.parametrize("facts, words", [
    (description(version="2.0"), "it has version='2.0'"),
    (description(normalizer={"type": "Nmt"}), "normalizer has the type 'Nmt'"),
    (description(normalizer={"type": "Replace", "pattern": {"Regex": "a$"}, "content": ""}),
     "normalizer Replace: the regex 'a$' is not supported from '$' on"),
    (description(normalizer={"type": "Replace", "pattern": {"Regex": ""}, "content": ""}),
     "empty pattern"),
    (description(normalizer={"type": "Replace", "content": "", "pattern": {
        "Regex": "a", "String": "a"}}), "empty pattern, or two"),
    (description(pre_tokenizer={"type": "Punctuation"}), "the type 'Punctuation'"),
    (description("WordPiece", pre_tokenizer=description()["pre_tokenizer"]), "fit the model Word"),
    (description(pre_tokenizer={"type": "Sequence", "pretokenizers": [
        {"type": "ByteLevel"}, {"type": "WhitespaceSplit"}]}), "ByteLevel is supported at the end"),
    (description(pre_tokenizer=split(r"\w+")), r"the regex '\\w+' is not supported from '\\w+' on"),
    (description(pre_tokenizer=split(r"a\p{Han}")), "from '\\\\p{Han}' on"),
    (description(pre_tokenizer=split(r"[a\p{Xx}]")), r"class \p{Xx} is not supported"),
    (description(pre_tokenizer=split("a*")), "the regex 'a*' is not supported"),
    (description(pre_tokenizer=split("a")["pretokenizers"][0] | {"behavior": "Joined"}),
     "behavior='Joined'"),
    (description("Unigram", normalizer={"type": "NFC"}, pre_tokenizer={
        "type": "Metaspace", "prepend_scheme": "first"}), "after a normalizer or another step"),
    (description("Unigram", normalizer=None, pre_tokenizer={"type": "Sequence", "pretokenizers": [
        {"type": "WhitespaceSplit"}, {"type": "Metaspace", "prepend_scheme": "first"}]}),
     "after a normalizer or another step"),
    (description("Unigram", pre_tokenizer={"type": "Metaspace", "prepend_scheme": "last"}),
     "prepend_scheme='last'"),
    (description("Unigram", pre_tokenizer={
        "type": "Metaspace", "prepend_scheme": "always", "add_prefix_space": False}),
     "add_prefix_space=False, which contradicts prepend_scheme='always'"),
    (description(model={"vocab": {}}), "model has the type None"),
    (description(decoder={"type": "CTC"}), "decoder has the type 'CTC'"),
    (description(decoder={"type": "BPEDecoder", "suffix": ""}), "BPEDecoder has an empty suffix"),
    (description(decoder={"type": "Strip", "content": "ab", "start": 1, "stop": 0}),
     "decoder Strip must have one character"),
    (description(decoder={"type": "Strip", "content": "a", "start": -1, "stop": 0}), "negative"),
    (description(decoder={"type": "Sequence", "decoders": [{"type": "WordPiece"}, {
        "type": "Fuse"}]}), "WordPiece is supported at the end"),
    (description(decoder={"type": "Sequence", "decoders": [{"type": "Fuse", "by": ""}]}),
     "decoder Fuse has the unknown field 'by'"),
    (model(type="WordLevel"), "model has the type 'WordLevel'"),
    (model(dropout=0.1), "dropout=0.1"), (model(byte_fallback=1), "byte_fallback=1"),
    (model(continuing_subword_prefix="é"), "characters of ASCII"),
    (description(pre_tokenizer=None, model=description()["model"] | dict(unk_token="?!")),
     "does not hold unk_token='?!'"),
    (model(continuing_subword_prefix="#", unk_token="a"), "is no pair of two tokens"),
    (model(vocab={"a": 0, "b": 2}), "without gaps"), (model(vocab={"a": True}), "without gaps"),
    (model(vocab={"a": 0}, merges=[], unk_token="?!"), "does not hold unk_token='?!'"),
    (model(merges=["a b c"]), "merge 0"), (model(merges=[["q", "z"]]), "merge 0"),
    (model(merges=[7]), "merge 0"), (model(merges=2 * description()["model"]["merges"]), "twice"),
    (model("WordPiece", unk_token="none"), "unk_token='none'"),
    (model("Unigram", vocab=[]), "at least one"), (model("Unigram", unk_id=99), "unk_id=99"),
    (model("Unigram", vocab=[["a", 0.0], ["a", -1.0]]), "a token twice"),
    (description(added_tokens=[dict(id=0, content="<x>", normalized=False, special=True)]),
     "'<x>' has the id 0, but gets 267"),
    (description(added_tokens=[dict(id=266, content="<end>", normalized=False, special=True,
                                    single_word=True)]), "single_word=True"),
    (description(normalizer={"type": "Lowercase"}, added_tokens=[
        dict(id=267 + i, content=name, normalized=True, special=True)
        for i, name in enumerate(("<X>", "<x>"))]), "'<x>' is another one when it is normalized"),
    (description(post_processor={"type": "BertProcessing", "sep": ["<end>", 1], "cls": ["a", 0]}),
     "names no tokens"),
    (description(post_processor={"type": "TemplateProcessing", "single": [], "pair": [],
                                 "special_tokens": {}}), "must hold each text once"),
    ([], "it must be an object"), (description(padding=True), "padding=True")])
def test_what_is_not_supported_is_named(facts, words):
    assert words in refused(facts)


def test_broken_files_are_one_line(tmp_path):
    path = tmp_path / "tokenizer.json"
    whole = json.dumps(description())
    for text in (*(whole[:n] for n in range(0, len(whole), 97)), "[]", "7", "[" * 10**6, "\0",
                 '{"version": 1e999}', '{"version": "1.0", "version": "1.0"}', '{"a": NaN}'):
        path.write_text(text)
        with pytest.raises(ValueError) as caught:
            load_tokenizer(tmp_path)
        message = str(caught.value)
        assert message.startswith(f"{path}: ") and "\n" not in message
        assert len(message) < len(str(path)) + 300
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match="codec"):
        load_tokenizer(tmp_path)
    path.write_text(whole)
    assert load_tokenizer(tmp_path).description == description()
    path.unlink()
    path.mkdir()
    with pytest.raises(OSError):
        load_tokenizer(tmp_path)


@pytest.mark.parametrize("facts, words", [
    ({}, "needs 'description'"), ({"description": 1}, "it must be an object"),
    ({"description": {}, "special": []}, "has no .'special'"),
    ({"description": {}}, "it has no field 'added_tokens'|it has version")])
def test_runs_with_broken_descriptions_are_refused(facts, words):
    with pytest.raises(ValueError, match=words):
        tokenizer_from_json({"kind": "published", **facts})
