"""Curves of one training run: loss, learning rate, gradients, updates."""

import math
from functools import partial

import numpy as np

from numformer.analysis.gradient_reach import gradient_norm_by_block
from numformer.backend import one_blas_thread
from numformer.plots.axes import (
    WIDTH, colours, faint, in_slides, legend_below, new_axes, panels, plain_ticks, styled, styles)
from numformer.plots.pictures import picture_of_run
from numformer.plots.tokens import plain

USUAL_RATIO = 1e-3                           # of an update to the weights; see `update_ratio_curve`


@styled
def loss_curve(metrics, ax=None, title="Loss", unit="nats per token"):
    """Training loss of each step, its moving average, and validation losses; bits on the right.

    The average is drawn where its window is full: it begins and ends half a window early.

    Parameters
    ----------
    metrics : list of dict
        Lines of a run's ``metrics.jsonl``.
    ax : matplotlib Axes, optional
        Axes to draw on; a new figure by default.
    title : str
    unit : str
        Unit of the loss. Only a loss in nats gets a second axis in bits.

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
        raise ValueError("loss_curve: metrics hold no loss; train at least one step.")
    ax = new_axes() if ax is None else ax
    if steps:
        of = "" if in_slides() else "training, "
        ax.plot(steps, losses, color=faint(ax), linewidth=0.8, label=f"{of}each step")
        ax.plot(*averaged(steps, losses), color=colours(ax)[0], linewidth=1.6,
                label=f"{of}moving average")
    if validations:
        ax.plot(*zip(*validations), color=colours(ax)[1], marker="o", linestyle="--",
                label=f"validation, final {validations[-1][1]:.3f}")
    label = f"loss, {unit}" if "nats" in unit else f"loss {unit}"
    ax.set(xlabel="step", ylabel=unit if in_slides() and "nats" in unit else label, title=title)
    if "nats" in unit:
        bits = ax.secondary_yaxis("right", functions=(lambda nats: nats / math.log(2),
                                                      lambda bits: bits * math.log(2)))
        bits.set_ylabel(unit.replace("nats", "bits"))
    ax.grid(alpha=0.3)
    ax.legend()
    return ax


@styled
def learning_rate_curve(metrics, ax=None, title="Learning rate"):
    """The learning rate of each step; parameters and errors as in `loss_curve`."""
    steps, rates = _needed("learning_rate_curve", metrics, "learning_rate")
    ax = new_axes((WIDTH, 3.4)) if ax is None else ax
    ax.plot(steps, rates, color=colours(ax)[0])
    ax.set(xlabel="step", ylabel="learning rate", title=title, ylim=(0, None))
    ax.grid(alpha=0.3)
    return ax


@styled
def gradient_norm_curve(metrics, ax=None, title="Gradient norm before clipping"):
    """The gradient norm of each step and its moving average; all as in `loss_curve`."""
    steps, norms = _needed("gradient_norm_curve", metrics, "gradient_norm")
    ax = new_axes((WIDTH, 3.4)) if ax is None else ax
    ax.plot(steps, norms, color=faint(ax), linewidth=0.8, label="each step")
    ax.plot(*averaged(steps, norms), color=colours(ax)[0], linewidth=1.6, label="moving average")
    ax.set(xlabel="step", ylabel="gradient norm", yscale="log", title=title,
           ylim=(None, 1.15 * max(norms) or None))    # no tick at the title
    plain_ticks(ax.yaxis)
    ax.grid(alpha=0.3)
    ax.legend()
    return ax


@styled
def fact_curve(metrics, name, ax=None, title=None):
    """A fact of each step, such as its mean reward, and its moving average.

    Parameters
    ----------
    metrics : list of dict
        Lines of a run's ``metrics.jsonl``; those of steps hold ``facts``, {name: number}.
    name : str
    ax : matplotlib Axes, optional
        Axes to draw on; a new figure by default.
    title : str, optional
        The name unless given.

    Returns
    -------
    Axes

    Raises
    ------
    ValueError
        If metrics hold no such fact.
    """
    lines = [{"step": line["step"], name: line["facts"][name]} for line in metrics
             if name in line.get("facts", {})]
    steps, values = _needed("fact_curve", lines, name)
    ax = new_axes((WIDTH, 3.4)) if ax is None else ax
    ax.plot(steps, values, color=faint(ax), linewidth=0.8, label="each step")
    ax.plot(*averaged(steps, values), color=colours(ax)[0], linewidth=1.6, label="moving average")
    ax.set(xlabel="step", ylabel=plain(name), title=plain(name if title is None else title))
    ax.grid(alpha=0.3)
    ax.legend()
    return ax


@styled
def update_ratio_curve(metrics, ax=None, title="Update-to-weight ratio"):
    """The norm of one update relative to the norm of the weights: the median over layers, by
    matrix.

    With Adam, about 1e-3 is typical; far less means slow learning, far more is unstable.

    Parameters
    ----------
    metrics : list of dict
        Lines of a run's ``metrics.jsonl``; those before a validation hold ``update_ratio``,
        {parameter: ratio}.
    ax : matplotlib Axes, optional
        Axes to draw on; a new figure by default.
    title : str

    Returns
    -------
    Axes

    Raises
    ------
    ValueError
        If metrics hold no such ratios.
    """
    steps, ratios = _needed("update_ratio_curve", metrics, "update_ratio")
    kinds = {}
    for name in (name for name in ratios[0] if all(name in line for line in ratios)):
        parts = (part for part in name.removesuffix(".weight").split(".")
                 if part != "blocks" and not part.isdigit())
        kinds.setdefault(".".join(parts), []).append(name)
    ax = new_axes((WIDTH, 6)) if ax is None else ax
    for (kind, names), style in zip(kinds.items(), styles(ax, len(kinds))):
        ax.plot(steps, [float(np.median([line[name] for name in names])) for line in ratios],
                label=plain(kind), markersize=4, **style)
    ax.axhline(USUAL_RATIO, color=faint(ax), linewidth=0.8)
    ax.set(xlabel="step", ylabel="|update| / |weights|", yscale="log", title=title)
    ax.grid(alpha=0.3)
    if in_slides():
        ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, labelspacing=0.2)
    else:
        legend_below(ax, 2)
    return ax


@styled
def gradient_flow(flows, ax=None, title="Gradient norm by block at initialization"):
    """The gradient norm of each block's parameters, from the first block to the last.

    With pre-norm it falls towards the loss, because the norms divide by a residual stream that
    grows. With post-norm it does not: it is several times larger near the loss, so the first steps
    must be small. A single initialization is noisy: average over several.

    Parameters
    ----------
    flows : dict of str to sequence of float
        For each model or stack of blocks, from `gradient_norm_by_block`.
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

    References
    ----------
    Xiong et al. (2020), "On Layer Normalization in the Transformer Architecture", figure 3.
    """
    if not flows:
        raise ValueError("gradient_flow: flows is empty; there is nothing to draw.")
    ax = new_axes() if ax is None else ax
    for (name, norms), style in zip(flows.items(), styles(ax, len(flows))):
        ax.plot(range(1, len(norms) + 1), norms, label=plain(name), **style)
    ax.set(xlabel="block", ylabel="gradient norm", yscale="log", title=title)
    plain_ticks(ax.yaxis)
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.grid(alpha=0.3)
    ax.legend()
    return ax


def averaged(steps, values, half_width=20):
    """Steps and the moving average there, of full windows alone: without half a window at each end.

    A window has `half_width` values before its step and as many after it, so the average does not
    lag behind a falling loss. In a short run, windows have at most half of the values.

    Returns
    -------
    steps, means : list

    Examples
    --------
    >>> averaged([1, 2, 3, 4, 5], [0.0, 3.0, 3.0, 6.0, 0.0])
    ([2, 3, 4], [2.0, 4.0, 3.0])
    >>> averaged([1, 2, 3], [3.0, 2.0, 1.0])
    ([1, 2, 3], [3.0, 2.0, 1.0])
    """
    half = min(half_width, (len(values) - 1) // 4)
    sums = np.concatenate([[0.0], np.cumsum(values)])
    means = (sums[2 * half + 1:] - sums[:len(values) - 2 * half]) / (2 * half + 1)
    return list(steps)[half:len(values) - half], means.tolist()


def moving_average(values, half_width=20):
    """The mean of each value and its neighbours, for films, which need one at every step.

    As many values before it as after it, so that it does not lag behind a falling loss. Near the
    start the window shrinks. At the end, half a window follows the line that is fitted to the last
    full window, so no mean is that of the last value alone.

    Examples
    --------
    >>> moving_average([4.0, 3.0, 2.0, 1.0])
    [4.0, 3.0, 2.0, 1.0]
    >>> moving_average([9.0, 3.0, 6.0, 0.0, 3.0])
    [9.0, 6.0, 3.0, 3.0, 1.5]
    """
    values = np.asarray(values, float)
    half = min(half_width, (len(values) - 1) // 4)
    sums, index = np.concatenate([[0.0], np.cumsum(values)]), np.arange(len(values) - half)
    width = np.minimum(index, half)
    means = (sums[index + width + 1] - sums[index - width]) / (2 * width + 1)
    offsets, last = np.arange(-half, half + 1), values[len(values) - 2 * half - 1:]
    slope = offsets @ last / max(offsets @ offsets, 1)
    return [*means.tolist(), *(means[-1] + slope * offsets[half + 1:]).tolist()]


def _series(metrics, name):
    """(steps, values) of the lines that have this metric."""
    lines = [line for line in metrics if name in line]
    for line in lines:
        if not isinstance(line[name], (int, float, dict)) or not isinstance(line.get("step"), int):
            raise ValueError(f"metrics are damaged: {line} must hold a number {name} and an int "
                             "step.")
    return [line["step"] for line in lines], [line[name] for line in lines]


def _needed(owner, metrics, name):
    steps, values = _series(metrics, name)
    if not steps:
        raise ValueError(f"{owner}: metrics hold no {name}; train at least one step, or with "
                         "validation.")
    return steps, values


@picture_of_run("loss")
def _loss(run):
    """Training and validation loss."""
    return loss_curve(run.metrics(), unit=run.task.unit_of(run.tokenizer))


@picture_of_run("training")
def _training(run):
    """Loss, learning rate, gradient norm, update-to-weight ratio, and the facts of steps."""
    metrics = run.metrics()
    if not any("loss" in line or "val_loss" in line for line in metrics):
        raise ValueError("it has no steps of training to draw; train at least one.")
    if not any("learning_rate" in line for line in metrics):
        raise ValueError("it was trained without gradients; use `numformer plot loss`.")
    losses = partial(loss_curve, unit=run.task.unit_of(run.tokenizer))
    curves = [losses, gradient_norm_curve, learning_rate_curve]
    if any("update_ratio" in line for line in metrics):
        curves.append(update_ratio_curve)
    names = dict.fromkeys(name for line in metrics for name in line.get("facts", {}))
    curves += [partial(fact_curve, name=name) for name in names]
    rows = max(4, len(curves))
    axes = panels(None, *((-(-rows // 2), 2) if in_slides() else (rows, 1)), (8, 4 * rows))
    for panel in axes.flat[len(curves):]:
        panel.remove()
    for panel, draw in zip(axes.flat, curves):
        draw(metrics, ax=panel)
    return axes[0, 0].figure


@picture_of_run("flow", "data")
def _flow(run):
    """Gradient norm of each block, on the last validation batch."""
    batch = run.validation(8)[-1]
    with one_blas_thread():
        return gradient_flow(gradient_norm_by_block(run.model, batch),
                             title="Gradient norm by block")
