"""The tokenizers of the live page encode and decode as Python's; a notebook shows a live page."""

import numpy as np
import pytest

from explorer_live import TEXT, live_decoder, live_page
from numformer.analysis.attention_views import Reading
from numformer.data import BytePairTokenizer, CharacterTokenizer
from numformer.explorer import explore
from numformer.models import Decoder, DecoderConfig

CORPUS = ("the theme of the thesis, then: 1234 and 12 more; naïve façades, 狗, 狗 and\n\n"
          "  the dog\t\n")
TEXTS = ["the theme", CORPUS, "  two  spaces\n\n and   ends ", "ï狗𝒳 naïve", "12,345.6!?",
         "\x0b\x0c\r\n x", "a" * 200, " " * 130 + "b"]


def open_tokens(browser, tmp_path, tokenizer, start):
    config = DecoderConfig(vocab_size=len(tokenizer), context_length=64, n_layers=1, n_heads=1,
                           d_model=4)
    ids = tokenizer.encode(start)
    page = explore(Decoder(config, np.random.default_rng(0)),
                   Reading((ids[None],), [tokenizer.decode([token]) for token in ids]),
                   tokenizer=tokenizer)
    assert page.why_not_live is None
    (tmp_path / "page.html").write_text(page.html, encoding="utf-8")
    browser.get((tmp_path / "page.html").as_uri())


@pytest.mark.parametrize("special", [(), ("[PAD]", "[END]")], ids=len)
def test_byte_pairs(browser, tmp_path, special):
    tokenizer = BytePairTokenizer.of(CORPUS, 60, special=special)
    open_tokens(browser, tmp_path, tokenizer, "the thesis")
    for text in TEXTS:
        ids = tokenizer.encode(text).tolist()
        assert browser.execute_script("return numformerPage.encode(arguments[0])", text) == ids
        assert browser.execute_script("return numformerPage.decode(arguments[0])", ids) == text
    every = list(range(len(tokenizer)))[-30:]
    assert (browser.execute_script("return numformerPage.decode(arguments[0])", every)
            == tokenizer.decode(every))


def test_characters(browser, tmp_path):
    tokenizer = CharacterTokenizer.of(CORPUS + "𝒳", special=("[END]",))
    open_tokens(browser, tmp_path, tokenizer, "the thesis")
    for text in (CORPUS, "𝒳 狗"):
        ids = tokenizer.encode(text).tolist()
        assert browser.execute_script("return numformerPage.encode(arguments[0])", text) == ids
        assert browser.execute_script("return numformerPage.decode(arguments[0])", ids) == text
    found = browser.execute_script("return numformerPage.encode('the Zq')")
    assert found == tokenizer.encode("the ").tolist(), "unknown characters are left out"


def test_a_notebook_shows_a_live_page(browser, tmp_path):
    shown = live_page(live_decoder())._repr_html_()
    (tmp_path / "cell.html").write_text(f"<!doctype html>{shown}", encoding="utf-8")
    browser.get((tmp_path / "cell.html").as_uri())
    browser.switch_to.frame(browser.find_element("tag name", "iframe"))
    try:
        labels = [item.text for item in browser.find_elements("css selector", ".chips li")]
        assert "".join(labels) == TEXT
    finally:
        browser.switch_to.default_content()
