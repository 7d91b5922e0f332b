"""A forward and its backward with one line changed: all mutants, made once for each function."""

import threading
from contextlib import ExitStack
from functools import cached_property, lru_cache
from inspect import unwrap

import numpy as np

from numformer import functional
from numformer.specifications import versions
from numformer.teaching.mutations.mutant import codes
from numformer.teaching.mutations.program import Program, called_by
from numformer.teaching.mutations.statements import mutants

MOST = 4000                                               # mutants of one pair
ONE_AT_A_TIME = threading.RLock()                         # mutants exchange code of all threads


class Pair:
    """Runs a forward, or a forward and its backward, with one line changed.

    Parameters
    ----------
    forward, backward : function
        Of numformer.functional; `backward` may be None.

    Examples
    --------
    >>> import numpy as np
    >>> from numformer import functional as F
    >>> pair = Pair(F.relu_squared, F.relu_squared_backward)
    >>> x, dy = np.array([-1.0, 3.0]), np.array([1.0, 1.0])
    >>> pair.run(None, dy, {"x": x}, {})
    (array([0., 6.]),)
    >>> mutant = next(mutant for mutant in pair.mutants(dy, {"x": x}, {})
    ...               if mutant.what == "without the factor `2`")
    >>> print(mutant)
    `dpositive = 2 * positive * dy` of relu_squared_backward, without the factor `2`
    >>> pair.run(mutant, dy, {"x": x}, {})
    (array([0., 3.]),)
    """

    def __init__(self, forward, backward=None):
        self.functions = [unwrap(function) for function in (forward, backward) if function]
        self.program = Program(*self.functions)
        self._made = {}

    @cached_property
    def _in_forward(self):
        """The functions that the forward calls, and itself."""
        return called_by(self.functions[0])

    def run(self, mutant, dy, arguments, options):
        """The outputs of the pair as a tuple: gradients, or y."""
        return self.run_with([] if mutant is None else [mutant], dy, arguments, options)

    def run_with(self, mutants, dy, arguments, options, forward=None):
        """The same with the changes of several mutants.

        `forward` is (y, saved) of these arguments, as of `run_forward`: it is not run again if
        nothing changes in it.
        """
        if any(mutant.source.function in self._in_forward for mutant in mutants):
            forward = None
        with ONE_AT_A_TIME, ExitStack() as changes:
            for changed in codes(mutants):
                changes.enter_context(self.program.changed(*changed))
            return self._outputs(dy, arguments, options, forward)

    def run_forward(self, arguments, options):
        """(y, saved) without a change; None for a function that does it all."""
        with ONE_AT_A_TIME:
            return self.program.copies[self.functions[0]](*arguments.values(), **options)

    def _outputs(self, dy, arguments, options, forward):
        y, saved = forward or self.run_forward(arguments, options)
        if len(self.functions) == 1:
            return (y,)
        self.program.give(y=y)                            # a mutant may read it
        gradients = self.program.copies[self.functions[1]](dy, _copied(saved))
        return gradients if isinstance(gradients, tuple) else (gradients,)

    def mutants(self, dy, arguments, options):
        """All mutants, the simplest first; the variables' shapes are those of this run."""
        return self.made_from(mutants, dy, arguments, options)

    def made_from(self, changes_of, dy, arguments, options):
        """The mutants that ``changes_of(function, variables)`` gives, the simplest first; kept.

        None for a textbook's version that does not know these arguments.
        """
        if changes_of not in self._made:
            try:
                with ONE_AT_A_TIME, np.errstate(all="ignore"):
                    variables = self.program.variables(
                        lambda: self.run(None, dy, arguments, options))
            except Exception:
                return []
            try:
                found = [mutant for function in reversed(self.program.copies)
                         for mutant in changes_of(function, {
                             **constants(function), **self.program.given,
                             **variables.get(function, {})})]
            except OSError:                               # an installation without sources
                found = []
            backward = self.functions[-1]
            found.sort(key=lambda mutant: (mutant.cost, mutant.source.function is not backward))
            self._made[changes_of] = found[:MOST]
        return self._made[changes_of]


class Single(Pair):
    """The same for one function that does it all: `(x, ...)` to y, or `(dy, x, ...)` to gradients.

    Parameters
    ----------
    function : function
    backward : bool
    """

    def __init__(self, function, backward):
        super().__init__(function)
        self.backward = backward

    def run_forward(self, arguments, options):
        return None

    def _outputs(self, dy, arguments, options, forward):
        function = self.program.copies[self.functions[0]]
        given = (dy, *arguments.values()) if self.backward else arguments.values()
        outputs = function(*given, **options)
        return outputs if isinstance(outputs, tuple) else (outputs,)


def _copied(saved):
    """The same with copies of the arrays: a mutant may write into them."""
    if isinstance(saved, tuple):
        parts = map(_copied, saved)
        return tuple(parts) if type(saved) is tuple else type(saved)(*parts)
    return saved.copy("K") if isinstance(saved, np.ndarray) else saved


def constants(function):
    """The numbers of a function's module that its code names."""
    return {name: function.__globals__[name] for name in function.__code__.co_names
            if type(function.__globals__.get(name)) is float}


@lru_cache(maxsize=None)
def pairs_of(name):
    """The Pair of a function or backward, and its textbook versions; their mutants are kept.

    Parameters
    ----------
    name : str
        Such as "softmax" or "softmax_backward".
    """
    forward = getattr(functional, name.removesuffix("_backward"))
    backward = getattr(functional, name) if name.endswith("_backward") else None
    return (Pair(forward, backward),
            *(Single(version, backward is not None) for version in versions(name)))
