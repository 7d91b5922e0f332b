"""Models with inputs to explore, and a page in a browser with what a user does there."""

import json

import numpy as np

from numformer.analysis.attention_views import Reading, attention_views
from numformer.explorer import explore
from numformer.models import (
    Decoder, DecoderConfig, EncoderDecoder, EncoderDecoderConfig, Seq2Seq, Seq2SeqConfig,
    VisionTransformer, VisionTransformerConfig)

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
    config = VisionTransformerConfig(image_size=4, patch_size=2, channels=1, n_classes=3,
                                     n_layers=2, n_heads=2, d_model=8, init_std=0.6)
    image = np.linspace(0, 1, 16, dtype=np.float32).reshape(4, 4, 1)
    patches = ["[CLS]", "1,1", "1,2", "2,1", "2,2"]
    return VisionTransformer(config, rng()), Reading((image[None],), patches, image=image)


def recurrent():
    model = Seq2Seq(Seq2SeqConfig(vocab_size=9, d_model=4, d_hidden=6), rng())
    return model, Reading((IDS, np.array([5]), IDS[:, :2]), LETTERS, ["[", "x", "]"])


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
        found, = (each for each in self.all("button")
                  if label in (each.text, each.get_attribute("aria-label")))
        return found

    def table(self):
        """(labels, weights as text) of the table for screen readers."""
        rows = [[cell.text for cell in row.find_elements("css selector", "td, th")]
                for row in self.all("table.numbers tbody tr")]
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
        """Requested URLs, except data URLs."""
        messages = [json.loads(entry["message"])["message"]
                    for entry in self.browser.get_log("performance")]
        urls = [each["params"]["request"]["url"] for each in messages
                if each["method"] == "Network.requestWillBeSent"]
        return [url for url in urls if not url.startswith("data:")]
