"""Presets of BERT's family from the command line, and runs from the backbone of another."""

import json
import re

import numpy as np
import pytest

from command import call, last_json
from numformer.data import library_text, topic_passages
from numformer.functional import IGNORE_INDEX
from numformer.models import BertConfig, KneserNey
from numformer.recipes import PRESETS, TASKS
from numformer.recipes.library import bert as bert_page
from numformer.recipes.library.fine_tuning import nearest_others
from numformer.runs import load_run
from tiny_presets import tiny_flags

pytestmark = pytest.mark.usefixtures("few_examples")


@pytest.fixture(scope="module")
def bert(tmp_path_factory, few_examples):
    from numformer.cli import main

    out = tmp_path_factory.mktemp("bert") / "r"
    assert main(["train", *tiny_flags("bert"), "--out", str(out), "--content-layers", "0"]) == 0
    return out


@pytest.mark.slow
@pytest.mark.parametrize("preset, flags", [
    ("topics", []),
    pytest.param("sbert", ["--objective", "in_batch"], marks=pytest.mark.slow)])
def test_a_run_begins_with_the_backbone_of_another(preset, flags, bert, capsys, tmp_path):
    steps = ["--steps", "2", "--batch-size", "8", "--eval-blocks", "6", "--learning-rate", "0",
             "--min-learning-rate", "0", *flags]
    assert call(capsys, "train", "--preset", preset, "--from", bert, "--out", tmp_path / "r",
                *steps)[0] == 0
    begun, tokenizer, facts, _ = load_run(tmp_path / "r")
    start, start_tokenizer, start_facts, _ = load_run(bert)
    assert facts["from"] == str(bert.resolve())
    assert json.loads((tmp_path / "r" / "config.json").read_text())["from"] == facts["from"]
    assert tokenizer.to_json() == start_tokenizer.to_json() and begun.config.d_model == 8
    ids = np.array([[1, 50, 60, 70, 2]])
    assert np.array_equal(begun.backbone(ids),
                          start(ids)), "a learning rate of 0 leaves it as it began"
    layers = [its["recipe"]["content_layers"] for its in (facts, start_facts)]
    assert layers == [0, 0], "the preset has another"
    if preset == "sbert":
        result = last_json(call(capsys, "eval", tmp_path / "r", "--json")[1])
        assert result["recall_at_1"] == result["recall_at_1_before"]
    assert call(capsys, "train", "--resume", "--out", tmp_path / "r", "--steps", "3")[0] == 0


@pytest.mark.slow
def test_reproduce_trains_the_starting_run_first(capsys, tmp_path, monkeypatch):
    for name in ("bert", "topics"):
        preset = PRESETS[name]
        model = {**preset.model, "n_layers": 1, "n_heads": 2, "d_model": 8}
        monkeypatch.setitem(PRESETS, name, preset._replace(model=model))
    out = tmp_path / "r"
    said = call(capsys, "reproduce", "topics-from-bert", "--seeds", 1, "--steps", 1, "--out", out,
                "--json")[1]
    assert ([row["preset"] for row in last_json(said)["rows"]]
            == ["bert", "bert", "topics-from-bert"])
    facts = json.loads((out / "topics-from-bert-1" / "config.json").read_text())
    assert facts["preset"] == "topics" and facts["from"] == str((out / "bert-1").resolve())
    assert "topics-from-bert" in (out / "table.md").read_text()
    assert "from bert" in (out / "table.md").read_text()


@pytest.mark.parametrize("argv, words", [
    (["--preset", "sbert", "--from", "RUN", "--n-layers", "2"], "its shape"),
    (["--preset", "tiny", "--from", "RUN"], "tiny trains Decoder"),
    (["--preset", "sbert", "--from", "DECODER"], "a Decoder, has no BERT backbone"),
    (["--preset", "sbert", "--from", "nowhere"], "there is no nowhere"),
    (["--resume", "--from", "RUN", "--out", "RUN"], "leave one of them out"),
    (["--preset", "bert", "--positions", "spiral"], "positions='spiral'"),
    (["--preset", "bert", "--context-length", "4"], "fit into context_length=4")])
def test_settings_that_do_not_fit_are_refused(argv, words, bert, run, capsys, tmp_path):
    argv = [{"RUN": str(bert), "DECODER": str(run)}.get(word, word) for word in argv]
    out = [] if "--out" in argv else ["--out", tmp_path / "r"]
    status, _, err = call(capsys, "train", *argv, *out)
    assert status in (1, 2) and words in err and err.count("\n") == 1


def test_training_and_held_out_rows_share_no_text():
    task = TASKS["masked"]
    tokenizer = task.tokenizer(library_text())
    for next_sentence, easy in ((True, False), (True, True), (False, False)):
        config = BertConfig(vocab_size=len(tokenizer), context_length=64, n_layers=1, n_heads=1,
                            d_model=8, next_sentence=next_sentence)
        parts = [{tuple(ids.tolist()) for ids in task.rows(tokenizer, config, held_out, easy
                                                           and not held_out).ids}
                 for held_out in (False, True)]
        assert len(parts[0]) > 3 * len(parts[1]) and not parts[0] & parts[1]


