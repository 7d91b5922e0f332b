"""Byte pairs of published models: the ids and texts of Tokenizers, whatever the text."""

import json
import random

import pytest

from byte_pair_files import (
    FILES, PREPEND, added, byte_level, described, ids_of, metaspace, published_file, replace, split)
from odd_texts import prose, texts
from numformer.data import PublishedTokenizer, load_tokenizer, save_tokenizer
from numformer.data.tokenizers.published import byte_pairs
from test_published_refusals import at, objects

tokenizers = pytest.importorskip("tokenizers")


VARIANTS = ("llama-always", "llama-never", "unknown", "unknown-fused", "gemma-whole", "prefix",
            "roberta-space")


@pytest.fixture(params=FILES, scope="module")
def both(request):
    return either(published_file(request.param))


def either(facts):
    return tokenizers.Tokenizer.from_str(json.dumps(facts)), PublishedTokenizer(facts)


def same(theirs, ours, text):
    ids = ours.encode(text)
    assert ids.tolist() == theirs.encode(text, add_special_tokens=False).ids, ascii(text[:60])
    assert ours.decode(ids) == theirs.decode(ids.tolist(), skip_special_tokens=False)


def names(ours):
    """Texts with the names of added tokens, at their beginning too."""
    found = [token["content"] for token in ours.description["added_tokens"]]
    mix = random.Random(3)
    yield from ("".join(mix.choices([*found, " ", "a", "to be", "\n", "é", "▁"], k=k))
                for k in range(1, 40))


@pytest.mark.parametrize("name", [
    pytest.param(name, marks=[pytest.mark.slow] * (name in VARIANTS)) for name in FILES])
def test_one_megabyte_has_the_same_ids(name):
    same(*either(published_file(name)), prose())


def test_hostile_texts_have_the_same_ids(both):
    for text in texts(old=both[0].normalizer is not None):
        same(*both, text)
    for text in names(both[1]):
        same(*both, text)


def test_every_id_decodes_alike(both):
    theirs, ours = both
    assert len(ours) == theirs.get_vocab_size()
    mix = random.Random(4)
    for ids in ([], *([i] for i in range(len(ours))),
                *(mix.choices(range(len(ours)), k=8) for _ in range(500)),
                *(mix.choices(range(300), k=8) for _ in range(500))):
        assert ours.decode(ids) == theirs.decode(ids, skip_special_tokens=False)
        assert "".join(ours.decode_stream(ids)) == ours.decode(ids)


def test_templates_are_theirs(both):
    theirs, ours = both
    first, second = ours.encode("to be"), ours.encode("or not")
    for framed, wanted in ((ours.frame(first), theirs.encode("to be")),
                           (ours.frame(first, second), theirs.encode("to be", "or not"))):
        assert framed[0].tolist() == wanted.ids and framed[1].tolist() == wanted.type_ids


