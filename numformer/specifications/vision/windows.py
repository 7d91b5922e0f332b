"""Windows of images and attention within them."""

import numpy as np

from numformer import functional as F
from numformer.functional import AttentionPattern, shifted_window_mask
from numformer.specifications.levels import SomeOfSizeOne, also, sizes
from numformer.specifications.pair import Pair
from numformer.specifications.specification import changed, specify


# ---- window_partition ----------------------------------------------------------------------------

def partitioned(rng):
    B, rows, columns, C = sizes(rng, 4)
    M = int(rng.integers(2, 4))
    return {"x": rng.standard_normal((B, M * rows, M * columns, C)), "window": M}, {}


def partition_columns_first(dy, x, window):
    B, height, width, C = x.shape
    rows, columns = height // window, width // window
    grid = dy.reshape(B, columns, rows, window * window, C).swapaxes(1, 2)
    return F.window_partition_backward(grid.reshape(dy.shape), (x.shape, window))


def partition_transposed_inside(dy, x, window):
    inside = dy.reshape(len(dy), window, window, -1).swapaxes(1, 2)
    return F.window_partition_backward(inside.reshape(dy.shape), (x.shape, window))


specify(
    F.window_partition, ("x",),
    {"plain": partitioned},
    cases=[Pair("window partition", [(2, 4, 6, 3)], after=(2,))],
    mistakes=[
        ("dy is only reshaped: the vectors of a window are not contiguous in the feature map",
         lambda dy, x, window: dy.reshape(x.shape)),
        ("the windows are placed column by column, but their order is row by row",
         partition_columns_first),
        ("rows and columns inside a window are exchanged", partition_transposed_inside)],
    hints=(
        "Split, reorder and join axes: each window becomes an entry of the batch, its positions "
        "become one axis.",
        "Split height into (rows, M) and width into (columns, M), M being window; the two M must "
        "be next to each other before they are joined.",
        "x.reshape(B, rows, M, columns, M, C), transposed by (0, 1, 3, 2, 4, 5), then reshaped to "
        "(-1, M * M, C)."),
    backward_hints=(
        "A permutation: every gradient goes back to the one place that its number came from. Undo "
        "the steps in reverse order.",
        "dy (B N, M M, C) becomes (B, rows, columns, M, M, C); exchanging axes 2 and 3 once more "
        "restores the order.",
        "dy in that shape, transposed by (0, 1, 3, 2, 4, 5), reshaped to (B, height, width, C). "
        "It is window_reverse."))


# ---- window_reverse ------------------------------------------------------------------------------

def reversed_(rng):
    B, rows, columns, C = sizes(rng, 4)
    M = int(rng.integers(2, 4))
    return {"windows": rng.standard_normal((B * rows * columns, M * M, C)), "height": M * rows,
            "width": M * columns}, {}


