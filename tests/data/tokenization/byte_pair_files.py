"""The tokenizer.json of published models with byte pairs, but for vocabularies trained here."""

import json
from functools import lru_cache

import pytest

from odd_texts import ODD, prose
from test_regexes import BLOOM_REGEX, CLIP_REGEX

tokenizers = pytest.importorskip("tokenizers")
from tokenizers import models, normalizers, pre_tokenizers, trainers  # noqa: E402


# ---- parts ---------------------------------------------------------------------------------------


def added(name, number, normalized=False, special=True, lstrip=False):
    return dict(id=number, content=name, single_word=False, lstrip=lstrip, rstrip=False,
                normalized=normalized, special=special)


def sequence(**parts):
    (kind, steps), = parts.items()
    return {"type": "Sequence", kind: steps}


def replace(content, **pattern):
    return {"type": "Replace", "pattern": pattern, "content": content}


def split(behavior, invert=False, **pattern):
    return {"type": "Split", "pattern": pattern, "behavior": behavior, "invert": invert}


def byte_level(space=False, trim=True, **options):
    return {"type": "ByteLevel", "add_prefix_space": space, "trim_offsets": trim, **options}


def metaspace(scheme, split=False):
    return {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": split}


def template(begin, end=()):
    """Around each text: the tokens of {name: id} before it, and after it."""
    def row(*names):
        return [part for segment, name in enumerate(names) for part in (
            *({"SpecialToken": {"id": token, "type_id": segment}} for token in begin),
            {"Sequence": {"id": name, "type_id": segment}},
            *({"SpecialToken": {"id": token, "type_id": segment}} for token in end))]
    special = {token: {"id": token, "ids": [i], "tokens": [token]}
               for token, i in (dict(begin) | dict(end)).items()}
    return {"type": "TemplateProcessing", "single": row("A"), "pair": row("A", "B"),
            "special_tokens": special}


def described(ids, merges, added_tokens, normalizer=None, pre_tokenizer=None, post_processor=None,
              decoder=None, **options):
    model = dict(type="BPE", dropout=None, unk_token=None, continuing_subword_prefix=None,
                 end_of_word_suffix=None, fuse_unk=False, byte_fallback=False, ignore_merges=False,
                 vocab=ids, merges=merges)
    return dict(version="1.0", truncation=None, padding=None, added_tokens=added_tokens,
                normalizer=normalizer, pre_tokenizer=pre_tokenizer, post_processor=post_processor,
                decoder=decoder, model=model | options)


# ---- vocabularies --------------------------------------------------------------------------------


@lru_cache
def trained(kind, n_tokens):
    """(tokens, merges) of byte pairs by Tokenizers, from prose and odd texts."""
    own, options = tokenizers.Tokenizer(models.BPE()), {}
    if kind == "characters":
        own.pre_tokenizer = pre_tokenizers.Metaspace()
    elif kind == "texts":                                             # tokens of several words
        own.normalizer = normalizers.Replace(" ", "▁")
        own.pre_tokenizer = pre_tokenizers.Split("\n", "isolated")
    elif kind == "bytes":
        own.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        options["initial_alphabet"] = sorted(pre_tokenizers.ByteLevel.alphabet())
    elif kind == "clip":
        own.normalizer = normalizers.Lowercase()
        own.pre_tokenizer = pre_tokenizers.Sequence([
            pre_tokenizers.Split(tokenizers.Regex(CLIP_REGEX), "removed", invert=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False)])
        options["end_of_word_suffix"] = "</w>"
    else:
        own.normalizer = normalizers.BertNormalizer(lowercase=True)
        own.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        options["continuing_subword_prefix" if kind == "prefix" else "end_of_word_suffix"] = (
            "##" if kind == "prefix" else "</w>")
    own.train_from_iterator(
        [prose()[:200_000], 3 * "".join(ODD)],
        trainers.BpeTrainer(vocab_size=n_tokens, show_progress=False, **options))
    model = json.loads(own.to_str())["model"]
    return sorted(model["vocab"], key=model["vocab"].get), model["merges"]


def ids_of(*tokens):
    return {token: i for i, token in enumerate(dict.fromkeys(tokens))}


BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
FULL_BYTES = sorted(pre_tokenizers.ByteLevel.alphabet())


# ---- files ---------------------------------------------------------------------------------------


def spaces(*more):
    """The decoder of LLaMA's tokens."""
    return sequence(decoders=[replace(" ", String="▁"), {"type": "ByteFallback"}, {"type": "Fuse"},
                              *more])


STRIP = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
PREPEND = sequence(normalizers=[{"type": "Prepend", "prepend": "▁"}, replace("▁", String=" ")])


def llama(n_tokens, kind="characters", normalized=False, fuse=True, n_bytes=256, texts=None,
          **options):
    """LLaMA 2's, Mistral's, Mixtral's and TinyLlama's; LLaMA 1's names are normalized."""
    tokens, merges = trained(kind, n_tokens)
    ids = ids_of("<unk>", "<s>", "</s>", *BYTES[:n_bytes], *tokens)
    names = [added(name, i, normalized) for i, name in enumerate(("<unk>", "<s>", "</s>"))]
    return described(
        ids, [" ".join(pair) for pair in merges], names, post_processor=template({"<s>": 1}),
        **dict(normalizer=PREPEND, decoder=spaces(STRIP)) | (texts or {}), unk_token="<unk>",
        fuse_unk=fuse, byte_fallback=True, **options)


def gemma(n_tokens, **options):
    tokens, merges = trained("characters", n_tokens)
    special = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>"]
    ids = ids_of(*special, "\n\n", "▁▁", "<table>", *BYTES, *tokens)
    names = [added(name, i, special=i < 5) for name, i in list(ids.items())[:8]]
    return described(ids, merges, names, normalizer=replace("▁", String=" "),
                     pre_tokenizer=split("MergedWithPrevious", String=" "),
                     post_processor=template({"<bos>": 2}), decoder=spaces(), unk_token="<unk>",
                     fuse_unk=True, byte_fallback=True, **options)


def clip(n_tokens):
    tokens, merges = trained("clip", n_tokens)
    ids = ids_of(*FULL_BYTES, *(token + "</w>" for token in FULL_BYTES), *tokens,
                 "<|startoftext|>", "<|endoftext|>")
    first, end = len(ids) - 2, len(ids) - 1
    steps = [{"type": "NFC"}, replace(" ", Regex=r"\s+"), {"type": "Lowercase"}]
    return described(
        ids, merges, [added("<|startoftext|>", first, True), added("<|endoftext|>", end)],
        normalizer=sequence(normalizers=steps),
        pre_tokenizer=sequence(pretokenizers=[split("Removed", True, Regex=CLIP_REGEX),
                                              byte_level(use_regex=True)]),
        post_processor=dict(type="RobertaProcessing", sep=["<|endoftext|>", end],
                            cls=["<|startoftext|>", first], trim_offsets=False,
                            add_prefix_space=False),
        decoder=byte_level(True), unk_token="<|endoftext|>", continuing_subword_prefix="",
        end_of_word_suffix="</w>")


def gpt1(n_tokens, prefix=False):
    tokens, merges = trained("prefix" if prefix else "suffix", n_tokens)
    options = dict(continuing_subword_prefix="##") if prefix else dict(
        continuing_subword_prefix="", end_of_word_suffix="</w>")
    normalizer = {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True,
                  "strip_accents": None, "lowercase": True}
    return described(ids_of("<unk>", *tokens), merges, [added("<unk>", 0)], normalizer=normalizer,
                     pre_tokenizer={"type": "BertPreTokenizer"}, unk_token="<unk>",
                     decoder={"type": "WordPiece", "prefix": "##", "cleanup": True} if prefix else
                     {"type": "BPEDecoder", "suffix": "</w>"}, **options)


def byte_pairs(n_tokens, first=(), last=(), normalizer=None, pre_tokenizer=None, processor=None,
               **options):
    """Byte-level BPE with added tokens before the vocabulary and behind it."""
    tokens, merges = trained("bytes", n_tokens)
    ids = ids_of(*first, *tokens)
    names = [added(name, i) for i, name in enumerate(first)]
    names += [added(name, len(ids) + i, **facts) for i, (name, facts) in enumerate(last)]
    return described(ids, merges, names, normalizer, pre_tokenizer or byte_level(),
                     processor and processor({token["content"]: token["id"] for token in names}),
                     byte_level(True), **options)


def around(cls, sep, **options):
    return lambda ids: dict(type="RobertaProcessing", sep=[sep, ids[sep]], cls=[cls, ids[cls]],
                            **options)


ROBERTA = ("<s>", "<pad>", "</s>", "<unk>")
RUNS = [(" " * n, dict(normalized=True, special=False)) for n in range(24, 1, -1)]
DIGITS = {"type": "Digits", "individual_digits": True}
BERT = [("[UNK]", {}), ("[CLS]", {}), ("[SEP]", {}), ("[PAD]", {}), ("[MASK]", dict(lstrip=True))]
FIRST = dict(normalizer=None, pre_tokenizer=metaspace("first"))

FILES = {
    "llama2": llama,
    "llama1": lambda n: llama(n, normalized=True),
    "llama-first": lambda n: llama(n, texts=FIRST),
    "llama-always": lambda n: llama(n, texts=dict(normalizer=None, decoder=metaspace("always"),
                                                  pre_tokenizer=metaspace("always", True))),
    "llama-never": lambda n: llama(n, texts=dict(
        normalizer=None, pre_tokenizer=metaspace("never"), decoder=spaces())),
    "across-words": lambda n: llama(n, "texts", ignore_merges=True),
    "unknown": lambda n: llama(n, fuse=False, n_bytes=200),
    "unknown-fused": lambda n: llama(n, n_bytes=200),
    "gemma": gemma,
    "gemma-whole": lambda n: gemma(n, ignore_merges=True),
    "clip": clip,
    "gpt1": gpt1,
    "prefix": lambda n: gpt1(n, prefix=True),
    "roberta": lambda n: byte_pairs(
        n, ROBERTA, [("<mask>", dict(lstrip=True))], continuing_subword_prefix="",
        end_of_word_suffix="", processor=around("<s>", "</s>", trim_offsets=True,
                                                add_prefix_space=False)),
    "roberta-space": lambda n: byte_pairs(
        n, ROBERTA, [("<mask>", dict(lstrip=True))], pre_tokenizer=byte_level(True),
        processor=around("<s>", "</s>", trim_offsets=True, add_prefix_space=True)),
    "modernbert": lambda n: byte_pairs(
        n, (), [("|||IP_ADDRESS|||", dict(normalized=True, special=False)), *RUNS, *BERT],
        {"type": "NFC"}, processor=lambda ids: template({"[CLS]": ids["[CLS]"]},
                                                        {"[SEP]": ids["[SEP]"]})),
    "smollm": lambda n: byte_pairs(
        n, ("<|endoftext|>", "<|im_start|>", "<|im_end|>"),
        pre_tokenizer=sequence(pretokenizers=[DIGITS, byte_level(use_regex=True)])),
    "gpt-neox": lambda n: byte_pairs(n, ("<|endoftext|>", "<|padding|>"), RUNS, {"type": "NFC"},
                                     processor=lambda ids: byte_level(use_regex=True)),
    "bloom": lambda n: byte_pairs(
        n, ("<unk>", "<s>", "</s>", "<pad>"), pre_tokenizer=sequence(pretokenizers=[
            split("Isolated", Regex=BLOOM_REGEX), byte_level(use_regex=False)]),
        processor=lambda ids: byte_level(True, False, use_regex=False)),
}


@lru_cache
def published_file(name, n_tokens=2000):
    return FILES[name](n_tokens)
