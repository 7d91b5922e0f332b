"""Parts of the experiment roberta-tables: forms of the input, held-out rows, runs, baselines."""

import numpy as np
import pytest

from numformer.data import MaskedStream
from numformer.experiments.transfer import roberta_tables as tables
from numformer.experiments.transfer.roberta_tables import (
    FEW, MANY, RUNS, TABLES, FormTask, Run, prepared)
from numformer.experiments.transfer.tale_forms import FORMS, NEXT_SENTENCE, stream, whole
from numformer.functional import IGNORE_INDEX

SEPARATOR = 2
# Tale n has the words n00, n01, ... in sentences of three words
TALES = [[np.array([100 * n + 10 * s + w for w in range(3)]) for s in range(6)]
         for n in range(1, 41)]


def rows_of(run, held_out=False):
    trainer, task, tokenizer = prepared(run, seed=0)
    return task.rows(tokenizer, trainer.model.config, held_out), tokenizer


def test_a_whole_tale_is_a_row_and_a_stream_goes_on_over_ends_of_tales():
    passages, follows = whole(TALES, 50, SEPARATOR)
    assert follows is None and [len(row) for row, in passages] == [18] * 40
    assert passages[3][0].tolist() == np.concatenate(TALES[3]).tolist()
    passages, follows = stream(TALES, 25, SEPARATOR)
    ids = np.concatenate([row for row, in passages])
    assert follows is None and [len(row) for row, in passages] == [25] * 30 + [10]
    assert ids.tolist() == [each for tale in TALES for part in (*tale, [SEPARATOR])
                            for each in part]


@pytest.mark.parametrize("form, words, pairs", [("halves", 9, 1), ("sentences", 3, 3)])
def test_half_of_the_pairs_follow_and_the_others_are_of_two_tales(form, words, pairs):
    passages, follows = FORMS[form](TALES, 50, SEPARATOR)
    assert len(passages) == 40 * pairs and sum(follows) == len(follows) / 2
    for (first, second), follow in zip(passages, follows):
        assert len(first) == len(second) == words
        if follow:                                                    # the next sentence
            assert second[0] == first[-1] + 8
        else:
            assert second[0] // 100 != first[0] // 100


@pytest.mark.slow
@pytest.mark.parametrize("form", NEXT_SENTENCE)
def test_no_pair_of_the_real_tales_that_does_not_follow_is_of_one_tale(form):
    tales = [[np.full(last - first, n) for first, last in told.sentences]
             for n, told in enumerate(FormTask(form, MANY).tales(held_out=False))]
    for (first, second), follow in zip(*FORMS[form](tales, 62, SEPARATOR)):
        assert (first[0] == second[0]) == follow


@pytest.mark.slow
def test_all_runs_are_measured_on_the_same_masked_words_of_whole_tales():
    validations = [prepared(run, seed)[0].validation for seed, run in enumerate(RUNS.values())]
    for batches in validations:
        for batch, first in zip(batches, validations[0], strict=True):
            assert (batch.inputs == first.inputs).all() and (batch.targets == first.targets).all()
            assert (batch.follows == IGNORE_INDEX).all()
    rows, tokenizer = rows_of(RUNS["halves"], held_out=True)
    assert len(rows.ids) == 100 and (rows.ids == SEPARATOR).sum() == 100


@pytest.mark.slow
def test_runs_read_as_many_words_but_for_the_longer_ones():
    words = {}
    for name, run in RUNS.items():
        rows, tokenizer = rows_of(run)
        special = [tokenizer.special_id(each) for each in tokenizer.special]
        words[name] = run.steps * run.batch_size * np.isin(rows.ids, special, invert=True).sum(
            ) / len(rows.ids)
    standard = words["standard"]
    for name, each in words.items():
        assert abs(each / standard - (2 if "longer" in name else 1)) < 0.03, name


def test_runs_of_a_table_differ_in_its_choice_alone():
    assert set(RUNS) == {name for names in TABLES.values() for name in names}
    changed = {"Masks": {"dynamic_masks"}, "Input, next sentences": {"form", "batch_size"},
               "Batches, the same words": {"batch_size", "steps", "learning_rate"},
               "More tales, more steps": {"n_tales", "steps"}}
    for title, names in TABLES.items():
        values = zip(*(RUNS[name] for name in names))
        assert {field for field, found in zip(Run._fields, values)
                if len(set(found)) > 1} == changed[title]


@pytest.mark.slow
@pytest.mark.parametrize("dynamic", [False, True])
def test_a_run_has_its_masks_its_tales_and_its_second_task(dynamic):
    for form in FORMS:
        trainer, *_ = prepared(Run(form, FEW, dynamic, batch_size=7, steps=9), seed=0)
        assert type(trainer.stream) is MaskedStream and trainer.stream.dynamic == dynamic
        assert len(trainer.stream.batch(0).inputs) == 7 and trainer.config.steps == 9
        assert (trainer.model.next_sentence is not None) == (form in NEXT_SENTENCE)
    assert len(rows_of(Run(n_tales=FEW))[0].ids) == FEW


def test_a_curve_begins_before_and_ends_after_training():
    points = tables.curve(Run(n_tales=FEW, batch_size=4, steps=2), seed=0)
    assert len(points) == 3 and points[0][0] == 0 < points[1][0] < points[2][0]
    assert points[0][1] == pytest.approx(np.log(329), abs=0.1)        # words and special tokens


@pytest.mark.slow
def test_the_n_gram_is_given_the_true_words_before(monkeypatch):
    contexts = []

    class Known:
        """Gives half to the word that the true word before it determines."""

        @classmethod
        def fit(cls, text, n, vocab_size):
            assert (n, vocab_size) == (3, 329) and len(text) > 60 * 3000
            return cls()

        def distribution(self, context):
            contexts.append(context)
            return np.full(329, 0.5)

    monkeypatch.setattr(tables, "KneserNey", Known)
    assert tables.n_gram_loss(3) == pytest.approx(np.log(2))
    trainer, task, tokenizer = prepared(RUNS["standard"], seed=0)
    assert {len(each) for each in contexts} <= {1, 2}
    mask = tokenizer.special_id("[MASK]")
    assert not any(mask in each for each in contexts)
    assert len(contexts) == sum(batch.n_targets for batch in trainer.validation)
