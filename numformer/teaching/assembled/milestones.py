"""The milestones of the assembled track, one after the other: what is whose, and what it can do."""

import math
import re
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from numformer import minimal
from numformer.backend import one_blas_thread
from numformer.checks import check_number, check_whole
from numformer.teaching.assembled.parts import ACTIVATIONS, CALLED_BY, PARTS, UNREACHED
from numformer.teaching.assembled.workshop import Bench, Workshop, bench
from numformer.teaching.calls import Ended
from numformer.teaching.grading import SECONDS, assignment_of, grade
from numformer.teaching.judge import is_not_begun
from numformer.teaching.support.credit import wrong_only_at
from numformer.teaching.support.lifeline import PREFIX
from numformer.teaching.support.record import remember_right, unchanged

CLOSE = 1e-9                                          # relative, of gradients
NEAR_0, MOST_STEPS = 0.1, 400                         # nats per character; steps
A_REPORT, FIRST_REPORT = 50, 5                        # steps; the first says how long it takes
WITHIN = 0.01                                         # nats per character, of the reference's loss
SENTENCES, FIRST, CHARACTERS, A_PART = 10, 60, 400, 10                # A_PART: blocks measured, or
#                                                                       characters written, at once
LARGEST = {"steps": 10**6, "sizes": 4096}             # of a plan: more never ends
YOURS, WRONG, OURS = "yours", "wrong", "ours"
UNCHANGED = "right, and unchanged since then"


@dataclass(frozen=True)
class Plan:
    """What is trained, and how.

    Parameters
    ----------
    text : str
        The last tenth is held out. Several spaces are one: a model that has learned little writes
        indentations, and nothing else.
    steps : int
    seed : int
    seconds : float
        Limit of grading an exercise, and of each step of the assembled model.
    replace_wrong : bool
        Whether ours takes the place of a function that is wrong.
    sizes : dict of str to int
        Names of minimal.py with other values, such as {"WIDTH": 32}.
    """

    text: str
    steps: int = 400
    seed: int = 0
    seconds: float = SECONDS
    replace_wrong: bool = False
    sizes: dict = field(default_factory=dict)

    def value(self, name):
        """What a name of minimal.py is here, such as "CONTEXT"."""
        return self.sizes.get(name, getattr(minimal, name))


@dataclass(frozen=True)
class Function:
    """A function of the model, and whose it is.

    Parameters
    ----------
    name : str
        In the exercise.
    exercise : str or None
        Its name; None if the assignment has none.
    whose : str
        "yours" (and right), "wrong" or "ours".
    words : str
        The feedback of the grader, or why it is ours.
    called : bool
        Whether the model calls it.
    """

    name: str
    exercise: str | None
    whose: str
    words: str
    called: bool = True


@dataclass(frozen=True)
class Milestone:
    """What was reached, or not.

    Parameters
    ----------
    name : str
    reached : bool
    words : str
        What was found.
    seconds : float
    text : str
        What the model wrote.
    more : dict
        Numbers: losses, an error, the functions.
    """

    name: str
    reached: bool
    words: str
    seconds: float = 0.0
    text: str = ""
    more: dict = field(default_factory=dict)


def assemble(folder, plan, told=lambda words: None):
    """Build a model of a student's functions, train it, and let it write.

    Parameters
    ----------
    folder : path
        That of a student, which `write_assignment` made.
    plan : Plan
    told : callable
        Takes a line on the progress of a training.

    Yields
    ------
    Milestone
        Each when it is known; the last that is not reached ends them.

    Raises
    ------
    ValueError
        If the folder holds no assignment, or the plan cannot be carried out.
    """
    plan = replace(plan, text=re.sub(" +", " ", plan.text))
    _check(plan)
    chosen, seed, _ = assignment_of(folder)
    started = time.monotonic()
    functions = functions_of(folder, seed, chosen, plan.seconds, told)
    yield _whose(functions, plan, time.monotonic() - started)
    if not _may_go_on(functions, plan):
        return
    activation = _activation(seed, chosen)
    files = {each.name: Path(folder) / f"{each.exercise}.py" for each in functions
             if each.whose == YOURS}
    with ExitStack() as stack:
        stack.enter_context(one_blas_thread())
        here = stack.enter_context(tempfile.TemporaryDirectory(prefix=PREFIX))
        characters = sorted(set(plan.text))
        parts = _parts(plan, characters)
        yours = stack.enter_context(
            bench(Workshop(files, activation, *parts), here, plan.seconds))
        ours = Bench(Workshop({}, activation, *parts), None)
        for stage in (_together, _first_sample, _by_heart, _trained):
            started = time.monotonic()
            try:
                found = stage(yours, ours, characters, plan, told)
            except Ended as ended:
                found = Milestone(NAMES[stage], False, str(ended))
            yield replace(found, seconds=time.monotonic() - started)
            if not found.reached:
                return


