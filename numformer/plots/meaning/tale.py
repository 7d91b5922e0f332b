"""A text whose words are shaded by the attention that one of them pays."""

import numpy as np

from numformer.plots.axes import colours, is_dark, new_axes, styled

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
    for t, word in enumerate(words):
        if used + len(word) + 1 > COLUMNS:
            lines.append([])
            used = 0
        lines[-1].append((t, used, word))
        used += len(word) + 1
    ax = new_axes((8, 0.42 * len(lines) + 1.1)) if ax is None else ax
    strong, frame = colours(ax)[1], colours(ax)[0]
    shade = np.asarray(weights) / max(float(np.max(weights)), 1e-12)
    for row, line in enumerate(lines):
        for t, column, word in line:
            box = dict(boxstyle="square,pad=0.12", facecolor=strong, alpha=float(shade[t]),
                       edgecolor="none")
            ax.text(column + len(word) / 2, -row, " " * len(word), family="monospace",
                    ha="center", va="center", bbox=box)
            ax.text(column + len(word) / 2, -row, word, family="monospace",
                    ha="center", va="center", color="0.9" if is_dark(ax) else "black",
                    bbox=dict(boxstyle="square,pad=0.2", facecolor="none", edgecolor=frame,
                              linewidth=1.6) if t == query else None)
            if t in marked:
                ax.plot([column, column + len(word)], [-row - 0.34] * 2, color=frame, linewidth=2.4,
                        solid_capstyle="butt")
    ax.set(xlim=(-1, COLUMNS + 1), ylim=(0.6 - len(lines), 0.7), xticks=[], yticks=[], title=title)
    ax.set_frame_on(False)
    return ax
