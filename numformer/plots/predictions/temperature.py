"""The distribution of the next token at several temperatures, and what top-k and top-p keep."""

import numpy as np

from numformer.analysis.predictions import check_language_model, next_token_distribution
from numformer.backend import one_blas_thread
from numformer.checks import check_array, check_whole
from numformer.plots.axes import colours, entitle, faint, in_slides, panels, styled
from numformer.plots.pictures import picture_of_run
from numformer.plots.tokens import label_ticks, visible

TOP_P, TOP_K = 0.9, 8                                 # of a run
MOST_LETTERS = 40                                     # of a text in a title


@styled
def temperature_panels(logits, vocabulary, temperatures=(0.5, 1.0, 2.0), top_k=None, top_p=0.9,
                       shown=16, ax=None, title="The next token at several temperatures"):
    """A panel of bars for each temperature: the most likely tokens, cut by top-k and top-p.

    Bars of tokens that can be sampled are filled. A dashed line marks where top-p ends, a dotted
    one where top-k ends; a token must be left of both.

    Parameters
    ----------
    logits : ndarray, shape (V,)
        Of the next token.
    vocabulary : list of V str
    temperatures : sequence of float, each above 0
    top_k : int, optional
    top_p : float in (0, 1], optional
        As in `numformer.generation.choose_token`; None keeps all tokens.
    shown : int
        Tokens on the axis, the most likely ones.
    ax : matplotlib Axes, optional
        Axes that the panels replace; a new figure by default.
    title : str

    Returns
    -------
    Figure

    Raises
    ------
    ValueError, TypeError
        If the number of labels is not V, there are no temperatures, or an option is out of range.

    References
    ----------
    See `next_token_distribution`.

    Examples
    --------
    >>> figure = temperature_panels(np.log([0.5, 0.3, 0.2]), list("abc"), temperatures=[1.0])
    >>> figure.axes[0].get_title()
    'temperature 1: entropy 1.5 bits, 3 of 3 tokens kept'
    """
    owner = "temperature_panels"
    V = check_array(owner, "logits", logits, "(V,)")["V"]
    check_whole(owner, "shown", shown)
    if len(vocabulary) != V:
        raise ValueError(f"{owner}: vocabulary has {len(vocabulary)} labels, but logits of shape "
                         f"{logits.shape} need {V}.")
    if not len(temperatures):
        raise ValueError(f"{owner}: temperatures is empty; give at least one number above 0.")
    order = (-logits).argsort(kind="stable")[:shown]
    n, labels = len(temperatures), [vocabulary[token] for token in order]
    axes = panels(ax, *((1, n) if in_slides() else (n, 1)), (8, 1.2 + 2.1 * n)).ravel()
    most = max(float(next_token_distribution(logits, each).max()) for each in temperatures)
    for panel, temperature in zip(axes, temperatures):
        p = next_token_distribution(logits, temperature)
        kept = next_token_distribution(logits, temperature, top_k, top_p) > 0
        x, (blue, accent) = np.arange(len(order)), colours(panel)[:2]
        panel.bar(x[kept[order]], p[order][kept[order]], color=blue, label="can be sampled")
        panel.bar(x[~kept[order]], p[order][~kept[order]], color=faint(panel), label="cut")
        ends = _ends(logits, temperature, top_k, top_p)
        for (name, end), style in zip(ends.items(), ("--", ":")):
            if end < len(order):
                panel.axvline(end - 0.5, color=accent, linestyle=style, label=name)
        label_ticks(panel.xaxis, labels)
        panel.set(xlim=(-0.7, len(order) - 0.3), ylim=(0, 1.05 * most), ylabel="probability",
                  title=f"temperature {temperature:g}" + (
                      f"\n{_entropy(p):.1f} bits, {kept.sum()} of {V} kept" if in_slides() else
                      f": entropy {_entropy(p):.1f} bits, {kept.sum()} of {V} tokens kept"))
    for panel in axes[1:] if in_slides() else ():
        panel.set_ylabel("")
    first = axes[0]
    if ax is None:
        first.figure.legend(*_unique(axes), loc="outside lower center", ncols=4)
    else:
        first.legend(*_unique(axes), loc="upper right")
    entitle(ax, first, title)
    return first.figure


def _ends(logits, temperature, top_k, top_p):
    """{name: number of tokens that are kept} of top-p and top-k, each on its own."""
    ends = {}
    if top_p is not None:
        kept = next_token_distribution(logits, temperature, top_k, top_p) > 0
        ends[f"top-p {top_p:g}"] = int(kept.sum())
    if top_k is not None:
        ends[f"top-k {top_k}"] = min(top_k, len(logits))
    return ends


def _entropy(p):
    """In bits."""
    return float(-(p[p > 0] * np.log2(p[p > 0])).sum() + 0.0)


def _unique(axes):
    """(handles, labels) of all panels, each label once, bars first."""
    found = {}
    for panel in axes:
        pairs = list(zip(*panel.get_legend_handles_labels()))
        for handle, label in sorted(pairs, key=lambda pair: "top-" in pair[1]):
            found.setdefault(label, handle)
    return list(found.values()), list(found)


@picture_of_run("temperature", "text")
def _temperature(run):
    """The distribution of the next token at several temperatures, with top-k and top-p."""
    check_language_model("temperature", run.model)
    reading = run.reading()
    with one_blas_thread():
        logits = run.model(reading.inputs[0])[0, -1]
    words, *earlier = [visible(token) for token in reading.read[:-25:-1]]
    for token in earlier:                             # as many as a title has space for
        if len(token) + len(words) > MOST_LETTERS:
            break
        words = token + words
    return temperature_panels(logits, run.vocabulary(), top_k=TOP_K, top_p=TOP_P,
                              title=f"The next token after “{words}”")
