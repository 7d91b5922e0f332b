"""Pictures of attention."""

from functools import lru_cache

import numpy as np

from numformer.checks import check_array
from numformer.plots.axes import new_axes


def attention_map(weights, tokens=None, mask=None, ax=None, title="Attention"):
    """Who looks at whom: a row for every query, a column for every key, brighter for more weight.

    Colour goes with the root of the weight, for most weights are small beside that of a query with few keys.

    Parameters
    ----------
    weights : ndarray, shape (T, S)
        Attention weights of one head, or a mean of several; rows sum to 1.
    tokens : list of str, optional
        Labels of the keys; the last T of them label the queries.
    mask : ndarray of bool, shape (T, S), optional
        True where a query may look. Other cells are hatched.
    ax : matplotlib Axes, optional
        Where to draw; a new figure unless given.
    title : str

    Returns
    -------
    Axes

    Raises
    ------
    ValueError
        If shapes or the number of labels do not fit.
    """
    T, S = check_array("attention_map", "weights", np.asarray(weights), "(T, S)").values()
    if tokens is not None and len(tokens) != S:
        raise ValueError(f"attention_map: {len(tokens)} labels came for S={S} keys; give one a key.")
    if mask is not None and np.shape(mask) != (T, S):
        raise ValueError(f"attention_map: mask has shape {np.shape(mask)}, but must have (T, S) = ({T}, {S}).")
    if ax is None:
        ax = new_axes((4.5 + 0.12 * S, 4 + 0.12 * T))
    image = ax.imshow(weights, cmap="cividis", norm=_root_scale(float(np.max(weights))))
    ax.figure.colorbar(image, ax=ax, label="weight", shrink=0.8)
    if mask is not None:
        i, j = np.nonzero(~np.asarray(mask))
        for row, column in zip(i, j):
            ax.add_patch(_cell(column, row))
    if tokens is not None:
        shown = [visible(token) for token in tokens]
        ax.set_xticks(range(S), shown, fontsize=8)
        ax.set_yticks(range(T), shown[S - T:], fontsize=8)
    ax.set(xlabel="key", ylabel="query", title=title)
    return ax


def visible(token):
    """A token as a label: white space by its usual signs, and by its code what the font has no glyph for.

    Examples
    --------
    >>> visible(" "), visible("\\n"), visible("a"), visible("\\u4e2d")
    ('␣', '⏎', 'a', 'U+4E2D')
    """
    token = token.replace(" ", "\u2423").replace("\n", "\u23ce").replace("\t", "\u21e5")
    return "".join(character if ord(character) in _glyphs() else f"U+{ord(character):04X}" for character in token)


@lru_cache(maxsize=1)
def _glyphs():
    """The code points that matplotlib's default font can draw."""
    from matplotlib.font_manager import FontProperties, findfont
    from matplotlib.ft2font import FT2Font

    return set(FT2Font(findfont(FontProperties())).get_charmap())


def _root_scale(top):
    from matplotlib.colors import PowerNorm

    return PowerNorm(0.5, vmin=0, vmax=max(top, 1e-12))


def _cell(column, row):
    from matplotlib.patches import Rectangle

    return Rectangle((column - 0.5, row - 0.5), 1, 1, facecolor="0.85", edgecolor="0.6", hatch="///", linewidth=0)
