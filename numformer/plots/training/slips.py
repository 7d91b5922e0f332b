"""What misprints of equations cost, and which test notices each."""

from numformer.plots.axes import colours, faint, in_slides, legend_below, new_axes, styled

KINDS = {"shapes": "a test of shapes", "gradients": "a test of gradients",
         "reference": "only a test against the reference", "none": "no test"}
MARKERS = {"shapes": "s", "gradients": "^", "reference": "o", "none": "X"}


@styled
def slip_costs(right, slips, ax=None, title="What a misprint costs, and which test notices it"):
    """Two losses of a model trained with each misprint, joined by a line; the largest on top.

    Filled: every token predicted from those before it alone, as in generation. Hollow: all
    positions of a block at once, as in training. They differ where the misprint lets a model see
    the tokens that it predicts.

    Parameters
    ----------
    right : dict
        ``val_loss`` and ``generating`` of the model without a misprint.
    slips : list of dict
        For each misprint these two, its ``name`` and ``deck``, and ``notice``: "shapes",
        "gradients", "reference" or "none", the cheapest test that notices it.
    ax : matplotlib Axes, optional
        Axes to draw on; a new figure by default.
    title : str

    Returns
    -------
    Axes

    Raises
    ------
    ValueError
        If there are no misprints, or a ``notice`` is unknown.
    """
    if not slips:
        raise ValueError("slip_costs: slips is empty; there is nothing to draw.")
    for slip in slips:
        if slip["notice"] not in KINDS:
            raise ValueError(f"slip_costs: the notice of {slip['name']} is {slip['notice']!r}, but "
                             f"must be {', '.join(KINDS)}.")
    ax = new_axes((8, 0.36 * len(slips) + 2.4)) if ax is None else ax
    found = dict(zip(KINDS, (colours(ax)[k] for k in (4, 1, 0, 5))))
    slips = sorted(slips, key=lambda slip: slip["generating"])
    ax.axvline(right["generating"], color=faint(ax), linewidth=6, zorder=0, label="no misprint")
    for row, slip in enumerate(slips):
        losses, colour = (slip["val_loss"], slip["generating"]), found[slip["notice"]]
        ax.plot(losses, (row, row), color=colour, linewidth=2, zorder=1)
        style = dict(marker=MARKERS[slip["notice"]], color=colour, linestyle="none", markersize=9)
        ax.plot(losses[:1], (row,), **{**style, "markerfacecolor": ax.get_facecolor()}, zorder=2)
        ax.plot(losses[1:], (row,), **style, zorder=3)
        cost = slip["generating"] - right["generating"]
        ax.annotate(f"{cost:+.2f}", (max(losses), row), (9, 0), textcoords="offset points",
                    va="center")
    for kind in dict.fromkeys(slip["notice"] for slip in reversed(slips)):
        ax.plot([], [], marker=MARKERS[kind], color=found[kind], linestyle="none", markersize=9,
                label=KINDS[kind])
    ax.plot([], [], marker="o", color=faint(ax), linestyle="none", markersize=9,
            markerfacecolor=ax.get_facecolor(), label="hollow: a block at once")
    ax.set_yticks(range(len(slips)), [f"{slip['name'].replace('_', ' ')} ({slip['deck']})"
                                      for slip in slips])
    low, high = ax.get_xlim()
    ax.set(xlabel="held-out loss, nats per character", title=title,
           xlim=(low, high + 0.06 * (high - low)))
    ax.grid(axis="x", alpha=0.3)
    legend_below(ax, 3 if in_slides() else 2, 0.32)
    return ax
