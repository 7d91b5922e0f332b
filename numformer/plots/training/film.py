"""The film of a training: loss, sample, attention and embeddings of one state after another."""

from typing import NamedTuple

import numpy as np

from numformer.checks import check_whole
from numformer.plots.axes import WIDTH, colours, draw_map, faint, is_dark, new_axes, styled
from numformer.plots.style import SIZE, SLIDE, SLIDE_SIZE, in_slides
from numformer.plots.text.grid import cells_of, column_width, columns_of, runs_right_to_left
from numformer.plots.text.labels import in_lines, label, take_key
from numformer.plots.text.letters import letters
from numformer.plots.text.lines import parts_of_line, visible_letters, wrapped
from numformer.plots.tokens import label_ticks, visible
from numformer.plots.training.curves import moving_average


CLASSES = ("vowels", "consonants", "letters", "digits", "punctuation", "words", "parts of words")
MOST_LETTERS = 12                                     # of a token on the map of embeddings
KEY_LINES = 3                                         # of marks of letters that no font has


class Film(NamedTuple):
    """The numbers of a film: N states of one training.

    Parameters
    ----------
    title : str
    unit : str
        Of the loss.
    steps : list of int
        Of the N states, rising.
    losses, validations : list of (int, float)
        Loss by number of steps: of the next training batch, and of every validation.
    prompt : str
        The text that is continued, or answered.
    samples : list of str
        What each state makes of it.
    attention : ndarray, shape (N, T, S), or None
        Weights of one head; None for a model without attention.
    mask : ndarray of bool, shape (T, S), or None
        True where a query may attend to a key.
    queries, keys : list of str
        Tokens.
    head : str
        The name of the head.
    points : ndarray, shape (N, V, 2), or None
        Embeddings of V tokens on two axes that are the same for all states.
    tokens : list of str
        These tokens.
    classes : list of str
        The class of each.
    """

    title: str
    unit: str
    steps: list
    losses: list
    validations: list
    prompt: str
    samples: list
    attention: np.ndarray | None = None
    mask: np.ndarray | None = None
    queries: list = ()
    keys: list = ()
    head: str = ""
    points: np.ndarray | None = None
    tokens: list = ()
    classes: list = ()


@styled
def film_frame(film, number, ax=None):
    """One state: what it writes, where it attends, its loss, and its embeddings.

    Parameters
    ----------
    film : Film
    number : int
        Of the state, from 0.
    ax : matplotlib Axes, optional
        Its figure is cleared and drawn on; a new figure by default.

    Returns
    -------
    Figure

    Raises
    ------
    ValueError, TypeError
        If there is no state of that number, or shapes of the film do not match.

    Examples
    --------
    >>> film = Film("A model", "nats", [0, 5], [(1, 2.0)], [(5, 1.0)], "a", ["xq", "bc"])
    >>> [text.get_text() for text in film_frame(film, 1).texts][:2]
    ['A model', 'step 5 of 5']
    """
    check_film("film_frame", film)
    check_whole("film_frame", "number", number, least=0)
    if number >= len(film.steps):
        raise ValueError(f"film_frame: number={number} must be one of the {len(film.steps)} "
                         "states, counted from 0.")
    page = _Page(new_axes((1, 1)) if ax is None else ax,
                 *((*SLIDE, SLIDE_SIZE) if in_slides() else (WIDTH, 7, SIZE)))
    page.heading(film, number)
    has_map, has_points = film.attention is not None, film.points is not None
    _, right = page.map if has_map else (0, page.width)
    below = right if in_slides() else page.width                       # where the lower row ends
    _draw_sample(page, film, number, right, _key(film))
    if has_map:
        _draw_attention(page, film, number)
    _draw_loss(page, film, number, below / 2 if has_points else below)
    if has_points:
        _draw_points(page, film, number, below / 2, below)
    return page.figure


