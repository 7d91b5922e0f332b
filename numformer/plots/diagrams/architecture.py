"""The architecture of a model as a diagram of boxes and arrows, drawn from its layers."""

from numformer.analysis.structure.architecture import architecture
from numformer.description import Architecture
from numformer.plots.axes import in_slides, styled
from numformer.plots.diagrams.ink import LARGE, POINTS, Canvas, axes_of, on_slide, wrapped
from numformer.plots.diagrams.layout import GAP, Drawing, Style, aside, series_size, size_of

MARGIN, APART, CHANNEL = 0.3, 1.0, 0.5                        # around all; columns; pieces
TALLEST = 11.0, 14.0, 17.0, 20.0, 23.0                        # inches of a piece of a column
WORDS = {"C": "width C", "H": "heads H", "D": "head width D", "F": "hidden width F",
         "G": "key-value heads G", "V": "vocabulary V", "E": "experts E", "T": "positions T",
         "S": "input positions S", "Q": "object queries Q", "N": "windows N",
         "n": "length of n-grams n"}


@styled
def architecture_diagram(model, ax=None, title="", backward=False, block=None):
    """Boxes and arrows from the input at the bottom to the heads on top.

    A box has the name of its layer, the shape of its output (blue), its sizes, the page that
    defines it (grey) and its number of parameters; "tied" are those that a box before has. Equal
    blocks are drawn once, with their number. A long column is continued to the right. On a slide
    boxes have their names alone, so that the text is large.

    Parameters
    ----------
    model : Architecture, or what `numformer.analysis.architecture` reads
    ax : matplotlib Axes, optional
        Axes to draw on, which the diagram fills; a new figure of fitting size by default, whose
        texts have 12 points.
    title : str
        The number of parameters follows it.
    backward : bool
        Whether to draw the gradients, in orange: an arrow against each of the forward pass, and
        the equations of the backward in each box.
    block : int, optional
        Draw one block alone, with the parts of its layers: 1 is the first that data pass.

    Returns
    -------
    Axes

    Raises
    ------
    TypeError
        If the architecture of the model cannot be read.
    ValueError
        If there is no such block.

    Examples
    --------
    >>> from numformer.models import CONFIGS
    >>> architecture_diagram(CONFIGS["gpt2"], title="GPT-2").get_title()
    'GPT-2: 124,439,808 parameters'
    """
    found = model if isinstance(model, Architecture) and block is None else architecture(
        model, block)
    slide = in_slides() and ax is None
    style = Style(backward, block is not None, slide)
    any_height = [0.25 * k for k in range(6, 80)]
    if slide:
        limits, cost = any_height, lambda plan: on_slide(plan.width, plan.height)
    elif ax is not None:
        room = ax.get_window_extent()
        limits, cost = [*any_height, *TALLEST], lambda plan: max(plan.width / room.width,
                                                                 plan.height / room.height)
    else:
        limits, cost = TALLEST if block is None else [7.0], lambda plan: plan.cost
    plan = min((_Plan(found, style, limit) for limit in limits), key=cost)
    size = plan.width, plan.height
    if slide:
        size = on_slide(*size)
    if block is not None and title:
        title += f", block {block}"
    count = f"{found.parameters:,} parameters"
    ax, scale = axes_of(size, ax, f"{title}: {count}" if title else count)
    trained = any("$" in line for box, _ in found.boxes() for line in box.gradient)
    canvas = Canvas(ax, backward and trained, scale)
    plan.draw(Drawing(canvas, style), (size[0] - plan.width) / 2, (size[1] - plan.height) / 2)
    return ax


