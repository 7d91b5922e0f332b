"""The sizes of the parts of an architecture, and how they are drawn above each other."""

from functools import lru_cache
from typing import NamedTuple

from numformer.analysis.structure.backward_equations import backward_equations
from numformer.analysis.structure.parts import Box, Residual, Row, Stack
from numformer.plots.diagrams.ink import SMALL, Text, wrapped

WIDE, NARROW = 3.9, 1.7                                       # of boxes: whole models; one block
GAP, BETWEEN, RADIUS = 0.27, 0.25, 0.13                         # above each other; in rows; of sums
FORK, ASIDE, PADDING = 0.16, 0.28, 0.2                        # residual connections; of frames
NARROW_SPACE = "\u00a0"                                        # without a line break
FACES = (("Norm", "quiet"), ("ttention", "pale"))


class Style(NamedTuple):
    """How boxes are written: with equations, and narrow for one block."""

    backward: bool = False
    narrow: bool = False


@lru_cache(maxsize=4096)
def texts_of(box, style):
    """The lines of a box, a tuple of `Text`; and its width."""
    shape = f"({', '.join(f'{size:,}' if type(size) is int else size for size in box.shape)})"
    number = "tied" if box.tied else _scaled(box.parameters)
    inside = (NARROW if style.narrow else WIDE) - 0.3
    if style.narrow:
        inside = max(inside, Text(box.page, points=SMALL).width)
        texts = [Text(line, bold=True) for line in wrapped(box.name, inside)]
        texts += [Text(line) for line in wrapped(box.detail, inside)]
        texts += [Text(line, colour="blue") for line in wrapped(
            _shape_and_number(shape, number), inside)]
    else:
        texts = [Text(box.name, shape, bold=True, right_colour="blue")]
        texts += [Text(line) for line in wrapped(box.detail, inside)]
    if style.backward:
        texts += [Text(line, colour="orange") for line in _packed(
            backward_equations(box.kind), inside)]
    page = Text(box.page, number if not style.narrow else "", "grey", SMALL)
    return (*texts, page), max(inside, *(text.width for text in (*texts, page))) + 0.2


def _shape_and_number(shape, number):
    unbroken = shape.replace(" ", NARROW_SPACE)
    return f"{unbroken} · {number}".replace("· ", f"·{NARROW_SPACE}") if number else unbroken


def _packed(equations, inside):
    """Equations next to each other, as far as the width goes."""
    lines = []
    for equation in equations:
        if lines and Text(f"{lines[-1]},  {equation}").width <= inside:
            lines[-1] += f",  {equation}"
        else:
            lines.append(equation)
    return lines


def _scaled(number):
    """A number of parameters in three digits, or nothing for none."""
    for power, letter in ((9, "G"), (6, "M"), (3, "k")):
        if number >= 10 ** power:
            return f"{number / 10 ** power:.3g} {letter}"
    return str(number or "")


@lru_cache(maxsize=4096)
def size_of(part, style):
    """(width, height) of a part in inches, without the gap below it."""
    if isinstance(part, Box):
        texts, width = texts_of(part, style)
        return width, sum(text.height for text in texts) + 0.14
    if isinstance(part, Row):
        sizes = [series_size(series, style) for series in part.series]
        return (sum(width for width, _ in sizes) + BETWEEN * (len(sizes) - 1),
                max(height for _, height in sizes))
    if isinstance(part, Residual):
        width, height = series_size(part.parts, style)
        return width + 2 * ASIDE, FORK + height + GAP + 2 * RADIUS
    width, height = series_size(part.parts, style)
    notes = [size_of(box, style._replace(narrow=True)) for box in part.shared]
    return width + 2 * PADDING, max(
        height + PADDING + 0.05, sum(tall + 0.4 for _, tall in notes) + 0.8)


def series_size(parts, style):
    """(width, height) of parts above each other, each with the gap below it."""
    if not parts:
        return NARROW / 2, 0.0
    sizes = [size_of(part, style) for part in parts]
    gaps = GAP * sum(isinstance(part, (Box, Stack)) for part in parts)        # others have theirs
    return max(width for width, _ in sizes), gaps + sum(height for _, height in sizes)


def aside(parts, style):
    """Inches that parts need to the right of their width, for what is written next to frames."""
    stacks = [part for part in parts if isinstance(part, Stack)]
    return max([0.0, *(0.65 for stack in stacks if stack.repeat > 1), *(
        0.2 + size_of(box, style._replace(narrow=True))[0]
        for stack in stacks for box in stack.shared)])


