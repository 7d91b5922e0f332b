"""How difficult an exercise is, and how long it takes: estimated from what can be counted."""

import re
from dataclasses import dataclass

from numformer.specifications import MISTAKES

A_LINE, AN_IDEA, A_MISTAKE = 1.5, 4.5, 1.5            # minutes; a convention, no class was timed
MEDIUM, HARD = 15, 30                                 # minutes from which on an exercise is so
WORDS = ("easy", "medium", "hard")


@dataclass(frozen=True)
class Effort:
    """What was counted of an exercise, and the minutes that follow.

    Parameters
    ----------
    lines : int
        Lines of code of the solution; where there is a bug to find, of the function to read.
    ideas : int
        What a student has to think of, listed in the header of the exercise.
    mistakes : int
        Mistakes of students in this function that `numformer.check` knows; where there is a bug to
        find, the bugs that it may be.
    """

    lines: int
    ideas: int
    mistakes: int

    @property
    def minutes(self):
        """The sum of all, rounded to 5 minutes."""
        minutes = A_LINE * self.lines + AN_IDEA * self.ideas + A_MISTAKE * self.mistakes
        return max(5, 5 * round(minutes / 5))

    @property
    def difficulty(self):
        """"easy", "medium" or "hard"."""
        return WORDS[(self.minutes >= MEDIUM) + (self.minutes >= HARD)]


def effort(exercise, seed=0):
    """The effort of an exercise.

    Parameters
    ----------
    exercise : Exercise
    seed : int
        Of the assignment: the solutions of variants differ in length.

    Returns
    -------
    Effort

    Examples
    --------
    >>> from numformer.teaching.exercise import find_exercise
    >>> of_linear = effort(find_exercise("linear"))
    >>> of_linear.lines, of_linear.ideas, of_linear.minutes, of_linear.difficulty
    (1, 1, 5, 'easy')
    """
    if exercise.bug(seed) is None:
        code, mistakes = exercise.solution(seed), len(MISTAKES.get(exercise.function(seed), ()))
    else:
        code = exercise.student(seed).split("\ndef ")[1].split("\n", 1)[1]
        mistakes = exercise.source.count("# BEGIN BUG")
    lines = sum(bool(re.match(r"\s*[^\s#]", line)) for line in code.splitlines())
    return Effort(lines, len(exercise.ideas), mistakes)
