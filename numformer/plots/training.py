"""Pictures of a training run."""

import math

from numformer.plots.axes import new_axes


def loss_curve(metrics, ax=None, title="Loss"):
    """Training loss of every step, its running mean, and the validation losses; bits a token on the right.

    Parameters
    ----------
    metrics : list of dict
        Lines of a run's ``metrics.jsonl``.
    ax : matplotlib Axes, optional
        Where to draw; a new figure unless given.
    title : str

    Returns
    -------
    Axes

    Raises
    ------
    ValueError
        If there are no metrics.
    """
    steps = [line["step"] for line in metrics if "loss" in line]
    losses = [line["loss"] for line in metrics if "loss" in line]
    validations = [(line["step"], line["val_loss"]) for line in metrics if "val_loss" in line]
    if not steps and not validations:
        raise ValueError("loss_curve: the metrics hold no loss; train at least one step.")
    if ax is None:
        ax = new_axes((7, 4.2))
    if steps:
        ax.plot(steps, losses, color="0.75", linewidth=0.8, label="training, each step")
        ax.plot(steps, running_mean(losses), color="#00204c", linewidth=1.6, label="training, running mean")
    if validations:
        ax.plot(*zip(*validations), color="#b8860b", marker="o", linestyle="--", label=f"validation, at last {validations[-1][1]:.3f}")
    ax.set(xlabel="step", ylabel="loss, nats a token", title=title)
    bits = ax.secondary_yaxis("right", functions=(lambda nats: nats / math.log(2), lambda bits: bits * math.log(2)))
    bits.set_ylabel("bits a token")
    ax.grid(alpha=0.3)
    ax.legend()
    return ax


def running_mean(values, weight=0.05):
    """An exponential mean, corrected for its beginning.

    Examples
    --------
    >>> running_mean([2.0, 2.0, 2.0])
    [2.0, 2.0, 2.0]
    """
    means, mean, total = [], 0.0, 0.0
    for value in values:
        mean, total = (1 - weight) * mean + weight * value, (1 - weight) * total + weight
        means.append(mean / total)
    return means
