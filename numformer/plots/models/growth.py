"""How models have grown: parameters by year."""

from numformer.plots.axes import WIDTH, colours, new_axes, styled

FAMILIES = {"encoder-decoder": ("s", 1), "encoder": ("^", 4), "decoder": ("o", 0)}


@styled
def model_growth(sizes, labelled=None, ax=None, title="Models have grown"):
    """A point for each model: its year, and its parameters on a logarithmic axis.

    Parameters
    ----------
    sizes : list of ModelSize
        From `numformer.analysis.model_sizes`.
    labelled : dict of str to str, optional
        Names of models whose points have a label, and where it is: "left", "right", "above" or
        "below"; all to the right by default.
    ax : matplotlib Axes, optional
        Axes to draw on; a new figure by default.
    title : str

    Returns
    -------
    Axes

    Raises
    ------
    ValueError
        If there are no models, or a family is unknown.
    """
    if not sizes:
        raise ValueError("model_growth: sizes is empty; there is nothing to draw.")
    for size in sizes:
        if size.family not in FAMILIES:
            raise ValueError(f"model_growth: the family of {size.name} is {size.family!r}, but "
                             f"must be {', '.join(FAMILIES)}.")
    ax = new_axes((WIDTH, 5.4)) if ax is None else ax
    labelled = {size.name: "right" for size in sizes} if labelled is None else labelled
    for family, (marker, colour) in FAMILIES.items():
        found = [size for size in sizes if size.family == family]
        ax.plot([size.year for size in found], [size.parameters for size in found], marker=marker,
                color=colours(ax)[colour], linestyle="none", markersize=8, label=family)
    for size in sizes:
        if size.name in labelled:
            offset, sides = SIDES[labelled[size.name]]
            ax.annotate(size.name, (size.year, size.parameters), offset,
                        textcoords="offset points", **sides)
    ax.set_yscale("log")
    ax.set(xlabel="year of publication", ylabel="parameters", title=title)
    ax.set_xticks(range(int(min(size.year for size in sizes)),
                        int(max(size.year for size in sizes)) + 2))
    ax.margins(y=0.12)
    ax.grid(alpha=0.3)
    ax.legend(loc="upper left")
    return ax


# offset in points, and alignment
SIDES = {"right": ((8, 0), dict(ha="left", va="center")),
          "left": ((-8, 0), dict(ha="right", va="center")),
          "above": ((0, 8), dict(ha="center", va="bottom")),
          "below": ((0, -8), dict(ha="center", va="top"))}
