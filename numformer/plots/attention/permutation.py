"""Self-attention of permuted inputs: everything is permuted likewise, unless positions are added.
"""

import numpy as np

from numformer.plots.axes import draw_map, entitle, in_slides, panels, styled
from numformer.plots.tokens import label_ticks

PANELS = ("inputs", "queries and keys", "scores", "outputs")


@styled
def permutation_panels(rows, tokens, order, ax=None,
                       title="Self-attention depends on positions only if they are added"):
    """Inputs, queries and keys, scores and outputs of a sequence, in a row for each version of it.

    Row 0 is the sequence, row 1 the permuted one, row 2 the permuted one with positions added. A
    title over the outputs says how far they are from those of the sequence, permuted likewise: in
    row 2 from those of the sequence with positions.

    Parameters
    ----------
    rows : list of four dict
        `numformer.analysis.attention_steps` of the sequence and of the permuted one, then of both
        with positions added.
    tokens : list of str
        T labels, in the order of row 0.
    order : list of int
        Row 1 has the tokens of these indices.
    ax : matplotlib Axes, optional
        Axes that the panels replace; a new figure by default.
    title : str

    Returns
    -------
    Figure

    Raises
    ------
    ValueError
        If the order is no permutation of the tokens, or there are not four rows.
    """
    if sorted(order) != list(range(len(tokens))):
        raise ValueError(f"permutation_panels: order={list(order)} must hold each of 0 to "
                         f"{len(tokens) - 1} once, an index for every token.")
    if len(rows) != 4:
        raise ValueError(f"permutation_panels: {len(rows)} rows came; give the sequence and the "
                         "permuted one, without and with positions.")
    order, moved = list(order), [tokens[index] for index in order]
    versions = (("in order", rows[0], tokens, None), ("permuted", rows[1], moved, rows[0]),
                ("permuted,\nwith positions", rows[3], moved, rows[2]))
    axes = panels(ax, 3, 4, (8, 7.6), width_ratios=(1, 1.6, 1.1, 1))
    for k, (name, steps, labels, expected) in enumerate(versions):
        joined = np.concatenate([steps["queries"], steps["keys"]], axis=1)
        arrays = (steps["inputs"], joined, steps["scores"], steps["outputs"])
        for panel, array, words in zip(axes[k], arrays, PANELS):
            draw_map(panel, array, "", signed=True, top=_top(words, rows), numbers=False)
            if k == 0 or not in_slides():                             # where there is space
                panel.set_title(words, fontsize="medium")
            label_ticks(panel.yaxis, labels)
            panel.set_xticks([])
            panel.tick_params(length=0)
        if k != 1 or not in_slides():                                 # as those of the last row
            label_ticks(axes[k, 2].xaxis, labels)
        axes[k, 1].axvline(steps["queries"].shape[1] - 0.5, color=axes[k, 1].get_facecolor(),
                           linewidth=4)
        axes[k, 0].set_ylabel(name)
        if expected is not None:
            difference = np.abs(steps["outputs"] - expected["outputs"][order]).max()
            name = "" if in_slides() else "outputs\n"
            axes[k, 3].set_title(f"{name}(off by {difference:.1g})", fontsize="medium")
    entitle(ax, axes[0, 0], title)
    return axes[0, 0].figure


def _top(words, rows):
    """The end of the colour scale, the same in all rows."""
    names = words.split(" and ")
    return max(float(np.abs(row[name]).max()) for row in rows for name in names)
