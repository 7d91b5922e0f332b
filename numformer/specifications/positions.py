"""Rotary positions, and T5's bias."""

import numpy as np

from numformer import functional as F
from numformer.functional import relative_position_buckets
from numformer.functional.positions.rotary import angles_of
from numformer.specifications.levels import Level, also, sizes
from numformer.specifications.pair import Pair
from numformer.specifications.specification import specify


# ---- rotary --------------------------------------------------------------------------------------

def rotary(x, cosine, sine, layout="half"):
    half = x.shape[-1] // 2
    a = x[..., :half] if layout == "half" else x[..., 0::2]
    b = x[..., half:] if layout == "half" else x[..., 1::2]
    first = a * cosine - b * sine
    second = a * sine + b * cosine
    if layout == "half":
        return np.concatenate([first, second], axis=-1)
    return np.stack([first, second], axis=-1).reshape(x.shape)


def rotary_backward(dy, x, cosine, sine, layout="half"):
    half = x.shape[-1] // 2
    da = dy[..., :half] if layout == "half" else dy[..., 0::2]
    db = dy[..., half:] if layout == "half" else dy[..., 1::2]
    first = da * cosine + db * sine
    second = db * cosine - da * sine
    if layout == "half":
        return np.concatenate([first, second], axis=-1)
    return np.stack([first, second], axis=-1).reshape(x.shape)


def rotated(**options):
    def make(rng):
        B, T, half = sizes(rng, 3)
        cosine, sine = F.rotary_angles(3, 3 + T, 2 * half)
        return {"x": rng.standard_normal((B, T, 2 * half)), "cosine": cosine, "sine": sine}, options
    return make


def rotary_rotated_forward(dy, x, cosine, sine, layout="half"):
    return F.rotary(dy, cosine, sine, layout)[0]


