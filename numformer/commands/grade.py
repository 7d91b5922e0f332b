"""numformer grade: how far a student is, and what is wrong first in each exercise."""

from numformer.commands import UsageError
from numformer.commands.show import print_json
from numformer.course import grade
from numformer.course.grading import SECONDS


def add_arguments(parser):
    parser.add_argument("folder", metavar="FOLDER", help="that `numformer exercises` made and a student worked in")
    parser.add_argument("--seconds", type=float, default=SECONDS, metavar="S", help=f"that one exercise may take (default: {SECONDS:g})")


def run(arguments):
    try:
        rows = grade(arguments.folder, arguments.seconds)
    except ValueError as error:
        raise UsageError(str(error)) from None
    for row in rows:
        print(f"{row['points']:>5g} of {row['of']}  {row['name']}: {row['said']}")
    points, possible = sum(row["points"] for row in rows), sum(row["of"] for row in rows)
    print(f"{points:g} of {possible} points")
    if arguments.json:
        print_json({"exercises": rows, "points": points, "of": possible})
    return 0
