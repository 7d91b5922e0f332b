"""What a diagram of a model consists of: boxes, rows, residual connections, stacks, columns."""

from typing import NamedTuple


class Box(NamedTuple):
    """A layer or a function of a model.

    Parameters
    ----------
    name : str
        In the field's words.
    detail : str
        Its sizes and options.
    shape : tuple of str and int
        Of its output; letters as in `Architecture.sizes`.
    parameters : int
        How many it has that no box before it has: a tied one is counted once.
    path : str
        The layer's name in the model, as in `named_layers`; empty for a function.
    page : str
        The file that defines it, below ``numformer/``.
    kind : str
        The class, or the function: the key of its backward equations.
    reads_memory : bool
        Whether it also reads the output of the column before.
    reads_input : bool
        Whether it reads the output of the part before; False for keys of another column alone.
    tied : bool
        Whether it has parameters, but all of them are those of boxes before it.
    """

    name: str
    detail: str
    shape: tuple
    parameters: int
    path: str
    page: str
    kind: str
    reads_memory: bool = False
    reads_input: bool = True
    tied: bool = False


class Row(NamedTuple):
    """Series of parts next to each other: all read the same input, the next part reads them all."""

    series: tuple


class Residual(NamedTuple):
    """Parts in series, and the sum of their output with their input."""

    parts: tuple


class Stack(NamedTuple):
    """Equal blocks, `repeat` of them, each of these parts; `shared` boxes serve all of them."""

    repeat: int
    parts: tuple
    shared: tuple = ()


class Column(NamedTuple):
    """Parts in series from an input on, the name of which is `input`."""

    input: str
    parts: tuple


class Architecture(NamedTuple):
    """Columns next to each other, and parts that read the output of each.

    Parameters
    ----------
    columns : tuple of Column
        Without `joint` parts, the last one makes the output.
    joint : tuple
        Parts after all columns, such as the similarity of CLIP.
    sizes : dict of str to int or str
        What the letters of shapes mean in this model, such as C: 768, or T: "up to 1,024".
    """

    columns: tuple
    joint: tuple
    sizes: dict

    @property
    def parameters(self):
        """Their number: the sum over all boxes, a block as often as it is repeated."""
        return sum(box.parameters * times for box, times in self.boxes())

    def boxes(self):
        """All (box, how often it is there), from the input on."""
        for column in self.columns:
            yield from boxes_of(column.parts)
        yield from boxes_of(self.joint)


def boxes_of(parts, times=1):
    """All (box, how often it is there) of parts in series.

    Examples
    --------
    >>> box = Box("Linear", "", ("B", "C"), 6, "", "layers/linear.py", "Linear")
    >>> list(boxes_of((box, Stack(3, (Residual((box,)),)))))[1][1]
    3
    """
    for part in parts:
        if isinstance(part, Box):
            yield part, times
        elif isinstance(part, Row):
            for series in part.series:
                yield from boxes_of(series, times)
        elif isinstance(part, Residual):
            yield from boxes_of(part.parts, times)
        else:
            yield from boxes_of(part.parts, times * part.repeat)
            yield from boxes_of(part.shared, times)
