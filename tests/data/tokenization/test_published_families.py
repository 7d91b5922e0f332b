"""The second witness for whole families: the folders that Transformers writes, and rare options."""

import json
import random
from base64 import b64encode

import pytest

from byte_pair_files import published_file
from odd_texts import ODD, prose, texts
from numformer.data import (
    BytePairTokenizer, PublishedTokenizer, UnigramTokenizer, WordPieceTokenizer, load_tokenizer)
from numformer.data.tokenizers.published import published
from test_charsmap import MAP

tokenizers = pytest.importorskip("tokenizers")

PROSE = prose()[:60_000]
BYTES = published(BytePairTokenizer.of(PROSE, 400, ("<|endoftext|>",), split="gpt2",
                                       order="gpt2")).description["model"]
MERGES = [tuple(pair) for pair in BYTES["merges"]]
ROBERTA = {name: len(BYTES["vocab"]) + i
           for i, name in enumerate(("<s>", "<pad>", "</s>", "<unk>", "<mask>"))}
PIECES = UnigramTokenizer.of(PROSE, 300)
SCORES = list(zip(PIECES.tokens, PIECES.scores))
WORDS = WordPieceTokenizer.of(PROSE, 300)


def vocabulary(name):
    model = published_file(name)["model"]
    merges = [tuple(pair.split(" ") if isinstance(pair, str) else pair) for pair in model["merges"]]
    return dict(vocab=model["vocab"], merges=merges)


