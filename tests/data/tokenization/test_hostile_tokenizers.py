"""A tokenizer.json may be made to take long, or much memory: it takes neither, or is refused."""

import random
import re

import pytest

from marks import every
from numformer.data.tokenizers.published import PublishedTokenizer
from numformer.data.tokenizers.regex_search import LinearSearch, Search
from numformer.data.tokenizers.regexes import parsed
from test_regexes import PATTERNS

A, LONG = dict(String="a"), 9_000                    # longer than `re` may read
NESTED = [r"(\p{L}+)*\d", r"(\p{L}|\p{N}|\p{L})+\.", r"(a|a)*b", r"(a|aa)+b", r"(\s*\p{L}*a)*x",
          r"((a+)+)+b", r"(a*?a)+?b", r"(a{1,9}){2,}b", r"\p{L}+\d", r"\p{L}*\p{L}*\p{L}*\d",
          r"(?=\p{L}*\d)\p{L}", r"(?!\p{L}*\D)\p{L}+b".replace(r"\D", r"\P{Nd}"), r"\p{L}++\d",
          r"a?" * 25 + "a" * 25 + "b", "(a|a)" * 25 + "b", r"(?:\p{L}+(?<=a))+\d", "(a+)?a+b"]


def described(**steps):
    """A tokenizer.json of words of letters, with steps."""
    vocab = {"[UNK]": 0, "a": 1, "##a": 2, "b": 3}
    model = dict(type="WordPiece", unk_token="[UNK]", continuing_subword_prefix="##",
                 max_input_chars_per_word=10**9, vocab=vocab)
    names = ("normalizer", "pre_tokenizer", "post_processor", "decoder")
    return dict(version="1.0", truncation=None, padding=None, added_tokens=[], model=model,
                **dict.fromkeys(names)) | steps


def replacing(content, pattern=A):
    return dict(type="Replace", pattern=pattern, content=content)


def split_by(regex):
    return dict(type="Split", pattern=dict(Regex=regex), behavior="Isolated", invert=False)


def sequence(**steps):
    return dict(type="Sequence", **steps)


@pytest.mark.parametrize("regex", every(4, NESTED))
def test_a_regex_that_doubles_its_time_with_each_letter_ends(regex):
    """Ended by nothing but the search itself: 2^9000 steps would never end."""
    tokenizer = PublishedTokenizer(described(pre_tokenizer=split_by(regex)))
    assert len(tokenizer.encode("a" * LONG)) == LONG
    replacing_it = described(normalizer=replacing("b", dict(Regex=regex)),
                             decoder=replacing("b", dict(Regex=regex)))
    tokenizer = PublishedTokenizer(replacing_it)
    assert len(tokenizer.encode("a" * LONG)) == LONG
    assert tokenizer.decode([1] * 100) == "a" * 100 and not Search(parsed(regex))._is_quick(
        "a" * 10**6)


@pytest.mark.slow
def test_it_finds_what_re_finds_in_all_kinds_of_regexes():
    rng, found = random.Random(4), 0

    def sequence(depth):
        return "".join(part(depth) for _ in range(rng.randint(1, 3)))

    def group(depth):
        return "(" + "|".join(sequence(depth) for _ in range(rng.randint(1, 3))) + ")"

    def part(depth):
        kind = rng.random() if depth else 0
        if kind < 0.4:
            return rng.choice(["a", "b", "[ab]", "[^a]", r"\p{L}", r"\d", "1", " ", "(?i:A)"])
        if kind < 0.9:
            what = rng.choice(["a", r"\p{L}", "[ab1]"]) if kind < 0.6 else group(depth - 1)
            return what + rng.choice("* + ? *? +? ?? *+ ++ ?+ {2} {1,3} {2,}".split() + [""])
        if kind < 0.97:
            return rng.choice(["(?=", "(?!"]) + sequence(depth - 1) + ")"
        return rng.choice(["(?<=a)", "(?<!a)", "(?<=(a|b))", "(?<!ab)", "(?<=a{2})"])

    while found < 400:
        try:
            whole = parsed(sequence(3))
        except ValueError:
            continue
        search, linear, found = re.compile(whole.written()), LinearSearch(whole), found + 1
        for _ in range(5):
            text = "".join(rng.choice("aab1 b2A") for _ in range(rng.randint(0, 12)))
            expected = [match.span() for match in search.finditer(text)]
            assert linear.spans(text) == expected, (whole.written(), text)


