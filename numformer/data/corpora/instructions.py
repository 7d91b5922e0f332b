"""Four small tasks whose instruction is part of the text, so that one model learns them all.

========================  ===========  ==============================================
prompt                    answer       about
========================  ===========  ==============================================
``reverse: hello``        ``olleh``    3 to 8 lower-case letters
``sort: hello``           ``ehllo``    3 to 8 lower-case letters
``add: 123+45``           ``168``      two numbers of 0 .. 999
``french: ninety-seven``  `french`     a number of 0 .. 99,999 in English words
========================  ===========  ==============================================

Lengths of words and numbers of digits are sampled uniformly: otherwise nearly all would be long.
One prompt in twenty is held out, by a hash of its content. Prompts that give each other away share
the hash: a word and its reversal, the same letters in another order to sort, a sum with its terms
exchanged. The numbers below a hundred are all for training, as in `held_out_numbers`.

References
----------
Raffel et al. (2020), "Exploring the Limits of Transfer Learning with a Unified Text-to-Text
Transformer", section 2.4: a prefix names the task.
"""

import numpy as np

from numformer.checks import check_choice, check_whole
from numformer.data.corpora.numbers import english, french
from numformer.data.corpora.split import is_held_out

HELD_OUT_SHARE = 0.05
SHORTEST, LONGEST = 3, 8                                              # letters of a word
TERM_DIGITS, NUMBER_DIGITS = 3, 5
MIXTURE = {"reverse": 5, "sort": 5, "add": 6, "french": 4}            # of twenty prompts
MOST_HELD_OUT = 1000                                                  # of a task


def _reverse(rng):
    word = _word(rng)
    return word, word[::-1], min(word, word[::-1])


def _sort(rng):
    word = _word(rng)
    answer = "".join(sorted(word))
    return word, answer, answer


def _add(rng):
    a, b = _number(TERM_DIGITS, rng), _number(TERM_DIGITS, rng)
    return f"{a}+{b}", str(a + b), f"{min(a, b)}+{max(a, b)}"


def _french(rng):
    number = _number(NUMBER_DIGITS, rng)
    return english(number), french(number), None if number < 100 else str(number)


# Each samples (prompt, answer, key of the hash that holds it out, or None where it never is).
_TASKS = {"reverse": _reverse, "sort": _sort, "add": _add, "french": _french}
INSTRUCTIONS = tuple(_TASKS)


def instruction_pairs(task, n, seed, held_out=False):
    """Sample prompts of one task with their answers.

    Parameters
    ----------
    task : str
        "reverse", "sort", "add" or "french".
    n : int
        How many; at most 1,000 that are held out.
    seed : int
    held_out : bool
        Sample held-out prompts, each once; a training prompt may come again.

    Returns
    -------
    list of (str, str)

    Raises
    ------
    ValueError
        If the task is unknown, or `n` no whole number, or too large.

    Examples
    --------
    >>> instruction_pairs("add", 3, seed=0)
    [('add: 172+4', '176'), ('add: 6+230', '236'), ('add: 20+3', '23')]
    """
    check_choice("instruction_pairs", "task", task, INSTRUCTIONS)
    check_whole("instruction_pairs", "n", n)
    check_whole("instruction_pairs", "seed", seed, least=0)
    if held_out and n > MOST_HELD_OUT:
        raise ValueError(f"instruction_pairs: n={n} held-out prompts are too many; "
                         f"ask for at most {MOST_HELD_OUT}.")
    rng = np.random.default_rng([seed, INSTRUCTIONS.index(task), int(held_out)])
    pairs, seen = [], set()
    while len(pairs) < n:
        question, answer, key = _TASKS[task](rng)
        is_out = key is not None and is_held_out(f"{task}: {key}", HELD_OUT_SHARE)
        if is_out != held_out or held_out and question in seen:
            continue
        seen.add(question)
        pairs.append((f"{task}: {question}", answer))
    return pairs


def instruction_mixture(n, seed):
    """Prompts to train on, in random order: of twenty, 5 reverse, 5 sort, 6 add and 4 French ones.

    Parameters
    ----------
    n : int
        How many in all, a multiple of twenty.
    seed : int

    Returns
    -------
    list of (str, str)

    Raises
    ------
    ValueError
        If `n` is not a multiple of twenty.

    References
    ----------
    Raffel et al. (2020), section 3.5.2: rates at which tasks are mixed.

    Examples
    --------
    >>> for prompt, answer in instruction_mixture(20, seed=0)[:4]:
    ...     print(prompt, "->", answer)
    french: three hundred and eighty-five -> trois cent quatre-vingt-cinq
    sort: xzohuf -> fhouxz
    reverse: qnhibbae -> eabbihnq
    sort: aycbd -> abcdy
    """
    check_whole("instruction_mixture", "n", n)
    whole = sum(MIXTURE.values())
    if n % whole:
        raise ValueError(f"instruction_mixture: n={n} must be a multiple of {whole}, of which "
                         f"every task has its share; use {n + -n % whole}.")
    pairs = [pair for task, share in MIXTURE.items()
             for pair in instruction_pairs(task, n // whole * share, seed)]
    order = np.random.default_rng([seed, len(INSTRUCTIONS)]).permutation(n)
    return [pairs[i] for i in order]


def held_out_instructions(n, seed=0):
    """Prompts that are never trained on, for each task its own list.

    Parameters
    ----------
    n : int, 1 .. 1000
        How many of each task.
    seed : int

    Returns
    -------
    dict of str to list of (str, str)

    Examples
    --------
    >>> held_out_instructions(1)["sort"]
    [('sort: qfns', 'fnqs')]
    """
    return {task: instruction_pairs(task, n, seed, held_out=True) for task in INSTRUCTIONS}


def _word(rng):
    letters = rng.integers(26, size=rng.integers(SHORTEST, LONGEST + 1))
    return "".join(chr(ord("a") + letter) for letter in letters)


def _number(most_digits, rng):
    """A number; its number of digits is uniform."""
    digits = rng.integers(1, most_digits + 1)
    return int(rng.integers(10 ** (digits - 1) if digits > 1 else 0, 10**digits))
