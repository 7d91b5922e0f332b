"""How costs grow with length: curves on logarithmic axes, with their slopes."""

import numpy as np

from numformer.plots.axes import entitle, in_slides, panels, styled, styles
from numformer.plots.tokens import plain


@styled
def power_law_panels(quantities, slopes, fitted_from=0, ax=None, xlabel="sequence length N",
                     title="Costs by sequence length"):
    """A panel for each quantity, with a curve for each method; a power law is a straight line.

    Parameters
    ----------
    quantities : dict of str to dict
        For each quantity with its unit, for each method, {length: value above 0}.
    slopes : dict of str to dict of str to float
        For each quantity, the exponent of each method; it is written into the legend.
    fitted_from : float
        The smallest length of the fits: shorter ones are drawn fainter.
    ax : matplotlib Axes, optional
        Axes that the panels replace; a new figure by default.
    xlabel, title : str

    Returns
    -------
    Figure

    Raises
    ------
    ValueError
        If there is nothing to draw.
    """
    if not quantities or not all(quantities.values()):
        raise ValueError("power_law_panels: quantities are empty; there is nothing to draw.")
    n = len(quantities)
    axes = panels(ax, *((1, n) if in_slides() else (n, 1)), (8, 4.2 * n)).ravel()
    for panel, (quantity, methods) in zip(axes, quantities.items()):
        for (name, values), style in zip(methods.items(), styles(panel, len(methods))):
            x, y = np.array(list(values)), np.array(list(values.values()))
            panel.plot(x[x >= fitted_from], y[x >= fitted_from], markersize=5,
                       label=f"{plain(name)}: N$^{{{slopes[quantity][name] + 0.0:.2f}}}$", **style)
            panel.plot(x[x <= fitted_from], y[x <= fitted_from], color=style["color"], alpha=0.4,
                       linestyle=style["linestyle"], linewidth=1)
        panel.set(yscale="log", xlabel=xlabel, title=plain(quantity))
        panel.set_xscale("log", base=2)
        panel.grid(alpha=0.3)
        panel.legend()
    entitle(ax, axes[0], title)
    return axes[0].figure