def functions_of(folder, seed, chosen, seconds, told=lambda words: None):
    """A list of Function: all of the model, as the grader finds them in a folder.

    A file that was right is graded again only if it has changed.
    """
    activation = _activation(seed, chosen)
    names = [name for name in PARTS if name.removesuffix("_backward") not in ACTIVATIONS
             or name.removesuffix("_backward") == activation]
    exercises = {exercise.function(seed): exercise.name for exercise in chosen
                 if exercise.bug(seed) is None and exercise.kind != "answers"}
    asked = {exercise.name: exercise for exercise in chosen
             if exercise.name in {exercises.get(name) for name in names}}
    known = unchanged(folder, asked, seed)
    rows = {name: {"points": 1, "of": 1, "feedback": UNCHANGED} for name in known}
    new = [name for name in asked if name not in rows]
    if known and new:
        told(f"{len(known)} files are unchanged since they were right; grading the other "
             f"{len(new)}")
    rows |= {row["name"]: row for row in grade(folder, seconds, names=new)} if new else {}
    remember_right(folder, [name for name in new if rows[name]["points"] == rows[name]["of"]], seed)
    found = [_function(name, asked.get(exercises.get(name)), rows, folder) for name in names]
    yours = {each.name for each in found if each.whose == YOURS}
    return [replace(each, called=CALLED_BY.get(each.name) not in yours) for each in found]


def _function(name, exercise, rows, folder):
    if exercise is None:
        return Function(name, None, OURS, "this assignment has no such exercise")
    row, path = rows[exercise.name], Path(folder) / f"{exercise.name}.py"
    level = UNREACHED.get(name)
    if is_not_begun(row["feedback"]) or not path.exists():
        return Function(name, exercise.name, OURS, "not written yet")
    if row["points"] < row["of"] and wrong_only_at(exercise, level, row):
        return Function(name, exercise.name, YOURS, f"wrong only for {level}, which this model "
                        "does not have")
    whose = YOURS if row["points"] == row["of"] else WRONG
    return Function(name, exercise.name, whose, row["feedback"])


def _activation(seed, chosen):
    """The activation function that an assignment asks for."""
    for exercise in chosen:
        name = exercise.function(seed).removesuffix("_backward")
        if name in ACTIVATIONS:
            return name
    return ACTIVATIONS[0]


def _may_go_on(functions, plan):
    whose = [each.whose for each in functions]
    return YOURS in whose and (plan.replace_wrong or WRONG not in whose)


def _check(plan):
    check_whole("assemble", "steps", plan.steps, most=LARGEST["steps"])
    check_whole("assemble", "seed", plan.seed, least=0)
    check_number("assemble", "seconds", plan.seconds, above=0, below=1e6)
    for name in plan.sizes:
        check_whole("assemble", name, plan.value(name), most=LARGEST["sizes"])
    width, heads = plan.value("WIDTH"), plan.value("HEADS")
    if width % heads:
        raise ValueError(f"assemble: a width of {width} is not divisible by {heads}, the number of "
                         f"heads; use {width - width % heads or heads}.")
    least = 2 * SENTENCES * (plan.value("CONTEXT") + 1)
    if len(plan.text) < least:
        raise ValueError(f"assemble: the text has {len(plan.text)} characters; give one of at "
                         f"least {least}, or a shorter context.")


def _parts(plan, characters):
    """(sizes, ids to train on, ids held out, sentences, V, seed) for a Workshop."""
    number = {character: n for n, character in enumerate(characters)}
    ids = np.array([number[character] for character in plan.text])
    cut = int(0.9 * len(ids))
    sentences = np.array([[number[character] for character in sentence]
                          for sentence in _sentences(plan.text[:cut], plan.value("CONTEXT") + 1)])
    return plan.sizes, ids[:cut], ids[cut:], sentences, len(characters), plan.seed


def _sentences(text, length):
    """Ten sentences of a text, cut at a length; ten parts of it, if it has not so many as long."""
    found = [sentence for sentence in re.split(r"(?<=[.!?])\s+", text) if len(sentence) >= length]
    if len(found) < SENTENCES:
        found = [text[n * length:] for n in range(SENTENCES)]
    return [sentence[:length] for sentence in found[:SENTENCES]]


# ---- The milestones ------------------------------------------------------------------------------

def _whose(functions, plan, seconds):
    n = {whose: sum(each.whose == whose for each in functions) for whose in (YOURS, WRONG, OURS)}
    words = f"{n[YOURS]} of {len(functions)} functions are yours and right"
    if n[WRONG]:
        words += f", {n[WRONG]} {'is' if n[WRONG] == 1 else 'are'} yours and wrong"
    if n[OURS]:
        words += f"; ours fill in for {n[OURS]}"
    if n[WRONG] and not plan.replace_wrong:
        words += (". Correct what is wrong (`numformer hint` helps), or let ours fill in for it, "
                  "too, with --replace-wrong")
    elif not n[YOURS]:
        words += ". Nothing to assemble yet: write one of them"
    return Milestone(NAMES[_whose], _may_go_on(functions, plan), words, seconds,
                     more={"functions": functions})


