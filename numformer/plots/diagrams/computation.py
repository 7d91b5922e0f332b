"""The computation of one layer as a graph: its statements, its variables, and what it saves."""

import re
from itertools import groupby
from typing import NamedTuple

from numformer.analysis.structure.computation import computation
from numformer.plots.axes import in_slides, styled
from numformer.plots.diagrams.ink import SMALL, Canvas, Text, axes_of, on_slide, text_width, wrapped
from numformer.plots.diagrams.layers import ranked

MARGIN, RANKS, WIDEST, APART = 0.25, 0.36, 2.9, 0.7   # inches: around; between ranks; of texts
FRAME = 0.16                                          # inches: between a loop's frame and its steps
SHAPES = re.compile(r"\([^()]*\)")
BREAK = "\u200b"                                      # where a formula can end a line
INDICES = re.compile(r"\[[^\[\]]*\]")
ROLES = {"input": ("quiet", "grey"), "value": ("ground", "grey"), "saved": ("pale", "blue"),
         "output": ("ground", "ink"), "gradient": ("ground", "orange")}


def computation_graph(layer, *inputs, ax=None, title="", backward=False, **options):
    """Draw what a layer computes: the mathematics, from its code and from one run.

    Each step is a field, with its formula above the variables that it makes and their shapes; the
    parts of attention and sublayers have their names, too. Pale blue variables are kept for the
    backward. Checks, faster ways to the same numbers and what chooses between them are left out:
    see `numformer.analysis.computation`. A loop is a dashed frame around one of its steps: "for
    each t, state ← after" says that the next step reads `after` where this one reads `state`. With
    `backward`, its steps mirror those of the forward: they are read upwards.

    Parameters
    ----------
    layer : Layer
    *inputs
        Of ``layer.forward``; small ones will do.
    ax : matplotlib Axes, optional
        Axes to draw on; a new figure of fitting size by default, whose texts have 12 points.
    title : str
        By default the layer's class.
    backward : bool
        Whether to draw the backward too, in orange.
    **options
        Of ``layer.forward``.

    Returns
    -------
    Axes

    Raises
    ------
    TypeError
        If it is no layer with a forward and a backward.

    Examples
    --------
    >>> import numpy as np
    >>> from numformer.layers import LayerNorm
    >>> ax = computation_graph(LayerNorm(3), np.ones((2, 3), np.float32))
    >>> "rstd" in [text.get_text() for text in ax.texts]
    True
    """
    found = computation(layer, *inputs, backward=backward, **options)
    return draw_computation(found, type(layer).__name__ if not title else title, ax)


@styled
def draw_computation(found, title, ax=None):
    """Draw what `numformer.analysis.computation` returned: (forward, backward or None)."""
    graphs = [_Graph(each) for each in found if each is not None and each.variables]
    kept = graphs[0].found.saved.strip("()")
    saved = wrapped(f"kept for the backward: {kept}", max(graphs[0].width - 0.3, WIDEST))
    low = (0.21 * len(saved) + 0.75) if graphs[0].found.saved else 0.2
    headings = [f"{graph.found.function}   {graph.found.page}" for graph in graphs]
    widths = [max(graph.width, text_width(heading, SMALL)) for graph, heading in zip(
        graphs, headings)]
    wide = max(widths[0], *(text_width(line) + 0.3 for line in saved))
    heights = [graphs[0].height + low, *(graph.height + 0.5 for graph in graphs[1:])]
    width = wide + 2 * MARGIN + sum(APART + each for each in widths[1:])
    height = max(heights) + 0.5
    size = (width, height)
    if in_slides() and ax is None:
        size = on_slide(*size)
    ax, scale = axes_of(size, ax, title)
    canvas, left = Canvas(ax, scale=scale), (size[0] - width) / 2 + MARGIN
    bottom = (size[1] - height) / 2
    top = bottom + height - 0.35
    centres = left + wide / 2, left + wide + APART + widths[-1] / 2
    for heading, centre in zip(headings, centres):
        canvas.write(centre, top + 0.15, heading, "grey", SMALL)
    graphs[0].draw(canvas, left + (wide - graphs[0].width) / 2, top, -1)
    if graphs[0].found.saved:
        box = 0.21 * len(saved) + 0.14
        y = bottom + 0.12
        canvas.box(left + wide / 2, y, wide, box, [Text(line) for line in saved], "pale", "blue")
    if len(graphs) > 1:
        graphs[1].draw(canvas, centres[1] - graphs[1].width / 2, bottom + 0.35, 1, "orange")
    return ax


