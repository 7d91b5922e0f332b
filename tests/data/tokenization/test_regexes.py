"""Regular expressions of published tokenizers mean the same for `re`, or are refused."""

import re

import pytest

from odd_texts import characters, texts
from numformer.data.tokenizers.regexes import translated
from numformer.data.tokenizers.splitting import REGEX_OF

CLIP_REGEX = (r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]"
              r"|[^\s\p{L}\p{N}]+")
BLOOM_REGEX = r" ?[^(\s|[.,!?…。，、।۔،])]+"
MARKS = "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~]"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
SUFFIX, BEFORE = "(?i:'s|'t|'re|'ve|'m|'ll|'d)?", r"[^\r\n\p{L}\p{N}]?"
TAIL = r"\s*[\r\n]+|\s+(?!\S)|\s+"
PATTERNS = {
    "clip": CLIP_REGEX, "bloom": BLOOM_REGEX, **REGEX_OF,
    "gpt4o": (rf"{BEFORE}{UPPER}*{LOWER}+{SUFFIX}|{BEFORE}{UPPER}+{LOWER}*{SUFFIX}"
              rf"|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{TAIL}"),
    "gpt4": (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}"
             r"| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s*[\r\n]|\s+(?!\S)|\s+"),
    "deepseek": (rf"{MARKS}[A-Za-z]+|[^\r\n\p{{L}}\p{{P}}\p{{S}}]?[\p{{L}}\p{{M}}]+"
                 rf"| ?[\p{{P}}\p{{S}}]+[\r\n]*|{TAIL}"),
    "ideographs": "[一-龥\u3040-ゟ゠-ヿ]+", "digits": r"\d{1,3}", "spaces": " {2,}", "any": r"[\s\S]{2}",
    "not": r"\P{L}", "in a class": r"[\P{N}\d]+", "around": r"(?<=a)b|(?<!a)\p{P}|a(?=\d)",
    "nested": r"[a[bc[d]]e]+", "lazy": "(ab|a)+?c?", "at least": r"\p{N}{2,}"}


@pytest.mark.parametrize("name", PATTERNS)
def test_the_witness_finds_the_same(name):
    tokenizers = pytest.importorskip("tokenizers")
    theirs = tokenizers.pre_tokenizers.Split(tokenizers.Regex(PATTERNS[name]), "isolated")
    ours = re.compile(f"({translated(PATTERNS[name])})")
    for text in texts():
        found = [word for word in ours.split(text) if word]
        assert found == [word for word, _ in theirs.pre_tokenize_str(text) if word], ascii(text)


def test_classes_are_those_of_unicode():
    every = "".join(characters())
    for regex, same in ((r"\p{L}", str.isalpha), (r"\P{L}", lambda c: not c.isalpha()),
                        (r"[\d]", str.isdecimal), (r"[^\s\S]", lambda c: False),
                        (r"[\S\x{}]".replace(r"\x{}", r"\-"), lambda c: not (
                            c.isspace() and c not in "\x1c\x1d\x1e\x1f"))):
        assert "".join(re.findall(translated(regex), every)) == "".join(filter(same, every)), regex


@pytest.mark.parametrize("regex", [
    "", "a$", "^a", r"\w", r"\b", r"\h", r"\R", r"\1", r"\x41", r"\p{Han}", r"\p{^L}", r"\pL", ".",
    "[^[^a]]", "[[:alpha:]]", "[]a]", "[a-]", "[-a]", r"[\s-a]", "[a&&b]", "[z-a]", "[[a]-z]",
    "[a", "]", "}",
    "a{2}?", "a{2}+", "a{,3}", "a{3,1}", "a{9999}{9}", "a{99999}", "a{2", "a**", "*a", "(?:*a)",
    "(?=*a)", "a|*", "x*", "x?|a", "(?=a)", "(?!b)|a", "(?=a)+b", "(?<=a+)b", "(a", "a)", "()",
    "(?<n>a)", "(?m:a)", "(?>a)", "(?#a)", "(?i:ss)", "(?i:é)", r"(?i:\p{L})", "(?i:[st])",
    "(?i)a", "(" * 1000, "[" * 1000,
    pytest.param("(a" * 5000 + ")" * 5000, marks=pytest.mark.slow)])
def test_what_is_not_the_same_is_refused(regex):
    with pytest.raises(ValueError, match="the regex .* is not supported") as caught:
        translated(regex)
    assert len(str(caught.value)) < 150 and "\n" not in str(caught.value)