@pytest.mark.slow
def test_easy_rows_repeat_the_first_passage_where_the_next_should_follow():
    task = TASKS["masked"]
    tokenizer = task.tokenizer(library_text())
    config = BertConfig(vocab_size=len(tokenizer), context_length=112, n_layers=1, n_heads=1,
                        d_model=8)
    shared = {}
    for easy in (False, True):
        rows = task.rows(tokenizer, config, held_out=False, easy=easy)
        for ids, segments, length, follows in zip(*rows):
            first, second = (ids[:length][segments[:length] == segment] for segment in (0, 1))
            shared.setdefault((easy, bool(follows)), []).append(np.isin(second, first).mean())
    means = {key: np.mean(values) for key, values in shared.items()}
    assert means[True, True] > 0.9 > 0.5 > means[False, True] > means[False, False] > 0
    assert abs(means[True, False] - means[False, False]) < 0.02


def test_the_n_gram_sees_the_tokens_before_alone():
    task = TASKS["masked"]
    tokenizer = task.tokenizer(library_text())
    text = np.array([10, 11, 12, 13, 14, 2] * 30)
    n_gram = KneserNey.fit(text, bert_page.N_GRAM, len(tokenizer))
    assert bert_page.n_gram_is_right(n_gram, np.array([2, 10, 11, 12, 13, 14]),
                                     [4, 5]).tolist() == [True, True]
    assert bert_page.n_gram_is_right(n_gram, np.array([9, 10, 11, 12, 13, 9]),
                                     [1, 5]).tolist() == [False, False]
    assert not len(bert_page.n_gram_is_right(n_gram, text, []))


def test_a_sample_shows_the_tokens_behind_wrong_predictions(bert, rng):
    model, tokenizer, _, task = load_run(bert)
    config, rows = model.config, task.rows(tokenizer, model.config, held_out=True)
    said = task.sample(model, tokenizer, rng)
    assert said.startswith("[CLS]") and "[SEP]" in said and "|" in said
    batch = task.validation(None, tokenizer, config, blocks=3)[0]
    assert len(batch.inputs) == 3 and (np.where(batch.targets == IGNORE_INDEX, batch.inputs,
                                                batch.targets)
                                       == rows.ids[:3, :batch.inputs.shape[1]]).all()


def test_recall_counts_nearest_neighbours_on_the_same_topic(monkeypatch):
    vectors, topics = np.array([[1, 0, 0], [2, 0.06, 0], [0, 1, 0], [0, 5, 1],
                                [1, 0, 0.05]]), np.array([0, 0, 1, 1, 1])
    # the last is near the first two, which are on another topic
    assert nearest_others(vectors).tolist() == [1, 0, 3, 2, 0]
    task = TASKS["passages"]
    monkeypatch.setattr(task, "held_out", lambda model, tokenizer: (None, topics, vectors),
                        raising=False)
    assert task.measure(None, None, None) == {"recall_at_1": 0.8}


def test_masks_in_a_prompt_are_filled(bert, capsys):
    status, said, _ = call(capsys, "sample", bert, "--prompt", "The [MASK] of a[MASK].", "--json")
    assert status == 0
    assert re.fullmatch(r"The \[.+\] of a\[.+\]\.", last_json(said)["text"], re.DOTALL)
    assert last_json(said)["tokens"] == 2
    model, tokenizer, _, task = load_run(bert)
    ids = task.row(tokenizer, model.config, "The [MASK]")
    assert ids[0, 0] == tokenizer.special_id("[CLS]")
    assert ids[0, -1] == tokenizer.special_id("[SEP]")
    guess = tokenizer.decode([model.masked_logits(ids)[0, -2].argmax()])
    assert task.answer(model, tokenizer, "The [MASK]") == (f"The [{guess}]", 1)


def test_few_topics_have_eight_passages_of_each():
    tokenizer = TASKS["topics"].tokenizer(library_text())
    config = BertConfig(vocab_size=9, context_length=64, n_layers=1, n_heads=1, d_model=8)
    all_of_them, few = (TASKS[name].examples(tokenizer, config, held_out=False)
                        for name in ("topics", "few-topics"))
    assert np.bincount(few.labels).tolist() == [8] * 8
    assert len(all_of_them.labels) > 2 * len(few.labels)
    held_out = [TASKS[name].examples(tokenizer, config, held_out=True)
                for name in ("topics", "few-topics")]
    assert np.array_equal(held_out[0].rows.ids, held_out[1].rows.ids)


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["topics", "sbert"])
def test_a_prompt_is_answered_with_its_topic_or_nearest_passage(preset, capsys, tmp_path):
    assert call(capsys, "train", *tiny_flags(preset), "--out", tmp_path / "r",
                "--context-length", 80)[0] == 0
    passages, names = topic_passages(8 if preset == "topics" else 16, held_out=True)
    short = [text for text, _ in passages if len(text) < 78][:3]
    said = [last_json(call(capsys, "sample", tmp_path / "r", "--prompt", text, "--json")[1])
            for text in short]
    assert all(answer["tokens"] == 0 for answer in said)
    assert ([answer["text"] for answer in said] == short if preset
            == "sbert" else all(answer["text"] in names for answer in said))
