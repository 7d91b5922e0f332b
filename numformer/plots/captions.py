"""Small grey images in a grid, and how similar images and captions are."""

import numpy as np

from numformer.checks import check_array
from numformer.plots.axes import draw_map, new_axes, styled
from numformer.plots.tokens import name_ticks


@styled
def image_grid(images, row_labels=None, ax=None, title="Images"):
    """Grey images in rows and columns.

    Parameters
    ----------
    images : ndarray, shape (rows, columns, height, width)
        0 is white, 1 is black.
    row_labels : list of str, optional
    ax : matplotlib Axes, optional
    title : str

    Returns
    -------
    Axes

    Raises
    ------
    ValueError, TypeError
        If the images have another shape, or rows and labels differ in number.
    """
    check_array("image_grid", "images", images, "(rows, columns, height, width)")
    rows, columns, height, width = images.shape
    if row_labels is not None and len(row_labels) != rows:
        raise ValueError(f"image_grid: {len(row_labels)} labels came for {rows} rows; give one for "
                         "each.")
    wide = np.full((rows, height + 1, columns, width + 1), np.nan)    # a gap after each
    wide[:, :height, :, :width] = images.transpose(0, 2, 1, 3)
    grid = wide.reshape(rows * (height + 1), columns * (width + 1))[:-1, :-1]
    if ax is None:
        ax = new_axes((8, 1.0 + 7 / columns * rows))
    ax.imshow(grid, cmap="gray_r", vmin=0, vmax=1, interpolation="nearest")
    name_ticks(ax.yaxis, [(height + 1) * k + (height - 1) / 2 for k in range(rows)],
               row_labels or range(1, rows + 1))
    ax.set(xticks=[], title=title)
    ax.tick_params(length=0)
    return ax


@styled
def image_text_similarity(similarity, images, captions, ax=None,
                          title="Cosine of images and captions"):
    """The similarity of every image (row) and every caption (column), with the images at the rows.

    Parameters
    ----------
    similarity : ndarray, shape (N, M)
        Cosines.
    images : ndarray, shape (N, height, width, 1)
    captions : list of str
    ax : matplotlib Axes, optional
    title : str

    Returns
    -------
    Axes

    Raises
    ------
    ValueError, TypeError
        If shapes or numbers do not fit.
    """
    N, M = (check_array("image_text_similarity", "similarity", similarity, "(N, M)")[axis]
            for axis in "NM")
    check_array("image_text_similarity", "images", images, "(N, height, width, channels)", N=N,
                channels=1)
    if len(captions) != M:
        raise ValueError(f"image_text_similarity: {len(captions)} captions came for M={M} columns; "
                         "give one for each.")
    if ax is None:
        ax = new_axes((8, 0.5 * N + 2.4))
    draw_map(ax, similarity, "cosine", signed=True, top=1.0, form="{:.1f}", numbers=True)
    for n, image in enumerate(images[..., 0]):
        inset = ax.inset_axes((-1.45, n - 0.42, 0.84, 0.84), transform=ax.transData)
        inset.imshow(image, cmap="gray_r", vmin=0, vmax=1, interpolation="nearest", aspect="auto")
        inset.set(xticks=[], yticks=[])
    name_ticks(ax.xaxis, range(M), captions, rotation=40, ha="right")
    ax.set(yticks=[], title=title)
    return ax
