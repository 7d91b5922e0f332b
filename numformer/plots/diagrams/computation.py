"""The computation of one layer as a graph: its statements, its variables, and what it saves."""

import re

from numformer.analysis.structure.computation import computation
from numformer.plots.axes import in_slides, styled
from numformer.plots.diagrams.ink import SMALL, Canvas, Text, axes_of, text_width, wrapped
from numformer.plots.diagrams.layers import ranked

MARGIN, RANKS, WIDEST, APART = 0.25, 0.36, 2.9, 0.7   # inches: around; between ranks; of texts
SHAPES = re.compile(r"\([^()]*\)")
INDICES = re.compile(r"\[[^\[\]]*\]")
ROLES = {"input": ("quiet", "grey"), "value": ("ground", "grey"), "saved": ("pale", "blue"),
         "output": ("ground", "ink"), "gradient": ("ground", "orange")}


def computation_graph(layer, *inputs, ax=None, title="", backward=False, **options):
    """Draw what a layer computes: the mathematics, from its code and from one run.

    Each step is a field, with its formula above the variables that it makes and their shapes; the
    parts of attention and sublayers have their names, too. Pale blue variables are kept for the
    backward. Checks, faster ways to the same numbers and what chooses between them are left out:
    see `numformer.analysis.computation`. With `backward`, its steps mirror those of the forward:
    they are read upwards.

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
    graphs = [_Graph(each) for each in found if each is not None]
    kept = graphs[0].found.saved.strip("()")
    saved = wrapped(f"kept for the backward: {kept}", max(graphs[0].width - 0.3, WIDEST))
    low = (0.21 * len(saved) + 0.75) if graphs[0].found.saved else 0.2
    wide = max(graphs[0].width, *(text_width(line) + 0.3 for line in saved))
    heights = [graphs[0].height + low, *(graph.height + 0.5 for graph in graphs[1:])]
    width = wide + 2 * MARGIN + sum(APART + graph.width for graph in graphs[1:])
    height = max(heights) + 0.5
    size = (width, height)
    if in_slides():
        size = max(width, height * 16 / 9), max(height, width * 9 / 16)
    ax, scale = axes_of(size, ax, title)
    canvas, left = Canvas(ax, scale=scale), (size[0] - width) / 2 + MARGIN
    bottom = (size[1] - height) / 2
    top = bottom + height - 0.35
    for graph, x, centre in zip(graphs, (left, left + wide + APART),
                                (left + wide / 2, left + wide + APART + graphs[-1].width / 2)):
        canvas.write(centre, top + 0.15, f"{graph.found.function}   {graph.found.page}", "grey",
                     SMALL)
    graphs[0].draw(canvas, left + (wide - graphs[0].width) / 2, top, -1)
    if graphs[0].found.saved:
        box = 0.21 * len(saved) + 0.14
        y = bottom + 0.12
        canvas.box(left + wide / 2, y, wide, box, [Text(line) for line in saved], "pale", "blue")
    if len(graphs) > 1:
        x = left + wide + APART
        graphs[1].draw(canvas, x, bottom + 0.35, 1, "orange")
    return ax


class _Graph:
    """Fields and edges of one function; `draw` places them from a first rank on, down or up."""

    def __init__(self, found):
        self.found = found
        made = {index for step in found.steps for index in step.makes}
        fields = [("", "", (), (index,)) for index in range(len(found.variables))
                  if index not in made]
        self.fields = fields + [tuple(step) for step in found.steps]
        owner = {index: k for k, (_, _, _, makes) in enumerate(self.fields) for index in makes}
        edges = [(owner[index], k) for k, (_, _, reads, _) in enumerate(self.fields)
                 for index in reads if owner[index] < k]
        self.reads = {(owner[index], k): [] for k, (_, _, reads, _) in enumerate(self.fields)
                      for index in reads if owner[index] < k}
        for k, (_, _, reads, _) in enumerate(self.fields):
            for index in reads:
                if owner[index] < k:
                    self.reads[owner[index], k].append(index)
        self.sizes = [self._size(field) for field in self.fields]
        self.places, self.lines = ranked([width for width, _ in self.sizes], edges)
        self.ranks = [max(self.sizes[k][1] for k, place in enumerate(self.places)
                          if place.rank == rank)
                      for rank in range(max(place.rank for place in self.places) + 1)]
        self.width = max([place.x + size[0] / 2 for place, size in zip(self.places, self.sizes)]
                         + [place.x + 0.1 for line in self.lines.values() for place in line])
        self.height = sum(self.ranks) + RANKS * (len(self.ranks) - 1)

    def _size(self, field):
        *_, makes = field
        lines = self._lines(field)
        chips = [self._chip(index)[0] for index in makes]
        width = max([sum(chips) + 0.1 * (len(chips) - 1), *(line.width for line in lines)]) + 0.2
        tall = max([self._chip(index)[1] for index in makes], default=0.0)
        return (width, 0.21 * len(lines) + tall + 0.22) if lines else (sum(chips), tall)

    @staticmethod
    def _lines(field):
        """The name and the formula of a step, in lines of text."""
        name, text, *_ = field
        text = INDICES.sub(lambda found: found[0].replace(" ", "\u00a0"), text)
        named = [Text(line, colour="grey", points=SMALL) for line in wrapped(name, WIDEST, SMALL)]
        return named + [Text(line) for line in wrapped(text, WIDEST)]

    def _chip(self, index):
        """(width, height, lines) of a variable."""
        variable = self.found.variables[index]
        texts = [Text(variable.name, bold=True)]
        unbroken = SHAPES.sub(lambda found: found[0].replace(" ", "\u00a0"), variable.content)
        texts += [Text(line) for line in wrapped(unbroken, 1.9)]
        return (max(text.width for text in texts) + 0.2, sum(text.height for text in texts) + 0.1,
                texts)

    def draw(self, canvas, left, start, direction, colour="ink"):
        """From the rank at y = start on, downwards for direction -1, upwards for 1."""
        edge = [start]
        for height in self.ranks:
            edge.append(edge[-1] + direction * (height + RANKS))
        ends, bounds = {}, []
        for field, place, (width, height) in zip(self.fields, self.places, self.sizes):
            near = edge[place.rank]
            low = near if direction > 0 else near - height
            ends |= self._field(canvas, field, left + place.x, low, width, height, direction)
            bounds.append((near, near + direction * height))
        lines = []
        for (first, last), reads in self.reads.items():
            for index in reads:
                points = [ends[index]]
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

    def _field(self, canvas, field, x, y, width, height, direction):
        """One field with its lower edge at y; returns where arrows from its variables begin."""
        *_, makes = field
        chips, lines = [self._chip(index) for index in makes], self._lines(field)
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
        for index, (wide, high, texts) in zip(makes, chips):
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
