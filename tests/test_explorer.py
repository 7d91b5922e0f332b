"""The explorer: what its page holds, and what it does in a real browser."""

import base64
import json
import re
from importlib.resources import files
from shutil import which

import numpy as np
import pytest

from numformer.explorer import explore
from numformer.models import (
    Decoder, DecoderConfig, EncoderDecoder, EncoderDecoderConfig, RecurrentLanguageModel, RecurrentLanguageModelConfig, Seq2Seq,
    Seq2SeqConfig, VisionTransformer, VisionTransformerConfig)
from numformer.plots.views import Reading, attention_views

SIZES = dict(vocab_size=9, context_length=8, n_layers=2, n_heads=3, d_model=12, init_std=0.6)
IDS, LETTERS = np.array([[1, 2, 3, 4, 5]]), ["a", "b", " ", "<b>", "\n"]
SIGNS = ["a", "b", "␣", "<b>", "⏎"]


def rng():
    return np.random.default_rng(0)


def decoder():
    return Decoder(DecoderConfig(**SIZES, positions="alibi"), rng()), Reading((IDS,), LETTERS)


def encoder_decoder():
    return (EncoderDecoder(EncoderDecoderConfig(**SIZES), rng()),
            Reading((IDS, np.array([5]), IDS[:, :3]), LETTERS, ["[BEGIN]", "x", "y", "[END]"]))


def vision():
    config = VisionTransformerConfig(image_size=4, patch_size=2, channels=1, n_classes=3, n_layers=2, n_heads=2, d_model=8, init_std=0.6)
    image = np.linspace(0, 1, 16, dtype=np.float32).reshape(4, 4, 1)
    return VisionTransformer(config, rng()), Reading((image[None],), ["[CLS]", "1,1", "1,2", "2,1", "2,2"], image=image)


def recurrent():
    model = Seq2Seq(Seq2SeqConfig(vocab_size=9, d_model=4, d_hidden=6), rng())
    return model, Reading((IDS, np.array([5]), IDS[:, :2]), LETTERS, ["[", "x", "]"])


def data_of(page):
    return json.loads(re.search(r'id="nf-data">(.*?)</script>', page.html, re.DOTALL)[1])


def unpacked(text, kind, *shape):
    return np.frombuffer(base64.b64decode(text), kind).reshape(shape)


@pytest.mark.parametrize("made", [decoder, encoder_decoder, vision, recurrent])
def test_a_page_holds_what_numpy_computed(made):
    model, reading = made()
    data, views = data_of(explore(model, reading, "a <title>", "a note")), attention_views(model, reading)
    assert (data["title"], data["note"], [view["name"] for view in data["views"]]) == ("a <title>", "a note", [view.name for view in views])
    for packed, view in zip(data["views"], views):
        L, (H, T, S) = len(view.weights), view.weights[0].shape
        assert (packed["layers"], packed["heads"], len(packed["queries"]), len(packed["keys"])) == (L, H, T, S)
        np.testing.assert_allclose(unpacked(packed["weights"], "<u2", L, H, T, S) / 65535, view.weights, atol=0.5001 / 65535)
        if view.q is None:
            assert packed["q"] is packed["k"] is None
            continue
        q, k = unpacked(packed["q"], "<f4", L, H, T, -1), unpacked(packed["k"], "<f4", L, H, S, -1)
        assert np.array_equal(q, view.q) and np.array_equal(k, view.k) and packed["width"] == q.shape[-1]
        assert (packed["masks"] is None) == np.all(view.masks) and (packed["biases"] is None) == (view.biases[0] is None)


def test_biases_of_some_layers_are_all_kept():
    model, reading = decoder()
    model.blocks[0].attention.slopes = None
    (packed,), (view,) = data_of(explore(model, reading))["views"], attention_views(model, reading)
    biases = unpacked(packed["biases"], "<f4", 2, 3, 5, 5)
    assert not biases[0].any() and np.array_equal(biases[1], view.biases[1].astype("<f4")) and biases[1].any()


def test_a_page_needs_nothing_from_elsewhere():
    page = explore(*decoder())
    assert "http" not in page.html and "src=" not in page.html and "@import" not in page.html and "</b>" not in page.html
    assert sum(len(files("numformer.explorer").joinpath(name).read_bytes()) for name in ("explorer.js", "explorer.css")) < 60_000
    shown = page._repr_html_()
    assert shown.startswith("<iframe srcdoc=") and "<script" not in shown and "HTML" in repr(page)


