"""Folders of published tokenizers: read one, write one."""

import json
from functools import singledispatch
from pathlib import Path

from numformer.data.tokenizers.base import UNKNOWN
from numformer.data.tokenizers.byte_merges import written
from numformer.data.tokenizers.byte_pairs import BytePairTokenizer
from numformer.data.tokenizers.published.pipeline import PublishedTokenizer
from numformer.data.tokenizers.splitting import META, REGEX_OF
from numformer.data.tokenizers.unigram import UnigramTokenizer
from numformer.data.tokenizers.wordpiece import (
    LONGEST_WORD, PREFIX, SPECIAL as BERT_SPECIAL, WordPieceTokenizer)
from numformer.files import MIB, parse_json, read_file, write_atomically

_MOST = 256 * MIB                                     # of a file; the largest published has 34 MiB
_END = "<|endoftext|>"


def load_tokenizer(folder):
    """The tokenizer of a folder: its tokenizer.json, or the older files of GPT-2 and BERT.

    Parameters
    ----------
    folder : path
        With ``tokenizer.json``; or ``vocab.json`` and ``merges.txt``, as GPT-2 has them; or
        ``vocab.txt``, as BERT has it. Of ``tokenizer_config.json``, ``do_lower_case`` belongs to
        vocab.txt, and is true if it is missing.

    Returns
    -------
    PublishedTokenizer

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If it is broken, or describes what is not supported: one line that names the field.
    """
    folder = Path(folder)
    if (folder / "tokenizer.json").exists():
        reader, path = parse_json, folder / "tokenizer.json"
    elif (folder / "vocab.json").exists():
        reader, path = _gpt2, folder / "vocab.json"
    elif (folder / "vocab.txt").exists():
        reader, path = _bert, folder / "vocab.txt"
    else:
        raise FileNotFoundError(f"{folder} holds no tokenizer: neither tokenizer.json, nor "
                                "vocab.json with merges.txt, nor vocab.txt.")
    try:
        data = read_file(path, _MOST)
        return PublishedTokenizer(reader(data) if reader is parse_json else reader(data, folder))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def save_tokenizer(tokenizer, folder):
    """Write the tokenizer.json of a tokenizer; `load_tokenizer` gives the same ids for it.

    Parameters
    ----------
    tokenizer : PublishedTokenizer, WordPieceTokenizer, UnigramTokenizer or BytePairTokenizer
    folder : path
        It exists.

    Raises
    ------
    ValueError
        If this kind of tokenizer cannot be written.
    """
    text = json.dumps(published(tokenizer).description, ensure_ascii=False, indent=1)
    write_atomically(Path(folder) / "tokenizer.json", text.encode())


@singledispatch
def published(tokenizer):
    """A tokenizer of ours as a `PublishedTokenizer` with the same ids.

    It finds the names of special tokens in texts, which ours does not.

    Parameters
    ----------
    tokenizer : Tokenizer

    Raises
    ------
    ValueError
        If there is no published form of it: of words, of characters, or of byte pairs in words of
        `split_bytes`.
    """
    raise ValueError(f"published: {type(tokenizer).__name__} has no published form; use byte "
                     "pairs, WordPiece or unigram.")


@published.register
def _(tokenizer: PublishedTokenizer):
    return tokenizer


@published.register
def _(tokenizer: BytePairTokenizer):
    if tokenizer.split == "ascii":
        raise ValueError("published: BytePairTokenizer with split='ascii' has no published form; "
                         "train it with split='gpt2', 'llama3' or 'qwen2'.")
    names = list(map(written, tokenizer._bytes_of))
    for name in tokenizer.special:
        names[tokenizer.special_id(name)] = name
    ids = {name: i for i, name in enumerate(names)}
    if len(ids) < len(names):
        raise ValueError("published: two tokens of the BytePairTokenizer have the same bytes; a "
                         "vocabulary holds each once.")
    merges = [[names[tokenizer._id_of[part]] for part in pair] for pair in tokenizer.merges]
    byte_level = dict(type="ByteLevel", add_prefix_space=False, trim_offsets=True,
                      use_regex=tokenizer.split == "gpt2")
    split = dict(type="Split", pattern={"Regex": REGEX_OF[tokenizer.split]}, behavior="Isolated",
                 invert=False)
    return _described(
        tokenizer.special, ids, pre_tokenizer=byte_level if byte_level["use_regex"] else dict(
            type="Sequence", pretokenizers=[split, byte_level]),
        decoder=dict(byte_level, use_regex=True), model=_byte_pair_model(ids, merges))


