"""Exercises as files: what the teacher has, what the student gets, and what differs from seed to seed.

A page in `exercises/` is a module of its own that runs as it is: the solution stands in it. Marks say what becomes of its lines:

    # BEGIN SOLUTION ... # END SOLUTION   left out for the student, who gets `raise NotImplementedError`
    # BEGIN BUG what ... # END BUG        commented out; the student gets one of them in place of the solution, chosen by the seed
    # BEGIN TEACHER ... # END TEACHER     left out for the student
    # BEGIN VARIANT name ... # END VARIANT    one of several is kept, chosen by the seed
    NAME = value  # VARIANT value value ...   likewise
"""

import json
import re
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from pathlib import Path

import numpy as np

from numformer.checks import check_choice, check_whole

STUB = 'raise NotImplementedError("your turn")'
MANIFEST = "assignment.json"


@dataclass(frozen=True)
class Page:
    """One exercise.

    Parameters
    ----------
    name : str
        Of the file, without its ending.
    source : str
        The page with all marks.
    """

    name: str
    source: str

    @property
    def title(self):
        return self.source.split('"""')[1].splitlines()[0]

    @property
    def text(self):
        """What stands below the title."""
        return "\n".join(self.source.split('"""')[1].splitlines()[1:]).strip()

    @property
    def kind(self):
        """"check" where a function is held against the truth, "answers" where questions are answered."""
        return "answers" if re.search("^# answers:", self.source, re.MULTILINE) else "check"

    def said(self, key):
        """What the header says: "goal", "needs", "minutes", "points"; None of what it leaves out, "levels" or "varies with"."""
        found = re.search(f"^# {key}: (.*)$", self.source, re.MULTILINE)
        return found and found[1]

    @property
    def points(self):
        return int(self.said("points"))

    @property
    def worth(self):
        return f"{self.points} point{'s' if self.points > 1 else ''}"

    @property
    def levels(self):
        """Which levels of `numformer.check` are asked for; None for all."""
        levels = self.said("levels")
        return levels and levels.split(", ")

    def student(self, seed):
        """The page without what the student has to find, as this seed has it."""
        source, bug = self._variant(seed)
        inside = bug[1] if bug else STUB
        source = _block("SOLUTION").sub(lambda found: _indented(inside, found[1]), source)
        return _block("TEACHER").sub("", source).rstrip() + "\n"

    def teacher(self, seed):
        """The page with its solution, as this seed has it."""
        source, bug = self._variant(seed)
        return source.replace("# goal:", f"# the student's bug: {bug[0]}\n# goal:", 1) if bug else source

    def solved(self, seed):
        """The teacher's page without what is for teachers alone: graders' notebooks cut the solution out themselves."""
        return _block("TEACHER").sub("", self.teacher(seed)).rstrip() + "\n"

    def function(self, seed):
        """The name of the function that is looked at."""
        return "answers" if self.kind == "answers" else re.search(r"^def (\w+)", self._variant(seed)[0], re.MULTILINE)[1]

    def _variant(self, seed):
        """(the page with one of each variant and without bugs, (name, lines) of the chosen bug or None)."""
        rng = np.random.default_rng([seed, int(self.said("varies with") or self.name[:2])])        # with another page: the same is chosen
        source = re.sub(r"^(\w+ = ).*?  # VARIANT (.*)$", lambda found: found[1] + str(rng.choice(found[2].split())), self.source,
                        flags=re.MULTILINE)
        variants = _block("VARIANT").findall(source)
        if variants:
            kept = variants[rng.integers(len(variants))][1]
            source = _block("VARIANT").sub(lambda found: found[3] if found[2] == kept else "", source)
            source = re.sub("\n{4,}", "\n\n\n", source)
        bugs = [(name, re.sub(r"^ *# ?", "", lines, flags=re.MULTILINE).rstrip()) for _, name, lines in _block("BUG").findall(source)]
        return _block("BUG").sub("", source).rstrip() + "\n", bugs[rng.integers(len(bugs))] if bugs else None


@lru_cache(maxsize=1)
def pages():
    """All exercises, in their order: a tuple of `Page`.

    Examples
    --------
    >>> first = pages()[0]
    >>> first.name, first.title, first.points
    ('01_softmax', 'Softmax: scores become weights that sum to 1.', 2)
    >>> first.student(seed=0).splitlines()[-1]
    '    raise NotImplementedError("your turn")'
    """
    folder = files(__package__).joinpath("exercises")
    return tuple(Page(file.name[:-3], file.read_text(encoding="utf-8"))
                 for file in sorted(folder.iterdir(), key=lambda file: file.name) if re.match(r"\d\d_.*\.py$", file.name))


