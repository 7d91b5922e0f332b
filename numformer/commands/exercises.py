"""numformer exercises: write a student's and a teacher's folder of exercises.

    numformer exercises 1 --out exercises
    numformer exercises 2 25 31 --students class --salt "autumn, a7"
"""

import os
from pathlib import Path

from numformer.checks import check_whole
from numformer.commands import UsageError
from numformer.commands.shared.output import print_json
from numformer.teaching import all_exercises, notebook, write_assignment
from numformer.teaching.exercise import find_exercises
from numformer.teaching.notebooks import GRADERS
from numformer.teaching.support.effort import effort
from numformer.teaching.variants.folders import PROTECTS, write_variant
from numformer.teaching.variants.key import KEY, make_key, read_key, repeated
from numformer.terminal import printable

OUT = "exercises"


def add_arguments(parser):
    parser.add_argument("names", metavar="NAME", nargs="*", help="which of the "
                        f"{len(all_exercises())}, by name or number (default: all)")
    parser.add_argument("--out", metavar="FOLDER", default=None, help="folder that gets "
                        f"student and teacher (default: {OUT})")
    parser.add_argument("--seed", type=int, default=None, metavar="N",
                        help="seed of the bugs and numbers (default: 0)")
    parser.add_argument("--notebook", choices=GRADERS, default=None, help="also write a teacher's "
                        "notebook for this grader")
    parser.add_argument("--students", metavar="FOLDER", default=None, help="write a variant in "
                        "place of student and teacher: a folder for students without solution and "
                        "seed, and the key that grades it")
    parser.add_argument("--key", metavar="FOLDER", default=None, help="of --students: folder that "
                        "gets the key, or has one, whose variant is then written again (default: "
                        "the name of the students' folder with -key)")
    parser.add_argument("--salt", type=str, metavar="TEXT", default=None, help="of --students: a "
                        "text for this term, which gives it bugs, numbers and orders of its own "
                        "(default: those of --seed)")
    parser.add_argument("--unlike", metavar="KEY", default=None, help="of --salt: the key of "
                        "another term, whose answers and bugs shall not come again")
    parser.epilog = PROTECTS
    parser.add_argument("--list", action="store_true", help="only list the exercises")


def run(arguments):
    if arguments.list:
        for exercise in all_exercises():
            found = effort(exercise)
            print(f"{exercise.name:48}{found.difficulty:7}{found.minutes:>3} minutes "
                  f"{exercise.points_text:8}  {exercise.title}")
        if arguments.json:
            print_json({"exercises": [exercise.name for exercise in all_exercises()]})
        return 0
    try:
        check_whole("exercises", "--seed", arguments.seed or 0, least=0)
        words, files = (_assignment if arguments.students is None else _variant)(arguments)
    except ValueError as error:
        raise UsageError(str(error)) from None
    print(printable(words))
    if arguments.json:
        print_json({"files": [str(path) for path in files]})
    return 0


def _assignment(arguments):
    """(What was written, in words; the files) of --out."""
    _refuse(arguments, ("key", "salt", "unlike"), "is of --students; give that, too")
    out, seed, names = Path(arguments.out or OUT), arguments.seed or 0, arguments.names or None
    more = {} if arguments.notebook is None else {
        f"exercises-{arguments.notebook}.ipynb": notebook(arguments.notebook, seed, names)}
    files = write_assignment(out, seed, names, more)
    return (f"{len(files)} files in {out}; students begin with {out}/student/README.md, "
            f"teachers with {out}/teacher/GUIDE.md"), files


def _variant(arguments):
    """The same of --students."""
    _refuse(arguments, ("out", "notebook"), "is not of --students; leave one of them out")
    if arguments.salt is not None:
        _refuse(arguments, ("seed",), "chooses what --salt chooses, too; leave one of them out")
    else:
        _refuse(arguments, ("unlike",), "is of --salt; give a text for this term, too")
    students, notes = Path(arguments.students), ""
    folder = Path(arguments.key or students.with_name(f"{students.name}-key"))
    folder = folder.parent if folder.name == KEY and folder.is_file() else folder
    if os.path.lexists(folder / KEY):
        key = _same(read_key(folder), folder, arguments)
    elif arguments.salt == "":
        raise ValueError("exercises: --salt is empty; give a text for this term, or leave it out.")
    else:
        unlike = read_key(arguments.unlike) if arguments.unlike is not None else None
        key = make_key(arguments.names or None, arguments.salt or "", arguments.seed or 0, unlike)
        if unlike is not None and (again := repeated(key, unlike)):
            notes = f"; the answers of the other term are right again in {', '.join(again)}"
    files = write_variant(students, folder, key)
    return (f"variant {key.variant}: {students} is for students; {folder} is its key: keep it, "
            f"give it to nobody, and grade with numformer grade --key {folder}{notes}"), files


def _same(key, folder, arguments):
    """A key that is there; ValueError if it is not what the arguments say."""
    there = f"exercises: the key in {folder} is there already, and its variant is written again;"
    _refuse(arguments, ("seed", "unlike"), "is of a new key: choose another folder for it",
            f"{there} ")
    if arguments.salt not in (None, key.salt):
        raise ValueError(f"{there} it has another salt: choose another folder for a new key.")
    names = tuple(exercise.name for exercise in find_exercises(arguments.names))
    if arguments.names and names != key.exercises:
        raise ValueError(f"{there} it has other exercises: choose another folder for a new key.")
    return key


def _refuse(arguments, flags, why, before="exercises: "):
    for flag in flags:
        if getattr(arguments, flag) is not None:
            raise ValueError(f"{before}--{flag} {why}.")
