"""Colours, texts, boxes and arrows of a diagram, in inches of an axes without ticks."""

import re
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from numformer.plots.axes import in_slides, is_dark, new_figure
from numformer.plots.style import SLIDE, SLIDE_SIZE

POINTS, SMALL, LARGE, LINE = 12, 10, 36, 1.42                  # of texts; of lines, in text heights
TITLED = SLIDE[0], SLIDE[1] - 0.6                             # inches of a slide below its title


class Palette(NamedTuple):
    """The colours of a diagram: gradients are orange, saved arrays and attention pale blue."""

    ink: str
    blue: str
    orange: str
    pale: str
    grey: str
    quiet: str
    ground: str


LIGHT = Palette("#1b1f24", "#1257a8", "#c8500a", "#dbe8f7", "#5b646e", "#f0f2f5", "#ffffff")
DARK = Palette("#e8e6e0", "#8fbcf5", "#f5a05c", "#1d3a5c", "#a0a8b2", "#23272d", "#14161a")


class Text(NamedTuple):
    """A line of a box: its text, colour (a field of `Palette`), size in points, and sides."""

    left: str
    right: str = ""
    colour: str = "ink"
    points: int = POINTS
    bold: bool = False
    right_colour: str = "ink"

    @property
    def height(self):
        tall = 1.15 if "$" in self.left else 1.0
        return self.points / 72 * LINE * tall

    @property
    def width(self):
        gap = 0.25 if self.left and self.right else 0.0
        return (text_width(self.left, self.points, self.bold) + gap
                + text_width(self.right, self.points, False))


@lru_cache(maxsize=4096)
def text_width(text, points=POINTS, bold=False):
    """The width of a text in inches."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath

    if not text:
        return 0.0
    font = FontProperties(weight="bold" if bold else "normal")
    return float(TextPath((0, 0), text, size=points, prop=font).get_extents().x1) / 72


def wrapped(text, width, points=POINTS):
    """A text in lines of at most this width in inches, as far as its words allow.

    There are as few lines as possible. They end after commas where that needs no more of them, and
    are about equally long: no word is alone that need not be.
    """
    words = text.split(" ") if text else []
    phrases = re.split(r"(?<=,) ", text) if text else []
    lines, by_phrase = (_filled(parts, width, points) for parts in (words, phrases))
    if len(by_phrase) == len(lines) and _widest(by_phrase, points) <= width:
        words, lines = phrases, by_phrase
    while True:                                       # the longest line loses its last words
        before, width = lines, _widest(lines, points)
        lines = _filled(words, width - 1e-6, points)
        if len(lines) > len(before) or _widest(lines, points) >= width:
            return before


def _filled(parts, width, points):
    """Parts of a text in lines, each as full as this width allows."""
    lines = []
    for part in parts:
        if lines and text_width(f"{lines[-1]} {part}", points) <= width:
            lines[-1] += f" {part}"
        else:
            lines.append(part)
    return lines


def _widest(lines, points):
    return max((text_width(line, points) for line in lines), default=0.0)


class Canvas:
    """Axes in inches, on which a diagram is drawn.

    Parameters
    ----------
    ax : matplotlib Axes
    backward : bool
        Whether arrows have gradients next to them, in the other direction.
    scale : float
        Of texts: inches of the figure in a unit of the axes.
    """

    def __init__(self, ax, backward=False, scale=1.0):
        self.ax, self.backward, self.scale = ax, backward, scale
        self.palette = DARK if is_dark(ax) else LIGHT

    def write(self, x, y, text, colour="ink", points=POINTS, **options):
        """Write a text at a point."""
        options = {"ha": "center", "va": "center"} | options
        self.ax.text(x, y, text, color=getattr(self.palette, colour),
                     fontsize=points * self.scale, **options)

    def box(self, x, y, width, height, texts, face="ground", edge="ink", centred=False,
            order=2):
        """A box with its lower edge at y, and its lines of text from the top on."""
        from matplotlib.patches import FancyBboxPatch

        self.ax.add_patch(FancyBboxPatch(
            (x - width / 2, y), width, height, boxstyle="round,pad=0,rounding_size=0.07",
            facecolor=getattr(self.palette, face), edgecolor=getattr(self.palette, edge),
            linewidth=1.3 * self.scale, zorder=order))
        top = y + height - (height - sum(text.height for text in texts)) / 2
        left, right = x - width / 2 + 0.1, x + width / 2 - 0.1
        for text in texts:
            middle = top - text.height / 2
            place = (x, "center") if centred and not text.right else (left, "left")
            self.write(place[0], middle, text.left, text.colour, text.points, ha=place[1],
                       va="center_baseline", zorder=4,
                       fontweight="bold" if text.bold else "normal")
            if text.right:
                self.write(right, middle, text.right, text.right_colour, text.points, ha="right",
                           va="center_baseline", zorder=4)
            top -= text.height

    def sum(self, x, y, radius=0.13, colour="ink"):
        """A circle with a plus around (x, y)."""
        from matplotlib.patches import Circle

        self.ax.add_patch(Circle((x, y), radius, facecolor=self.palette.ground, zorder=2,
                                 edgecolor=getattr(self.palette, colour),
                                 linewidth=1.3 * self.scale))
        for dx, dy in ((0.6, 0), (0, 0.6)):
            self.ax.plot((x - dx * radius, x + dx * radius), (y - dy * radius, y + dy * radius),
                         color=getattr(self.palette, colour), linewidth=1.3 * self.scale, zorder=3)

    def arrow(self, *points, gradient=True, head=True, dashed=False):
        """A forward arrow through points; with `backward` the gradient's next to it."""
        points = _corners(points)
        both = self.backward and gradient
        self.corners(parallel(points, -0.055) if both else points, "ink", head, dashed)
        if both:
            self.corners(parallel(points, 0.055)[::-1], "orange", True, dashed)

    def corners(self, points, colour, head=True, dashed=False):
        """A line through points, in straight pieces, that ends in an arrow."""
        from matplotlib.patches import Polygon

        colour, points = getattr(self.palette, colour), [np.array(p, float) for p in points]
        tip = points[-1]
        if head:
            step = (tip - points[-2]) / max(np.abs(tip - points[-2]).max(), 1e-9)
            side = np.array([-step[1], step[0]])
            points[-1] = tip - 0.08 * step
            self.ax.add_patch(Polygon([tip, tip - 0.12 * step + 0.045 * side, tip - 0.12 * step
                                       - 0.045 * side], facecolor=colour, edgecolor="none",
                                      zorder=3))
        self.ax.plot(*zip(*points), color=colour, linestyle="--" if dashed else "-", zorder=1,
                     linewidth=1.3 * self.scale, solid_joinstyle="round", solid_capstyle="butt")

    def line(self, points, colour):
        """A smooth line through points that ends in an arrow."""
        from matplotlib.patches import FancyArrowPatch
        from matplotlib.path import Path

        start, *rest = points
        vertices, codes = [start], [Path.MOVETO]
        for (x, y), (to, end) in zip(points, rest):
            middle = (y + end) / 2
            vertices += [(x, middle), (to, middle), (to, end)]
            codes += [Path.CURVE4] * 3
        self.ax.add_patch(FancyArrowPatch(
            path=Path(vertices, codes), arrowstyle="-|>,head_length=4,head_width=1.8",
            color=getattr(self.palette, colour), linewidth=1.2 * self.scale, zorder=2.5,
            mutation_scale=self.scale, shrinkA=0, shrinkB=0))

    def frame(self, left, bottom, right, top):
        """A dashed frame around repeated blocks."""
        from matplotlib.patches import FancyBboxPatch

        self.ax.add_patch(FancyBboxPatch(
            (left, bottom), right - left, top - bottom, boxstyle="round,pad=0,rounding_size=0.12",
            facecolor="none", edgecolor=self.palette.grey, linewidth=1.2 * self.scale,
            linestyle=(0, (4, 3)), zorder=0.5))


