"""Scenes of digits: components by hand, measures of perfect finds, and a run of DETR."""

from dataclasses import replace

import numpy as np
import pytest

from command import call, last_json
from numformer.cli import main
from numformer.data import Scenes, digit_scenes
from numformer.experiments.training import trainer_of
from numformer.functional import IGNORE_INDEX
from numformer.recipes import TASKS
from numformer.recipes.vision.components import centred, component_finds
from numformer.recipes.vision.detection import HELD_OUT, SIZE, objects_of, precision_and_recall
from numformer.runs import load_run
from tiny_presets import tiny_flags


@pytest.fixture(scope="module")
def detected(tmp_path_factory):
    """A finished run of 4 steps."""
    out = tmp_path_factory.mktemp("scenes") / "run"
    assert main(["train", *tiny_flags("detr"), "--out", str(out)]) == 0
    return out


def digit(rows, columns):
    """An image (8, 8, 1) with a rectangle of ink."""
    image = np.zeros((8, 8, 1))
    image[rows, columns] = 1.0
    return image


# ---- components ----------------------------------------------------------------------------------


def test_components_by_hand():
    """A bar and a square that do not touch; grey pixels and corners connect nothing."""
    bar, square = digit(slice(1, 7), slice(3, 5)), digit(slice(2, 6), slice(2, 6))
    image = np.zeros((20, 20, 1))
    image[2:8, 1:3] = 1.0
    image[8:12, 3:7] = 1.0                            # touches the bar with a corner
    image[8:12, 7:9] = 0.09                           # too light
    (labels, scores, boxes), = component_finds(image[None], np.stack([square, bar]),
                                               np.array([4, 1]))
    assert boxes.tolist() == [[1, 2, 3, 8], [3, 8, 7, 12]]
    assert labels.tolist() == [1, 4] and scores.tolist() == [0, 0]


def test_an_image_without_ink_has_no_components():
    (labels, scores, boxes), = component_finds(np.zeros((1, 9, 9, 1)), np.ones((1, 8, 8, 1)),
                                               np.array([3]))
    assert len(labels) == len(scores) == 0 and boxes.shape == (0, 4)


def test_centred_moves_ink_and_cuts_what_is_too_large():
    image = np.zeros((20, 20))
    image[15:17, 1:3] = 2.0
    square = centred(image)
    assert square.shape == (8, 8) and (square[3:5, 3:5] == 2).all() and square.sum() == 8
    assert (centred(np.ones((20, 12))) == 1).all()


# ---- measures ------------------------------------------------------------------------------------


def test_objects_are_where_their_ink_is():
    """Boxes in pixels enclose all ink of a scene, and no box has an empty edge."""
    rng = np.random.default_rng(3)
    digits = np.zeros((10, 8, 8, 1), np.float32)
    digits[:, 1:6, 2:7] = rng.random((10, 5, 5, 1)) + 0.1
    scenes = digit_scenes(digits, np.arange(10), 30, rng, SIZE)
    for image, (labels, corners), found in zip(scenes.images[..., 0], objects_of(scenes),
                                               scenes.labels):
        assert labels.tolist() == found[found != IGNORE_INDEX].tolist()
        covered = np.zeros_like(image)
        for x0, y0, x1, y1 in np.rint(corners).astype(int):
            assert (x1 - x0, y1 - y0) == (5, 5) and (image[y0:y1, x0:x1] > 0).all()
            covered[y0:y1, x0:x1] = 1
        assert ((image > 0) == (covered > 0)).all()


@pytest.mark.slow
def test_perfect_finds_have_average_precision_one(monkeypatch):
    """Also with a wrong class for every object: then that of any digit alone."""
    task = TASKS["scenes"]
    dataset, shift = task.load(None), 0
    dataset = replace(dataset, held_out=Scenes(*(array[:80] for array in dataset.held_out)))
    objects = objects_of(dataset.held_out)
    monkeypatch.setattr(type(task), "finds", lambda *_: [
        ((labels + shift) % 10, np.ones(len(labels)), corners) for labels, corners in objects])
    figures = task.measure(None, None, dataset)
    assert figures["average_precision"] == figures["average_precision_of_any_digit"] == 1
    assert figures["precision_of_sure_finds"] == figures["recall_of_sure_finds"] == 1
    assert 0.02 > figures["components_frequent_digit"] > 0.001
    assert 0.9 > figures["components_any_digit"] > figures["components_nearest_digit"] > 0.5
    shift = 1
    figures = task.measure(None, None, dataset)
    assert figures["average_precision"] == 0 and figures["average_precision_of_any_digit"] == 1


