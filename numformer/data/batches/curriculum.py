"""A curriculum: easy examples first, then ever more of the real ones."""

from numformer.checks import check_whole
from numformer.seeds import CURRICULUM, branch


class Curriculum:
    """Mix the batches of two streams: easy ones at first, from step `steps` on the real ones alone.

    Batch number `step` is an easy one with probability ``1 - step / steps``; it is a pure function
    of the seed and the step.

    Parameters
    ----------
    easy, real : object
        Streams, with ``batch(step)``.
    steps : int
        From this step on, all batches are real.
    seed : int

    Raises
    ------
    ValueError
        If `steps` is not a whole number above 0, or `seed` is not one of 0 or more.

    References
    ----------
    Bengio, Louradour, Collobert and Weston (2009), "Curriculum Learning".

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> easy, real = (SimpleNamespace(batch=lambda step, name=name: name) for name in "er")
    >>> stream = Curriculum(easy, real, steps=40, seed=0)
    >>> "".join(stream.batch(step) for step in range(50))
    'eeeeeeeeeeeeeererreererrrrrrreerrrrerrrrrrrrrrrrrr'
    """

    def __init__(self, easy, real, steps, seed):
        check_whole("Curriculum", "steps", steps)
        check_whole("Curriculum", "seed", seed, least=0)
        self.easy, self.real, self.steps, self.seed = easy, real, steps, seed

    def batch(self, step):
        """The batch of a step."""
        sample = branch(self.seed, CURRICULUM, step).random()
        return (self.easy if sample >= step / self.steps else self.real).batch(step)
