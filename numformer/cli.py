"""The command line: `numformer VERB ...`. Exit status 0, 1 for a failed job, 2 for wrong usage."""

import argparse
import re
import sys
from importlib import import_module
from pathlib import Path

from numformer import commands
from numformer.commands.shared.parser import Parser
from numformer.commands.shared.process import (
    STOPPED, answer_signals, check_limits, discard_stdout, launched_rank, output_lost,
    started_by_launcher, stdout_is_writable)
from numformer.terminal import printable, shortened


def _pages():
    """{verb: (its module, one line of help)}, in the order of the table in COMMANDS.md.

    The module of a verb is in the package of commands, and its docstring begins with "numformer",
    the verb, a colon and the help. It is found without importing it.
    """
    room, found = Path(commands.__file__).parent, {}
    for path in room.rglob("*.py"):
        with path.open(encoding="utf-8") as file:
            first = re.match(r'"""numformer ([\w-]+): (.+)\.(?:""")?$', file.readline())
        if first is not None:
            module = ".".join(path.relative_to(room).with_suffix("").parts)
            found[first[1]] = f"numformer.commands.{module}", first[2]
    table = re.findall(r"^\| `([\w-]+)", (room / "COMMANDS.md").read_text("utf-8"), re.MULTILINE)
    return {verb: found[verb] for verb in dict.fromkeys([*table, *sorted(found)]) if verb in found}


PAGES = _pages()
VERBS = {verb: summary for verb, (_, summary) in PAGES.items()}


def main(argv=None):
    """Run one verb; return the exit status."""
    argv = sys.argv[1:] if argv is None else argv
    verb = next((word for word in argv if word in VERBS), None)
    try:
        if verb is not None:
            check_limits()
        _check_ranks(verb, argv)
        arguments = _parser(verb).parse_args(argv)
        answer_signals()
        return _module(arguments.verb).run(arguments)
    except BrokenPipeError:                             # the reader closed the pipe, as `head` does
        discard_stdout()
        return 0
    except KeyboardInterrupt as how:
        print(f"numformer: stopped {how}".rstrip(), file=sys.stderr)
        return STOPPED
    except Exception as error:
        status = _status(error)
        if status is None:
            raise
        print(f"numformer: {_one_line(error)}", file=sys.stderr)
        return status


def _check_ranks(verb, argv):
    """UsageError if the ranks of mpirun have other arguments: some would wait for the others.

    A verb that another program of a rank runs, such as a shell, has nothing to do with MPI.
    """
    if launched_rank() is not None and (verb == "train" or started_by_launcher()):
        from numformer.commands.parallel.ranks import check_same_arguments

        check_same_arguments(argv)


def _status(error):
    """The exit status for an error that a user can fix; None for a bug."""
    from numformer.commands import UsageError
    from numformer.data import DataError, NoSuchFile
    from numformer.finite import NotFinite
    from numformer.runs import CheckpointError, FolderInUse, RunError

    if isinstance(error, (UsageError, RunError, NoSuchFile, FolderInUse)):
        return 2
    return 1 if isinstance(error, (DataError, CheckpointError, NotFinite, OSError, ValueError,
                                   MemoryError)) else None


def _one_line(error):
    if isinstance(error, OSError) and error.strerror:
        if not error.filename and not stdout_is_writable():
            return printable(output_lost(error))
        return printable(f"{f'{error.filename}: ' if error.filename else ''}{error.strerror}")
    text = " ".join(line.strip() for line in str(error).splitlines())
    return shortened(printable(text)) or type(error).__name__


def _parser(verb):
    """The parser, with the arguments of one verb; the others are listed without importing them."""
    parser = Parser(prog="numformer", description="The Transformer family in NumPy, every "
                    "gradient derived by hand.")
    parser.add_argument("--version", action=_Version)
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    for name, summary in VERBS.items():
        sub = verbs.add_parser(name, help=summary, description=summary[0].upper() + summary[1:]
                               + ".")
        if name == verb:
            parser.verb_parser = sub
            _module(name).add_arguments(sub)
            sub.add_argument("--json", action="store_true",
                             help="print one JSON object as the last line")
    return parser


class _Version(argparse.Action):
    def __init__(self, option_strings, dest):
        super().__init__(option_strings, dest, nargs=0, help="show the version and exit")

    def __call__(self, parser, *_):
        import numformer

        print(f"numformer {numformer.__version__}")
        parser.exit()


def _module(verb):
    return import_module(PAGES[verb][0])
