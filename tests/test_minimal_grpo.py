"""GRPO on one page: its gradients, that it is the full version, and that reward is learned."""

import ast
import inspect
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from numformer import functional as F
from numformer import minimal, minimal_grpo

PAGE = Path(minimal_grpo.__file__)
V = len(minimal_grpo.CHARACTERS)
STEP = 1e-30                                                          # d/dx = Im f(x + ih) / h


@pytest.fixture(autouse=True)
def tiny(monkeypatch):
    for name, value in dict(CONTEXT=16, LAYERS=2, HEADS=2, WIDTH=8).items():
        monkeypatch.setattr(minimal, name, value)


def complex_step(loss, x):
    """The gradient of a number with respect to an array."""
    dx = np.empty_like(x)
    for index in np.ndindex(x.shape):
        z = x.astype(complex)
        z[index] += 1j * STEP
        dx[index] = loss(z).imag / STEP
    return dx


QUESTIONS = ["340201?", "000000?", "444444?", "123401?"]


@pytest.fixture
def rollouts():
    """Answers to 4 questions, 3 each, of a model in float64, its parameters after it has moved
    on, and rewards."""
    rng = np.random.default_rng(0)
    p = minimal.initial_parameters(rng, V)
    p = {name: [rng.normal(w.ndim == 1, 0.3, w.shape) for w in p[name]] for name in p}
    ids = minimal_grpo.write_answers(p, np.repeat(QUESTIONS, 3), rng)
    old, _ = minimal_grpo.log_probs(minimal.forward(p, ids[:, :-1])[0], ids[:, 1:])
    moved = {name: [w + 0.03 * rng.standard_normal(w.shape) for w in p[name]] for name in p}
    rewards = rng.integers(3, size=(4, 3)) / 2
    rewards[1] = 1                                                    # a group without differences
    return moved, ids, old, rewards


def policy_loss_of(p, ids, old, rewards):
    """(loss, what the backwards need)"""
    logits, saved = minimal.forward(p, ids[:, :-1])
    l, saved_l = minimal_grpo.log_probs(logits, ids[:, 1:])
    A = minimal_grpo.group_advantages(rewards).reshape(-1)
    loss, saved_loss = minimal_grpo.policy_loss(l, old, A, minimal_grpo.tokens_that_count(ids))
    return loss, (saved_loss, saved_l, saved)


def policy_gradients_of(p, ids, old, rewards):
    _, (saved_loss, saved_l, saved) = policy_loss_of(p, ids, old, rewards)
    dl = minimal_grpo.policy_loss_backward(saved_loss)
    return minimal.backward(minimal_grpo.log_probs_backward(dl, saved_l), saved)


# ---- Gradients -----------------------------------------------------------------------------------

def test_the_policy_gradient_of_every_parameter_equals_the_complex_step(rollouts):
    p, ids, old, rewards = rollouts
    ids, old, rewards = ids[::2], old[::2], rewards.reshape(-1)[::2].reshape(3, 2)
    g = policy_gradients_of(p, ids, old, rewards)
    assert g.keys() == p.keys()
    rng = np.random.default_rng(1)
    for name in p:
        for i, (w, dw) in enumerate(zip(p[name], g[name], strict=True)):
            for _ in range(4):                                        # of each array
                index, z = tuple(rng.integers(w.shape)), w.astype(complex)
                z[index] += 1j * STEP
                changed = {**p, name: [*p[name][:i], z, *p[name][i + 1:]]}
                expected = policy_loss_of(changed, ids, old, rewards)[0].imag / STEP
                assert dw[index] == pytest.approx(expected, rel=1e-11, abs=1e-15), name


def test_the_gradient_of_a_clipped_ratio(rollouts):
    """With ratios on both sides of both bounds, for good and for bad answers."""
    _, ids, old, _ = rollouts
    rng = np.random.default_rng(2)
    l = old + rng.uniform(-0.5, 0.5, old.shape)
    A, counts = rng.choice([-1.5, 0.5], len(ids)), minimal_grpo.tokens_that_count(ids)
    _, saved = minimal_grpo.policy_loss(l, old, A, counts)
    dl = minimal_grpo.policy_loss_backward(saved)
    expected = complex_step(lambda z: minimal_grpo.policy_loss(z, old, A, counts)[0], l)
    np.testing.assert_allclose(dl, expected, rtol=1e-12, atol=1e-16)
    r, good = np.exp(l - old), A[:, None] > 0
    for ended in (good & (r > 1.2), ~good & (r < 0.8)):
        assert (counts & ended).any() and (dl[ended] == 0).all()
    for way_back in (good & (r < 0.8), ~good & (r > 1.2)):
        assert (counts & way_back).any() and (dl[counts & way_back] != 0).all()


