"""On which problems a student's function is compared with a suspected cause, and how closely."""

import copy
from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np

from numformer.functional.attention.masks import AttentionPattern
from numformer.specifications import Instance
from numformer.teaching.causes.words import changed_line

CLOSE = 1e-9                                          # relative error of a right answer
SAME = 1e-7                                           # difference from a suspected cause


@dataclass(frozen=True, eq=False)
class Case:
    """One problem: what came in, what is right, and what the student's function returned.

    Parameters
    ----------
    arguments, options : dict
        Of the function; arrays are read-only.
    dy : ndarray or float
        The gradient of the output.
    expected : dict
        The right outputs by name: the gradients, or y alone.
    found : tuple
        The student's outputs; None where one is no array of floats.
    """

    arguments: dict
    options: dict
    dy: object
    expected: dict
    found: tuple

    @cached_property
    def passed(self):
        """Whether all outputs are right."""
        expected = list(self.expected.values())
        return len(self.found) == len(expected) and all(
            found is not None and same(found, right, right)
            for found, right in zip(self.found, expected))

    def features(self):
        """What was given here that need not be given: options, optional arrays, rules."""
        given = {**self.arguments, **self.options}
        found = {name for name, value in given.items() if value is not None}
        pattern = given.get("pattern")
        if isinstance(pattern, AttentionPattern):
            found |= {rule.name for rule in fields(pattern)
                      if getattr(pattern, rule.name) is not rule.default}
        return found

    def forward_of(self, pair):
        """(y, saved) of a Pair, which is run once."""
        if pair not in self._forwards:
            self._forwards[pair] = pair.run_forward(*self.inputs())
        return self._forwards[pair]

    @cached_property
    def _forwards(self):
        return {}

    def inputs(self):
        """Arguments and options, with generators in the state of the beginning."""
        return tuple({key: copy.deepcopy(value) if isinstance(value, np.random.Generator)
                      else value for key, value in part.items()}
                     for part in (self.arguments, self.options))


class Varied(Instance):
    """An instance with other numbers for the options and for a scalar dy.

    A factor that depends on an option must not look like a constant.
    """

    def arguments(self):
        return tuple({key: 0.7 * value if type(value) is float else value
                      for key, value in part.items()} for part in super().arguments())

    @cached_property
    def exact(self):
        y, dy, gradients = super().exact
        if np.ndim(dy) == 0:
            gradients = {key: value * (0.6 / dy) for key, value in gradients.items()}
            dy = 0.6
        return y, dy, gradients


@dataclass(frozen=True)
class Evidence:
    """The cases of a wrong function.

    Parameters
    ----------
    name : str
        Of the function in numformer.functional.
    problem : FunctionProblem
    backward : bool
    wrong : str
        The first output that is wrong.
    cases : list of Case
        A cause must give the student's numbers of that output on all of them. In the first ones the
        function is wrong; then follow levels that it passed.
    others : list of Case
        Of other levels: the function may have other mistakes there.
    """

    name: str
    problem: object
    backward: bool
    wrong: str
    cases: list
    others: list

    @property
    def pair(self):
        """The forward, and of a backward both."""
        problem = self.problem
        return (problem.function, problem.gradient) if self.backward else (problem.function,)

    @property
    def place(self):
        """The number of the wrong output."""
        return list(self.cases[0].expected).index(self.wrong)

    @cached_property
    def given(self):
        """The names of all arguments and options that are given in some case."""
        return {name for case in [*self.cases, *self.others]
                for part in (case.arguments, case.options) for name in part}

    def told(self, mutant):
        """A Mutant in words that whoever wrote the function understands; "" if there are none."""
        return changed_line(mutant, *self.pair, given=self.given)

    def outputs_with(self, pair, mutants, case):
        """The outputs of a Pair with some lines changed; None if that fails."""
        with np.errstate(all="ignore"):
            try:
                return pair.run_with(mutants, case.dy, *case.inputs(), case.forward_of(pair))
            except Exception:                             # whatever changed lines lead to
                return None

    def wrong_output_with(self, pair, mutants, case):
        """The first wrong output of these; None if it is no array of its shape."""
        outputs = self.outputs_with(pair, mutants, case)
        if outputs is None or len(outputs) <= self.place:
            return None
        output, right = outputs[self.place], case.expected[self.wrong]
        return np.asarray(output) if is_array(output) and (
            np.shape(output) == np.shape(right)) else None

    def in_wrong_alone(self, case, output):
        """The right outputs of a case as a tuple, with another one where they are first wrong."""
        return tuple(output if key == self.wrong else right
                     for key, right in case.expected.items())

    def agrees(self, case, made):
        """Whether the outputs of a cause have the student's numbers where they are first wrong."""
        k = self.place
        return (made is not None and k < len(made)
                and isinstance(made[k], (np.ndarray, np.floating, float, int))
                and same(case.found[k], made[k], list(case.expected.values())[k]))

    def agreement(self, case, made):
        """0 if all outputs are the student's, 1 if none that is right is wrong here, 2 otherwise.

        Of the student's other outputs some may have mistakes of their own.
        """
        expected = list(case.expected.values())
        if len(made) != len(expected):
            return 2
        level = 0
        for found, ours, right in zip(case.found, made, expected):
            if found is None or not same(found, ours, right):
                is_right = found is not None and same(found, right, right)
                level = max(level, 2 if is_right else 1)
        return level

    def otherwise(self, case, made):
        """The outputs that a cause changes, but which are wrong in another way."""
        return {name for found, ours, (name, right) in zip(case.found, made, case.expected.items())
                if name != self.wrong and (found is None or not same(found, ours, right))
                and not same(np.asarray(ours), right, right)}


