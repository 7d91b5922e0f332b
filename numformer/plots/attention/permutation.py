"""Self-attention of permuted inputs: everything is permuted likewise, unless positions are added.
"""

import numpy as np

from numformer.plots.axes import draw_map, entitle, in_slides, panels, styled
from numformer.plots.tokens import label_ticks

# title of a column: what it shows, side by side
PANELS = {"inputs": ("inputs",), "queries, keys\nand values": ("queries", "keys", "values"),
          "scores": ("scores",), "weights": ("weights",), "outputs": ("outputs",)}


@styled
def permutation_panels(rows, tokens, order, ax=None,
                       title="Self-attention depends on positions only if they are added"):
    """Each array of an attention head for a sequence, in a row for each version of it.

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
    axes = panels(ax, 3, 5, (8, 7.6), width_ratios=(1, 2.2, 1.1, 1.1, 1))
    for k, (name, steps, labels, expected) in enumerate(versions):
        for panel, (words, shown) in zip(axes[k], PANELS.items()):
            array = np.concatenate([steps[each] for each in shown], axis=1)
            top = max(float(np.abs(row[each]).max()) for row in rows for each in shown)
            draw_map(panel, array, "", signed=words != "weights", top=top, numbers=False)
            if k == 0:                                                # the columns are the same
                panel.set_title(words, fontsize="medium")
            panel.set(xticks=[], yticks=[])
            panel.tick_params(length=0)
        label_ticks(axes[k, 0].yaxis, labels)
        if k != 1 or not in_slides():                                 # as those of the last row
            for panel in axes[k, 2:4]:
                label_ticks(panel.xaxis, labels)
        for n in (1, 2):
            axes[k, 1].axvline(n * steps["queries"].shape[1] - 0.5, linewidth=4,
                               color=axes[k, 1].get_facecolor())
        axes[k, 0].set_ylabel(name)
        if expected is not None:
            difference = np.abs(steps["outputs"] - expected["outputs"][order]).max()
            axes[k, 4].set_title(f"off by\n{difference:.1g}", fontsize="medium")
    entitle(ax, axes[0, 0], title)
    return axes[0, 0].figure
