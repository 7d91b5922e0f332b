"""A model as one HTML file with data, style and script, and no external resources."""

import base64
import html
import json
from importlib.resources import files

import numpy as np

from numformer.analysis.attention_views import attention_views
from numformer.explorer.live import live_model, why_not_live
from numformer.plots.text.letters import signs
from numformer.plots.tokens import LONGEST_TICK
from numformer.terminal import printable

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
# In this order: what a page shows, and what computes a model
VIEWS = ("base.js", "paint.js", "views/heads.js", "views/grid.js", "views/query.js",
         "views/table.js", "export.js")
ENGINE = tuple(f"engine/{name}.js" for name in (
    "tensors", "norms", "activations", "positions", "attention", "feedforward", "block", "decoder",
    "sampling", "tokenizers"))
LIVE = tuple(f"live/{name}.js" for name in ("state", "prediction", "stream", "backward", "measure"))
MOST = 64                                                         # tokens: more are hard to read
HEIGHT = 720                                                      # pixels of the page in a notebook


class Explorer:
    """A page about a model; a notebook displays it.

    Attributes
    ----------
    html : str
        The whole page.
    why_not_live : str or None
        Why the page does not compute the model; None if it does.
    """

    def __init__(self, page, why_not_live=None):
        self.html, self.why_not_live = page, why_not_live

    def _repr_html_(self):
        return (f'<iframe srcdoc="{html.escape(self.html)}" style="width: 100%; height: '
                f'{HEIGHT}px; border: 0" ' 'title="explorer of a model"></iframe>')

    def __repr__(self):
        kind = "live" if self.why_not_live is None else "not live"
        return f"Explorer({len(self.html):,} characters of HTML, {kind})"


def explore(model, reading, title="Attention", note="", tokenizer=None, most=MOST,
            weights="float16"):
    """A page to explore a model: attention of every head, layer by layer, one query in detail.

    With a tokenizer, the page of a decoder is live. It holds the weights and computes the model
    for any text that is typed into it: attention, the residual stream with the logit lens, the next
    token and how it is sampled, the model with heads scaled or switched off, and the backward pass
    of one prediction. Other models, and those for which `why_not_live` gives a reason, are shown
    for the one input of `reading`, with weights rounded to 1/65535; the page says why.

    Parameters
    ----------
    model : Layer
        A model with attention.
    reading : Reading
        The input with labels, for example from `task.reading(model, tokenizer, text)`.
    title, note : str
        Heading, and a remark below it.
    tokenizer : Tokenizer, optional
        Of the model; a live page needs it.
    most : int
        Tokens that a live page reads at most; not more than the context of the model.
    weights : "float16" or "float32"
        How a live page stores them: see `live_model`.

    Returns
    -------
    Explorer

    Raises
    ------
    ValueError
        If the model has no attention, or a weight does not fit into 16 bits.

    Examples
    --------
    >>> from numformer.data import CharacterTokenizer
    >>> from numformer.models import Decoder, DecoderConfig
    >>> from numformer.analysis.attention_views import Reading
    >>> config = DecoderConfig(vocab_size=5, context_length=8, n_layers=2, n_heads=2, d_model=8)
    >>> model = Decoder(config, np.random.default_rng(0))
    >>> reading = Reading((np.array([[1, 2, 3]]),), ["a", "b", "c"])
    >>> page = explore(model, reading)
    >>> page.html.startswith("<!doctype html>"), "http" in page.html, page.why_not_live
    (True, False, 'no tokenizer was given, which the page needs to read text')
    >>> explore(model, reading, tokenizer=CharacterTokenizer(" abcd")).why_not_live is None
    True
    """
    reason, views = why_not_live(model, tokenizer), attention_views(model, reading)
    data = {"title": printable(title), "note": note, "views": [], "image": None, "live": None}
    scripts = (*VIEWS, "explorer.js")
    if reason is None:
        data["live"] = live_model(model, tokenizer, most, weights)
        data["live"]["text"] = tokenizer.decode(reading.inputs[0][0][-most:])
        scripts = (*ENGINE, *VIEWS, *LIVE, "explorer.js")
    else:
        data["note"] = f"{note} One input, computed beforehand: {reason}.".strip()
        data["views"] = [_packed_view(view) for view in views]
    if reading.image is not None:
        data["image"] = _packed_image(model, reading.image)
    page = PAGE.format(title=html.escape(printable(title)), style=_own("explorer.css"),
                       script="".join(map(_own, scripts)),
                       data=json.dumps(data).replace("<", "\\u003c"))
    return Explorer(page, reason)


def _packed_view(view):
    weights, masks = np.stack(view.weights), np.stack(view.masks)     # (L, H, T, S), (L, T, S)
    biases = None
    if any(bias is not None for bias in view.biases):                 # in at least one layer
        biases = np.stack([np.zeros_like(weights[0]) if bias is None else bias
                           for bias in view.biases])
    return {
        "name": view.name, "layers": weights.shape[0], "heads": weights.shape[1],
        "queries": [signs(token, LONGEST_TICK) for token in view.queries],
        "keys": [signs(token, LONGEST_TICK) for token in view.keys],
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
