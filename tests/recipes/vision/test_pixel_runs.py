"""Images written pixel by pixel: counts by hand, and a run from the command line."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from command import call, last_json
from numformer.cli import main
from numformer.recipes.vision.pixels import (
    DIGITS, LEVELS, PIXELS, histogram_bits, histogram_samples, nearest_digits, ngram_bits,
    pixel_batch, pixel_ids)
from numformer.runs import load_run
from tiny_presets import tiny_flags


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A finished run of 4 steps."""
    out = tmp_path_factory.mktemp("pixels") / "run"
    assert main(["train", *tiny_flags("pixels"), "--out", str(out)]) == 0
    return out


def test_ids_are_the_class_and_grey_levels(rng):
    levels = rng.integers(0, LEVELS, (3, 8, 8, 1))
    ids = pixel_ids((levels / 16).astype(np.float32), np.array([0, 9, 4]))
    assert ids[:, 0].tolist() == [17, 26, 21] and ids.max() < LEVELS + DIGITS
    assert (ids[:, 1:] == levels.reshape(3, PIXELS)).all()
    batch = pixel_batch(ids)
    assert (batch.targets == levels.reshape(3, PIXELS)).all(), "no class token is a target"
    assert (batch.inputs[:, 1:] == batch.targets[:, :-1]).all()


def test_bits_of_counts_by_hand():
    """Two images of one class: with much data the entropy of a position; without, 17 levels."""
    one, other = np.zeros((1, PIXELS), int), np.full((1, PIXELS), 16)
    classes = np.full((200, 1), LEVELS)
    train = np.concatenate([classes, np.repeat(np.concatenate([one, other]), 100, axis=0)], axis=1)
    # each of two levels at every position with probability 1/2, but for the smoothing of 0.1
    assert abs(histogram_bits(train, train) + math.log2((100 + 0.1 / 17) / 200.1)) < 1e-12
    # after the first pixel, the pixels before are all that is needed
    assert 1 / 64 < ngram_bits(train, train, 2) < 0.03
    unseen = train[:1].copy()
    unseen[0, 0] += 1
    assert abs(histogram_bits(train, unseen) - math.log2(17)) < 1e-12


def test_samples_of_counts_keep_the_class_and_lose_the_strokes(rng):
    """Pixels that are equal in every image of a class differ within a sample."""
    levels = np.repeat(rng.integers(0, LEVELS, (40, 1)), PIXELS, axis=1)
    levels[:20] = 3
    ids = np.concatenate([np.repeat([[LEVELS], [LEVELS + 1]], 20, axis=0), levels], axis=1)
    drawn = histogram_samples(ids, np.array([0, 1, 0]), rng)
    assert drawn.shape == (3, 8, 8) and (drawn[[0, 2]] == 3 / 16).all()
    assert len(np.unique(drawn[1])) > 5
    assert set(np.rint(16 * drawn[1]).ravel()) <= set(levels[20:, 0])


def test_nearest_digits_by_hand():
    digits = SimpleNamespace(train_images=np.stack([np.zeros((8, 8, 1)), np.ones((8, 8, 1))]),
                             train_labels=np.array([4, 7]))
    images = np.stack([np.ones((8, 8)), np.zeros((8, 8)), np.full((8, 8), 0.25)])
    labels, distances = nearest_digits(digits, images)
    assert labels.tolist() == [7, 4, 4]
    np.testing.assert_allclose(distances, [0, 0, 2], atol=1e-7)


@pytest.mark.slow
def test_a_run_can_be_measured_sampled_and_seen(capsys, written):
    assert {path.name for path in written.glob("*.png")} == {"loss.png", "samples.png"}
    status, out, _ = call(capsys, "eval", written, "--json")
    result = last_json(out)
    assert status == 0 and result["tokens"] == 500 * PIXELS
    assert abs(result["bits_per_pixel"] - result["val_loss"] / math.log(2)) < 1e-6
    assert 0.93 < result["test_images_recognized"] < 0.96
    assert 2.4 < result["histogram_bits_per_pixel"] < 2.5 < result["ngram_bits_per_pixel"] < 2.6
    assert (result["test_images_distance"] < result["histogram_samples_distance"]
            < result["samples_distance"]), "4 steps make noise"
    status, said, _ = call(capsys, "sample", written)
    assert status == 0 and said.count("\n\n") == 1 and len(said.strip("\n").splitlines()) == 19


def test_samples_are_grey_levels_and_depend_on_the_rng(written):
    model, _, _, task = load_run(written)
    labels = np.array([3, 8])
    one, same, other = (task.draw(model, labels, np.random.default_rng(seed)) for seed in (0, 0, 1))
    assert (one == same).all() and (one != other).any() and one.shape == (2, 8, 8)
    assert set(np.unique(16 * one)) <= set(range(LEVELS))


def test_another_number_of_pixels_is_refused(capsys, tmp_path):
    status, _, err = call(capsys, "train", "--preset", "pixels", "--out", tmp_path / "r",
                          "--context-length", 63)
    assert status in (1, 2) and "use --context-length 64" in err and not (tmp_path / "r").exists()
