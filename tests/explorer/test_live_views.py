"""The live page in Chromium: typing, sampling, heads, lens, backward, keys, phones, pictures."""

import re

import numpy as np
import pytest

from explorer_live import LETTERS, TEXT, Oracle, live_decoder, live_page
from explorer_page import Page
from numformer.analysis import logit_lens
from numformer.analysis.attention_views import Reading, attention_views

EVERY_HEAD = [[1.0] * 4] * 2
MODES = ("heads", "grid", "query", "stream", "backward")


def ids_of(text):
    return np.array([[LETTERS.index(character) for character in text]])


class Live(Page):
    """A live page in the browser."""

    def __init__(self, browser, path, model, **options):
        self.browser, self.model = browser, model
        self.views = {"self": attention_views(model, Reading((ids_of(TEXT),), list(TEXT)))[0]}
        path.write_text(live_page(model, **options).html, encoding="utf-8")
        browser.get_log("performance")
        browser.get(path.as_uri())

    def at(self, name):
        return self.browser.find_element("css selector", f'[data-at="{name}"]')

    def script(self, body, *arguments):
        return self.browser.execute_script(body, *arguments)

    def mode(self, name):
        self.at(f"view-{name}").click()

    def texts(self, css):
        return [item.text for item in self.all(css)]


@pytest.fixture
def page(browser, tmp_path):
    return Live(browser, tmp_path / "page.html", live_decoder("llama"))


def softmax(z):
    z = np.asarray(z, np.float64)
    return np.exp(z - z.max()) / np.exp(z - z.max()).sum()


def test_a_typed_key_updates_tokens_bars_and_maps(page):
    page.at("text").send_keys("hx")                   # x is no token
    assert "".join(page.texts(".chips li")) == TEXT + "h"
    assert "left out: x" in page.all(".status")[0].text
    p = softmax(page.model(ids_of(TEXT + "h"))[0, -1])
    order = np.argsort(-p, kind="stable")
    assert page.texts(".bars .token") == [LETTERS[k] for k in order]
    assert page.texts(".bars .number") == [f"{p[k]:.3f}" for k in order]
    size = page.script("const c = document.querySelector('.grid canvas'); return c.width")
    assert size == len(TEXT) + 1
    page.script("document.querySelector('details').open = true; numformerPage.readText('')")
    assert "at least one" in page.all(".status")[0].text and len(page.all(".chips li")) == 12


def test_the_views_show_the_attention_of_the_typed_text(page):
    page.mode("heads")
    page.script("document.querySelector('details').open = true; "
                "numformerPage.readText(arguments[0])", TEXT)
    assert page.shows("self", 1, 10)
    page.all(".queries li")[4].click()
    page.button("head 3").click()
    assert page.shows("self", 1, 4, heads=[2])
    view = page.views["self"]
    assert page.texts(".keys li b")[:5] == [f"{x:.3f}" for x in view.weights[1][2, 4, :5]]
    page.mode("query")
    rows = [[cell.text for cell in row.find_elements("css selector", "td, th")]
            for row in page.all("table.detail tbody tr")]
    for j in range(5):
        assert abs(float(rows[j][4]) - view.weights[1][2, 4, j]) < 7e-5
        assert abs(float(rows[j][2]) - view.q[1][2, 4] @ view.k[1][2, j]) < 7e-4
    assert page.shows("self", 1, 4, heads=[2]), "the table agrees with the view"


def test_sliders_change_what_is_sampled(page):
    set_slider = ("const [name, value] = arguments, input = document.querySelector("
                  "`[data-at='${name}']`); input.value = value; "
                  "input.dispatchEvent(new Event('input'))")
    p = softmax(page.model(ids_of(TEXT))[0, -1])
    page.script(set_slider, "temperature", "0.5")
    page.script(set_slider, "top-k", "2")
    best = np.sort(p)[::-1][:2] ** 2
    words = [button.get_attribute("aria-label") for button in page.all(".bars button")]
    sampled = [float(re.search(r"sampled with ([0-9.]+)", each)[1]) for each in words]
    np.testing.assert_allclose(sampled, [*best / best.sum(), *[0.0] * 7], atol=6e-5)
    assert page.texts(".slider output") == ["0.50", "2", "1.00"]


