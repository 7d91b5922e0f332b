"""One style for all pictures: colours, sizes of text, axes and maps, on light and dark ground.

The ground is white. Magnitudes run from white to blue, signed values from blue through white to
orange, and orange is also the one accent. Text has at least 12 points in a figure at most 8 inches
wide, or 18 points on a slide. ``dark()`` and ``slides()`` change the ground and the size.
"""

from contextlib import contextmanager
from functools import partial, wraps

import numpy as np

from numformer.plots.style import (
    GROUND, INK, BLUE, ACCENT, DARK_GROUND, DARK_INK, DARK_BLUE, DARK_ACCENT, WIDTH, SLIDE,
    in_slides, in_style, modes, text_inches)
from numformer.plots.text.labels import legible

# Blue and orange differ for every kind of colour vision; the others differ in lightness.
ON_LIGHT = (BLUE, ACCENT, "#5a6470", "#5b9bd5", INK, "#1f7a6d", "#9a7b1f", "#a9b8cc")
ON_DARK = (DARK_BLUE, DARK_ACCENT, "#b4bac2", "#4f8fcb", DARK_INK, "#6fc3b2", "#d8c26a", "#5f6f86")
LINES, MARKERS = ("-", "--", "-.", ":"), ("o", "s", "^", "D", "v", "P", "X", "*")


def styled(function):
    """Run a function that draws in the style of this page, and let every text have its font."""
    @wraps(function)
    def drawn(*arguments, **options):
        inputs = (*arguments, *options.values())
        with in_style(modes()), legible(inputs, not in_slides()) as finish:
            result = function(*arguments, **options)
            for ax in getattr(getattr(result, "figure", None), "axes", ()):
                _keep_ticks(ax)
            finish(result)
            return result
    return drawn


@styled
def new_figure(size, layout="constrained"):
    """A figure, made without pyplot: no global state, no window.

    It is drawn and saved in the style in which it was made, also long after the function that made
    it has ended, as in a notebook: some parts of a picture are made only then.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout=layout)
    for name in ("draw", "draw_without_rendering", "savefig"):
        setattr(figure, name, partial(_call_in_style, modes(), getattr(figure, name)))
    return figure


def _call_in_style(chosen, function, *arguments, **options):
    with in_style(chosen):
        return function(*arguments, **options)


@styled
def new_axes(size=(WIDTH, 4.5)):
    """Axes of a new figure."""
    return new_figure(SLIDE if in_slides() else size).add_subplot()


@styled
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
    axes = np.array([[figure.add_subplot(grid[row, column]) for column in range(columns)]
                     for row in range(rows)])
    for each in axes.flat:
        _keep_ticks(each)
    return axes


def entitle(ax, first, title):
    """A title over panels: of their figure, or of the first panel where they replace an `ax`."""
    if ax is None:
        first.figure.suptitle(title)
    else:
        first.set_title(f"{title}\n{first.get_title()}".strip())


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
    with in_style(modes() | {"dark"}):
        yield


@contextmanager
def slides():
    """Make figures for slides inside this with statement: 16:9, with text of at least 18 points.

    Examples
    --------
    >>> from numformer.plots import attention_map
    >>> with slides():
    ...     ax = attention_map(np.eye(3), title="One head")
    >>> ax.figure.get_size_inches().tolist(), ax.xaxis.label.get_size()
    ([13.33, 7.5], 18.0)
    """
    with in_style(modes() | {"slides"}):
        yield


def is_dark(ax):
    """Whether `ax` has a dark background."""
    return bool(np.dot(ax.get_facecolor()[:3], (0.299, 0.587, 0.114)) < 0.5)


def colours(ax):
    """Eight colours that are visible on the background of `ax`: blue, the accent, and others."""
    return ON_DARK if is_dark(ax) else ON_LIGHT


def faint(ax):
    """A grey for what is in the background."""
    return "#4a4f57" if is_dark(ax) else "#c3c8cf"


def styles(ax, count):
    """A colour, a line and a marker for each of up to 64 curves; none differ by colour alone."""
    found = colours(ax)
    return [{"color": found[k % 8], "linestyle": LINES[(k + k // 8) % 4],
             "marker": MARKERS[(k + k // 8) % 8]} for k in range(count)]


def sequential(ax):
    """The colour map of magnitudes: from the ground of `ax` to blue, monotone in lightness."""
    from matplotlib.colors import LinearSegmentedColormap

    stops = ([(0, DARK_GROUND), (1, DARK_BLUE)] if is_dark(ax)
             else [(0, GROUND), (0.72, BLUE), (1, "#07294f")])
    return LinearSegmentedColormap.from_list("magnitude", stops)


def signed_colours(ax):
    """The colour map of signed values: blue below zero, the ground of `ax` at zero, then orange."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("signed", (
        [DARK_BLUE, DARK_GROUND, DARK_ACCENT] if is_dark(ax) else [BLUE, GROUND, ACCENT]))


