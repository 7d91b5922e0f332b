"""The verbs of the command line: a module each, with `add_arguments` and `run`."""


class UsageError(Exception):
    """A mistake on the command line; the message names the cure. Exit status 2."""
