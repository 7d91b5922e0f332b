"""Attention as one HTML file: the numbers that NumPy computed, a style and a script of ours, and nothing from elsewhere."""

import base64
import html
import json
from importlib.resources import files

import numpy as np

from numformer.plots.tokens import signs
from numformer.plots.views import attention_views

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
{script}</script>
</body>
</html>
"""
HEIGHT = 720                                                          # pixels of the page in a notebook


class Explorer:
    """A page about what a model looked at; in a notebook it shows itself.

    Attributes
    ----------
    html : str
        The whole page.
    """

    def __init__(self, page):
        self.html = page

    def _repr_html_(self):
        return (f'<iframe srcdoc="{html.escape(self.html)}" style="width: 100%; height: {HEIGHT}px; border: 0" '
                'title="attention explorer"></iframe>')

    def __repr__(self):
        return f"Explorer({len(self.html):,} characters of HTML)"


def explore(model, reading, title="Attention", note=""):
    """Everything that a model looked at when it read something, to point at: heads, layers by heads, and one query in detail.

    Weights are rounded to 1/65535; queries, keys and biases are float32.

    Parameters
    ----------
    model : Layer
        With attention.
    reading : Reading
        What it reads, with labels: `task.reading(model, tokenizer, text)` makes one.
    title, note : str
        What stands above; a note says for example what was left out.

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
    >>> from numformer.plots.views import Reading
    >>> model = Decoder(DecoderConfig(vocab_size=5, context_length=8, n_layers=2, n_heads=2, d_model=8), np.random.default_rng(0))
    >>> page = explore(model, Reading((np.array([[1, 2, 3]]),), ["a", "b", "c"]))
    >>> page.html.startswith("<!doctype html>"), "http" in page.html
    (True, False)
    """
    data = {"title": title, "note": note, "views": [_packed_view(view) for view in attention_views(model, reading)], "image": None}
    if reading.image is not None:
        data["image"] = _packed_image(model, reading.image)
    return Explorer(PAGE.format(title=html.escape(title), style=_own("explorer.css"), script=_own("explorer.js"),
                                data=json.dumps(data).replace("<", "\\u003c")))


def _packed_view(view):
    weights, masks = np.stack(view.weights), np.stack(view.masks)     # (L, H, T, S), (L, T, S)
    biases = None
    if any(bias is not None for bias in view.biases):                 # of all layers, or of some
        biases = np.stack([np.zeros_like(weights[0]) if bias is None else bias for bias in view.biases])
    return {
        "name": view.name, "layers": weights.shape[0], "heads": weights.shape[1],
        "queries": [signs(token) for token in view.queries], "keys": [signs(token) for token in view.keys],
        "weights": _packed((weights * 65535).round().astype("<u2")), "masks": None if masks.all() else _packed(masks.astype("u1")),
        "q": None if view.q is None else _packed(np.stack(view.q).astype("<f4")),
        "k": None if view.k is None else _packed(np.stack(view.k).astype("<f4")),
        "width": 0 if view.q is None else view.q[0].shape[-1], "scales": [float(scale) for scale in view.scales],
        "biases": None if biases is None else _packed(biases.astype("<f4")),
    }


def _packed_image(model, image):
    """Grey pixels, 0 for paper and 255 for the darkest ink, and how the patches lie."""
    height, width, _ = image.shape
    grey = image.mean(axis=2)
    pixels = (255 * np.clip(grey / max(float(grey.max()), 1e-12), 0, 1)).round().astype("u1")
    return {"width": width, "height": height, "pixels": _packed(pixels), "side": model.config.side,
            "first": int(model.config.pooling == "class")}


def _packed(array):
    return base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()


def _own(name):
    return files(__package__).joinpath(name).read_text(encoding="utf-8")
