"""A student's file where it runs: it is imported there, and answers the judge's requests.

That is a process of its own, forked and confined, and never the judge's; only where a system cannot
fork, as in a browser or on Windows, it is the judge's.
"""

import importlib.util
import math
import os
import traceback
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from numformer.backend import can_fork
from numformer.files import MIB
from numformer.teaching.apart.confinement import confine
from numformer.teaching.apart.messages import LONGEST, NoAnswer, text_of
from numformer.teaching.apart.names import our_names, their_names
from numformer.teaching.apart.system_calls import refuse_calls
from numformer.teaching.calls import Ended, Limits, Student
from numformer.teaching.isolation import Apart, Child, Server
from numformer.teaching.limits import Stopped, limit_process, limited, state_kept

MEMORY = 768 * MIB       # of its functions: less than that of the process, which then can say so
MOST, DEPTH = 100, 3                                  # entries of an answer to a question
NOT_DONE = "not done yet"


@contextmanager
def student_file(path, seconds):
    """A `File` to judge, in a process of its own where the system can fork.

    Parameters
    ----------
    path : path
    seconds : float
        Limit of its import, and of each call.
    """
    path, limits = os.path.abspath(path), Limits(seconds, MEMORY)
    if not can_fork():
        with state_kept(), our_names():
            yield File(path, limits)
        return

    def prepare():
        limit_process(seconds)
        os.chdir(Path(path).parent)
        confine(Path(path).parent)
        refuse_calls()

    with Child(FileServer(), prepare, silent=True) as child:
        yield File(path, limits, child)


class File:
    """A student's file, as the judge sees it.

    Parameters
    ----------
    path : str
    limits : Limits
    child : Child, optional
        The process in which it runs; by default this one.
    """

    def __init__(self, path, limits, child=None):
        self.path, self.limits, self.child, self.server = path, limits, child, FileServer()

    def load(self, name):
        """Import it: what is wrong with it or with its function of that name, or ""."""
        return self._ask("load", self.path, name, self.limits)["trouble"]

    def student(self, signature):
        """Its function as a Student that promises the parameters of another."""
        if self.child is None:
            return Student(self.server.fn, self.limits, signature=signature)
        return Apart(None, self.limits, signature=signature, child=self.child)

    def value(self):
        """(what its function returns, of plain types; "" or what is wrong with the call)."""
        found = self._ask("value", self.path, self.limits)
        return plain_value(found.get("value")), found["trouble"]

    def _ask(self, name, *arguments):
        if self.child is None:
            return getattr(self.server, name)(*arguments)
        found = self.child.ask(self.limits.seconds, name, *arguments)
        try:
            return {**found, "trouble": text_of(found.get("trouble"))}
        except NoAnswer as error:
            raise Ended(str(error)) from None


class FileServer(Server):
    """What answers requests where the file runs."""

    def load(self, path, name, limits):
        try:
            with their_names():
                module = limited(imported, limits.seconds, limits.memory)(path)
        except NotImplementedError:
            return {"trouble": NOT_DONE}
        except BaseException as error:                # SystemExit too: a file may do anything
            return {"trouble": f"the file cannot be imported: {described(error, path)}"}
        self.fn = getattr(module, name, None)
        return {"trouble": "" if callable(self.fn) else f"there is no function {name} in it"}

    def value(self, path, limits):
        try:
            with their_names():
                value = limited(lambda: plain_value(self.fn()), limits.seconds, limits.memory)()
        except NotImplementedError:
            return {"trouble": NOT_DONE}
        except BaseException as error:
            return {"trouble": f"answers() raised {described(error, path)}"}
        return {"value": value, "trouble": ""}


def plain_value(x, depth=DEPTH):
    """Numbers, texts, and lists and dicts of them, of Python's own types; None for all else."""
    if isinstance(x, np.ndarray):
        x = x.item() if x.size == 1 else x.tolist() if x.size <= MOST else None
    x = x.item() if isinstance(x, np.generic) else x
    if isinstance(x, bool) or x is None:
        return x
    if isinstance(x, str):
        return str.__str__(x)[:LONGEST]
    if isinstance(x, int):
        return int.__int__(x) if abs(x) < 2 ** 63 else None
    if isinstance(x, float):
        return float.__float__(x) if math.isfinite(x) else None
    if depth and isinstance(x, (list, tuple)):
        return [plain_value(each, depth - 1) for each in list(x)[:MOST]]
    if depth and isinstance(x, dict):
        return {str(key)[:LONGEST]: plain_value(x[key], depth - 1) for key in list(x)[:MOST]}
    return None


def imported(path):
    """The module of a file."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def described(error, path):
    """An exception, with the last line of the student's own file in its traceback."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(path)]
    if isinstance(error, SyntaxError) and error.lineno:
        lines.append(error.lineno)
    try:
        message = " ".join(str(getattr(error, "msg", error)).split())
    except Exception:                                 # its __str__ raises, too
        message = ""
    name = "" if isinstance(error, Stopped) else type(error).__name__
    text = ": ".join(filter(None, [name, message]))[:LONGEST]
    return text + (f" (line {lines[-1]})" if lines else "")