def _corners(points):
    """The ends of a line of right angles, and its corners alone."""
    kept = []
    for point in points:
        if kept and np.allclose(point, kept[-1]):
            continue
        while len(kept) > 1 and any(abs(point[k] - kept[-1][k]) < 1e-9 and abs(
                kept[-1][k] - kept[-2][k]) < 1e-9 for k in (0, 1)):
            kept.pop()
        kept.append(point)
    return kept


def parallel(points, distance):
    """A line of right angles, moved to its right by a distance.

    Examples
    --------
    >>> parallel([(0, 0), (0, 2), (2, 2)], 0.5)
    [(0.5, 0.0), (0.5, 1.5), (2.0, 1.5)]
    """
    points = [np.array(point, float) for point in points]
    normals = []
    for a, b in zip(points, points[1:]):
        dx, dy = (b - a) / np.abs(b - a).max()
        normals.append(np.array([dy, -dx]))
    moved = []
    for k, point in enumerate(points):
        near = normals[max(k - 1, 0):k + 1]
        shift = near[0] if len(near) == 1 or abs(near[0] @ near[1]) > 0.5 else near[0] + near[1]
        moved.append(tuple(float(z) for z in point + distance * shift))
    return moved


def on_slide(width, height):
    """The size of a diagram with the room around it that makes it fill a slide.

    A small one gets more, so that its text has at most 21 points.
    """
    least = TITLED[0] * LARGE / (7 / 6 * SLIDE_SIZE)
    width = max(width, height * TITLED[0] / TITLED[1], least)
    return width, width * TITLED[1] / TITLED[0]


def axes_of(size, ax, title):
    """Axes of `size` inches without ticks, and the scale: those given, or of a new figure."""
    width, height = size
    points = 14
    if ax is None and in_slides():
        ax = new_figure(SLIDE, layout=None).add_axes((0, 0, 1, TITLED[1] / SLIDE[1]))
        points = 7 / 6 * SLIDE_SIZE
    elif ax is None:
        room = 0.5 if title else 0.1
        figure = new_figure((width, height + room), layout=None)
        ax = figure.add_axes((0, 0, 1, height / (height + room)))
    ax.set(xlim=(0, width), ylim=(0, height), aspect="equal")
    ax.set_axis_off()
    box = ax.get_window_extent()
    scale = min(box.width / width, box.height / height) / ax.figure.dpi
    if title:
        palette = DARK if is_dark(ax) else LIGHT
        ax.set_title(title, fontsize=points * min(scale, 1.0) if points == 14 else points,
                     fontweight="bold", color=palette.ink)
    return ax, scale
