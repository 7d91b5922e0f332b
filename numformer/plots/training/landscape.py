"""The loss on planes through a trained model: contours, with the path of training."""

from functools import partial
from typing import NamedTuple

import numpy as np

from numformer.analysis.landscape.directions import (
    filter_normalized_direction, path_directions)
from numformer.analysis.landscape.surface import loss_surface
from numformer.backend import one_blas_thread
from numformer.checks import check_array
from numformer.parameter import Layer
from numformer.plots.axes import (
    colours, entitle, in_slides, is_dark, panels, sequential, styled)
from numformer.plots.pictures import picture_of_run
from numformer.training.evaluation import mean_loss

LEVELS = 12
POINTS, REACH = 25, 1.0                               # of a run: a side of a plane, and its half
BLOCKS = 8                                            # of validation data at every point
HIGHEST = 4.0                                         # of the scale, in losses of the trained model


class Plane(NamedTuple):
    """The loss on a plane through a trained model, which is at (0, 0).

    Parameters
    ----------
    surface : ndarray, shape (len(betas), len(alphas))
        From `numformer.analysis.loss_surface`.
    alphas, betas : ndarray, rising
        Steps along the two directions.
    title : str
    labels : (str, str)
        Of the two directions.
    path : ndarray, shape (N, 2), optional
        Coordinates of the states of the training.
    steps : sequence of int, optional
        The step of each state.
    """

    surface: np.ndarray
    alphas: np.ndarray
    betas: np.ndarray
    title: str = ""
    labels: tuple = ("first direction", "second direction")
    path: np.ndarray | None = None
    steps: tuple = ()


@styled
def loss_contours(planes, ax=None, title="Loss around a trained model", unit="nats"):
    """A panel of contours for each plane, darker for a larger loss, with a star at the model.

    The levels are further apart the larger the loss is. Losses far above that of the model share
    the darkest colour.

    Parameters
    ----------
    planes : list of Plane
    ax : matplotlib Axes, optional
        Axes that the panels replace; a new figure by default.
    title : str
    unit : str
        Of the loss.

    Returns
    -------
    Figure

    Raises
    ------
    ValueError, TypeError
        If there are no planes, or shapes do not match.

    References
    ----------
    Li, Xu, Taylor, Studer and Goldstein (2018), "Visualizing the Loss Landscape of Neural Nets",
    figures 5 and 9.

    Examples
    --------
    >>> x = np.linspace(-1, 1, 5)
    >>> figure = loss_contours([Plane(1 + x ** 2 + x[:, None] ** 2, x, x, "a bowl")])
    >>> [ax.get_title() for ax in figure.axes if ax.get_title()]
    ['a bowl']
    """
    if not len(planes):
        raise ValueError("loss_contours: planes is empty; give at least one.")
    for plane in planes:
        _check(plane)
    n = len(planes)
    axes = panels(ax, *((1, n) if in_slides() else (n, 1)), (8, 0.4 + 5.3 * n)).ravel()
    for panel, plane in zip(axes, planes):
        _draw(panel, plane, unit)
    entitle(ax, axes[0], title)
    return axes[0].figure


