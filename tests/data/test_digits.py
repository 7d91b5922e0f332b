"""The digits: the same bytes everywhere, a fixed split without duplicates, strokes by hand."""

import hashlib

import numpy as np
import pytest

from numformer.data import load_digits
from numformer.data.corpora import digits as page

SHA256 = "e8d4f2b4ca7e2677bb12ffb95df60e09dbb25729208c4a723dc131b4363b70b6"


def test_the_bytes_are_the_same_everywhere():
    checksum = hashlib.sha256()
    for array in load_digits():
        checksum.update(np.rint(16 * array).astype(np.uint8).tobytes())
    assert checksum.hexdigest() == SHA256


def test_the_split_is_fixed_and_balanced():
    digits = load_digits()
    assert digits.train_images.shape == (1500, 8, 8, 1)
    assert digits.test_images.shape == (500, 8, 8, 1)
    assert {array.dtype.name for array in digits} == {"float32", "int64"}
    assert np.bincount(digits.train_labels).tolist() == [150] * 10
    assert np.bincount(digits.test_labels).tolist() == [50] * 10
    both = np.concatenate([digits.train_images, digits.test_images]).reshape(2000, 64)
    assert set(np.unique(16 * both)) == set(range(17)), "grey levels of 16 dots"
    assert len(np.unique(both, axis=0)) == 2000, "no image of the test was seen in training"


def test_what_a_caller_writes_stays_with_the_caller():
    first = load_digits()
    for array in first:
        array[...] = 7
    assert load_digits().train_images.max() == 1 and load_digits().test_labels[1] == 1


@pytest.fixture
def plain(monkeypatch):
    """Strokes as the table has them: nothing is random but the way to write."""
    for name in ("JITTER", "SHIFT", "ROUGHNESS", "STRETCH", "SLANT", "TILT"):
        monkeypatch.setattr(page, name, 0)
    monkeypatch.setattr(page, "RADIUS", (16, 16))
    return monkeypatch


def test_strokes_by_hand(plain, rng):
    """A line in the middle covers half of two pixels; a point a disc, the pen lifted between."""
    plain.setattr(page, "WAYS", (["40 42 44 46 49"], ["42 42|47 47"]))
    line, points = page._draw(0, rng), page._draw(1, rng)
    assert (line[1:7, 3:5] == 8).all() and (np.delete(line, (3, 4), axis=1) == 0).all()
    assert 0 < line[0, 3] == line[0, 4] < 8 and line[7].tolist() == line[0].tolist()
    dots = np.arange(4, 256, 8)
    for row, part in ((68, slice(0, 4)), (188, slice(4, 8))):         # 128 + 24 * (2 - 4.5), ...
        disc = (dots - 128)**2 + (dots[:, None] - row)**2 <= 16**2
        assert (points[part] == disc.reshape(8, 4, 8, 4).sum(axis=(1, 3))[part]).all()


@pytest.mark.parametrize("label", range(10))
def test_every_way_to_write_a_digit_fits_and_is_drawn(plain, label):
    """The ink touches no edge, and both strokes and ways are those of the table."""
    drawn = {page._draw(label, np.random.default_rng(seed)).tobytes() for seed in range(20)}
    assert len(drawn) == len(page.WAYS[label])
    for image in drawn:
        image = np.frombuffer(image, np.int64).reshape(8, 8)
        assert image[:, 0].max() <= 8 and image.sum() > 100


@pytest.mark.parametrize("name, value", [("SHIFT", 32), ("STRETCH", 60), ("SLANT", 60),
                                         ("TILT", 60), ("RADIUS", (8, 24)), ("ROUGHNESS", 80)])
def test_everything_that_varies_changes_the_image(plain, name, value):
    plain.setattr(page, "WAYS", (["40 49 79"],))
    plain.setattr(page, name, value)
    assert len({page._draw(0, np.random.default_rng(seed)).tobytes() for seed in range(9)}) > 3
