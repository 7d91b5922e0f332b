"""Attention as one HTML file with data, style and script, and no external resources."""

import base64
import html
import json
from importlib.resources import files

import numpy as np

from numformer.plots.tokens import signs
from numformer.analysis.attention_views import attention_views

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>{title}</title>
<style>
{style}</style>
</head>
<body>
<main class="nf" id="nf"></main>
<script type="application/json" id="nf-data">{data}</script>
<script>
"use strict";
(function () {{
{script}}})();
</script>
</body>
</html>
"""
SCRIPTS = ("data.js", "views.js", "explorer.js")
HEIGHT = 720                                                      # pixels of the page in a notebook


class Explorer:
    """A page about the attention of a model; a notebook displays it.

    Attributes
    ----------
    html : str
        The whole page.
    """

    def __init__(self, page):
        self.html = page

    def _repr_html_(self):
        return (f'<iframe srcdoc="{html.escape(self.html)}" style="width: 100%; height: '
                f'{HEIGHT}px; border: 0" ' 'title="attention explorer"></iframe>')

    def __repr__(self):
        return f"Explorer({len(self.html):,} characters of HTML)"


def explore(model, reading, title="Attention", note=""):
    """A page to explore the attention of a model for one input: heads, layers, one query in detail.

    Weights are rounded to 1/65535; queries, keys, values and biases are float32.

    Parameters
    ----------
    model : Layer
        A model with attention.
    reading : Reading
        The input with labels, for example from `task.reading(model, tokenizer, text)`.
    title, note : str
        Heading, and a remark below it.

    Returns
    -------
    Explorer

    Raises
    ------
    ValueError
        If the model has no attention.

    Examples
    --------
    >>> from numformer.models import Decoder, DecoderConfig
    >>> from numformer.analysis.attention_views import Reading
    >>> config = DecoderConfig(vocab_size=5, context_length=8, n_layers=2, n_heads=2, d_model=8)
    >>> model = Decoder(config, np.random.default_rng(0))
    >>> page = explore(model, Reading((np.array([[1, 2, 3]]),), ["a", "b", "c"]))
    >>> page.html.startswith("<!doctype html>"), "http" in page.html
    (True, False)
    """
    data = {"title": title, "note": note,
            "views": [_packed_view(view) for view in attention_views(model, reading)],
            "image": None}
    if reading.image is not None:
        data["image"] = _packed_image(model, reading.image)
    return Explorer(PAGE.format(title=html.escape(title), style=_own("explorer.css"),
                                script="".join(map(_own, SCRIPTS)),
                                data=json.dumps(data).replace("<", "\\u003c")))


def _packed_view(view):
    weights, masks = np.stack(view.weights), np.stack(view.masks)     # (L, H, T, S), (L, T, S)
    biases = None
    if any(bias is not None for bias in view.biases):                 # in at least one layer
        biases = np.stack([np.zeros_like(weights[0]) if bias is None else bias
                           for bias in view.biases])
    return {
        "name": view.name, "layers": weights.shape[0], "heads": weights.shape[1],
        "queries": [signs(token) for token in view.queries],
        "keys": [signs(token) for token in view.keys],
        "weights": _packed((weights * 65535).round().astype("<u2")), "masks": None if masks.all()
        else _packed(masks.astype("u1")),
        **{name: None if stack is None else _packed(np.stack(stack).astype("<f4"))
           for name, stack in (("q", view.q), ("k", view.k), ("v", view.v))},
        "width": 0 if view.q is None else view.q[0].shape[-1],
        "valueWidth": 0 if view.v is None else view.v[0].shape[-1],
        "scales": [float(scale) for scale in view.scales],
        "biases": None if biases is None else _packed(biases.astype("<f4")),
    }


def _packed_image(model, image):
    """Grey pixels, 0 for white and 255 for the darkest, and the grid of patches."""
    height, width, _ = image.shape
    grey = image.mean(axis=2)
    pixels = (255 * np.clip(grey / max(float(grey.max()), 1e-12), 0, 1)).round().astype("u1")
    return {"width": width, "height": height, "pixels": _packed(pixels), "side": model.config.side,
            "first": model.config.first_patch}


def _packed(array):
    return base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()


def _own(name):
    return files(__package__).joinpath(name).read_text(encoding="utf-8")
