"""An assignment: a folder of exercises for students, and one with solutions for their teacher."""

import re
from pathlib import Path
from textwrap import wrap

from numformer.checks import check_whole
from numformer.files import whole_folders
from numformer.teaching.exercise import find_exercises
from numformer.teaching.manifest import MANIFEST, Manifest
from numformer.teaching.support.credit import RULE
from numformer.teaching.support.effort import A_LINE, A_MISTAKE, AN_IDEA, HARD, MEDIUM, effort
from numformer.teaching.variants.written import CONSEQUENCES, DERIVATION, rubric


def write_assignment(out, seed=0, names=None, of_teachers=None):
    """Write the folders `student` and `teacher` into `out`.

    Parameters
    ----------
    out : path
    seed : int
        Chooses bugs, numbers and functions.
    names : sequence of str, optional
        Names or numbers of exercises; all by default.
    of_teachers : dict of str to str, optional
        Names and texts of further files for the folder `teacher`.

    Returns
    -------
    list of Path
        The files written.

    Raises
    ------
    ValueError
        If one of the folders exists: no work is overwritten.
    OSError
        If a file cannot be written; then neither folder stays.
    """
    check_whole("exercises", "seed", seed, least=0)
    chosen = find_exercises(names)
    folders = {who: Path(out) / who for who in ("student", "teacher")}
    for folder in folders.values():
        if folder.exists():
            raise ValueError(f"{folder} exists already; choose another folder, so that no work is "
                             "overwritten.")
    written = []
    manifest = Manifest(tuple(exercise.name for exercise in chosen), seed)
    with whole_folders(*folders.values()) as temporary:
        for (who, folder), unfinished in zip(folders.items(), temporary):
            texts = {f"{exercise.name}.py": getattr(exercise, who)(seed) for exercise in chosen}
            texts[MANIFEST] = manifest.text()
            if who == "student":
                texts["README.md"] = student_readme(chosen, seed)
            else:
                texts |= {"GUIDE.md": teacher_guide(chosen, seed)} | (of_teachers or {})
            for name, text in texts.items():
                (unfinished / name).write_text(text, encoding="utf-8")
                written.append(folder / name)
    return written


def table(exercises, form):
    """A table of exercises, each in the form that `form(exercise)` gives, and the sums of minutes
    and points."""
    efforts = [effort(exercise, form(exercise)) for exercise in exercises]
    rows = [f"| `{exercise.name}.py` | {exercise.title} | {found.difficulty} | {found.minutes} | "
            f"{exercise.points} |" for exercise, found in zip(exercises, efforts)]
    minutes = sum(found.minutes for found in efforts)
    points = sum(exercise.points for exercise in exercises)
    head = ["| file | exercise | difficulty | minutes | points |", "|---|---|---|---|---|"]
    return "\n".join([*head, *rows]) + f"\n\nTotal: {minutes} minutes, {points} points."


def _efforts(exercises, seed):
    """A table of what was counted, and of the points by part."""
    rows = []
    for exercise in exercises:
        found = effort(exercise, seed)
        rows.append(f"| `{exercise.name}` | {found.lines} | {found.ideas}: "
                    f"{'; '.join(exercise.ideas)} | {found.mistakes} | {found.minutes} | "
                    f"{exercise.header('parts') or 'equal'} |")
    return "\n".join(rows)


def filled(text):
    """A text with its paragraphs in lines of 100 columns; tables and code stay as they are."""
    return "\n\n".join(
        part if re.match(r"[|#]|    ", part) else "\n".join(wrap(part, 100, break_on_hyphens=False))
        for part in text.split("\n\n")) + "\n"


def student_readme(exercises, seed):
    """The README of the student's folder."""
    first = exercises[0].name[:2]
    return filled(f"""# Exercises

Each file is one exercise. Read its text, then replace `raise NotImplementedError` with your own
lines, or correct the line that is wrong. In this folder:

    numformer grade              # your points, and the first error of each exercise
    numformer grade {first}           # of one exercise
    numformer hint {first}            # a hint; again, the next one: there are three
    numformer solution {first}        # our solution, once yours has all points
    numformer grade --html progress.html
    numformer assemble           # train a model made of your functions

Nothing is sent anywhere. While a file is graded it may write into a temporary folder only.
`progress.json` counts your attempts and hints; it costs no points.

A function that is partly right gets some of the points, most of them for right numbers on plain
random problems. A file whose header says "all or nothing" gets no points for parts.

{table(exercises, lambda _: seed)}""")


