"""Schedules of a pipeline: dependencies, idle time, memory, and a model run in their order."""

import numpy as np
import pytest

from numformer.analysis import bubble_share, most_held, pipeline_schedule
from numformer.analysis.parallel.pipeline import Operation
from numformer.functional import CAUSAL
from numformer.layers.linear import head_loss, head_loss_backward
from numformer.models import Decoder, DecoderConfig

KINDS = ("gpipe", "1f1b")
SIZES = [(1, 1), (1, 4), (2, 1), (2, 5), (3, 3), (4, 2), (4, 8), (5, 13)]         # stages, batches
DURATIONS = [(1, 2), (1, 1), (2, 1), (0.3, 0.7), (1, 10)]


def order_of(schedule, stage):
    """The work of a stage as a text, with micro-batches counted from 1: "F1 B1"."""
    return " ".join(f"{each.direction[0].upper()}{each.micro_batch + 1}"
                    for each in schedule if each.stage == stage)


@pytest.mark.parametrize("kind, stage, order", [
    ("gpipe", 0, "F1 F2 F3 F4 F5 B1 B2 B3 B4 B5"),
    ("gpipe", 2, "F1 F2 F3 F4 F5 B1 B2 B3 B4 B5"),
    ("1f1b", 0, "F1 F2 F3 B1 F4 B2 F5 B3 B4 B5"),
    ("1f1b", 1, "F1 F2 B1 F3 B2 F4 B3 F5 B4 B5"),
    ("1f1b", 2, "F1 B1 F2 B2 F3 B3 F4 B4 F5 B5")])
def test_each_stage_works_in_the_order_of_the_schedule(kind, stage, order):
    assert order_of(pipeline_schedule(3, 5, kind), stage) == order


def test_1f1b_is_the_default_and_warms_up_with_no_more_than_there_is():
    assert pipeline_schedule(4, 2) == pipeline_schedule(4, 2, "1f1b")
    assert order_of(pipeline_schedule(4, 2), 0) == "F1 F2 B1 B2"
    assert order_of(pipeline_schedule(4, 2), 2) == "F1 F2 B1 B2"
    assert order_of(pipeline_schedule(4, 2), 3) == "F1 B1 F2 B2"


def needs_of(operation, stages):
    """What an operation needs: its input, or its gradient and its saved activations."""
    stage, direction, n = operation[:3]
    if direction == "forward":
        return {(stage - 1, "forward", n)} if stage > 0 else set()
    return {(stage, "forward", n)} | ({(stage + 1, "backward", n)} if stage < stages - 1 else set())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("stages, micro_batches", SIZES)
def test_every_operation_starts_as_soon_as_its_stage_and_its_needs_have_stopped(
        kind, stages, micro_batches):
    for forward, backward in DURATIONS:
        schedule = pipeline_schedule(stages, micro_batches, kind, forward, backward)
        assert sorted(each[:3] for each in schedule) == sorted(
            (stage, direction, n) for stage in range(stages)
            for direction in ("forward", "backward") for n in range(micro_batches))
        starts = [each.start for each in schedule]
        assert starts == sorted(starts) and starts[0] == 0
        stops, free = {}, [0.0] * stages
        for each in schedule:                         # a missing need would be a KeyError
            needs = [stops[need] for need in needs_of(each, stages)]
            assert each.start == max([free[each.stage], *needs])
            duration = forward if each.direction == "forward" else backward
            assert each.stop == each.start + duration
            stops[each[:3]] = free[each.stage] = each.stop


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("p, m", SIZES)
def test_the_bubble_that_is_measured_is_that_of_the_formula(kind, p, m):
    for forward, backward in DURATIONS:
        schedule = pipeline_schedule(p, m, kind, forward, backward)
        assert bubble_share(schedule) == pytest.approx((p - 1) / (m + p - 1), abs=1e-13)
        assert 0 <= bubble_share(schedule)
        ideal, takes = m * (forward + backward), max(each.stop for each in schedule)
        assert (takes - ideal) / ideal == pytest.approx((p - 1) / m, abs=1e-13)


def test_idle_time_and_memory_are_measured_on_any_schedule():
    uneven = [Operation(0, "forward", 0, 5.0, 6.0), Operation(1, "forward", 0, 6.0, 9.0)]
    assert bubble_share(uneven) == pytest.approx(1 - 4 / 8)
    assert most_held(uneven) == [1, 1]
    order = (("forward", 0), ("backward", 0), ("forward", 1), ("forward", 2))
    assert most_held([Operation(0, *work, t, t + 1) for t, work in enumerate(order)]) == [2]


@pytest.mark.parametrize("p, m", SIZES)
def test_1f1b_holds_as_many_micro_batches_as_stages_follow_and_gpipe_all(p, m):
    for durations in DURATIONS:
        assert most_held(pipeline_schedule(p, m, "gpipe", *durations)) == [m] * p
        assert most_held(pipeline_schedule(p, m, "1f1b", *durations)) == [
            min(m, p - s) for s in range(p)]


def test_whole_numbers_of_numpy_are_numbers():
    assert pipeline_schedule(np.int64(3), np.int32(4), "1f1b", np.float32(1), 2) == (
        pipeline_schedule(3, 4))
    assert most_held(pipeline_schedule(3, 4)[::-1]) == [3, 2, 1]      # in any order