FAMILIES = {
    "GPT2Tokenizer": dict(vocab=BYTES["vocab"], merges=MERGES),
    "Qwen2Tokenizer": dict(vocab=BYTES["vocab"], merges=MERGES),
    "RobertaTokenizer": dict(vocab=BYTES["vocab"] | ROBERTA, merges=MERGES),
    "GPTNeoXTokenizer": dict(vocab=BYTES["vocab"], merges=MERGES),
    "LlamaTokenizer": vocabulary("llama2"),
    "GemmaTokenizer": vocabulary("gemma"),
    "CLIPTokenizer": vocabulary("clip"),
    "OpenAIGPTTokenizer": vocabulary("gpt1"),
    "BertTokenizer": dict(vocab={token: i for i, token in enumerate(
        (*WORDS.special, *WORDS.tokens))}),
    "T5Tokenizer": dict(vocab=[(name, 0.0) for name in PIECES.special] + SCORES),
    "AlbertTokenizer": dict(vocab=[(name, 0.0) for name in (
        "<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]")] + SCORES),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("family", FAMILIES)
def test_a_folder_of_transformers_gives_its_ids(family, tmp_path):
    transformers = pytest.importorskip("transformers", minversion="5.0")
    theirs = getattr(transformers, family)(**FAMILIES[family])
    theirs.save_pretrained(tmp_path)
    ours = load_tokenizer(tmp_path)
    for text in [PROSE, *ODD, "".join(ODD), *random.Random(6).sample(list(texts(old=True)), 60)]:
        assert ours.frame(ours.encode(text))[0].tolist() == theirs(text)["input_ids"]
    both = ours.frame(ours.encode("a b"), ours.encode("c"))[0]
    assert both.tolist() == theirs("a b", "c")["input_ids"]
    assert set(theirs.all_special_tokens) <= set(ours.special)


def same(facts, cases):
    theirs, ours = tokenizers.Tokenizer.from_str(json.dumps(facts)), PublishedTokenizer(facts)
    for text in cases:
        ids = ours.encode(text)
        assert ids.tolist() == theirs.encode(text, add_special_tokens=False).ids, ascii(text[:60])
        assert ours.decode(ids) == theirs.decode(ids.tolist(), skip_special_tokens=False)


CASES = ["".join(ODD), PROSE[:5000], *ODD, *random.Random(7).sample(list(texts(old=True)), 100)]


def described(own, **changes):
    return json.loads(json.dumps(published(own).description)) | changes


@pytest.mark.parametrize("whole", [False, True])
def test_whole_words_and_several_merges_that_make_one_token(whole):
    """Llama 3's file: a word that is a token needs no merges, and many pairs make one token."""
    mix = random.Random(8)
    tokens = ["".join(mix.choices("abc", k=k)) for k in (2, 2, 2, 3, 3, 3, 4, 4, 5, 5) * 4]
    tokens = list(dict.fromkeys(tokens + [token[:k] for token in tokens for k in (2, 3, 4)]))
    ids = {token: i for i, token in enumerate(
        [token for token in BYTES["vocab"] if len(token) == 1] + [
            token for token in tokens if len(token) > 1])}
    merges = [[token[:k], token[k:]] for token in ids for k in range(1, len(token))
              if token[:k] in ids and token[k:] in ids]
    mix.shuffle(merges)
    model = BYTES | dict(vocab=ids, merges=merges, ignore_merges=whole)
    own = BytePairTokenizer.of(PROSE, 1, split="gpt2", order="gpt2")
    cases = ["".join(mix.choices("aabbc ", k=mix.randrange(60))) for _ in range(2000)]
    same(described(own, model=model), cases)
    same(described(own, model=model | dict(merges=[" ".join(pair) for pair in merges])), cases)


@pytest.mark.parametrize("single", [False, True])
def test_digits_as_smollm_splits_them(single):
    own = BytePairTokenizer.of(PROSE, 300, split="gpt2", order="gpt2")
    bytes_alone = described(own)["pre_tokenizer"]
    same(described(own, pre_tokenizer={"type": "Sequence", "pretokenizers": [
        {"type": "Digits", "individual_digits": single}, bytes_alone]}), CASES)


def test_unigram_with_bytes_and_a_map_of_characters():
    rows = [["<unk>", 0.0], *([f"<0x{byte:02X}>", -20.0] for byte in range(256)),
            *map(list, SCORES)]
    own = described(PIECES, added_tokens=[], model=dict(
        type="Unigram", unk_id=0, vocab=rows, byte_fallback=True))
    same(own, CASES)
    steps = {"type": "Sequence", "normalizers": [
        {"type": "Precompiled", "precompiled_charsmap": b64encode(MAP).decode()},
        {"type": "Strip", "strip_left": False, "strip_right": True},
        {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "▁"}]}
    same(own | dict(normalizer=steps), CASES)
    same(described(PIECES, normalizer=steps["normalizers"][0]), CASES)


@pytest.mark.parametrize("normalizer", [
    {"type": "Lowercase"}, {"type": "NFD"}, {"type": "NFKC"}, {"type": "StripAccents"},
    {"type": "Prepend", "prepend": "▁"}, {"type": "Strip", "strip_left": True,
                                          "strip_right": False},
    {"type": "BertNormalizer", "clean_text": False, "handle_chinese_chars": False,
     "strip_accents": True, "lowercase": False}])
@pytest.mark.parametrize("own", [PIECES, WORDS], ids=["unigram", "wordpiece"])
def test_normalizers(own, normalizer):
    same(described(own, normalizer=normalizer), CASES)


def test_splitting_by_spaces_alone_and_no_decoder():
    same(described(WORDS, pre_tokenizer={"type": "WhitespaceSplit"}, decoder=None), CASES)
    same(described(WORDS, pre_tokenizer=None, decoder={"type": "WordPiece", "prefix": "##",
                                                       "cleanup": False}), CASES)
    for scheme in ("never", "first"):
        meta = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": False}
        same(described(PIECES, pre_tokenizer=meta, decoder=meta), [*CASES, "</s>a</s> a", "a</s>"])


@pytest.mark.parametrize("own", [PIECES, WORDS], ids=["unigram", "wordpiece"])
def test_older_files_do_not_name_the_type_of_the_model(own):
    facts = described(own)
    del facts["model"]["type"]
    same(facts, CASES)