def reverse_columns_first(dy, windows, height, width):
    n, area, C = windows.shape
    M = round(area ** 0.5)
    found = F.window_partition(dy, M)[0].reshape(-1, height // M, width // M, area, C)
    return found.swapaxes(1, 2).reshape(windows.shape)


specify(
    F.window_reverse, ("windows",),
    {"plain": reversed_},
    cases=[Pair("window reverse", [(6, 4, 2)], after=(4, 6))],
    mistakes=[
        ("dy is only reshaped: the vectors of a window are not contiguous in the feature map",
         lambda dy, windows, height, width: dy.reshape(windows.shape)),
        ("the windows are taken column by column, but their order is row by row",
         reverse_columns_first)],
    hints=(
        "The inverse of window_partition: the same steps, in reverse order.",
        "windows is (B N, M M, C), with N = (height // M) (width // M) windows for each map; M is "
        "the root of the second size.",
        "Reshape to (B, height // M, width // M, M, M, C), exchange axes 2 and 3, reshape to (B, "
        "height, width, C)."),
    backward_hints=(
        "The gradient of a permutation is the inverse permutation. What is the inverse of the "
        "inverse?",
        "dy is a feature map (B, height, width, C): cut it into windows of M x M, M from the "
        "shape of windows.",
        "window_partition of dy, with M; or reshape, exchange axes 2 and 3, and reshape to the "
        "shape of windows."))


# ---- cyclic_roll ---------------------------------------------------------------------------------

def rolled(rng):
    B, height, width, C = sizes(rng, 4)
    return {"x": rng.standard_normal((B, height + 2, width + 2, C)), "offset": 1}, {}


specify(
    F.cyclic_roll, ("x",),
    {"plain": rolled},
    cases=[
        Pair("cyclic roll", [(2, 3, 4, 2)], after=(1,)),
        Pair("cyclic roll back", [(1, 4, 5, 2)], after=(-2,))],
    mistakes=[
        ("dy is rolled in the direction of the forward: the backward must undo the roll",
         lambda dy, x, offset: np.roll(dy, (-offset, -offset), axis=(1, 2))),
        ("dy is not rolled back", lambda dy, x, offset: dy.copy()),
        ("only the rows are rolled back: the columns were rolled too",
         lambda dy, x, offset: np.roll(dy, offset, axis=1)),
        ("only the columns are rolled back: the rows were rolled too",
         lambda dy, x, offset: np.roll(dy, offset, axis=2))],
    hints=(
        "Every position moves up and to the left by offset; what leaves on one side comes in on "
        "the other.",
        "np.roll moves to higher indices, so the offset is negative. It is for height and width, "
        "axes 1 and 2; batch and channels stay.",
        "np.roll takes one offset for each axis: (-offset, -offset), with axis=(1, 2)."),
    backward_hints=(
        "Every number went to one position: its gradient comes back from there. Which roll undoes "
        "the forward?",
        "y_r = x_{r + o} gives dx_r = dy_{r - o}, modulo height and width: the same roll with the "
        "opposite sign, on both axes.",
        "np.roll of dy by (offset, offset) along the two axes of the map."))


# ---- window_position_bias ------------------------------------------------------------------------

def looked_up(rng):
    H, M = sizes(rng, 2)
    M = M if isinstance(rng, SomeOfSizeOne) else min(M, 4)
    return {"table": rng.standard_normal(((2 * M - 1) ** 2, H)), "window": M}, {}


def table_of_last_pairs(dbias, table, window):
    dtable = np.zeros(table.shape, dbias.dtype)
    dtable[F.window_distances(window)] = dbias.transpose(1, 2, 0)
    return dtable


def table_transposed(dbias, table, window):
    _, saved = F.window_position_bias(table, window)
    return F.window_position_bias_backward(dbias.swapaxes(1, 2), saved)


def table_of_means(dbias, table, window):
    _, saved = F.window_position_bias(table, window)
    counts = np.bincount(F.window_distances(window).ravel())[:, None]
    return F.window_position_bias_backward(dbias, saved) / counts


specify(
    F.window_position_bias, ("table",),
    {"plain": looked_up},
    cases=[Pair("window position bias", [(25, 2)], after=(3,))],
    mistakes=[
        ("a row of the table keeps its last pair only: dtable[index] = dbias loses repeated "
         "distances, which must be summed", table_of_last_pairs),
        ("the index is transposed: the distance from query to key has the opposite sign of that "
         "from key to query", table_transposed),
        ("the pairs of a distance are averaged, but must be summed", table_of_means)],
    hints=(
        "Two positions of a window differ by rows and by columns; each such pair of differences "
        "has a row in the table.",
        "The row of (i, j) is (r_i - r_j + M - 1)(2 M - 1) + c_i - c_j + M - 1, where position i "
        "is at row r_i = i // M and column c_i = i % M.",
        "Index the table ((2 M - 1)^2, H) by that (M M, M M) array, and bring the heads to the "
        "front: (H, M M, M M)."),
    backward_hints=(
        "A lookup: a row of the table sums over all pairs of positions with its difference. Most "
        "rows are read many times.",
        "Bring the heads of dbias (H, M M, M M) to the end, then add each entry to the row from "
        "which it was read. The rows are the forward's.",
        "np.add.at adds dbias.transpose(1, 2, 0) at index into zeros of the shape of table; "
        "dtable[index] += would lose repeated rows."))


# ---- window_attention ----------------------------------------------------------------------------

def attended(shifted):
    def make(rng):
        B, H, D = sizes(rng, 3)
        mask = np.tile(shifted_window_mask(4, 4, 2, 1), (B, 1, 1))[:, None]       # (4 B, 1, 4, 4)
        q, k, v = rng.standard_normal((3, 4 * B, H, 4, D))
        return {"q": q, "k": k, "v": v, "bias": rng.standard_normal((H, 4, 4))}, {
            "pattern": AttentionPattern(mask=mask)} if shifted else {}
    return make


def scale_of(q):
    return q.shape[-1] ** -0.5


SHIFTED = AttentionPattern(mask=shifted_window_mask(4, 2, 2, 1)[:, None])    # two windows


specify(
    F.window_attention, ("q", "k", "v", "bias"),
    {"plain": attended(False), "a mask": attended(True),
     "scale=0.3": also(attended(False), scale=0.3),
     "dropout": also(attended(False), dropout=0.4, seed=7)},
    cases=[
        Pair("window attention", [(2, 2, 4, 3), (2, 2, 4, 3), (2, 2, 4, 2), (2, 4, 4)]),
        Pair("window attention, shifted, dropout",
             [(2, 2, 4, 3), (2, 2, 4, 3), (2, 2, 4, 3), (2, 4, 4)],
             options=dict(pattern=SHIFTED, scale=0.7, dropout=0.4, seed=5))],
    mistakes=[
        ("the gradient of the bias is averaged over the windows, but must be summed: the same bias "
         "was added in every window",
         changed(F.window_attention, dbias=lambda dbias, dy, q, *_: dbias / len(q))),
        ("the gradient of the bias is multiplied by the scale, but the bias was added after the "
         "scale", changed(F.window_attention, dbias=lambda dbias, dy, q, *_: dbias * scale_of(q))),
        ("the factor 1 / sqrt(D) is missing in the gradients of q and k",
         changed(F.window_attention, dq=lambda dq, dy, q, *_: dq / scale_of(q),
                 dk=lambda dk, dy, q, *_: dk / scale_of(q)))],
    hints=(
        "Attention within each window, with a bias for every pair of positions that is added to "
        "the scores before the softmax.",
        "Scores are q k^T times scale, 1 / sqrt(D) if None; bias (H, T, T) is not scaled, and "
        "broadcasts over the batch. Mask, then softmax.",
        "p is the softmax of scores + bias over the keys, where the pattern allows; dropout on p, "
        "then p times v."),
    backward_hints=(
        "As attention, with one path more: bias is added to the scores of all windows, so its "
        "gradient sums over the batch.",
        "dp = do v^T, with the dropout mask once more; dscores = p (dp - the sum of p dp over the "
        "keys). dbias sums dscores over axis 0, before the scale.",
        "dbias = dscores.sum(axis=0); with dproducts = dscores * scale, dq = dproducts @ k, dk = "
        "dproducts.mT @ q; dv = p.mT @ do, p after dropout."))
