"""LayerNorm next to BatchNorm: which numbers share a mean, and which vectors depend on which."""

import numpy as np

from numformer.plots.axes import colours, draw_map, entitle, faint, is_dark, panels, styled, styles

# Corners of the unit cube's three visible faces, in (b, t, c)
FACES = {"front": ((0, 0, 0), (0, 1, 0), (0, 1, 1), (0, 0, 1)),
         "top": ((0, 0, 1), (0, 1, 1), (1, 1, 1), (1, 0, 1)),
         "side": ((0, 1, 0), (1, 1, 0), (1, 1, 1), (0, 1, 1))}
SHADE = {"front": 1.0, "top": 0.82, "side": 0.65}                     # opacity


@styled
def norm_cube(shared, ax, title=""):
    """Activations as a cube of numbers (B, T, C), with those shaded that share mean and variance.

    Texts are one behind another, positions run to the right, coordinates upwards.

    Parameters
    ----------
    shared : ndarray of bool, shape (B, T, C)
        True for the numbers of one mean.
    ax : matplotlib Axes
    title : str

    Returns
    -------
    Axes

    Raises
    ------
    ValueError
        If `shared` has not three axes.
    """
    from matplotlib.collections import PolyCollection

    shared = np.asarray(shared, bool)
    if shared.ndim != 3:
        raise ValueError(f"norm_cube: shared must have shape (B, T, C), but has {shared.shape}.")
    B, T, C = shared.shape
    visible = {"front": lambda b, t, c: b == 0, "top": lambda b, t, c: c == C - 1,
               "side": lambda b, t, c: t == T - 1}
    shapes, faces = [], []
    for name, corners in FACES.items():
        for cell in np.ndindex(B, T, C):
            if visible[name](*cell):
                shapes.append([_projected(*np.add(cell, corner)) for corner in corners])
                colour = colours(ax)[1] if shared[cell] else faint(ax)
                faces.append((*_rgb(colour), SHADE[name] * (1.0 if shared[cell] else 0.45)))
    line = "0.85" if is_dark(ax) else "0.2"
    ax.add_collection(PolyCollection(shapes, facecolors=faces, edgecolors=line, linewidths=0.7))
    for (b, t, c), name, place in (((0, T / 2, -0.2), "positions t", ("center", "top")),
                                   ((0, -0.2, C / 2), "coordinates c", ("right", "center")),
                                   ((B / 2, T + 0.35, -0.1), "texts b", ("left", "center"))):
        ax.text(*_projected(b, t, c), name, ha=place[0], va=place[1])
    ax.set(title=title, aspect="equal")
    ax.margins(0.22, 0.12)
    ax.axis("off")
    return ax


@styled
def norm_comparison(couplings, sizes, ax=None, title="LayerNorm and BatchNorm"):
    """For each norm the numbers that share a mean, and the Jacobian from vector to vector.

    Parameters
    ----------
    couplings : dict of str to ndarray, shape (B T, B T)
        For "LayerNorm" and "BatchNorm": the norm of the Jacobian of each output vector (rows) with
        respect to each input vector (columns), text after text.
    sizes : tuple (B, T, C)
    ax : matplotlib Axes, optional
        Axes that the panels replace; a new figure by default.
    title : str

    Returns
    -------
    Figure

    Raises
    ------
    ValueError
        If a norm is neither, or a matrix does not fit the sizes.
    """
    B, T, C = sizes
    if not couplings or not set(couplings) <= {"LayerNorm", "BatchNorm"}:
        raise ValueError("norm_comparison: couplings must be of LayerNorm and BatchNorm, but are "
                         f"of {', '.join(couplings) or 'nothing'}.")
    for name, matrix in couplings.items():
        if np.shape(matrix) != (B * T, B * T):
            raise ValueError(f"norm_comparison: the matrix of {name} must have shape (B T, B T) = "
                             f"({B * T}, {B * T}), but has {np.shape(matrix)}.")
    axes = panels(ax, len(couplings), 2, (8, 3.9 * len(couplings)))
    for row, (name, matrix) in zip(axes, couplings.items()):
        shared = np.zeros(sizes, bool)
        if name == "LayerNorm":
            shared[0, T - 1] = True                           # all coordinates of one vector
        else:
            shared[..., C - 1] = True                         # one coordinate of all vectors
        norm_cube(shared, row[0], f"{name}: one mean")
        draw_map(row[1], matrix, "norm of the Jacobian", numbers=False)
        for end in range(T, B * T, T):                        # between texts
            row[1].axhline(end - 0.5, color="white", linewidth=1)
            row[1].axvline(end - 0.5, color="white", linewidth=1)
        middles = [T * b + (T - 1) / 2 for b in range(B)]
        row[1].set(title="output by input", xlabel="input vector",
                   ylabel="output vector", aspect="equal")
        for axis in (row[1].xaxis, row[1].yaxis):
            axis.set_ticks(middles, [f"text {b + 1}" for b in range(B)])
    entitle(ax, axes[0, 0], title)
    return axes[0, 0].figure


@styled
def results_by_batch_size(results, ax=None, title="By batch size"):
    """Results of several norms against the batch size of training, a panel for each measure.

    Parameters
    ----------
    results : dict of str to dict of str to dict of int to float
        For each measure and each curve, its value for each batch size.
    ax : matplotlib Axes, optional
        Axes that the panels replace; a new figure by default.
    title : str

    Returns
    -------
    list of Axes

    Raises
    ------
    ValueError
        If there is nothing to draw.
    """
    if not results or not all(results.values()):
        raise ValueError("results_by_batch_size: results hold no curves; there is nothing to draw.")
    axes = panels(ax, len(results), 1, (8, 3.4 * len(results)))[:, 0]
    for panel, (name, curves) in zip(axes, results.items()):
        for (label, by_size), style in zip(curves.items(), styles(panel, len(curves))):
            panel.plot(*zip(*sorted(by_size.items())), label=label, **style)
        sizes = sorted({size for by_size in curves.values() for size in by_size})
        panel.set(xlabel="batch size", ylabel=name, xscale="log")
        panel.set_xticks(sizes, list(map(str, sizes)))
        panel.minorticks_off()
        panel.grid(alpha=0.3)
        panel.legend()
    entitle(ax, axes[0], title)
    return list(axes)


def _projected(b, t, c):
    """Where the point (b, t, c) is drawn: texts go back to the right and up."""
    return t + 0.45 * b, c + 0.35 * b


def _rgb(colour):
    from matplotlib.colors import to_rgb

    return to_rgb(colour)
