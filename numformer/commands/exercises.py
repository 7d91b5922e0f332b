"""numformer exercises: write a student's and a teacher's folder of exercises.

    numformer exercises 1 --out exercises
"""

from pathlib import Path

from numformer.checks import check_whole
from numformer.commands import UsageError
from numformer.commands.shared.output import print_json
from numformer.files import write_atomically
from numformer.teaching import all_exercises, notebook, write_assignment
from numformer.teaching.notebooks import GRADERS
from numformer.teaching.support.effort import effort
from numformer.terminal import printable


def add_arguments(parser):
    parser.add_argument("names", metavar="NAME", nargs="*", help="which of the "
                        f"{len(all_exercises())}, by name or number (default: all)")
    parser.add_argument("--out", metavar="FOLDER", default="exercises", help="folder that gets "
                        "student and teacher (default: exercises)")
    parser.add_argument("--seed", type=int, default=0, metavar="N",
                        help="seed of the bugs and numbers (default: 0)")
    parser.add_argument("--notebook", choices=GRADERS, default=None, help="also write a teacher's "
                        "notebook for this grader")
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
        check_whole("exercises", "--seed", arguments.seed, least=0)
        files = write_assignment(arguments.out, arguments.seed, arguments.names or None)
    except ValueError as error:
        raise UsageError(str(error)) from None
    if arguments.notebook:
        path = Path(arguments.out) / "teacher" / f"exercises-{arguments.notebook}.ipynb"
        write_atomically(path, notebook(arguments.notebook, arguments.seed,
                                        arguments.names or None).encode())
        files.append(path)
    out = Path(arguments.out)
    print(printable(f"{len(files)} files in {out}; students begin with {out}/student/README.md, "
                    f"teachers with {out}/teacher/GUIDE.md"))
    if arguments.json:
        print_json({"files": [str(path) for path in files]})
    return 0