def test_the_gradient_of_log_probabilities_and_of_imitation():
    rng = np.random.default_rng(3)
    ids = minimal_grpo.ids_of([minimal_grpo.teacher(QUESTIONS[0], True),
                               minimal_grpo.teacher(QUESTIONS[3], False)])
    logits, counts = rng.standard_normal((2, 15, V)), minimal_grpo.tokens_that_count(ids)

    def loss_of(logits):
        l, saved_l = minimal_grpo.log_probs(logits, ids[:, 1:])
        loss, saved = minimal_grpo.imitation_loss(l, counts)
        return loss, (saved, saved_l)

    loss, (saved, saved_l) = loss_of(logits)
    dlogits = minimal_grpo.log_probs_backward(minimal_grpo.imitation_loss_backward(saved), saved_l)
    np.testing.assert_allclose(dlogits, complex_step(lambda z: loss_of(z)[0], logits),
                               rtol=1e-12, atol=1e-16)
    targets = np.where(counts, ids[:, 1:], F.IGNORE_INDEX)
    expected, saved = F.cross_entropy(logits, targets)
    assert loss == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(dlogits, F.cross_entropy_backward(1.0, saved), rtol=1e-12,
                               atol=1e-16)


def test_imitation_is_the_policy_gradient_with_an_advantage_of_1(rollouts):
    _, ids, old, _ = rollouts
    counts = minimal_grpo.tokens_that_count(ids)
    _, saved = minimal_grpo.policy_loss(old, old, np.ones(len(ids)), counts)
    np.testing.assert_allclose(
        minimal_grpo.policy_loss_backward(saved),
        minimal_grpo.imitation_loss_backward(minimal_grpo.imitation_loss(old, counts)[1]))


def test_the_expected_gradient_is_that_of_the_expected_reward():
    """By enumeration of all answers of one character: the mean over samples of -A dl is the
    gradient of minus the expected reward, with any baseline, and without a derivative of the
    reward."""
    rng = np.random.default_rng(4)
    logits, R = rng.standard_normal((1, 1, V)), rng.standard_normal(V)
    expected = complex_step(lambda z: -(minimal.softmax(z)[0, 0] * R).sum(), logits)
    probabilities, found = minimal.softmax(logits)[0, 0], np.zeros_like(logits)
    for y, probability in enumerate(probabilities):
        l, saved_l = minimal_grpo.log_probs(logits, np.array([[y]]))
        _, saved = minimal_grpo.policy_loss(l, l, R[[y]] - 0.7, np.array([[True]]))
        found += probability * minimal_grpo.log_probs_backward(
            minimal_grpo.policy_loss_backward(saved), saved_l)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-15)


# ---- Equal to the full version -------------------------------------------------------------------