@pytest.mark.parametrize("options, message", [
    (dict(stages=0), "stages=0 must be a whole number, 1 or more"),
    (dict(stages=2.0), "stages=2.0 must be a whole number"),
    (dict(micro_batches=0), "micro_batches=0 must be a whole number, 1 or more"),
    (dict(kind="1f2b"), "kind='1f2b' is unknown.*choose from 'gpipe', '1f1b'"),
    (dict(forward=0), "forward=0 must be a number above 0"),
    (dict(backward=float("inf")), "backward=inf must be a number above 0")])
def test_bad_input_is_named(options, message):
    with pytest.raises(ValueError, match=f"pipeline_schedule: {message}"):
        pipeline_schedule(**{"stages": 2, "micro_batches": 3, **options})


@pytest.mark.parametrize("function", [bubble_share, most_held])
def test_an_empty_schedule_is_refused(function):
    with pytest.raises(ValueError, match=f"{function.__name__}: schedule is empty"):
        function([])


class Pipeline:
    """A decoder cut into stages: the first has the embedding, the last the norm and the head."""

    def __init__(self, model, stages):
        self.model, self.last = model, stages - 1
        self.blocks = [model.blocks[len(model.blocks) * s // stages:
                                    len(model.blocks) * (s + 1) // stages] for s in range(stages)]

    def forward(self, stage, x, targets):
        """What the stage sends (the last one its loss), and what it saves."""
        saved = []
        if stage == 0:
            x, saved_embedding = self.model.embedding.forward(x)
            x, saved_positions = self.model.positions.forward(x, start=0)
            saved += [saved_embedding, saved_positions]
        for block in self.blocks[stage]:
            x, saved_block = block.forward(x, pattern=CAUSAL)
            saved.append(saved_block)
        if stage == self.last:
            x, saved_norm = self.model.norm.forward(x)
            x, saved_loss = head_loss(self.model.head, x, targets)
            saved += [saved_norm, saved_loss]
        return x, saved

    def backward(self, stage, dx, saved):
        """The gradient that the stage sends back."""
        if stage == self.last:
            dx = head_loss_backward(self.model.head, dx, saved.pop())
            dx = self.model.norm.backward(dx, saved.pop())
        for block in reversed(self.blocks[stage]):
            dx = block.backward(dx, saved.pop())
        if stage == 0:
            dx = self.model.positions.backward(dx, saved.pop())
            dx = self.model.embedding.backward(dx, saved.pop())
        assert saved == []
        return dx

    def run(self, schedule, ids, targets):
        """Run a batch in the order of a schedule: its loss, and the most that each stage held."""
        m = 1 + max(each.micro_batch for each in schedule)
        ids, targets = np.split(ids, m), np.split(targets, m)
        inputs = {(0, n): part for n, part in enumerate(ids)}         # on their way to a stage
        gradients = {(self.last, n): 1 / m for n in range(m)}         # the loss is a mean
        held, most, loss = {}, [0] * (self.last + 1), 0.0
        for stage, direction, n, _, _ in schedule:
            if direction == "forward":
                y, held[stage, n] = self.forward(stage, inputs.pop((stage, n)), targets[n])
                most[stage] = max(most[stage], sum(key[0] == stage for key in held))
                if stage == self.last:
                    loss += y / m
                else:
                    inputs[stage + 1, n] = y
            else:
                dx = self.backward(stage, gradients.pop((stage, n)), held.pop((stage, n)))
                if stage:
                    gradients[stage - 1, n] = dx
        assert not inputs and not gradients and not held, "all that was sent or saved is used"
        return loss, most


@pytest.fixture
def problem(rng):
    """A model of six blocks, and a batch of 12 texts, inputs and targets.

    Without biases of keys: their gradient is 0 but for rounding, since softmax ignores them.
    """
    config = DecoderConfig(vocab_size=11, context_length=7, n_layers=6, n_heads=2, d_model=8,
                           tied=False, qkv_bias=False, init_std=0.3, dtype="float64")
    ids = rng.integers(0, 11, (12, 8))
    return Decoder(config, rng), ids[:, :-1], ids[:, 1:]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("stages, micro_batches", [(1, 3), (2, 4), (3, 6), (4, 2), (4, 12)])
def test_a_model_that_runs_in_this_order_has_the_gradient_of_the_whole_batch(
        problem, kind, stages, micro_batches):
    model, ids, targets = problem
    whole, saved = model.loss((ids, targets))
    model.loss_backward(saved)
    expected = {name: parameter.grad.copy() for name, parameter in model.named_parameters()}
    model.zero_grad()
    schedule = pipeline_schedule(stages, micro_batches, kind)
    loss, most = Pipeline(model, stages).run(schedule, ids, targets)
    assert loss == pytest.approx(whole, rel=1e-12) and most == most_held(schedule)
    for name, parameter in model.named_parameters():
        size = np.linalg.norm(expected[name])
        assert size > 0 and np.linalg.norm(parameter.grad - expected[name]) <= 1e-12 * size, name


def test_an_order_that_breaks_a_dependency_cannot_run(problem):
    model, ids, targets = problem
    schedule = pipeline_schedule(3, 4)
    for moved in (next(k for k, each in enumerate(schedule) if each.stage == 1),
                  next(k for k, each in enumerate(schedule) if each.direction == "backward")):
        wrong = [schedule[moved], *schedule[:moved], *schedule[moved + 1:]]
        with pytest.raises(KeyError):
            Pipeline(model, 3).run(wrong, ids, targets)
