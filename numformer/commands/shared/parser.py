"""The parser of the command line: every mistake is one line that names the cure."""

import argparse
import re
import sys

from numformer.commands.shared.process import discard_stdout, output_lost
from numformer.terminal import closest, did_you_mean, printable, shortened

_WHOLE = re.compile(r"[+-]?[0-9]+(_[0-9]+)*")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?|[+-]?(nan|inf|infinity)",
                     re.IGNORECASE)
_CURES = (                                            # messages of argparse without a cure
    (r"^the following arguments are required: (.*)", r"\1 is missing; see PROG --help"),
    (r"^([^:]*): expected (one|at least one) argument$",
     r"\1 needs a value; write \1=VALUE if it begins with a dash"),
    (r"^([^:]*): ignored explicit argument (.*)", r"\1 takes no value, but got \2; leave it out"),
)
MOST_DIGITS = 40                                      # of a number on the command line


class Parser(argparse.ArgumentParser):
    """An `ArgumentParser` whose errors are one line, with a suggestion for a typo.

    Flags are never abbreviated: a script that used ``--s`` would break with the next flag. The
    types int and float take digits of ASCII alone, and say how a number is written.
    """

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **{"allow_abbrev": False, **options})
        self.register("type", int, whole_number)
        self.register("type", float, number)
        self.verb_parser = self                       # the parser that knows the flags of the verb
        self.help_of = None                           # what writes the help from actions and words

    def parse_args(self, args=None, namespace=None):
        self.verb_parser.words = sys.argv[1:] if args is None else list(args)
        for word in self.verb_parser.words:
            if re.fullmatch(r"--[\w-]+=--", word):    # which argparse reads as an empty list
                self.verb_parser.error(f"{word[:-3]} needs a value, but got --")
        namespace, unknown = self.parse_known_args(args, namespace)
        if unknown:
            self.verb_parser.refuse(unknown[0])
        return namespace

    def format_help(self):
        return super().format_help() if self.help_of is None else self.help_of(
            self._actions, self.words)

    def _print_message(self, message, file=None):
        """Unlike that of argparse, it hides no full disk."""
        stream = file or sys.stderr
        try:
            stream.write(message or "")
            stream.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            if stream is sys.stdout:
                discard_stdout()
            raise ValueError(output_lost(error)) from None

    def refuse(self, word):
        """Exit because of a word that is no argument."""
        if not word.startswith("-"):
            self.error(f"{word!r} is one argument too many; leave it out, or quote a text with "
                       "spaces")
        flag = word.split("=")[0]
        names = [name.lstrip("-") for action in self._actions for name in action.option_strings]
        close = closest(flag.lstrip("-"), names)
        self.error(f"unknown flag {flag}; " + (f"did you mean --{close}?" if close else
                                               f"leave it out, or see {self.prog} --help"))

    def error(self, message):
        """Write one line to stderr and exit with status 2."""
        message = message.removeprefix("argument ")
        for pattern, cure in _CURES:
            message = re.sub(pattern, cure.replace("PROG", self.prog), message)
        self.exit(2, f"{self.prog}: {shortened(printable(message))}\n")

    def _check_value(self, action, value):
        if action.choices is not None and value not in action.choices:
            raise argparse.ArgumentError(action, f"{value!r} is unknown"
                                         + did_you_mean(value, action.choices)
                                         + f"; choose from {', '.join(map(str, action.choices))}")


def whole_number(text):
    """The int of digits; of ``1e9`` or other digits than 0 to 9 an error.

    Examples
    --------
    >>> whole_number("1_000"), whole_number("-3")
    (1000, -3)
    >>> whole_number("1e3")
    Traceback (most recent call last):
    argparse.ArgumentTypeError: '1e3' must be a whole number in digits, such as 1000
    """
    if not _WHOLE.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} must be a whole number in digits, such as 1000")
    return int(_short(text))


def number(text):
    """The float of a decimal number.

    Examples
    --------
    >>> number("1e-3"), number(".5")
    (0.001, 0.5)
    >>> number("0x10")
    Traceback (most recent call last):
    argparse.ArgumentTypeError: '0x10' must be a number, such as 0.1 or 1e-4
    """
    if not _NUMBER.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} must be a number, such as 0.1 or 1e-4")
    return float(_short(text))


def _short(text):
    if len(text) > MOST_DIGITS:
        raise argparse.ArgumentTypeError(f"a number of {len(text)} digits is too long; "
                                         f"give at most {MOST_DIGITS}")
    return text