def test_precision_and_recall_by_hand():
    """Two scenes: one object is found twice, one as another digit, one unsurely, one right."""
    one, two = np.array([[0.0, 0, 4, 4]]), np.array([[6.0, 6, 10, 10]])
    both = np.concatenate([one, two])
    first = (np.array([3, 3, 5]), np.array([0.6, 0.9, 0.7]), np.concatenate([one, one, two]))
    second = (np.array([8, 1]), np.array([0.49, 0.5]), both)
    objects = [(np.array([3, 4]), both), (np.array([8, 1]), both)]
    assert precision_and_recall([first, second], objects) == (2 / 4, 2 / 4)
    assert precision_and_recall([second], objects[1:], overlap=1.0) == (1, 1 / 2)
    nothing = (np.zeros(0, int), np.zeros(0), np.zeros((0, 4)))
    assert precision_and_recall([nothing, nothing], objects) == (0, 0)


def test_held_out_scenes_are_of_test_digits_and_the_same_for_every_seed():
    task = TASKS["scenes"]
    dataset = task.load(None)
    assert dataset.sha256 == task.load(None).sha256 and len(dataset) == 2000
    digits = dataset.digits
    again = digit_scenes(digits.test_images, digits.test_labels, HELD_OUT,
                         np.random.default_rng(0), SIZE)
    assert all(np.array_equal(one, other) for one, other in zip(again, dataset.held_out))
    batches = task.validation(dataset, None, trainer_of("detr", 1, 1)[0].model.config, 7)
    assert [len(batch.targets) for batch in batches] == [7]


# ---- runs ----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_run_of_scenes_can_be_measured_sampled_and_seen(capsys, detected):
    assert ({path.name for path in detected.glob("*.png")}
            == {"loss.png", "boxes.png", "queries.png"})
    status, out, _ = call(capsys, "eval", detected, "--json")
    result = last_json(out)
    assert status == 0 and np.isfinite(result["val_loss"])
    assert 0 <= result["average_precision"] < result["components_nearest_digit"] < 1
    status, said, _ = call(capsys, "sample", detected)
    lines = said.strip().splitlines()
    assert status == 0 and len(lines) == 4
    assert all(line.startswith("there: ") and "; found:" in line for line in lines)


@pytest.mark.slow
def test_finds_are_in_pixels_and_do_not_depend_on_the_batch(detected):
    model, _, _, task = load_run(detected)
    images = task.load(None).held_out.images[:3]
    together = task.finds(model, images)
    for n, (labels, scores, corners) in enumerate(together):
        assert labels.shape == scores.shape == (4,) and ((0 <= labels) & (labels < 10)).all()
        assert ((0 < scores) & (scores < 1)).all() and (corners[:, 2:] > corners[:, :2]).all()
        (_, alone, boxes), = task.finds(model, images[n:n + 1])
        np.testing.assert_allclose(scores, alone, rtol=1e-4)
        np.testing.assert_allclose(corners, boxes, rtol=1e-4, atol=1e-3)
        y = model(images[n:n + 1])[0]
        np.testing.assert_allclose(SIZE * (y[:, 11:13] - y[:, 13:] / 2), corners[:, :2], rtol=1e-4,
                                   atol=1e-3)


@pytest.mark.slow
def test_one_scene_again_and_again_is_learned():
    """The loss of a batch falls to a small part, and every digit of it is found."""
    trainer, task, _ = trainer_of("detr", 1, 150, model=dict(
        encoder_layers=1, decoder_layers=1, d_model=32, n_queries=5, patch_size=4),
        training=dict(batch_size=2))
    batch = trainer.stream.batch(0)
    trainer.stream.batch = lambda step: batch
    losses = [float(trainer.train_step()["loss"]) for _ in range(150)]
    assert losses[-1] < 0.1 * losses[0]
    for (labels, scores, _), true in zip(task.finds(trainer.model, batch.images), batch.targets):
        assert sorted(labels[scores > 0.5]) == sorted(true[true != IGNORE_INDEX])


@pytest.mark.parametrize("argv, words", [
    (["--image-size", "12"], "scenes are 24 x 24 pixels, but the model takes 12 x 12"),
    (["--patch-size", "5"], "image_size=24 is not divisible by patch_size=5"),
    (["--n-queries", "3"], "--n-queries 4 or more")])
def test_wrong_options_of_detr_are_one_line(capsys, argv, words, tmp_path):
    status, _, err = call(capsys, "train", "--preset", "detr", "--out", tmp_path / "r", *argv)
    assert status in (1, 2) and words in err and not (tmp_path / "r").exists()
