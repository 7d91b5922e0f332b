"""numformer plot: draw one picture of a run: attention, positions, training or activations.

    numformer plot attention run --out attention.png
    numformer plot token-loss run --out token-loss.png
"""

from pathlib import Path

import numpy as np

from numformer.commands import UsageError
from numformer.commands.shared.selection import Run
from numformer.commands.shared.output import (
    add_style_arguments, check_picture, print_json, save_picture, style_of, table_of)
from numformer.commands.shared.run_arguments import add_run_arguments, add_text_argument
from numformer.plots import PICTURES
from numformer.runs import load_run
from numformer.terminal import did_you_mean, printable


def add_arguments(parser):
    parser.add_argument("kind", metavar="KIND", nargs="?",
                        help="what to draw (default: list all kinds, with what each shows)")
    add_run_arguments(parser, nargs="?")
    add_text_argument(parser)
    parser.add_argument("--view", default=None, help="self; for an encoder-decoder: encoder, "
                        "decoder or cross")
    parser.add_argument("--layer", type=int, default=None, metavar="N",
                        help="layer, from 1 (default: the last)")
    parser.add_argument("--head", type=int, default=None, metavar="N", help="head, from 1 "
                        "(default: the mean of all; for query the first)")
    parser.add_argument("--query", type=int, default=None, metavar="N", help="position of the "
                        "query, from 0 (default: the last)")
    parser.add_argument("--token", default=None, help="for contributions: the token (default: the "
                        "most likely)")
    parser.add_argument("--data", metavar="FILE", default=None, help="for flow, token-loss and "
                        "landscape: the text of the run, if it has moved")
    add_style_arguments(parser)
    parser.add_argument("--out", metavar="FILE", default=None, help="a .png, .svg or .pdf file "
                        "(default: KIND.png in the run)")


@np.errstate(over="ignore", invalid="ignore")         # of parameters that are very large
def run(arguments):
    if arguments.kind is None:
        print(table_of(("kind", "picture"), [
            (kind, picture.help) for kind, picture in PICTURES.items()]))
        if arguments.json:
            print_json({"kinds": {kind: picture.help for kind, picture in PICTURES.items()}})
        return 0
    if arguments.kind not in PICTURES:
        raise UsageError(f"plot: {arguments.kind} is unknown"
                         f"{did_you_mean(arguments.kind, PICTURES)}; choose from "
                         f"{', '.join(PICTURES)}.")
    if arguments.run is None:
        raise UsageError(f"plot: {arguments.kind} of which run? Give its folder.")
    for name in ("text", "view", "layer", "head", "query", "token", "data"):
        if getattr(arguments, name) is not None and name not in PICTURES[arguments.kind].takes:
            raise UsageError(f"plot: {arguments.kind} takes no --{name}; leave it out.")
    out = Path(arguments.out or Path(arguments.run) / f"{arguments.kind}.png")
    if arguments.out:
        check_picture("plot: --out", out)
    opened = Run(arguments.run, *load_run(arguments.run, arguments.best), arguments)
    try:
        with style_of(arguments):
            save_picture(PICTURES[arguments.kind].draw(opened), out)
    except ValueError as error:
        raise UsageError(f"{arguments.run}: {error}") from None
    print(f"wrote {printable(out)}")
    if arguments.json:
        print_json({"files": [str(out)]})
    return 0
