"""The command line: `numformer VERB ...`. Exit status 0, 1 for a job that failed, 2 for wrong usage; never a traceback."""

import argparse
import os
import sys
from importlib import import_module

VERBS = {
    "train": "fit a character-level language model to a text",
    "eval": "the loss of a run over all of its validation text",
    "sample": "write text with a run's model",
    "count": "parameters, FLOPs a token and KV cache of a model",
    "plot": "one picture of a run: its attention, positions, training, or what goes on inside",
    "explore": "a page in HTML to look at a run's attention with: heads, layers, and one query in detail",
    "figures": "draw all pictures of figures/ anew, from small runs",
    "compare": "language models side by side: loss, time, memory, and how far back they feel",
    "reproduce": "train presets for several seeds, and write a table of what they reach",
    "exercises": "make a student's and a teacher's folder of exercises",
    "grade": "grade a student's folder of exercises",
    "audit": "check every gradient here against the complex step",
    "bench": "measure speed and memory beside PyTorch",
    "doctor": "check versions, threads and gradients on this machine",
}


def main(argv=None):
    """Run one verb; return the exit status."""
    argv = sys.argv[1:] if argv is None else argv
    verb = next((word for word in argv if word in VERBS), None)
    try:
        arguments = _parser(verb).parse_args(argv)
        return _module(arguments.verb).run(arguments)
    except BrokenPipeError:                                           # the reader went away, as `head` does: not our error
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        print("numformer: stopped", file=sys.stderr)
        return 1
    except Exception as error:
        status = _status(error)
        if status is None:
            raise
        print(f"numformer: {_one_line(error)}", file=sys.stderr)
        return status


def _status(error):
    """The exit status for an error that a user can mend; None for one that only we can."""
    from numformer.commands import UsageError
    from numformer.datasets import DataError, NoSuchFile
    from numformer.training import CheckpointError, NotFinite

    if isinstance(error, (UsageError, NoSuchFile)):
        return 2
    return 1 if isinstance(error, (DataError, CheckpointError, NotFinite, OSError, ValueError, MemoryError)) else None


def _one_line(error):
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror}"
    return " ".join(str(error).split()) or type(error).__name__


def _parser(verb):
    """The parser, with the arguments of one verb: the others need not be imported to be listed."""
    parser = argparse.ArgumentParser(prog="numformer", allow_abbrev=False,
                                     description="The Transformer family in NumPy, every gradient derived by hand.")
    parser.add_argument("--version", action=_Version)
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    for name, summary in VERBS.items():
        sub = verbs.add_parser(name, help=summary, description=summary[0].upper() + summary[1:] + ".", allow_abbrev=False)
        if name == verb:
            _module(name).add_arguments(sub)
            sub.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    return parser


class _Version(argparse.Action):
    def __init__(self, option_strings, dest):
        super().__init__(option_strings, dest, nargs=0, help="show the version and exit")

    def __call__(self, parser, *_):
        import numformer

        print(f"numformer {numformer.__version__}")
        parser.exit()


def _module(verb):
    return import_module(f"numformer.commands.{verb}")
