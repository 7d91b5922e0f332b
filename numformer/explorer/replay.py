"""A training as one HTML file: a slider over its states, which draws every panel from numbers."""

import base64
import html
import json
from importlib.resources import files

import numpy as np

from numformer.plots.text.letters import signs
from numformer.plots.tokens import LONGEST_TICK
from numformer.plots.training.curves import moving_average
from numformer.plots.training.film import CLASSES, MOST_LETTERS, check_film
from numformer.terminal import printable

PAGE = """<!doctype html>
<html lang="en" class="{ground}">
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
# the colour of each class of tokens, of four
COLOUR_OF = dict(zip(CLASSES, (0, 1, 1, 2, 3, 0, 1)))


def replay_page(film, fps=4.0, dark=False):
    """A page with a slider over the states of a training; space plays, arrows move by one state.

    Attention weights are rounded to 1/65535; embeddings are float32.

    Parameters
    ----------
    film : Film
    fps : float
        States per second while it plays.
    dark : bool
        Dark on every screen; otherwise the page is dark where the browser prefers it.

    Returns
    -------
    str
        The HTML.

    Raises
    ------
    ValueError
        If shapes of the film do not match.

    Examples
    --------
    >>> from numformer.plots.training.film import Film
    >>> film = Film("A model", "nats", [0, 5], [(1, 2.0)], [(5, 1.0)], "a", ["xq", "bc"])
    >>> page = replay_page(film)
    >>> page.startswith("<!doctype html>"), "src=" in page
    (True, False)
    """
    check_film("replay_page", film)
    present = {name: COLOUR_OF[name] for name in CLASSES if name in film.classes}
    data = {
        "title": film.title, "unit": film.unit, "fps": fps, "steps": film.steps,
        "lossSteps": [step for step, _ in film.losses],
        "losses": [round(loss, 4) for loss in moving_average([loss for _, loss in film.losses])],
        "validations": film.validations, "prompt": film.prompt, "samples": film.samples,
        "head": film.head, "queries": [signs(token, LONGEST_TICK) for token in film.queries],
        "keys": [signs(token, LONGEST_TICK) for token in film.keys],
        "mask": None if film.mask is None or film.mask.all() else film.mask.astype(int).tolist(),
        "attention": None if film.attention is None
        else _packed((film.attention * 65535).round().astype("<u2")),
        "points": None if film.points is None else _packed(film.points.astype("<f4")),
        "tokens": [signs(token, MOST_LETTERS) for token in film.tokens],
        "classes": [present[name] for name in film.classes],
        "classNames": [(number, name) for name, number in present.items()],
    }
    own = files(__package__)
    return PAGE.format(title=html.escape(printable(film.title)), ground="dark" if dark else "auto",
                       style=own.joinpath("replay.css").read_text(encoding="utf-8"),
                       script=own.joinpath("replay.js").read_text(encoding="utf-8"),
                       data=json.dumps(data).replace("<", "\\u003c"))


def _packed(array):
    return base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()
