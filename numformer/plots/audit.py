"""The audit as a picture: a histogram of all gradient errors, and the worst cases by name."""

import numpy as np

from numformer.plots.axes import colours, entitle, faint, in_slides, panels, styled

FLOOR = 1e-17                                                 # where an error of exactly 0 is drawn
CEILING = 1e3                                                 # one that is larger, Inf or NaN
LONGEST = 50                                                  # letters of a name
NAMED = 12                                                    # cases with the largest errors


@styled
def audit_errors(rows, ax=None, title="Worst error of every gradient"):
    """A histogram of the worst error of each case, and the cases closest to their bounds.

    Parameters
    ----------
    rows : list of dict
        What `numformer.verify.audit.audit` returns.
    ax : matplotlib Axes, optional
        Axes that the panels replace; a new figure by default.
    title : str

    Returns
    -------
    Figure

    Raises
    ------
    ValueError
        If there are no rows.
    """
    if not rows:
        raise ValueError("audit_errors: rows is empty; there is nothing to draw.")
    errors = np.nan_to_num([row["max_error"] for row in rows], nan=CEILING).clip(FLOOR, CEILING)
    bounds = np.maximum([row["bound"] for row in rows], FLOOR)
    worst = np.argsort(-errors / bounds, kind="stable")[:NAMED].tolist()
    if in_slides():
        top, below = panels(ax, 1, 2, (8, 4), width_ratios=(1, 2))[0]
    else:
        top, below = panels(ax, 2, 1, (8, 4.4 + 0.43 * len(worst)),
                            height_ratios=(2.9, 1 + 0.43 * len(worst)))[:, 0]
    shown = len(worst) if not in_slides() else min(8, len(worst))
    exponents, most = np.floor(np.log10(errors)).astype(int), 3 if in_slides() else 9
    top.hist(exponents, np.arange(exponents.min(), exponents.max() + 2) - 0.5, rwidth=0.85,
             color=colours(top)[0])
    top.set_xticks(range(exponents.min(), exponents.max() + 1, 1 + np.ptp(exponents) // most),
                   [f"$10^{{{e}}}$" for e in range(exponents.min(), exponents.max() + 1,
                                                   1 + np.ptp(exponents) // most)])
    right = sum(row["ok"] for row in rows)
    top.set(xlabel="worst relative error, by power of ten", ylabel="cases",
            title=f"{right:,} of {len(rows):,} cases are"
                  f"{chr(10) if in_slides() else ' '}within their bounds")
    worst = worst[:shown]
    for y, k in enumerate(worst):
        wrong = not rows[k]["ok"]
        below.plot([errors[k], bounds[k]], [y, y], color=faint(below), zorder=0)
        below.plot(errors[k], y, marker="X" if wrong else "o", linestyle="none", zorder=2,
                   color=colours(below)[wrong])
        if wrong:
            below.annotate("wrong", (errors[k], y), xytext=(9, 0), va="center",
                           textcoords="offset points", color=colours(below)[1])
    below.plot(bounds[worst], range(len(worst)), linestyle="none", marker="|",
               markersize=11, markeredgewidth=2, color=colours(below)[2])
    below.set(xscale="log", xlabel="worst relative error",
              title=f"The {len(worst)} closest to their bounds (|)")
    for y, k in enumerate(worst):                                     # above its line
        name = rows[k]["name"]
        name = name if len(name) <= LONGEST else f"{name[:LONGEST - 1]}…"
        below.text(0.01, y - 0.42, name, transform=below.get_yaxis_transform(), va="center")
    below.set(yticks=[], ylim=(len(worst) - 0.6, -0.75))
    below.margins(x=0.06)
    below.grid(axis="x", alpha=0.3)
    entitle(ax, top, title)
    return top.figure
