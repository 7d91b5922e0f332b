"""The live page in Firefox: the same numbers, no request, keys, a phone's width."""

import pytest

from explorer_live import (
    LETTERS, NUMBERS, OPTIONS, TEXT, Oracle, check_numbers, live_decoder, live_page)
from marks import slow_among

SCALES = [[1.0, 0.0, 1.0, 1.0], [1.0, 1.0, 1.7, 0.35]]
MODES = ("heads", "grid", "query", "stream", "backward")


def open_page(firefox, path, model):
    path.write_text(live_page(model).html, encoding="utf-8")
    firefox.open(path.as_uri())


# Chromium runs all of them
@pytest.mark.parametrize("name", slow_among(OPTIONS, [*OPTIONS][1:]))
def test_numbers_are_numpys(firefox, tmp_path, name):
    model, position, target = live_decoder(name), 7, 3
    open_page(firefox, tmp_path / "page.html", model)
    found = firefox.script(NUMBERS, TEXT, SCALES, position, target)
    ids = [LETTERS.index(character) for character in TEXT]
    check_numbers(found, Oracle(model, ids, position, target, SCALES), position)


def test_no_view_makes_a_request(firefox, tmp_path):
    open_page(firefox, tmp_path / "page.html", live_decoder("llama"))
    for mode in MODES:
        firefox.script("document.querySelector(`[data-at='view-${arguments[0]}']`).click()", mode)
    requests = lambda: {url for url in firefox.requests if not url.startswith(("data:", "file:"))}
    assert not requests()
    firefox.script("await fetch('http://127.0.0.1:50007/').catch(() => 0)")
    assert requests() == {"http://127.0.0.1:50007/"}, "requests are seen"


def test_keys_type_and_change_the_view(firefox, tmp_path):
    open_page(firefox, tmp_path / "page.html", live_decoder())
    firefox.script("const t = document.querySelector('textarea'); t.focus(); "
                   "t.setSelectionRange(99, 99)")
    firefox.press("hgb")                              # letters of the text, not names of views
    state = lambda: firefox.script("return [numformerPage.run.ids.length, numformerPage.state.mode,"
                                   " document.activeElement.tagName]")
    assert state() == [len(TEXT) + 3, "grid", "TEXTAREA"]
    firefox.press("\ue00cb")                          # Escape leaves the text; then B: backward
    assert state()[:2] == [len(TEXT) + 3, "backward"]
    firefox.press("\ue004")                           # Tab reaches something
    assert state()[2] != "BODY"


def test_a_phone_does_not_scroll_sideways(firefox, tmp_path):
    open_page(firefox, tmp_path / "page.html", live_decoder())
    try:
        firefox.resize(375, 812)
        for mode in MODES:
            widths = firefox.script(
                "document.querySelector(`[data-at='view-${arguments[0]}']`).click(); "
                "return [document.documentElement.scrollWidth, innerWidth]", mode)
            assert widths[0] <= widths[1] == 375, mode
    finally:
        firefox.resize(1280, 800)