class _Page:
    """A figure of two rows; lengths are in ems of its text, from the upper left corner."""

    def __init__(self, ax, width, height, size):
        self.figure, self.size, (self.main, self.accent) = ax.figure, size, colours(ax)[:2]
        self.ink = "#e8e6e0" if is_dark(ax) else "#1b1f24"
        self.figure.clear()
        self.figure.set_layout_engine("none")
        self.figure.set_size_inches(width, height)
        self.width, self.height = 72 * width / size, 72 * height / size
        wide = width > 1.5 * height
        self.rows = 4.2, (0.53 if wide else 0.58) * self.height       # where each begins
        # the side of the map, which is as high as both rows on a wide page, and its left end
        side = self.height - 10.5 if wide else self.rows[1] - self.rows[0] - 5.4
        self.map = side, self.width - side - 3.5

    def axes(self, left, top, width, height):
        return self.figure.add_axes((left / self.width, 1 - (top + height) / self.height,
                                     width / self.width, height / self.height))

    def text(self, left, top, text, size=1, **options):
        options = {"va": "top", "color": self.ink, **options}
        return self.figure.text(left / self.width, 1 - top / self.height, text,
                                fontsize=self.size * size, **options)

    def heading(self, film, number):
        self.text(1.5, 1.1, film.title, 1.6, fontweight="bold")
        self.text(self.width - 1.5, 1.1, f"step {film.steps[number]} of {film.steps[-1]}", 1.6,
                  fontweight="bold", color=self.accent, ha="right")


def _key(film):
    """The key of marks for letters that no font has, the same in all frames."""
    columns_of("".join(visible_letters("".join([film.prompt, *film.samples]))))
    for token in (*film.keys, *film.queries):
        label(visible(token))
    for token in film.tokens:
        _point_label(token)
    return take_key()


def _draw_sample(page, film, number, right, key):
    """The prompt and what follows, in lines of as many letters as there is space for.

    Below them is the key of marks for letters that no font has.
    """
    top, size, advance = page.rows[0], 1.1, column_width()
    columns = int((right - 2.2) / (size * advance))
    explained = in_lines(key, right - 2.2)
    if len(explained) > KEY_LINES:
        explained[KEY_LINES - 1:] = [f"{explained[KEY_LINES - 1]} …"]
    lines = int((page.rows[1] - top - 3.2 - 1.3 * len(explained)) / (1.3 * size))
    page.text(1.5, top, "What it writes", fontweight="bold")
    *whole, begun = wrapped(film.prompt, columns)
    kept = len(letters(begun))
    text = whole + wrapped(begun + film.samples[number], columns, kept)
    right_to_left = runs_right_to_left(cells_of("".join(text)))
    bold = {"color": page.main, "fontweight": "bold"}
    for k, line in enumerate(text[:lines]):
        first = len(letters(line)) if k < len(whole) else kept if k == len(whole) else 0
        for start, shown, font, is_given in parts_of_line(line, first, columns, right_to_left):
            page.text(1.5 + start * size * advance, top + 2.8 + 1.3 * size * k, shown, size,
                      parse_math=False, va="baseline", **font, **(bold if is_given else {}))
    for k, line in enumerate(explained):
        page.text(1.5, page.rows[1] - 1.3 * (len(explained) - k) - 0.3, line, va="top")


def _draw_attention(page, film, number):
    """The map of the head, on one scale for all states."""
    weights, top, (side, _) = film.attention, page.rows[0], page.map
    page.text(page.width - 1.5 - side, top, "Where it attends", fontweight="bold")
    ax = page.axes(page.width - 1.5 - side, top + 1.8, side, side)
    draw_map(ax, np.where(film.mask, weights[number], np.nan), "", top=float(weights.max()),
             numbers=False)
    for axis, tokens in ((ax.xaxis, film.keys), (ax.yaxis, film.queries)):
        label_ticks(axis, tokens)
    ax.tick_params(length=0)
    ax.set_xlabel(film.head, fontsize=page.size, labelpad=2)
    ax.set_facecolor("0.22" if is_dark(ax) else "0.92")               # of masked cells


