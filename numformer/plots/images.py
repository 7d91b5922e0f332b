"""Image models: accuracy by the number of training images, and the windows of Swin."""

import numpy as np

from numformer.checks import check_whole
from numformer.functional import cyclic_roll, shifted_window_mask, window_reverse
from numformer.plots.axes import colours, in_slides, is_dark, new_axes, panels, styled, styles
from numformer.plots.tokens import plain

SHADES = ("#9db7e8", "#dcae3f", "#6fc3b2", "#e0a58a")                 # of parts of the image


@styled
def accuracy_by_images(n_images, accuracies, ax=None,
                       title="Accuracy by the number of training images"):
    """A curve for each model: its accuracy against the number of images that it was trained on.

    Parameters
    ----------
    n_images : sequence of int
        On a logarithmic axis.
    accuracies : dict of str to sequence of float
        For each model, one for each number of images, 0 to 1.
    ax : matplotlib Axes, optional
        Axes to draw on; a new figure by default.
    title : str

    Returns
    -------
    Axes

    Raises
    ------
    ValueError
        If there is no model, or not one accuracy for each number of images.
    """
    if not accuracies:
        raise ValueError("accuracy_by_images: there is no model; give at least one.")
    for name, values in accuracies.items():
        if len(values) != len(n_images):
            raise ValueError(f"accuracy_by_images: {name} has {len(values)} accuracies for "
                             f"{len(n_images)} numbers of images; give one for each.")
    if ax is None:
        ax = new_axes()
    for (name, values), style in zip(accuracies.items(), styles(ax, len(accuracies))):
        percent = [100 * value for value in values]
        ax.plot(n_images, percent, label=plain(name), linewidth=2, **style)
    ax.set_xscale("log")
    ax.set_xticks(list(n_images), [f"{n:,}" for n in n_images])
    ax.minorticks_off()
    ax.grid(axis="y", alpha=0.3)
    ax.set(xlabel="training images", ylabel="accuracy on the test set, %", title=title)
    ax.legend(frameon=False)
    return ax


@styled
def shifted_windows(side, window, offset, ax=None):
    """How Swin shifts windows: fixed windows, shifted ones, both on the rolled map, and the masks.

    Colours are the parts of the feature map that the roll moves. Black lines are the borders of
    windows. In a mask, a cell of row i and column j is filled if vector i of the window may attend
    to vector j.

    Parameters
    ----------
    side : int
        Height and width of the feature map.
    window : int
        M, which divides it.
    offset : int
        0 < o < M.
    ax : matplotlib Axes, optional
        Axes to be replaced; a new figure by default.

    Returns
    -------
    Axes
        The first of the panels.

    Raises
    ------
    ValueError
        If windows do not divide the feature map, or the offset is out of range.

    References
    ----------
    Liu et al. (2021), "Swin Transformer", figures 2 and 4.
    """
    check_whole("shifted_windows", "offset", offset)
    mask = shifted_window_mask(side, side, window, offset)            # (N, M M, M M)
    # where the roll takes each vector from: the part above and left of `offset` moves most
    row = np.arange(side) < offset
    part = 2 * row[:, None] + row                                     # (side, side)
    rolled = cyclic_roll(part[None, ..., None].astype(float), offset)[0][0, ..., 0]
    regular = range(0, side + 1, window)
    moved = [0, *range(offset, side, window), side]
    drawn = panels(ax, *((1, 4) if in_slides() else (2, 2)), (8, 8.4)).ravel()
    for axes, values, borders, title in (
            (drawn[0], part, regular, "windows of\none block"),
            (drawn[1], part, moved, "shifted windows\nof the next"),
            (drawn[2], rolled, regular, "after the roll:\nall of one size")):
        _map(axes, values, borders, title)
    _masks(drawn[3], mask, side // window, window)
    return drawn[0]


def _map(ax, values, borders, title):
    """A feature map in colours of its parts, with the borders of windows."""
    from matplotlib.colors import ListedColormap

    side = len(values)
    ax.imshow(values, cmap=ListedColormap(SHADES), vmin=0, vmax=3, interpolation="nearest",
              extent=(0, side, side, 0))
    for k in range(side + 1):
        ax.axhline(k, color="white", linewidth=0.8)
        ax.axvline(k, color="white", linewidth=0.8)
    line = colours(ax)[0]
    for k in borders:
        ax.plot([k, k], [0, side], color=line, linewidth=2.5, clip_on=False)
        ax.plot([0, side], [k, k], color=line, linewidth=2.5, clip_on=False)
    ax.set(xlim=(0, side), ylim=(side, 0), xticks=[], yticks=[], title=title)
    for spine in ax.spines.values():
        spine.set_visible(False)


def _masks(ax, mask, columns, window):
    """The masks of all windows, arranged like the windows, with gaps between them."""
    from matplotlib.colors import ListedColormap

    area, gap = window * window, max(1, window * window // 8)
    step = area + gap
    grid = np.full((columns * step - gap,) * 2, np.nan)
    for n, its_mask in enumerate(mask):
        top, left = (step * k for k in divmod(n, columns))
        grid[top:top + area, left:left + area] = its_mask
    empty = "0.25" if is_dark(ax) else "0.9"
    ax.imshow(grid, cmap=ListedColormap([empty, colours(ax)[0]]), vmin=0, vmax=1,
              interpolation="nearest")
    ax.set(xticks=[], yticks=[], title="masks by window\n(filled: may attend)")
    for spine in ax.spines.values():
        spine.set_visible(False)


def attention_received(weights, height, width, offset=0):
    """How much attention each vector gets within its window, on the feature map.

    Parameters
    ----------
    weights : ndarray, shape (B * N, H, M * M, M * M)
        Of a `WindowAttention`.
    height, width : int
        Of the feature map.
    offset : int
        Of the layer's roll, which is undone.

    Returns
    -------
    ndarray, shape (B, height * width)
        The mean over heads and queries; the vectors of a window sum to 1.

    Examples
    --------
    >>> attention_received(np.full((4, 1, 4, 4), 0.25), 4, 4, offset=1).shape
    (1, 16)
    """
    received = weights.mean(axis=(1, 2))[..., None]                   # (B N, M M, 1)
    y = cyclic_roll(window_reverse(received, height, width)[0], -offset)[0]
    return y.reshape(len(y), height * width)
