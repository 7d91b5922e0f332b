"""Signs for letters that no font has: each stays the same one where a label is rotated."""

from itertools import combinations

import numpy as np
import pytest
from matplotlib.font_manager import FontProperties, findfont
from matplotlib.ft2font import FT2Font
from scipy.ndimage import gaussian_filter, rotate, zoom

from numformer.plots.text.labels import MARKS

SIZE, BOX, BLUR = 22, 24, 2                          # pixels: of a letter, and of its picture
USED, ALL = (0, 40, 60, 90), range(0, 360, 15)        # degrees: of labels, and all that are tested
LEAST = 0.32                                          # of the ink of two signs, where they differ


def glyph(path, sign):
    """The picture of a sign."""
    font = FT2Font(path)
    font.set_size(SIZE, 72)
    font.set_text(sign, 0)
    font.draw_glyphs_to_bitmap(antialiased=True)
    return np.asarray(font.get_image(), float) / 255


def scaled(ink):
    """A picture without its margins, in the middle of a box that it fills, a little blurred."""
    rows, columns = (np.flatnonzero(ink.max(axis) > 0.3) for axis in (1, 0))
    ink = ink[rows[0]:rows[-1] + 1, columns[0]:columns[-1] + 1]
    ink = zoom(ink, BOX / max(ink.shape), order=1)
    (height, width), box = ink.shape, np.zeros((BOX, BOX))
    top, left = (BOX - height) // 2, (BOX - width) // 2
    box[top:top + height, left:left + width] = ink
    return gaussian_filter(box, BLUR)


def directions(ink, angles):
    """A picture that is rotated."""
    return np.array([scaled(rotate(ink, angle, order=1)) for angle in angles])


def difference(one, others):
    """How much two signs differ where they are most alike: from 0, the same ink, to 1."""
    return np.min(np.abs(one - others).sum((1, 2)) / np.maximum(one, others).sum((1, 2)))


def alike(signs, angles=ALL, **font):
    """The pairs of signs that could be taken for each other."""
    path = findfont(FontProperties(**font))
    pictures = {sign: directions(glyph(path, sign), angles) for sign in signs}
    return ["".join(pair) for pair in combinations(signs, 2)
            if min(difference(pictures[pair[0]][0], pictures[pair[1]]),
                   difference(pictures[pair[0]][0][:, ::-1], pictures[pair[1]])) < LEAST]


def test_no_sign_is_another_one_in_a_label_that_is_rotated():
    assert len(set(MARKS)) == len(MARKS) and alike(MARKS, USED) == []


@pytest.mark.slow
@pytest.mark.parametrize("font", [{"family": "DejaVu Sans"}, {"family": "DejaVu Sans Mono"},
                                  {"family": "DejaVu Sans", "weight": "bold"}])
def test_no_sign_is_another_one_rotated_or_mirrored(font):
    assert alike(MARKS, **font) == []


def test_signs_that_differ_in_direction_alone_are_found():
    assert alike("▤▥", (90,)) == ["▤▥"] and alike("▤▧", (45,)) == ["▤▧"]
    assert alike("□◇☆", (0, 45)) == ["□◇"]
