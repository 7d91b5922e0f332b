"""The help of `train`: the presets, or the options of one, in its own words, with its defaults."""

import shutil
from argparse import SUPPRESS
from dataclasses import MISSING
from textwrap import shorten, wrap

from numformer.commands.shared.flags import flag_and_value, options_of
from numformer.recipes import FAMILIES

LINES = 40                                            # of the short help
COLUMN = 30                                           # where what is said of an option begins
NARROWEST, WIDEST = 60, 100


def preset_of(words):
    """The preset that a command line names, or None.

    Examples
    --------
    >>> preset_of(["train", "--help", "--preset", "vit"]), preset_of(["--preset=gpt"])
    ('vit', 'gpt')
    """
    for word, value in zip(words, [*words[1:], None]):
        if word == "--preset" and value is not None:
            return value
        if word.startswith("--preset="):
            return word.partition("=")[2]
    return None


def train_help(actions, words, default):
    """The text that `numformer train --help` prints, with --preset P, or with --help-all.

    Without a preset it lists them. With one, it has a line for each option: all that are not of a
    config, those that the preset sets, and as many of the others as there is room for. --help-all
    shows all options.

    Parameters
    ----------
    actions : list of argparse.Action
        Of all flags; those of configs have no help.
    words : list of str
        The command line.
    default : str
        The preset of --help-all, unless one is named.

    Raises
    ------
    UsageError
        If the preset is unknown.
    """
    preset, whole = preset_of(words), "--help-all" in words
    width = min(max(shutil.get_terminal_size().columns, NARROWEST), WIDEST)
    general = [line for action in actions if action.help != SUPPRESS
               for line in _lines(_flag_of(action), action.help, width, whole)]
    own = (_presets(default, width) if preset is None and not whole else
           _options(preset or default, LINES - len(general) - 2, width, whole))
    head = f"usage: numformer train [--preset {preset or 'P'}] [--data D] [--out RUN] [options]"
    return "\n".join([head, "", *general, *own]) + "\n"


def _presets(default, width):
    """The presets, a paragraph for each family."""
    yield ""
    yield f"presets (default: {default})"
    for family in FAMILIES:
        yield f"  {family.__doc__.rstrip('.')}:"
        yield from wrap(", ".join(family.PRESETS), width - 4, initial_indent="    ",
                        subsequent_indent="    ", break_on_hyphens=False)
    yield ""
    yield "The options of a preset: numformer train --preset P --help"


def _options(preset, n_lines, width, whole):
    """The options of a preset: on this many lines, or the whole of them."""
    parts = [part for part in options_of(preset) if part[1]]
    n_all = sum(len(options) for _, options, _ in parts)
    room = n_all if whole else n_lines - 2 * len(parts) - 2
    for (title, options, _), n_shown in zip(parts, _shares(parts, room)):
        yield from ["", f"options of {preset}, {title}"] if n_shown else []
        for field, value in options[:n_shown]:
            told = "" if value in (MISSING, None) else f" [{_shown(value)}]"
            yield from _lines(flag_and_value(field), _help(field, whole), width, whole, told)
    if not whole:
        yield ""
        yield f"All {n_all} options of {preset}: numformer train --preset {preset} --help-all"


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
