"""numformer solution: our solution of an exercise that has all points.

    numformer solution 1 solved
"""

from numformer.commands import UsageError
from numformer.commands.shared.output import print_json
from numformer.teaching import grade
from numformer.teaching.exercise import find_exercise
from numformer.teaching.grading import assignment_of


def add_arguments(parser):
    parser.add_argument("exercise", metavar="EXERCISE", help="a number or a name, such as 10")
    parser.add_argument("folder", metavar="FOLDER", nargs="?", default=".", help="a student's "
                        "folder, written by `numformer exercises` (default: this one)")


def run(arguments):
    try:
        assignment = assignment_of(arguments.folder)
        exercise, seed = find_exercise(arguments.exercise, assignment.exercises), assignment.seed
    except ValueError as error:
        raise UsageError(str(error)) from None
    (row,) = grade(arguments.folder, names=[exercise.name])
    if row["points"] < row["of"]:
        raise ValueError(f"solution: {exercise.name} has {row['points']:g} of {row['of']} points; "
                         f"the solution is shown when it has all. `numformer hint "
                         f"{exercise.name[:2]}` helps.")
    print(f"{exercise.name}, in {exercise.function(seed)}:\n\n{exercise.solution(seed)}", end="")
    if arguments.json:
        print_json({"exercise": exercise.name, "solution": exercise.solution(seed)})
    return 0
