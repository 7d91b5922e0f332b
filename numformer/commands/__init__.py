"""The verbs of the command line: one module a verb, each with `add_arguments(parser)` and `run(arguments)`."""


class UsageError(Exception):
    """What was typed cannot be done; the message says what to type instead. Exit status 2."""