def teacher_guide(exercises, seed):
    """The guide in the teacher's folder: goals, requirements, and how grading works."""
    goals = "\n".join(f"| `{exercise.name}` | {exercise.header('goal')} | "
                      f"{exercise.header('needs')} | {', '.join(map(str, exercise.lessons))} |"
                      for exercise in exercises)
    return filled(f"""# For teachers

The files in this folder are those of the students, with their solutions. `assignment.json` holds
the seed. It chooses one of two or three bugs, one of three activation functions and one of three or
more sets of numbers in a figure: `numformer exercises --seed N`. So another seed may make the same
choice; an answer in words about a figure is the same for most seeds; and the other functions to
write do not depend on it.

{table(exercises, lambda _: seed)}

## Goals and requirements

| exercise | goal | needs | lessons |
|---|---|---|---|
{goals}

## Grading

`numformer grade FOLDER` grades a student's folder, `numformer grade 10 FOLDER` one exercise, and
`numformer grade CLASS/*` all folders of a class, as one table; `--html FILE` writes it as a page,
`--csv FILE` for a spreadsheet, and `--json` prints it with all digits. A function gets all points
if it is right on random problems of unseen shapes, to 1e-9 in float64. The feedback ends with the
seed of these problems, that of the assignment: `numformer.check(name, function, seed=N)` repeats
it. A file that was not touched is "not done yet". A function that answers twice differently for the
same arguments is "random" and gets no points, as they would be random, too.

A function that is wrong somewhere gets points by part, the same at every grading. "equal" in the
table below means equal shares of the outputs, or of the questions about a figure; "all or nothing"
is for a bug to correct, where most outputs were right before. {RULE}

For a wrong function, `check` names the likely cause, except where finding the cause is the
exercise: there the feedback says which gradient differs, where, and by how much. The cause is the
third hint, and it is named when the function is right.

## Hints, difficulty and time

`numformer hint N FOLDER` shows a hint, at each call the next: the idea, the step or the shape,
nearly the line. They are in the files of this folder, under the header. `progress.json` in the
student's folder counts hints and attempts, which are gradings of a changed file. A student can edit
it: it serves learning and costs no points.

| exercise | lines | ideas | mistakes | minutes | points by part |
|---|---|---|---|---|---|
{_efforts(exercises, seed)}

The minutes are an estimate from what can be counted: {A_LINE:g} for each line of the solution (of a
bug: of the function to read), {AN_IDEA:g} for each idea, and {A_MISTAKE:g} for each mistake of this
function that `check` knows (of a bug: for each bug that it may be), rounded to 5. An exercise of
{MEDIUM} minutes or more is medium, of {HARD} or more hard. The list of ideas and these numbers are
ours: no class was timed.

## Safety

Every exercise is judged by a process of its own, which is stopped after 20 seconds. An exercise
that cannot be judged gets no points, and the others are graded.

The student's file runs in one process more. It gets arguments and sends back arrays and numbers;
the reference, the comparison and the points are with the judge, whose process never runs a line of
the file, and imports nothing from the folder where the file can write. So points come from right
numbers alone: there is no result that a file could write, and no comparison that it could change.

On Linux 6.2 or later (with Landlock, which most distributions have) the process of the file changes
no content of a file outside of a temporary folder of its own, which is removed, and does not look
into other processes; since 6.12 it sends no signals to them. On Linux with a processor of x86_64 or
aarch64 a filter of system calls also refuses it to change permissions, owners, times and attributes
of files, limits and priorities of other processes, to leave queues and shared memory in the kernel,
and to ask other programs through Unix sockets (those of the network stay open). Where both hold,
what it has started ends with it.

What a file still can do: call the reference, for numformer is there to be imported, and the
solutions with it; hold a table of answers, for whoever knows the seed of the assignment, which is
in the student's folder, knows the problems; and hide that its function, with right numbers, writes
into its arguments, for only its own process sees that. So the grades are for learning, not for
examinations. If grades count, read the files.

A student's file is a program, and grading runs it **with your rights**: it can read what you can,
and send it through the network. As root it can do more, such as set the clock: do not grade as
root. Without Landlock, as on macOS, it can also change and delete your files, this package
included; there, and on Linux before 6.12, it can stop your other programs. Without the filter it
can close files to you, this package included, so that no later exercise is judged, and lower the
limits of the grader, which then ends, or of the judge, which then leaves a process in the
background. Other systems than Linux do not end a program that it leaves there. Limits of time, of
memory (1 GiB), of the size of files (16 MiB) and, on Linux and not for root, of the number of
processes keep accidents small; they are no protection from intent: many processes at once, or many
files, slow down the computer until they end. Where a system cannot fork processes, as in a browser
or on Windows, a file shares a process with the code that judges it, and can change that code; in a
browser a limit of time stops loops of Python, but not one long call of NumPy, and no other limit
holds.
Grade the files of people whom you do not know as another user who owns nothing, or in a container
without a network, with an image that has numformer:

    docker run --rm --network none --memory 4g --pids-limit 200 \\
        -v "$PWD/FOLDER:/work:ro" IMAGE numformer grade /work

Before that, replace `assignment.json` in their folder by yours: it says which exercises count.

In a notebook, `check` and the tests for nbgrader and Otter run in the student's own process: NumPy
itself compares there, also if the student's code has replaced its functions, but a file that sets
out to deceive can change this package, or NumPy further inside. `Verdict.apart` says whether a
process of its own was used.

A rubric for grading a derivation by hand: {rubric(DERIVATION)}. {CONSEQUENCES}
`numformer exercises --students` gives each student a page for it.

`numformer exercises --notebook nbgrader`, or `otter`, also writes everything as one notebook for
that grader into this folder; `nbgrader generate_assignment` or `otter assign` makes the students'
version from it. numformer must be installed where the notebook is graded. There, a figure gets its
points only if all its answers are right.""")