def test_what_is_saved_loads_there_and_here(both, tmp_path):
    _, ours = both
    save_tokenizer(ours, tmp_path)
    first = (tmp_path / "tokenizer.json").read_bytes()
    again = load_tokenizer(tmp_path)
    assert again.to_json() == ours.to_json()
    for text in (prose()[:20_000], *names(ours)):
        same(tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json")), again, text)
    save_tokenizer(again, tmp_path)
    assert (tmp_path / "tokenizer.json").read_bytes() == first


# ---- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["llama2", "gemma", "clip", "gpt1"])
def test_any_other_value_is_refused_or_is_a_tokenizer(name):
    """No error but ValueError, in one line, whatever a field holds, and if it is missing."""
    whole = json.dumps(published_file(name, 700))
    for path, found in objects(json.loads(whole)):
        for key in (found if isinstance(found, dict) else range(len(found))):
            for value in (None, True, -1, "x", [], {}, {"type": []}, "\ud800", ...):
                facts = json.loads(whole)
                at(facts, path)[key] = value
                if value is ...:
                    del at(facts, path)[key]
                try:
                    PublishedTokenizer(facts).encode("to be <s> \u6f22")
                except ValueError as error:
                    assert len(str(error)) < 300 and "\n" not in str(error), error


@pytest.mark.parametrize("name, path, value, words", [
    ("llama2", ("model", "unk_token"), "no", "does not hold unk_token='no'"),
    ("llama2", ("model", "dropout"), 0.1, "dropout=0.1"),
    ("llama2", ("normalizer", "normalizers", 0, "type"), "Nmt", "the type 'Nmt'"),
    ("llama2", ("decoder", "decoders", 1, "type"), "CTC", "decoder has the type 'CTC'"),
    ("llama2", ("pre_tokenizer",), metaspace("first"), "not supported after a normalizer"),
    ("llama-first", ("pre_tokenizer", "replacement"), "_", "replacement='_'"),
    ("llama1", ("post_processor", "special_tokens"), {}, "names '<s>'"),
    ("gemma", ("pre_tokenizer", "behavior"), "Merged", "behavior='Merged'"),
    ("clip", ("pre_tokenizer", "pretokenizers", 0, "pattern", "Regex"), r"\w+", "from '"),
    ("clip", ("model", "vocab"), {"a": 0}, "does not hold unk_token="),
    ("gpt1", ("pre_tokenizer", "type"), "UnicodeScripts", "the type 'UnicodeScripts'"),
    ("gpt1", ("decoder", "suffix"), "", "empty suffix"),
    ("bloom", ("post_processor", "type"), "Other", "the type 'Other'")])
def test_what_is_not_supported_is_named(name, path, value, words):
    facts = json.loads(json.dumps(published_file(name, 700)))
    at(facts, path[:-1])[path[-1]] = value
    with pytest.raises(ValueError, match=words) as caught:
        PublishedTokenizer(facts)
    assert len(str(caught.value)) < 300 and "\n" not in str(caught.value)


# ---- the model -----------------------------------------------------------------------------------


def random_pairs(mix):
    """Tokens of a, b, c, and all merges that make them, in any order; c and d may be unknown."""
    tokens = ["".join(mix.choices("abc", k=k)) for k in (2, 2, 2, 3, 3, 4, 4) * 3]
    ids = ids_of("<unk>", "a", "b", *["c"][:mix.randrange(2)], *tokens,
                 *(f"<0x{byte:02X}>" for byte in mix.choices((0x63, 0x64, 0xc3, 0xa9), k=4)))
    merges = [[token[:k], token[k:]] for token in tokens for k in range(1, len(token))
              if token[:k] in ids and token[k:] in ids]
    merges = list(map(list, dict.fromkeys(map(tuple, merges))))
    mix.shuffle(merges)
    return ids, merges


@pytest.mark.parametrize("unknown", [None, "<unk>"])
@pytest.mark.parametrize("fuse", [False, True])
@pytest.mark.parametrize("whole", [False, True])
def test_unknown_characters_and_long_words(unknown, fuse, whole, monkeypatch):
    monkeypatch.setattr(byte_pairs, "_LONG", 4)       # longer words are cut into parts
    mix = random.Random(6)
    for i in range(40):
        ids, merges = random_pairs(mix)
        both = either(described(ids, merges, [], unk_token=unknown, fuse_unk=fuse,
                                ignore_merges=whole, byte_fallback=i % 2 == 0))
        for k in range(40):
            same(*both, "".join(mix.choices("aabbbccd\u00e9", k=k)))


def test_a_long_word_without_a_place_to_cut_it():
    mix = random.Random(7)
    pairs = [a + b for a in "abcdefgh" for b in "abcdefgh"]
    merges = [list(pair) for pair in pairs] + [[a, b] for a in pairs for b in pairs]
    mix.shuffle(merges)
    both = either(described(ids_of(*"abcdefgh", *map("".join, merges)), merges, []))
    for text in ("".join(mix.choices("abcdefgh", k=100_000)), "a" * 100_001):
        same(*both, text)


@pytest.mark.parametrize("invert", [False, True])
@pytest.mark.parametrize("behavior", ["Isolated", "Removed", "MergedWithPrevious",
                                      "MergedWithNext", "Contiguous"])
def test_splits_of_any_behavior(behavior, invert):
    facts, mix = published_file("llama-never", 700), random.Random(8)
    for pattern in ({"String": "a."}, {"Regex": r"\s|-+"}, {"Regex": r"(?=b)\P{L}|a(?!b)"}):
        both = either(facts | dict(pre_tokenizer=split(behavior, invert, **pattern)))
        for k in range(60):
            same(*both, "".join(mix.choices(["a", "b", ".", "-", " ", "a.", "\n"], k=k)))


@pytest.mark.parametrize("prefix, suffix", [("##", "</w>"), ("", "é"), ("##", "")])
@pytest.mark.parametrize("byte_fallback", [False, True])
def test_prefixes_with_suffixes(prefix, suffix, byte_fallback):
    ids = ids_of("?", *(before + token + after for token in ("a", "b", "ab", "ba", "abb")
                        for before in ("", prefix) for after in ("", suffix)),
                 *(f"<0x{byte:02X}>" for byte in range(256)))
    merges = [[left, prefix + right + after] for left in (
        "a", "b", "ab", prefix + "a", prefix + "b", prefix + "ab")
        for right in "ab" for after in dict.fromkeys(("", suffix))
        if left + right + after in ids]
    merges = [list(pair) for pair in dict.fromkeys(map(tuple, merges))]
    both = either(described(ids, merges, [], unk_token="?", byte_fallback=byte_fallback,
                            continuing_subword_prefix=prefix, end_of_word_suffix=suffix,
                            pre_tokenizer={"type": "WhitespaceSplit"}))
    mix = random.Random(9)
    for k in range(100):
        same(*both, "".join(mix.choices("aabbc é", k=k)))


STEPS = [replace("a", String="b"), replace("<>", Regex="[bc]+"), {"type": "ByteFallback"},
         {"type": "Fuse"}, {"type": "BPEDecoder", "suffix": "c"}, metaspace("first"),
         {"type": "Strip", "content": "b", "start": 2, "stop": 0},
         byte_level()]
END = {"type": "Strip", "content": "c", "start": 0, "stop": 1}        # theirs needs characters


def test_decoders_in_any_order():
    mix = random.Random(10)
    ids = ids_of("", "a", "b", "bbb", "cab", "▁", "▁a▁", "c", "c▁b", "<0x+F>", "<0x4>", "<0xC3>",
                 "<0xA9>", "<0xa9>", "<0x61>", "<0xFF>", "<0xG1>", "é", "Ġ")
    for _ in range(200):
        steps = mix.choices(STEPS, k=mix.randrange(5)) or [END]
        decoder = {"type": "Sequence", "decoders": steps}
        theirs, ours = either(described(ids, [], [], decoder=decoder))
        for k in range(1, 12):
            tokens = mix.choices(range(steps == [END], len(ids)), k=k)
            assert ours.decode(tokens) == theirs.decode(tokens), (decoder, tokens)


def test_names_at_the_beginning_of_a_text_that_gets_a_space():
    facts = published_file("llama-first", 700)
    ours = PublishedTokenizer(facts)
    assert ours.encode("<s>a").tolist() == [1, ours.ids["a"]]
    assert ours.encode("a<s>").tolist() == [*ours.encode("a"), 1] == [ours.ids["▁a"], 1]
    facts = published_file("llama2", 700) | dict(
        normalizer=PREPEND, added_tokens=[added("<s>", 1, True), added("a b", 2000)])
    with pytest.raises(ValueError, match="'a b' has the id 2000"):
        PublishedTokenizer(facts)


@pytest.mark.parametrize("name", ["clip", "llama2"])
def test_older_files_do_not_name_the_type_of_the_model(name):
    facts = json.loads(json.dumps(published_file(name, 700)))
    del facts["model"]["type"]
    same(*either(facts), prose()[:20_000])
    assert repr(PublishedTokenizer(facts)).startswith("PublishedTokenizer(BPE, ")


def test_streams_wait_for_bytes():
    ours = PublishedTokenizer(published_file("llama2", 700))
    ids = [ours.ids[token] for token in ("▁a", "<0xE6>", "<0xBC>", "<0xA2>", "b", "<0xE6>")]
    assert list(ours.decode_stream(ids)) == ["a", "", "", "", "漢b", "", "\ufffd"]
    assert "".join(ours.decode_stream(ids[1:], ids[:1])) == "漢b\ufffd"
    assert list(ours.decode_stream([ids[0]], ids[:1])) == [" a", ""]


def test_characters_are_counted_only_where_texts_come_back():
    for name in FILES:
        ours = PublishedTokenizer(published_file(name, 700))
        found = ours.n_characters(ours.encode(" to be, für \u6f22"))
        assert found == (13 if name in ("roberta", "smollm", "bloom") else None), name
