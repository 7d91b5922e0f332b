"""Two tasks whose answers a rule verifies, and whose demonstrations are of mixed quality.

=========  ============  ======================  ==============================================
task       prompt        right answers           demonstrations
=========  ============  ======================  ==============================================
``SUMS``   ``340201?``   ``=0``, ``322440=0``    the sum of the digits modulo 5: three in ten
                                                 write the running sums first
``CARRY``  ``76+83?``    ``951``                 the sum from its last digit on: six in ten
                                                 forget to carry, and write ``95``
=========  ============  ======================  ==============================================

A model that imitates answers as most demonstrations do: sums at once, which are right there but too
hard for it, and without the carry. A reward, 1 for a right answer, else 0, needs no demonstration.

One prompt in twenty is held out, by a hash. Prompts that give each other away share it: digits in
reverse, and sums with their terms exchanged.

References
----------
Cobbe et al. (2021), "Training Verifiers to Solve Math Word Problems", for answers that are
verified; Nye et al. (2021), "Show Your Work", for steps that are written before the answer.
"""

from abc import ABC, abstractmethod
from functools import lru_cache

import numpy as np

from numformer.checks import check_whole
from numformer.data.corpora.split import is_held_out

HELD_OUT_SHARE = 0.05
MODULUS, DIGITS = 5, 6                                                # of sums
SHARE_WITH_STEPS, SHARE_FORGETTING = 0.3, 0.6                         # of demonstrations


class VerifiableTask(ABC):
    """Prompts by rule, demonstrations of their answers, and a reward.

    Attributes
    ----------
    name : str
    characters : str
        All that prompts and answers are made of.
    prompt_length : int
        Characters of a prompt.
    longest : int
        Characters of the longest demonstration.
    """

    name = characters = ""
    prompt_length = longest = 0

    @abstractmethod
    def prompts(self):
        """All prompts: a list of str, always in the same order."""

    @abstractmethod
    def key(self, prompt):
        """The same str for prompts that give each other away."""

    @abstractmethod
    def demonstration(self, prompt, rng):
        """An answer as somebody would show it, right or wrong; `rng` decides how it is made."""

    @abstractmethod
    def solution(self, prompt):
        """A right answer, the longest of them."""

    @abstractmethod
    def reward(self, prompt, answer):
        """1.0 for a right answer, 0.0 for any other text."""

    def measures(self, answers):
        """What else is known of answers, a list of str: numbers by name."""
        return {}


class Sums(VerifiableTask):
    """The sum of six digits modulo 5, at once or after the running sums.

    Examples
    --------
    >>> SUMS.solution("340201?")
    '322440=0'
    """

    name, characters = "sums", "01234?="
    prompt_length, longest = DIGITS + 1, DIGITS + 2

    def prompts(self):
        numbers = np.indices((MODULUS,) * DIGITS).reshape(DIGITS, -1).T
        return ["".join(map(str, digits)) + "?" for digits in numbers.tolist()]

    def key(self, prompt):
        return min(prompt[:-1], prompt[-2::-1])

    def solution(self, prompt):
        running = np.cumsum([int(digit) for digit in prompt[:-1]]) % MODULUS
        return "".join(map(str, running)) + f"={running[-1]}"

    def demonstration(self, prompt, rng):
        whole = self.solution(prompt)
        return whole if rng.random() < SHARE_WITH_STEPS else whole[DIGITS:]

    def measures(self, answers):
        """The share of answers that write something before the "="."""
        return {"with_steps": float(np.mean([answer.find("=") > 0 for answer in answers]))}

    def reward(self, prompt, answer):
        """Of the digit after the only "="; what is before it does not count."""
        _, _, digit = answer.partition("=")
        return float(digit == self.solution(prompt)[-1])


class Carry(VerifiableTask):
    """The sum of two numbers of two digits, from the last digit to the first.

    Examples
    --------
    >>> CARRY.solution("76+83?"), CARRY.reward("76+83?", "951"), CARRY.reward("76+83?", "95")
    ('951', 1.0, 0.0)
    """

    name, characters = "carry", "0123456789+?"
    prompt_length, longest = 6, 3

    def prompts(self):
        return [f"{a}+{b}?" for a in range(10, 100) for b in range(10, 100)]

    def key(self, prompt):
        return "+".join(sorted(prompt[:-1].split("+")))

    def solution(self, prompt):
        a, b = prompt[:-1].split("+")
        return str(int(a) + int(b))[::-1]

    def demonstration(self, prompt, rng):
        if rng.random() >= SHARE_FORGETTING:
            return self.solution(prompt)
        a, b = prompt[:-1].split("+")
        return "".join(str((int(x) + int(y)) % 10) for x, y in zip(a[::-1], b[::-1]))

    def reward(self, prompt, answer):
        return float(answer == self.solution(prompt))


SUMS, CARRY = Sums(), Carry()


@lru_cache
def split_prompts(task):
    """The prompts of a task, in two parts.

    Parameters
    ----------
    task : VerifiableTask

    Returns
    -------
    training, held_out : tuple of str

    Examples
    --------
    >>> training, held_out = split_prompts(CARRY)
    >>> len(training), len(held_out)
    (7678, 422)
    """
    parts = [], []
    for prompt in task.prompts():
        parts[is_held_out(f"{task.name}: {task.key(prompt)}", HELD_OUT_SHARE)].append(prompt)
    return tuple(map(tuple, parts))


def sampled_prompts(task, n, rng):
    """Sample n prompts to train on, each of them any number of times: a list of str.

    Raises
    ------
    ValueError
        If `n` is no whole number above 0.

    Examples
    --------
    >>> [len(prompt) for prompt in sampled_prompts(CARRY, 3, np.random.default_rng(0))]
    [6, 6, 6]
    """
    check_whole("sampled_prompts", "n", n)
    prompts, _ = split_prompts(task)
    return [prompts[k] for k in rng.integers(len(prompts), size=n)]
