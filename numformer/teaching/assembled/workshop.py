"""Where an assembled model runs: it is made, trained, measured and sampled from, a step a request.

A student's functions run in a process of their own, forked and confined as that of a file that is
graded. The same code without functions of a student is the reference.
"""

import os
import sys
from contextlib import contextmanager

import numpy as np

from numformer.backend import can_fork
from numformer.files import read_file
from numformer.teaching.apart.confinement import confine
from numformer.teaching.apart.messages import NoAnswer, text_of
from numformer.teaching.apart.student import described, imported
from numformer.teaching.apart.system_calls import refuse_calls
from numformer.teaching.assembled.model import FunctionFailed, assembled_model
from numformer.teaching.calls import Ended
from numformer.teaching.isolation import Child, Server
from numformer.teaching.judge import MOST
from numformer.teaching.limits import limit_process, limited

CPU_SECONDS = 24 * 3600                               # of a training; each step has its own limit
SMALL = {"CONTEXT": 6, "LAYERS": 2, "WIDTH": 8}      # to compare gradients
SMALL_V, SMALL_B = 7, 3


class Workshop(Server):
    """What answers requests: each is a method, and returns a dict; "trouble" in it ends all.

    Parameters
    ----------
    files : dict of str to path
        The file of each function of the student.
    activation : str
    sizes : dict of str to int
        Of minimal.py.
    ids : ndarray of int
        The text to train on.
    held_out : ndarray of int
        The text to measure on.
    sentences : ndarray of int, shape (B, T + 1)
        To learn by heart.
    V : int
        How many characters there are.
    seed : int
    """

    def __init__(self, files, activation, sizes, ids, held_out, sentences, V, seed):
        super().__init__()
        self.files, self.activation, self.sizes = files, activation, sizes
        self.ids, self.held_out, self.sentences, self.V = ids, held_out, sentences, V
        self.seed, self.functions, self.gpt, self.p, self.losses = seed, {}, None, None, None

    def load(self):
        """Import the student's files, and make the model with random weights."""
        for name, path in self.files.items():
            try:
                self.functions[name] = getattr(imported(path), name)
            except BaseException as error:            # SystemExit, too
                raise FunctionFailed(name) from error
        self.gpt = assembled_model(self.functions, self.activation, **self.sizes)
        self.rng = np.random.default_rng(self.seed)
        self.p = self.gpt.initial_parameters(self.rng, self.V)
        return {}

    def gradients(self, names=None):
        """The loss and all gradients of a small model in float64, with these functions or all."""
        functions = self.functions if names is None else {
            name: self.functions[name] for name in names if name in self.functions}
        gpt, rng = assembled_model(functions, self.activation, **SMALL), np.random.default_rng(1)
        p = {name: [rng.normal(w.ndim == 1, 0.5, w.shape) for w in arrays]
             for name, arrays in gpt.initial_parameters(rng, SMALL_V).items()}
        parts = rng.integers(SMALL_V, size=(SMALL_B, SMALL["CONTEXT"] + 1))
        loss, g = loss_and_gradients(gpt, p, parts)
        arrays = [np.asarray(x, np.float64) for name in sorted(p) for x in g[name]]
        return {"calls": [((np.float64(loss), *arrays), None)]}

    def begin(self, subject, steps, learning_rate):
        """Begin to train a new model, on the "sentences" or on the "text"."""
        self.rng = np.random.default_rng(self.seed)
        self.p = self.gpt.initial_parameters(self.rng, self.V)
        batches = (self.sentences for _ in range(steps)) if subject == "sentences" else (
            excerpts(self.gpt, self.ids, steps, self.rng))
        self.losses = descent(self.gpt, self.p, batches, steps, learning_rate)
        return {}

    def step(self):
        """A step of the training; its loss."""
        return _loss(next(self.losses))

    def measure(self, start, end):
        """The mean loss on a part of the held-out text."""
        return _loss(self.gpt.evaluate(self.p, self.held_out[start:end + 1]))

    def write(self, ids, n):
        """`n` characters that follow these."""
        found = self.gpt.generate(self.p, [int(i) for i in ids], n, self.rng)
        return {"ids": [int(i) for i in found[len(ids):]]}

    def tried(self, name, arguments, seconds):
        """The answer of a method within a limit of time, or in which function what went wrong."""
        try:
            with np.errstate(all="ignore"):
                return limited(getattr(self, name), seconds, None)(*arguments)
        except KeyboardInterrupt:                     # the user's
            raise
        except BaseException as error:                # a limit of time, or what a function raised
            where = error.args[0] if isinstance(error, FunctionFailed) else "the model"
            cause = error.__cause__ if isinstance(error, FunctionFailed) else error
            path = self.files.get(where)
            return {"trouble": f"{where}: {described(cause, path)}"}


