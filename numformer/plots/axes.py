"""Where a picture is drawn, and in which colours: readable in print, by the colour-blind, on light paper and on dark."""

from contextlib import contextmanager

import numpy as np

# From dark to light for white paper, and light ones for black; blue and gold are told apart by everybody.
ON_LIGHT = ("#00204c", "#b8860b", "#5c6f9c", "#7c7b78", "#1f7a6d", "#c2703d", "#9a9a4b", "#a8b4d0")
ON_DARK = ("#ffe066", "#9db7e8", "#d8d6cf", "#6fc3b2", "#f0a070", "#c8c86a", "#7f93c8", "#ffffff")
LINES, MARKERS = ("-", "--", "-.", ":"), ("o", "s", "^", "D", "v", "P", "X", "*")
SIGNED = ("#00204c", "#6b7ba4", "#f7f5ef", "#dcae3f", "#8a5f00")      # below zero blue and darker, above zero gold
NUMBERED = 150                                                        # cells: a map of so many or fewer says its numbers


def new_axes(size):
    """Axes of a figure of its own, made without pyplot: nothing global, no window."""
    from matplotlib.figure import Figure

    return Figure(figsize=size, layout="constrained").add_subplot()


def panels(ax, rows, columns, size, **ratios):
    """Axes in rows and columns, in the place of `ax`, or in a figure of their own where that is None: ndarray (rows, columns).

    ratios : `width_ratios`, `height_ratios`
    """
    ax = new_axes(size) if ax is None else ax
    spec, figure = ax.get_subplotspec(), ax.figure
    if spec is None:
        raise ValueError("a picture of several panels needs the place of an `ax` that came from add_subplot or subplots.")
    ax.remove()
    grid = spec.subgridspec(rows, columns, **ratios)
    return np.array([[figure.add_subplot(grid[row, column]) for column in range(columns)] for row in range(rows)])


def entitle(ax, first, title):
    """A title over panels: over their figure, or over the first of them where they stand in the place of an `ax` among others."""
    if ax is None:
        first.figure.suptitle(title)
    else:
        first.set_title(f"{title}\n{first.get_title()}".strip(), fontsize=10)


@contextmanager
def dark():
    """Inside this with statement figures are made for dark screens.

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
    faces = dict.fromkeys(("figure.facecolor", "axes.facecolor", "savefig.facecolor", "legend.facecolor"), paper)
    inks = dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "axes.titlecolor", "xtick.color", "ytick.color", "grid.color",
                          "hatch.color"), ink)
    with rc_context({**faces, **inks}):
        yield


def is_dark(ax):
    """Whether what is drawn on `ax` stands on dark ground."""
    return bool(np.dot(ax.get_facecolor()[:3], (0.299, 0.587, 0.114)) < 0.5)


def colours(ax):
    """Eight colours that are seen on the ground of `ax`, the strongest first."""
    return ON_DARK if is_dark(ax) else ON_LIGHT


def faint(ax):
    """A grey for what stands behind."""
    return "0.4" if is_dark(ax) else "0.75"


def styles(ax, count):
    """For each of up to 64 curves a colour, a line and a marker: no two are alike, and none differ by colour alone."""
    found = colours(ax)
    return [{"color": found[k % 8], "linestyle": LINES[(k + k // 8) % 4], "marker": MARKERS[(k + k // 8) % 8]} for k in range(count)]


def draw_map(ax, values, label, signed=False, top=None, numbers=None, spelled="{:.2g}"):
    """A matrix as a map with its colour bar; the image.

    Parameters
    ----------
    ax : matplotlib Axes
    values : ndarray, shape (rows, columns)
        NaN is left blank.
    label : str
        Of the colour bar; "" for none.
    signed : bool
        Whether zero has a meaning: then it lies in the middle of a scale with two ends.
    top : float, optional
        The end of the scale; the largest size of a value unless given.
    numbers : bool, optional
        Whether the cells say their values; only in small maps unless given.
    spelled : str
        How they say it.
    """
    from matplotlib.ticker import MaxNLocator

    top = top or float(np.nanmax(np.abs(values), initial=0)) or 1.0
    image = ax.imshow(values, cmap=signed_colours() if signed else "cividis", vmin=-top if signed else 0, vmax=top, aspect="auto",
                      interpolation="nearest")
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(MaxNLocator(integer=True))             # rows and columns are counted
    if label:
        ax.figure.colorbar(image, ax=ax, label=label, shrink=0.9)
    if numbers or numbers is None and values.size <= NUMBERED:
        for (i, j), value in np.ndenumerate(values):
            if np.isfinite(value):
                ax.text(j, i, spelled.format(value), ha="center", va="center", fontsize=7, color=_ink(image, value))
    return image


def hatch_cells(ax, cells):
    """Hatch the cells of a map where a matrix of bool says so: one shape for each run of them in a row."""
    from matplotlib.collections import PolyCollection

    shapes = []
    for row, its_cells in enumerate(np.asarray(cells, bool)):
        ends = np.flatnonzero(np.diff(its_cells, prepend=False, append=False))
        for first, last in ends.reshape(-1, 2) - 0.5:
            shapes.append([(first, row - 0.5), (last, row - 0.5), (last, row + 0.5), (first, row + 0.5)])
    ground, line = ("0.25", "0.5") if is_dark(ax) else ("0.85", "0.6")
    return ax.add_collection(PolyCollection(shapes, facecolor=ground, edgecolor=line, hatch="///", linewidth=0), autolim=False)


def signed_colours():
    """From dark blue below zero over paper white to gold above: told apart in grey and by the colour-blind."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("signed", SIGNED)


def _ink(image, value):
    """Black or white, whichever is read on the colour of a value."""
    return "black" if np.dot(image.cmap(image.norm(value))[:3], (0.299, 0.587, 0.114)) > 0.5 else "white"
