"""Tasks whose answers a rule verifies."""

import numpy as np
import pytest

from numformer.data import CARRY, SUMS, answer_batch, sampled_prompts, split_prompts
from numformer.functional import IGNORE_INDEX

TASKS = pytest.mark.parametrize("task", [SUMS, CARRY], ids=lambda task: task.name)


@TASKS
def test_solutions_earn_a_reward_and_are_of_the_tasks_characters(task):
    for prompt in task.prompts()[::97]:
        solution = task.solution(prompt)
        assert len(prompt) == task.prompt_length and len(solution) <= task.longest
        assert set(prompt + solution) <= set(task.characters)
        assert task.reward(prompt, solution) == 1


def test_the_reward_of_sums_is_that_of_the_digit_after_the_only_sign():
    prompt = "340201?"
    assert [SUMS.reward(prompt, answer) for answer in
            ("=0", "3=0", "322440=0", "=1", "", "0", "=", "=00", "==0", "=0=0", "322440=1")
            ] == [1, 1, 1, *[0] * 8]


def test_the_reward_of_carry_is_for_the_exact_answer():
    assert [CARRY.reward("76+83?", answer) for answer in ("951", "95", "159", "", "9510")
            ] == [1, 0, 0, 0, 0]


def test_demonstrations_are_of_mixed_quality(rng):
    prompts = sampled_prompts(SUMS, 2000, rng)
    answers = [SUMS.demonstration(prompt, rng) for prompt in prompts]
    assert all(map(SUMS.reward, prompts, answers))                    # all right, most at once
    assert 0.27 < SUMS.measures(answers)["with_steps"] < 0.33
    prompts = sampled_prompts(CARRY, 2000, rng)
    answers = [CARRY.demonstration(prompt, rng) for prompt in prompts]
    right = np.mean([*map(CARRY.reward, prompts, answers)])
    assert 0.5 < right < 0.59                                         # 0.4 + 0.6 of those without
    assert {CARRY.demonstration("76+83?", rng) for _ in range(50)} == {"951", "95"}
    assert {CARRY.demonstration("12+34?", rng) for _ in range(50)} == {"64"}


@TASKS
def test_one_prompt_in_twenty_is_held_out_and_what_gives_it_away_too(task, rng):
    training, held_out = map(set, split_prompts(task))
    assert not training & held_out and training | held_out == set(task.prompts())
    assert 0.04 < len(held_out) / len(task.prompts()) < 0.06
    for prompt in held_out:
        assert {"sums": lambda: prompt[-2::-1] + "?",
                "carry": lambda: "{1}+{0}?".format(*prompt[:-1].split("+"))}[task.name]() \
            in held_out
    assert set(sampled_prompts(task, 3000, rng)) <= training


def test_held_out_sums_are_balanced():
    _, held_out = split_prompts(SUMS)
    counts = np.bincount([int(SUMS.solution(prompt)[-1]) for prompt in held_out])
    assert max(counts) < 0.25 * sum(counts)                           # so that no guess is good


@pytest.mark.parametrize("n", [0, 1.5])
def test_a_number_of_prompts_is_whole(n, rng):
    with pytest.raises(ValueError, match="sampled_prompts: n="):
        sampled_prompts(SUMS, n, rng)


@pytest.mark.parametrize("prompts, answers, error, words", [
    (np.array([[1, 2]]), np.array([[3], [4]]), ValueError, r"\(N, S\) and \(N, T\)"),
    (np.array([1, 2]), np.array([[3], [4]]), ValueError, r"\(N, S\) and \(N, T\)"),
    (np.zeros((1, 0), int), np.array([[3]]), ValueError, "empty"),
    (np.array([[1.0]]), np.array([[3]]), TypeError, "integers"),
    (np.array([[IGNORE_INDEX]]), np.array([[3]]), ValueError, "prompts")])
def test_rows_of_wrong_shapes_are_refused(prompts, answers, error, words):
    with pytest.raises(error, match=words):
        answer_batch(prompts, answers, 0)
