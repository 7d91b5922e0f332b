"""numformer plot: one picture of a run."""

from contextlib import nullcontext
from pathlib import Path

from numformer.commands import UsageError
from numformer.commands.audit import FORMATS
from numformer.commands.pictures import PICTURES, USES, Run
from numformer.commands.runs import add_run_arguments, add_text_argument, load_run
from numformer.commands.show import print_json, save_picture
from numformer.plots.axes import dark


def add_arguments(parser):
    kinds = "; ".join(f"{name}: {function.__doc__.splitlines()[0].rstrip('.')}" for name, function in PICTURES.items())
    parser.add_argument("kind", metavar="KIND", help=kinds.replace("%", "%%"))
    add_run_arguments(parser)
    add_text_argument(parser)
    parser.add_argument("--view", default=None, help="self; or encoder, decoder or cross of a model that reads and writes")
    parser.add_argument("--layer", type=int, default=None, metavar="N", help="from 1 (default: the last)")
    parser.add_argument("--head", type=int, default=None, metavar="N", help="from 1 (default: the mean of all; of a query the first)")
    parser.add_argument("--query", type=int, default=None, metavar="N", help="place in the text, from 0 (default: the last)")
    parser.add_argument("--token", default=None, help="whose logit contributions are drawn of (default: the likeliest)")
    parser.add_argument("--data", metavar="FILE", default=None, help="of flow: the text of the run, if it lies elsewhere by now")
    parser.add_argument("--dark", action="store_true", help="for a dark screen")
    parser.add_argument("--out", metavar="FILE", default=None, help="a .png, .svg or .pdf (default: KIND.png in the run)")


def run(arguments):
    if arguments.kind not in PICTURES:
        raise UsageError(f"plot: {arguments.kind} is unknown; choose from {', '.join(PICTURES)}.")
    for name in ("text", "view", "layer", "head", "query", "token", "data"):
        if getattr(arguments, name) is not None and name not in USES[arguments.kind]:
            raise UsageError(f"plot: {arguments.kind} takes no --{name}; leave it out.")
    out = Path(arguments.out or Path(arguments.run) / f"{arguments.kind}.png")
    if out.suffix.lower() not in FORMATS:
        raise UsageError(f"plot: --out {out} must end in {', '.join(FORMATS)}.")
    opened = Run(arguments.run, *load_run(arguments.run, arguments.best), arguments)
    try:
        with dark() if arguments.dark else nullcontext():
            save_picture(PICTURES[arguments.kind](opened), out)
    except ValueError as error:
        raise UsageError(f"{arguments.run}: {error}") from None
    print(f"written: {out}")
    if arguments.json:
        print_json({"files": [str(out)]})
    return 0
