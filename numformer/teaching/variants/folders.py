"""The two folders of a variant: what students get, and what their teacher keeps."""

import os
import shutil
from contextlib import suppress
from pathlib import Path

from numformer.teaching.assignment import filled, table
from numformer.teaching.exercise import Exercise, find_exercises
from numformer.teaching.manifest import MANIFEST
from numformer.teaching.support.credit import RULE
from numformer.teaching.variants.key import KEY
from numformer.teaching.variants.written import (
    BUG, CONSEQUENCES, DERIVATION, model_page, page, points_of, rubric)

# what a variant is good for, in the help, the guide of a key and notebooks/TEACHING.md
PROTECTS = """\
A variant protects against three things. Nobody without the key knows the seed of the problems
that grade a function, so a file with a table of their answers gets no points. A salt chooses
bugs, activation functions, numbers and the order of questions, so last term's activation
function and numbers are wrong where the choice is another one: by chance it may be the same, of
two bugs one time in two. With --unlike KEY no choice is that of the other key, and exercises
whose answers are the same all the same, as those of 36_figure_steps, are named. And the folder
of another term is refused, because its key is another one. A variant does not protect against
the rest. A function such as softmax is the same every term, so last term's right function is
right again, and so is the corrected function of a bug; of the answers to a question, words such
as "rounding" stay right, and so do answers that are written as code, such as T - 1 - BEFORE; a
derivation can be copied, and the order of questions is no obstacle; a friend or a program can
solve this term's sheet; and the installed package holds all solutions, bugs and the code that
computes the answers, for whoever opens it. Where grades count, read the files and ask about
them."""


def write_variant(students, teachers, key):
    """Write the students' folder of a variant, and its key.

    Parameters
    ----------
    students, teachers : path
        Folders that do not exist, or are empty. A teacher's folder that holds this key already
        stays as it is.
    key : Key

    Returns
    -------
    list of Path
        The files written; nobody but the owner can read those of the teacher.

    Raises
    ------
    ValueError
        If a folder holds something, or one would be inside the other.
    OSError
        If they cannot be written; nothing is left behind.
    """
    students, teachers = Path(students), Path(teachers)
    _check_apart(students, teachers)
    kept = (teachers / KEY).exists()                  # the key, of which this is written again
    new = [(students, students_files, 0o777, 0o666)]
    if not kept:
        new.append((teachers, teachers_files, 0o700, 0o600))
    for folder, *_ in new:
        if os.path.lexists(folder) and not (folder.is_dir() and not any(folder.iterdir())):
            raise ValueError(f"{folder} exists already, and is no empty folder; choose another, so "
                             "that no work is overwritten.")
    made, written = [], []
    try:
        for folder, files, mode, of_files in new:
            made += _make(folder, mode)
            for name, text in files(key).items():
                path = folder / name
                written.append(path)
                with open(path, "x", encoding="utf-8", opener=lambda name, flags: os.open(
                        name, flags, of_files)) as file:
                    file.write(text)
    except BaseException as error:
        if isinstance(error, OSError) and error.filename is None:     # a full disk leaves it out
            error.filename = str(written[-1])
        for path in written:
            path.unlink(missing_ok=True)
        for folder in made:
            shutil.rmtree(folder, ignore_errors=True)
        raise
    return written


def students_files(key):
    """{name: text} of the students' folder."""
    return {"README.md": _readme(key), MANIFEST: key.manifest.text(),
            **_pages(key, Exercise.student, page)}


def teachers_files(key):
    """{name: text} of the teacher's folder, in which `key.json` is the secret."""
    return {KEY: key.text(), "GUIDE.md": _guide(key), MANIFEST: key.manifest.text(),
            **_pages(key, Exercise.teacher, model_page)}


def _pages(key, code, words):
    """{name: text} of each exercise: its code and, where there is a page, its answer in words."""
    files = {}
    for exercise, form in _chosen(key):
        files[f"{exercise.name}.py"] = code(exercise, form)
        if points_of(exercise, form):
            files[f"{exercise.name}.md"] = words(exercise, form)
    return files


