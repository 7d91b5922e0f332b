"""Digits: a run from the command line, its pictures, and the costs of the model."""

import numpy as np
import pytest

from command import call, last_json
from numformer.cli import main
from numformer.data import load_digits
from numformer.plots import patch_attention, position_similarity
from numformer.recipes import TASKS
from numformer.recipes.vision import vit
from numformer.runs import load_checkpoint, load_run, save_checkpoint
from numformer.terminal import shell_word
from tiny_presets import tiny_flags

TINY = ["--n-layers", "1", "--n-heads", "2", "--d-model", "8", "--batch-size", "16",
        "--warmup-steps", "2"]


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    """A finished run of 6 steps, validated twice."""
    out = tmp_path_factory.mktemp("digits") / "run"
    assert main(["train", *tiny_flags("vit"), "--out", str(out)]) == 0
    return out


def test_a_run_leaves_pictures_and_can_be_measured(capsys, digits):
    assert ({path.name for path in digits.glob("*.png")}
            == {"loss.png", "attention.png", "positions.png"})
    status, out, _ = call(capsys, "eval", digits, "--json")
    result = last_json(out)
    assert status == 0 and result["tokens"] == 500 and 0 < result["accuracy"] < 1
    assert "nats per image" in out
    model, tokenizer, facts, task = load_run(digits)
    assert tokenizer is None is facts["tokenizer"] and task.name == "digits"
    assert facts["data"]["characters"] == 2000
    assert task.sample(model, None, np.random.default_rng(0)).count("predicted") == 8
    right = round(500 * result["accuracy"])
    logits = model(task.load(None).digits.test_images)
    assert (logits.argmax(axis=1) == task.load(None).digits.test_labels).sum() == right


@pytest.mark.slow
@pytest.mark.parametrize("switches, pictures", [
    (["--pooling", "mean", "--positions", "sinusoidal_2d"],
     {"loss.png", "attention.png", "positions.png"}),
    (["--pooling", "max", "--positions", "none"], {"loss.png", "attention.png"}),
    (["--dtype", "float64", "--eval-blocks", "20"],
     {"loss.png", "attention.png", "positions.png"})])
def test_other_settings_train(capsys, switches, pictures, tmp_path):
    argv = ["train", "--preset", "vit", "--out", tmp_path / "r", "--steps", 1, *TINY, *switches,
            "--json"]
    status, out, _ = call(capsys, *argv)
    assert status == 0 and {path.name for path in (tmp_path / "r").glob("*.png")} == pictures
    assert last_json(out)["tokens"] == 16


@pytest.mark.parametrize("argv, words", [
    (["--patch-size", "3"], "image_size=8 is not divisible by patch_size=3"),
    (["--image-size", "16"], "are 8 x 8 pixels, but the model takes 16 x 16")])
def test_mistakes_are_one_line(capsys, argv, words, tmp_path):
    status, _, err = call(capsys, "train", "--preset", "vit", "--out", tmp_path / "r", *argv)
    assert status in (1, 2) and words in err and not (tmp_path / "r").exists()


@pytest.mark.slow
def test_sample_shows_predictions(capsys, digits):
    status, said, _ = call(capsys, "sample", digits)
    assert status == 0 and said.count("predicted") == 8
    status, _, err = call(capsys, "sample", digits, "--prompt", "seven")
    assert status == 2 and "VisionTransformer cannot answer a prompt; leave --prompt out." in err
    out = call(capsys, "train", "--out", digits, "--resume")[1]
    assert f"numformer eval {shell_word(digits)}" in out and "sample" not in out


def test_a_text_run_without_its_tokenizer_is_refused(capsys, run, tmp_path):
    """Only tasks without tokens may do without."""
    arrays, facts = load_checkpoint(run / "checkpoint.safetensors")
    (tmp_path / "r").mkdir()
    save_checkpoint(tmp_path / "r" / "checkpoint.safetensors", arrays, {**facts, "tokenizer": None})
    status, _, err = call(capsys, "eval", tmp_path / "r")
    assert status == 1 and "None is no tokenizer of this version" in err


def test_the_dataset_has_a_checksum():
    task = TASKS["digits"]
    material = task.load(None)
    assert material.sha256 == task.load(None).sha256 and len(material) == 2000
    material.digits.test_labels[0] += 1
    assert material.sha256 != task.load(None).sha256


