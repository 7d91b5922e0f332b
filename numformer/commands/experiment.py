"""numformer experiment: answer a question of the lecture notes with figures and a picture.

    numformer experiment three-ways --steps 1 --out ways.png
"""

from pathlib import Path

from numformer import backend
from numformer.commands import UsageError
from numformer.commands.shared.output import (
    add_style_arguments, check_picture, lines_of, print_json, save_picture, style_of, table_of)
from numformer.experiments import EXPERIMENTS
from numformer.recipes.results import measured_minutes
from numformer.teaching.deck.pictures import slides_with
from numformer.terminal import did_you_mean, printable


def add_arguments(parser):
    parser.add_argument("name", metavar="NAME", nargs="?", help="the experiment (default: list "
                        "them all, with the question of each, and how long it takes)")
    parser.add_argument("--seed", type=int, default=1, metavar="N",
                        help="of all random choices (default: 1)")
    parser.add_argument("--steps", type=int, default=None, metavar="N",
                        help="training steps of every model, instead of its own")
    parser.add_argument("--threads", type=int, default=None, metavar="N",
                        help="number of threads (default: all cores)")
    add_style_arguments(parser)
    parser.add_argument("--out", metavar="FILE", default=None, help="a .png, .svg or .pdf file "
                        "(default: NAME.png)")


def run(arguments):
    if arguments.name is None:
        times = measured_minutes()
        print(table_of(("experiment", "minutes", "question"), [
            (name, f"{times[name]:.1f}" if name in times else "-", experiment.question)
            for name, experiment in EXPERIMENTS.items()]))
        if arguments.json:
            print_json({"experiments": {name: experiment.question
                                        for name, experiment in EXPERIMENTS.items()}})
        return 0
    if arguments.name not in EXPERIMENTS:
        raise UsageError(f"experiment: there is no {arguments.name}"
                         f"{did_you_mean(arguments.name, EXPERIMENTS)}; choose from "
                         f"{', '.join(EXPERIMENTS)}.")
    for flag, least in (("seed", 0), ("steps", 1), ("threads", 1)):
        value = getattr(arguments, flag)
        if value is not None and value < least:
            raise UsageError(f"experiment: --{flag} {value} must be {least} or more.")
    out = Path(arguments.out or f"{arguments.name}.png")
    check_picture("experiment: --out", out)
    experiment = EXPERIMENTS[arguments.name]
    with backend.threads(arguments.threads):
        outcome = experiment.measure(arguments.seed, arguments.steps)
        with style_of(arguments):
            save_picture(outcome.picture(), out)
    print(lines_of(experiment.question))
    if slides := slides_with(f"experiment:{arguments.name}"):
        print(lines_of(f"slides of the decks: {slides}"))
    if outcome.table:
        print(outcome.table)
    for figure, value in outcome.figures.items():
        print(f"{figure.replace('_', ' ')}: {value:.4g}")
    print(f"wrote {printable(out)}")
    if arguments.json:
        print_json({"figures": outcome.figures, "files": [str(out)]})
    return 0
