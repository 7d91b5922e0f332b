"""The sizes of the parts of an architecture, and how they are drawn above each other."""

from functools import lru_cache
from typing import NamedTuple

from numformer.description import Box, Residual, Row, Stack
from numformer.plots.diagrams.ink import LARGE, SMALL, Text, text_width, wrapped

WIDE, NARROW, BRIEF = 3.9, 1.7, 3.2                           # of boxes: models; one block; slides
GAP, BETWEEN, RADIUS = 0.27, 0.25, 0.13                         # above each other; in rows; of sums
FORK, ASIDE, PADDING = 0.16, 0.28, 0.2                        # residual connections; of frames
FACES = (("Norm", "quiet"), ("ttention", "pale"))


class Style(NamedTuple):
    """How boxes are written: with equations, narrow for one block, brief (names) for slides."""

    backward: bool = False
    narrow: bool = False
    brief: bool = False


@lru_cache(maxsize=4096)
def texts_of(box, style):
    """The lines of a box, a tuple of `Text`; and its width."""
    if style.brief:
        texts = [Text(line, points=LARGE) for line in wrapped(box.name, BRIEF, LARGE)]
        texts += [Text(line, colour="orange", points=LARGE) for line in box.gradient
                  if style.backward]
        return tuple(texts), max(text.width for text in texts) + 0.2
    shape = f"({', '.join(f'{size:,}' if type(size) is int else size for size in box.shape)})"
    number = "tied" if box.tied else _scaled(box.parameters)
    inside = (NARROW if style.narrow else WIDE) - 0.3
    if style.narrow:
        inside = max(inside, Text(box.page, points=SMALL).width)
        texts = [Text(line, bold=True) for line in wrapped(box.name, inside)]
        texts += [Text(line) for line in wrapped(box.detail, inside)]
        both = f"{shape} · {number}"
        lines = [both] if number and text_width(both) <= inside else [shape, number]
        texts += [Text(line, colour="blue") for line in lines if line]
    else:
        texts = [Text(box.name, shape, bold=True, right_colour="blue")]
        texts += [Text(line) for line in wrapped(box.detail, inside)]
    if style.backward:
        texts += [Text(line, colour="orange") for line in _packed(box.gradient, inside)]
    page = Text(box.page, number if not style.narrow else "", "grey", SMALL)
    return (*texts, page), max(inside, *(text.width for text in (*texts, page))) + 0.2


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
        return width, sum(text.height for text in texts) + (0.04 if style.brief else 0.14)
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
        height + PADDING + 0.05, sum(tall + _note(style) for _, tall in notes) + 0.8)


def _note(style):
    """Inches above a shared box: for its label, and up to the next one."""
    return 1.0 if style.brief else 0.4


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
    times = 1.5 if style.brief else 0.65
    return max([0.0, *(times for stack in stacks if stack.repeat > 1), *(
        0.2 + size_of(box, style._replace(narrow=True))[0]
        for stack in stacks for box in stack.shared)])


