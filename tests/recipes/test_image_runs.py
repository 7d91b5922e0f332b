"""The convolutional network and Swin from the command line; the digits on a canvas."""

import json

import numpy as np

from command import call
from numformer.recipes import PRESETS
from numformer.recipes.vision.canvas import on_canvas
from numformer.recipes.vision.nearest import nearest_neighbour_accuracy

SMALL = ["--batch-size", "16", "--warmup-steps", "2", "--eval-every", "3", "--save-every", "3",
         "--steps", "3", "--threads", "1"]


def test_a_wrong_list_of_sizes_is_one_line(capsys, tmp_path):
    status, _, errors = call(capsys, "train", "--preset", "swin", "--depths", "2,,2", "--out",
                             tmp_path / "r")
    assert status == 2 and "depths='2,,2' must be whole numbers" in " ".join(errors.split())


def test_a_convolutional_network_has_no_attention_to_plot(capsys, tmp_path):
    out = tmp_path / "run"
    assert call(capsys, "train", "--preset", "digits-cnn", "--out", out, *SMALL)[0] == 0
    status, _, errors = call(capsys, "plot", "attention", out, "--out", tmp_path / "a.png")
    assert status == 2 and "attention" in errors


def test_digits_on_a_canvas():
    rng = np.random.default_rng(0)
    images = rng.random((50, 8, 8, 1)).astype(np.float32) + 1
    canvas = on_canvas(images, rng)
    assert canvas.shape == (50, 16, 16, 1) and canvas.dtype == np.float32
    corners = set()
    for image, whole in zip(images, canvas):
        row, column = np.argwhere(whole[..., 0])[0]
        np.testing.assert_array_equal(whole[row:row + 8, column:column + 8], image)
        assert np.count_nonzero(whole) == 64
        corners.add((int(row), int(column)))
    assert len(corners) > 25 and max(max(corner) for corner in corners) <= 8


def test_the_data_of_the_canvas_are_the_same_in_all_runs():
    task = PRESETS["swin"].task
    first, second = task.load(None), task.load(None)
    assert first.sha256 == second.sha256 and len(first) == 2 * 1500 + 500
    accuracy = nearest_neighbour_accuracy(*first.digits)
    rows = np.arange(20)                                              # the definition, row by row
    x, y, t, labels = first.digits
    found = [y[((x - t[n]) ** 2).sum(axis=(1, 2, 3)).argmin()] == labels[n] for n in rows]
    part = nearest_neighbour_accuracy(x, y, t[rows], labels[rows])
    assert part == np.mean(found) and 0.55 < accuracy < 0.75


def test_swin_and_its_unshifted_form_differ_in_nothing_else():
    with_shifts, without = (PRESETS[name] for name in ("swin", "swin-unshifted"))
    assert without.model == {**with_shifts.model, "shifted": False}
    assert with_shifts._replace(model=0, claims=0, task=0) == without._replace(
        model=0, claims=0, task=0)
    assert json.dumps(with_shifts.model)
