"""Mistakes in windows of images, attention within them, and merged patches."""

import numpy as np

from numformer import functional as F
from numformer.functional import EVERYWHERE


def partition_columns_first(dy, x, window):
    B, height, width, C = x.shape
    rows, columns = height // window, width // window
    grid = dy.reshape(B, columns, rows, window * window, C).swapaxes(1, 2)
    return F.window_partition_backward(grid.reshape(dy.shape), (x.shape, window))


def partition_transposed_inside(dy, x, window):
    inside = dy.reshape(len(dy), window, window, -1).swapaxes(1, 2)
    return F.window_partition_backward(inside.reshape(dy.shape), (x.shape, window))


def reverse_columns_first(dy, windows, height, width):
    n, area, C = windows.shape
    M = round(area ** 0.5)
    found = F.window_partition(dy, M)[0].reshape(-1, height // M, width // M, area, C)
    return found.swapaxes(1, 2).reshape(windows.shape)


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


def attention(dy, q, k, v, bias, pattern=EVERYWHERE, scale=None, dropout=0.0, seed=None):
    _, saved = F.window_attention(q, k, v, bias, pattern, scale, dropout, seed)
    return F.window_attention_backward(dy, saved)


def attention_with_mean_of_bias(dy, q, k, v, bias, **options):
    *others, dbias = attention(dy, q, k, v, bias, **options)
    return *others, dbias / len(q)


def attention_with_scaled_bias(dy, q, k, v, bias, **options):
    *others, dbias = attention(dy, q, k, v, bias, **options)
    return *others, dbias * q.shape[-1] ** -0.5


def attention_without_scale(dy, q, k, v, bias, **options):
    dq, dk, dv, dbias = attention(dy, q, k, v, bias, **options)
    return dq * q.shape[-1] ** 0.5, dk * q.shape[-1] ** 0.5, dv, dbias


def merged_right_first(dy, x):
    a, b, c, d = np.split(dy, 4, axis=3)
    return F.merge_patches_backward(np.concatenate([a, c, b, d], axis=3), (x.shape,))


MISTAKES = {
    "window_partition_backward": [
        ("dy is only reshaped: the vectors of a window are not contiguous in the feature map",
         lambda dy, x, window: dy.reshape(x.shape)),
        ("the windows are placed column by column, but their order is row by row",
         partition_columns_first),
        ("rows and columns inside a window are exchanged", partition_transposed_inside)],
    "window_reverse_backward": [
        ("dy is only reshaped: the vectors of a window are not contiguous in the feature map",
         lambda dy, windows, height, width: dy.reshape(windows.shape)),
        ("the windows are taken column by column, but their order is row by row",
         reverse_columns_first)],
    "cyclic_roll_backward": [
        ("dy is rolled in the direction of the forward: the backward must undo the roll",
         lambda dy, x, offset: np.roll(dy, (-offset, -offset), axis=(1, 2))),
        ("dy is not rolled back", lambda dy, x, offset: dy.copy()),
        ("only the rows are rolled back: the columns were rolled too",
         lambda dy, x, offset: np.roll(dy, offset, axis=1)),
        ("only the columns are rolled back: the rows were rolled too",
         lambda dy, x, offset: np.roll(dy, offset, axis=2))],
    "window_position_bias_backward": [
        ("a row of the table keeps its last pair only: dtable[index] = dbias loses repeated "
         "distances, which must be summed", table_of_last_pairs),
        ("the index is transposed: the distance from query to key has the opposite sign of that "
         "from key to query", table_transposed),
        ("the pairs of a distance are averaged, but must be summed", table_of_means)],
    "window_attention_backward": [
        ("the gradient of the bias is averaged over the windows, but must be summed: the same bias "
         "was added in every window", attention_with_mean_of_bias),
        ("the gradient of the bias is multiplied by the scale, but the bias was added after the "
         "scale", attention_with_scaled_bias),
        ("the factor 1 / sqrt(D) is missing in the gradients of q and k",
         attention_without_scale)],
    "merge_patches_backward": [
        ("the quarters are taken to the right before down: the second is the vector below",
         merged_right_first),
        ("dy is only reshaped: the four vectors are neighbours in the image, not in memory",
         lambda dy, x: dy.reshape(x.shape))],
}