@published.register
def _(tokenizer: WordPieceTokenizer):
    ids = {token: i for i, token in enumerate(tokenizer.vocabulary)}
    return _described(tokenizer.special, ids, **_bert_steps(ids, tokenizer.lowercase))


@published.register
def _(tokenizer: UnigramTokenizer):
    tokens = tokenizer.vocabulary
    scores = (*[0.0] * len(tokenizer.special), *tokenizer.scores)
    meta = dict(type="Metaspace", replacement=META, prepend_scheme="always", split=True)
    return _described(
        tokenizer.special, {token: i for i, token in enumerate(tokens)}, pre_tokenizer=meta,
        decoder=meta, model=dict(type="Unigram", unk_id=tokenizer.special_id("<unk>"),
                                 vocab=[list(row) for row in zip(tokens, scores)],
                                 byte_fallback=False))


def _described(special, ids, model, **steps):
    """A published tokenizer of these steps, whose special tokens are in the model's vocabulary."""
    added = [dict(id=ids[name], content=name, single_word=False, lstrip=False, rstrip=False,
                  normalized=False, special=True) for name in sorted(special, key=ids.get)]
    order = ("normalizer", "pre_tokenizer", "post_processor", "decoder")
    return PublishedTokenizer(dict(
        version="1.0", truncation=None, padding=None, added_tokens=added,
        **{step: steps.get(step) for step in order}, model=model))


def _byte_pair_model(ids, merges):
    return dict(type="BPE", dropout=None, unk_token=None, continuing_subword_prefix=None,
                end_of_word_suffix=None, fuse_unk=False, byte_fallback=False, ignore_merges=False,
                vocab=ids, merges=merges)


def _bert_steps(ids, lowercase):
    template = None
    if "[CLS]" in ids and "[SEP]" in ids:
        cls, sep = ([dict(SpecialToken=dict(id=name, type_id=segment)) for segment in (0, 1)]
                    for name in ("[CLS]", "[SEP]"))
        first, second = (dict(Sequence=dict(id=name, type_id=segment))
                         for segment, name in enumerate("AB"))
        template = dict(
            type="TemplateProcessing", single=[cls[0], first, sep[0]],
            pair=[cls[0], first, sep[0], second, sep[1]],
            special_tokens={name: dict(id=name, ids=[ids[name]], tokens=[name])
                            for name in ("[CLS]", "[SEP]")})
    return dict(
        normalizer=dict(type="BertNormalizer", clean_text=True, handle_chinese_chars=True,
                        strip_accents=None, lowercase=lowercase),
        pre_tokenizer=dict(type="BertPreTokenizer"), post_processor=template,
        decoder=dict(type="WordPiece", prefix=PREFIX, cleanup=True),
        model=dict(type="WordPiece", unk_token=UNKNOWN, continuing_subword_prefix=PREFIX,
                   max_input_chars_per_word=LONGEST_WORD, vocab=ids))


def _gpt2(data, folder):
    """The description of GPT-2's vocab.json and merges.txt."""
    ids = parse_json(data)
    if not isinstance(ids, dict) or _END not in ids:
        raise ValueError(f"it has no {_END!r}, so it is not GPT-2's; give a tokenizer.json, which "
                         "says how its texts are split.")
    lines = read_file(folder / "merges.txt", _MOST).decode().split("\n")
    merges = [line.split(" ") for line in lines if line and not line.startswith("#version")]
    if any(pair[-1].endswith("</w>") for pair in merges):
        raise ValueError("its merges end words with '</w>', as CLIP's do, so it is not GPT-2's; "
                         "give a tokenizer.json.")
    byte_level = dict(type="ByteLevel", add_prefix_space=False, trim_offsets=True, use_regex=True)
    return _described([_END], ids, pre_tokenizer=byte_level, decoder=byte_level,
                      model=_byte_pair_model(ids, merges)).description


def _bert(data, folder):
    """The description of BERT's vocab.txt: a token a line."""
    tokens = data.decode().replace("\r\n", "\n").removesuffix("\n").split("\n")
    ids = {token: i for i, token in enumerate(tokens)}
    special = [name for name in BERT_SPECIAL if name in ids]
    if len(ids) < len(tokens) or UNKNOWN not in ids:
        raise ValueError(f"it holds a token twice, or no {UNKNOWN!r}.")
    config = folder / "tokenizer_config.json"
    facts = parse_json(read_file(config, MIB)) if config.exists() else {}
    lowercase = facts.get("do_lower_case", True) if isinstance(facts, dict) else None
    if not isinstance(lowercase, bool):
        raise ValueError("do_lower_case of tokenizer_config.json must be true or false.")
    return _described(special, ids, **_bert_steps(ids, lowercase)).description
