"""A text whose words are shaded by the attention that one of them pays."""

import numpy as np

from numformer.plots.axes import colours, is_dark, new_axes, styled
from numformer.plots.text.grid import MONOSPACE, columns_of
from numformer.plots.text.labels import label
from numformer.plots.text.letters import signs, visual_order
from numformer.plots.tokens import LONGEST, visible

COLUMNS = 58                                                          # characters of a line


@styled
def attention_on_words(words, weights, query, marked=(), title="", ax=None):
    """Write a text; the ground of each word shows the weight that the query gives it.

    Parameters
    ----------
    words : list of str
    weights : ndarray, shape (T,)
        Attention of the query to each word.
    query : int
        The word that attends: it has a frame.
    marked : sequence of int
        Words to underline, such as the right answer.
    title : str
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes
    """
    lines, used = [[]], 0
    sizes = [columns_of(signs(word, LONGEST)) for word in words]
    for t, size in enumerate(sizes):
        if used + size + 1 > COLUMNS and lines[-1]:
            lines.append([])
            used = 0
        lines[-1].append(t)
        used += size + 1
    ax = new_axes((8, 0.42 * len(lines) + 1.1)) if ax is None else ax
    strong, frame = colours(ax)[1], colours(ax)[0]
    shade = np.asarray(weights) / max(float(np.max(weights)), 1e-12)
    for row, line in enumerate(lines):
        column = 0
        for t in (line[k] for k in visual_order([words[t] or " " for t in line])):
            shown, font, _ = label(visible(words[t]), **MONOSPACE)
            middle = column + sizes[t] / 2
            box = dict(boxstyle="square,pad=0.12", facecolor=strong, alpha=float(shade[t]),
                       edgecolor="none")
            ax.text(middle, -row, " " * sizes[t], **MONOSPACE, ha="center", va="center", bbox=box)
            ax.text(middle, -row, shown, **font, ha="center", va="center",
                    color="0.9" if is_dark(ax) else "black",
                    bbox=dict(boxstyle="square,pad=0.2", facecolor="none", edgecolor=frame,
                              linewidth=1.6) if t == query else None)
            if t in marked:
                ax.plot([column, column + sizes[t]], [-row - 0.34] * 2, color=frame, linewidth=2.4,
                        solid_capstyle="butt")
            column += sizes[t] + 1
    ax.set(xlim=(-1, COLUMNS + 1), ylim=(0.6 - len(lines), 0.7), xticks=[], yticks=[], title=title)
    ax.set_frame_on(False)
    return ax