def _loss(loss):
    """A loss as an answer: JSON has no NaN."""
    return {"loss": float(loss) if np.isfinite(loss) else None}


class Bench:
    """What asks a workshop, in its own process or in this one."""

    def __init__(self, workshop, seconds, child=None):
        self.workshop, self.seconds, self.child = workshop, seconds, child

    def ask(self, name, *arguments):
        """The answer of a method of the workshop.

        Raises
        ------
        Ended
            If it has none; the text says why.
        """
        if self.child is None:
            found = self.workshop.tried(name, arguments, self.seconds)
        else:
            found = self.child.ask(self.seconds, "tried", name, arguments, self.seconds)
        if "trouble" in found:
            raise Ended(_text(found["trouble"]))
        return found

    def loss(self, name, *arguments):
        """The loss in an answer, a finite number."""
        loss = self.ask(name, *arguments).get("loss")
        if type(loss) is not float:
            raise Ended("the loss is not a finite number")
        return loss


def _text(trouble):
    try:
        return text_of(trouble)
    except NoAnswer as error:
        raise Ended(str(error)) from None


@contextmanager
def bench(workshop, folder, seconds):
    """A Bench of a workshop with functions of a student, confined to a folder of its own.

    Parameters
    ----------
    workshop : Workshop
    folder : path
        Into which its files are copied, and where it may write.
    seconds : float
        Limit of a request, such as a step.
    """
    for name, path in workshop.files.items():
        workshop.files[name] = os.path.join(folder, os.path.basename(path))
        with open(workshop.files[name], "wb") as copy:
            copy.write(read_file(path, MOST, follow_links=False))
    if not can_fork():
        yield Bench(workshop, seconds)
        return

    def prepare():
        sys.stdout = sys.stderr = open(os.devnull, "w")               # in a notebook, no files
        limit_process(CPU_SECONDS)
        os.chdir(folder)
        confine(folder)
        refuse_calls()

    with Child(workshop, prepare, silent=True) as child:
        yield Bench(workshop, seconds, child)


# ---- Training, as in minimal.py, a step at a time ------------------------------------------------

def loss_and_gradients(gpt, p, parts):
    """The loss on excerpts (B, T + 1), and the gradients."""
    logits, saved = gpt.forward(p, parts[:, :-1])
    loss, saved_loss = gpt.cross_entropy(logits, parts[:, 1:])
    return loss, gpt.backward(gpt.cross_entropy_backward(saved_loss), saved)


def excerpts(gpt, ids, steps, rng):
    """Batches of random excerpts (BATCH, CONTEXT + 1)."""
    for _ in range(steps):
        starts = rng.integers(len(ids) - gpt.CONTEXT, size=(gpt.BATCH, 1))
        yield ids[starts + np.arange(gpt.CONTEXT + 1)]


def descent(gpt, p, batches, steps, learning_rate):
    """Train p, in place; yields the loss of each step."""
    mean, square = [{name: [np.zeros_like(w) for w in p[name]] for name in p} for _ in range(2)]
    for step, parts in enumerate(batches, 1):
        loss, g = loss_and_gradients(gpt, p, parts)
        scale = min(step / gpt.WARMUP, 1 - step / (steps + 1))
        gpt.adamw(p, g, mean, square, step, learning_rate * scale)
        yield loss