@pytest.mark.parametrize("name", PATTERNS)
def test_published_regexes_go_to_re_in_ordinary_texts_and_find_the_same_in_others(name):
    search, text = Search(parsed(PATTERNS[name])), "To be, or\n\n not to be: 123 ünd 中文! It's  " * 9
    if name != "lazy":                                # the only one that repeats a group
        assert search._is_quick(text * 600)
    assert search._linear.spans(text) == list(search.spans(text))
    for run in ("A", " ", "1", "\n"):                 # longer than `re` may read
        found = search.split(run * LONG)
        assert "".join(found) == run * LONG and found == search._quick.split(run * LONG)


@pytest.mark.parametrize("steps, words", [
    (dict(normalizer=sequence(normalizers=[replacing("aa")] * 60)),
     "normalizer Replace makes 1280000 characters, more than the 644096"),
    (dict(normalizer=replacing("a" * 10**6)), "makes 10000000000 characters"),
    (dict(normalizer=sequence(normalizers=[dict(type="Prepend", prepend="a" * 10**7)])),
     "normalizer Prepend makes 10010000"),
    (dict(normalizer=sequence(normalizers=[dict(type="NFKD"), replacing("\ufdfa"), dict(
        type="NFKD"), replacing("\ufdfa", dict(Regex=r"\p{Lo}")), dict(type="NFKD")])),
     "normalizer NFKD makes"),
    (dict(normalizer=sequence(normalizers=[dict(type="Lowercase")] * 101)), "more than 100 steps"),
    (dict(pre_tokenizer=sequence(pretokenizers=[split_by("a")] * 10**5)), "more than 100 steps"),
    (dict(decoder=sequence(decoders=[dict(type="Fuse")] * 10**5)), "more than 100 steps"),
    (dict(pre_tokenizer=split_by("(a{1,99}){1,99}b")), "is not supported"),
    (dict(pre_tokenizer=split_by("(a?)*b")), "is not supported"),
    (dict(pre_tokenizer=split_by("(a?b?){2}b")), "is not supported"),
    (dict(added_tokens=[dict(id=4, content="b" * 10**5, normalized=False, special=True)]),
     "has 100000 characters; at most 1000 are supported"),
    (dict(decoder=dict(type="WordPiece", prefix="b" * 10**5)), "at most 500 are supported"),
])
def test_what_would_take_much_memory_is_one_line(steps, words):
    with pytest.raises(ValueError, match=re.escape(words)) as caught:
        PublishedTokenizer(described(**steps)).encode("a" * 10_000)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 200


def test_models_that_try_all_lengths_have_short_tokens():
    unigram = dict(type="Unigram", unk_id=0, vocab=[["<unk>", 0.0], ["a" * 501, -1.0]])
    word_piece = described()["model"]
    word_piece["vocab"]["a" * 501] = 4
    pairs = dict(type="BPE", continuing_subword_prefix="#" * 501, vocab={"a": 0}, merges=[])
    for model, words in ((unigram, "has 501 characters"), (word_piece, "has 501 characters"),
                         (pairs, "continuing_subword_prefix of model BPE has 501")):
        with pytest.raises(ValueError, match=words):
            PublishedTokenizer(described(model=model))


@pytest.mark.parametrize("n", [60, 100])
def test_steps_of_a_decoder_make_no_long_text(n):
    decoder = sequence(decoders=[replacing("aa")] * n)
    tokenizer = PublishedTokenizer(described(decoder=decoder))
    with pytest.raises(ValueError, match="decoder Replace makes"):
        tokenizer.decode([1] * 100)


def test_templates_have_few_parts():
    special = {"x": dict(id="x", ids=[1] * 600, tokens=["a"] * 600)}
    for row in ([dict(Sequence=dict(id="A", type_id=0))] * 1001,
                [dict(SpecialToken=dict(id="x", type_id=0))] * 500):
        processor = dict(type="TemplateProcessing", single=row, pair=row, special_tokens=special)
        with pytest.raises(ValueError, match="post_processor has more than 1000 parts"):
            PublishedTokenizer(described(post_processor=processor))


def test_white_space_and_added_tokens_take_linear_time():
    """Each space of a run began a search up to the end of the run."""
    added = [dict(id=4 + i, content=name, normalized=False, special=False, rstrip=True, lstrip=True)
             for i, name in enumerate(["<" * 9 + str(i) for i in range(2000)] + [" "])]
    strip = dict(type="Strip", strip_left=True, strip_right=True)
    tokenizer = PublishedTokenizer(described(normalizer=strip))
    assert tokenizer.encode("a" + " " * 10**6 + "a").tolist() == [0]
    tokenizer = PublishedTokenizer(described(added_tokens=added))
    assert set(tokenizer.encode(" " * 10**5).tolist()) == {2004}
    assert tokenizer.encode(("<" * 9 + "17") * 2000 + "b").tolist()[-2:] == [21, 3]
