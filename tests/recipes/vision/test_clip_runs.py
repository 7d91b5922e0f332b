"""Images and captions: captions by rule, batches of tens, and a run from the command line."""

import numpy as np
import pytest

from command import call, last_json
from numformer.cli import main
from numformer.data import HELD_OUT_PHRASING, PHRASINGS, DataError, all_captions, digit_caption
from numformer.experiments.training import trainer_of
from numformer.recipes import TASKS
from numformer.recipes.vision.clip import caption_ids
from numformer.runs import load_run
from tiny_presets import tiny_flags


@pytest.fixture(scope="module")
def matched(tmp_path_factory):
    """A finished run of 4 steps."""
    out = tmp_path_factory.mktemp("captions") / "run"
    assert main(["train", *tiny_flags("clip"), "--out", str(out)]) == 0
    return out


def test_the_held_out_phrasing_is_new_but_its_words_are_known():
    words = set(" ".join(all_captions()).replace(",", " ").split())
    new = [digit_caption(k, HELD_OUT_PHRASING) for k in range(10)]
    assert set(" ".join(new).replace(",", " ").split()) <= words
    assert not set(new) & set(all_captions()) and HELD_OUT_PHRASING not in PHRASINGS
    assert len(set(all_captions())) == 140


def test_a_shard_of_ten_pairs_holds_every_digit_once():
    """The caption of each names the digit of its image; other batches have other captions."""
    trainer, task, tokenizer = trainer_of("clip", 1, 1, model=dict(n_layers=1, d_model=8))
    digits = task.load(None).digits
    known = {image.tobytes(): label for image, label in zip(digits.train_images,
                                                            digits.train_labels.tolist())}
    seen = set()
    for step in range(5):
        batch = trainer.stream.batch(step)
        for shard in batch.split(4):
            labels = [known[image.tobytes()] for image in shard.images]
            assert sorted(labels) == list(range(10))
            for row, n, label in zip(shard.ids, shard.lengths, labels):
                fitting = [digit_caption(label, phrasing, figure) for phrasing in PHRASINGS
                           for figure in (False, True)]
                assert any(np.array_equal(tokenizer.encode(one), row[:n - 1]) for one in fitting)
                seen.add(tuple(row[:n - 1]))
    assert len(seen) > 80


def test_captions_have_an_end_token_and_must_fit():
    tokenizer = TASKS["captions"].tokenizer(None)
    ids, lengths = caption_ids(tokenizer, ["seven", "this is a 7"], 6)
    end, padding = tokenizer.special_id("[EOS]"), tokenizer.special_id("[PAD]")
    assert lengths.tolist() == [2, 5] and ids.shape == (2, 6)
    assert ids[0, 1] == ids[1, 4] == end and (ids[0, 2:] == padding).all() and ids[1, 5] == padding
    with pytest.raises(DataError, match="--context-length 5"):
        caption_ids(tokenizer, ["this is a 7"], 4)


@pytest.mark.slow
def test_a_run_of_pairs_can_be_measured_sampled_and_seen(capsys, matched):
    assert {path.name for path in matched.glob("*.png")} == {"loss.png", "similarity.png"}
    status, out, _ = call(capsys, "eval", matched, "--json")
    result = last_json(out)
    assert status == 0 and result["guessing"] == 0.1
    assert {"zero_shot_accuracy", "zero_shot_accuracy_before", "new_phrasing_accuracy",
            "new_phrasing_accuracy_before"} <= set(result)
    model, tokenizer, facts, task = load_run(matched)
    digits = task.load(None).digits
    p = task.probabilities(model, tokenizer, digits.test_images,
                           [digit_caption(k, HELD_OUT_PHRASING) for k in range(10)])
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-5)
    right = (p.argmax(axis=1) == digits.test_labels).sum()
    assert round(500 * result["new_phrasing_accuracy"]) == right
    status, said, _ = call(capsys, "sample", matched)
    assert status == 0 and len(said.strip().splitlines()) == 8
    assert all(line.split(": ", 1)[1] in all_captions() for line in said.strip().splitlines())


def test_the_temperature_is_trained_within_its_bound():
    trainer, *_ = trainer_of("clip", 1, 2, model=dict(n_layers=1, d_model=8))
    before = float(trainer.model.logit_scale.data)
    trainer.train_step()
    assert float(trainer.model.logit_scale.data) != before
    trainer.model.logit_scale.data[...] = 50.0
    trainer.train_step()
    assert float(trainer.model.logit_scale.data) <= np.log(100) + 1e-6


@pytest.mark.parametrize("argv, words", [
    (["--batch-size", "35"], "use --batch-size 40"),
    (["--context-length", "5"], "a caption has")])
def test_wrong_options_of_clip_are_one_line(capsys, argv, words, tmp_path):
    status, _, err = call(capsys, "train", "--preset", "clip", "--out", tmp_path / "r", *argv)
    assert status in (1, 2) and words in err and not (tmp_path / "r").exists()
