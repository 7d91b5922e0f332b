"""Decoders: from tokens back to a text."""

import re
from functools import lru_cache, reduce

from numformer.data.tokenizers.byte_merges import BYTE_OF
from numformer.data.tokenizers.published.fields import (
    flattened, read_fields, read_pattern, short_text, type_of)
from numformer.data.tokenizers.published.growth import most_characters, replaced
from numformer.data.tokenizers.published.pre_tokenizers import BYTE_LEVEL, prepends
from numformer.data.tokenizers.splitting import META
from numformer.data.tokenizers.unigram import join_meta
from numformer.data.tokenizers.wordpiece import join_wordpieces


@lru_cache(maxsize=2**18)
def token_bytes(token):
    """The bytes of a token in GPT-2's characters; an added token may hold others.

    Examples
    --------
    >>> token_bytes("Ġhi"), token_bytes("<a b>")
    (b' hi', b'<a b>')
    """
    if all(character in BYTE_OF for character in token):
        return bytes([BYTE_OF[character] for character in token])
    return token.encode("utf-8", "surrogatepass")


def join_bytes(tokens):
    """The text of tokens in GPT-2's characters; U+FFFD replaces what is no UTF-8."""
    data = b"".join(map(token_bytes, tokens))
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return data.decode("utf-8", "replace")


# As Tokenizers reads them: a sign may be the first digit
is_byte = re.compile(r"<0x([+0-9A-Fa-f][0-9A-Fa-f])>").fullmatch


def join_fallback(tokens):
    r"""Tokens in which those of bytes, <0x00> to <0xFF>, are characters again.

    Bytes in a row that are no UTF-8 become as many U+FFFD, all of them.

    Examples
    --------
    >>> join_fallback(["a", "<0xC3>", "<0xBC>", "b", "<0xC3>", "<0x41>"])
    ['a', 'ü', 'b', '\ufffd', '\ufffd']
    """
    joined, data = [], bytearray()
    for token in [*tokens, ""]:
        found = is_byte(token)
        if found:
            data.append(int(found[1], 16))
            continue
        if data:
            try:
                joined.append(data.decode())
            except UnicodeDecodeError:
                joined += "\ufffd" * len(data)
            data.clear()
        joined.append(token)
    return joined[:-1]


def join_ends(tokens, suffix):
    """Tokens in which the suffix of a word's end is a space, but not in the last token.

    Examples
    --------
    >>> join_ends(["to</w>", "b", "e</w>"], "</w>")
    ['to ', 'b', 'e']
    """
    return [token.replace(suffix, " ") for token in tokens[:-1]] + [
        token.replace(suffix, "") for token in tokens[-1:]]


def _strip(facts):
    content, start, stop = read_fields("decoder Strip", facts, content=[str], start=[int],
                                       stop=[int])
    if len(content) != 1 or min(start, stop) < 0:
        raise ValueError("tokenizer.json: decoder Strip must have one character as content, and "
                         "no negative start or stop.")

    def strip(token):
        token = token[min(start, len(token) - len(token.lstrip(content))):]
        return token[:len(token) - min(stop, len(token) - len(token.rstrip(content)))]
    return lambda tokens, most: [strip(token) for token in tokens]


def _replace(facts):
    pattern, content = read_fields("decoder Replace", facts, pattern=[dict], content=[str])
    search = read_pattern("the decoder Replace", pattern)

    def replace(tokens, most):
        made = []
        for token in tokens:
            made.append(replaced("decoder Replace", search, content, token, most))
            most -= len(made[-1])
        return made
    return replace


def _byte_level(facts):
    read_fields("decoder ByteLevel", facts, **BYTE_LEVEL)
    return lambda tokens, most: [join_bytes(tokens)]


def _metaspace(facts):
    strip = prepends(facts, "decoder Metaspace")[0]
    return lambda tokens, most: [join_meta(tokens[:1], strip), *(
        token.replace(META, " ") for token in tokens[1:])]


def _wordpiece(facts):
    prefix, cleanup = read_fields("decoder WordPiece", facts, prefix=["##", str],
                                  cleanup=[True, False])
    short_text("prefix of decoder WordPiece", prefix)
    return lambda tokens, most: [join_wordpieces(tokens, prefix, cleanup)]


def _ends(facts):
    suffix, = read_fields("decoder BPEDecoder", facts, suffix=["</w>", str])
    if not suffix:
        raise ValueError("tokenizer.json: decoder BPEDecoder has an empty suffix.")
    return lambda tokens, most: join_ends(tokens, suffix)


def _without_options(function):
    def read(facts):
        read_fields(f"decoder {facts['type']}", facts)
        return lambda tokens, most: function(tokens)
    return read


_STEPS = {"BPEDecoder": _ends, "ByteFallback": _without_options(join_fallback),
          "ByteLevel": _byte_level, "Fuse": _without_options(lambda tokens: ["".join(tokens)]),
          "Metaspace": _metaspace, "Replace": _replace, "Strip": _strip, "WordPiece": _wordpiece}


def read_decoder(facts):
    """The decoder of a tokenizer.json: a function from a list of tokens to their text.

    For ByteLevel alone it is `join_bytes`.

    Raises
    ------
    ValueError
        If it is not supported.
    """
    if facts is None:
        return " ".join
    steps = flattened("decoder", facts, "decoders")
    kinds = [type_of("decoder", step, _STEPS) for step in steps]
    if "WordPiece" in kinds[:-1]:
        raise ValueError("tokenizer.json: decoder WordPiece is supported at the end alone.")
    chain = [_STEPS[kind](step) for kind, step in zip(kinds, steps)]
    if kinds == ["ByteLevel"]:
        return join_bytes

    def decode(tokens):
        most = most_characters(sum(map(len, tokens)))
        return "".join(reduce(lambda given, step: step(given, most), chain, tokens))
    return decode