def test_generation_goes_on_stops_and_repeats_with_its_seed(page):
    seen = []
    for seed in ("7", "7", "8"):
        page.script("numformerPage.readText(arguments[0]); const s = document.querySelector("
                    "'[data-at=seed]'); s.value = arguments[1]; s.dispatchEvent("
                    "new Event('input'))", TEXT, seed)
        for _ in range(12):
            page.at("step").click()
        seen.append(page.at("text").get_attribute("value"))
    assert seen[0] == seen[1] != seen[2] and all(len(text) == len(TEXT) + 12 for text in seen)
    length = "return numformerPage.live.ids.length"
    page.at("generate").click()
    page.browser.execute_async_script(
        "const done = arguments[0], n = numformerPage.live.ids.length; const wait = () => "
        "numformerPage.live.ids.length > n + 2 ? done() : setTimeout(wait, 20); wait()")
    page.at("stop").click()
    stopped = page.script(length)
    page.browser.execute_async_script("setTimeout(arguments[0], 300)")
    assert page.script(length) == stopped


def test_a_slider_scales_a_head_and_keeps_the_focus(page):
    slider = page.at("scale-0-1")
    slider.send_keys("\ue014")                        # right: 1.05
    assert page.script("return numformerPage.run.blocks[0].attention.scale[1]") == 1.05
    assert page.script("return document.activeElement.dataset.at") == "scale-0-1"
    assert "layer 1 head 2 × 1.05" in page.all(".status")[0].text
    expected = Oracle(page.model, ids_of(TEXT)[0], 10, 0,
                      [[1.0, 1.05, 1.0, 1.0], [1.0] * 4]).logits[10]
    np.testing.assert_allclose(page.script("return numformerPage.probabilities(10)"),
                               softmax(expected), atol=1e-4)


def test_the_stream_shows_the_lens_and_norms(page):
    page.mode("stream")
    lens = logit_lens(page.model, ids_of(TEXT))[:, 0]                 # (L + 1, T, V)
    predictions, norms = page.all("table.lens")
    cells = lambda table: [[cell.text for cell in row.find_elements("css selector", "td")]
                           for row in table.find_elements("css selector", "tbody tr")]
    assert cells(predictions) == [[LETTERS[k] for k in row.argmax(axis=1)] for row in lens[::-1]]
    from numformer.analysis.capture import residual_stream

    stream = residual_stream(page.model, ids_of(TEXT))["blocks"]
    expected = np.stack([np.linalg.norm(x[0], axis=1) for x in stream[::-1]])
    np.testing.assert_allclose(np.array(cells(norms), float), expected, atol=0.0501)


def test_a_click_on_a_token_shows_the_backward_pass(page):
    target = 3
    page.at(f"bar-{target}").click()
    oracle = Oracle(page.model, ids_of(TEXT)[0], 10, target, EVERY_HEAD)
    loss = -np.log(softmax(oracle.logits[10])[target])
    assert f"= {loss:.4f}" in page.all(".lead")[0].text
    order = np.argsort(-np.abs(oracle.dlogits), kind="stable")
    first = page.all(".backward section")[0]
    shown = [item.text for item in first.find_elements("css selector", ".number")]
    np.testing.assert_allclose(np.array(shown, float), oracle.dlogits[order], atol=6e-5)
    names = page.texts(".norms .token")
    norms = dict(zip(names, map(float, page.texts(".norms .number"))))
    for name, gradient in oracle.gradients.items():
        np.testing.assert_allclose(norms[name], np.linalg.norm(gradient), rtol=6e-3, atol=1e-6)
    chosen = "blocks.1.attention.query.weight"
    page.at(f"parameter-{chosen}").click()
    entry = page.all("table.entries tbody tr")[0]
    index, weight, gradient = [cell.text for cell in entry.find_elements("css selector", "th, td")]
    expected = oracle.gradients[chosen]
    at = np.unravel_index(np.abs(expected).argmax(), expected.shape)
    assert index == ", ".join(map(str, at))
    assert abs(float(gradient) - expected[at]) < 1e-4
    labels = [canvas.get_attribute("aria-label") for canvas in page.all(".backward .map canvas")]
    assert [label.split(",")[0] for label in labels] == ["dscores", "dq", "dk", "dv"]
    top = float(labels[0].split()[-1])
    np.testing.assert_allclose(top, np.abs(oracle.attention[1]["dscores"][0]).max(), rtol=6e-3)


