"""A text whose tokens are shaded by their loss."""

import numpy as np

from numformer.analysis.predictions import check_language_model, token_losses
from numformer.checks import check_array
from numformer.plots.axes import SLIDE, WIDTH, faint, in_slides, new_axes, readable_on, sequential
from numformer.plots.axes import styled, text_inches
from numformer.plots.pictures import picture_of_run
from numformer.plots.text.grid import cells_of, column_width, in_order, runs_right_to_left
from numformer.plots.text.letters import SIGNS, signs

SHOWN_TOKENS = 420                                    # of a held-out text
LINE = 1.75                                           # ems from line to line


@styled
def tokens_by_loss(tokens, losses, ax=None, title=None, unit="nats", top=None):
    """Write a text; the ground of each token shows its loss, darker for a larger one.

    The first token has no ground, because nothing predicts it. White space is visible; a new line
    begins after a line feed. Each letter has a cell, a wide one two; lines of Hebrew and Arabic run
    from right to left. Letters that no font has are marks, explained below the text.

    Parameters
    ----------
    tokens : list of T str
    losses : ndarray, shape (T - 1,)
        Cross-entropy of the tokens 1 to T - 1, from `numformer.analysis.token_losses`.
    ax : matplotlib Axes, optional
        Axes to draw on; a new figure by default.
    title : str, optional
        The mean loss by default.
    unit : str
        Of the losses.
    top : float, optional
        The end of the colour scale, such as the loss of equal probabilities, log V; the largest
        loss by default.

    Returns
    -------
    Axes

    Raises
    ------
    ValueError, TypeError
        If there is no loss, or not one for each token but the first.

    References
    ----------
    Gehrmann, Strobelt and Rush (2019), "GLTR: Statistical Detection and Visualization of Generated
    Text", colour tokens by their rank in the same way.

    Examples
    --------
    >>> tokens_by_loss(["a", " ", "b"], np.array([0.5, 1.5])).get_title()
    'Loss of every token: 1.00 nats on average'
    """
    check_array("tokens_by_loss", "losses", losses, "(N,)")
    if not len(losses) or len(losses) != len(tokens) - 1:
        raise ValueError(f"tokens_by_loss: {len(losses)} losses for {len(tokens)} tokens; give one "
                         "for each token but the first, and two tokens or more.")
    from matplotlib.collections import PolyCollection

    width = SLIDE[0] if in_slides() else WIDTH
    columns = int((width - 1.75) / (column_width() * text_inches()))
    cells, letters, rows = _layout(tokens, columns)
    if ax is None:
        ax = new_axes((WIDTH, max(2.2, 0.9 + LINE * text_inches() * rows)))
    shapes = [[(x, y - 0.44), (end, y - 0.44), (end, y + 0.44), (x, y + 0.44)]
              for number, x, end, y in cells if number]
    grounds = PolyCollection(shapes, cmap=sequential(ax), edgecolor=ax.get_facecolor(),
                             linewidth=0.8)
    grounds.set_array(losses[[number - 1 for number, *_ in cells if number]])
    grounds.set_clim(0, top or max(float(np.nanmax(losses)), 1e-12))
    ax.add_collection(grounds, autolim=False)
    for number, x, y, cell in letters:
        ink = readable_on(grounds, losses[number - 1]) if number else None
        ax.text(x + cell.columns / 2, y, cell.shown, **cell.font, ha="center", va="center",
                parse_math=False, color=ink, alpha=0.45 if cell.letter in SIGNS.values() else None)
    first, x, end, y = min(cells)
    ax.add_patch(_frame(x, y, end - x, faint(ax)))
    ax.set(xlim=(-0.5, columns + 0.5), ylim=(max(rows, 2) - 0.4, -0.6), xticks=[], yticks=[],
           title=title or f"Loss of every token: {losses.mean():.2f} {unit} on average")
    ax.set_frame_on(False)
    beyond = bool((losses > grounds.get_clim()[1]).any())
    ax.figure.colorbar(grounds, ax=ax, label=f"cross-entropy, {unit}", shrink=0.9, aspect=14,
                       extend="max" if beyond else "neither")
    return ax


def _layout(tokens, columns):
    """Grounds (number, x, end, row), letters (number, x, row, Cell), and the number of rows.

    Words go to the next line where they do not fit; longer ones than a line are broken.
    """
    grounds, letters = [], []
    lines = _lines(tokens, columns)
    for row, (line, right_to_left) in enumerate(lines):
        cells = [cell for _, cell in line]
        indent = columns - sum(cell.columns for cell in cells) if right_to_left else 0
        for column, place in in_order(cells, right_to_left):
            (number, cell), x = line[place], indent + column
            letters.append((number, x, row, cell))
            if grounds and grounds[-1][0] == number and grounds[-1][2:] == (x, row):
                grounds[-1] = (number, grounds[-1][1], x + cell.columns, row)
            else:
                grounds.append((number, x, x + cell.columns, row))
    return grounds, letters, len(lines)


def _lines(tokens, columns):
    """[(list of (number of the token, Cell), whether it runs from right to left)] of a text."""
    lines, line, paragraph = [], [], []               # paragraph: its lines so far

    def end_line(and_paragraph):
        nonlocal line, paragraph
        paragraph, line = [*paragraph, line] if line else paragraph, []
        if and_paragraph:
            cells = [cell for each in paragraph for _, cell in each]
            lines.extend((each, runs_right_to_left(cells)) for each in paragraph)
            paragraph = []

    used = 0
    for word in _words(tokens):
        cells = {number: cells_of(signs(tokens[number])) for number in word}
        whole = sum(cell.columns for each in cells.values() for cell in each)
        if used and used + whole > columns:
            end_line(False)
            used = 0
        for number in word:
            for cell in cells[number]:
                if used + cell.columns > columns:
                    end_line(False)
                    used = 0
                line.append((number, cell))
                used += cell.columns
            if tokens[number].endswith("\n"):
                end_line(True)
                used = 0
    end_line(True)
    return lines


def _words(tokens):
    """Numbers of tokens, in lists that end with white space.

    Examples
    --------
    >>> list(_words(["a", "b", " ", " ", "c", " d"]))
    [[0, 1, 2], [3], [4], [5]]
    """
    word = []
    for number, token in enumerate(tokens):
        if word and token[:1].isspace() and not token.isspace():
            yield word
            word = []
        word.append(number)
        if token[-1:].isspace():
            yield word
            word = []
    if word:
        yield word


def _frame(x, y, width, colour):
    from matplotlib.patches import Rectangle

    return Rectangle((x, y - 0.44), width, 0.88, facecolor="none", edgecolor=colour, linewidth=1.5)


@picture_of_run("token-loss", "text", "data")
def _token_loss(run):
    """The cross-entropy of every token of a text (default: a held-out one), of any length."""
    check_language_model("token-loss", run.model)
    ids = run.ids(SHOWN_TOKENS)
    losses = token_losses(run.model, ids)
    return tokens_by_loss([run.tokenizer.decode([token]) for token in ids], losses,
                          top=float(np.log(run.model.config.vocab_size)))
