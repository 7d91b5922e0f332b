"""An exercise: one file with its solution, from which the student's and the teacher's are made.

A page in `exercises/` is a module that runs as it is, with the solution in it. Marks say what is
done with its lines:

    # BEGIN SOLUTION ... # END SOLUTION
        Replaced by `raise NotImplementedError` for the student.
    # BEGIN BUG name ... # END BUG
        Commented out. The student gets one of them instead of the solution; the seed chooses.
    # BEGIN TEACHER ... # END TEACHER
        Left out for the student.
    # BEGIN HINTS ... # END HINTS
        Left out for the student, who gets them one at a time: 1. the idea, 2. the step or the
        shape, 3. nearly the line. {bug} in them is the name of the bug. Without this block, the
        hints are those of the function that is graded, from its specification; the teacher's file
        shows them here.
    # BEGIN VARIANT name ... # END VARIANT
        One of several is kept; the seed chooses.
    NAME = value  # VARIANT value value ...
        One of the values is kept; the seed chooses.

What is chosen is the *form* of an exercise: a tuple with the index of each choice. Wherever a
`seed` chooses, a form may be given in its place.
"""

import ast
import re
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from math import factorial
from textwrap import dedent, fill

import numpy as np

from numformer.checks import check_choice
from numformer.specifications import hints_of
from numformer.terminal import did_you_mean, shortened

STUB = 'raise NotImplementedError("your turn")'
WHOLE = "all or nothing"                              # in the header, for no partial credit
VALUES = re.compile(r"^(\w+ = ).*?  # VARIANT (.*)$", re.MULTILINE)
QUESTION = re.compile(r'^- "(\w+)": .*\n(?:  .*\n)*', re.MULTILINE)


