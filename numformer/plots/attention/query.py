"""One query in detail: products, scores and weights as numbers, and the values that they mix."""

import math

import numpy as np

from numformer.checks import check_array, check_number, check_whole
from numformer.functional.softmax import softmax
from numformer.plots.axes import WIDTH, cell_inches, draw_map, entitle, panels, styled, text_inches
from numformer.plots.pictures import picture_of_run
from numformer.plots.text.labels import label
from numformer.plots.tokens import LONGEST_TICK, visible, write_ticks

COLUMNS = ("q · k", "score", "weight")


@styled
def query_detail(q, k, tokens=None, scale=None, bias=None, mask=None, ax=None, title="One query",
                 v=None):
    r"""One query with all keys, their coordinate products, and the numbers q · k, score and weight.

    .. math:: z_j = s\, q \cdot k_j + \beta_j, \qquad p = \mathrm{softmax}(z), \qquad
              o = \textstyle\sum_j p_j v_j

    Parameters
    ----------
    q : ndarray, shape (D,)
    k : ndarray, shape (S, D)
        With rotary positions applied, if there are any.
    tokens : list of S str, optional
        Labels of the keys.
    scale : float, optional
        s; 1 / sqrt(D) unless given.
    bias : ndarray, shape (S,), optional
        The position bias on the scores: ALiBi, or T5's.
    mask : ndarray of bool, shape (S,), optional
        True where the query may attend to a key. The others are shown as masked.
    ax : matplotlib Axes, optional
        Axes that the panels replace; a new figure by default.
    title : str
    v : ndarray, shape (S, D_V), optional
        Values: then the next panels show them, and what each contributes to the output o.

    Returns
    -------
    Figure
        The third panel holds the numbers, as text.

    Raises
    ------
    ValueError, TypeError
        If shapes do not match, or every key is masked.
    """
    from matplotlib.ticker import MaxNLocator

    D = check_array("query_detail", "q", q, "(D,)")["D"]
    check_whole("query_detail", "D", D)
    S = check_array("query_detail", "k", k, "(S, D)", D=D)["S"]
    tokens = range(S) if tokens is None else [visible(token, LONGEST_TICK) for token in tokens]
    mask = np.ones(S, bool) if mask is None else np.asarray(mask, bool)
    for name, sized in (("tokens", tokens), ("bias", bias), ("mask", mask)):
        if sized is not None and len(sized) != S:
            raise ValueError(f"query_detail: {len(sized)} {name} for S={S} keys; give one per key.")
    if not mask.any():
        raise ValueError(
            "query_detail: the mask leaves the query no key; there is nothing to show.")
    if scale is not None:
        check_number("query_detail", "scale", scale, above=0)
    if v is not None:
        check_array("query_detail", "v", v, "(S, D_V)", S=S)
    products = k @ q                                                  # (S,)
    scores = (1 / math.sqrt(D) if scale is None
              else scale) * products + (0 if bias is None else np.asarray(bias))
    weights, _ = softmax(scores, mask=mask)

    widths = [3, 2.4, 4.6] + ([2.2, 2.2] if v is not None else [])
    vectors, parts, numbers, *mixed = panels(ax, 1, len(widths), (WIDTH, 2.0 + 0.24 * S),
                                             width_ratios=widths)[0]
    gap = np.full((1, D), np.nan)
    draw_map(vectors, np.concatenate([q[None], gap, k]), "", signed=True, numbers=False)
    every = max(1, math.ceil(1.15 * text_inches() / cell_inches(vectors, 1, S + 2)[1]))
    write_ticks(vectors.yaxis, [0, *range(2, S + 2, every)],
                [label(str(token)) for token in ("q", *tokens[::every])])
    vectors.set(xlabel="coord.", title="q and keys")
    draw_map(parts, np.concatenate([np.full((2, D), np.nan), k * q]), "", signed=True,
             numbers=False)
    parts.set(xlabel="coord.", yticks=[], title="products")
    numbers.set(xlim=(-0.6, 2.4), ylim=vectors.get_ylim(), title="")
    numbers.axis("off")
    for column, name in enumerate(COLUMNS):
        numbers.text(column, 0, name, ha="center", va="center", fontweight="bold")
    best = int(weights.argmax())
    for j in range(S):                                        # there may be no space for all
        if j != best and (j % every or abs(j - best) < every):
            continue
        shown = (products[j], scores[j], weights[j]) if mask[j] else (products[j], None, None)
        strong = "bold" if weights[j] == weights.max() else "normal"
        for column, number in enumerate(shown):
            numbers.text(column, j + 2, "masked" if number is None else f"{number:.2f}",
                         ha="center", va="center", fontweight=strong)
    if v is not None:
        _draw_mixture(*mixed, weights, v)
    for panel in (vectors, parts, *mixed):
        panel.xaxis.set_major_locator(MaxNLocator(2, integer=True))
    entitle(ax, vectors, title)
    return vectors.figure


def _draw_mixture(values, contributions, weights, v):
    """The values; and each times its weight, with their sum, the output, in the first row."""
    blank = np.full((2, v.shape[1]), np.nan)
    draw_map(values, np.concatenate([blank, v]), "", signed=True, numbers=False)
    values.set(xlabel="coord.", yticks=[], title="values")
    parts = weights[:, None] * v                                      # (S, D_V)
    draw_map(contributions, np.concatenate([parts.sum(axis=0)[None], blank[:1], parts]), "",
             signed=True, numbers=False)
    contributions.set_yticks([0], ["o"])
    contributions.set(xlabel="coord.", title="weighted")


@picture_of_run("query", "text", "view", "layer", "head", "query")
def _query(run):
    """One query of one head in numbers: q, k, their products, scores, weights, mixed values."""
    view = run.view()
    if view.q is None:
        raise ValueError("its scores are not products of queries and keys.")
    layer, head, t = run.layer(view), run.head(view) or 0, run.query(view)
    bias = view.biases[layer]
    return query_detail(view.q[layer][head, t], view.k[layer][head], view.keys,
                        view.scales[layer], None if bias is None else bias[head, t],
                        view.masks[layer][t], title=f"Query {t}, “{visible(view.queries[t])}”, "
                        f"layer {layer + 1}, head {head + 1}", v=view.v[layer][head])
