"""Training with and without gradient clipping: losses, and gradient norms before clipping."""

from numformer.plots.axes import entitle, in_slides, panels, styled, styles
from numformer.plots.tokens import plain
from numformer.plots.training.curves import averaged


@styled
def clipping_curves(runs, ax=None, title="Gradient clipping"):
    """Training losses of several runs, and the norms of their gradients before clipping.

    Parameters
    ----------
    runs : dict of str to list of dict
        For each run, a dict with ``loss`` and ``gradient_norm`` for each step, as
        `Trainer.train_step` returns it.
    ax : matplotlib Axes, optional
        Axes that the panels replace; a new figure by default.
    title : str

    Returns
    -------
    list of two Axes
        Losses, as moving averages; and gradient norms, on logarithmic axes.

    Raises
    ------
    ValueError
        If a run has no steps.
    """
    if not runs or not all(runs.values()):
        raise ValueError("clipping_curves: a run has no steps; train at least one.")
    losses, norms = panels(ax, *((1, 2) if in_slides() else (2, 1)), (8, 8)).flat
    for (name, steps), style in zip(runs.items(), styles(losses, len(runs))):
        style |= dict(markevery=max(1, len(steps) // 6), markersize=4, label=plain(name))
        numbers = range(1, len(steps) + 1)
        losses.plot(*averaged(numbers, [step["loss"] for step in steps], 5), **style)
        norms.plot(numbers, [step["gradient_norm"] for step in steps], linewidth=0.9, **style)
    losses.set(xlabel="step", ylabel="loss, nats per token", title="training loss")
    norms.set(xlabel="step", ylabel="gradient norm", xscale="log", yscale="log",
              title="norm before clipping")
    for panel in (losses, norms):
        panel.grid(alpha=0.3)
    losses.legend()
    entitle(ax, losses, title)
    return [losses, norms]