def _draw_loss(page, film, number, right):
    """The loss up to this state; what follows is grey."""
    step, top = film.steps[number], page.rows[1]
    page.text(1.5, top, "Loss", fontweight="bold")
    page.text(1.5, top + 1.5, film.unit)
    ax = page.axes(4.4, top + 3.4, right - 6, page.height - top - 6.2)
    ax.set_xscale("function", functions=(np.log1p, np.expm1))
    steps = np.array([step for step, _ in film.losses])
    losses = np.array(moving_average([loss for _, loss in film.losses]))
    ax.plot(steps, losses, color=faint(ax), linewidth=1.5)
    past = steps <= max(step, steps[0])
    ax.plot(steps[past], losses[past], color=page.main, linewidth=2.5, label="training")
    seen = [(at, loss) for at, loss in film.validations if at <= step]
    if film.validations:
        ax.plot(*(zip(*seen) if seen else ((), ())), color=page.main, marker="s", markersize=5,
                linestyle="none", markerfacecolor="none", label="validation")
    ax.plot(steps[past][-1], losses[past][-1], color=page.accent, marker="o", markersize=11)
    ax.annotate(f"{losses[past][-1]:.2f}", (steps[past][-1], losses[past][-1]), (8, 14),
                textcoords="offset points", fontsize=page.size, fontweight="bold",
                color=page.accent, ha="left" if step < film.steps[-1] ** 0.8 else "right")
    everything = [*losses, *(loss for _, loss in film.validations)]
    ax.set(xlim=(0, 1.2 * film.steps[-1]), ylim=(min(everything) * 0.9, max(everything) * 1.12))
    powers = [0] + [10 ** k for k in range(12) if 10 ** k <= film.steps[-1]]
    ax.set_xticks(powers, [f"{power:,}" for power in powers], fontsize=page.size)
    ax.set_xticks([], minor=True)
    ax.tick_params(labelsize=page.size, length=3)
    ax.set_xlabel("step", fontsize=page.size, labelpad=0)
    ax.spines[["top", "right"]].set_visible(False)
    if film.validations:
        ax.legend(fontsize=page.size, frameon=False, loc="upper right", handlelength=1.2,
                  borderaxespad=0)


def _draw_points(page, film, number, left, right):
    """The tokens at their embeddings, on the same axes in every state."""
    top, lines = page.rows[1], [[]]
    page.text(left, top, "Embeddings", fontweight="bold")
    names = sorted(set(film.classes), key=CLASSES.index)
    for name in names:
        if sum(_width(each) + 0.8 for each in [*lines[-1], name]) > right - left:
            lines.append([])
        lines[-1].append(name)
    top += 1.5 * len(lines)
    ax = page.axes(left, top + 1.9, right - left - 1.5, page.height - top - 3.1)
    ends = np.abs(film.points).max(axis=(0, 1)) * 1.08
    ax.set(xlim=(-ends[0], ends[0]), ylim=(-ends[1], ends[1]), xticks=[], yticks=[])
    ax.spines[:].set_visible(False)
    ax.axhline(0, color=faint(ax), linewidth=0.8)
    ax.axvline(0, color=faint(ax), linewidth=0.8)
    others = colours(ax)[2], colours(ax)[5], page.ink                 # letters, digits, punctuation
    colour = dict(zip(CLASSES, (page.accent, page.main, *others, page.accent, page.main)))
    for (x, y), token, its_class in zip(film.points[number], film.tokens, film.classes):
        shown, font, _ = _point_label(token)
        ax.text(x, y, shown, **font, fontsize=page.size, color=colour[its_class], ha="center",
                va="center")
    for k, line in enumerate(lines):
        start = left
        for name in line:
            page.text(start, page.rows[1] + 1.5 * (k + 1), name, color=colour[name],
                      fontweight="bold")
            start += _width(name) + 0.8


def _point_label(token):
    return label(visible(token, MOST_LETTERS), weight="bold")


def _width(text):
    """The width of a bold text, in ems."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath

    return TextPath((0, 0), text, size=1, prop=FontProperties(weight="bold")).get_extents().width


def check_film(owner, film):
    """ValueError unless a film has one of everything for each state, and a loss."""
    N = len(film.steps)
    if not N or not film.losses:
        raise ValueError(f"{owner}: film has no states or no losses; give at least one.")
    shapes = {"samples": (len(film.samples), N)}
    if film.attention is not None:
        shapes["attention"] = film.attention.shape, (N, len(film.queries), len(film.keys))
        shapes["mask"] = np.shape(film.mask), film.attention.shape[1:]
    if film.points is not None:
        shapes["points"] = film.points.shape, (N, len(film.tokens), 2)
        shapes["classes"] = len(film.classes), len(film.tokens)
    for name, (found, needed) in shapes.items():
        if found != needed:
            raise ValueError(f"{owner}: film.{name} has size {found}, but must have {needed}.")
    unknown = sorted(set(film.classes) - set(CLASSES))
    if unknown:
        raise ValueError(f"{owner}: film.classes holds {unknown[0]!r}; choose from "
                         f"{', '.join(CLASSES)}.")