def test_a_model_without_attention():
    config = RecurrentLanguageModelConfig(vocab_size=9, context_length=8, n_layers=1, d_model=4)
    with pytest.raises(ValueError, match="no attention"):
        explore(RecurrentLanguageModel(config, rng()), Reading((IDS,), LETTERS))


@pytest.fixture(scope="module")
def browser():
    """A real headless Chromium that tells of every request it makes."""
    webdriver = pytest.importorskip("selenium.webdriver")
    binary, driver = which("chromium") or which("chromium-browser"), which("chromedriver")
    if not (binary and driver):
        pytest.skip("there is no Chromium with its driver")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1150,900", "--no-first-run",
                 "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-quic"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    opened = webdriver.Chrome(options=options, service=webdriver.ChromeService(executable_path=driver))
    yield opened
    opened.quit()


class Page:
    """A page in the browser, and what a person does with it."""

    def __init__(self, browser, path, made):
        self.browser, (self.model, self.reading) = browser, made()
        self.views = {view.name: view for view in attention_views(self.model, self.reading)}
        path.write_text(explore(self.model, self.reading, "Test").html, encoding="utf-8")
        browser.get_log("performance")
        browser.get(path.as_uri())

    def all(self, css):
        return self.browser.find_elements("css selector", css)

    def press(self, *keys):
        from selenium.webdriver import ActionChains

        ActionChains(self.browser).send_keys(*keys).perform()

    def hover(self, element):
        from selenium.webdriver import ActionChains

        ActionChains(self.browser).move_to_element(element).perform()

    def button(self, label):
        found, = (each for each in self.all("button") if label in (each.text, each.get_attribute("aria-label")))
        return found

    def table(self):
        """(labels, weights as text) of the table for readers of the screen."""
        rows = [[cell.text for cell in row.find_elements("css selector", "td, th")] for row in self.all("table.numbers tbody tr")]
        return [label for _, label, _ in rows], [number for _, _, number in rows]

    def shows(self, view, layer, query, heads=None):
        """Whether the table holds the weights of a query in a layer, averaged over heads."""
        view = self.views[view]
        chosen = view.weights[layer][list(heads) if heads is not None else slice(None), query]
        labels, numbers = self.table()
        mask = view.masks[layer][query]
        assert len(labels) == len(numbers) == len(mask)
        for number, expected, may in zip(numbers, chosen.mean(axis=0), mask):
            assert abs(float(number) - expected) < 6e-5 + 1e-5 if may else number == "masked"
        return True

    def requests(self):
        """What was asked of a network, or of another file."""
        messages = [json.loads(entry["message"])["message"] for entry in self.browser.get_log("performance")]
        urls = [each["params"]["request"]["url"] for each in messages if each["method"] == "Network.requestWillBeSent"]
        return [url for url in urls if not url.startswith("data:")]


def test_a_page_opens_without_a_request(browser, tmp_path):
    page = Page(browser, tmp_path / "page.html", decoder)
    assert page.requests() == [(tmp_path / "page.html").as_uri()]
    assert browser.execute_script("return performance.getEntriesByType('resource').filter(e => !e.name.startsWith('data:')).length") == 0
    assert not [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]
    assert [item.text for item in page.all(".queries li span")] == SIGNS and browser.title == "Test"
    assert page.shows("self", 1, 4), "at first the last query of the last layer"


def test_hover_click_and_keys(browser, tmp_path):
    page = Page(browser, tmp_path / "page.html", decoder)
    queries, weights = page.all(".queries li"), page.views["self"].weights
    page.hover(queries[2])
    assert page.shows("self", 1, 2) and queries[2].get_attribute("aria-selected") == "true"
    numbers = [item.text for item in page.all(".keys li b")]
    assert numbers == [f"{value:.3f}" for value in weights[1][:, 2, :3].mean(axis=0)] + ["masked"] * 2
    queries[1].click()
    page.hover(queries[3])
    assert page.shows("self", 1, 1), "locked"
    page.hover(page.all("h1")[0])
    page.press("\ue00c")                                              # Escape
    assert page.shows("self", 1, 4) and not page.all('[aria-selected="true"]')
    browser.execute_script("document.activeElement.blur()")
    page.press("\ue015")                                              # down, from nowhere: the last query is locked,
    assert page.shows("self", 1, 4) and page.all('.queries [aria-selected="true"]')[0].text.startswith("⏎")
    page.press("\ue015")                                              # and after it comes the first
    assert page.shows("self", 1, 0)
    page.press("\ue013", "\ue013")                                    # up, twice
    assert page.shows("self", 1, 3)
    page.press("\ue00c", "\ue012")                                    # Escape, left: the layer before
    assert page.shows("self", 0, 4)
    page.press("\ue014")                                              # right: back again
    assert page.shows("self", 1, 4)