class _Plan:
    """Columns cut into pieces of at most `limit` inches, next to each other; and their extent."""

    def __init__(self, found, style, limit):
        self.found, self.style = found, style
        self.columns = [_cut(column.parts, style, limit) for column in found.columns]
        widths = [[series_size(piece, style)[0] + aside(piece, style) for piece in pieces]
                  for pieces in self.columns]
        inner = sum(sum(each) + CHANNEL * (len(each) - 1) for each in widths)
        joint, above = series_size(found.joint, style) if found.joint else (0.0, 0.0)
        self.width = max(inner + APART * (len(widths) - 1), joint) + 2 * MARGIN
        self.points = LARGE if style.brief else POINTS
        self.line = 0.21 * self.points / POINTS
        self.tall = max(series_size(piece, style)[1] for pieces in self.columns for piece in pieces)
        self.above = above
        room = max(self.width, 1.8 * self._height(1)) if style.brief else self.width   # of a slide
        self.sizes = wrapped(_sizes_text(found), room - 2 * MARGIN, self.points)
        self.low, self.height = self._low(len(self.sizes)), self._height(len(self.sizes))

    def _low(self, lines):
        """Inches below the columns, for some lines about sizes."""
        return self.line * lines + 0.24 + self.line

    def _height(self, lines):
        return self._low(lines) + self.tall + self.above + GAP + 0.1

    def _input(self, column):
        """What a column reads, on a slide without its shape."""
        return column.input.partition(" (")[0] if self.style.brief else column.input

    @property
    def cost(self):
        """Low for what fits on a page, with few cuts."""
        cuts = sum(len(pieces) - 1 for pieces in self.columns)
        return max(self.width, self.height / 1.3) + 2 * cuts

    def draw(self, drawing, left, bottom):
        """Draw everything with the lower left corner there."""
        canvas, y = drawing.canvas, bottom + self.low
        for k, line in enumerate(self.sizes):
            canvas.write(left + self.width / 2, y - 0.24 - self.line * (k + 1), line, "blue",
                         self.points)
        x, outputs = left + MARGIN, []
        for column, pieces in zip(self.found.columns, self.columns):
            if outputs:
                x += APART
            drawing.memory_boxes = []
            ends, x = self._column(drawing, column, pieces, x, y)
            for end in outputs[-1] if outputs else ():
                for box in drawing.memory_boxes:
                    highest = max(each[-1][1] for each in outputs[-1])
                    self._memory(canvas, end, box, highest, y)
            outputs.append(ends)
        if self.found.joint:
            read = [end for ends, column in zip(outputs, self.found.columns) if column.input
                    for end in ends]
            centre = (read[0][-1][0] + read[-1][-1][0]) / 2
            outputs = [drawing.series(self.found.joint, centre, y + self.tall, read)[0]]
        for end in outputs[-1]:
            canvas.arrow(*end, (end[-1][0], end[-1][1] + GAP))

    def _column(self, drawing, column, pieces, x, y):
        """Draw the pieces of a column from x on; returns its ends, and where it stops."""
        ends, top, gradient = None, y, column.input.startswith(("image", "x"))
        for piece in pieces:
            width, _ = series_size(piece, self.style)
            centre, channel = x + width / 2, x - CHANNEL / 2
            if ends is None:
                drawing.canvas.write(centre, y - 0.1 * self.points / POINTS, self._input(column),
                                     points=self.points)
                ends = [((centre, y + 0.04),)] if column.input else []
            else:
                end, = ends
                over = top + 0.15
                ends = [(*end, (end[-1][0], over), (channel, over), (channel, y - 0.05),
                         (centre, y - 0.05), (centre, y))]
            ends, top = drawing.series(piece, centre, y, ends, gradient)
            gradient, x = True, x + width + aside(piece, self.style) + CHANNEL
        return ends, x - CHANNEL

    def _memory(self, canvas, end, box, highest, y):
        """The arrow from the end of a column to a box that reads it."""
        (start, _), channel = end[-1], box[0] - 0.6
        across = highest + 0.2
        if channel - start > 0.75 * self.width:                       # over the pieces between
            across = y + self.tall + 0.1
        canvas.arrow(*end, (start, across), (channel, across), (channel, box[1]), box)


def _cut(parts, style, limit):
    """Cut parts into pieces of at most this height, as far as single parts are not higher."""
    pieces, room = [], 0.0
    for part in parts:
        height = size_of(part, style)[1] + GAP
        if not pieces or height > room:
            pieces.append([])
            room = limit
        pieces[-1].append(part)
        room -= height
    return [tuple(piece) for piece in pieces]


def _sizes_text(found):
    sizes = (f"{WORDS[letter]} {size}" if isinstance(size, str)
             else f"{WORDS[letter]} = {size:,}" for letter, size in found.sizes.items())
    return ", ".join(sizes).replace(" ", "\u00a0").replace(",\u00a0", ", ")
