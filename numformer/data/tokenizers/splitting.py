"""Words of a text, as published tokenizers split it before their models; no token crosses them."""

import re
import string
from functools import lru_cache

from numformer.data.tokenizers.regexes import SPACES, characters_of, translated

# As published
REGEX_OF = {
    "gpt2": r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    "llama3": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
              r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
}
REGEX_OF["qwen2"] = REGEX_OF["llama3"].replace("{1,3}", "")
SPLITS = tuple(REGEX_OF)


@lru_cache
def _pattern(name):
    return re.compile(translated(REGEX_OF[name]))


def split_like(name, text):
    r"""Split a text as GPT-2, Llama 3 or Qwen 2 does; the words join to the text.

    GPT-2: an English contraction; a run of letters, of numbers or of other characters, each with
    the space before it; or white space, without its last space if a word follows. Llama 3 and Qwen
    2 also take another character than a space before letters, capital contractions, line breaks
    after marks, and at most three digits (Llama 3) or one (Qwen 2).

    Parameters
    ----------
    name : {"gpt2", "llama3", "qwen2"}
    text : str

    References
    ----------
    Radford et al. (2019), "Language Models are Unsupervised Multitask Learners", section 2.2, and
    the code published with it.

    Examples
    --------
    >>> split_like("gpt2", "I'll pay 1234  now!")
    ['I', "'ll", ' pay', ' 1234', ' ', ' now', '!']
    >>> split_like("llama3", "I'LL pay 1234\n(now)")
    ['I', "'LL", ' pay', ' ', '123', '4', '\n', '(now', ')']
    """
    return _pattern(name).findall(text)


@lru_cache
def _bert_pattern():
    marks = re.escape(string.punctuation) + characters_of("P")
    return re.compile(f"[{marks}]|[^{SPACES}{marks}]+")


def split_marks(text):
    """BERT's words: white space separates them, and each punctuation mark is one.

    All of ASCII that is no letter, digit or space is a mark, so are Unicode's categories P.

    Examples
    --------
    >>> split_marks("don't pay $5 — now")
    ['don', "'", 't', 'pay', '$', '5', '—', 'now']
    """
    return _bert_pattern().findall(text)


def split_spaces(text):
    """The words between white space.

    Examples
    --------
    >>> split_spaces("  to\\tbe ")
    ['to', 'be']
    """
    return _BETWEEN_SPACES.findall(text)


_BETWEEN_SPACES = re.compile(f"[^{SPACES}]+")
META = "▁"                                                            # U+2581


def split_meta(text, prepend=True, split=True):
    """Words in which ▁ is the space before them, as SentencePiece writes spaces.

    Parameters
    ----------
    text : str
    prepend : bool
        Whether a text that begins with a word gets a ▁, so that this word is no other than inside
        a text.
    split : bool
        Whether to split; otherwise the text is one word.

    References
    ----------
    Kudo, Richardson (2018), "SentencePiece", section 3.2.

    Examples
    --------
    >>> split_meta("to be  or")
    ['▁to', '▁be', '▁', '▁or']
    """
    text = text.replace(" ", META)
    if prepend and not text.startswith(META):
        text = META + text
    return re.findall(f"{META}[^{META}]*|[^{META}]+", text) if split else [text]