def test_the_focus_stays_where_it_was(browser, tmp_path):
    page = Page(browser, tmp_path / "page.html", decoder)
    focus = lambda: browser.execute_script("return document.activeElement.dataset.at")
    assert len([item for item in page.all(".nf li") if item.get_attribute("tabindex") == "0"]) == 2, "one stop for each list"
    browser.execute_script("document.querySelectorAll('.keys li')[1].focus()")
    page.press("\ue015")                                              # down: the next key, and who looks at it
    assert focus() == "key-2" and page.all('.keys [tabindex="0"]')[0].get_attribute("data-at") == "key-2"
    assert "“␣” (place 2) is looked at most by" in page.all(".said")[0].text
    for press in ("\ue00c", "\ue014", "d", "2", "a"):                  # Escape, right, dark, a head, all heads
        page.press(press)
        assert focus() == "key-2", press
    page.press("q")                                                   # no such list in there: the view's own button
    assert focus() == "look at-query"
    page.button("all").click()
    assert focus() == "all heads"
    page.press("g")
    browser.execute_script("document.querySelector('.grid button').focus()")
    page.press("\ue007")                                              # Enter: the head of that cell
    assert focus() == "look at-heads" and page.shows("self", 0, 4, heads=[0])


def test_a_query_is_looked_at_in_detail_whatever_was_locked(browser, tmp_path):
    page = Page(browser, tmp_path / "page.html", decoder)
    page.all(".keys li")[1].click()
    page.press("q")
    assert page.shows("self", 1, 4) and "Query 4" in page.all("table.detail caption")[0].text


def test_long_labels_and_narrow_windows(browser, tmp_path):
    def long():
        model, reading = decoder()
        return model, reading._replace(read=["a", 60 * "b", "c", "d", "e"])

    page = Page(browser, tmp_path / "page.html", long)
    page.all(".queries li")[4].click()
    inside = ("return [...document.querySelectorAll('.keys li')].every(e => e.lastChild.getBoundingClientRect().right "
              "<= e.getBoundingClientRect().right)")
    assert browser.execute_script(inside), "a long label leaves its number in sight"
    size = browser.get_window_size()
    try:
        browser.set_window_size(500, 800)
        columns = browser.execute_script("const c = document.querySelector('.columns'); return [c.scrollWidth, c.clientWidth, innerWidth]")
        assert columns[0] <= columns[1] <= columns[2]
        assert browser.execute_script("return document.documentElement.scrollWidth <= innerWidth")
    finally:
        browser.set_window_size(size["width"], size["height"])


def test_weak_attention_is_seen_and_heads_differ_by_line(browser, tmp_path):
    """Among many keys no weight is large: the strongest line is drawn in full all the same."""
    def even():
        config = DecoderConfig(vocab_size=9, context_length=64, n_layers=1, n_heads=1, d_model=8, init_std=1e-4)
        return Decoder(config, rng()), Reading((np.ones((1, 64), int),), ["x"] * 64)

    page = Page(browser, tmp_path / "page.html", even)
    page.all(".queries li")[63].click()
    strongest = ("const c = document.querySelector('.columns canvas'); "
                 "const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data; "
                 "let top = 0; for (let k = 3; k < d.length; k += 4) top = Math.max(top, d[k]); return top")
    assert browser.execute_script(strongest) > 200
    page = Page(browser, tmp_path / "other.html", decoder)
    borders = browser.execute_script("return ['1', '2', '3'].map(k => getComputedStyle(document.querySelector(`[data-at='head-${k}']`))"
                                     ".borderBottomStyle)")
    assert borders == ["solid", "dashed", "dotted"]


