"""python -m numformer, and the command numformer: one verb in a process of its own."""

import signal
import sys

from numformer.commands.shared import process


def command():
    """Run `numformer VERB ...` and leave with its exit status."""
    process.prepare()
    from numformer.cli import main

    try:
        try:
            status = main()
        except SystemExit as end:                            # --help, or wrong usage
            status = end.code
        status = process.finish(status)
    except process.Ended as end:                             # SIGTERM or SIGHUP
        process.end_by(end.number)
    except KeyboardInterrupt:                                # a second one, while the first stops
        process.end_by(signal.SIGINT)
    sys.exit(status)


if __name__ == "__main__":
    command()