def readable_on(image, value):
    """Light or dark ink, whichever is readable on the colour that an image gives to a value."""
    r, g, b = (x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4
               for x in image.cmap(image.norm(value))[:3])
    return INK if 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.19 else "#ffffff"


def plain_ticks(axis):
    """Write 0.5, 1, 2 instead of powers of ten on a logarithmic axis of less than three decades."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = axis.get_view_interval()
    if 0 < low < high < 1000 * low:
        few = high > 20 * low
        axis.set_major_locator(LogLocator(subs=(1, 2, 5) if few else (1, 1.5, 2, 3, 4, 5, 6, 8)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_formatter(NullFormatter())


def legend_below(ax, columns, middle=0.5, **options):
    """A legend without a frame below the labels of the x axis, where it covers no data."""
    from matplotlib.transforms import ScaledTranslation

    down = ScaledTranslation(0, -3.1 * text_inches(), ax.figure.dpi_scale_trans)
    return ax.legend(loc="upper center", bbox_to_anchor=(middle, 0), ncols=columns, frameon=False,
                     bbox_transform=ax.transAxes + down, borderaxespad=0, **options)


def cell_inches(ax, columns, rows):
    """Width and height of a cell of a grid that fills `ax`; an estimate before layout."""
    extent, dpi = ax.get_window_extent(), ax.figure.dpi
    width, height = 0.92 * extent.width / dpi / columns, 0.92 * extent.height / dpi / rows
    return (min(width, height),) * 2 if ax.get_aspect() == 1 else (width, height)


@styled
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
        Whether to write the values into the cells; by default where there is space for them.
    form : str
        The format of these numbers.
    """
    from matplotlib.ticker import MaxNLocator

    top = top or float(np.nanmax(np.abs(values), initial=0)) or 1.0
    image = ax.imshow(values, cmap=signed_colours(ax) if signed else sequential(ax),
                      vmin=-top if signed else 0, vmax=top, aspect="auto", interpolation="nearest")
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(MaxNLocator("auto", integer=True))     # rows and columns are counted
    if label:
        ax.figure.colorbar(image, ax=ax, label=label, shrink=0.9)
    if numbers or numbers is None and _fit(ax, values, form):
        for (i, j), value in np.ndenumerate(values):
            if np.isfinite(value):
                ax.text(j, i, form.format(value), ha="center", va="center",
                        color=readable_on(image, value))
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
    ground, line = ("#22252b", "#3a3f47") if is_dark(ax) else ("#f1f2f4", "#d3d7dc")
    return ax.add_collection(PolyCollection(shapes, facecolor=ground, edgecolor=line, hatch="///",
                                            linewidth=0), autolim=False)


def _keep_ticks(ax):
    """Create the first ticks of each axis now: matplotlib copies their style to later ones."""
    for each in (ax, *ax.child_axes):
        for axis in (each.xaxis, each.yaxis):
            axis.get_major_ticks(1)
            axis.get_minor_ticks(1)


def _fit(ax, values, form):
    """Whether the numbers of a map fit into its cells."""
    longest = max((len(form.format(value)) for value in values.flat if np.isfinite(value)),
                  default=0)
    width, height = cell_inches(ax, *values.shape[::-1])
    return width > (0.62 * longest + 0.3) * text_inches() and height > 1.2 * text_inches()
