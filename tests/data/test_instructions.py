"""Prompts and answers of four tasks."""

import re
from collections import Counter

import pytest

from marks import every
from numformer.data import (
    INSTRUCTIONS, english, french, held_out_instructions, instruction_mixture, instruction_pairs)

NUMBERS = {english(number): french(number) for number in range(100_000)}


def answer(prompt):
    """The answer by another way: the task's name, and Python."""
    task, question = prompt.split(": ")
    if task == "add":
        return str(eval(question))
    if task == "french":
        return NUMBERS[question]
    return "".join({"reverse": reversed, "sort": sorted}[task](question))


def key(prompt):
    """What must not be in both parts: letters or terms in any order, words in both directions."""
    task, question = prompt.split(": ")
    return task, (frozenset([question, question[::-1]]) if task == "reverse" else question
                  if task == "french"
                  else tuple(sorted(question.split("+") if task == "add" else question)))


@pytest.mark.parametrize("task", every(9, INSTRUCTIONS))
def test_answers_are_right_and_held_out_prompts_are_in_no_training_pair(task):
    training, held_out = instruction_pairs(task, 4000, seed=0), held_out_instructions(500)[task]
    assert all(answer(prompt) == right and prompt.startswith(f"{task}: ")
               for prompt, right in training + held_out)
    assert len({prompt for prompt, _ in held_out}) == 500
    assert not {key(prompt) for prompt, _ in held_out} & {key(prompt) for prompt, _ in training}


def test_a_thousand_prompts_of_a_task_may_be_held_out():
    prompts = {prompt for prompt, _ in instruction_pairs("add", 1000, seed=0, held_out=True)}
    assert len(prompts) == 1000


def test_lengths_are_uniform():
    for task, sizes in [("reverse", range(3, 9)), ("sort", range(3, 9))]:
        pairs = instruction_pairs(task, 6000, seed=1)
        lengths = Counter(len(prompt.split(": ")[1]) for prompt, _ in pairs)
        assert set(lengths) == set(sizes) and min(lengths.values()) > 850
    terms = [re.findall(r"\d+", prompt) for prompt, _ in instruction_pairs("add", 3000, seed=1)]
    digits = Counter(len(term) for pair in terms for term in pair)
    assert set(digits) == {1, 2, 3} and min(digits.values()) > 1800
    assert {"0"} < {a for a, _ in terms} and max(int(a) for a, _ in terms) > 990
    pairs = instruction_pairs("french", 3000, seed=1)
    french_prompts = {prompt.split(": ")[1] for prompt, _ in pairs}
    assert {english(number) for number in range(100)} <= french_prompts
    assert any("hundred" in p and "thousand" in p for p in french_prompts)


def test_the_mixture_has_its_shares_in_random_order():
    pairs = instruction_mixture(2000, seed=0)
    tasks = [prompt.split(":")[0] for prompt, _ in pairs]
    assert Counter(tasks) == {"reverse": 500, "sort": 500, "add": 600, "french": 400}
    assert len(set(tasks[:40])) == 4
    assert pairs == instruction_mixture(2000, seed=0) != instruction_mixture(2000, seed=1)
    assert sorted(pairs) == sorted(pair for task, n in Counter(tasks).items()
                                   for pair in instruction_pairs(task, n, seed=0))


@pytest.mark.parametrize("call, words", [
    (lambda: instruction_pairs("multiply", 1, 0), "choose from 'reverse', 'sort', 'add', 'french'"),
    (lambda: instruction_pairs("add", 0, 0), "n=0"),
    (lambda: instruction_pairs("add", 1, None), "seed=None"),
    (lambda: held_out_instructions(1001), "ask for at most 1000"),
    (lambda: instruction_mixture(10, 0), "use 20")])
def test_bad_arguments_are_named(call, words):
    with pytest.raises(ValueError, match=words):
        call()
