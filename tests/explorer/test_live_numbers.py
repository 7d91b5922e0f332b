"""The numbers that the live page computes in Chromium are NumPy's."""

import numpy as np
import pytest

from explorer_live import (
    LETTERS, NUMBERS, OPTIONS, TEXT, Oracle, check_numbers, live_decoder, live_page)

EVERY_HEAD = [[1.0] * 4] * 2
SOME_HEADS = [[1.0, 0.0, 1.0, 1.0], [1.0, 1.0, 1.7, 0.35]]


def ids_of(text):
    return [LETTERS.index(character) for character in text]


def open_page(browser, path, page):
    path.write_text(page.html, encoding="utf-8")
    browser.get(path.as_uri())


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("scales", [EVERY_HEAD, SOME_HEADS], ids=["all heads", "heads scaled"])
def test_forward_lens_and_backward_are_numpys(browser, tmp_path, name, scales):
    model, position, target = live_decoder(name), 7, 3
    open_page(browser, tmp_path / "page.html", live_page(model))
    found = browser.execute_script(NUMBERS, TEXT, scales, position, target)
    check_numbers(found, Oracle(model, ids_of(TEXT), position, target, scales), position)


@pytest.mark.slow
def test_a_head_that_is_switched_off_changes_the_probabilities_as_in_numpy(browser, tmp_path):
    model = live_decoder("llama")
    open_page(browser, tmp_path / "page.html", live_page(model))
    before = browser.execute_script("return numformerPage.probabilities(10)")
    browser.find_element("css selector", '[data-at="switch-1-2"]').click()
    after = browser.execute_script("return numformerPage.probabilities(10)")
    off = [[1.0] * 4, [1.0, 1.0, 0.0, 1.0]]
    for found, scales in ((before, EVERY_HEAD), (after, off)):
        z = Oracle(model, ids_of(TEXT), 10, 0, scales).logits[10].astype(np.float64)
        np.testing.assert_allclose(found, np.exp(z) / np.exp(z).sum(), atol=1e-4)
    assert np.abs(np.subtract(before, after)).max() > 1e-3, "the head matters"
    numbers = [item.text for item in browser.find_elements("css selector", ".bars .number")]
    best = int(np.argmax(after))
    assert f"{after[best]:.3f} ({before[best]:.3f})" in numbers
    status = browser.find_element("css selector", ".status").text
    assert "layer 2 head 3 × 0" in status


def test_float32_weights_are_numpys_own(browser, tmp_path):
    model = live_decoder()
    for _, parameter in model.named_parameters():
        parameter.data *= 1 + 1e-4                    # 16 bits would round this away
    page = live_page(model, weights="float32")
    open_page(browser, tmp_path / "page.html", page)
    found = browser.execute_script(NUMBERS, TEXT, EVERY_HEAD, 4, 0)
    oracle = Oracle(model, ids_of(TEXT), 4, 0, EVERY_HEAD)
    np.testing.assert_allclose(np.reshape(found["logits"], oracle.logits.shape), oracle.logits,
                               rtol=0, atol=2e-5)
    assert "all their 32 bits" in browser.find_element("css selector", ".prediction").text


def test_typing_at_the_end_computes_one_token(browser, tmp_path):
    open_page(browser, tmp_path / "page.html", live_page(live_decoder()))
    rows = lambda text: browser.execute_script(
        "numformerPage.readText(arguments[0]); return numformerPage.live.rows", text)
    assert [rows("abcd"), rows("abcde"), rows("abcdefgh"), rows("abc")] == [1, 1, 3, 0]
    assert rows("bbc") == 3, "a character at the beginning changes all"
    browser.execute_script("numformerPage.scale(0, 0, 0.5)")
    assert browser.execute_script("return numformerPage.live.rows") == 3


@pytest.mark.slow
def test_a_long_text_is_read_as_generate_reads_it(browser, tmp_path):
    from numformer.generation import generate

    model = live_decoder("llama")
    open_page(browser, tmp_path / "page.html", live_page(model))
    prompt = ids_of("abcdefghi" * 2)                  # 18 tokens, the context has 16
    expected = list(generate(model, np.array(prompt), 12, temperature=0))
    browser.execute_script("numformerPage.readText(arguments[0]); "
                           "numformerPage.sampled(0, { temperature: 0 })", "abcdefghi" * 2)
    for _ in expected:
        browser.find_element("css selector", '[data-at="step"]').click()
    assert browser.execute_script("return numformerPage.live.ids") == prompt + expected
    assert "The model reads the last" in browser.find_element("css selector", ".status").text


@pytest.mark.parametrize("temperature, top_k, top_p", [
    (1.0, None, 1.0), (0.5, 3, 1.0), (1.7, None, 0.6), (0.8, 5, 0.7), (0.0, None, 1.0)])
def test_sampling_probabilities_are_those_of_choose_token(browser, tmp_path, temperature, top_k,
                                                          top_p):
    from numformer.generation.sampling import choose_token

    model = live_decoder()
    open_page(browser, tmp_path / "page.html", live_page(model))
    p = browser.execute_script("return numformerPage.sampled(10, arguments[0])", {
        "temperature": temperature, "topK": top_k or 0, "topP": top_p})
    assert abs(sum(p) - 1) < 1e-12
    logits = model(np.array([ids_of(TEXT)]))[0, 10]
    rng, n = np.random.default_rng(0), 4000
    counts = np.bincount([choose_token(logits, rng, temperature, top_k, top_p) for _ in range(n)],
                         minlength=len(p))
    assert not counts[np.array(p) == 0].any()
    np.testing.assert_allclose(counts / n, p, atol=5 * (0.25 / n) ** 0.5)
