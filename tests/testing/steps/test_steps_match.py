"""Optimizers and schedules of others against ours, right, and with each mistake that has words."""

from functools import partial

import numpy as np
import pytest

from marks import every
from numformer.testing import assert_steps_match
from numformer.testing.steps import optimizer_rules, schedule_rules
from numformer.testing.steps.match_steps import RTOL, Problem, defaults_of
from numformer.training import SCHEDULES

DEFAULTS = {name: defaults_of(name) for name in optimizer_rules.MISTAKES}


def adamw(parameters, gradients, state, t, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01,
          max_norm=0.0, coupled=False):
    norm = np.sqrt(sum((g * g).sum() for g in gradients))
    for k, (p, g) in enumerate(zip(parameters, gradients)):
        g = g * max_norm / norm if 0 < max_norm < norm else g
        m, v = state.get(k, (0, 0))
        state[k] = m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g * g
        p *= 1 - lr * weight_decay * (p.ndim > 1)
        p -= lr * m / (1 - beta1 ** t) / (np.sqrt(v / (1 - beta2 ** t)) + eps)


def said(*arguments, **options):
    with pytest.raises(AssertionError) as raised:
        assert_steps_match(*arguments, **options)
    return str(raised.value)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_right_adamw_and_what_was_not_tested(dtype):
    text = assert_steps_match("adamw", adamw, dtype=dtype)
    assert text == "adamw: right over 12 steps of 5 arrays."
    text = assert_steps_match("adamw", lambda p, g, state, t, lr: adamw(p, g, state, t, lr))
    assert text.endswith("parameters: beta1, beta2, epsilon, weight_decay, max_norm.")


@pytest.mark.parametrize("name", optimizer_rules.MISTAKES)
@pytest.mark.parametrize("settings", [{}, {"max_norm": 1.0}])
def test_rules_without_a_mistake_are_our_optimizers(name, settings):
    problem = Problem(name, DEFAULTS[name] | settings, "float64", 0)
    assert problem.difference(problem.with_mistake({}), RTOL["float64"]) == ""


def step_with(name, mistake, settings):
    def step(parameters, gradients, state, t, learning_rate):
        return optimizer_rules.moved(name, parameters, gradients, state, t, learning_rate,
                                     DEFAULTS[name] | settings, mistake)
    return step


@pytest.mark.parametrize("name, words", every(3, [
    (name, words) for name, mistakes in optimizer_rules.MISTAKES.items() for words in mistakes]))
def test_each_mistake_is_named(name, words):
    mistake = optimizer_rules.MISTAKES[name][words]
    settings = {"max_norm": 2.0} if "clip" in mistake else {}
    text = said(name, step_with(name, mistake, settings), **settings)
    assert f"Likely cause: {words}." in text, text


@pytest.mark.slow
def test_two_mistakes_at_once():
    mistake = {"correct_mean": False, "correct_square": False, "decay": "without rate"}
    assert "Likely causes, two: the decay is not multiplied by the learning rate; both moments" in \
        said("adamw", step_with("adamw", mistake, {}))
    assert "Likely cause" not in said("adamw", lambda p, g: [x - np.tanh(y) for x, y in zip(p, g)])


@pytest.mark.slow
def test_the_first_wrong_step_and_the_ratio_are_named():
    def late(parameters, gradients, state, t, learning_rate):
        adamw(parameters, gradients, state, t, learning_rate if t < 4 else learning_rate / 10)
    text = said("adamw", late)
    assert text.startswith("adamw: step 4 is wrong in parameter 0 (5, 3), in 15 of 15 entries")
    assert "steps before it are right" in text
    text = said("sgd", twice_as_far)
    assert "step 1 is wrong" in text and "ratio 2 in all of them" in text


def twice_as_far(parameters, gradients, state, learning_rate):
    for k, (p, g) in enumerate(zip(parameters, gradients)):
        state[k] = 0.9 * state.get(k, 0) + g
        p -= 2 * learning_rate * state[k]


def test_settings_of_ours_and_of_the_step():
    def decays(p, g, state, t, lr):
        adamw(p, g, state, t, lr, weight_decay=0.3)
    assert_steps_match("adamw", decays, weight_decay=0.3)
    assert "step 1 is wrong" in said("adamw", decays)
    assert_steps_match("adamw", lambda p, g, state, t: adamw(p, g, state, t, 0.004),
                       learning_rate=0.004)

    def ignores(p, g, state, t, lr, beta2=0.999):
        adamw(p, g, state, t, lr)
    text = said("adamw", ignores)
    assert "beta2=0.95" in text                       # it has the parameter, and does not use it
    assert "Likely cause: beta2 is 0.999." in text


@pytest.mark.parametrize("setting, value", [
    ("beta1", 0.8), ("beta2", 0.99), ("eps", 1e-7), ("weight_decay", 0.1)])
def test_another_value_of_a_setting_is_the_likely_cause(setting, value):
    def step(p, g, state, t, lr):
        adamw(p, g, state, t, lr, **{setting: value})
    name = {"eps": "epsilon"}.get(setting, setting)
    assert f"Likely cause: {name} is {value:g}." in said("adamw", step)


