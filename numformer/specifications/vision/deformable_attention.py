"""Deformable attention."""

import numpy as np

from numformer import functional as F
from numformer.functional.vision.deformable_attention import corners
from numformer.specifications.levels import sizes
from numformer.specifications.pair import Pair
from numformer.specifications.specification import changed, specify


def deformable_attention(values, locations, weights, shapes):
    o, start = 0, 0
    for n, (height, width) in enumerate(shapes):
        pixels = values[:, :, start:start + height * width]
        pixels = pixels.reshape(*values.shape[:2], height, width, -1)      # (B, H, M, N, D)
        x = locations[:, :, :, n, :, 0, None] * width - 0.5                # (B, H, T, K, 1)
        y = locations[:, :, :, n, :, 1, None] * height - 0.5
        columns = np.maximum(0, 1 - np.abs(x - np.arange(width)))          # (B, H, T, K, N)
        rows = np.maximum(0, 1 - np.abs(y - np.arange(height)))            # (B, H, T, K, M)
        rows = weights[:, :, :, n, :, None] * rows
        factors = np.einsum("bhtkr,bhtkc->bhtrc", rows, columns)           # (B, H, T, M, N)
        o = o + np.einsum("bhtrc,bhrcd->bhtd", factors, pixels)
        start += height * width
    return o


def deformable_attention_backward(do, values, locations, weights, shapes):
    dvalues, start = np.zeros(values.shape), 0
    dlocations, dweights = np.zeros(locations.shape), np.zeros(weights.shape)
    for n, (height, width) in enumerate(shapes):
        a = weights[:, :, :, n]                                            # (B, H, T, K)
        pixels = values[:, :, start:start + height * width]
        pixels = pixels.reshape(*values.shape[:2], height, width, -1)      # (B, H, M, N, D)
        x = locations[:, :, :, n, :, 0, None] * width - 0.5 - np.arange(width)
        y = locations[:, :, :, n, :, 1, None] * height - 0.5 - np.arange(height)
        columns, rows = np.maximum(0, 1 - np.abs(x)), np.maximum(0, 1 - np.abs(y))
        factors = np.einsum("bhtk,bhtkr,bhtkc->bhtrc", a, rows, columns)
        dpixels = np.einsum("bhtrc,bhtd->bhrcd", factors, do)              # (B, H, M, N, D)
        dvalues[:, :, start:start + height * width] = dpixels.reshape(
            *values.shape[:2], height * width, -1)
        along = np.einsum("bhtd,bhrcd->bhtrc", do, pixels)                 # (B, H, T, M, N)
        column_slopes = np.where(np.abs(x) < 1, -np.sign(x), 0)
        row_slopes = np.where(np.abs(y) < 1, -np.sign(y), 0)
        dweights[:, :, :, n] = np.einsum("bhtkr,bhtkc,bhtrc->bhtk", rows, columns, along)
        dlocations[:, :, :, n, :, 0] = a * width * np.einsum(
            "bhtkr,bhtkc,bhtrc->bhtk", rows, column_slopes, along)
        dlocations[:, :, :, n, :, 1] = a * height * np.einsum(
            "bhtkr,bhtkc,bhtrc->bhtk", row_slopes, columns, along)
        start += height * width
    return dvalues, dlocations, dweights


def draw(n_maps):
    def make(rng):
        B, H, T, K, D = sizes(rng, 5)
        shapes = tuple((int(height), int(width)) for height, width in zip(
            rng.permutation([1, 3, 5])[:n_maps], rng.permutation([2, 4, 6])[:n_maps]))
        S = sum(height * width for height, width in shapes)
        return {"values": rng.standard_normal((B, H, S, D)),
                "locations": rng.uniform(-0.2, 1.2, (B, H, T, n_maps, K, 2)),
                "weights": rng.uniform(0.2, 1, (B, H, T, n_maps, K)), "shapes": shapes}, {}
    return make


def sides_of(locations, shapes):
    """Width and height of each map, in the order of the coordinates: (L, 1, 2)."""
    return np.array(shapes, locations.dtype)[:, None, ::-1]


def of_one_point(do, values, locations, weights, shapes):
    dvalues, dlocations, dweights = F.deformable_attention_backward(
        do, (values, locations, weights, shapes))
    B, H, S, D = values.shape
    last = np.zeros((B * H * (S + 1), D), do.dtype)
    for index, row_factor, column_factor, _, _ in corners(values, locations, shapes):
        factor = weights * row_factor * column_factor
        last[index] = factor[..., None] * do[:, :, :, None, None]
    return last.reshape(B, H, S + 1, D)[:, :, :S], dlocations, dweights


