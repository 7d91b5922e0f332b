"""Tokenizers and datasets."""

import logging
import os
import sys
import types

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numformer import data
from numformer.data import Corpus, DataError, load_corpus
from numformer.data import CharacterTokenizer, tokenizer_from_json


@given(st.text(min_size=1))
def test_any_text_round_trips(text):
    tokenizer = CharacterTokenizer.of(text)
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text and ids.max() < len(tokenizer)
    assert list(tokenizer.characters) == sorted(set(text))
    assert tokenizer_from_json(tokenizer.to_json()).encode(text).tolist() == ids.tolist()


def test_ids_follow_the_order_of_the_characters():
    assert CharacterTokenizer("zab").encode("abz").tolist() == [1, 2, 0]


@pytest.mark.parametrize("text, shown", [
    ("abé", "'é' (U+00E9) at position 2"), ("\U0001f600", "(U+1F600) at position 0"),
    ("a\ud800", "(U+D800) at position 1")])
def test_an_unknown_character_is_named_with_its_position(text, shown):
    with pytest.raises(ValueError) as caught:
        CharacterTokenizer("ab").encode(text)
    assert shown in str(caught.value)


def test_an_alphabet_may_be_one_character():
    assert CharacterTokenizer("b").encode("bb").tolist() == [0, 0]
    with pytest.raises(ValueError, match="'c'"):
        CharacterTokenizer("b").encode("bc")


def test_an_error_shows_at_most_100_known_characters():
    for n, rest in ((100, ""), (101, "...")):
        known = "".join(map(chr, range(256, 256 + n)))
        with pytest.raises(ValueError) as caught:
            CharacterTokenizer(known).encode("a")
        assert f"but the {n} known characters are {known[:100] + rest!r}." in str(caught.value)


@pytest.mark.parametrize("characters", ["", "aa", None, ["a"]])
def test_bad_alphabets_are_refused(characters):
    with pytest.raises(ValueError, match="each character once"):
        CharacterTokenizer(characters)


@pytest.mark.parametrize("ids, error", [([3], ValueError), ([-1], ValueError), ([0.5], TypeError)])
def test_bad_ids_are_refused(ids, error):
    with pytest.raises(error):
        CharacterTokenizer("abc").decode(np.array(ids))


@pytest.mark.parametrize("facts", [None, {}, {"kind": "bytes"}])
def test_unknown_tokenizers_are_refused(facts):
    with pytest.raises(ValueError, match="no tokenizer of this version"):
        tokenizer_from_json(facts)


def test_empty_text_encodes_to_nothing():
    assert CharacterTokenizer("ab").encode("").tolist() == []
    assert CharacterTokenizer("ab").decode([]) == ""


def test_the_default_corpus_is_the_documentation():
    corpus = load_corpus()
    assert len(corpus.text) > 300_000 and "assert" in corpus.text and len(corpus.sha256) == 64


def test_a_file_is_read_as_utf_8(tmp_path):
    path = tmp_path / "text.txt"
    path.write_bytes("\ufeffzwei\r\nZeilen: äöü".encode())
    corpus = load_corpus(str(path))
    assert corpus == Corpus("text.txt", "zwei\nZeilen: äöü")
    assert corpus.sha256 != Corpus("text.txt", "zwei\nZeilen").sha256


@pytest.mark.parametrize("content, words", [
    (b"", "is empty"), ("\ufeff".encode(), "is empty"),
    (b" \n\n", "is empty"), (b"ab\0cd", "binary file: byte 2"),
    (b"caf\xe9 au lait", "byte 3 is 0xe9")])
def test_files_that_are_no_text_are_refused(content, words, tmp_path):
    (tmp_path / "f").write_bytes(content)
    with pytest.raises(DataError) as caught:
        load_corpus(tmp_path / "f")
    assert words in str(caught.value)


def test_a_missing_file_is_an_error(tmp_path):
    with pytest.raises(DataError, match="nothing.txt cannot be read: No such file"):
        load_corpus(tmp_path / "nothing.txt")
    with pytest.raises(DataError, match="cannot be read"):
        load_corpus(tmp_path)


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="no devices")
def test_a_device_is_no_text_but_a_pipe_is(tmp_path):
    (tmp_path / "link").symlink_to("/dev/zero")
    for path in ("/dev/zero", tmp_path / "link"):
        with pytest.raises(DataError, match="must be a regular file, but is a device"):
            load_corpus(path)
    end, pipe = os.pipe()
    os.write(pipe, b"a text")
    os.close(pipe)
    assert load_corpus(f"/dev/fd/{end}").text == "a text"
    os.close(end)


def test_a_large_file_is_refused_unread(tmp_path):
    with open(tmp_path / "f", "wb") as file:
        file.truncate(2**40)
    with pytest.raises(DataError, match="too large: it holds more than 512 MiB"):
        load_corpus(tmp_path / "f")


def fake_pooch(monkeypatch, folder, retrieve):
    pooch = types.SimpleNamespace(retrieve=retrieve, os_cache=lambda name: folder / name,
                                  get_logger=lambda: logging.getLogger("pooch"))
    monkeypatch.setitem(sys.modules, "pooch", pooch)


def test_a_failed_download_names_the_cure(monkeypatch, tmp_path):
    def retrieve(*args, known_hash, **options):
        assert (known_hash
                == "sha256:86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed")
        raise OSError("no network")

    fake_pooch(monkeypatch, tmp_path, retrieve)
    with pytest.raises(DataError, match="cannot be downloaded.*--data PATH"):
        load_corpus(data.TINY_SHAKESPEARE)


def test_a_text_is_downloaded_to_the_cache_and_read_from_there(monkeypatch, tmp_path):
    def retrieve(url, known_hash, fname, path):
        asked.append(url)
        path.mkdir(exist_ok=True)
        (path / fname).write_text("Speak, speak.")
        return str(path / fname)

    asked = []
    fake_pooch(monkeypatch, tmp_path, retrieve)
    for _ in range(2):                        # pooch itself knows whether the file is there
        assert load_corpus(data.TINY_SHAKESPEARE).text == "Speak, speak."
    assert len(asked) == 2 and (tmp_path / "numformer" / "tinyshakespeare.txt").exists()


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="no devices")
def test_a_device_in_the_cache_is_refused_before_it_is_read(monkeypatch, tmp_path):
    (tmp_path / "numformer").mkdir()
    (tmp_path / "numformer" / "tinyshakespeare.txt").symlink_to("/dev/zero")
    fake_pooch(monkeypatch, tmp_path, lambda *args, **options: pytest.fail("it would not end"))
    with pytest.raises(DataError, match="must be a regular file, but is a device"):
        load_corpus(data.TINY_SHAKESPEARE)


def test_without_pooch_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(DataError, match="data extra"):
        load_corpus(data.TINY_SHAKESPEARE)


def test_without_documentation_the_error_names_the_cure(monkeypatch):
    monkeypatch.setitem(sys.modules, "pydoc_data.topics", None)
    with pytest.raises(DataError, match="--data PATH"):
        load_corpus()