def test_a_run_with_other_digits_is_not_measured(capsys, digits, monkeypatch):
    """As one of an earlier version, whose images were others; no --data could bring them back."""
    others = load_digits()
    others.test_labels[0] += 1
    monkeypatch.setattr(vit, "load_digits", lambda: others)
    status, _, err = call(capsys, "eval", digits)
    assert status == 2 and err.count("\n") == 1 and "train it again" in err and "--data" not in err


# ---- counts --------------------------------------------------------------------------------------


def test_count_of_vit_base(capsys):
    """86 million; a forward pass of 17.6 billion multiply-adds, as is commonly reported."""
    status, out, _ = call(capsys, "count", "vit-base", "--json")
    result = last_json(out)
    assert status == 0 and round(result["parameters"] / 1e6, 1) == 86.6
    assert round(result["flops_per_image"] / 2e9, 1) == 17.6
    assert result["training_flops_per_image"] == 3 * result["flops_per_image"]
    assert "12 layers, 12 heads, width 768, images of 224 x 224, patches of 16 x 16" in out


# ---- pictures ------------------------------------------------------------------------------------


def test_patch_attention_draws_images_and_weights(rng):
    images, weights = rng.random((3, 8, 8, 1)), rng.random((3, 16))
    ax = patch_attention(images, weights, ["a", "b", "c"], title="looks")
    assert len(ax.images) == 6 and len(ax.collections) == 3 and ax.get_title() == "looks"
    for b in range(3):
        above, below = ax.images[2 * b:2 * b + 2]
        assert np.array_equal(above.get_array(), images[b, ..., 0])
        assert np.array_equal(below.get_array(),
                              weights[b].reshape(4, 4)), "rows of patches stay rows"
        assert above.get_extent()[:2] == below.get_extent()[:2]
    assert [label.get_text() for label in ax.get_xticklabels()] == [
        f"{name}\nup to {its_weights.max():.2f}" for name, its_weights in zip("abc", weights)]
    assert ax.images[1].get_clim() == (0, weights[0].max())
    assert patch_attention(images, weights, ax=ax) is ax
    one = np.zeros((1, 8, 8, 1))
    one[0, 2, 3] = 1                                                  # its line, on the patches
    line = patch_attention(one, weights[:1]).collections[0].get_paths()[0].vertices
    np.testing.assert_allclose([line.min(axis=0), line.max(axis=0)],
                               [[3 / 8, -0.1 - 3 / 8], [4 / 8, -0.1 - 2 / 8]])


def test_position_similarity_draws_a_map_for_each_patch(rng):
    vectors = rng.standard_normal((9, 5))
    ax = position_similarity(vectors)
    grid = np.ma.filled(ax.images[0].get_array(), np.nan)
    assert grid.shape == (11, 11) and np.isnan(grid[3]).all() and np.isnan(grid[:, 7]).all()
    for row, column, other_row, other_column in ((0, 0, 0, 0), (0, 2, 1, 1), (2, 1, 0, 2)):
        one, other = vectors[3 * row + column], vectors[3 * other_row + other_column]
        cosine = one @ other / np.linalg.norm(one) / np.linalg.norm(other)
        assert abs(grid[4 * row + other_row, 4 * column + other_column] - cosine) < 1e-12
    gap, zero = ax.images[0].cmap(ax.images[0].norm(np.ma.masked_invalid([np.nan, 0.0])))
    assert np.abs(gap - zero).max() > 0.15
    assert position_similarity(vectors, ax=ax) is ax


@pytest.mark.parametrize("draw, error, words", [
    (lambda: patch_attention(np.ones((2, 4, 4, 1)), np.ones((2, 5))), ValueError,
     "T=5 patches form no square grid"),
    (lambda: patch_attention(np.ones((2, 4, 4, 1)), np.ones((3, 4))), ValueError, "B=2"),
    (lambda: patch_attention(np.ones((2, 4, 4, 3)), np.ones((2, 4))), ValueError, "channels=1"),
    (lambda: patch_attention(np.ones((2, 4, 4, 1)), np.ones((2, 4)), ["a"]), ValueError,
     "1 labels for B=2"),
    (lambda: position_similarity(np.ones((5, 2))), ValueError, "T=5"),
    (lambda: position_similarity(np.zeros((4, 2))), ValueError, "zero"),
    (lambda: position_similarity([[1.0]]), TypeError, "array of floats")])
def test_bad_pictures_are_refused(draw, error, words):
    with pytest.raises(error, match=words):
        draw()