def rotary_with_one_wrong_sign(dy, x, cosine, sine, layout="half"):
    dx = F.rotary(dy, cosine, -sine, layout)[0]
    b = slice(x.shape[-1] // 2, None) if layout == "half" else slice(1, None, 2)
    dx[..., b] = F.rotary(dy, cosine, sine, layout)[0][..., b]
    return dx


def rotary_with_angles_of_the_other_layout(x, cosine, sine, layout="half"):
    a, b = (np.split(x, 2, axis=-1) if layout == "half" else (x[..., 0::2], x[..., 1::2]))
    if layout == "half":
        turned = np.concatenate([-b, a], axis=-1)
        cosine, sine = np.repeat(cosine, 2, axis=-1), np.repeat(sine, 2, axis=-1)
    else:
        turned = np.stack([-b, a], axis=-1).reshape(x.shape)
        cosine, sine = np.tile(cosine, 2), np.tile(sine, 2)
    return x * cosine + turned * sine


INTERLEAVED = ("the pairs are neighbours, (2i, 2i + 1), but here coordinates i and i + half of the "
               "width are a pair")
HALVES = ("the pairs are i and i + half of the width, but layout=\"interleaved\" pairs neighbours, "
          "(2i, 2i + 1)")
OVERWRITTEN = ("one coordinate of a pair is overwritten before the other needs it: compute both "
               "from what came in, before one is written")
SWAPPED = "the two halves of the result are exchanged: the first coordinate of a pair comes first"


def rotated_otherwise(mistake):
    """A rotation with one mistake."""
    def rotate(x, cosine, sine, layout="half"):
        if mistake in ("half", "interleaved"):
            return F.rotary(x, cosine, sine, mistake)[0]
        half = x.shape[-1] // 2
        first, second = ((np.s_[..., :half], np.s_[..., half:]) if layout == "half"
                         else (np.s_[..., 0::2], np.s_[..., 1::2]))
        y = x.copy()
        a, b = x[first], x[second]
        if mistake == "second too late":
            y[first] = a * cosine - b * sine
            y[second] = y[first] * sine + b * cosine
        elif mistake == "first too late":
            y[second] = a * sine + b * cosine
            y[first] = a * cosine - y[second] * sine
        else:
            y[first], y[second] = a * sine + b * cosine, a * cosine - b * sine
        return y
    return rotate


def backwards(rotate):
    """The mistake of a rotation in the rotation back, of dy."""
    return lambda dy, x, cosine, sine, layout="half": rotate(dy, cosine, -sine, layout)


def of_first_coordinates(rotate):
    """The same mistake in a rotation of the first coordinates alone."""
    def partly(x, cosine, sine, layout="half"):
        R = 2 * cosine.shape[-1]
        return np.concatenate([rotate(x[..., :R], cosine, sine, layout), x[..., R:]], axis=-1)
    return partly


PAIRS = [(INTERLEAVED, rotated_otherwise("interleaved")), (HALVES, rotated_otherwise("half")),
         (OVERWRITTEN, rotated_otherwise("second too late")),
         (OVERWRITTEN, rotated_otherwise("first too late")),
         (SWAPPED, rotated_otherwise("exchanged"))]


ANGLES = ("the pairs of coordinates are right, but their angles are in the order of the other "
          "layout: angle i belongs to pair i")


specify(
    F.rotary, ("x",),
    {"plain": rotated(), "interleaved": rotated(layout="interleaved")},
    cases=[
        Pair("rotary, YaRN's angles", [(2, 3, 4)],
             after=angles_of(2, 5, (1.0, 0.3), attention_factor=1.4)),
        Pair("rotary", [(2, 3, 4)], after=F.rotary_angles(2, 5, 4)),
        Pair("rotary, interleaved", [(2, 2, 3, 6)],
             after=(*F.rotary_angles(2, 5, 6), "interleaved"))],
    mistakes=[
        ("the gradient is rotated forward: the gradient of a rotation is the inverse rotation",
         rotary_rotated_forward),
        ("the sine of the second coordinate has the sign of the forward: both signs change in the "
         "backward", rotary_with_one_wrong_sign),
        *((cause, backwards(rotate)) for cause, rotate in PAIRS),
        (ANGLES, lambda dy, x, cosine, sine, layout="half":
         rotary_with_angles_of_the_other_layout(dy, cosine, -sine, layout))],
    forward_mistakes=[*PAIRS, (ANGLES, rotary_with_angles_of_the_other_layout)],
    last_axes={"x": 2},
    hints=(
        "Each pair of coordinates is a point in the plane, rotated by an angle that depends on "
        "the position: a 2 x 2 rotation.",
        "x[..., :D/2] and x[..., D/2:] are the first and second coordinates of the pairs{layout|, "
        "in the layout half; interleaved takes x[..., 0::2] with x[..., 1::2]}. cosine, sine are "
        "(T, D/2).",
        "y_a = x_a * cosine - x_b * sine; y_b has the same two factors with the sine on x_a and a "
        "plus. Write both into the positions they came from."),
    backward_hints=(
        "For each pair y = R x, where R is the rotation; so dx = R^T dy. The transpose rotates "
        "back: the angle changes its sign.",
        "x_a enters y_a with the cosine and y_b with the sine; x_b enters y_a with minus the "
        "sine. x itself is not needed{layout|, and the layout stays}.",
        "dx_a = dy_a * cosine + dy_b * sine; for dx_b, the sine has a minus. It is rotary of dy "
        "with -sine."))


# ---- partial_rotary ------------------------------------------------------------------------------

def partial_rotary(x, cosine, sine, layout="half"):
    R = 2 * cosine.shape[-1]
    y = x.copy()
    y[..., :R] = rotary(x[..., :R], cosine, sine, layout)
    return y


def partial_rotary_backward(dy, x, cosine, sine, layout="half"):
    R = 2 * cosine.shape[-1]
    dx = dy.copy()
    dx[..., :R] = rotary_backward(dy[..., :R], x[..., :R], cosine, sine, layout)
    return dx


def partial_rotary_backward_in_halves(dy, x, cosine, sine):
    half = cosine.shape[-1]
    a, b, rest = dy[..., :half], dy[..., half:2 * half], dy[..., 2 * half:]
    return np.concatenate([a * cosine + b * sine, b * cosine - a * sine, rest], axis=-1)


def rotated_in_part(**options):
    def make(rng):
        B, T, half, rest = sizes(rng, 4)
        cosine, sine = F.rotary_angles(3, 3 + T, 2 * half)
        return {"x": rng.standard_normal((B, T, 2 * half + rest)), "cosine": cosine,
                "sine": sine}, options
    return make


def partial_rotary_without_the_rest(dy, x, cosine, sine, layout="half"):
    R = 2 * cosine.shape[-1]
    rotated = F.rotary(dy[..., :R], cosine, -sine, layout)[0]
    return np.concatenate([rotated, np.zeros_like(dy[..., R:])], axis=-1)


def partial_rotary_rotated_forward(dy, x, cosine, sine, layout="half"):
    return F.partial_rotary(dy, cosine, sine, layout)[0]


def rest_of_x(dy, x, cosine, sine, layout="half"):
    dx = F.partial_rotary(dy, cosine, -sine, layout)[0]
    R = 2 * cosine.shape[-1]
    return np.concatenate([dx[..., :R], x[..., R:]], axis=-1)


def pairs_of_the_whole_width(x, cosine, sine, layout="half"):
    """Coordinate i is paired with i + D/2."""
    R, D = 2 * cosine.shape[-1], x.shape[-1]
    if layout != "half":
        return F.partial_rotary(x, cosine, sine, layout)[0]
    y, first, second = x.copy(), slice(R // 2), slice(D // 2, D // 2 + R // 2)
    y[..., first] = x[..., first] * cosine - x[..., second] * sine
    y[..., second] = x[..., first] * sine + x[..., second] * cosine
    return y


def the_last_coordinates_rotated(x, cosine, sine, layout="half"):
    R = 2 * cosine.shape[-1]
    return np.concatenate([x[..., :-R], F.rotary(x[..., -R:], cosine, sine, layout)[0]], axis=-1)


specify(
    F.partial_rotary, ("x",),
    {"plain": rotated_in_part(), "interleaved": rotated_in_part(layout="interleaved")},
    mistakes=[
        ("coordinates that are not rotated have no gradient, but theirs passes through unchanged",
         partial_rotary_without_the_rest),
        ("the coordinates that are not rotated are taken from x, but must be from dy", rest_of_x),
        *((cause, backwards(of_first_coordinates(rotate))) for cause, rotate in PAIRS),
        ("the gradient is rotated forward: the gradient of a rotation is the inverse rotation",
         partial_rotary_rotated_forward)],
    forward_mistakes=[("the last coordinates are rotated, but the first must be",
                       the_last_coordinates_rotated),
                      ("coordinate i is paired with i + D/2, but must be with i + R/2, R being the "
                       "width that is rotated", pairs_of_the_whole_width),
                      *((cause, of_first_coordinates(rotate)) for cause, rotate in PAIRS)],
    last_axes={"x": 2},
    hints=(
        "Only the first R coordinates are rotated; the rest is copied.",
        "R is twice the width of cosine, (T, R/2). The pairs are formed among the first R "
        "coordinates alone, by layout.",
        "Concatenate rotary(x[..., :R], cosine, sine, layout) with x[..., R:] along the last "
        "axis."),
    backward_hints=(
        "The two parts of x do not mix: rotate the first part of dy back, and pass the second as "
        "it is.",
        "R = 2 cosine.shape[-1]. Rotating back is the rotation with the sign of the sine changed, "
        "in the same layout.",
        "Concatenate the rotation of dy[..., :R] by cosine and -sine with dy[..., R:], along the "
        "last axis."))


# ---- relative_position_bias ----------------------------------------------------------------------

def relative_position_bias_backward(dbias, table, T, S, max_distance=128, bidirectional=True):
    distance = np.arange(1 - S, T)
    buckets = relative_position_buckets(distance, len(table), max_distance, bidirectional)
    dtable = np.zeros(table.shape)
    np.add.at(dtable, buckets, dbias.T)
    return dtable


def by_bucket(rng):
    H, T, S = sizes(rng, 3)
    return {"table": rng.standard_normal((8, H)), "T": T + 8, "S": S + 8, "max_distance": 12}, {}


def table_with_overwriting(dbias, table, T, S, max_distance=128, bidirectional=True):
    dtable = np.zeros_like(table)
    dtable[F.relative_position_buckets(np.arange(1 - S, T), len(table), max_distance,
                                       bidirectional)] = dbias.T
    return dtable


def with_later_keys_by_distance(table, T, S, max_distance=128, bidirectional=True):
    distance = np.arange(1 - S, T)
    return table[F.relative_position_buckets(
        distance if bidirectional else -abs(distance), len(table), max_distance,
        bidirectional)].T


specify(
    F.relative_position_bias, ("table",),
    {"plain": by_bucket, "bidirectional=False": Level(
        also(by_bucket, bidirectional=False), "One direction has all buckets here: keys after the "
        "query are all in bucket 0, and those before it by their distance.")},
    mistakes=[
        ("only the last gradient of a repeated bucket is kept, but all must be summed: np.add.at "
         "sums them, `dtable[buckets] += g` does not", table_with_overwriting)],
    forward_mistakes=[
        ("with bidirectional=False later keys have the bucket of their distance, but must all have "
         "bucket 0", with_later_keys_by_distance)],
    hints=(
        "Every distance belongs to a bucket, and every bucket has a row in the table: a lookup, "
        "once for each distance.",
        "The distances are -(S - 1) ... T - 1, so there are T + S - 1. relative_position_buckets "
        "gives the row of each.",
        "table[buckets] is (T + S - 1, H); the bias has heads first, (H, T + S - 1): transpose "
        "it."),
    backward_hints=(
        "A lookup again: a row of the table sums over all distances in its bucket. Far distances "
        "share buckets, so rows repeat.",
        "Transpose dbias (H, T + S - 1) to have distances first. The rows are those of the "
        "forward: relative_position_buckets of the same distances.",
        "np.add.at adds dbias.T at buckets into zeros of the shape of table; it is "
        "embedding_backward."))
