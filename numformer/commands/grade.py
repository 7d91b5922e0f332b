"""numformer grade: grade a student's folder, with the first error of each exercise."""

from numformer.commands import UsageError
from numformer.commands.shared.output import print_json
from numformer.teaching import grade
from numformer.teaching.grading import SECONDS


def add_arguments(parser):
    parser.add_argument("folder", metavar="FOLDER", help="a student's folder, written by "
                        "`numformer exercises`")
    parser.add_argument("--seconds", type=float, default=SECONDS, metavar="S", help="time limit "
                        f"of one exercise (default: {SECONDS:g})")


def run(arguments):
    try:
        rows = grade(arguments.folder, arguments.seconds)
    except ValueError as error:
        raise UsageError(str(error)) from None
    for row in rows:
        print(f"{row['points']:>5g} of {row['of']}  {row['name']}: {row['feedback']}")
    points, possible = sum(row["points"] for row in rows), sum(row["of"] for row in rows)
    print(f"{points:g} of {possible} points")
    if arguments.json:
        print_json({"exercises": rows, "points": points, "of": possible})
    return 0
