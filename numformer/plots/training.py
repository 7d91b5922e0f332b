"""Pictures of a training run."""

import math

import numpy as np

from numformer.plots.axes import colours, faint, new_axes, styles

USUAL_RATIO = 1e-3                                                    # of an update to the weights: far more is rash, far less is slow
BESIDE = {"loc": "upper left", "bbox_to_anchor": (1.02, 1.0)}         # a long legend stands outside


def loss_curve(metrics, ax=None, title="Loss", unit="nats a token"):
    """Training loss of every step, its running mean, and the validation losses; bits on the right.

    Parameters
    ----------
    metrics : list of dict
        Lines of a run's ``metrics.jsonl``.
    ax : matplotlib Axes, optional
        Where to draw; a new figure unless given.
    title : str
    unit : str
        Of the loss. What is not in nats gets no bits.

    Returns
    -------
    Axes

    Raises
    ------
    ValueError
        If there are no metrics.
    """
    steps, losses = _series(metrics, "loss")
    validations = list(zip(*_series(metrics, "val_loss")))
    if not steps and not validations:
        raise ValueError("loss_curve: the metrics hold no loss; train at least one step.")
    ax = new_axes((7, 4.2)) if ax is None else ax
    if steps:
        ax.plot(steps, losses, color=faint(ax), linewidth=0.8, label="training, each step")
        ax.plot(steps, running_mean(losses), color=colours(ax)[0], linewidth=1.6, label="training, running mean")
    if validations:
        ax.plot(*zip(*validations), color=colours(ax)[1], marker="o", linestyle="--",
                label=f"validation, at last {validations[-1][1]:.3f}")
    ax.set(xlabel="step", ylabel=f"loss, {unit}" if "nats" in unit else f"loss {unit}", title=title)
    if "nats" in unit:
        bits = ax.secondary_yaxis("right", functions=(lambda nats: nats / math.log(2), lambda bits: bits * math.log(2)))
        bits.set_ylabel(unit.replace("nats", "bits"))
    ax.grid(alpha=0.3)
    ax.legend()
    return ax


def learning_rate_curve(metrics, ax=None, title="Learning rate"):
    """The learning rate of every step; arguments and errors as of `loss_curve`."""
    steps, rates = _needed("learning_rate_curve", metrics, "learning_rate")
    ax = new_axes((7, 3)) if ax is None else ax
    ax.plot(steps, rates, color=colours(ax)[0])
    ax.set(xlabel="step", ylabel="learning rate", title=title, ylim=(0, None))
    ax.grid(alpha=0.3)
    return ax


def gradient_norm_curve(metrics, ax=None, title="Length of the gradient, before clipping"):
    """The gradient's length in every step and its running mean, on a logarithmic axis; arguments and errors as of `loss_curve`."""
    steps, norms = _needed("gradient_norm_curve", metrics, "gradient_norm")
    ax = new_axes((7, 3)) if ax is None else ax
    ax.plot(steps, norms, color=faint(ax), linewidth=0.8, label="each step")
    ax.plot(steps, running_mean(norms), color=colours(ax)[0], linewidth=1.6, label="running mean")
    ax.set(xlabel="step", ylabel="length", yscale="log", title=title)
    ax.grid(alpha=0.3)
    ax.legend()
    return ax


def update_ratio_curve(metrics, ax=None, title="Size of an update, of that of the weights"):
    """How large the change of a matrix is in one step, beside the matrix: a curve for each kind of matrix, median over the layers.

    Around 1e-3 training goes well with Adam; far below, it is slow, and far above, it forgets.

    Parameters
    ----------
    metrics : list of dict
        Lines of a run's ``metrics.jsonl``; those before a validation hold ``update_ratio``, {parameter: ratio}.
    ax : matplotlib Axes, optional
        Where to draw; a new figure unless given.
    title : str

    Returns
    -------
    Axes

    Raises
    ------
    ValueError
        If the metrics hold no such ratios.
    """
    steps, ratios = _needed("update_ratio_curve", metrics, "update_ratio")
    kinds = {}
    for name in (name for name in ratios[0] if all(name in line for line in ratios)):
        kinds.setdefault(".".join(part for part in name.split(".") if not part.isdigit()), []).append(name)
    ax = new_axes((7, 4.6)) if ax is None else ax
    for (kind, names), style in zip(kinds.items(), styles(ax, len(kinds))):
        ax.plot(steps, [float(np.median([line[name] for name in names])) for line in ratios], label=kind, markersize=4, **style)
    ax.axhline(USUAL_RATIO, color=faint(ax), linewidth=0.8)
    ax.set(xlabel="step", ylabel="|update| / |weights|", yscale="log", title=title)
    ax.grid(alpha=0.3)
    ax.legend(fontsize=7, ncols=1 if len(kinds) > 8 else 2, **(BESIDE if len(kinds) > 8 else {}))
    return ax


def gradient_flow(flows, ax=None, title="Gradient of each block, before the first step"):
    """The length of the gradient of every block's parameters, from the first block to the last: a curve for each model.

    With the norm before each branch it falls towards the loss, as the stream that the norms divide by grows; with the norm after each sum
    it does not, and near the loss it is several times as long: first steps have to be small. One draw of the weights wavers: show a mean.

    Parameters
    ----------
    flows : dict of str to sequence of float
        For each model or stack of blocks, what `gradient_by_block` returned of it.
    ax : matplotlib Axes, optional
        Where to draw; a new figure unless given.
    title : str

    Returns
    -------
    Axes

    Raises
    ------
    ValueError
        If there is nothing to draw.

    References
    ----------
    Xiong et al. (2020), "On Layer Normalization in the Transformer Architecture", figure 3.
    """
    if not flows:
        raise ValueError("gradient_flow: there are no gradients to draw.")
    ax = new_axes((7, 4.2)) if ax is None else ax
    for (name, lengths), style in zip(flows.items(), styles(ax, len(flows))):
        ax.plot(range(1, len(lengths) + 1), lengths, label=name, **style)
    ax.set(xlabel="block", ylabel="length of the gradient", yscale="log", title=title)
    ax.xaxis.get_major_locator().set_params(integer=True)
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


def _series(metrics, name):
    """(steps, values) of the lines that hold one."""
    lines = [line for line in metrics if name in line]
    for line in lines:
        if not isinstance(line[name], (int, float, dict)) or not isinstance(line.get("step"), int):
            raise ValueError(f"the metrics are damaged: {line} holds no {name} of a step.")
    return [line["step"] for line in lines], [line[name] for line in lines]


def _needed(owner, metrics, name):
    steps, values = _series(metrics, name)
    if not steps:
        raise ValueError(f"{owner}: the metrics hold no {name}; train at least one step, or with validations.")
    return steps, values
