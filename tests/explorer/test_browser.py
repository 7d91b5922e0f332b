"""The explorer in a real browser: views, keys, focus, weights."""

from pathlib import Path

import numpy as np

from command import waited_for
from explorer_page import SIGNS, Page, decoder, encoder_decoder, recurrent, rng, vision
from numformer.analysis import capture
from numformer.analysis.attention_views import Reading
from numformer.functional.head_projections import split_heads
from numformer.layers import Linear
from numformer.models import Decoder, DecoderConfig


def test_a_page_opens_without_a_request(browser, tmp_path):
    page = Page(browser, tmp_path / "page.html", decoder)
    assert page.requests() == [(tmp_path / "page.html").as_uri()]
    assert browser.execute_script("return performance.getEntriesByType('resource').filter(e => "
                                  "!e.name.startsWith('data:')).length") == 0
    assert not [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]
    assert [item.text for item in page.all(".queries li span")] == SIGNS and browser.title == "Test"
    assert page.shows("self", 1, 4), "at first the last query of the last layer"


def test_hover_click_and_keys_select_tokens_and_layers(browser, tmp_path):
    page = Page(browser, tmp_path / "page.html", decoder)
    queries, weights = page.all(".queries li"), page.views["self"].weights
    page.hover(queries[2])
    assert page.shows("self", 1, 2) and queries[2].get_attribute("aria-selected") == "true"
    numbers = [item.text for item in page.all(".keys li b")]
    expected = weights[1][:, 2, :3].mean(axis=0)
    assert numbers == [f"{value:.3f}" for value in expected] + ["masked"] * 2
    queries[1].click()
    page.hover(queries[3])
    assert page.shows("self", 1, 1), "locked"
    page.hover(page.all("h1")[0])
    page.press("\ue00c")                                              # Escape
    assert page.shows("self", 1, 4) and not page.all('[aria-selected="true"]')
    browser.execute_script("document.activeElement.blur()")
    page.press("\ue015")                             # down, from nowhere: the last query is locked,
    assert page.shows("self", 1, 4)
    assert page.all('.queries [aria-selected="true"]')[0].text.startswith("⏎")
    page.press("\ue015")                                              # and after it comes the first
    assert page.shows("self", 1, 0)
    page.press("\ue013", "\ue013")                                    # up, twice
    assert page.shows("self", 1, 3)
    page.press("\ue00c", "\ue012")                                  # Escape, left: the layer before
    assert page.shows("self", 0, 4)
    page.press("\ue014")                                              # right: back again
    assert page.shows("self", 1, 4)


def test_the_focus_stays_on_the_same_element(browser, tmp_path):
    page = Page(browser, tmp_path / "page.html", decoder)
    focus = lambda: browser.execute_script("return document.activeElement.dataset.at")
    stops = [item for item in page.all(".nf li") if item.get_attribute("tabindex") == "0"]
    assert len(stops) == 2, "one stop of the Tab key for each list"
    browser.execute_script("document.querySelectorAll('.keys li')[1].focus()")
    page.press("\ue015")                                   # down: the next key, and its weights
    assert focus() == "key-2"
    assert page.all('.keys [tabindex="0"]')[0].get_attribute("data-at") == "key-2"
    assert "Key “␣” (position 2): largest weight" in page.all(".message")[0].text
    for press in ("\ue00c", "\ue014", "d", "2", "a"):       # Escape, right, dark, a head, all heads
        page.press(press)
        assert focus() == "key-2", press
    page.press("q")                                # that view has no such list: focus on its button
    assert focus() == "view-query"
    assert not page.all('[data-at="all heads"]'), "the query view shows one head"
    page.press("h")
    page.button("all").click()
    assert focus() == "all heads"
    page.press("g")
    browser.execute_script("document.querySelector('.grid button').focus()")
    page.press("\ue007")                                              # Enter: the head of that cell
    assert focus() == "view-heads" and page.shows("self", 0, 4, heads=[0])


def test_the_query_view_shows_a_query_even_if_a_key_was_locked(browser, tmp_path):
    page = Page(browser, tmp_path / "page.html", decoder)
    page.all(".keys li")[1].click()
    page.press("q")
    assert page.shows("self", 1, 4, heads=[0]), "the table has the head of the view, not a mean"
    assert "layer 2, head 1" in page.all(".message")[0].text
    assert "Query 4" in page.all("table.detail caption")[0].text
    page.hover(page.all("h1")[0])
    page.press("h")
    assert page.shows("self", 1, 4) and "mean of heads 1, 2, 3" in page.all(".message")[0].text


