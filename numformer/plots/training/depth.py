"""What depth does: gradients that reach the first block of ever deeper stacks, and losses."""

from numformer.plots.axes import new_axes, styled, styles
from numformer.plots.tokens import plain
from numformer.plots.training.curves import averaged


@styled
def gradient_ratio_by_depth(ratios, ax=None, title="First block to last"):
    """The gradient norm at the first block relative to that at the last, by number of blocks.

    Parameters
    ----------
    ratios : dict of str to dict of int to float
        For each kind of stack, the ratio for each number of blocks.
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
    if not ratios or not all(ratios.values()):
        raise ValueError("gradient_ratio_by_depth: ratios hold no numbers; there is nothing to "
                         "draw.")
    ax = new_axes() if ax is None else ax
    for (name, by_depth), style in zip(ratios.items(), styles(ax, len(ratios))):
        ax.plot(*zip(*sorted(by_depth.items())), label=plain(name), **style)
    ax.set(xlabel="blocks", ylabel="gradient norm, first block / last block", yscale="log",
           title=title,
           xticks=sorted({depth for by_depth in ratios.values() for depth in by_depth}))
    ax.grid(alpha=0.3)
    ax.legend()
    return ax


@styled
def losses_by_step(runs, ax=None, title="Training loss"):
    """Training losses of several runs, as moving averages; labels have means of the last tenth.

    Parameters
    ----------
    runs : dict of str to sequence of float
        For each run, the loss of every step in nats per token.
    ax : matplotlib Axes, optional
        Axes to draw on; a new figure by default.
    title : str

    Returns
    -------
    Axes

    Raises
    ------
    ValueError
        If a run has no steps.
    """
    if not runs or not all(len(losses) for losses in runs.values()):
        raise ValueError("losses_by_step: a run has no steps; train at least one.")
    ax = new_axes() if ax is None else ax
    for (name, losses), style in zip(runs.items(), styles(ax, len(runs))):
        last = losses[-max(1, len(losses) // 10):]
        ax.plot(*averaged(range(1, len(losses) + 1), losses, 10), markersize=4,
                markevery=max(1, len(losses) // 6),
                label=f"{plain(name)}: {sum(last) / len(last):.3f}", **style)
    ax.set(xlabel="step", ylabel="loss, nats per token", title=title)
    ax.grid(alpha=0.3)
    ax.legend()
    return ax
