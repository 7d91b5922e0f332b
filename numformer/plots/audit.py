"""The audit as a picture: the worst gradient error of each case, next to its bound."""

from numformer.plots.axes import faint, new_axes, styles

KINDS = ("function", "layer", "model", "loss", "kernel")
FLOOR = 1e-17                                                 # where an error of exactly 0 is drawn


def audit_errors(rows, ax=None, title="Worst error of every gradient"):
    """A mark for each case: its worst error, to the left of its bound.

    Parameters
    ----------
    rows : list of dict
        What `numformer.verify.audit.audit` returns.
    ax : matplotlib Axes, optional
        Axes to draw on; a new figure by default.
    title : str

    Returns
    -------
    Axes

    Raises
    ------
    ValueError
        If there are no rows.
    """
    if not rows:
        raise ValueError("audit_errors: rows is empty; there is nothing to draw.")
    if ax is None:
        ax = new_axes((9, 1.2 + 0.16 * len(rows)))
    for kind, style in zip(KINDS, styles(ax, len(KINDS))):
        lines = [k for k, row in enumerate(rows) if row["kind"] == kind]
        if lines:
            ax.plot([max(rows[k]["max_error"], FLOOR) for k in lines], lines, label=kind,
                    markersize=5, **(style | {"linestyle": "none"}))
    ax.plot([row["bound"] for row in rows], range(len(rows)), linestyle="none", marker="|",
            color=faint(ax), label="bound")
    for k, row in enumerate(rows):
        if not row["ok"]:
            ax.annotate("wrong", (max(row["max_error"], FLOOR), k), xytext=(6, -3),
                        textcoords="offset points", fontsize=7)
    ax.set(xscale="log", xlabel="worst relative error", title=title)
    ax.set_yticks(range(len(rows)), [row["name"] for row in rows], fontsize=6)
    ax.set_ylim(len(rows) - 0.5, -0.5)
    ax.grid(axis="x", alpha=0.3)
    # the picture is long: a scale at both ends
    ax.tick_params(axis="x", top=True, labeltop=True)
    ax.legend(loc="center right", fontsize=7)
    return ax