def test_keys_reach_everything_and_the_text_keeps_its_letters(page):
    page.at("text").send_keys("gab")
    assert page.at("text").get_attribute("value") == TEXT + "gab"
    page.press("\ue00c")                                              # Escape leaves the text
    for key, mode in zip("hgqsb", MODES):
        page.press(key)
        assert page.script("return numformerPage.state.mode") == mode
    page.press("g")
    focusable = page.script(
        "return [...document.querySelectorAll('button, input, textarea, select, summary')]"
        ".filter(e => e.tabIndex < 0 || !(e.getAttribute('aria-label') || e.textContent.trim() || "
        "e.closest('label'))).length")
    assert focusable == 0, "every control has a name, and Tab reaches it"
    page.script("document.querySelector('[data-at=token-13]').focus()")
    page.press("\ue012")                                              # left: the token before
    assert page.script("return document.activeElement.dataset.at") == "token-12"
    assert "(position 12)" in page.all(".prediction h2")[0].text


def test_a_live_region_says_the_prediction(page):
    page.browser.execute_async_script(
        "const done = arguments[0], wait = () => document.querySelector('.spoken').textContent "
        "? done() : setTimeout(wait, 20); wait()")
    p = softmax(page.model(ids_of(TEXT))[0, -1])
    spoken = page.script("const e = document.querySelector('.spoken'); "
                         "return [e.textContent, e.getAttribute('aria-live')]")
    assert spoken == [f"Most likely next token: {LETTERS[p.argmax()]}, probability "
                      f"{p.max():.3f}.", "polite"]


def test_a_phone_does_not_scroll_sideways_and_no_request_is_made(page):
    size = {"width": 375, "height": 812, "deviceScaleFactor": 2, "mobile": True}
    page.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        for mode in MODES:
            page.mode(mode)
            widths = page.script("return [document.documentElement.scrollWidth, innerWidth]")
            assert widths[0] <= widths[1] == 375, mode
            small = page.script("return [...document.querySelectorAll('.nf *')].filter(e => "
                                "e.textContent && parseFloat(getComputedStyle(e).fontSize) < 14)"
                                ".map(e => e.tagName)")
            assert not small
    finally:
        page.browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert len(page.requests()) == 1 and page.requests() == []
    assert not [each for each in page.browser.get_log("browser") if each["level"] == "SEVERE"]


@pytest.mark.parametrize("mode", MODES)
def test_every_view_can_be_saved(page, mode):
    page.mode(mode)
    saved = page.browser.execute_async_script("""
        const done = arguments[0], found = {}, kinds = ["SVG", "PNG"];
        const click = HTMLAnchorElement.prototype.click;
        HTMLAnchorElement.prototype.click = async function () {
          const blob = await (await fetch(this.href)).blob();
          const bytes = new Uint8Array(await blob.arrayBuffer());
          found[this.download] = kinds.length ? await blob.text() : [...bytes.slice(0, 4)];
          if (kinds.length) press();
          else { HTMLAnchorElement.prototype.click = click; done(found); }
        };
        const press = () => document.querySelector(`[data-at="save-${kinds.shift()}"]`).click();
        press();
    """)
    svg, png = saved[f"numformer-{mode}.svg"], saved[f"numformer-{mode}.png"]
    assert png == [137, 80, 78, 71]
    from xml.etree import ElementTree

    tree = ElementTree.fromstring(svg)
    texts = {node.text for node in tree.iter() if node.tag.endswith("text")}
    assert "Live" in texts and any("Next token after" in text for text in texts)
    assert ("{http://www.w3.org/2000/svg}line" in {node.tag for node in tree.iter()}) == (
        mode == "heads")


def test_with_reduced_motion_generated_text_appears_at_once(page):
    media = {"features": [{"name": "prefers-reduced-motion", "value": "reduce"}]}
    page.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    try:
        page.at("generate").click()
        assert page.script("return numformerPage.live.ids.length") == len(TEXT) + 32
    finally:
        page.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
