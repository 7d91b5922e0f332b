"""Decoders: from tokens back to a text."""

from functools import lru_cache, partial

from numformer.data.tokenizers.byte_merges import BYTE_OF
from numformer.data.tokenizers.published.fields import read_fields, type_of
from numformer.data.tokenizers.published.pre_tokenizers import BYTE_LEVEL, prepends
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


def read_decoder(facts):
    """The decoder of a tokenizer.json: a function from a list of tokens to their text.

    Raises
    ------
    ValueError
        If it is not supported.
    """
    if facts is None:
        return " ".join
    kind = type_of("decoder", facts, ("ByteLevel", "Metaspace", "WordPiece"))
    if kind == "ByteLevel":
        read_fields("decoder ByteLevel", facts, **BYTE_LEVEL)
        return join_bytes
    if kind == "Metaspace":
        return partial(join_meta, strip=prepends(facts, "decoder Metaspace")[0])
    prefix, cleanup = read_fields("decoder WordPiece", facts, prefix=["##", str],
                                  cleanup=[True, False])
    return partial(join_wordpieces, prefix=prefix, cleanup=cleanup)
