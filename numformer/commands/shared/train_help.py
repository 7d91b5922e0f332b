"""The help of `train`: the options of one preset, in its own words, with its own defaults."""

import shutil
from argparse import SUPPRESS
from dataclasses import MISSING
from textwrap import shorten, wrap

from numformer.commands.shared.flags import flag_and_value, options_of

LINES = 40                                            # of the short help
COLUMN = 30                                           # where what is said of an option begins
NARROWEST, WIDEST = 60, 100


def preset_of(words, default):
    """The preset that a command line names.

    Examples
    --------
    >>> preset_of(["train", "--help", "--preset", "vit"], "tiny"), preset_of(["--preset=gpt"], "")
    ('vit', 'gpt')
    """
    for word, value in zip(words, [*words[1:], None]):
        if word == "--preset" and value is not None:
            return value
        if word.startswith("--preset="):
            return word.partition("=")[2]
    return default


def train_help(actions, words, default):
    """The text that `numformer train --preset P --help`, or --help-all, prints.

    The short help has a line for each option: all that are not of a config, those that the preset
    sets, and as many of the others as there is room for.

    Parameters
    ----------
    actions : list of argparse.Action
        Of all flags; those of configs have no help.
    words : list of str
        The command line.
    default : str
        The preset unless one is named.

    Raises
    ------
    UsageError
        If the preset is unknown.
    """
    preset, whole = preset_of(words, default), "--help-all" in words
    width = min(max(shutil.get_terminal_size().columns, NARROWEST), WIDEST)
    head = [f"usage: numformer train [--preset {preset}] [--data D] [--out RUN] [options]", ""]
    general = [line for action in actions if action.help != SUPPRESS
               for line in _lines(_flag_of(action), action.help, width, whole)]
    parts = [part for part in options_of(preset) if part[1]]
    n_all = sum(len(options) for _, options, _ in parts)
    room = n_all if whole else LINES - len(head) - len(general) - 2 * len(parts) - 2
    text = head + general
    for (title, options, _), n_shown in zip(parts, _shares(parts, room)):
        text += ["", f"options of {preset}, {title}"] if n_shown else []
        for field, value in options[:n_shown]:
            told = "" if value in (MISSING, None) else f" [{_shown(value)}]"
            text += _lines(flag_and_value(field), _help(field, whole), width, whole, told)
    if not whole:
        text += ["", f"All {n_all} options of {preset}: numformer train --preset {preset} "
                 "--help-all"]
    return "\n".join(text) + "\n"


def _shares(parts, room):
    """How many options of each part are shown: the preset's own first, then more of the model."""
    shares = [n for _, _, n in parts]
    while sum(shares) > room:
        shares[shares.index(max(shares))] -= 1
    for k, (_, options, _) in enumerate(parts):
        shares[k] += min(room - sum(shares), len(options) - shares[k])
    return shares


def _help(field, whole):
    rule = field.metadata["rule"]
    if whole and rule.choices is not None:
        number = "One or more, with commas," if rule.several else "One"
        return f"{rule.help} {number} of {', '.join(map(str, rule.choices))}."
    return rule.help


def _shown(value):
    return ("no", "yes")[value] if isinstance(value, bool) else value


def _flag_of(action):
    name = ", ".join(action.option_strings)
    return name if action.nargs == 0 else f"{name} {action.metavar or action.dest.upper()}"


def _lines(flag, help, width, whole, told=""):
    """One line of an option, or with `whole` as many as it takes."""
    room = width - COLUMN
    if whole:
        first, *rest = wrap(f"{help}{told}", room, break_on_hyphens=False) or [""]
        lines = [f"  {flag:{COLUMN - 3}} {first}"] if len(flag) < COLUMN - 2 else [
            f"  {flag}", " " * COLUMN + first]
        return [*lines, *(" " * COLUMN + line for line in rest)]
    room -= max(0, len(flag) - COLUMN + 3)
    sentence = help.split(". ")[0].removesuffix(".")
    return [f"  {flag:{COLUMN - 3}} {shorten(sentence, room - len(told), placeholder=' ...')}"
            f"{told}"]
