"""numformer hint: a hint for an exercise: at each call the next of three.

    numformer hint 1 exercises/student
"""

from numformer.commands import UsageError
from numformer.commands.shared.output import print_json
from numformer.teaching.exercise import find_exercise
from numformer.teaching.grading import forms_of
from numformer.teaching.support.hints import LEVELS, hint_text, next_level
from numformer.teaching.support.record import read_record, write_record


def add_arguments(parser):
    parser.add_argument("exercise", metavar="EXERCISE", help="a number or a name, such as 10")
    parser.add_argument("folder", metavar="FOLDER", nargs="?", default=".", help="a student's "
                        "folder, written by `numformer exercises` (default: this one)")
    parser.add_argument("--level", type=int, choices=range(1, LEVELS + 1), default=None,
                        help="1: the idea, 2: the step or the shape, 3: nearly the line (default: "
                        "the one after the last)")


def run(arguments):
    try:
        assignment = forms_of(arguments.folder)
        exercise = find_exercise(arguments.exercise, assignment.exercises)
    except ValueError as error:
        raise UsageError(str(error)) from None
    record = read_record(arguments.folder)
    given = record["hints"].get(exercise.name, 0)
    level = arguments.level or next_level(given)
    record["hints"][exercise.name] = max(level, given)
    write_record(arguments.folder, record)
    form = assignment.form(exercise)
    text = hint_text(exercise, level, form)
    print(repr(text))
    if arguments.json:
        print_json({"exercise": exercise.name, "level": level, "of": LEVELS,
                    "hint": exercise.hints(form)[level - 1]})
    return 0
