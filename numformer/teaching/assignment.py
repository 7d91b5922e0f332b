"""An assignment: a folder of exercises for students, and one with solutions for their teacher."""

import json
from pathlib import Path

from numformer.checks import check_whole
from numformer.teaching.exercise import find_exercises

MANIFEST = "assignment.json"


def write_assignment(out, seed=0, names=None):
    """Write the folders `student` and `teacher` into `out`.

    Parameters
    ----------
    out : path
    seed : int
        Chooses bugs, numbers and functions.
    names : sequence of str, optional
        Names or numbers of exercises; all by default.

    Returns
    -------
    list of Path
        The files written.

    Raises
    ------
    ValueError
        If one of the folders exists: no work is overwritten.
    """
    check_whole("exercises", "seed", seed, least=0)
    chosen = find_exercises(names)
    folders = {who: Path(out) / who for who in ("student", "teacher")}
    for folder in folders.values():
        if folder.exists():
            raise ValueError(f"{folder} exists already; choose another folder, so that no work is "
                             "overwritten.")
    written = []
    manifest = {"seed": seed, "exercises": [exercise.name for exercise in chosen]}
    for who, folder in folders.items():
        folder.mkdir(parents=True)
        texts = {f"{exercise.name}.py": getattr(exercise, who)(seed) for exercise in chosen}
        texts[MANIFEST] = json.dumps(manifest, indent=2) + "\n"
        if who == "student":
            texts["README.md"] = student_readme(chosen)
        else:
            texts["GUIDE.md"] = teacher_guide(chosen)
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
            written.append(folder / name)
    return written


def _table(exercises):
    """A table of exercises, and the sums of minutes and points."""
    rows = [f"| `{exercise.name}.py` | {exercise.title} | {exercise.header('minutes')} | "
            f"{exercise.points} |" for exercise in exercises]
    minutes = sum(int(exercise.header("minutes")) for exercise in exercises)
    points = sum(exercise.points for exercise in exercises)
    head = ["| file | exercise | minutes | points |", "|---|---|---|---|"]
    return "\n".join([*head, *rows]) + f"\n\nTotal: {minutes} minutes, {points} points."


def student_readme(exercises):
    """The README of the student's folder."""
    return f"""# Exercises

Each file is one exercise. Read its text, then replace `raise NotImplementedError` with your own
lines, or correct the line that is wrong. `numformer grade .` in this folder shows your points and
the first error of each exercise. Nothing is sent anywhere.

{_table(exercises)}
"""


def teacher_guide(exercises):
    """The guide in the teacher's folder: goals, requirements, and how grading works."""
    goals = "\n".join(f"| `{exercise.name}` | {exercise.header('goal')} | "
                      f"{exercise.header('needs')} |" for exercise in exercises)
    return f"""# For teachers

The files in this folder are those of the students, with their solutions. `assignment.json` holds
the seed. Another seed gives other bugs, other numbers in the figures and other activation
functions: `numformer exercises --seed N`.

{_table(exercises)}

## Goals and requirements

| exercise | goal | needs |
|---|---|---|
{goals}

## Grading

`numformer grade FOLDER --json` grades a student's folder. A function gets its points if it is right
on random problems of unseen shapes, to 1e-9 in float64; there are no partial points for a gradient.
Each question about a figure gets its share of the points. A file that was not touched is "not done
yet". Every exercise runs in a process of its own, which is stopped after 20 seconds: no exercise
can prevent the others from being graded.

A student's file is a program, and grading runs it **with your rights**: it can read, change, delete
and send what you can, and stop your other programs. Limits of time, of memory (1 GiB), of the size
of files (16 MiB) and, on Linux and not for root, of the number of processes keep accidents small;
they are no protection from intent, and a program that a file starts can go on in the background.
Where no process can be started, as in a browser, files are judged in the grader's own, and the
limits do not hold: an endless loop there never ends, and what a file changes stays changed.
Grade the files of people whom you do not know as another user who owns nothing, or in a container
without a network, with an image that has numformer:

    docker run --rm --network none --memory 4g --pids-limit 200 \\
        -v "$PWD/FOLDER:/work:ro" IMAGE numformer grade /work

Before that, replace `assignment.json` in their folder by yours: it says which exercises count.

The grades are for learning, not for examinations: the solutions are in the package that the
students have, a file can call them, and it shares a process with the code that judges it. It finds
no name under which it could simply write its own grade, but a determined file can change that code.
If grades count, read the files.

A rubric for grading by hand: half for the derivation (which terms there are, and why there are no
others), a quarter for correct shapes and sums, a quarter for code that reads like the equation. A
correct gradient without a derivation gets half of the points.

`numformer exercises --notebook nbgrader`, or `otter`, also writes everything as one notebook for
that grader into this folder; `nbgrader generate_assignment` or `otter assign` makes the students'
version from it. numformer must be installed where the notebook is graded. There, a figure gets its
points only if all its answers are right.
"""
