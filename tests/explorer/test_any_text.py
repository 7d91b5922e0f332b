"""Pages show any text: escaped, isolated where its direction differs, and whole in an export."""

import html
import json
import re

import numpy as np
import pytest

from numformer.analysis.attention_views import Reading
from numformer.data import CharacterTokenizer
from numformer.explorer import explore
from numformer.explorer.replay import replay_page
from numformer.models import Decoder, DecoderConfig
from numformer.plots.training.film import Film
from numformer.teaching.support.layout import box

HEBREW, THUMB, END = "\u05e9\u05dc\u05d5\u05dd", "\U0001f44d\U0001f3fd", "</script><b>&\"'"
TEXT = f"\u65e5\u672c {HEBREW} {THUMB} {END}\x07\u202e\u200b"
TITLE = f"run {END}\u202e\udcff"


def decoder(vocab_size):
    return Decoder(DecoderConfig(vocab_size=vocab_size, context_length=64, n_layers=1, n_heads=2,
                                 d_model=8), np.random.default_rng(0))


def live():
    tokenizer = CharacterTokenizer("".join(sorted(set(TEXT))))
    ids = np.array([tokenizer.encode(TEXT)])
    return explore(decoder(len(tokenizer)), Reading((ids,), list(TEXT)), TITLE, END, tokenizer).html


def stored():
    tokens = [HEBREW, THUMB, END, "\x07", "a" * 300, "\ud800", ""]
    reading = Reading((np.arange(7)[None],), tokens)
    return explore(decoder(7), reading, TITLE, END).html


def film(**changes):
    tokens = [HEBREW, THUMB, END, "\x07"]
    made = Film(TITLE, "nats", [0, 5], [(1, 2.0), (4, 1.5)], [(5, 1.0)], HEBREW, [TEXT, TEXT + END],
                np.full((2, 4, 4), 0.25), np.ones((4, 4), bool), tokens, tokens, "layer 1",
                np.zeros((2, 4, 2)), tokens, ["letters"] * 4)
    return replay_page(made._replace(**changes))


PAGES = {"live": live, "stored": stored, "film": film}


@pytest.mark.parametrize("name", PAGES)
def test_texts_end_no_script_and_can_be_written(name):
    page = PAGES[name]()
    page.encode()                                                     # no lone surrogates
    assert page.count("</script>") == 2 and "<b>" not in page
    title = html.unescape(re.search("<title>(.*?)</title>", page, re.DOTALL)[1])
    assert title == f"run {END}\\u202e\\udcff"
    data = json.loads(re.search(r'id="nf-data">(.*?)</script>', page, re.DOTALL)[1])
    labels = data["live"]["labels"] if data.get("live") else (
        data["queries"] if name == "film" else data["views"][0]["queries"])
    assert "U+0007" in labels and max(map(len, labels)) <= 22
    assert name == "live" or {HEBREW, THUMB, "".join(END)} <= {*labels}


def test_a_box_of_a_notebook_shows_what_a_browser_would_obey():
    shown = box("head", "red", "a\x1b\u202e<b>\n\tc")
    assert "a\\x1b\\u202e&lt;b&gt;\n\tc" in shown


def opened(browser, page, tmp_path):
    path = tmp_path / "page.html"
    path.write_text(page, encoding="utf-8")
    browser.get(path.as_uri())
    return browser


def test_a_browser_shows_a_film_of_any_text(browser, tmp_path):
    opened(browser, film(), tmp_path)
    browser.execute_script("const at = document.querySelector('input'); at.value = 1; "
                           "at.dispatchEvent(new Event('input'))")
    written = browser.execute_script("return document.querySelector('pre').textContent")
    assert written == HEBREW + TEXT.replace("\x07", "·").replace("\u202e", "·").replace(
        "\u200b", "·") + END
    assert browser.execute_script(
        "return getComputedStyle(document.querySelector('pre')).direction") == "rtl"
    right = browser.execute_script(
        "return [...document.querySelectorAll('.attention text')].map((each) => "
        "each.getBoundingClientRect().left - each.ownerSVGElement.getBoundingClientRect().left)")
    assert min(right) > -1, "labels are inside"


def test_a_browser_exports_whole_letters(browser, tmp_path):
    opened(browser, live(), tmp_path)
    source = browser.execute_async_script(
        "const make = URL.createObjectURL, done = arguments[0];"
        "URL.createObjectURL = (blob) => { blob.text().then(done); return make(blob); };"
        "document.querySelector('[data-at=save-SVG]').click()")
    assert THUMB[0] in source and HEBREW[0] in source and "\ufffd" not in source
    assert browser.execute_script("return new DOMParser().parseFromString(arguments[0], "
                                  "'image/svg+xml').querySelector('parsererror')", source) is None
    place = TEXT.index(HEBREW)
    browser.execute_script(f"document.querySelectorAll('.chips li')[{place}].click()")
    said = browser.find_element("css selector", ".message").get_attribute("textContent")
    assert f"“\u2068{HEBREW[0]}\u2069” (position {place})" in said
