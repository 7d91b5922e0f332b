"""How time grows with size, on logarithmic axes, where a power law is a straight line."""

from numformer.plots.axes import WIDTH, legend_below, new_axes, styled, styles
from numformer.plots.tokens import plain

WORDS = {"B": "batch B", "T": "sequence length T", "C": "width C", "L": "layers L"}


@styled
def growth_of_time(growth, slopes, ax=None, title="A training step"):
    """One curve for each size that grows while the others stay fixed, with its slope at the right
    end.

    Parameters
    ----------
    growth : dict of str to dict
        For "B", "T", "C" and "L": milliseconds by size.
    slopes : dict of str to float
        The exponent of each.
    ax : matplotlib Axes, optional
        Axes to draw on; a new figure by default.
    title : str

    Returns
    -------
    Axes

    Raises
    ------
    ValueError
        If there is nothing to draw.
    """
    if not growth:
        raise ValueError("growth_of_time: growth is empty; there is nothing to draw.")
    if ax is None:
        ax = new_axes((WIDTH, 5.2))
    for (size, times), style in zip(growth.items(), styles(ax, len(growth))):
        slope = f": slope {slopes[size]:.2f}" if size in slopes else ""
        ax.plot(list(times), list(times.values()), **style,
                label=plain(WORDS.get(size, size)) + slope)
    ax.set(xscale="log", yscale="log", xlabel="batch, length, width or layers",
           ylabel="ms per step", title=title)
    ax.set_xscale("log", base=2)
    ax.grid(alpha=0.3, which="both")
    legend_below(ax, 2)
    return ax