@dataclass(frozen=True)
class Exercise:
    """One exercise of the course.

    Parameters
    ----------
    name : str
        Of its file, without the suffix.
    source : str
        The file, with all marks.
    topic : str
        The folder of the file, such as "basics".
    """

    name: str
    source: str
    topic: str = ""

    @property
    def title(self):
        """The first line of the text."""
        return self.source.split('"""')[1].splitlines()[0]

    @property
    def subject(self):
        """What it is about: its name without the number, ``bug_in_`` and ``_backward``."""
        return self.name[3:].removeprefix("bug_in_").removesuffix("_backward")

    @property
    def text(self):
        """The text below the title."""
        return "\n".join(self.source.split('"""')[1].splitlines()[1:]).strip()

    @property
    def kind(self):
        """"check": a function to write or to correct. "answers": questions about a figure.
        "own": a function without a backward, compared on problems of the exercise's own."""
        if self.header("answers"):
            return "answers"
        return "own" if self.header("returns") else "check"

    @property
    def outputs(self):
        """What a function of the kind "own" returns, a tuple of str."""
        return tuple(self.header("returns").split(", "))

    def header(self, key):
        """An entry of the header: "goal", "needs", "ideas", "points"; None if it is not there.

        Optional entries are "lessons", "parts", "levels", "returns" and "varies with".
        """
        found = re.search(f"^# {key}: (.*)$", self.source, re.MULTILINE)
        return found and found[1]

    @property
    def points(self):
        """How many points a right answer gets."""
        return int(self.header("points"))

    @property
    def points_text(self):
        """The points in words, such as "1 point"."""
        return f"{self.points} point{'s' if self.points > 1 else ''}"

    @property
    def ideas(self):
        """What a student has to think of, a tuple of str."""
        return tuple(self.header("ideas").split("; "))

    @property
    def lessons(self):
        """The lessons after which it is practised, a tuple of int."""
        return tuple(map(int, re.findall(r"\d+", self.header("lessons") or "")))

    @property
    def parts(self):
        """Points by output, such as {"dx": 2, "dweight": 1}; None if the outputs share them.

        An empty dict if there is no partial credit.
        """
        parts = self.header("parts")
        if parts in (None, WHOLE):
            return None if parts is None else {}
        return {name: float(points) for name, points in map(str.split, parts.split(", "))}

    @property
    def levels(self):
        """The levels of `numformer.check` that the exercise requires; None for all."""
        levels = self.header("levels")
        return levels and levels.split(", ")

    @property
    def questions(self):
        """The names of the questions of the kind "answers", a tuple of str; () of the others."""
        found = QUESTION.findall(self.source.split('"""')[1])
        return tuple(found) if self.kind == "answers" else ()

    @property
    def options(self):
        """How many there are to choose from, for each choice: a tuple of int; () without one."""
        values = [len(words.split()) for _, words in VALUES.findall(self.source)]
        blocks = (len(_block(mark).findall(self.source)) for mark in ("VARIANT", "BUG"))
        return tuple(filter(None, [*values, *blocks]))

    @property
    def orders(self):
        """In how many orders its questions can be asked: the options of the last choice of a form
        that has one index more than `options`; 1 without questions."""
        return factorial(len(self.questions))

    def form(self, seed):
        """The form that a seed chooses: a tuple with an index below each of `options`."""
        # an exercise that varies with another makes the same choices
        rng = np.random.default_rng([seed, int(self.header("varies with") or self.name[:2])])
        return tuple(int(rng.integers(n)) for n in self.options)

    def is_form(self, form):
        """Whether this is a form of the exercise, with or without an order of the questions."""
        options = self.options + (self.orders,) * bool(self.questions)
        return len(form) in (len(self.options), len(options)) and all(
            type(index) is int and 0 <= index < n for index, n in zip(form, options))

    def student(self, seed):
        """The student's file: the exercise without its solution."""
        source, bug = self._variant(seed)
        inside = bug[1] if bug else STUB
        source = _block("SOLUTION").sub(lambda found: _indented(inside, found[1]), source)
        source = re.sub("^# ideas: .*\n", "", _block("HINTS").sub("", source), flags=re.MULTILINE)
        return _block("TEACHER").sub("", source).rstrip() + "\n"

    def teacher(self, seed):
        """The teacher's file: the exercise with its solution and hints."""
        source, bug = self._variant(seed)
        if not self.has_own_hints:
            lines = "".join(fill(f"{number}. {text}", 100, initial_indent="# ",
                                 subsequent_indent="#    ", break_on_hyphens=False) + "\n"
                            for number, text in enumerate(self.hints(seed), 1))
            header = re.match(r'""".*?"""\n(?:# [^\n]*\n)+', source, re.DOTALL)[0]
            source = source.replace(header, f"{header}# BEGIN HINTS\n{lines}# END HINTS\n", 1)
        if not bug:
            return source
        return source.replace("# goal:", f"# the student's bug: {bug[0]}\n# goal:", 1)

    def solved(self, seed):
        """The teacher's file without the teacher's blocks; other graders remove the solution."""
        source = _block("HINTS").sub("", self.teacher(seed))
        return _block("TEACHER").sub("", source).rstrip() + "\n"

    def bug(self, seed):
        """The name of the student's bug; None if there is none to find."""
        bug = self._variant(seed)[1]
        return bug and bug[0]

    @property
    def has_own_hints(self):
        """Whether its hints are of a bug or a figure; those of a function are on its page."""
        return "# BEGIN HINTS" in self.source

    def hints(self, seed):
        """The hints, of increasing help: a tuple of str."""
        if not self.has_own_hints:
            return hints_of(self.function(seed), self.parameters(seed))
        source, bug = self._variant(seed)
        lines = _block("HINTS").search(source)[3]
        texts = [" ".join(text.replace("\n#", "\n").split())
                 for text in re.split(r"^# \d\. ", lines, flags=re.MULTILINE)[1:]]
        return tuple(text.replace("{bug}", bug[0]) if bug else text for text in texts)

    def solution(self, seed):
        """The lines of the solution, without marks and without indentation."""
        return dedent(_block("SOLUTION").search(self._variant(seed)[0])[3])

    def function(self, seed):
        """The name of the function that is graded."""
        if self.kind == "answers":
            return "answers"
        return re.search(r"^def (\w+)", self._variant(seed)[0], re.MULTILINE)[1]

    def parameters(self, seed):
        """The names of the parameters of the function that is graded."""
        tree = ast.parse(self._variant(seed)[0])
        function = next(node for node in tree.body if isinstance(node, ast.FunctionDef)
                        and node.name == self.function(seed))
        return [argument.arg for argument in function.args.args]

    def _variant(self, seed):
        """(source with one of each variant and without bugs, (name, lines) of the bug or None)."""
        form = seed if isinstance(seed, tuple) else self.form(seed)
        chosen = iter(form)
        source = VALUES.sub(lambda found: found[1] + found[2].split()[next(chosen)], self.source)
        variants = _block("VARIANT").findall(source)
        if variants:
            kept = variants[next(chosen)][1]
            source = _block("VARIANT").sub(
                lambda found: found[3] if found[2] == kept else "", source)
            source = re.sub("\n{4,}", "\n\n\n", source)
        bugs = [(name, re.sub(r"^ *# ?", "", lines, flags=re.MULTILINE).rstrip())
                for _, name, lines in _block("BUG").findall(source)]
        bug = bugs[next(chosen)] if bugs else None
        source = self._in_order(source, next(chosen, 0))
        return _block("BUG").sub("", source).rstrip() + "\n", bug

    def _in_order(self, source, order):
        """The source with its questions in an order, a number below `orders`; 0 is as written."""
        _, text, _ = source.split('"""', 2)
        left, texts = [found[0] for found in QUESTION.finditer(text)], []
        while order and left:
            order, index = divmod(order, len(left))
            texts.append(left.pop(index))
        asked = iter(texts + left)
        return source.replace(text, QUESTION.sub(lambda _: next(asked), text), 1)


