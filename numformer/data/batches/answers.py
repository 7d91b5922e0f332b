"""Batches of prompts with answers for a decoder, which learns from the answers alone."""

import numpy as np

from numformer.checks import check_ids
from numformer.data.batches.batch import Batch
from numformer.functional import IGNORE_INDEX


def answer_batch(prompts, answers, padding):
    """Lay prompts and their answers into rows whose targets are the tokens of the answers.

    A prompt is what it is: nothing is learned from predicting it, and it would take capacity.

    Parameters
    ----------
    prompts : ndarray of int, shape (N, S)
    answers : ndarray of int, shape (N, T)
        With EOS; `IGNORE_INDEX` after the last token.
    padding : int
        The id of the input where an answer has ended.

    Returns
    -------
    Batch
        inputs and targets of shape (N, S + T - 1).

    Raises
    ------
    ValueError, TypeError
        If there are no rows, their numbers differ, a prompt is empty, or an id is negative or no
        integer.

    Examples
    --------
    >>> answers = np.array([[7, 8, 2], [9, 2, IGNORE_INDEX]])
    >>> batch = answer_batch(np.array([[5, 6], [4, 3]]), answers, padding=0)
    >>> batch.inputs.tolist(), batch.targets.tolist()
    ([[5, 6, 7, 8], [4, 3, 9, 2]], [[-100, 7, 8, 2], [-100, 9, 2, -100]])
    """
    owner = "answer_batch"
    check_ids(owner, "prompts", prompts, 2**31)
    check_ids(owner, "answers", answers, 2**31, IGNORE_INDEX)
    if np.ndim(prompts) != 2 or np.ndim(answers) != 2 or len(prompts) != len(answers):
        raise ValueError(f"{owner}: prompts and answers must have shapes (N, S) and (N, T), but "
                         f"have {np.shape(prompts)} and {np.shape(answers)}.")
    S = prompts.shape[1]
    text = np.concatenate([prompts, np.where(answers == IGNORE_INDEX, padding, answers)], axis=1)
    targets = np.full(text.shape, IGNORE_INDEX)
    targets[:, S:] = answers
    return Batch(inputs=text[:, :-1], targets=targets[:, 1:])