def gather(name, outputs_of, instance, wrong):
    """The Evidence on a function that is wrong on an instance; None if it cannot be compared."""
    backward = name.endswith("_backward")
    levels = list(instance.problem.levels)
    failed = levels.index(instance.level)
    cases = _cases([instance, with_other_sizes(instance),
                    Varied(instance.problem, instance.level, instance.seed + 71)],
                   outputs_of, backward)
    if cases[0] is None or not _comparable(cases[0], wrong):
        return None
    first = cases[0]

    def alike(case):
        """Whether the same outputs are expected, of as many axes, and the wrong one is there."""
        return (case is not None and case.expected.keys() == first.expected.keys()
                and np.ndim(case.expected[wrong]) == np.ndim(first.expected[wrong])
                and _comparable(case, wrong))

    cases = [case for case in cases if alike(case)]
    elsewhere = _cases([Instance(instance.problem, level, instance.seed + 81 + 2 * (number % 3))
                        for number, level in enumerate(levels)        # of three kinds of sizes
                        if level != instance.level], outputs_of, backward)
    passed = [case for case in elsewhere[:failed] if alike(case) and case.passed]
    others = [case for case in elsewhere if alike(case) and not any(
        case is one for one in passed)]
    return Evidence(name, instance.problem, backward, wrong, cases + passed, others)


def _cases(instances, outputs_of, backward):
    """The Case of each instance; None if the student's function fails on it."""
    return [None if found is None else _case(instance, found, backward)
            for instance, found in zip(instances, outputs_of(instances))]


def _case(instance, found, backward):
    arguments, options = instance.arguments()
    dy = instance.dy()
    for value in [*arguments.values(), *options.values(), dy]:
        if isinstance(value, np.ndarray):
            value.flags.writeable = False
    return Case(arguments, options, dy, instance.expected(backward),
                tuple(np.asarray(x) if is_array(x) else None for x in found))


def _comparable(case, wrong):
    place = list(case.expected).index(wrong) if wrong in case.expected else len(case.found)
    return place < len(case.found) and case.found[place] is not None


def with_other_sizes(instance):
    """An instance of the same level in which as many sizes as possible differ, and then as many
    differences of two sizes.

    A factor that depends on a size must not look like a constant, nor S - T like 1.
    """
    def sizes(one):
        found = np.array([size for x in one.numbers[0].values() for size in np.shape(x)], int)
        return found, np.subtract.outer(found, found)

    def n_other(one):
        found = sizes(one)
        return [int((a != b).sum()) if a.shape == b.shape else a.size for a, b in zip(found, here)]

    here = sizes(instance)
    return max((replace(instance, seed=instance.seed + 50 + k) for k in range(0, 48, 2)),
               key=n_other)


def is_array(x):
    """Whether numbers can be compared: an array of float64, or a single number."""
    return (isinstance(x, (np.ndarray, np.floating)) and x.dtype == np.float64
            or isinstance(x, float))


def same(found, made, right):
    """Whether two arrays are equal, NaN and Inf included; much closer than both are to `right`."""
    made, right = np.asarray(made), np.asarray(right)
    if made.shape != found.shape and made.ndim == found.ndim and all(
            size in (1, wanted) for size, wanted in zip(made.shape, found.shape)):
        made = np.broadcast_to(made, found.shape)         # the student wrote it into a full array
    if found.shape != made.shape or made.dtype.kind not in "fiub":
        return False
    if found.size == 0:
        return True
    finite = np.isfinite(made)
    if not np.array_equal(finite, np.isfinite(found)) or not np.array_equal(
            found[~finite], made[~finite], equal_nan=True):
        return False
    found, made = found[finite], made[finite]
    if not found.size:
        return True
    largest = np.abs(made).max()
    allowed = SAME * largest
    if right.shape == finite.shape and np.isfinite(right[finite]).all():
        wrong_by = np.abs(found - right[finite]).max()
        if wrong_by > CLOSE * largest / 100:
            allowed = min(allowed, 1e-4 * wrong_by)
    return bool((np.abs(found - made) <= allowed + 1e-13 * largest).all())
