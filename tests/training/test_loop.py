"""The training loop: when it validates, saves and ends, and the update ratios of matrices."""

from types import SimpleNamespace

import numpy as np
import pytest

from numformer.parameter import Parameter
from numformer.training import NotFinite, TrainingConfig
from numformer.training.loop import train


class FakeTrainer:
    """Notes in `calls` what the loop asks of it; the losses of its validations are given."""

    def __init__(self, calls, losses=(), **settings):
        self.config = TrainingConfig(**{**dict(steps=5, eval_every=2, save_every=3), **settings})
        self.calls, self.losses = calls, list(losses)
        self.validation = list(losses)
        self.step, self.evaluated_at, self.best_step, self.best_loss = 0, None, None, np.inf
        self.out_of_patience, self.loss = False, 1.0
        self.matrix = Parameter(np.full((2, 2), 1.0))
        self.model = SimpleNamespace(named_parameters=lambda: [
            ("matrix", self.matrix), ("vector", Parameter(np.ones(3)))])

    def train_step(self):
        self.step += 1
        self.matrix.data = self.matrix.data + 1                       # after n steps: all n + 1
        return {"step": self.step, "loss": self.loss}

    def agree(self, stop):
        return stop

    def evaluate(self, should_stop):
        self.calls.append(f"evaluate {self.step}")
        loss = None if should_stop() else self.losses.pop(0)
        if loss is not None:
            self.evaluated_at = self.step
            if loss < self.best_loss:
                self.best_loss, self.best_step = loss, self.step
        return loss


class FakeFolder:
    """Notes what is saved, and keeps the lines of metrics."""

    checkpoint, best = "checkpoint", "best"

    def __init__(self, calls):
        self.calls, self.lines = calls, []

    def append(self, metrics):
        self.lines.append(metrics)

    def save(self, path, trainer, facts):
        self.calls.append(f"{path} {trainer.step} {facts}")


def run(losses=(), change=lambda trainer: None, settings=None, **options):
    """(how it ended, what was called, the lines of metrics) of a run."""
    calls = []
    trainer, folder = FakeTrainer(calls, losses, **(settings or {})), FakeFolder(calls)
    change(trainer)
    return train(trainer, folder, "facts", **options), calls, folder.lines


def test_validations_and_checkpoints_come_when_they_are_due_and_at_the_end():
    steps, evaluations = [], []
    ended, calls, lines = run([3.0, 4.0, 2.0], on_step=lambda line: steps.append(line["step"]),
                              on_evaluation=lambda: evaluations.append(len(steps)))
    assert ended == "finished" and steps == [1, 2, 3, 4, 5] and evaluations == [2, 4, 5]
    assert calls == ["evaluate 2", "best 2 facts", "checkpoint 3 facts", "evaluate 4", "evaluate 5",
                     "best 5 facts", "checkpoint 5 facts"]
    assert [(line["step"], line["val_loss"]) for line in lines if "val_loss" in line] == [
        (2, 3.0), (4, 4.0), (5, 2.0)]


def test_without_intervals_both_come_at_the_end_alone():
    _, calls, lines = run([3.0], settings=dict(eval_every=0, save_every=0))
    assert calls == ["evaluate 5", "best 5 facts", "checkpoint 5 facts"]
    assert ["update_ratio" in line for line in lines] == [False] * 4 + [True, False]


def test_without_validation_batches_there_is_no_validation():
    assert run()[1] == ["checkpoint 3 facts", "checkpoint 5 facts"]


def test_a_resumed_run_does_not_repeat_its_last_validation():
    def resumed(trainer):
        trainer.step = trainer.evaluated_at = 4

    _, calls, lines = run([2.0], resumed)
    assert calls == ["evaluate 5", "best 5 facts", "checkpoint 5 facts"]
    assert [line["step"] for line in lines] == [5, 5]


def test_update_ratios_of_matrices_come_before_a_validation():
    """A matrix of four numbers n before and n + 1 after step n: the ratio is 1 / (n + 1)."""
    _, _, lines = run([3.0, 3.0, 3.0])
    assert {line["step"]: line["update_ratio"] for line in lines if "update_ratio" in line} == {
        2: {"matrix": pytest.approx(1 / 3)}, 4: {"matrix": pytest.approx(1 / 5)},
        5: {"matrix": pytest.approx(1 / 6)}}


def test_the_update_ratio_of_a_matrix_that_became_0_is_the_norm_of_its_change():
    def to_zero(trainer):
        trainer.matrix.data = np.full((2, 2), -1.0)

    _, _, (line, *_) = run(change=to_zero, settings=dict(steps=1))
    assert line["update_ratio"] == {"matrix": 2.0}


def test_patience_ends_a_run_after_a_validation():
    def impatient(trainer):
        trainer.out_of_patience = True

    ended, calls, lines = run([3.0], impatient)
    assert ended == "out of patience" and calls == ["checkpoint 0 facts"] and lines == []
    assert run([3.0], impatient, dict(steps=5), should_stop=lambda: True)[0] == "stopped"


def test_a_loss_without_a_finite_perplexity_ends_a_run_and_is_never_the_best():
    """e^709 is finite, e^710 is not; the messages are those of a loss of NaN."""
    advice = "begin anew with a lower learning rate"
    run(settings=dict(steps=1), change=lambda trainer: setattr(trainer, "loss", 709.0))
    with pytest.raises(NotFinite, match="step 1: the loss is 710, .*; no step was taken"):
        run(change=lambda trainer: setattr(trainer, "loss", 710.0))
    calls = []
    trainer, folder = FakeTrainer(calls, [1e30]), FakeFolder(calls)
    with pytest.raises(NotFinite, match=rf"step 2: the validation loss is 1e\+30, .*; {advice}"):
        train(trainer, folder, "facts")
    assert calls == ["evaluate 2"] and all("val_loss" not in line for line in folder.lines)


def test_a_loss_of_distances_may_be_of_any_size():
    ended, _, lines = run([1e9, 1e6, 1e5], lambda trainer: setattr(trainer, "loss", 1e6),
                          in_nats=False)
    assert ended == "finished" and {line["loss"] for line in lines if "loss" in line} == {1e6}


def test_a_stop_saves_before_the_next_step():
    calls = []
    ended, events, _ = run(should_stop=lambda: calls.append(None) or len(calls) > 2)
    assert ended == "stopped" and events == ["checkpoint 2 facts"]


def test_an_abandoned_validation_leaves_no_trace():
    answers = iter([False, False, True, True])       # twice before a step, then in the validation
    evaluations = []
    ended, events, lines = run([3.0], should_stop=lambda: next(answers),
                               on_evaluation=lambda: evaluations.append(None))
    assert ended == "stopped" and events == ["evaluate 2", "checkpoint 2 facts"]
    assert [line["step"] for line in lines] == [1, 2] and not evaluations