def chosen_pages(names=None):
    """Those of these names or numbers; all unless given.

    Raises
    ------
    ValueError
        If there is no such exercise.
    """
    found = {page.name: page for page in pages()}
    numbers = {page.name[:2]: page.name for page in pages()}
    for name in names or ():
        check_choice("exercises", "name", numbers.get(name.zfill(2), name), list(found))
    wanted = {numbers.get(name.zfill(2), name) for name in names or found}
    return [page for page in pages() if page.name in wanted]


def write_assignment(out, seed=0, names=None):
    """Make the folders `student` and `teacher` in `out`.

    Parameters
    ----------
    out : path
    seed : int
        Other seeds have other bugs, numbers and functions.
    names : sequence of str, optional
        Which exercises; all unless given.

    Returns
    -------
    list of Path
        All files that were written.

    Raises
    ------
    ValueError
        If one of the folders is there already: nobody's work is written over.
    """
    check_whole("exercises", "seed", seed, least=0)
    chosen = chosen_pages(names)
    folders = {who: Path(out) / who for who in ("student", "teacher")}
    for folder in folders.values():
        if folder.exists():
            raise ValueError(f"{folder} is there already; choose another folder, so that nobody's work is written over.")
    written = []
    for who, folder in folders.items():
        folder.mkdir(parents=True)
        texts = {f"{page.name}.py": getattr(page, who)(seed) for page in chosen}
        texts[MANIFEST] = json.dumps({"seed": seed, "exercises": [page.name for page in chosen]}, indent=2) + "\n"
        texts["README.md" if who == "student" else "GUIDE.md"] = overview(chosen, who)
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
            written.append(folder / name)
    return written


def overview(chosen, who):
    """What a folder begins with: a table of its exercises, and what to do with them."""
    rows = [f"| `{page.name}.py` | {page.title} | {page.said('minutes')} | {page.points} |" for page in chosen]
    table = "\n".join(["| file | exercise | minutes | points |", "|---|---|---|---|", *rows])
    total = f"{sum(int(page.said('minutes')) for page in chosen)} minutes, {sum(page.points for page in chosen)} points"
    if who == "student":
        return f"""# Exercises

Each file is one exercise: read its text, and replace `raise NotImplementedError` with your own lines, or mend the line that is wrong.
`numformer grade .` in this folder says how far you are, and what is wrong first; nothing is sent anywhere.

{table}

{total}.
"""
    goals = "\n".join(f"| `{page.name}` | {page.said('goal')} | {page.said('needs')} |" for page in chosen)
    return f"""# For teachers

The files beside this one are those of the students with their solutions; `assignment.json` says by which seed they were made. Another
seed has other bugs, other numbers in the figures and other activation functions: `numformer exercises --seed N`.

{table}

{total}.

## Goals, and what has to come before

| exercise | goal | needs |
|---|---|---|
{goals}

## Grades

`numformer grade FOLDER --json` grades a student's folder. A function gets its points if it is right on random problems whose shapes it
has not seen, to 1e-9 in float64; there is no half of a right gradient. A figure's questions each get their part of the points. Every
exercise runs in a process of its own and is stopped after 20 seconds: whatever one does, the others are graded.

Grades are for learning, not for examinations: the solutions are in the package that students have, a file can call them, and
`assignment.json` lies in the student's folder. Where grades count, read what was handed in.

A rubric, where you grade by hand: half for the derivation (which terms, and why there are no others), a quarter for right shapes and sums,
a quarter for code that reads like the equation. A gradient that is right without a derivation is worth half.

`numformer exercises --notebook nbgrader`, or `otter`, also writes all of this as one notebook for that grader, here in this folder:
`nbgrader generate_assignment` or `otter assign` makes the students' from it. numformer has to be installed where it grades. There a
figure's questions have to be right all together.
"""


def _block(mark):
    """A pattern of a marked block: (indentation, name, lines)."""
    return re.compile(rf"^( *)# BEGIN {mark} ?(.*)\n((?:.*\n)*?) *# END {mark}\n?", re.MULTILINE)


def _indented(lines, indentation):
    return "".join(f"{indentation}{line}\n" if line else "\n" for line in lines.splitlines())