def _together(yours, ours, characters, plan, told):
    for each in (yours, ours):
        each.ask("load")
    error = _difference(yours, ours, None)
    if error <= CLOSE:
        return Milestone(NAMES[_together], True, "loss and gradients of the assembled model equal "
                         f"those of the reference; largest error {error:.1e}",
                         more={"error": error})
    alone = [name for name in yours.workshop.files if not _difference(yours, ours, [name]) <= CLOSE]
    which = (f"the reference with {' or with '.join(alone)} alone differs, too" if alone else
             "each of your functions alone in the reference is right")
    return Milestone(NAMES[_together], False, "loss or gradients of the assembled model are not "
                     f"those of the reference (error {error:.1e}); {which}", more={"error": error})


def _difference(yours, ours, names):
    """The largest difference of the loss and the gradients, relative to the largest number."""
    (found, _), = yours.ask("gradients", names)["calls"]
    (expected, _), = ours.ask("gradients", [])["calls"]
    if [np.shape(x) for x in found] != [np.shape(x) for x in expected]:
        return np.inf
    largest = max(np.abs(x).max() for x in expected)
    return float(max(np.abs(x - y).max() for x, y in zip(found, expected)) / largest)


def _first_sample(yours, ours, characters, plan, told):
    return Milestone(NAMES[_first_sample], True, "a model with random weights writes noise",
                     text=_written(yours, characters, FIRST))


def _by_heart(yours, ours, characters, plan, told):
    steps, learning_rate = MOST_STEPS, plan.value("LEARNING_RATE")
    yours.ask("begin", "sentences", steps, learning_rate)
    first = loss = yours.loss("step")
    done, least = 1, _least_loss(yours.workshop.sentences)
    while loss > least + NEAR_0 and done < steps:
        loss, done = yours.loss("step"), done + 1
        if done % A_REPORT == 0:
            told(f"by heart: step {done}, loss {loss:.3f}")
    return Milestone(
        NAMES[_by_heart], loss <= least + NEAR_0, f"the loss on them went from {first:.2f} to "
        f"{loss:.2f} in {done} steps"
        + (f"; {least:.2f} is the least possible, as some sentences begin with the same "
           "characters: which one it is can be known only where they differ"
           if least > 0.005 else ""),
        more={"loss": loss, "least_loss": least, "steps": done})


def _least_loss(sentences):
    """The loss of a model that knows them: n that begin with the same character are told apart
    later, where each of them has a probability of 1 / n. Equal ones are never told apart."""
    begin = (sentences[:, None, 0] == sentences[:, 0]).sum(axis=1)
    equal = (sentences[:, None] == sentences).all(axis=2).sum(axis=1)
    return float(np.log(begin / equal).mean() / (sentences.shape[1] - 1))


def _trained(yours, ours, characters, plan, told):
    losses, started, done = {}, time.monotonic(), 0
    for whose, one in ((YOURS, yours), (OURS, ours)):
        one.ask("begin", "text", plan.steps, plan.value("LEARNING_RATE"))
        for step in range(1, plan.steps + 1):
            loss, done = one.loss("step"), done + 1
            if step % A_REPORT == 0 or step == plan.steps or done == FIRST_REPORT:
                told(f"{whose}: step {step} of {plan.steps}, loss {loss:.3f}"
                     + _left((time.monotonic() - started) / done * (2 * plan.steps - done)))
        losses[whose] = _measured(one, plan)
        if one is yours:
            text = _written(yours, characters, CHARACTERS)
    difference = losses[YOURS] - losses[OURS]
    return Milestone(
        NAMES[_trained], abs(difference) <= WITHIN, f"after {plan.steps} steps the loss on the "
        f"held-out text is {losses[YOURS]:.4f} nats per character; that of the reference is "
        f"{losses[OURS]:.4f}", text=text,
        more={"loss": losses[YOURS], "reference_loss": losses[OURS]})


def _left(seconds):
    """How long the rest of a training takes, in words.

    Examples
    --------
    >>> _left(400.0), _left(48.0), _left(0.0)
    ('; about 7 minutes left for yours and ours', '; about 50 s left for yours and ours', '')
    """
    if seconds <= 0:
        return ""
    words = f"{seconds / 60:.0f} minutes" if seconds >= 90 else f"{math.ceil(seconds / 10) * 10} s"
    return f"; about {words} left for yours and ours"


NAMES = {_whose: "your functions", _together: "together", _first_sample: "first sample",
         _by_heart: "ten sentences by heart", _trained: "trained"}


def _measured(one, plan):
    """The mean loss on the held-out text, some blocks at a time."""
    n, size = len(one.workshop.held_out), A_PART * plan.value("CONTEXT")
    starts = range(0, n - 1, size)
    ends = [min(start + size, n - 1) for start in starts]
    losses = [one.loss("measure", start, end) for start, end in zip(starts, ends)]
    return float(np.average(losses, weights=[end - start for start, end in zip(starts, ends)]))


def _written(yours, characters, n):
    """A text that the model writes, some characters at a time."""
    ids = [0]
    while len(ids) <= n:
        more = yours.ask("write", ids, A_PART).get("ids")
        if (type(more) is not list or len(more) != A_PART
                or not all(type(i) is int and 0 <= i < len(characters) for i in more)):
            raise Ended("what it wrote are no characters")
        ids += more
    return "".join(characters[i] for i in ids[1:])