def test_a_mistake_and_another_value_of_a_setting_or_two_values():
    torch = pytest.importorskip("torch")

    def said_of(**settings):
        return said("adamw", partial(torch.optim.AdamW, **settings), torch.from_numpy)
    assert ("Likely causes, two: vectors decay, too; weight_decay is 0.1."
            in said_of(weight_decay=0.1))
    text = said("adamw", partial(torch.optim.AdamW, weight_decay=0.1, betas=(0.9, 0.95)),
                torch.from_numpy, decay_vectors=True)
    assert "Likely causes, two: beta2 is 0.95; weight_decay is 0.1." in text
    assert "two: the decay is coupled (L2)" in said(
        "adamw", partial(torch.optim.Adam, weight_decay=0.1), torch.from_numpy, decay_vectors=True)
    text = said("adamw", partial(torch.optim.AdamW, maximize=True), torch.from_numpy,
                decay_vectors=True)
    assert "Likely cause: the parameters move along the gradient, and not against it." in text


def test_a_norm_to_which_1e_6_is_added_is_right():
    def sgd(parameters, gradients, state, learning_rate, momentum=0.9, max_norm=0.0):
        norm = np.sqrt(sum((g * g).sum() for g in gradients))
        scale = min(1, max_norm / (norm + added)) if max_norm else 1
        for k, (p, g) in enumerate(zip(parameters, gradients)):
            state[k] = momentum * state.get(k, 0) + scale * g
            p -= learning_rate * state[k]
    added = 1e-6
    assert "It adds 1e-6 to the norm by which it clips, as PyTorch does." in assert_steps_match(
        "sgd", sgd)
    added = 0
    assert "1e-6" not in assert_steps_match("sgd", sgd)
    added = 1e-5
    text = said("sgd", sgd)
    assert "ratio 0.9999" in text and "ratio 1 " not in text


def test_new_arrays_and_a_new_state_may_be_returned():
    def functional(parameters, gradients, state, t, lr):
        copies, state = [p.copy() for p in parameters], dict(state)
        adamw(copies, gradients, state, t, lr)
        return copies, state
    assert_steps_match("adamw", functional)


def test_an_object_that_is_made_of_the_parameters():
    class Mine:
        def __init__(self, parameters):
            self.parameters, self.state, self.t = parameters, {}, 0

        def step(self, gradients, lr):
            self.t += 1
            adamw(self.parameters, gradients, self.state, self.t, lr)
    assert_steps_match("adamw", Mine)


def test_optimizers_of_pytorch():
    torch = pytest.importorskip("torch")
    for dtype in RTOL:
        assert_steps_match("adamw", torch.optim.AdamW, torch.from_numpy, dtype, decay_vectors=True)
    assert_steps_match("adam", torch.optim.Adam, torch.from_numpy)
    assert_steps_match("sgd", partial(torch.optim.SGD, momentum=0.9), torch.from_numpy)
    assert "Likely cause: vectors decay, too." in said(
        "adamw", torch.optim.AdamW, torch.from_numpy)
    assert "Likely cause: the decay is coupled (L2)" in said(
        "adamw", partial(torch.optim.Adam, weight_decay=0.01), torch.from_numpy, decay_vectors=True)
    assert "Likely cause: the gradient is multiplied by (1 - momentum) after" in said(
        "sgd", partial(torch.optim.SGD, momentum=0.9, dampening=0.9), torch.from_numpy)


@pytest.mark.parametrize("name", SCHEDULES)
def test_our_schedules_and_their_mistakes(name):
    assert assert_steps_match(name, SCHEDULES[name]).endswith("of 3 runs.")
    named = 0
    for words, mistake in schedule_rules.MISTAKES.items():
        def wrong(step, steps, peak, floor, warmup):
            return schedule_rules.rate(name, step, steps, peak, floor, warmup, mistake)
        try:
            assert_steps_match(name, wrong)
        except AssertionError as error:
            assert "Likely cause: " in str(error), (words, error)
            named += f"Likely cause: {words}." in str(error)
    assert named >= {"constant": 8, "linear": 14, "cosine": 17, "inverse_sqrt": 10}[name]


def test_a_schedule_under_other_names_and_what_was_not_tested():
    def cosine(step, total_steps, max_lr, warmup_steps):
        return SCHEDULES["cosine"](step, total_steps, max_lr, 0.0, warmup_steps)
    assert assert_steps_match("cosine", cosine).endswith("no such parameters: floor.")
    text = said("cosine", lambda step, steps: SCHEDULES["cosine"](step, steps, 0.1), peak=1.0)
    assert text.startswith("cosine: the learning rate of step 0 is 0.1, but must be 1, ratio 0.1.")


@pytest.mark.parametrize("arguments, options, words", [
    (["nothing", adamw], {}, "name='nothing'"), (["adamw", 3], {}, "step and convert must be"),
    (["adamw", adamw], {"dtype": "int"}, "dtype='int'"),
    (["adamw", adamw], {"seed": -1}, "seed=-1"),
    (["adamw", adamw], {"rtol": 0}, "rtol=0"), (["adamw", adamw], {"momentum": 1}, "'momentum'"),
    (["adamw", adamw], {"weight_decay": -1}, "weight_decay=-1"),
    (["adamw", adamw], {"decay_vectors": 2}, "decay_vectors=2"),
    (["cosine", max], {"beta1": 1}, "'beta1'"),
    (["cosine", lambda step: None], {}, "must return a number, but returned NoneType"),
    (["cosine", lambda step: np.ones(2)], {}, "must return a number, but returned ndarray"),
    (["adamw", lambda p, g: 3], {}, "step must move the parameters in place"),
    (["adamw", lambda p: 3], {}, "has no step")])
def test_bad_arguments_are_named(arguments, options, words):
    with pytest.raises((TypeError, ValueError), match=words):
        assert_steps_match(*arguments, **options)


def test_a_step_of_another_shape():
    assert "step 1 returns shape" in said("sgd", lambda p, g: [x.sum() for x in p])