@lru_cache(maxsize=1)
def all_exercises():
    """All exercises, in order: a tuple of `Exercise`.

    Examples
    --------
    >>> first = all_exercises()[0]
    >>> first.name, first.title, first.points
    ('01_softmax', 'Softmax: scores become weights that sum to 1.', 2)
    >>> first.student(seed=0).splitlines()[-1]
    '    raise NotImplementedError("your turn")'
    """
    found = [(page, folder.name) for folder in files(__package__).joinpath("exercises").iterdir()
             if folder.is_dir() for page in folder.iterdir()
             if re.match(r"\d\d_.*\.py$", page.name)]
    return tuple(Exercise(page.name[:-3], page.read_text(encoding="utf-8"), topic)
                 for page, topic in sorted(found, key=lambda pair: pair[0].name))


def find_exercises(names=None):
    """The exercises of these names or numbers, in order; all by default.

    Raises
    ------
    ValueError
        If there is no such exercise.
    """
    found = {exercise.name: exercise for exercise in all_exercises()}
    numbers = {name[:2]: name for name in found}
    for name in names or ():
        check_choice("exercises", "name", numbers.get(name.zfill(2), name), list(found))
    wanted = {numbers.get(name.zfill(2), name) for name in names or found}
    return [exercise for exercise in found.values() if exercise.name in wanted]


def find_exercise(word, among=None):
    """The exercise of a number, a name, or a function or subject without its number.

    Parameters
    ----------
    word : int or str
    among : sequence of Exercise, optional
        Where to look; among all by default.

    Examples
    --------
    >>> find_exercise(10).name, find_exercise("figure_mask").name
    ('10_layer_norm_backward', '31_figure_mask')

    Raises
    ------
    ValueError
        If there is none, or several contain the word.
    """
    word, among = str(word).removesuffix(".py"), all_exercises() if among is None else among
    names = [exercise.name for exercise in among]
    found = ([name for name in names if word in (name, name[3:]) or word.zfill(2) == name[:2]]
             or [name for name in names if len(word) > 2 and word in name])
    if len(found) > 1:
        raise ValueError(f"exercises: {shortened(word, 60)!r} may be {', '.join(found)}; give the "
                         "number of one.")
    if not found:
        raise ValueError(f"exercises: there is no exercise {shortened(word, 60)!r}"
                         f"{did_you_mean(word, [*names, *(name[3:] for name in names)])}; "
                         f"choose from {', '.join(names)}.")
    return next(exercise for exercise in among if exercise.name == found[0])


def exercises_of_lesson(number):
    """The exercises that practise what a lesson teaches, by their numbers: the headers say which.

    Examples
    --------
    >>> [exercise.name for exercise in exercises_of_lesson(9)]
    ['35_figure_tiles', '44_attention_tile', '45_attention_tile_backward']
    """
    return [exercise for exercise in all_exercises() if number in exercise.lessons]


def _block(mark):
    """A pattern of a marked block: (indentation, name, lines)."""
    return re.compile(rf"^( *)# BEGIN {mark} ?(.*)\n((?:.*\n)*?) *# END {mark}\n?", re.MULTILINE)


def _indented(lines, indentation):
    return "".join(f"{indentation}{line}\n" if line else "\n" for line in lines.splitlines())
