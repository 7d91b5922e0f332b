"""Axes and colours: readable in print, by the colour-blind, on light and on dark ground."""

from contextlib import contextmanager

import numpy as np

# Blue and gold differ for every kind of colour vision.
ON_LIGHT = ("#00204c", "#b8860b", "#5c6f9c", "#7c7b78", "#1f7a6d", "#c2703d", "#9a9a4b", "#a8b4d0")
ON_DARK = ("#ffe066", "#9db7e8", "#d8d6cf", "#6fc3b2", "#f0a070", "#c8c86a", "#7f93c8", "#ffffff")
LINES, MARKERS = ("-", "--", "-.", ":"), ("o", "s", "^", "D", "v", "P", "X", "*")
SIGNED = ("#00204c", "#6b7ba4", "#f7f5ef", "#dcae3f", "#8a5f00")      # blue below zero, gold above
NUMBERED = 150                                 # cells: a map with at most so many shows its numbers


def new_axes(size):
    """Axes of a new figure, made without pyplot: no global state, no window."""
    from matplotlib.figure import Figure

    return Figure(figsize=size, layout="constrained").add_subplot()


def panels(ax, rows, columns, size, **ratios):
    """Axes in rows and columns, ndarray (rows, columns): replacing `ax`, or in a new figure.

    ratios : `width_ratios`, `height_ratios`
    """
    ax = new_axes(size) if ax is None else ax
    spec, figure = ax.get_subplotspec(), ax.figure
    if spec is None:
        raise ValueError("a picture of several panels replaces `ax`, which must come from "
                         "add_subplot or subplots.")
    ax.remove()
    grid = spec.subgridspec(rows, columns, **ratios)
    return np.array([[figure.add_subplot(grid[row, column]) for column in range(columns)]
                     for row in range(rows)])


def entitle(ax, first, title):
    """A title over panels: of their figure, or of the first panel where they replace an `ax`."""
    if ax is None:
        first.figure.suptitle(title)
    else:
        first.set_title(f"{title}\n{first.get_title()}".strip(), fontsize=10)


@contextmanager
def dark():
    """Make figures for dark screens inside this with statement.

    Examples
    --------
    >>> from numformer.plots import attention_map
    >>> with dark():
    ...     ax = attention_map(np.eye(3))
    >>> ax.get_facecolor()[:3] < (0.2, 0.2, 0.2)
    True
    """
    from matplotlib import rc_context

    paper, ink = "#14161a", "#e8e6e0"
    faces = dict.fromkeys(("figure.facecolor", "axes.facecolor", "savefig.facecolor",
                           "legend.facecolor"), paper)
    inks = dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "axes.titlecolor",
                          "xtick.color", "ytick.color", "grid.color", "hatch.color"), ink)
    with rc_context({**faces, **inks}):
        yield


def is_dark(ax):
    """Whether `ax` has a dark background."""
    return bool(np.dot(ax.get_facecolor()[:3], (0.299, 0.587, 0.114)) < 0.5)


def colours(ax):
    """Eight colours that are visible on the background of `ax`, the strongest first."""
    return ON_DARK if is_dark(ax) else ON_LIGHT


def faint(ax):
    """A grey for what is in the background."""
    return "0.4" if is_dark(ax) else "0.75"


def styles(ax, count):
    """A colour, a line and a marker for each of up to 64 curves; none differ by colour alone."""
    found = colours(ax)
    return [{"color": found[k % 8], "linestyle": LINES[(k + k // 8) % 4],
             "marker": MARKERS[(k + k // 8) % 8]} for k in range(count)]


def draw_map(ax, values, label, signed=False, top=None, numbers=None, form="{:.2g}"):
    """Draw a matrix as a map with a colour bar; return the image.

    Parameters
    ----------
    ax : matplotlib Axes
    values : ndarray, shape (rows, columns)
        NaN is left blank.
    label : str
        Of the colour bar; "" for none.
    signed : bool
        Whether values have a sign: then zero is the middle of the colour scale.
    top : float, optional
        The end of the scale; the largest absolute value by default.
    numbers : bool, optional
        Whether to write the values into the cells; by default only in small maps.
    form : str
        The format of these numbers.
    """
    from matplotlib.ticker import MaxNLocator

    top = top or float(np.nanmax(np.abs(values), initial=0)) or 1.0
    image = ax.imshow(values, cmap=signed_colours() if signed else "cividis", vmin=-top if signed
                      else 0, vmax=top, aspect="auto", interpolation="nearest")
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(MaxNLocator(integer=True))             # rows and columns are counted
    if label:
        ax.figure.colorbar(image, ax=ax, label=label, shrink=0.9)
    if numbers or numbers is None and values.size <= NUMBERED:
        for (i, j), value in np.ndenumerate(values):
            if np.isfinite(value):
                ax.text(j, i, form.format(value), ha="center", va="center", fontsize=7,
                        color=_ink(image, value))
    return image


def hatch_cells(ax, cells):
    """Hatch the cells of a map where a matrix of bool is True: one shape per run in a row."""
    from matplotlib.collections import PolyCollection

    shapes = []
    for row, its_cells in enumerate(np.asarray(cells, bool)):
        ends = np.flatnonzero(np.diff(its_cells, prepend=False, append=False))
        for first, last in ends.reshape(-1, 2) - 0.5:
            shapes.append([(first, row - 0.5), (last, row - 0.5), (last, row + 0.5),
                           (first, row + 0.5)])
    ground, line = ("0.25", "0.5") if is_dark(ax) else ("0.85", "0.6")
    return ax.add_collection(PolyCollection(shapes, facecolor=ground, edgecolor=line, hatch="///",
                                            linewidth=0), autolim=False)


def signed_colours():
    """A colour map from dark blue below zero through white to gold above."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("signed", SIGNED)


def _ink(image, value):
    """Black or white, whichever is readable on the colour of a value."""
    return "black" if np.dot(image.cmap(image.norm(value))[:3],
                             (0.299, 0.587, 0.114)) > 0.5 else "white"
