"""The explorer's page holds the numbers of the model, and no external resources."""

import base64
import json
import re
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

from explorer_page import IDS, LETTERS, decoder, encoder_decoder, recurrent, rng, vision
from numformer.analysis.attention_views import Reading, attention_views
from numformer.explorer import explore
from numformer.explorer.page import ENGINE, LIVE, VIEWS
from numformer.layers import NoPositions
from numformer.models import RecurrentLanguageModel, RecurrentLanguageModelConfig


def data_of(page):
    return json.loads(re.search(r'id="nf-data">(.*?)</script>', page.html, re.DOTALL)[1])


def unpacked(text, kind, *shape):
    return np.frombuffer(base64.b64decode(text), kind).reshape(shape)


@pytest.mark.parametrize("made", [decoder, encoder_decoder, vision, recurrent])
def test_a_page_holds_the_numbers_of_the_model(made):
    model, reading = made()
    page = explore(model, reading, "a <title>", "a note")
    data, views = data_of(page), attention_views(model, reading)
    assert (data["title"], data["live"]) == ("a <title>", None)
    assert data["note"] == f"a note One input, computed beforehand: {page.why_not_live}."
    assert [view["name"] for view in data["views"]] == [view.name for view in views]
    for packed, view in zip(data["views"], views):
        L, (H, T, S) = len(view.weights), view.weights[0].shape
        assert (packed["layers"], packed["heads"], len(packed["queries"]),
                len(packed["keys"])) == (L, H, T, S)
        np.testing.assert_allclose(unpacked(packed["weights"], "<u2", L, H, T, S) / 65535,
                                   view.weights, atol=0.5001 / 65535)
        if view.q is None:
            assert packed["q"] is packed["k"] is packed["v"] is None
            continue
        q, k = unpacked(packed["q"], "<f4", L, H, T, -1), unpacked(packed["k"], "<f4", L, H, S, -1)
        assert np.array_equal(q, view.q) and np.array_equal(k, view.k)
        assert packed["width"] == q.shape[-1]
        v = unpacked(packed["v"], "<f4", L, H, S, packed["valueWidth"])
        assert np.array_equal(v, view.v)
        assert (packed["masks"] is None) == np.all(view.masks)
        assert (packed["biases"] is None) == (view.biases[0] is None)


def test_biases_of_some_layers_are_kept():
    model, reading = decoder()
    model.blocks[0].attention.positions = NoPositions()
    (packed,), (view,) = data_of(explore(model, reading))["views"], attention_views(model, reading)
    biases = unpacked(packed["biases"], "<f4", 2, 3, 5, 5)
    assert not biases[0].any() and np.array_equal(biases[1], view.biases[1].astype("<f4"))
    assert biases[1].any()


def test_a_page_has_no_external_resources():
    page = explore(*decoder())
    assert "http" not in page.html and "src=" not in page.html and "@import" not in page.html
    assert "</b>" not in page.html
    assert sum(len(files("numformer.explorer").joinpath(name).read_bytes())
               for name in (*VIEWS, "explorer.js", "explorer.css")) < 60_000
    shown = page._repr_html_()
    assert shown.startswith("<iframe srcdoc=") and "<script" not in shown and "HTML" in repr(page)


def test_a_model_without_attention_is_an_error():
    config = RecurrentLanguageModelConfig(vocab_size=9, context_length=8, n_layers=1, d_model=4)
    with pytest.raises(ValueError, match="no attention"):
        explore(RecurrentLanguageModel(config, rng()), Reading((IDS,), LETTERS))


def test_the_page_that_the_readme_links_to_is_of_the_code_of_today():
    page = (Path(__file__).parents[2] / "figures" / "explorer.html").read_text(encoding="utf-8")
    for name in (*ENGINE, *VIEWS, *LIVE, "explorer.js", "explorer.css"):
        code = files("numformer.explorer").joinpath(name).read_text(encoding="utf-8")
        assert code in page, f"{name} is another one: figures/README.md says how the page is made"
