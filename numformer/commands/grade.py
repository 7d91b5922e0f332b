"""numformer grade: grade exercises of a student, or the folders of a class.

    numformer grade 1 solved --html graded.html
    numformer grade --key class-key class
"""

import os
import sys
from pathlib import Path

from numformer.checks import check_number
from numformer.commands import UsageError
from numformer.commands.shared.output import print_json
from numformer.files import write_atomically
from numformer.teaching import grade
from numformer.teaching.exercise import find_exercise
from numformer.teaching.grading import SECONDS, assignment_of
from numformer.teaching.support.layout import wrapped
from numformer.teaching.support.progress import (
    Graded, class_page, next_step, shown_parts, shown_words, student_page)
from numformer.teaching.support.record import count_attempts, with_record
from numformer.teaching.support.scores import scores
from numformer.teaching.variants.key import read_key
from numformer.terminal import printable, shortened

INDENT = 14                                           # of feedback, below a name


def add_arguments(parser):
    parser.add_argument("words", metavar="EXERCISE_OR_FOLDER", nargs="*", help="exercises by "
                        "number or name (default: all), and a student's folder, written by "
                        "`numformer exercises` (default: this one); several folders are a class")
    parser.add_argument("--seconds", type=float, default=SECONDS, metavar="S", help="time limit "
                        f"of one exercise (default: {SECONDS:g})")
    parser.add_argument("--key", metavar="FOLDER", default=None, help="the key of the variant that "
                        "students got, made by `numformer exercises --students`")
    parser.add_argument("--html", metavar="FILE", default=None, help="also write a page with the "
                        "progress")
    parser.add_argument("--csv", metavar="FILE", default=None, help="also write a table for "
                        "spreadsheets: a row for each student, a column for each exercise")


def run(arguments):
    try:
        check_number("grade", "seconds", arguments.seconds, above=0, below=1e6)
        names, folders = _sorted(arguments.words)
        _check_file("--html", arguments.html, ".html", ".htm")
        _check_file("--csv", arguments.csv, ".csv")
        key = read_key(arguments.key) if arguments.key is not None else None
        folders = _of_students(folders)
        if len(folders) > 1:
            students = [_student(folder, name, names, arguments.seconds, key)
                        for folder, name in zip(folders, _names_of(folders))]
            result, page = _show_class(students), class_page(students)
        else:
            (folder,) = folders or ["."]
            rows = grade(folder, arguments.seconds, names=names, key=key)
            if key is None:                           # else by the teacher, and no attempt
                count_attempts(folder, rows)
            graded = Graded(_name(folder), with_record(folder, rows), assignment_of(folder, key))
            students, result, page = [graded], _show_student(graded), student_page(graded)
    except ValueError as error:
        raise UsageError(str(error)) from None
    if arguments.html is not None:
        write_atomically(arguments.html, page.encode("utf-8", "replace"))
        print(f"wrote {printable(arguments.html)}; open it in a browser")
    if arguments.csv is not None:
        write_atomically(arguments.csv, scores(students).encode("utf-8", "replace"))
        print(f"wrote {printable(arguments.csv)}")
    if arguments.json:
        print_json(result)
    return int(any("trouble" in student for student in result.get("students", ())))


def _sorted(words):
    """(names of exercises, folders) of the words of the command line."""
    names, folders = [], []
    for word in words:
        try:
            exercise, error = find_exercise(word), None
        except ValueError as found:
            exercise, error = None, str(found)
        if exercise and os.path.isdir(word):
            raise ValueError(f"grade: {word} is a folder and also the exercise {exercise.name}; "
                             f"write ./{word} for the folder, or {exercise.name}.")
        if exercise:
            names.append(exercise.name)
        elif os.path.isdir(word):
            folders.append(word)
        elif "may be" in error:
            raise ValueError(error)
        else:
            raise ValueError(f"grade: {shortened(word, 200)!r} is neither an exercise nor a folder;"
                             " give a folder that `numformer exercises` made, and exercises by "
                             "number, such as 10.")
    return names, folders


def _of_students(folders):
    """The folders without those of teachers, which `class/*` names too; one alone is graded."""
    kept = [folder for folder in folders if not Path(folder, "GUIDE.md").is_file()]
    if len(folders) == 1 or not kept:
        return folders
    for folder in folders:
        if folder not in kept:
            print(printable(f"numformer grade: {folder} is left out: it has a GUIDE.md, as "
                            "teachers' folders have"), file=sys.stderr)
    return kept


def _check_file(flag, path, *suffixes):
    if path is None:
        return
    if Path(path).suffix.lower() not in suffixes:
        raise ValueError(f"grade: {flag} {path} must end in {suffixes[0]}.")
    if not Path(path).parent.is_dir():
        raise ValueError(f"grade: {flag} {path}: there is no folder {Path(path).parent}.")


def _student(folder, name, names, seconds, key):
    """The grades of one folder of a class, into which nothing is written."""
    try:
        rows = grade(folder, seconds, names=names, key=key)
        return Graded(name, with_record(folder, rows), assignment_of(folder, key))
    except ValueError as error:
        return Graded(name, [], trouble=printable(str(error)))


def _name(folder):
    return printable(Path(folder).resolve().name or folder)


def _names_of(folders):
    """A name for each folder: its own, or its path if another has the same."""
    names = list(map(_name, folders))
    return [name if names.count(name) == 1 else printable(folder)
            for name, folder in zip(names, folders)]


def _show_student(graded):
    for row in graded.rows:
        head = f"{row['points']:>5g} of {row['of']}  {row['name']}: "
        print(wrapped(row["feedback"], " " * INDENT, head))
        if parts := shown_parts(row):
            print(wrapped(parts, " " * INDENT))
        if row.get("written"):
            print(wrapped(shown_words(row["written"]), " " * INDENT))
    print(f"{graded.points:g} of {graded.of} points")
    print(wrapped(next_step(graded)))
    return {"exercises": graded.rows, "points": graded.points, "of": graded.of,
            "next": graded.next and graded.next.name}


def _show_class(students):
    width = max(len(graded.name) for graded in students)
    for graded in students:
        after = f"next: {graded.next.name}" if graded.next else "all done"
        print(graded.name.ljust(width), graded.trouble or
              f"{graded.points:>6g} of {graded.of} points, {graded.done:>2} of "
              f"{len(graded.rows)} exercises, {after}")
    return {"students": [
        {"name": graded.name, "trouble": graded.trouble} if graded.trouble else
        {"name": graded.name, "points": graded.points, "of": graded.of, "exercises": graded.rows}
        for graded in students]}