class Drawing:
    """Draws parts on a canvas; `ends` are lines, from each of which an arrow goes to the next part.

    Parameters
    ----------
    canvas : Canvas
    style : Style
    """

    def __init__(self, canvas, style):
        self.canvas, self.style = canvas, style
        self.memory_boxes = []                                # left ends of boxes that read memory

    def series(self, parts, x, y, ends, gradient=True):
        """Draw parts from y on, the first with arrows from `ends`; return the last ends and y."""
        for part in parts:
            if isinstance(part, Box):
                ends, y = self._box(part, x, y + GAP, ends, gradient)
            elif isinstance(part, Row):
                ends, y = self._row(part, x, y, ends)
            elif isinstance(part, Residual):
                ends, y = self._residual(part, x, y, ends)
            else:
                ends, y = self._stack(part, x, y + GAP, ends)
            gradient = True
        return ends, y

    def _box(self, box, x, y, ends, gradient):
        texts, width = texts_of(box, self.style)
        _, height = size_of(box, self.style)
        if len(ends) > 1:
            width = max(width, 2 * max(abs(end[-1][0] - x) for end in ends) + 0.5)
        face = next((face for word, face in FACES if word in box.name), "ground")
        self.canvas.box(x, y, width, height, texts, face,
                        centred=self.style.narrow or self.style.brief)
        for end in ends if box.reads_input else ():
            (low, _), middle = end[-1], y - GAP / 2
            corner = [] if abs(low - x) <= width / 2 else [(low, middle), (x, middle)]
            self.canvas.arrow(*end, *corner, (x if corner else low, y), gradient=gradient)
        if box.reads_memory:
            self.memory_boxes.append((x - width / 2, y + height / 2))
        if box.recurrent:
            side, low, high = x + width / 2, y + height * 0.25, y + height * 0.75
            self.canvas.arrow((side, high), (side + 0.18, high), (side + 0.18, low), (side, low))
        return [((x, y + height),)], y + height

    def _row(self, row, x, y, ends):
        width, height = size_of(row, self.style)
        end, = ends
        left, out, fork = x - width / 2, [], y + 0.1
        for series in row.series:
            wide, _ = series_size(series, self.style)
            centre = left + wide / 2
            left += wide + BETWEEN
            start = [(*end, (end[-1][0], fork), (centre, fork))]
            out += self.series(series, centre, y, start)[0]
        return out, y + height

    def _residual(self, residual, x, y, ends):
        width, height = size_of(residual, self.style)
        fork, top, aside = y + FORK, y + height - 2 * RADIUS, x + width / 2 - 0.06
        for end in ends:
            self.canvas.arrow(*end, (end[-1][0], y), (x, y), (x, fork), head=False)
        outs, _ = self.series(residual.parts, x, fork, [((x, fork),)])
        for end in outs:
            (low, _), side = end[-1], RADIUS if end[-1][0] > x else -RADIUS
            corner = [] if abs(low - x) < 1e-9 else [(low, top + RADIUS)]
            self.canvas.arrow(*end, *corner, (x + side, top + RADIUS) if corner else (x, top))
        self.canvas.sum(x, top + RADIUS)
        if len(outs) == 2:                                    # between parallel branches
            wide, _ = series_size(residual.parts[0].series[0], self.style)
            between = x - width / 2 + ASIDE + wide + BETWEEN / 2
            self.canvas.arrow((x, fork), (between, fork), (between, top - 0.1), (x, top - 0.1),
                              (x, top))
        else:
            self.canvas.arrow((x, fork), (aside, fork), (aside, top + RADIUS),
                              (x + RADIUS, top + RADIUS))
        if self.canvas.backward:
            self.canvas.sum(x + 0.055, fork - 0.055, 0.075, "orange")
        return [((x, top + 2 * RADIUS),)], y + height

    def _stack(self, stack, x, y, ends):
        _, height = size_of(stack, self.style)
        inner, _ = series_size(stack.parts, self.style)
        half, top, middle = inner / 2 + PADDING, y + height, y - GAP / 2
        starts = [(*end, (end[-1][0], middle), (x, middle), (x, y + 0.05)) for end in ends]
        outs, _ = self.series(stack.parts, x, y + 0.05, starts)
        self.canvas.frame(x - half, y, x + half, top)
        if stack.repeat > 1:
            self.canvas.write(x + half + 0.1, top - 0.14, f"× {stack.repeat}", ha="left",
                              points=LARGE if self.style.brief else 15, fontweight="bold")
        low, narrow = y + 0.35, self.style._replace(narrow=True)
        for box in stack.shared:
            wide, tall = size_of(box, narrow)
            label, points = (("shared", LARGE) if self.style.brief
                             else ("one for all blocks", SMALL))
            self.canvas.write(x + half + 0.14, low + tall + 0.012 * points, label, "grey",
                              ha="left", points=points)
            self.canvas.box(x + half + 0.14 + wide / 2, low, wide, tall, texts_of(box, narrow)[0],
                            centred=True)
            self.canvas.arrow((x + half + 0.14, low + tall / 2), (x + half, low + tall / 2))
            low += tall + _note(self.style)
        return [(*end, (end[-1][0], top)) for end in outs], top