def test_filters_of_layers_and_heads(browser, tmp_path):
    page = Page(browser, tmp_path / "page.html", decoder)
    page.button("head 2").click()                                     # from all of them to this one alone
    assert page.shows("self", 1, 4, heads=[1]) and page.button("head 2").get_attribute("aria-pressed") == "true"
    page.press("3")
    assert page.shows("self", 1, 4, heads=[1, 2])
    page.press("2")
    assert page.shows("self", 1, 4, heads=[2])
    page.button("layer 1").click()
    assert page.shows("self", 0, 4, heads=[2])
    page.button("all").click()
    assert page.shows("self", 0, 4)


def test_a_key_shows_who_looks_at_it(browser, tmp_path):
    page = Page(browser, tmp_path / "page.html", decoder)
    page.all(".keys li")[1].click()
    labels, numbers = page.table()
    expected = page.views["self"].weights[1][:, :, 1].mean(axis=0)
    assert labels == SIGNS and numbers[0] == "masked"
    np.testing.assert_allclose([float(number) for number in numbers[1:]], expected[1:], atol=7e-5)
    assert "is looked at most by" in page.all(".said")[0].text


def test_the_grid_leads_to_a_head(browser, tmp_path):
    page = Page(browser, tmp_path / "page.html", decoder)
    page.press("g")
    assert len(page.all(".grid canvas")) == 6
    first = "document.querySelectorAll('.grid canvas')[0].getContext('2d').getImageData(0, 0, 1, 1).data"
    pixel = browser.execute_script(f"return [...{first}]")
    assert pixel[:3] == [255, 233, 69], "the first query looks at itself alone: the brightest colour"
    page.button("layer 1, head 3").click()
    assert page.shows("self", 0, 4, heads=[2]) and page.all(".queries li")


def test_a_query_in_detail(browser, tmp_path):
    page = Page(browser, tmp_path / "page.html", decoder)
    page.all(".queries li")[3].click()
    page.press("q", "2")
    view = page.views["self"]
    rows = [[cell.text for cell in row.find_elements("css selector", "td, th")] for row in page.all("table.detail tbody tr")]
    products = view.k[1][1] @ view.q[1][1, 3]
    scores = view.scales[1] * products + view.biases[1][1, 3]
    for j, (label, _, product, score, weight) in enumerate(rows):
        assert label == SIGNS[j] and abs(float(product) - products[j]) < 6e-4
        if j > 3:
            assert score == weight == "masked"
        else:
            assert abs(float(score) - scores[j]) < 6e-4 and abs(float(weight) - view.weights[1][1, 3, j]) < 7e-5
    caption = page.all("table.detail caption")[0].text
    assert "Query 3" in caption and "layer 2, head 2" in caption and "bias" in caption


def test_dark_and_light(browser, tmp_path):
    page = Page(browser, tmp_path / "page.html", decoder)
    colour = lambda: browser.execute_script("return getComputedStyle(document.getElementById('nf')).backgroundColor")
    first = colour()
    page.press("d")
    second = colour()
    page.button("light" if "20, 22, 26" in second else "dark").click()
    assert {first, second} == {"rgb(255, 255, 255)", "rgb(20, 22, 26)"} and colour() == first


def test_views_of_an_encoder_decoder(browser, tmp_path):
    page = Page(browser, tmp_path / "page.html", encoder_decoder)
    assert page.shows("cross", 1, 2)
    page.button("encoder").click()
    assert page.shows("encoder", 1, 4)
    page.button("decoder").click()
    assert page.shows("decoder", 1, 2) and [item.text for item in page.all(".keys li span")] == ["[BEGIN]", "x", "y"]


def test_an_image_is_looked_at(browser, tmp_path):
    page = Page(browser, tmp_path / "page.html", vision)
    picture, = page.all(".image canvas")
    assert browser.execute_script("const c = document.querySelector('.image canvas'); return [c.width, c.height]") == [4, 4]
    from selenium.webdriver import ActionChains

    ActionChains(browser).move_to_element_with_offset(picture, 60, -60).click().perform()         # the patch above on the right
    assert page.shows("self", 1, 2) and "1,2" in page.all(".said")[0].text


def test_scores_that_are_no_products(browser, tmp_path):
    page = Page(browser, tmp_path / "page.html", recurrent)
    assert page.shows("cross", 0, 1)
    page.press("q")
    assert "no products" in page.all(".stage")[0].text
