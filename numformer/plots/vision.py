"""Vision Transformers: attention to patches, and similarity of their position vectors."""

import math

import numpy as np

from numformer.analysis.attention_statistics import attention_rollout
from numformer.checks import check_array, check_whole
from numformer.models import VisionTransformer
from numformer.plots.axes import (
    WIDTH, colours, faint, new_axes, sequential, signed_colours, styled)
from numformer.plots.pictures import picture_of_run
from numformer.plots.text.labels import label
from numformer.plots.tokens import plain, write_ticks


@styled
def patch_attention(images, weights, labels=None, ax=None, title="Attention to patches"):
    """Images in a row, and below each the attention weights of its patches, darker for more.

    The colour scale of each image runs from 0 to its largest weight; a line encloses its dark
    pixels.

    Parameters
    ----------
    images : ndarray, shape (B, height, width, 1)
        Grey images; 0 is white.
    weights : ndarray, shape (B, T)
        Attention weights of a square grid of patches, row by row.
    labels : list of str, optional
        Label of each image.
    ax : matplotlib Axes, optional
        Axes to draw on; a new figure by default.
    title : str

    Returns
    -------
    Axes

    Raises
    ------
    ValueError, TypeError
        If shapes or the number of labels do not match, or the patches form no square grid.
    """
    sizes = check_array("patch_attention", "images", images, "(B, height, width, channels)",
                        channels=1)
    B, height, width = sizes["B"], sizes["height"], sizes["width"]
    check_whole("patch_attention", "B", B)
    side = _side("patch_attention", "weights", check_array("patch_attention", "weights", weights,
                                                           "(B, T)", B=B)["T"])
    if labels is not None and len(labels) != B:
        raise ValueError(f"patch_attention: {len(labels)} labels for B={B} images; give one per "
                         "image.")
    if ax is None:
        ax = new_axes((WIDTH, min(7.0, 1.2 + 2 * WIDTH / max(B, 2))))
    for b in range(B):
        left, right = 1.1 * b, 1.1 * b + 1                           # images have width 1, gaps 0.1
        tall = height / width
        ax.imshow(images[b, ..., 0], cmap="gray_r", extent=(left, right, 0, tall),
                  interpolation="nearest")
        below = (left, right, -1.1 * tall, -0.1 * tall)
        ax.imshow(weights[b].reshape(side, side), cmap=sequential(ax), vmin=0, extent=below,
                  interpolation="nearest")
        ink = np.clip(images[b, ..., 0] / max(float(images[b].max()), 1e-12), 0, 1)
        xs = left + (np.arange(-1, width + 1) + 0.5) / width
        ys = -(0.1 + (np.arange(-1, height + 1) + 0.5) / height) * tall
        ax.contour(xs, ys, np.pad(ink, 1), [0.5], linewidths=2, colors=[colours(ax)[1]])
    ax.set(xlim=(-0.05, 1.1 * B - 0.05), ylim=(-1.15 * tall, 1.05 * tall), yticks=[], title=title)
    names = [f"{plain(name)}\n" for name in labels] if labels else [""] * B
    write_ticks(ax.xaxis, [1.1 * b + 0.5 for b in range(B)], [
        label(f"{name}up to {its_weights.max():.2f}") for name, its_weights in zip(names, weights)])
    ax.tick_params(length=0)
    ax.figure.draw_without_rendering()                # a first layout: the next is exact
    return ax


@styled
def position_similarity(vectors, ax=None, title="Similarity of position vectors"):
    """A small map for each patch: cosine similarity of its position vector with those of all
    patches.

    The maps are arranged like their patches, with grey gaps.

    Parameters
    ----------
    vectors : ndarray, shape (T, C)
        Position vectors of a square grid of patches, row by row.
    ax : matplotlib Axes, optional
        Axes to draw on; a new figure by default.
    title : str

    Returns
    -------
    Axes

    Raises
    ------
    ValueError, TypeError
        If vectors have another shape, one of them is zero, or their number is not a square.

    References
    ----------
    Dosovitskiy et al. (2021), "An Image Is Worth 16x16 Words", figure 7 in the centre.
    """
    side = _side("position_similarity", "vectors", check_array("position_similarity", "vectors",
                                                               vectors, "(T, C)")["T"])
    norms = np.sqrt((vectors * vectors).sum(axis=1, keepdims=True))
    if not norms.all():
        raise ValueError("position_similarity: a vector is zero, so its cosine is undefined.")
    directions = vectors / norms
    # (row, column) of a patch, then of another
    maps = (directions @ directions.T).reshape(side, side, side, side)
    if ax is None:
        ax = new_axes((WIDTH, 6.4))
    wide = np.full((side, side, side + 1, side + 1), np.nan)          # a gap after each map
    wide[:, :, :side, :side] = maps
    grid = wide.transpose(0, 2, 1, 3).reshape(side * (side + 1), -1)[:-1, :-1]
    scale = signed_colours(ax).with_extremes(bad=faint(ax))           # white is a cosine of 0
    image = ax.imshow(grid, cmap=scale, vmin=-1, vmax=1, interpolation="nearest")
    ax.figure.colorbar(image, ax=ax, label="cosine", shrink=0.8)
    centres = [(side + 1) * k + (side - 1) / 2 for k in range(side)]
    ax.set_xticks(centres, range(1, side + 1))
    ax.set_yticks(centres, range(1, side + 1))
    ax.set(xlabel="column of the patch", ylabel="row of the patch", title=title)
    return ax


def _side(owner, name, T):
    """The number of patches in a row, of T in all."""
    side = math.isqrt(T)
    if not T or side * side != T:
        raise ValueError(f"{owner}: {name} of T={T} patches form no square grid; T must be 1, 4, "
                         "9, 16, ...")
    return side


@picture_of_run("patches", "text")
def _patches(run):
    """Attention to the patches of an image (--text): each layer of a ViT, and rollout."""
    if not isinstance(run.model, VisionTransformer):
        raise ValueError(f"{type(run.model).__name__} has no patches; give the run of a Vision "
                         "Transformer.")
    reading, view = run.reading(), run.view()
    first = run.model.config.first_patch
    layers = [weights.mean(axis=0) for weights in view.weights] + [attention_rollout(view.weights)]
    weights = np.array([p[0, first:] if first else p.mean(axis=0) for p in layers])
    labels = [f"layer {number}" for number in range(1, len(layers))] + ["rollout"]
    grey = reading.image.mean(axis=2, keepdims=True)
    return patch_attention(np.repeat(grey[None], len(layers), axis=0), weights, labels,
                           title="Attention to patches")
