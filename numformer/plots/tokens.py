"""Tokens as labels."""

import math

from numformer.plots.axes import cell_inches
from numformer.plots.style import WIDTH, text_inches
from numformer.plots.text.labels import ORDINARY, label, lay_out_twice
from numformer.plots.text.letters import elided, letters, signs

LONGEST, LONGEST_TICK, LONGEST_NAME = 28, 16, 48      # letters that are shown
SHORT_NAME = 24                                       # of a longer name where space is short
LONG_NAME = 9.0                                       # ems, of one that needs its own place


def visible(token, most=LONGEST):
    """A token as words of a title or a label: visible signs for what is invisible, and no formula.

    Parameters
    ----------
    token : str
    most : int
        Letters of it that are shown at most: see `numformer.plots.text.letters.signs`.

    Returns
    -------
    str
        For `numformer.plots.text.labels.label`, which knows the fonts.

    Examples
    --------
    >>> visible(" "), visible("\\n"), visible("a"), visible("$"), visible("\\u200b")
    ('␣', '⏎', 'a', '\\\\$', 'U+200B')
    """
    return signs(token, most).replace("$", r"\$")


def plain(name, kept=LONGEST_NAME):
    r"""A name of the user, such as that of a run or a class, as words of a title or a label.

    A dollar sign begins no formula, what is invisible is shown except spaces and ends of lines, of
    a long name the middle is left out, and an underscore in front hides no curve from its legend.

    Parameters
    ----------
    name : object
        Its str.
    kept : int
        Letters that remain of a name of more than LONGEST_NAME.

    Returns
    -------
    str

    Examples
    --------
    >>> print(plain("$5 and\t_"), plain("_a"))
    \$5 and⇥_  _a
    """
    shown = [letter if letter in " \n" else signs(letter) for letter in letters(str(name))]
    if len(shown) > LONGEST_NAME:
        shown = elided(shown, kept)
    words = "".join(shown).replace("$", r"\$") or signs("")
    return f" {words}" if words.startswith("_") else words


def label_ticks(axis, tokens):
    """Write tokens at the ticks 0, 1, ... of an axis; long ones on the x axis are rotated.

    Where they would overlap, only every second, third, ... is written.
    """
    labels = [label(visible(token, LONGEST_TICK)) for token in tokens]
    across = axis.axis_name == "x"
    longest = round(max((each.width for each in labels), default=0) / ORDINARY, 6)
    rotated = ({"rotation": 60, "ha": "right", "rotation_mode": "anchor"} if across and longest > 3
               else {})
    spans = [abs(high - low) for low, high in (axis.axes.get_xlim(), axis.axes.get_ylim())]
    room = cell_inches(axis.axes, *spans)[0 if across else 1]
    needed = (0.62 * longest + 0.25 if across and not rotated else 1.0) * text_inches()
    every = max(1, math.ceil(needed / room))
    if longest > LONGEST_TICK - 1:
        lay_out_twice()
    write_ticks(axis, range(0, len(tokens), every), labels[::every], **rotated)


def name_ticks(axis, positions, names, **options):
    """Write names, such as those of classes, at positions on an axis, each as `plain` words."""
    write_ticks(axis, positions, [label(plain(name, SHORT_NAME)) for name in names], **options)


def write_ticks(axis, positions, labels, **options):
    """Write labels (`Label`) at positions on an axis, all in the fonts that one of them needs."""
    from matplotlib.font_manager import FontProperties

    found = [each.font["family"] for each in labels if "family" in each.font]
    own, *_ = FontProperties().get_family()           # one that comes before it stays before it
    families = {family: None for each in sorted(found, key=lambda families: families[0] == own)
                for family in each}
    axis.set_ticks(positions, [each.text for each in labels],
                   **({"family": [*families]} if families else {}), **options)


def legend_columns(names, most):
    """How many columns a legend below a picture has, fewer than `most` where names are long."""
    widest = max(label(name).width for name in names)
    return max(1, min(most, int(0.75 * WIDTH / text_inches() / widest))) if (
        widest > LONG_NAME) else most