class Drawing:
    """Draws parts on a canvas; `ends` are the points from which arrows go to the next part.

    Parameters
    ----------
    canvas : Canvas
    style : Style
    """

    def __init__(self, canvas, style):
        self.canvas, self.style = canvas, style
        self.memory_boxes = []                                # left ends of boxes that read memory

    def series(self, parts, x, y, ends, gradient=True):
        """Draw parts from y on, the first with an arrow from `ends`; return the last ends and y."""
        for part in parts:
            ends, y = self.part(part, x, y + GAP, ends, gradient)
            gradient = True
        return ends, y

    def part(self, part, x, y, ends, gradient=True):
        """Draw a part with its lower edge at y; returns (ends, upper edge)."""
        if isinstance(part, Box):
            return self._box(part, x, y, ends, gradient)
        if isinstance(part, Row):
            return self._row(part, x, y - GAP, ends)
        if isinstance(part, Residual):
            return self._residual(part, x, y, ends)
        return self._stack(part, x, y, ends)

    def _box(self, box, x, y, ends, gradient):
        texts, width = texts_of(box, self.style)
        _, height = size_of(box, self.style)
        if len(ends) > 1:
            width = max(width, 2 * max(abs(end[0] - x) for end in ends) + 0.5)
        face = next((face for word, face in FACES if word in box.name), "ground")
        self.canvas.box(x, y, width, height, texts, face, centred=self.style.narrow)
        for end in ends if box.reads_input else ():
            self.join(end, (x, y), width / 2, gradient)
        if box.reads_memory:
            self.memory_boxes.append((x - width / 2, y + height / 2))
        if box.kind in ("RNN", "LSTM", "GRU", "AttentiveGRU"):
            side, low, high = x + width / 2, y + height * 0.25, y + height * 0.75
            self.canvas.arrow((side, high), (side + 0.18, high), (side + 0.18, low), (side, low))
        return [(x, y + height)], y + height

    def join(self, start, target, reach=0.0, gradient=True):
        """An arrow from a point up to a box or sum, with corners where it is not above."""
        (x, y), (to, top) = start, target
        if abs(x - to) <= reach:
            self.canvas.arrow((x, y), (x, top), gradient=gradient)
        else:
            middle = top - GAP / 2
            self.canvas.arrow((x, y), (x, middle), (to, middle), (to, top), gradient=gradient)

    def _row(self, row, x, y, ends):
        width, height = size_of(row, self.style)
        (start, low), = ends
        left, out = x - width / 2, []
        for series in row.series:
            wide, _ = series_size(series, self.style)
            centre = left + wide / 2
            left += wide + BETWEEN
            fork = (start, y + 0.1)
            begin = [(start, low)] if abs(centre - start) < 1e-9 else [fork]
            if not series:
                if begin == [fork]:
                    self.canvas.arrow(fork, (centre, fork[1]), head=False)
                    begin = [(centre, fork[1])]
                out += begin
                continue
            out += self._branch(series, centre, y, begin[0], (start, low))
        if any(abs(end[0] - start) > 1e-9 for end in out):
            self.canvas.arrow((start, low), (start, y + 0.1), head=False)
        return out, y + height

    def _branch(self, series, centre, y, begin, stem):
        """A series of a row, with its corner at the height of the fork."""
        first, *rest = series
        ends, top = self.part(first, centre, y + GAP, [(centre, begin[1])])
        if begin[0] != centre:
            self.canvas.arrow(begin, (centre, begin[1]), head=False)
        return self.series(rest, centre, top, ends)[0]

    def _residual(self, residual, x, y, ends):
        fork = y + FORK - GAP
        for end in ends:
            self.canvas.arrow(end, (end[0], y - GAP), (x, y - GAP), (x, fork), head=False)
        width, height = size_of(residual, self.style)
        outs, top = self.series(residual.parts, x, fork, [(x, fork)])
        top, aside = y - GAP + height - 2 * RADIUS, x + width / 2 - 0.06
        for end in outs:
            if abs(end[0] - x) < 1e-9:
                self.canvas.arrow(end, (x, top))
            else:
                side = RADIUS if end[0] > x else -RADIUS
                self.canvas.arrow(end, (end[0], top + RADIUS), (x + side, top + RADIUS))
        self.canvas.sum(x, top + RADIUS)
        if len(outs) == 2 and abs(sum(end[0] for end in outs) - 2 * x) < 0.5 * width:
            self.canvas.arrow((x, fork), (x, top))            # between two parallel branches
        else:
            self.canvas.arrow((x, fork), (aside, fork), (aside, top + RADIUS),
                              (x + RADIUS, top + RADIUS))
        if self.canvas.backward:
            self.canvas.sum(x + 0.055, fork - 0.055, 0.075, "orange")
        return [(x, top + 2 * RADIUS)], y - GAP + height

    def _stack(self, stack, x, y, ends):
        width, height = size_of(stack, self.style)
        inner, _ = series_size(stack.parts, self.style)
        half = inner / 2 + PADDING
        for end in ends:
            self.canvas.arrow(end, (end[0], y - GAP / 2), (x, y - GAP / 2), (x, y + 0.02),
                              head=False)
        outs, _ = self.series(stack.parts, x, y + 0.05, [(x, y + 0.02)])
        top = y + height
        self.canvas.frame(x - half, y, x + half, top)
        if stack.repeat > 1:
            self.canvas.write(x + half + 0.1, top - 0.14, f"× {stack.repeat}", ha="left",
                              points=15, fontweight="bold")
        low = y + 0.35
        for box in stack.shared:
            narrow = self.style._replace(narrow=True)
            texts, _ = texts_of(box, narrow)
            wide, tall = size_of(box, narrow)
            self.canvas.write(x + half + 0.14, low + tall + 0.12, "one for all blocks", "grey",
                              ha="left", points=SMALL)
            self.canvas.box(x + half + 0.12 + wide / 2, low, wide, tall, texts, centred=True)
            self.canvas.arrow((x + half + 0.12, low + tall / 2), (x + half, low + tall / 2))
            low += tall + 0.4
        return outs, top
