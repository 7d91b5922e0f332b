"""Object detection: boxes in images, and what each object query attends to."""

import numpy as np

from numformer.checks import check_array
from numformer.plots.axes import ACCENT, BLUE, entitle, panels, sequential, styled
from numformer.plots.tokens import plain

FOUND, THERE = ACCENT, BLUE


@styled
def boxes_in_images(images, found, objects, ax=None, title="Found (dashed) and true boxes"):
    """Images in two rows, each with the boxes that a model found, and with the true ones.

    Parameters
    ----------
    images : ndarray, shape (N, height, width, 1)
        Grey images; 0 is white.
    found : list of (labels, scores, corners)
        For each image, corners in pixels; drawn dashed, labelled below.
    objects : list of (labels, corners)
        For each image; labelled above.
    ax : matplotlib Axes, optional
    title : str

    Returns
    -------
    Figure

    Raises
    ------
    ValueError, TypeError
        If the images have another shape, or the lists do not have an entry for each.
    """
    N = check_array("boxes_in_images", "images", images, "(N, height, width, channels)",
                    channels=1)["N"]
    if not N or not len(found) == len(objects) == N:
        raise ValueError(f"boxes_in_images: {len(found)} finds and {len(objects)} objects came for "
                         f"N={N} images; give one entry for each of at least one image.")
    columns = -(-N // 2)
    grid = panels(ax, min(N, 2), columns, (8, 8.6 / columns * min(N, 2) + 0.5))
    for n, one in enumerate(grid.ravel()):
        one.axis("off")
        if n < N:
            _image(one, images[n])
            labels, corners = objects[n]
            for label, box in zip(labels, corners):
                _box(one, box, THERE, "-")
                _label(one, box[:2], THERE, plain(label), "left", "bottom")
            labels, scores, corners = found[n]
            below = _apart(corners[:, 2:], images.shape[1:3]) if len(corners) else corners
            for label, score, box, at in zip(labels, scores, corners, below):
                _box(one, box, FOUND, "--")
                _label(one, at, FOUND, f"{plain(label)}: {score:.2f}", "right", "top")
    entitle(ax, grid[0, 0], title)
    return grid[0, 0].figure


@styled
def query_attention(image, weights, labels, scores, boxes, ax=None,
                    title="What each object query attends to"):
    """A panel for each object query: its attention to the patches, its box and its class.

    Parameters
    ----------
    image : ndarray, shape (height, width, 1)
    weights : ndarray, shape (Q, S)
        Attention of each query to a square grid of patches.
    labels, scores : ndarray, shape (Q,)
    boxes : ndarray, shape (Q, 4)
        Corners in pixels.
    ax : matplotlib Axes, optional
    title : str

    Returns
    -------
    Figure

    Raises
    ------
    ValueError, TypeError
        If shapes do not fit, or the patches form no square grid.
    """
    owner = "query_attention"
    check_array(owner, "image", image, "(height, width, channels)", channels=1)
    height, width, _ = image.shape
    Q, S = (check_array(owner, "weights", weights, "(Q, S)")[axis] for axis in "QS")
    check_array(owner, "boxes", boxes, "(Q, coordinates)", Q=Q, coordinates=4)
    side = round(S ** 0.5)
    if side * side != S or len(labels) != Q or len(scores) != Q:
        raise ValueError(f"{owner}: weights (Q, S)={weights.shape} need S a square, and a label "
                         "and a score for each of the Q queries.")
    columns = -(-Q // 2)
    grid = panels(ax, min(Q, 2), columns, (8, 8.8 / columns * min(Q, 2) + 0.5))
    ink = image[..., 0] / max(float(image.max()), 1e-12)
    for q, one in enumerate(grid.ravel()):
        one.set_axis_off()
        if q < Q:
            one.imshow(weights[q].reshape(side, side), cmap=sequential(one), vmin=0,
                       extent=(0, width, height, 0), interpolation="nearest")
            one.imshow(np.ones_like(ink), cmap="gray", vmin=0, vmax=1, alpha=0.7 * ink.clip(0, 1),
                       extent=(0, width, height, 0), interpolation="nearest")
            sure = scores[q] >= 0.5
            if sure:
                _box(one, boxes[q], FOUND, "--")
            what = f"{plain(labels[q])} ({scores[q]:.2f})" if sure else "no object"
            one.set_title(f"query {q + 1}:\n{what}", fontsize="medium")
    entitle(ax, grid[0, 0], title)
    return grid[0, 0].figure


def _image(ax, image):
    height, width = image.shape[:2]
    ax.imshow(image[..., 0], cmap="gray_r", vmin=0, vmax=1.6, extent=(0, width, height, 0),
              interpolation="nearest")
    ax.plot([0, width, width, 0, 0], [0, 0, height, height, 0], color="0.6", linewidth=0.8)
    ax.set(xlim=(-0.5, width + 0.5), ylim=(1.1 * height, -0.1 * height))      # and the labels


def _box(ax, box, colour, style):
    from matplotlib.patches import Rectangle

    x0, y0, x1, y1 = map(float, box)
    ax.add_patch(Rectangle((x0, y0), x1 - x0, y1 - y0, fill=False, edgecolor=colour,
                           linestyle=style, linewidth=1.6))


def _label(ax, at, colour, text, side, above):
    ax.text(*map(float, at), text, color=colour, fontweight="bold", ha=side, va=above,
            bbox=dict(facecolor="white", edgecolor="none", alpha=0.6, pad=0.3))


def _apart(points, size):
    """Points (N, 2) for labels, moved down where one would cover another."""
    width, height = size[1] / 4.5, size[0] / 16                       # of a label
    apart = []
    for x, y in np.asarray(points, float):
        while any(abs(x - a) < width and abs(y - b) < 0.99 * height for a, b in apart):
            y += height
        apart.append((x, y))
    return np.array(apart)