def test_it_equals_the_full_version_on_the_same_rollouts(rollouts):
    p, ids, old, rewards = rollouts
    loss, (saved_loss, saved_l, saved) = policy_loss_of(p, ids, old, rewards)
    dl = minimal_grpo.policy_loss_backward(saved_loss)
    dlogits = minimal_grpo.log_probs_backward(dl, saved_l)

    counts = minimal_grpo.tokens_that_count(ids)
    logits = minimal.forward(p, ids[:, :-1])[0]
    l, full_saved_l = F.token_log_probs(logits, np.where(counts, ids[:, 1:], F.IGNORE_INDEX))
    A = F.group_advantages(rewards)
    full_loss, full_saved = F.policy_loss(l, old, A.reshape(-1), counts)
    full_dl = F.policy_loss_backward(1.0, full_saved)
    full_dlogits = F.token_log_probs_backward(full_dl, full_saved_l)

    r = np.exp(l - old)[counts]
    assert (np.abs(r - 1) > 0.2).any() and (np.abs(r - 1) < 0.2).any()
    for mine, theirs in ((minimal_grpo.group_advantages(rewards), A), (loss, full_loss),
                         (dl, full_dl), (dlogits, full_dlogits)):
        np.testing.assert_allclose(mine, theirs, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_dtype_of_the_log_probabilities_is_that_of_losses_and_gradients(rollouts, dtype):
    _, ids, old, rewards = rollouts
    A = minimal_grpo.group_advantages(rewards).reshape(-1)
    counts, l = minimal_grpo.tokens_that_count(ids), old.astype(dtype)
    for loss, dl in [
            (lambda: minimal_grpo.policy_loss(l, l, A, counts), minimal_grpo.policy_loss_backward),
            (lambda: minimal_grpo.imitation_loss(l, counts), minimal_grpo.imitation_loss_backward)]:
        value, saved = loss()
        assert value.dtype == dl(saved).dtype == dtype


# ---- The task ------------------------------------------------------------------------------------

def test_the_teacher_is_right_and_shows_running_sums():
    assert minimal_grpo.teacher("340201?", True) == "340201?322440=0."
    assert minimal_grpo.teacher("340201?", False) == "340201?=0......."
    assert all(minimal_grpo.reward(minimal_grpo.teacher(question, steps)) == 1
               for question in QUESTIONS for steps in (True, False))


@pytest.mark.parametrize("answer, expected", [
    ("=0.", 1), ("322440=0.", 1), ("111111=0.", 1), ("=0........", 1), ("?=0.", 1),
    ("=1.", 0), ("322440=1.", 0), ("0.", 0), (".", 0), ("=00.", 0), ("==0.", 0), ("=0=0.", 0),
    ("=.0.", 0), (".=0.", 0), ("=0", 0), ("322440=01", 0), ("=0?.", 0), ("", 0)])
def test_a_reward_needs_the_digit_one_sign_and_the_end(answer, expected):
    assert minimal_grpo.reward("340201?" + answer) == expected


def test_the_answer_counts_with_its_first_point():
    ids = minimal_grpo.ids_of(["340201?=0.......", "340201?322440=0.", "340201?.........",
                               "340201?111111111"])
    counts = minimal_grpo.tokens_that_count(ids)
    assert counts.shape == (4, 15)
    assert ["".join("x" if count else "-" for count in row) for row in counts] == [
        "------xxx------", "------xxxxxxxxx", "------x--------", "------xxxxxxxxx"]


def test_texts_and_ids_are_each_other_s_inverse():
    texts = ["340201?=0.......", "012345?=........".replace("5", "4")]
    assert minimal_grpo.texts_of(minimal_grpo.ids_of(texts)) == texts
    assert minimal_grpo.ids_of(texts).shape == (2, 16)


def test_answers_follow_the_probabilities_and_end_with_points(monkeypatch):
    z = np.log(np.array([0.1, 0.2, 0.05, 0.05, 0.1, 0.1, 0.15, 0.25]))
    monkeypatch.setattr(minimal_grpo, "forward",
                        lambda p, ids: (np.tile(z, (*ids.shape, 1)), None))
    ids = minimal_grpo.write_answers(None, ["340201?"] * 4000, np.random.default_rng(5))
    assert ids.shape == (4000, 16)
    first = np.bincount(ids[:, 7], minlength=V) / 4000
    np.testing.assert_allclose(first, np.exp(z), atol=0.025)
    after_the_end = np.cumsum(ids[:, :-1] == minimal_grpo.END, axis=1) > 0
    assert after_the_end.any() and (ids[:, 1:][after_the_end] == minimal_grpo.END).all()
    greedy = minimal_grpo.write_answers(None, ["340201?"])
    assert minimal_grpo.texts_of(greedy) == ["340201?........."]


def test_the_advantages_of_a_group_sum_to_0_and_a_group_without_differences_has_none():
    A = minimal_grpo.group_advantages(np.array([[1.0, 0, 0, 0], [1, 1, 1, 1], [0, 0, 0, 0]]))
    np.testing.assert_allclose(A[0], np.array([3, -1, -1, -1]) / 3 ** 0.5, rtol=1e-3)
    assert (A[1:] == 0).all()


@pytest.mark.parametrize("shape", [(3,), (3, 1), (3, 2, 2)])
def test_rewards_without_a_group_are_an_error(shape):
    with pytest.raises(ValueError, match=r"must be of shape \(P, G\)"):
        minimal_grpo.group_advantages(np.zeros(shape))


# ---- Learning ------------------------------------------------------------------------------------

def test_rewards_rise_in_a_short_run(monkeypatch, capsys):
    """Of an untrained model, on a rule that it can learn at once: the share of the digit 3."""
    for name, value in dict(ROUNDS=8, QUESTIONS=8, GROUP=4, REWARD_RATE=0.02).items():
        monkeypatch.setattr(minimal_grpo, name, value)
    monkeypatch.setattr(minimal_grpo, "reward", lambda text: text[7:].count("3") / 9)
    rng = np.random.default_rng(6)
    p = minimal.initial_parameters(rng, V)
    questions = ["".join(map(str, row)) + "?" for row in rng.integers(5, size=(40, 6))]
    minimal_grpo.learn_from_rewards(p, questions[8:], questions[:8], rng)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == [f"round {n} of 8" for n in range(1, 9)]
    rewards = [float(line.split("reward ")[1].split(";")[0]) for line in lines]
    assert rewards[0] < 0.2 and rewards[-1] > 0.4, rewards


def test_imitation_lowers_the_loss(monkeypatch, capsys):
    for name, value in dict(STEPS=101, BATCH=4, LEARNING_RATE=0.02).items():
        monkeypatch.setattr(minimal_grpo, name, value)
    rng = np.random.default_rng(7)
    p = minimal.initial_parameters(rng, V)
    minimal_grpo.imitate(p, QUESTIONS, rng)
    first, last = capsys.readouterr().out.splitlines()
    assert first.startswith("imitation, step 100 of 101: loss")
    assert float(last.split()[-1]) < 1 < np.log(V)


def test_updates_begin_at_a_ratio_of_1_and_use_each_round_as_often_as_set(monkeypatch, capsys):
    for name, value in dict(ROUNDS=2, QUESTIONS=2, GROUP=3, UPDATES=3).items():
        monkeypatch.setattr(minimal_grpo, name, value)
    ratios, steps = [], []
    policy_loss, adamw = minimal_grpo.policy_loss, minimal_grpo.adamw
    monkeypatch.setattr(minimal_grpo, "reward", lambda text: float(text[7] < "3"))
    monkeypatch.setattr(minimal_grpo, "policy_loss", lambda l, old, A, counts: ratios.append(
        np.abs(l - old).max()) or policy_loss(l, old, A, counts))
    monkeypatch.setattr(minimal_grpo, "adamw", lambda *arguments: steps.append(arguments[4])
                        or adamw(*arguments))
    rng = np.random.default_rng(8)
    p = minimal.initial_parameters(rng, V)
    minimal_grpo.learn_from_rewards(p, QUESTIONS, QUESTIONS, rng)
    assert steps == [1, 2, 3, 4, 5, 6]
    assert [ratio == 0 for ratio in ratios] == [True, False, False] * 2


# ---- The page ------------------------------------------------------------------------------------

def test_the_page_has_at_most_250_lines_of_at_most_100_columns():
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 250
    assert max(map(len, lines)) <= 100


def test_the_page_needs_numpy_the_standard_library_and_minimal_alone():
    modules = set()
    for node in ast.walk(ast.parse(PAGE.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            modules.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            modules.update([f"numformer.{alias.name}" for alias in node.names]
                           if node.module == "numformer" else [node.module])
    assert {"numpy", "numformer.minimal"} <= modules
    assert modules - {"numpy", "numformer.minimal"} <= sys.stdlib_module_names


def test_the_lesson_from_rewards_quotes_the_functions_as_they_are():
    path, = (PAGE.parents[1] / "notebooks").glob("23_*.ipynb")
    printed = "".join(line for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]
                      for output in cell.get("outputs", []) for line in output.get("text", []))
    for name in ("group_advantages", "policy_loss", "policy_loss_backward", "reward",
                 "learn_from_rewards"):
        assert inspect.getsource(getattr(minimal_grpo, name)).rstrip() in printed, name


def run(*arguments):
    environment = {**os.environ, "PYTHONIOENCODING": "utf-8", "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.run([sys.executable, "-m", "numformer.minimal_grpo", *arguments], timeout=400,
                          capture_output=True, encoding="utf-8", env=environment)


@pytest.mark.parametrize("seed", ["-1", "one"])
def test_a_seed_that_is_no_whole_number_gets_one_line(seed):
    result = run(seed)
    assert result.returncode == 1 and not result.stdout
    assert result.stderr == f"the seed is {seed!r}; give a whole number, such as 0\n"


@pytest.mark.slow
def test_the_command_learns_to_show_steps_and_to_be_right():
    result = run("0")
    assert result.returncode == 0, result.stderr
    shares = [[float(share) for share in re.findall(r"(\d\.\d+) (?:right|with)", line)]
              for line in result.stdout.splitlines() if "held-out" in line]
    assert len(shares) == 1 + minimal_grpo.ROUNDS
    assert max(shares[0]) < 0.45
    assert min(shares[-1]) > 0.95
    samples = [line for line in result.stdout.splitlines() if line.endswith(("right", "wrong"))]
    assert len(samples) == 8 and all("wrong" not in line for line in samples[4:])
