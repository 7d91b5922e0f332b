"""From easy examples to the real ones: a stream that gives way to another, step by step."""

import numpy as np

from numformer.checks import check_whole


class Curriculum:
    """Batches without end: easy ones at first, then ever fewer of them, and from step `steps` on the real ones alone.

    Batch number `step` is an easy one with the probability ``1 - step / steps``; it is a pure function of the seed and the step.

    Parameters
    ----------
    easy, real : object
        With ``batch(step)``.
    steps : int
    seed : int

    Raises
    ------
    ValueError
        If `steps` is not a whole number above 0, or the seed none from 0 on.

    References
    ----------
    Bengio, Louradour, Collobert and Weston (2009), "Curriculum Learning".

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> easy, real = SimpleNamespace(batch=lambda step: "e"), SimpleNamespace(batch=lambda step: "r")
    >>> "".join(Curriculum(easy, real, steps=40, seed=0).batch(step) for step in range(50))
    'eeeeeeeeeeeeeererreererrrrrrreerrrrerrrrrrrrrrrrrr'
    """

    def __init__(self, easy, real, steps, seed):
        check_whole("Curriculum", "steps", steps)
        check_whole("Curriculum", "seed", seed, least=0)
        self.easy, self.real, self.steps, self.seed = easy, real, steps, seed

    def batch(self, step):
        """The batch of one step."""
        lot = np.random.default_rng([self.seed, 7, step]).random()    # 7: this branch of the seed
        return (self.easy if lot >= step / self.steps else self.real).batch(step)