def _draw(ax, plane, unit):
    from matplotlib.ticker import MaxNLocator

    low = float(plane.surface.min())
    high = max(min(float(plane.surface[np.isfinite(plane.surface)].max()), HIGHEST * max(low, 0.1)),
               low * 1.01 + 1e-9)
    levels = low + (high - low) * np.linspace(0, 1, LEVELS) ** 2
    shown = np.minimum(plane.surface, 2 * high)
    filled = ax.contourf(plane.alphas, plane.betas, shown, levels, cmap=sequential(ax),
                         extend="max")
    lines = ax.contour(plane.alphas, plane.betas, shown, levels[1:], linewidths=0.8,
                       colors=["#d6e4f5" if is_dark(ax) else "#5a6470"])
    bar = ax.figure.colorbar(filled, ax=ax, label=f"loss, {unit}", shrink=0.9)
    bar.set_ticks(levels[::2], labels=[f"{level:.2f}" for level in levels[::2]])
    bar.add_lines(lines)
    accent, ground = colours(ax)[1], ax.get_facecolor()
    if plane.path is not None:
        ax.plot(*plane.path.T, color=accent, marker="o", markersize=5, linewidth=1.8,
                markeredgecolor=ground, markeredgewidth=0.6)
        _label_steps(ax, plane, accent)
    ax.plot(0, 0, marker="*", markersize=17, color=accent, markeredgecolor=ground,
            markeredgewidth=1)
    if np.ptp(plane.alphas) == np.ptp(plane.betas):
        ax.set_aspect("equal")
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(MaxNLocator(5))
    ax.set(title=plane.title, xlabel=plane.labels[0], ylabel=plane.labels[1],
           xlim=(plane.alphas[0], plane.alphas[-1]), ylim=(plane.betas[0], plane.betas[-1]))


def _label_steps(ax, plane, colour):
    """Write steps at states that are far enough from each other and from the trained model."""
    spans = np.array([np.ptp(plane.alphas), np.ptp(plane.betas)])
    written = [np.zeros(2)]
    for step, place in zip(plane.steps, plane.path):
        if min(np.abs((place - other) / spans).max() for other in written) > 0.16:
            written.append(place)
            ax.annotate(f"step {step}" if len(written) == 2 else f"{step}", place, (8, 6),
                        textcoords="offset points", color=colour, fontweight="bold",
                        bbox=dict(facecolor=ax.get_facecolor(), alpha=0.75, edgecolor="none",
                                  boxstyle="round,pad=0.12"))


def _check(plane):
    check_array("loss_contours", "surface", plane.surface, "(len(betas), len(alphas))")
    if plane.surface.shape != (len(plane.betas), len(plane.alphas)) or min(plane.surface.shape) < 2:
        raise ValueError(f"loss_contours: surface has shape {plane.surface.shape}, but must have "
                         f"(len(betas), len(alphas)) = {(len(plane.betas), len(plane.alphas))}, "
                         "two or more each.")
    if not np.isfinite(plane.surface).any():
        raise ValueError("loss_contours: no loss of the surface is finite; choose shorter steps.")
    if plane.path is not None and (np.shape(plane.path) != (len(plane.steps), 2)):
        raise ValueError(f"loss_contours: path has shape {np.shape(plane.path)}, but must have "
                         f"(len(steps), 2) = {(len(plane.steps), 2)}.")


@picture_of_run("landscape", "data")
def _landscape(run):
    """The loss around the trained parameters, and along the path of training (snapshots)."""
    if not isinstance(run.model, Layer):
        raise ValueError(f"{type(run.model).__name__} has no parameters that a gradient trains.")
    loss = partial(mean_loss, run.model, run.validation(BLOCKS))
    steps = np.linspace(-REACH, REACH, POINTS)
    with one_blas_thread():
        directions = [filter_normalized_direction(run.model, np.random.default_rng([0, k]))
                      for k in range(2)]
        planes = [Plane(loss_surface(run.model, directions, steps, steps, loss), steps, steps,
                        "random directions", ("first direction, filter-normalized",
                                              "second direction, filter-normalized"))]
        path = run.path()
        if path:
            directions, points, shares = path_directions([*path.values()])
            low, high = points.min(axis=0), points.max(axis=0)
            alphas, betas = np.linspace(low - 0.2 * (high - low), high + 0.2 * (high - low),
                                        POINTS).T
            planes.append(Plane(
                loss_surface(run.model, directions, alphas, betas, loss), alphas, betas,
                "the plane of the path of training",
                tuple(f"{name} direction of the path, {share:.0%}"
                      for name, share in zip(("first", "second"), shares)), points, tuple(path)))
    return loss_contours(planes, unit=run.task.unit_of(run.tokenizer))