def test_long_labels_and_narrow_windows_hide_no_weights(browser, tmp_path):
    def long():
        model, reading = decoder()
        return model, reading._replace(read=["a", 60 * "b", "c", "d", "e"])

    page = Page(browser, tmp_path / "page.html", long)
    page.all(".queries li")[4].click()
    inside = ("return [...document.querySelectorAll('.keys li')].every(e => "
              "e.lastChild.getBoundingClientRect().right <= e.getBoundingClientRect().right)")
    assert browser.execute_script(inside), "a long label does not hide its weight"
    size = browser.get_window_size()
    try:
        browser.set_window_size(500, 800)
        fits = ("const c = document.querySelector('.columns'); return innerWidth < 600 "
                "&& c.scrollWidth <= c.clientWidth && c.clientWidth <= innerWidth "
                "&& document.documentElement.scrollWidth <= innerWidth")
        waited_for(lambda: browser.execute_script(fits))              # the layout follows later
    finally:
        browser.set_window_size(size["width"], size["height"])


def test_weak_attention_is_visible_and_heads_differ_by_line_style(browser, tmp_path):
    """The largest of many small weights has full opacity."""
    def even():
        config = DecoderConfig(vocab_size=9, context_length=64, n_layers=1, n_heads=1, d_model=8,
                               init_std=1e-4)
        return Decoder(config, rng()), Reading((np.ones((1, 64), int),), ["x"] * 64)

    page = Page(browser, tmp_path / "page.html", even)
    page.all(".queries li")[63].click()
    strongest = ("const c = document.querySelector('.columns canvas'); "
                 "const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data; "
                 "let top = 0; for (let k = 3; k < d.length; k += 4) top = Math.max(top, d[k]); "
                 "return top")
    assert browser.execute_script(strongest) > 200
    page = Page(browser, tmp_path / "other.html", decoder)
    borders = browser.execute_script(
        "return ['1', '2', '3'].map(k => getComputedStyle("
        "document.querySelector(`[data-at='head-${k}']`)).borderBottomStyle)")
    assert borders == ["solid", "dashed", "dotted"]


def test_buttons_and_keys_filter_layers_and_heads(browser, tmp_path):
    page = Page(browser, tmp_path / "page.html", decoder)
    page.button("head 2").click()                               # from all of them to this one alone
    assert page.shows("self", 1, 4, heads=[1])
    assert page.button("head 2").get_attribute("aria-pressed") == "true"
    page.press("3")
    assert page.shows("self", 1, 4, heads=[1, 2])
    page.press("2")
    assert page.shows("self", 1, 4, heads=[2])
    page.button("layer 1").click()
    assert page.shows("self", 0, 4, heads=[2])
    page.button("all").click()
    assert page.shows("self", 0, 4)


def test_a_key_shows_the_weights_of_all_queries(browser, tmp_path):
    page = Page(browser, tmp_path / "page.html", decoder)
    page.all(".keys li")[1].click()
    labels, numbers = page.table()
    expected = page.views["self"].weights[1][:, :, 1].mean(axis=0)
    assert labels == SIGNS and numbers[0] == "masked"
    np.testing.assert_allclose([float(number) for number in numbers[1:]], expected[1:], atol=7e-5)
    assert "from query" in page.all(".message")[0].text


def test_a_click_in_the_grid_selects_a_head(browser, tmp_path):
    page = Page(browser, tmp_path / "page.html", decoder)
    page.press("g")
    assert len(page.all(".grid canvas")) == 6
    first = ("document.querySelectorAll('.grid canvas')[0]"
             ".getContext('2d').getImageData(0, 0, 1, 1).data")
    pixel = browser.execute_script(f"return [...{first}]")
    assert pixel[:3] == [18, 87, 168], "the first query attends to itself alone"
    sizes = browser.execute_script("return [...document.querySelectorAll('.grid canvas')].map("
                                   "c => c.getBoundingClientRect().width)")
    assert min(sizes) >= 160
    page.button("layer 1, head 3").click()
    assert page.shows("self", 0, 4, heads=[2]) and page.all(".queries li")


