"""A student's own names of the arguments, in place of the reference's, wherever a text has them."""

import inspect
import re
from dataclasses import replace

import numpy as np

from numformer.teaching.signatures import takes_saved

POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
SHORT = 2                                             # letters of a name that is no English word
LEVELS = "Level of this problem: "                    # what follows are names of levels
# an argument such as `weight` is a word, too: it is meant in code, and in a list of shapes
IN_CODE = r"(?:(?<=`)|(?<=[@*/+=-] )|(?<=[(\[])|(?<=argument )){}\b|\b{}(?=`|\.\w|\[| [@*/]| \(\d)"


def own_names(signature, problem, backward):
    """{name of an argument or gradient: the student's}, by the position of the argument.

    Parameters
    ----------
    signature : callable
        Whose parameters are the student's.
    problem : Specification
    backward : bool

    Examples
    --------
    >>> from numformer.specifications import PROBLEMS
    >>> own_names(lambda dz, x, W: None, PROBLEMS["linear"], backward=True)
    {'dy': 'dz', 'weight': 'W', 'dweight': 'dW'}
    """
    try:
        parameters = inspect.signature(signature).parameters.values()
    except (TypeError, ValueError):
        return {}
    own = [each.name for each in parameters if each.kind in POSITIONAL]
    first = next(iter(inspect.signature(problem.gradient).parameters))
    arguments = list(next(iter(problem.levels.values()))(np.random.default_rng(0))[0])
    pairs = list(zip(arguments, own))
    if backward:
        pairs = [("dy", name) for name in own[:1]] + [(first, name) for name in own[:1]]
        pairs += zip(arguments, own[1:] if not takes_saved(signature) else ())
    found = {}
    for name, mine in pairs:
        if mine.startswith("_") or name == mine:
            continue
        found[name] = mine
        if name in problem.wanted:
            found[f"d{name}"] = f"d{mine}"
    return found


def renamed(text, names):
    """The text with other names, all exchanged at once.

    Examples
    --------
    >>> renamed("dweight is wrong: the weight is x.T @ dy, not dy @ weight",
    ...         {"weight": "W", "dweight": "dW", "dy": "dz"})
    'dW is wrong: the weight is x.T @ dz, not dz @ W'
    """
    if not names:
        return text
    words = [name for name in names if len(name) > SHORT and not name.startswith("d")]
    always = [rf"\b{re.escape(name)}\b" for name in names if name not in words]
    in_code = [IN_CODE.format(re.escape(name), re.escape(name)) for name in words]
    pattern = "|".join([*always, *in_code])
    return "\n".join(line if line.startswith(LEVELS) else re.sub(
        pattern, lambda found: names[found[0]], line) for line in text.split("\n"))


def in_own_names(verdict, signature, problem, backward):
    """The Verdict with the student's names in its words and remarks; its cause stays as it is."""
    names = own_names(signature, problem, backward)
    return replace(verdict, words=renamed(verdict.words, names),
                   remarks=tuple(renamed(remark, names) for remark in verdict.remarks))
