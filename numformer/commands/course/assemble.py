"""numformer assemble: train a model made of a student's own functions, milestone by milestone.

    numformer assemble solved --data text.txt --steps 20 --d-model 16 --context-length 16
"""

import sys

from numformer.commands import UsageError
from numformer.commands.shared.output import print_json
from numformer.data import load_corpus
from numformer.teaching.assembled import Plan, assemble
from numformer.teaching.assembled.milestones import OURS, UNCHANGED, WRONG, YOURS
from numformer.teaching.assembled.parts import CALLED_BY
from numformer.teaching.grading import SECONDS
from numformer.teaching.support.layout import wrapped
from numformer.terminal import printable, show_text

SIGNS = {YOURS: "\u2713", WRONG: "\u2717", OURS: "\u00b7"}
SIZES = {"n_layers": "LAYERS", "d_model": "WIDTH", "context_length": "CONTEXT"}
INDENT = " " * 6


def add_arguments(parser):
    parser.add_argument("folder", metavar="FOLDER", nargs="?", default=".", help="a student's "
                        "folder, written by `numformer exercises` (default: this one)")
    parser.add_argument("--data", metavar="D", default=None, help="a text file, or the name of a "
                        "text as in `train` (default: Python's documentation)")
    parser.add_argument("--steps", type=int, default=Plan.steps, metavar="N",
                        help=f"of the training, of yours and of ours (default: {Plan.steps}, some "
                        "minutes; `--steps 100 --context-length 32 --d-model 64` takes about one)")
    parser.add_argument("--seed", type=int, default=Plan.seed, metavar="N", help="of the weights, "
                        f"the excerpts and the text that is written (default: {Plan.seed})")
    parser.add_argument("--seconds", type=float, default=SECONDS, metavar="S", help="time limit "
                        f"of grading an exercise, and of a step (default: {SECONDS:g})")
    parser.add_argument("--replace-wrong", action="store_true", help="let ours take the place of "
                        "functions that are wrong, too, and not only of those not written yet")
    for flag, of in (("n-layers", "number of blocks"), ("d-model", "width, a multiple of the 4 "
                     "heads"), ("context-length", "how many characters the model sees")):
        parser.add_argument(f"--{flag}", type=int, default=None, metavar="N",
                            help=f"{of} (default: that of numformer.minimal)")


def run(arguments):
    sizes = {name: getattr(arguments, flag) for flag, name in SIZES.items()
             if getattr(arguments, flag) is not None}
    text = load_corpus(*([] if arguments.data is None else [arguments.data])).text
    found = []
    try:
        for milestone in assemble(
                arguments.folder, Plan(text, arguments.steps, arguments.seed, arguments.seconds,
                                       arguments.replace_wrong, sizes), _tell):
            found.append(milestone)
            _show(milestone)
    except ValueError as error:
        raise UsageError(str(error)) from None
    if arguments.json:
        print_json({"milestones": [_plain(milestone) for milestone in found]})
    return int(not found[-1].reached)


def _tell(words):
    show_text(f"{INDENT}{words}\n", sys.stderr)


def _show(milestone):
    functions = milestone.more.get("functions", ())
    same = [function for function in functions if function.words == UNCHANGED and function.called]
    if same:
        _print(wrapped(f"yours, and not graded again, as the files are unchanged: "
                       f"{', '.join(function.name for function in same)}",
                       INDENT + " " * 2, f"    {SIGNS[YOURS]} "))
    for function in functions:
        if function not in same:
            _print(wrapped(_of(function), INDENT + " " * 2, f"    {SIGNS[function.whose]} "))
    sign, missed = (SIGNS[YOURS], "") if milestone.reached else (SIGNS[WRONG], ", not reached")
    _print(wrapped(f"{milestone.name}{missed} ({milestone.seconds:.1f} s): {milestone.words}",
                   "  ", f"{sign} "))
    if milestone.text:
        _print("\n".join(f"    | {line}" for line in
                         printable(milestone.text, keep="\n").split("\n")))


def _of(function):
    exercise = f" ({function.exercise})" if function.exercise else ""
    if function.whose == YOURS:
        remark = f"; {function.words}" if function.words.startswith("wrong only") else ""
        return f"{function.name}: yours{exercise}{remark}" + (
            "" if function.called else "; nothing calls "
            f"it, as {CALLED_BY[function.name]} is yours, too")
    return f"{function.name}: {function.whose}{exercise}: {function.words}"


def _print(text):
    show_text(text + "\n", sys.stdout)


def _plain(milestone):
    """A milestone as JSON."""
    more = {key: [vars(each) for each in value] if key == "functions" else value
            for key, value in milestone.more.items()}
    return {"name": milestone.name, "reached": milestone.reached, "words": milestone.words,
            "seconds": milestone.seconds, "text": milestone.text, **more}