class _Field(NamedTuple):
    """What is drawn at one place: variables alone, a step with those that it makes, or a loop."""

    lines: tuple                                      # of text above the variables
    reads: tuple
    makes: tuple
    loop: "_Graph | None" = None                      # of the steps that are repeated


class _Graph:
    """Fields and edges of one function; `draw` places them from a first rank on, down or up.

    Parameters
    ----------
    found : Computation
    repeated : list of Step
        Draw these alone, which a loop repeats, with the variables that they read.
    """

    def __init__(self, found, repeated=()):
        self.found = found
        steps = [_Field(tuple(self._lines(step)), step.reads, step.makes) for step in repeated]
        for loop, group in groupby(() if repeated else found.steps, lambda step: step.loop):
            group = list(group)
            if not loop:
                steps += [_Field(tuple(self._lines(step)), step.reads, step.makes)
                          for step in group]
                continue
            inner = _Graph(found, group)
            lines = wrapped(loop, max(inner.width, WIDEST), SMALL)
            made = {index for step in group for index in step.makes}
            read = dict.fromkeys(index for step in group for index in step.reads)
            steps.append(_Field(tuple(Text(line, colour="grey", points=SMALL) for line in lines),
                                tuple(index for index in read if index not in made),
                                tuple(made), inner))
        made = {index for step in steps for index in step.makes}
        inside = {index for field in steps if field.loop for index in field.reads}
        outside = {index for field in steps if not field.loop for index in field.reads}
        first = [index for index in range(len(found.variables)) if index not in made and (
            index in outside or not repeated and index not in inside)]
        self.fields = [_Field((), (), (index,)) for index in first] + steps
        owner = {index: k for k, field in enumerate(self.fields) for index in field.makes}
        self.reads = {}
        for k, field in enumerate(self.fields):
            for index in field.reads:
                if owner.get(index, k) < k:
                    self.reads.setdefault((owner[index], k), []).append(index)
        self.sizes = [self._size(field) for field in self.fields]
        self.places, self.lines = ranked([width for width, _ in self.sizes], list(self.reads))
        self.ranks = [max(self.sizes[k][1] for k, place in enumerate(self.places)
                          if place.rank == rank)
                      for rank in range(max(place.rank for place in self.places) + 1)]
        self.width = max([place.x + size[0] / 2 for place, size in zip(self.places, self.sizes)]
                         + [place.x + 0.1 for line in self.lines.values() for place in line])
        self.height = sum(self.ranks) + RANKS * (len(self.ranks) - 1)

    def _size(self, field):
        wide, tall = max((line.width for line in field.lines), default=0.0), 0.21 * len(field.lines)
        if field.loop is not None:
            return max(field.loop.width, wide) + 2 * FRAME, field.loop.height + tall + 2 * FRAME
        chips = [self._chip(index) for index in field.makes]
        width = max(sum(chip[0] for chip in chips) + 0.1 * (len(chips) - 1), wide)
        high = max((chip[1] for chip in chips), default=0.0)
        return (width + 0.2, tall + high + 0.22) if field.lines else (width, high)

    @staticmethod
    def _lines(step):
        """The name and the formula of a step, in lines of text."""
        named = [Text(line, colour="grey", points=SMALL)
                 for line in wrapped(step.name, WIDEST, SMALL)]
        return named + [Text(line) for line in formula_lines(step.text)]

    def _chip(self, index):
        """(width, height, lines) of a variable."""
        variable = self.found.variables[index]
        texts = [Text(variable.name, bold=True)]
        unbroken = SHAPES.sub(lambda found: found[0].replace(" ", "\u00a0"), variable.content)
        texts += [Text(line) for line in wrapped(unbroken, 1.9)]
        return (max(text.width for text in texts) + 0.2, sum(text.height for text in texts) + 0.1,
                texts)

    def draw(self, canvas, left, start, direction, colour="ink"):
        """From the rank at y = start on, downwards for direction -1, upwards for 1.

        Returns where arrows from the variables begin: {index: (x, y)}.
        """
        edge = [start]
        for height in self.ranks:
            edge.append(edge[-1] + direction * (height + RANKS))
        ends, bounds = {}, []
        for field, place, (width, height) in zip(self.fields, self.places, self.sizes):
            near = edge[place.rank]
            low = near if direction > 0 else near - height
            draw = self._loop if field.loop is not None else self._field
            ends |= draw(canvas, field, left + place.x, low, width, height, direction, colour)
            bounds.append((near, near + direction * height))
        lines = []
        for (first, last), reads in self.reads.items():
            for index in reads:
                points, far = [ends[index]], edge[self.places[first].rank] + direction * (
                    self.ranks[self.places[first].rank])
                if abs(far - points[0][1]) > RANKS:   # straight past what is higher, as a loop is
                    points.append((points[0][0], far))
                for place in self.lines.get((first, last), ()):
                    near = edge[place.rank]
                    points += [(left + place.x, near), (left + place.x, near + direction
                                                        * self.ranks[place.rank])]
                lines.append((last, points[-1][0], index, points))
        for last in {line[0] for line in lines}:
            into = sorted(line[1:] for line in lines if line[0] == last)
            width = self.sizes[last][0] - 0.3
            for k, (_, index, points) in enumerate(into):
                to = left + self.places[last].x + width * ((k + 0.5) / len(into) - 0.5)
                kept = self.found.variables[index].role == "saved"
                canvas.line([*points, (to, bounds[last][0])], "blue" if kept else colour)
        return ends

    def _loop(self, canvas, field, x, y, width, height, direction, colour):
        """A frame with its lower edge at y, its name where one reads first, and the steps in it."""
        canvas.frame(x - width / 2, y, x + width / 2, y + height)
        tall = 0.21 * len(field.lines)
        top = y + height - FRAME / 2 if direction < 0 else y + tall + FRAME / 2
        for k, line in enumerate(field.lines):
            canvas.write(x - width / 2 + FRAME, top - 0.21 * (k + 0.5), line.left, line.colour,
                         line.points, ha="left", zorder=4)
        start = y + height - FRAME - tall if direction < 0 else y + FRAME + tall
        ends = field.loop.draw(canvas, x - field.loop.width / 2, start, direction, colour)
        edge, last = y if direction < 0 else y + height, len(field.loop.ranks) - 1
        lowest = {index for inner, place in zip(field.loop.fields, field.loop.places)
                  if place.rank == last for index in inner.makes}
        return {index: ends[index] if index in lowest else (ends[index][0], edge)
                for index in field.makes}

    def _field(self, canvas, field, x, y, width, height, direction, colour):
        """One field with its lower edge at y."""
        chips, lines = [self._chip(index) for index in field.makes], field.lines
        ends, inner = {}, sum(chip[0] for chip in chips) + 0.1 * (len(chips) - 1)
        if lines:
            canvas.box(x, y, width, height, [], "quiet", "quiet")
            first = y + height - 0.06 if direction < 0 else y + 0.21 * len(lines) + 0.05
            for k, line in enumerate(lines):
                canvas.write(x, first - 0.21 * (k + 0.5), line.left, line.colour, line.points,
                             zorder=4)
        across, tall = x - inner / 2, max((chip[1] for chip in chips), default=0.0)
        room = 0.08 if lines else 0.0
        low = y + room if direction < 0 else y + height - room - tall
        for index, (wide, high, texts) in zip(field.makes, chips):
            role = self.found.variables[index].role
            face, line = ROLES[role]
            if direction > 0 and role in ("value", "output", "gradient"):
                line = "orange"
            base = low if direction > 0 else low + tall - high
            canvas.box(across + wide / 2, base, wide, high, texts, face, line, centred=True,
                       order=3)
            centre = across + wide / 2
            ends[index] = centre, (base if direction < 0 else base + high)
            across += wide + 0.1
        return ends


def formula_lines(text):
    """A formula in lines that fit a field: between words, else in indices, else in calls.

    Examples
    --------
    >>> formula_lines("a + b")
    ['a + b']
    >>> formula_lines("relative_position_buckets(distance, n_buckets)")
    ['relative_position_buckets(', 'distance, n_buckets)']
    """
    whole = INDICES.sub(lambda found: found[0].replace(" ", "\u00a0"), text)
    for each in (whole, text, re.sub(r"(?<=[(\[])(?=[^)\]])", BREAK + " ", text)):
        lines = wrapped(each, WIDEST)
        if all(text_width(line.replace(BREAK, "")) <= WIDEST for line in lines):
            break
    return [line.replace(BREAK + " ", "").replace(BREAK, "") for line in lines]