def without_weights(do, values, locations, weights, shapes):
    dvalues, _, _ = F.deformable_attention_backward(
        do, (values, locations, np.ones_like(weights), shapes))
    return dvalues, *F.deformable_attention_backward(do, (values, locations, weights, shapes))[1:]


def elsewhere(move):
    """The function at other locations, which `move` makes of them and of the sides of the maps."""
    def wrong(values, locations, weights, shapes):
        moved = move(locations, sides_of(locations, shapes))
        return F.deformable_attention(values, moved, weights, shapes)[0]
    return wrong


ONE_MAP = [(1, 2, 12, 3), (1, 2, 2, 1, 3, 2), (1, 2, 2, 1, 3)]
TWO_MAPS = [(2, 1, 14, 2), (2, 1, 3, 2, 2, 2), (2, 1, 3, 2, 2)]


def near(values, locations, weights):
    """Most locations inside of their maps."""
    return values, 0.5 + 0.3 * locations, weights


specify(
    F.deformable_attention, ("values", "locations", "weights"),
    {"plain": draw(1), "two maps": draw(2)},
    cases=[
        Pair("deformable attention", ONE_MAP, after=([(3, 4)],), prepare=near),
        Pair("deformable attention, two maps", TWO_MAPS, after=([(3, 4), (2, 1)],), prepare=near)],
    mistakes=[
        ("a pixel keeps the gradient of one point only, but must sum over all points next to it: "
         "np.add.at sums repeated rows, `dvalues[index] += g` does not", of_one_point),
        ("dvalues lacks the weights of the points", without_weights),
        ("dlocations lacks the factor of the map's width or height: locations are in units of "
         "these", changed(F.deformable_attention, dlocations=lambda dlocations, do, values,
                          locations, weights, shapes: dlocations / sides_of(locations, shapes))),
        ("dlocations lacks the weights of the points",
         changed(F.deformable_attention, dlocations=lambda dlocations, do, values, locations,
                 weights, shapes: dlocations / weights[..., None])),
        ("x and y are exchanged in dlocations",
         changed(F.deformable_attention, dlocations=lambda dlocations, *_: dlocations[..., ::-1])),
        ("the sign of dlocations is wrong: the factor of the pixel on the right rises with x, that "
         "of the pixel on the left falls",
         changed(F.deformable_attention, dlocations=lambda dlocations, *_: -dlocations))],
    forward_mistakes=[
        ("x and y are exchanged: x runs over columns and comes first",
         elsewhere(lambda points, sides: points[..., ::-1])),
        ("the half is missing: pixel c has its centre at x = (c + 1/2) / width",
         elsewhere(lambda points, sides: points + 0.5 / sides)),
        ("0 and 1 are taken as the centres of the outer pixels (align_corners=True), but are the "
         "edges of the map", elsewhere(
             lambda points, sides: (points * (sides - 1) + 0.5) / sides)),
        ("outside of the map its border is repeated, but values there are 0",
         elsewhere(lambda points, sides: np.clip(points, 0.5 / sides, 1 - 0.5 / sides))),
        ("the nearest pixel is taken, but a value is interpolated from four",
         elsewhere(lambda points, sides: (np.round(points * sides - 0.5) + 0.5) / sides))],
    hints=(
        "Each query reads K points in each of L maps. A point lies between four pixels, and its "
        "value is a mean of theirs, by how near they are: bilinear interpolation.",
        "In pixels, x * width - 0.5 is 0 at the centre of the first column. With left = floor and "
        "f = x - left, the left pixel counts 1 - f times, the right one f times; rows likewise.",
        "Row r and column c of a map begin at start + r * width + c in values; pixels outside "
        "count 0. Multiply each sample by its weight, and sum over L and K."),
    backward_hints=(
        "Three paths: the pixels, as in a lookup with factors; the weights, as in a weighted sum; "
        "the locations, through the factors of the four pixels.",
        "along = do . pixel, for each of the four. dweights sums factor * along. By x the left "
        "factor has the slope -width, the right one width; locations also have the weight.",
        "dvalues adds weight * factor * do to each of the four pixels: np.add.at, as several "
        "points share a pixel. What is outside gets and gives nothing."))