def _chosen(key):
    return [(exercise, key.forms[exercise.name]) for exercise in find_exercises(key.exercises)]


def _check_apart(students, teachers):
    """ValueError if one of two folders would be inside the other."""
    one, other = (Path(os.path.realpath(each)) for each in (students, teachers))
    if one == other or one in other.parents or other in one.parents:
        raise ValueError(f"the key {teachers} and the students' folder {students} must be apart: "
                         "students would get the key; choose another folder for one of them.")


def _make(folder, mode):
    """Make a folder, and those above it; the uppermost that was made, in a list."""
    missing = [each for each in (folder, *folder.parents) if not os.path.lexists(each)]
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        if missing:
            folder.mkdir(mode=mode)
    except OSError:
        for each in missing[1:]:
            with suppress(OSError):
                each.rmdir()
        raise
    return missing[-1:]


def _readme(key):
    chosen = _chosen(key)
    number = chosen[0][0].name[:2]
    checked = "".join(f"""
    python -i {each.name}.py
    >>> import numformer
    >>> numformer.check("{each.function(form)}", {each.function(form)})
""" for each, form in [each for each in chosen if each[0].kind == "check"][:1])
    says = ("`numformer.check` tests a function that it knows on random problems of its own, and "
            "says what is wrong first. " if checked else "")
    in_words = sum(points_of(*each) for each in chosen)
    asked = f"""

## In words

A page such as `{next(each.name for each, form in chosen if points_of(each, form))}.md` asks for the
answer in words that belongs to the code, in steps with their points: {in_words} points in all,
marked by hand. {CONSEQUENCES}""" if in_words else ""
    return filled(f"""# Exercises

Each file is one exercise. Read its text, then replace `raise NotImplementedError` with your own
lines, or correct the line that is wrong. In this folder:

    numformer hint {number}            # a hint; again, the next one: there are three
{checked}
{says}You hand in this folder; your teacher grades it, on problems that only the key of this sheet
makes. `assignment.json` stays as it is.

A function that is partly right gets some of the points. {RULE} A file whose header says "all or
nothing" gets no points for parts.{asked}

{table([each for each, _ in chosen], lambda exercise: key.forms[exercise.name])}""")


def _guide(key):
    chosen = _chosen(key)
    goals = "\n".join(f"| `{each.name}` | {each.header('goal')} | {each.header('needs')} | "
                      f"{each.bug(form) or ''} | {points_of(each, form) or ''} |"
                      for each, form in chosen)
    return filled(f"""# The key of variant {key.variant}

Keep this folder; do not give it out. `key.json` grades the variant, and without it no points can be
told: keep a copy. The other files are those of the students with solutions, hints and, in the pages
ending in `.md`, our answers in words.

    numformer grade --key KEY class/ada                    # one student; KEY is this folder
    numformer grade --key KEY class/* --csv scores.csv     # all
    numformer grade --key KEY KEY                          # a try: our solutions get all points
    numformer exercises --students again --key KEY         # the same students' folder, once more

The salt is {repr(key.salt) if key.salt else "none: bugs and numbers are those of a seed"}.

{PROTECTS}

A file of a student runs with your rights when it is graded, and can read what you can, this folder
included: the guide that `numformer exercises` writes for teachers says how to grade in a container.

{table([each for each, _ in chosen], lambda exercise: key.forms[exercise.name])}

| exercise | goal | needs | the bug | points in words |
|---|---|---|---|---|
{goals}

## Answers in words

`numformer grade --key` says how many lines a student wrote, and leaves a column of the CSV empty
for your points where there are any. A derivation: {rubric(DERIVATION)}. A bug: {rubric(BUG)}.
Answers about a figure or with numbers: 1 point for how each was found. {CONSEQUENCES}""")