def test_the_query_view_shows_products_scores_and_weights(browser, tmp_path):
    page = Page(browser, tmp_path / "page.html", decoder)
    page.all(".queries li")[3].click()
    page.press("q", "2")
    view = page.views["self"]
    rows = [[cell.text for cell in row.find_elements("css selector", "td, th")]
            for row in page.all("table.detail tbody tr")]
    products = view.k[1][1] @ view.q[1][1, 3]
    scores = view.scales[1] * products + view.biases[1][1, 3]
    for j, (label, _, product, score, weight, *_) in enumerate(rows):
        assert label == SIGNS[j] and abs(float(product) - products[j]) < 6e-4
        if j > 3:
            assert score == weight == "masked"
        else:
            assert abs(float(score) - scores[j]) < 6e-4
            assert abs(float(weight) - view.weights[1][1, 3, j]) < 7e-5
    caption = page.all("table.detail caption")[0].text
    assert "Query 3" in caption and "layer 2, head 2" in caption and "position bias" in caption


def test_the_query_view_mixes_the_values(browser, tmp_path):
    page = Page(browser, tmp_path / "page.html", decoder)
    page.all(".queries li")[3].click()
    page.press("q", "2")
    view = page.views["self"]
    v = view.v[1][1]                                                  # (S, D_V)
    products = view.weights[1][1, 3][:, None] * v
    lines = page.all("table.detail tbody tr")
    assert len(lines) == len(v)
    for line, value, product in zip(lines, v, products):
        _, *shown = labels(line)
        np.testing.assert_allclose(shown, [value, product], rtol=0, atol=6e-4)
        norm = float(line.find_elements("css selector", "td")[-1].text)
        assert abs(norm - np.linalg.norm(product)) < 6e-4
    output, = labels(page.all("table.detail tfoot tr")[0])
    np.testing.assert_allclose(output, products.sum(axis=0), rtol=0, atol=6e-4)
    np.testing.assert_allclose(output, head_output(page, layer=1, head=1)[3], rtol=0, atol=6e-4)


def labels(line):
    """The numbers of each strip of a line."""
    return [[float(number) for number in strip.get_attribute("aria-label").split()]
            for strip in line.find_elements("css selector", "canvas")]


def head_output(page, layer, head):
    """What the output projection reads of one head, (T, D_V)."""
    attention = page.model.blocks[layer].attention
    with capture(attention, Linear) as calls:
        page.model(*page.reading.inputs)
    (x,), = (call.inputs for call in calls if call.layer is attention.output)
    return split_heads(x, attention.d_value)[0, head]


def test_the_page_switches_between_dark_and_light(browser, tmp_path):
    page = Page(browser, tmp_path / "page.html", decoder)
    colour = lambda: browser.execute_script(
        "return getComputedStyle(document.getElementById('nf')).backgroundColor")
    first = colour()
    page.press("d")
    second = colour()
    page.button("light" if "20, 22, 26" in second else "dark").click()
    assert {first, second} == {"rgb(255, 255, 255)", "rgb(20, 22, 26)"} and colour() == first


def test_buttons_select_the_view_of_an_encoder_decoder(browser, tmp_path):
    page = Page(browser, tmp_path / "page.html", encoder_decoder)
    assert page.shows("cross", 1, 2)
    page.button("encoder").click()
    assert page.shows("encoder", 1, 4)
    page.button("decoder").click()
    assert page.shows("decoder", 1, 2)
    assert [item.text for item in page.all(".keys li span")] == ["[BEGIN]", "x", "y"]


def test_a_click_in_the_image_selects_a_patch(browser, tmp_path):
    page = Page(browser, tmp_path / "page.html", vision)
    picture, = page.all(".image canvas")
    assert browser.execute_script("const c = document.querySelector('.image canvas'); return "
                                  "[c.width, c.height]") == [4, 4]
    from selenium.webdriver import ActionChains

    # the patch above on the right
    ActionChains(browser).move_to_element_with_offset(picture, 60, -60).click().perform()
    assert page.shows("self", 1, 2) and "1,2" in page.all(".message")[0].text


def test_scores_that_are_not_products_have_no_query_view(browser, tmp_path):
    page = Page(browser, tmp_path / "page.html", recurrent)
    assert page.shows("cross", 0, 1)
    page.press("q")
    assert "not products" in page.all(".stage")[0].text


def test_the_page_that_the_readme_links_to_computes_what_is_typed(browser):
    browser.get((Path(__file__).parents[2] / "figures" / "explorer.html").as_uri())
    shown = lambda words: words in browser.find_element("css selector", "body").text
    assert waited_for(lambda: shown("Next token after “e” (position 32)"))
    box = browser.find_element("css selector", '[data-at="text"]')
    box.clear()
    box.send_keys("def fun")
    assert waited_for(lambda: shown("Next token after “n” (position 6)"))
    assert not [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]
